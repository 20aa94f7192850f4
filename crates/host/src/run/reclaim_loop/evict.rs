//! What pageout is given beside the pages that have to go: huge pages to be split; and what attempts have freed.
//!
//! **Owns** when huge pages are looked at, and handing requests to the thread. **Does not own** which huge pages are split
//! (`strata_control::split_huge`, `pages`), nor how much is to go (`strata_control`).

use super::ReclaimLoop;
use crate::run::report::PageCacheReport;
use strata_control::split_huge::{SplitHuge, Worth};
use strata_linux::actuator::PageoutRequest;
use strata_linux::addr::PAGE_BYTES;
use strata_lru::TimeMs;

impl ReclaimLoop {
    /// Freed by pageout, by the kernel when asked, and by dropping page cache. What the kernel took by itself does not count.
    pub(super) fn freed_bytes(&self) -> u64 {
        let stats = self.group.tracker.stats().unwrap_or_default();
        let nr_pages: u64 = stats.nr_evicted_pages.iter().sum();
        let dropped = self
            .actuators
            .page_cache
            .as_ref()
            .map_or(0, PageCacheReport::dropped_bytes);
        nr_pages * PAGE_BYTES + self.actuators.counters.reclaim_freed_bytes + dropped
    }

    /// Hands requests to the pageout thread; in a dry run they are over at once.
    pub(super) fn page_out(&mut self, requests: Vec<PageoutRequest>) {
        let is_dry_run = self.control.is_dry_run();
        for _ in self.actuators.page_out(requests, is_dry_run) {
            self.group.tracker.request_done();
        }
    }

    /// Whether all pages are younger than `min_ttl`.
    pub(super) fn is_all_young(&self, now: TimeMs) -> bool {
        let min_ttl_ms = self.control.min_ttl_ms();
        let Ok(views) = self.group.tracker.view(now) else {
            return false;
        };
        let has_pages = |pages: Option<u64>| pages.unwrap_or(0) > 0;
        let mut generations = views.iter().flat_map(|view| &view.generations);
        generations.all(|generation| {
            generation.age_ms < min_ttl_ms || !generation.nr_pages.into_iter().any(has_pages)
        })
    }

    /// Chooses huge pages to be split, after a walk.
    pub(super) fn choose_splits(&mut self, now: TimeMs) {
        if self.actuators.threads.pageout.is_none() || self.control.is_dry_run() {
            return;
        }
        let stats = self.group.tracker.stats().unwrap_or_default();
        let by_whom = [stats.nr_evicted_pages, stats.nr_kernel_evicted_pages];
        let nr_gone_pages = by_whom.iter().flatten().sum();
        let are_pages_going = nr_gone_pages > self.splits.nr_gone_pages;
        self.splits.nr_gone_pages = nr_gone_pages;
        self.group
            .tracker
            .choose_splits(&mut self.splits.splitter, are_pages_going, now);
    }

    /// Has the huge pages split that were chosen, unless a batch is out.
    pub(super) fn send_splits(&mut self) {
        let requests = self.group.tracker.send_splits();
        self.page_out(requests);
    }

    /// Nothing is to be split any more, and what was split is not looked at.
    pub(super) fn forget_splits(&mut self) {
        self.group.tracker.forget_splits();
        self.splits.splitter =
            SplitHuge::new(self.control.config().split_huge, Worth::UNDER_BUDGET);
    }
}
