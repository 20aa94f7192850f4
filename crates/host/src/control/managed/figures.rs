//! What a managed group has to tell: counters of eviction and walks, generations, sizes.
//!
//! **Owns** putting them together for the report. **Does not own** any of the counting.

use super::super::WalkFindings;
use super::super::members::Members;
use super::super::report::{EvictionReport, WalkReport};
use super::Managed;
use crate::addr::PAGE_BYTES;
use strata_lru::{GroupView, TimeMs};

/// The last walk that found anything.
#[derive(Debug)]
pub(super) struct Seen {
    views: Vec<GroupView>,
    findings: WalkFindings,
}

impl Managed {
    /// Keeps what a walk found. A program that has ended has no pages any more, and what the report
    /// should tell is how they stood before.
    pub(super) fn remember(&mut self, now: TimeMs) {
        let findings = self.tracker.findings();
        if has_pages(&findings) {
            let views = self.tracker.view(now).unwrap_or_default();
            self.seen = Some(Seen { views, findings });
        }
    }

    fn findings(&self) -> WalkFindings {
        let now = self.tracker.findings();
        match &self.seen {
            Some(seen) if !has_pages(&now) => seen.findings,
            _ => now,
        }
    }

    /// Counters of eviction.
    pub(in super::super) fn eviction_report(&self) -> EvictionReport {
        let mut report = self.eviction;
        report.nr_split_pages = self.tracker.nr_split_pages();
        if let Ok(stats) = self.tracker.stats() {
            report.nr_tried_pages = stats.nr_isolated_pages;
            report.nr_applied_pages = stats.nr_evicted_pages.iter().sum();
            report.nr_kernel_chosen_pages = stats.nr_kernel_evicted_pages.iter().sum();
            report.nr_refaulted_pages = stats.nr_refaulted_pages.iter().flatten().sum();
            report.nr_refaulted_recent_pages =
                stats.nr_refaulted_recent_pages.iter().flatten().sum();
            [
                report.nr_referenced_pages,
                report.nr_busy_pages,
                report.nr_shared_pages,
                report.nr_dirty_pages,
                report.nr_unevictable_pages,
                report.nr_gone_pages,
                report.nr_not_tried_pages,
            ] = stats.nr_rejected_pages;
            report.nr_tried_pages -= report.nr_not_tried_pages.min(report.nr_tried_pages);
        }
        report
    }

    /// Counters of walks.
    pub(in super::super) fn walk_report(&self) -> WalkReport {
        let mut report = self.walker.sums();
        report.last = self.findings();
        let eviction = self.eviction_report();
        let freed = eviction.nr_applied_pages + eviction.nr_kernel_chosen_pages;
        report.entries_per_freed_page =
            (freed > 0).then(|| report.cost.nr_entries as f64 / freed as f64);
        report
    }

    /// The generations, oldest first.
    pub(in super::super) fn view(&self, now: TimeMs) -> Vec<GroupView> {
        match &self.seen {
            Some(seen) if !has_pages(&self.tracker.findings()) => seen.views.clone(),
            _ => self.tracker.view(now).unwrap_or_default(),
        }
    }

    /// How the generations stood when the program was last looked at. In the time between its end and
    /// our notice of it, pageout may have found most of its pages gone.
    pub(in super::super) fn view_before_the_end(&self, now: TimeMs) -> Vec<GroupView> {
        match &self.seen {
            Some(seen) => seen.views.clone(),
            None => self.view(now),
        }
    }

    /// Bytes of evicted pages that are not back.
    pub(in super::super) fn evicted_bytes(&self) -> u64 {
        self.tracker.nr_shadow_pages() * PAGE_BYTES
    }

    /// Bytes that keeping track costs.
    pub(in super::super) fn memory_bytes(&self) -> u64 {
        self.tracker.memory_bytes()
    }

    /// Whether pages can be taken one by one.
    pub(in super::super) fn has_pageout(&self) -> bool {
        self.pageout.is_some()
    }

    /// Whether the kernel can be asked to reclaim.
    pub(in super::super) fn has_reclaim(&self) -> bool {
        self.shrink.is_some()
    }

    /// Whether warm pages can be touched.
    pub(in super::super) fn can_touch(&self) -> bool {
        self.warm.is_some()
    }

    /// Whether cold pages can be named.
    pub(in super::super) fn can_name_cold(&self) -> bool {
        self.deactivating.is_some()
    }

    /// Whether pages can be read in ahead.
    pub(in super::super) fn can_recall(&self) -> bool {
        self.recalling.is_some()
    }

    /// The members.
    pub(in super::super) fn members(&self) -> &Members {
        &self.members
    }

    /// What went wrong without stopping us, each once.
    pub(in super::super) fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

fn has_pages(findings: &WalkFindings) -> bool {
    findings.nr_resident_pages.iter().any(|pages| *pages > 0)
}
