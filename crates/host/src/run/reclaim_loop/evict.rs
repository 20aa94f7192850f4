//! Evicting: the coldest first, walk by walk, then what the engine's order says; and asking the kernel.
//!
//! **Owns** how many are ranked after a walk and when they are used up, and how often the engine is asked within one
//! tick. **Does not own** heat (`strata_lru::Heat`) or the generations, nor how much is to go (`strata_control`).

use super::ReclaimLoop;
use crate::actuator::PageoutRequest;
use crate::addr::PAGE_BYTES;
use crate::pages::tracker::HugePage;
use crate::run::gauge::Gauge;
use crate::run::trace::{Answer, ChosenBy, HugeSample, ReclaimAsk, SplitAsk};
use strata_control::limit::Standing;
use strata_control::split_huge::{self, SplitHuge};
use strata_control::walks::Pause;
use strata_lru::{HEAT_WALK_MS_MIN, Isolated, NR_RANKED_PAGES_MIN, TimeMs};

/// Isolation is asked again at most so often within one tick.
const ISOLATE_TRIES: u32 = 16;
/// The kernel's default scan priority.
const RELAXED_PRIORITY: u8 = 12;

/// Counts what is needed from walk to walk.
#[derive(Debug)]
pub(super) struct ColdFirst {
    nr_taken_pages: u64,
    /// Evicted by whomever, as of the last walk.
    nr_gone_pages: u64,
    splitter: SplitHuge<HugePage>,
}

impl ColdFirst {
    /// Nothing taken yet.
    pub(super) fn new(config: split_huge::Config) -> ColdFirst {
        ColdFirst {
            nr_taken_pages: 0,
            nr_gone_pages: 0,
            splitter: SplitHuge::new(config),
        }
    }
}

impl ReclaimLoop {
    /// What pageout and the kernel freed when asked; pages the kernel took by itself are no success
    /// of ours.
    pub(super) fn freed_bytes(&self) -> u64 {
        let stats = self.group.tracker.stats().unwrap_or_default();
        let nr_pages: u64 = stats.nr_evicted_pages.iter().sum();
        nr_pages * PAGE_BYTES + self.actuators.counters().reclaim_freed_bytes
    }

    /// Hands requests to the pageout thread; in a dry run they are over at once.
    pub(super) fn page_out(&mut self, requests: Vec<PageoutRequest>) {
        let is_dry_run = self.groups.root().is_dry_run();
        for _ in self.actuators.page_out(requests, is_dry_run) {
            self.group.tracker.request_done();
        }
    }

    /// Asks the kernel for so many bytes, unless `min_ttl` protects everything: the engine would refuse to take any of it,
    /// and the kernel, which knows no such promise, must not be asked instead.
    pub(super) fn ask_kernel(&mut self, now: TimeMs, bytes: u64) -> Standing {
        if self.is_all_young(now) {
            self.actuators.note_thrashing();
            return Standing::Thrashing;
        }
        let is_taken = self.groups.root().may_ask_kernel(now) && self.actuators.ask_kernel(bytes);
        self.recorder
            .note(|tick| tick.plan.reclaim = Some(ReclaimAsk { bytes, is_taken }));
        Standing::Fine
    }

    fn is_all_young(&self, now: TimeMs) -> bool {
        let min_ttl_ms = self.groups.root().min_ttl_ms();
        if min_ttl_ms == 0 {
            return false;
        }
        let Ok(views) = self.group.tracker.view(now) else {
            return false;
        };
        let has_pages = |pages: Option<u64>| pages.unwrap_or(0) > 0;
        let mut generations = views.iter().flat_map(|view| &view.generations);
        let is_all_young = generations.all(|generation| {
            generation.age_ms < min_ttl_ms || !generation.nr_pages.into_iter().any(has_pages)
        });
        self.recorder
            .note(|tick| tick.sample.is_all_young = Some(is_all_young));
        is_all_young
    }

