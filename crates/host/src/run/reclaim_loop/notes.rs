//! What a tick notes for the trace.
//!
//! **Owns** these notes. **Does not own** what is decided (`strata_control`), nor the trace (`run::trace`).

use super::ReclaimLoop;
use crate::access::ClearIntent;
use crate::actuator::PageoutRequest;
use crate::pages::walk::WalkReport;
use crate::run::trace::{
    self, Batch, ChosenBy, EngineSample, ProgramPages, Reclaimer, WalkEnd, WalkSample,
};
use strata_control::Decision;

impl ReclaimLoop {
    /// Notes who reclaims, with how much, and whether that gets anywhere.
    pub(super) fn note_decision(&self, decision: &Decision, freed_bytes: u64) {
        let Decision {
            asked,
            is_stalled,
            stall_pause_ms,
        } = *decision;
        self.recorder.note(|tick| {
            tick.plan.reclaimer = Some(Reclaimer {
                who: self.groups.root().reclaimer().into(),
                pageout_pages: asked.pageout_pages,
                reclaim_bytes: asked.kernel_bytes,
                wait_ms: asked.wait_ms,
            });
            let stats = self.group.tracker.stats().unwrap_or_default();
            tick.sample.engine = Some(EngineSample {
                nr_attempts: self.nr_attempts,
                freed_bytes,
                nr_isolated_pages: stats.nr_isolated_pages,
                nr_evicted_pages: stats.nr_evicted_pages.iter().sum(),
                nr_kernel_evicted_pages: stats.nr_kernel_evicted_pages.iter().sum(),
                is_batch_out: self.group.tracker.is_batch_out(),
            });
            (tick.plan.is_stalled, tick.plan.stall_pause_ms) = (is_stalled, stall_pause_ms);
        });
    }

    /// Notes what the engine was asked for, and what it gave.
    pub(super) fn note_batch(
        &self,
        by: ChosenBy,
        nr_wanted_pages: Option<u64>,
        answer: trace::Answer,
        requests: &[PageoutRequest],
    ) {
        self.recorder.note(|tick| {
            let nr_folios: usize = requests.iter().map(|request| request.pages.len()).sum();
            tick.plan.batches.push(Batch {
                by,
                nr_wanted_pages,
                answer,
                nr_sent_folios: nr_folios as u64,
                nr_requests: requests.len() as u64,
            });
        });
    }

    /// Notes a walk that was made just now. What follows it is noted by [`ReclaimLoop::note_walk_end`].
    pub(super) fn note_walk(&self, before: WalkReport, clear: ClearIntent, thorough: bool) {
        self.recorder.note(|tick| {
            let after = self.group.walk_sums();
            let (cpu_ns, wall_ns) = self.group.last_walk_ns();
            let spaces = self.group.tracker.spaces().iter();
            let pages = spaces.map(|(number, space)| ProgramPages {
                program: number.0,
                nr_resident_pages: space.findings.nr_resident_pages,
                nr_young_pages: space.findings.nr_young_pages,
            });
            tick.sample.walks.push(WalkSample {
                nr_spaces: after.nr_spaces - before.nr_spaces,
                nr_spaces_skipped: after.nr_spaces_skipped - before.nr_spaces_skipped,
                nr_entries: after.cost.nr_entries - before.cost.nr_entries,
                cpu_ns,
                wall_ns,
                pace_ms: self.group.pace_ms(),
                found: self.group.tracker.findings(),
                programs: pages.collect(),
                foretold: self.group.tracker.foretold().into(),
            });
            tick.plan.walks.push(trace::WalkPlan {
                is_thorough: thorough,
                clear: self.group.has_cleared().then(|| clear.into()),
                then: WalkEnd::Age,
            });
        });
    }

    /// Notes what follows the walk that was noted last.
    pub(super) fn note_walk_end(&self, then: WalkEnd) {
        self.recorder.note(|tick| {
            if let Some(walk) = tick.plan.walks.last_mut() {
                walk.then = then;
            }
        });
    }
}
