//! What the host's own types are called in a trace.
//!
//! **Owns** these translations, so that types of the host can be renamed and the format stays. **Does not own** either, nor
//! what the types of the loop are called (`strata_control::trace`).

use super::{Obstacle, PageoutReport, PolicyName, ReclaimFailure, ReclaimReport, Verdicts};
use crate::run::config::PolicyChoice;
use strata_linux::actuator::{self, PageoutError, ShrinkOutcome};
use strata_linux::cgroup::ReclaimError;

fn obstacle(error: &PageoutError) -> Obstacle {
    match error {
        PageoutError::NoSpace(_) | PageoutError::NotPermitted(_) => Obstacle::Lasting,
        _ => Obstacle::Passing,
    }
}

pub(crate) fn pageout_report(report: &actuator::PageoutReport) -> PageoutReport {
    let mut verdicts = Verdicts::default();
    for (_, verdict) in &report.results {
        verdicts.count(*verdict);
    }
    PageoutReport {
        nr_folios: report.results.len() as u64,
        nr_tried_pages: report.nr_tried_pages,
        nr_evicted_pages: report.nr_evicted_pages,
        verdicts,
        wall_ns: report.wall_ns,
        cpu_ns: report.cpu_ns,
        obstacle: report.error.as_ref().map(obstacle),
    }
}

pub(crate) fn reclaim_report(outcome: &ShrinkOutcome, asked_bytes: u64) -> ReclaimReport {
    let failure = |error: &ReclaimError| match error {
        ReclaimError::Outpaced(_) => ReclaimFailure::Outpaced,
        ReclaimError::AtFloor(_) => ReclaimFailure::AtFloor,
        _ => ReclaimFailure::NothingFound,
    };
    ReclaimReport {
        asked_bytes,
        freed_bytes: outcome.result.as_ref().ok().copied(),
        failure: outcome.result.as_ref().err().map(failure),
        wall_ns: outcome.wall_ns,
        cpu_ns: outcome.cpu_ns,
    }
}

impl From<&PolicyChoice> for PolicyName {
    fn from(policy: &PolicyChoice) -> PolicyName {
        match policy {
            PolicyChoice::Engine(spec) => PolicyName::Engine(spec.to_string()),
            PolicyChoice::None => PolicyName::None,
        }
    }
}
