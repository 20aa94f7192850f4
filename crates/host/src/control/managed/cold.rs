//! Evicting the coldest: which pages by heat, walk by walk.
//!
//! **Owns** how many are ranked after a walk and when they are used up. **Does not own** heat
//! (`strata_lru::Heat`) or the generations, which are asked where no ranking is left.

use super::super::splitter::Splitter;
use super::super::trace::{Answer, ChosenBy, HugeSample, SplitAsk};
use super::{Gauge, Managed, PAGE_BYTES};
use strata_lru::{HEAT_WALK_MS_MIN, NR_RANKED_PAGES_MIN, TimeMs};

/// Counts what is needed from walk to walk.
#[derive(Debug)]
pub(super) struct ColdFirst {
    nr_taken_pages: u64,
    /// Evicted by whomever, as of the last walk.
    nr_gone_pages: u64,
    splitter: Splitter,
}

impl ColdFirst {
    /// Nothing taken yet.
    pub(super) fn new() -> ColdFirst {
        ColdFirst {
            nr_taken_pages: 0,
            nr_gone_pages: 0,
            splitter: Splitter::new(),
        }
    }
}

impl Managed {
    /// Ranks the coldest pages after a walk: twice as many as were needed since the last one.
    pub(super) fn rank(&mut self, now: TimeMs, usage_bytes: u64) {
        let marks = self.governor.marks();
        let excess_pages = usage_bytes.saturating_sub(marks.low) / PAGE_BYTES;
        let Some(cold) = &mut self.cold else { return };
        if self.pageout.is_some() && !self.is_dry_run {
            let stats = self.tracker.stats().unwrap_or_default();
            let by_whom = [stats.nr_evicted_pages, stats.nr_kernel_evicted_pages];
            let nr_gone_pages = by_whom.iter().flatten().sum();
            let are_pages_going = nr_gone_pages > cold.nr_gone_pages;
            cold.nr_gone_pages = nr_gone_pages;
            let looked = self
                .tracker
                .choose_splits(&mut cold.splitter, are_pages_going, now);
            self.recorder.note(|tick| {
                let nr_chosen = looked.nr_chosen.map(|number| number as u64);
                tick.plan.chosen_splits.push(nr_chosen);
                tick.sample.huge.push(HugeSample {
                    are_pages_going,
                    nr_resident_pages: looked.nr_resident_pages,
                    nr_huge_pages: looked.nr_huge as u64,
                    nr_used_pages: looked.nr_used_pages,
                });
            });
        }
        if excess_pages == 0 {
            return;
        }
        let nr_taken_pages = std::mem::take(&mut cold.nr_taken_pages);
        let nr_pages = (nr_taken_pages + excess_pages) * 2;
        let nr_pages = nr_pages.max(NR_RANKED_PAGES_MIN);
        self.recorder
            .note(|tick| tick.plan.rank_pages.push(nr_pages));
        self.tracker.rank(nr_pages, self.effective_swappiness);
    }

    /// Has the huge pages split that were chosen, unless a batch is out.
    pub(super) fn send_splits(&mut self) {
        if self.cold.is_some() {
            let requests = self.tracker.send_splits();
            if !requests.is_empty() {
                let nr_splits: usize = requests.iter().map(|request| request.splits.len()).sum();
                let ask = SplitAsk {
                    nr_huge_pages: nr_splits as u64,
                    nr_requests: requests.len() as u64,
                };
                self.recorder.note(|tick| tick.plan.splits.push(ask));
            }
            self.waiting.extend(requests);
            self.submit_waiting();
        }
    }

    /// Nothing is to be split any more, and what was split is not looked at.
    pub(super) fn forget_splits(&mut self) {
        self.tracker.forget_splits();
        if let Some(cold) = &mut self.cold {
            cold.splitter = Splitter::new();
        }
    }

    /// Whether a walk is due soon, to see what was split.
    pub(super) fn is_splitting(&self) -> bool {
        self.cold
            .as_ref()
            .is_some_and(|cold| cold.splitter.is_busy())
    }

    /// Sends the coldest pages out; `false` if there are none to be had that way.
    pub(super) fn evict_cold(
        &mut self,
        now: TimeMs,
        gauge: &Gauge,
        nr_pages: u64,
        usage_bytes: u64,
    ) -> bool {
        if self.cold.is_none() {
            return false;
        }
        let nr_ranked = self.tracker.nr_ranked();
        self.recorder
            .note(|tick| tick.sample.nr_ranked_folios.push(nr_ranked as u64));
        if nr_ranked == 0 && self.may_walk(now, HEAT_WALK_MS_MIN) {
            self.walk(now, gauge, usage_bytes);
        }
        let requests = self
            .tracker
            .isolate_cold(nr_pages, self.effective_swappiness, now);
        let answer = match requests.is_empty() {
            true => Answer::Empty,
            false => Answer::Pages,
        };
        self.note_batch(ChosenBy::Heat, Some(nr_pages), answer, &requests);
        let nr_sent_pages: usize = requests.iter().map(|request| request.pages.len()).sum();
        if let Some(cold) = &mut self.cold {
            cold.nr_taken_pages += nr_sent_pages as u64;
        }
        self.waiting.extend(requests);
        self.submit_waiting();
        nr_sent_pages > 0
    }
}