    /// Takes so many pages, the coldest first.
    pub(super) fn evict(
        &mut self,
        now: TimeMs,
        gauge: &Gauge,
        nr_pages: u64,
        usage_bytes: u64,
    ) -> Standing {
        self.nr_attempts += 1;
        if self.evict_cold(now, gauge, nr_pages, usage_bytes) {
            return Standing::Fine;
        }
        let mut has_walked = false;
        for _ in 0..ISOLATE_TRIES {
            let swappiness = self.groups.root().swappiness();
            let isolated = self
                .group
                .tracker
                .isolate(nr_pages, swappiness, RELAXED_PRIORITY, now);
            let (answer, requests) = match isolated {
                Ok(isolated) => isolated,
                Err(error) => {
                    self.note_batch(ChosenBy::Generations, Some(nr_pages), Answer::Failed, &[]);
                    self.warn(format!("eviction stopped: {error}"));
                    return Standing::NothingEvictable;
                }
            };
            self.note_batch(
                ChosenBy::Generations,
                Some(nr_pages),
                answer.into(),
                &requests,
            );
            match answer {
                Isolated::Pages(_) => {
                    self.page_out(requests);
                    return Standing::Fine;
                }
                Isolated::Again => {}
                // What appeared since the last walk is not known yet, so "empty" may be stale too.
                Isolated::NeedsAgeing | Isolated::Empty if !has_walked => {
                    // Also where it would clear nothing: what is new is found, and what is old was not used since
                    // something was cleared.
                    let walks = self.config.walks;
                    let may_walk = self.may_walk(now, Pause::Clearing.ms(&walks))
                        || self.groups.root().may_look(now, Pause::Looking.ms(&walks));
                    if !may_walk {
                        return Standing::Fine;
                    }
                    self.walk(now, gauge, usage_bytes);
                    has_walked = true;
                }
                Isolated::NeedsAgeing => return Standing::Fine,
                Isolated::Empty => return Standing::NothingEvictable,
                Isolated::Thrashing => {
                    self.actuators.note_thrashing();
                    return Standing::Thrashing;
                }
            }
        }
        Standing::Fine
    }

    /// Ranks the coldest pages after a walk: twice as many as were needed since the last one.
    pub(super) fn rank(&mut self, now: TimeMs, usage_bytes: u64) {
        let low_bytes = self.groups.root().marks().low_bytes;
        let excess_pages = usage_bytes.saturating_sub(low_bytes) / PAGE_BYTES;
        let Some(cold) = &mut self.cold else { return };
        if self.actuators.has_pageout() && !self.groups.root().is_dry_run() {
            let stats = self.group.tracker.stats().unwrap_or_default();
            let by_whom = [stats.nr_evicted_pages, stats.nr_kernel_evicted_pages];
            let nr_gone_pages = by_whom.iter().flatten().sum();
            let are_pages_going = nr_gone_pages > cold.nr_gone_pages;
            cold.nr_gone_pages = nr_gone_pages;
            let looked = self
                .group
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
        self.group
            .tracker
            .rank(nr_pages, self.groups.root().swappiness());
    }

    /// Has the huge pages split that were chosen, unless a batch is out.
    pub(super) fn send_splits(&mut self) {
        if self.cold.is_some() {
            let requests = self.group.tracker.send_splits();
            if !requests.is_empty() {
                let nr_splits: usize = requests.iter().map(|request| request.splits.len()).sum();
                let ask = SplitAsk {
                    nr_huge_pages: nr_splits as u64,
                    nr_requests: requests.len() as u64,
                };
                self.recorder.note(|tick| tick.plan.splits.push(ask));
            }
            self.page_out(requests);
        }
    }

    /// Nothing is to be split any more, and what was split is not looked at.
    pub(super) fn forget_splits(&mut self) {
        self.group.tracker.forget_splits();
        if let Some(cold) = &mut self.cold {
            cold.splitter = SplitHuge::new(self.config.split_huge);
        }
    }

    /// Whether a walk is due soon, to see what was split.
    pub(super) fn is_splitting(&self) -> bool {
        self.cold
            .as_ref()
            .is_some_and(|cold| cold.splitter.is_busy())
    }

    /// Sends the coldest pages out; `false` if there are none to be had that way.
    fn evict_cold(&mut self, now: TimeMs, gauge: &Gauge, nr_pages: u64, usage_bytes: u64) -> bool {
        if self.cold.is_none() {
            return false;
        }
        let nr_ranked = self.group.tracker.nr_ranked();
        self.recorder
            .note(|tick| tick.sample.nr_ranked_folios.push(nr_ranked as u64));
        if nr_ranked == 0 && self.may_walk(now, HEAT_WALK_MS_MIN) {
            self.walk(now, gauge, usage_bytes);
        }
        let requests =
            self.group
                .tracker
                .isolate_cold(nr_pages, self.groups.root().swappiness(), now);
        let answer = match requests.is_empty() {
            true => Answer::Empty,
            false => Answer::Pages,
        };
        self.note_batch(ChosenBy::Heat, Some(nr_pages), answer, &requests);
        let nr_sent_pages: usize = requests.iter().map(|request| request.pages.len()).sum();
        if let Some(cold) = &mut self.cold {
            cold.nr_taken_pages += nr_sent_pages as u64;
        }
        self.page_out(requests);
        nr_sent_pages > 0
    }
}
