//! `strata sim --guard`: a guard instead of policies.
//!
//! **Owns** how a guard is written and what is told of it. **Does not own** the play (`strata_sim::guarded`), nor
//! promises as `strata guard` reads them (`guard`).

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use strata_linux::units::Bytes;
use strata_sim::guarded::{
    GuardSetup, Guarded, GuardedGroup, Moment, Promise, Recorded, STALL_SHARE, guarded,
};
use strata_sim::table::aligned;
use strata_sim::{CostModel, Workload};

use crate::args::{Format, parse_duration_ms, promise_arg};
use crate::duration::span;
use crate::failure::UsageError;
use crate::print;
use crate::progress::Bar;
use crate::source::SourceArgs;

/// Memory is never idle that was accessed within so long, where nothing is said: as under `strata guard`.
const MIN_AGE_MS: u64 = 60_000;
/// Moments of a group that are printed.
const NR_MOMENTS_TOLD: usize = 12;

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    /// An object a trace.
    guards: Vec<Guarded>,
}

/// Plays a guard on each trace and prints.
pub(super) fn run(
    traces: &[String],
    source: &SourceArgs,
    setup: &GuardSetup,
    cost: &CostModel,
    format: Format,
) -> anyhow::Result<ExitCode> {
    let mut guards = Vec::new();
    for trace in traces {
        let mut opened = source.open(trace)?;
        let workload = Workload::read_within(trace, opened.reader.as_mut(), opened.bound.0)?;
        let recorded = opened.reader.recording().and_then(Recorded::of);
        drop(opened);
        source.bound()?.check_replay(&workload)?;
        let bar = Bar::requests(trace, u64::from(workload.nr_requests()));
        let guarded = guarded(&workload, setup, recorded, cost, &bar);
        guards.push(guarded.map_err(|error| UsageError(error.to_string()))?);
        bar.finish();
    }
    let report = Report { guards };
    print::pretty_answer(format, &report, || {
        let texts: Vec<String> = report.guards.iter().map(text).collect();
        texts.join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Reads `promise=0.2%/min,min_age=60s,interval=10s`.
pub(super) fn guard_arg(text: &str) -> Result<GuardSetup, String> {
    let (mut share_per_min, mut min_age_ms, mut interval_ms) = (None, MIN_AGE_MS, None);
    for piece in text.split(',') {
        match piece.split_once('=') {
            Some(("promise", share)) => share_per_min = Some(promise_arg(share)?),
            Some(("min_age", age)) => min_age_ms = parse_duration_ms(age)?,
            Some(("interval", interval)) => interval_ms = Some(parse_duration_ms(interval)?),
            _ => {
                return Err(format!(
                    "{piece:?} is no setting of a guard: promise=SHARE/min, min_age=DURATION, interval=DURATION"
                ));
            }
        }
    }
    let promise = Promise {
        share_per_min: share_per_min
            .ok_or("a guard needs a promise, for example promise=0.2%/min")?,
        min_age: Duration::from_millis(min_age_ms),
        stall_share: STALL_SHARE,
    };
    let interval = interval_ms.map(Duration::from_millis);
    Ok(GuardSetup {
        promise,
        walk_interval: interval.unwrap_or_else(|| promise.walk_interval()),
    })
}

/// For people.
fn text(guarded: &Guarded) -> String {
    let mut text = format!(
        "{}: {}, {} walks, one every {}; at most {} % of a group may come back within a minute\n",
        guarded.trace,
        span(guarded.duration_ms),
        guarded.nr_walks,
        span(guarded.walk_interval_ms),
        promised_percent(guarded),
    );
    if guarded.nr_unmapped_accesses > 0 {
        text.push_str(&format!(
            "{} accesses through descriptors are left out: a guard does not see them\n",
            guarded.nr_unmapped_accesses
        ));
    }
    text.push_str(&too_short(guarded).unwrap_or_default());
    let head = " group| footprint|  resident|      away|    at end| came back|worst min| resting| faults|    cost";
    text.push('\n');
    text.push_str(&aligned(head, guarded.groups.iter().map(row)));
    if let [group] = &guarded.groups[..] {
        let head =
            "      time|  resident|      away|could give|  back/min|   may/min| idle at|files at";
        let every = group.over_time.len().div_ceil(NR_MOMENTS_TOLD).max(1);
        let moments = group.over_time.iter().step_by(every);
        let before = moments.filter(|moment| moment.at_ms < group.at_end.at_ms);
        let moments = before.chain([&group.at_end]).map(moment);
        text.push('\n');
        text.push_str(&aligned(head, moments));
    }
    text
}

/// The promise in percent, as it was written.
pub(super) fn promised_percent(guarded: &Guarded) -> f64 {
    (guarded.promise_share_per_min * 1e8).round() / 1e6
}

fn row(group: &GuardedGroup) -> [String; 10] {
    let bytes = |bytes: u64| Bytes(bytes).to_string();
    [
        group.group.to_string(),
        bytes(group.footprint_mean_bytes),
        bytes(group.resident_mean_bytes),
        bytes(group.away_mean_bytes),
        bytes(group.at_end.away_bytes),
        bytes(group.came_back_bytes),
        group.came_back_worst_min.percent(),
        seconds(group.resting_ms),
        group.faults.iter().sum::<u64>().to_string(),
        format!("{} ms", group.fault_ns / 1_000_000),
    ]
}

fn seconds(ms: u64) -> String {
    format!("{}.{} s", ms / 1000, ms % 1000 / 100)
}

fn moment(moment: &Moment) -> [String; 8] {
    let bytes = |bytes: u64| Bytes(bytes).to_string();
    [
        seconds(moment.at_ms),
        bytes(moment.resident_bytes),
        bytes(moment.away_bytes),
        bytes(moment.could_give_bytes),
        bytes(moment.came_back_per_min_bytes),
        bytes(moment.allowed_per_min_bytes),
        seconds(moment.age_anon_ms),
        seconds(moment.age_file_ms),
    ]
}

/// Where nothing could have been idle for long enough, that this is so.
pub(super) fn too_short(guarded: &Guarded) -> Option<String> {
    let is_too_short = guarded.duration_ms < guarded.min_age_ms;
    is_too_short.then(|| {
        format!(
            "{} is {} long: nothing can be known to be idle for {}\n",
            guarded.trace,
            span(guarded.duration_ms),
            span(guarded.min_age_ms),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_a_promise_with_an_age_and_an_interval() {
        let setup = guard_arg("promise=0.2%/min").unwrap();
        let seconds = Duration::from_secs;
        assert_eq!(setup.promise.min_age, seconds(60));
        assert_eq!(setup.walk_interval, seconds(10));
        let setup = guard_arg("promise=1%/min,min_age=2m,interval=5s").unwrap();
        assert_eq!(setup.promise.share_per_min, 0.01);
        assert_eq!(
            (setup.promise.min_age, setup.walk_interval),
            (seconds(120), seconds(5))
        );
    }
}
