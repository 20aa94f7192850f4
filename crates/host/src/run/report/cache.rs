//! Page cache that nobody has mapped, and that was dropped.
//!
//! **Owns** the counts. **Does not own** dropping (`page_cache`), nor what is dropped (`strata_control::drop_cache`).
//!
//! **Invariants** I1: `dropped` of a kind of page is at most `tried`.

use crate::engine::census::cache::Totals;
use strata_control::page_cache::TierCounts;
use strata_control::{CacheDrop, CacheSample, Reads};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::page_cache::{Dropped, Left};

/// What a run did with page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PageCacheReport {
    /// Censuses of the group's page cache.
    pub nr_censuses: u64,
    /// CPU time of censuses, of looks at what came in and of dropping, nanoseconds.
    pub cpu_ns: u64,
    /// In memory by the last census; in a dry run without what would be gone.
    pub cached_bytes: u64,
    /// Pages that were read at most once through descriptors before they were dropped.
    pub once: DropReport,
    /// Pages that were read again.
    pub again: DropReport,
    /// In a loop: pages that had come in a moment before and were read since.
    pub newcomers: DropReport,
    /// Pages that were chosen and are left, by reason.
    pub left: LeftReport,
    /// Dropped, or in a dry run played to be, and read again within a minute.
    pub returned_bytes: u64,
    /// What became of pages by the tier that they had, newcomers not among them; none before the first census.
    pub tiers: Vec<CacheTierReport>,
    /// Came to memory since the first census; not what came between two looks that lie 2 s or more apart, nor after the last.
    pub in_bytes: u64,
    /// Part of `in_bytes` that had been in memory before, as far as that is remembered.
    pub in_again_bytes: u64,
    /// Folios that came to memory and found no room in the buffer: too many between two looks.
    pub nr_lost_folios: u64,
}

/// Pages that were read equally often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DropReport {
    /// In memory when the kernel was asked to drop them; in a dry run, when it would have been.
    pub tried_bytes: u64,
    /// Gone afterwards.
    pub dropped_bytes: u64,
}

/// What became of page cache of one tier; see [`TierCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CacheTierReport {
    /// The kernel's number of the tier.
    pub tier: u64,
    /// Left memory because Strata dropped it; nothing in a dry run.
    pub dropped_bytes: u64,
    /// Left memory because the kernel reclaimed it.
    pub reclaimed_bytes: u64,
    /// Came back soon after either; in a dry run, what was played to be dropped and was read again soon, too.
    pub refaulted_bytes: u64,
    /// Spared for the tier.
    pub protected_bytes: u64,
}

impl CacheTierReport {
    fn new(tier: usize, of: TierCounts) -> CacheTierReport {
        CacheTierReport {
            tier: tier as u64,
            dropped_bytes: of.nr_dropped_pages * PAGE_BYTES,
            reclaimed_bytes: of.nr_reclaimed_pages * PAGE_BYTES,
            refaulted_bytes: of.nr_refaulted_pages * PAGE_BYTES,
            protected_bytes: of.nr_protected_pages * PAGE_BYTES,
        }
    }
}

/// Why pages that were chosen are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LeftReport {
    /// See [`Left::Unreachable`] and [`Left::Replaced`].
    pub unreachable_bytes: u64,
    /// See [`Left::NotRegular`] and [`Left::FileSystem`].
    pub file_system_bytes: u64,
    /// See [`Left::Refused`].
    pub refused_bytes: u64,
    /// See [`Left::InUse`].
    pub in_use_bytes: u64,
}

impl PageCacheReport {
    /// All that was dropped.
    pub fn dropped_bytes(&self) -> u64 {
        self.once.dropped_bytes + self.again.dropped_bytes + self.newcomers.dropped_bytes
    }

    /// A census has ended.
    pub(in crate::run) fn take_census(&mut self, sample: &CacheSample) {
        self.nr_censuses += 1;
        self.cached_bytes = sample.files.iter().map(|file| file.cached_bytes).sum();
    }

    /// Something was asked for and has ended.
    pub(in crate::run) fn take_totals(&mut self, totals: &Totals, cpu_ns: u64) {
        self.cpu_ns += cpu_ns;
        self.returned_bytes = totals.nr_returned_pages * PAGE_BYTES;
        let tiers = totals.tiers.iter().enumerate();
        let tiers = tiers.map(|(tier, of)| CacheTierReport::new(tier, *of));
        self.tiers = tiers.collect();
        self.in_bytes = totals.in_bytes;
        self.in_again_bytes = totals.in_again_bytes;
        self.nr_lost_folios = totals.nr_lost_folios;
    }

    /// Pages were dropped.
    pub(in crate::run) fn take_dropped(&mut self, which: CacheDrop, dropped: &Dropped) {
        let tier = match which {
            CacheDrop::File(_, Reads::Once, _) => &mut self.once,
            CacheDrop::File(_, Reads::Again, _) => &mut self.again,
            CacheDrop::Newcomers(_) => &mut self.newcomers,
        };
        tier.tried_bytes += dropped.tried_bytes;
        tier.dropped_bytes += dropped.dropped_bytes;
        for (left, bytes) in &dropped.left_bytes {
            let sum = match left {
                Left::Unreachable | Left::Replaced => &mut self.left.unreachable_bytes,
                Left::NotRegular | Left::FileSystem => &mut self.left.file_system_bytes,
                Left::Refused => &mut self.left.refused_bytes,
                Left::InUse => &mut self.left.in_use_bytes,
            };
            *sum += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_numbered_and_counted_in_bytes() {
        let mut totals = Totals::default();
        totals.tiers[2] = TierCounts {
            nr_dropped_pages: 1,
            nr_reclaimed_pages: 2,
            nr_refaulted_pages: 3,
            nr_protected_pages: 4,
        };
        let mut report = PageCacheReport::default();
        report.take_totals(&totals, 0);
        let numbers: Vec<u64> = report.tiers.iter().map(|of| of.tier).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let expected = CacheTierReport {
            tier: 2,
            dropped_bytes: PAGE_BYTES,
            reclaimed_bytes: 2 * PAGE_BYTES,
            refaulted_bytes: 3 * PAGE_BYTES,
            protected_bytes: 4 * PAGE_BYTES,
        };
        assert_eq!(report.tiers[2], expected);
    }
}
