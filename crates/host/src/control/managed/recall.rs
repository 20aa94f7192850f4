//! Reading in ahead what was last used with the pages that come back.
//!
//! **Owns** when that is done and for how many pages there is room. **Does not own** which pages
//! (`strata_control::prefetch`), nor the asking (`actuator::Recall`).
//!
//! **Invariants** I1: no more is asked for than fits beside what the last walk found in use and what was asked for
//! lately, below the low mark. I2: nothing is asked for while paused, in a dry run, or after the end.

use super::super::places::SpaceNo;
use super::super::trace::{RecallAsk, Report};
use super::Managed;
use crate::actuator::{Recall, RecallPages};
use crate::addr::PAGE_BYTES;
use crate::swap;
use std::collections::BTreeSet;
use strata_control::prefetch::Prefetch;
use strata_lru::{HEAT_WALK_MS, TimeMs};

/// A program to which fewer come back hardly waits for them.
const RETURNED_PAGES_PER_S_MIN: f64 = 100.0;

/// The thread, and what is known of its use.
#[derive(Debug)]
pub(super) struct Recalling {
    thread: Recall,
    recalls: Prefetch,
    is_swap_slow: bool,
    /// Spaces for which the kernel may not be asked.
    refused: BTreeSet<SpaceNo>,
}

impl Recalling {
    /// Nothing asked for yet.
    pub(super) fn new(thread: Recall) -> Recalling {
        Recalling {
            thread,
            recalls: Prefetch::default(),
            is_swap_slow: false,
            refused: BTreeSet::new(),
        }
    }
}

impl Managed {
    /// How far apart walks are to be at most, while pages come back that programs wait for; `None` while none do, and
    /// while the programs have all processors.
    pub(super) fn recall_walk_ms(&self, now: TimeMs) -> Option<u64> {
        let recalling = self.recalling.as_ref()?;
        let is_waited_for = recalling.is_swap_slow
            && self.sharing.refaulted_pages_per_s_at(now) >= RETURNED_PAGES_PER_S_MIN;
        let is_its_turn = !self.is_dry_run && !self.governor.is_left_to_programs();
        (is_waited_for && is_its_turn && recalling.recalls.is_on(now)).then_some(HEAT_WALK_MS)
    }

    /// Whether the thread is at work.
    pub(super) fn is_recalling(&self) -> bool {
        let recalling = self.recalling.as_ref();
        recalling.is_some_and(|recalling| recalling.thread.is_busy())
    }

    /// From now on usage may rise so far by reading ahead; `None`: not at all.
    pub(super) fn allow_recall(&mut self, usage_max_bytes: Option<u64>) {
        if let Some(recalling) = &self.recalling {
            let usage_max_bytes = usage_max_bytes.unwrap_or(0);
            self.recorder
                .note(|tick| tick.plan.recall_max_bytes = Some(usage_max_bytes));
            recalling.thread.allow(usage_max_bytes);
        }
    }

    /// Before a walk: whether what is swapped out has to be waited for.
    pub(super) fn look_for_slow_swap(&mut self) {
        let Some(recalling) = &mut self.recalling else {
            return;
        };
        recalling.is_swap_slow = swap::is_slow();
        self.tracker.set_swap_slow(recalling.is_swap_slow);
        let is_slow = recalling.is_swap_slow;
        self.recorder
            .note(|tick| tick.sample.is_swap_slow = Some(is_slow));
    }

    /// After a walk: judges what was asked for, and asks for what is wanted next.
    pub(super) fn recall(&mut self, now: TimeMs) {
        let Some(recalling) = &mut self.recalling else {
            return;
        };
        if recalling.thread.is_busy() {
            return;
        }
        let nr_used_pages = self.tracker.take_recalled_used();
        self.eviction.nr_recalled_used_pages += nr_used_pages;
        if recalling.recalls.after_walk(now, nr_used_pages) {
            self.tracker.forget_recalled();
        }
        let mut ask = RecallAsk {
            nr_used_pages,
            ..RecallAsk::default()
        };
        if !recalling.recalls.is_on(now) || self.is_dry_run || self.governor.is_left_to_programs() {
            self.recorder.note(|tick| tick.plan.recalls.push(ask));
            return;
        }
        let spaces = self.tracker.spaces();
        recalling.refused.retain(|space| spaces.contains_key(space));
        let used_bytes = self.tracker.findings().nr_young_pages.iter().sum::<u64>() * PAGE_BYTES;
        let room_bytes = self.governor.marks().low.saturating_sub(used_bytes);
        let nr_out = recalling.recalls.nr_pages_out();
        let nr_pages_max = (room_bytes / PAGE_BYTES).saturating_sub(nr_out);
        let pages = self.tracker.recall(nr_pages_max, &recalling.refused);
        let nr_pages: u64 = pages.iter().map(RecallPages::nr_wanted_pages).sum();
        let is_taken = nr_pages > 0 && recalling.thread.try_submit(pages);
        if is_taken {
            recalling.recalls.ask(now, nr_pages);
        }
        ask = RecallAsk {
            nr_pages_max: Some(nr_pages_max),
            nr_pages,
            is_taken,
            ..ask
        };
        self.recorder.note(|tick| tick.plan.recalls.push(ask));
    }

    /// Hears what the thread has done.
    pub(super) fn hear_of_recall(&mut self) {
        let Some(recalling) = &mut self.recalling else {
            return;
        };
        let Some(report) = recalling.thread.poll() else {
            return;
        };
        self.eviction.nr_recalled_pages += report.nr_asked_pages;
        let (nr_asked_pages, nr_refused) = (report.nr_asked_pages, report.refused.len() as u64);
        let mut nr_left_pages = 0;
        for (space, ranges) in report.left {
            let nr_pages = ranges.iter().map(|range| range.nr_pages()).sum();
            nr_left_pages += nr_pages;
            recalling.recalls.leave(nr_pages);
            self.tracker.leave(space, &ranges);
        }
        self.recorder.note_report(|| Report::Recall {
            nr_pages: nr_asked_pages,
            nr_left_pages,
            nr_refused,
        });
        let mut warnings = Vec::new();
        for (space, pid, error) in report.refused {
            recalling.refused.insert(SpaceNo(space));
            warnings.push(format!(
                "the kernel can't be asked to read pages of process {pid} in ahead ({error}), so it waits for each; \
                 run as root"
            ));
        }
        warnings.into_iter().for_each(|warning| self.warn(warning));
    }
}
