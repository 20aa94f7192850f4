//! Page cache that nobody has mapped, and that was dropped.
//!
//! **Owns** the counts. **Does not own** dropping (`page_cache`), nor what is dropped (`strata_control::drop_cache`).
//!
//! **Invariants** I1: `dropped` of a kind of page is at most `tried`.

use crate::actuator::{CacheTotals, Which};
use crate::addr::PAGE_BYTES;
use crate::page_cache::{Dropped, Left};
use strata_control::{CacheSample, Reads};

/// What a run did with page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PageCacheReport {
    /// Censuses of the group's page cache.
    pub nr_censuses: u64,
    /// CPU time of censuses, of looks at what came in and of dropping, nanoseconds.
    pub cpu_ns: u64,
    /// In memory by the last census.
    pub cached_bytes: u64,
    /// Pages that were read at most once through descriptors before they were dropped.
    pub once: TierReport,
    /// Pages that were read again.
    pub again: TierReport,
    /// In a loop: pages that had come in a moment before and were read since.
    pub newcomers: TierReport,
    /// Pages that were chosen and are left, by reason.
    pub left: LeftReport,
    /// Dropped, and read again within a minute.
    pub returned_bytes: u64,
    /// Came to memory since the first census.
    pub in_bytes: u64,
    /// Part of `in_bytes` that had been in memory before, as far as that is remembered.
    pub in_again_bytes: u64,
    /// Folios that came to memory and were not counted: too many at once.
    pub nr_lost_folios: u64,
}

/// Pages that were read equally often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TierReport {
    /// In memory when the kernel was asked to drop them.
    pub tried_bytes: u64,
    /// Gone afterwards.
    pub dropped_bytes: u64,
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
    pub(in crate::run) fn take_totals(&mut self, totals: &CacheTotals) {
        self.cpu_ns = totals.cpu_ns;
        self.returned_bytes = totals.nr_returned_pages * PAGE_BYTES;
        self.in_bytes = totals.in_bytes;
        self.in_again_bytes = totals.in_again_bytes;
        self.nr_lost_folios = totals.nr_lost_folios;
    }

    /// Pages were dropped.
    pub(in crate::run) fn take_dropped(&mut self, which: Which, dropped: &Dropped) {
        let tier = match which {
            Which::Idle(Reads::Once) => &mut self.once,
            Which::Idle(Reads::Again) => &mut self.again,
            Which::Newcomers => &mut self.newcomers,
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
