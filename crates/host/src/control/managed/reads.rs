//! What a tick reads of the engine and of the machine, and what it asks of the kernel; noted for the trace.
//!
//! **Owns** these readings. **Does not own** what is decided by them (`managed`, `governor`, `stall`), nor the
//! trace (`control::trace`).

use super::super::governor::Plan;
use super::super::trace::{
    self, Batch, ChosenBy, EngineSample, Members, ProgramPages, ReclaimAsk, Reclaimer, WalkEnd,
    WalkSample, Who,
};
use super::{Managed, PAGE_BYTES, SWAP_BYTES_MIN, SWAP_CHECK_MS};
use crate::access::ClearIntent;
use crate::actuator::PageoutRequest;
use crate::swap;
use strata_control::stall::Sample;
use strata_lru::{Ageing, Swappiness, TimeMs};

impl Managed {
    /// What pageout and the kernel freed when asked; pages the kernel took by itself are no success
    /// of ours.
    pub(super) fn freed_bytes(&self) -> u64 {
        let stats = self.tracker.stats().unwrap_or_default();
        let nr_pages: u64 = stats.nr_evicted_pages.iter().sum();
        nr_pages * PAGE_BYTES + self.eviction.reclaim_freed_bytes
    }

    /// Whether `min_ttl` protects everything. The engine would refuse to take any of it; the kernel,
    /// which knows no such promise, must not be asked instead.
    pub(super) fn is_all_young(&self, now: TimeMs) -> bool {
        if self.min_ttl_ms == 0 {
            return false;
        }
        let Ok(views) = self.tracker.view(now) else {
            return false;
        };
        let has_pages = |pages: Option<u64>| pages.unwrap_or(0) > 0;
        let mut generations = views.iter().flat_map(|view| &view.generations);
        let is_all_young = generations.all(|generation| {
            generation.age_ms < self.min_ttl_ms || !generation.nr_pages.into_iter().any(has_pages)
        });
        self.recorder
            .note(|tick| tick.sample.is_all_young = Some(is_all_young));
        is_all_young
    }

    pub(super) fn ask_kernel(&mut self, now: TimeMs, plan: &Plan) {
        let is_taken = match &mut self.shrink {
            Some(shrink) if !self.is_dry_run && !self.shrink_backoff.holds(now) => {
                shrink.try_submit(plan.shrink_bytes)
            }
            _ => false,
        };
        if is_taken {
            self.eviction.reclaim_asked_bytes += plan.shrink_bytes;
        }
        let ask = ReclaimAsk {
            bytes: plan.shrink_bytes,
            is_taken,
        };
        self.recorder.note(|tick| tick.plan.reclaim = Some(ask));
    }

    pub(super) fn refresh_swappiness(&mut self, now: TimeMs) {
        if self
            .swap_checked
            .is_some_and(|then| now.since(then) < SWAP_CHECK_MS)
        {
            return;
        }
        self.swap_checked = Some(now);
        let free_bytes = swap::known_free_swap_bytes();
        let can_swap = free_bytes.is_none_or(|free_bytes| free_bytes >= SWAP_BYTES_MIN);
        self.effective_swappiness = match Swappiness::try_new(0) {
            Some(never) if !can_swap => never,
            _ => self.swappiness,
        };
        self.recorder.note(|tick| {
            tick.sample.free_swap = Some(free_bytes.into());
            tick.plan.swappiness = Some(self.effective_swappiness.get());
        });
    }

    /// Whether the engine wants a new generation.
    pub(super) fn is_ageing_due(&self) -> bool {
        let ageing = self.tracker.ageing(self.effective_swappiness);
        let is_due = matches!(ageing, Ok(Ageing::Due));
        self.recorder
            .note(|tick| tick.sample.is_ageing_due = Some(is_due));
        is_due
    }

    /// Notes who reclaims, and with how much.
    pub(super) fn note_reclaimer(&self, plan: &Plan) {
        let who = match () {
            () if self.governor.is_left_to_programs() => Who::Programs,
            () if self.governor.is_kernels_turn() => Who::Kernel,
            () => Who::Pageout,
        };
        let reclaimer = Reclaimer {
            who,
            pageout_pages: plan.pageout_pages,
            reclaim_bytes: plan.shrink_bytes,
            wait_ms: plan.wait_ms,
        };
        self.recorder
            .note(|tick| tick.plan.reclaimer = Some(reclaimer));
    }

    /// Notes whether reclaim gets anywhere.
    pub(super) fn note_stall(&self, sample: Sample, is_stalled: bool, pause_ms: Option<u64>) {
        self.recorder.note(|tick| {
            let stats = self.tracker.stats().unwrap_or_default();
            tick.sample.engine = Some(EngineSample {
                nr_attempts: sample.nr_attempts,
                freed_bytes: sample.freed_bytes,
                nr_isolated_pages: stats.nr_isolated_pages,
                nr_evicted_pages: stats.nr_evicted_pages.iter().sum(),
                nr_kernel_evicted_pages: stats.nr_kernel_evicted_pages.iter().sum(),
                is_batch_out: self.tracker.is_batch_out(),
            });
            (tick.plan.is_stalled, tick.plan.stall_pause_ms) = (is_stalled, pause_ms);
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

    /// Notes who the members are.
    pub(super) fn note_members(&self) {
        self.recorder.note(|tick| {
            let numbers = self.tracker.spaces().keys();
            tick.sample.members = Some(Members {
                programs: numbers.map(|number| number.0).collect(),
                out_of_reach: self.out_of_reach.iter().map(|number| number.0).collect(),
            });
        });
    }

    /// Notes a walk that was made just now. What follows it is noted by [`Managed::note_walk_end`].
    pub(super) fn note_walk(&self, before: super::WalkReport, clear: ClearIntent, thorough: bool) {
        self.recorder.note(|tick| {
            let after = self.walker.sums();
            let (cpu_ns, wall_ns) = self.walker.last_walk_ns();
            let spaces = self.tracker.spaces().iter();
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
                pace_ms: u64::try_from(self.walker.pace().as_millis()).unwrap_or(u64::MAX),
                found: self.tracker.findings(),
                programs: pages.collect(),
                foretold: self.tracker.foretold().into(),
            });
            tick.plan.walks.push(trace::WalkPlan {
                is_thorough: thorough,
                clear: self.walker.has_cleared().then(|| clear.into()),
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
