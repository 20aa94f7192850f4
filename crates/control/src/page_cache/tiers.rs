//! What became of page cache by tier: how often its pages had been read when they left memory, and which of them came back.
//!
//! A tier is the kernel's: the order of the number of reads through descriptors that the kernel has counted.
//!
//! ```text
//!   tier    0            1       2                     3
//!   reads   0 or 1       2       3 or 4                5 or more
//!           classic LRU  counts  3 at most, MGLRU 5
//! ```
//!
//! **Owns** which tier a page has, the counts by tier since the start, and those by which tiers are judged, which fade. **Does not
//! own** which pages left memory and which came back (`idle`), nor up to which tier pages may go and how much is dropped
//! (`drop_cache`).
//!
//! **Invariants**
//! - I1: a page has one tier.
//! - I2: what a dry run plays is judged by, and never counts as dropped.

use super::NR_TIERS;
use crate::strategy::drop_cache::{self, REMEMBERED_MS};
use strata_lru::{Controller, Kind, TimeMs};

/// So many halvings leave nothing of any count.
const HALVINGS_MAX: u64 = u64::BITS as u64;

/// What became of the pages of one tier since the start, in base pages.
///
/// A page has the tier that its count of reads gave it at the last census that saw it in memory. A page left memory if one census
/// saw it and the next one did not. Pages that come and go between two censuses are not seen. What a program has mapped, what was
/// truncated and what is part of a file that has no name any more did not leave. Where whoever takes the censuses can't tell that,
/// such pages count as reclaimed, and as refaulted when they are unmapped or written again; so do pages that are charged to
/// another group meanwhile. Of a file of which little is left in memory no census tells any more, so its last pages are not
/// counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TierCounts {
    /// Dropped by Strata after a census had found them idle.
    #[serde(rename = "dropped_pages")]
    pub nr_dropped_pages: u64,
    /// Left memory without Strata: the kernel reclaimed them.
    #[serde(rename = "reclaimed_pages")]
    pub nr_reclaimed_pages: u64,
    /// Of the pages that were dropped or reclaimed: came back within
    /// [`REMEMBERED_MS`](crate::drop_cache::REMEMBERED_MS), and were read. Under the classic LRU a page that the kernel
    /// reclaimed comes back with a count of two, so it counts as read at once, and is then in the second tier.
    #[serde(rename = "refaulted_pages")]
    pub nr_refaulted_pages: u64,
    /// Clean pages that stayed in memory because of their tier, although others that were read later were dropped. A page counts
    /// once until it is read again. Pages that were read as often as the kernel can count are not among them, because nobody
    /// knows when those were last read; nor is the first tier.
    #[serde(rename = "protected_pages")]
    pub nr_protected_pages: u64,
}

/// Counts by tier.
#[derive(Debug, Default)]
pub(super) struct CountsByTier {
    counts: [TierCounts; NR_TIERS],
    /// The counts by which the kernel judges; page cache is of the kind file.
    controller: Controller,
    /// When the counts of the controller were halved last.
    halved_at: Option<TimeMs>,
}

impl CountsByTier {
    /// The counts since the start.
    pub(super) fn counts(&self) -> [TierCounts; NR_TIERS] {
        self.counts
    }

    /// Strata has dropped pages.
    pub(super) fn dropped(&mut self, tier: usize, nr_pages: u64) {
        self.counts[tier].nr_dropped_pages += nr_pages;
        self.controller.evicted(Kind::File, tier, nr_pages);
    }

    /// A dry run plays that it has dropped pages.
    pub(super) fn played(&mut self, tier: usize, nr_pages: u64) {
        self.controller.evicted(Kind::File, tier, nr_pages);
    }

    /// The kernel has reclaimed pages.
    pub(super) fn reclaimed(&mut self, tier: usize, nr_pages: u64) {
        self.counts[tier].nr_reclaimed_pages += nr_pages;
        self.controller.evicted(Kind::File, tier, nr_pages);
    }

    /// Pages came back soon.
    pub(super) fn refaulted(&mut self, tier: usize, nr_pages: u64) {
        self.counts[tier].nr_refaulted_pages += nr_pages;
        self.controller.refaulted(Kind::File, tier, nr_pages);
    }

    /// Pages were spared for their tier.
    pub(super) fn protected(&mut self, tier: usize, nr_pages: u64) {
        self.counts[tier].nr_protected_pages += nr_pages;
        self.controller.protected(Kind::File, tier, nr_pages);
    }

    /// Time passes: what happened counts half after each [`REMEMBERED_MS`].
    pub(super) fn pass(&mut self, now: TimeMs) {
        let halved_at = *self.halved_at.get_or_insert(now);
        let nr_halvings = now.since(halved_at) / REMEMBERED_MS;
        for _ in 0..nr_halvings.min(HALVINGS_MAX) {
            self.controller.carry_over(Kind::File);
        }
        self.halved_at = Some(TimeMs(halved_at.0 + nr_halvings * REMEMBERED_MS));
    }

    /// The last tier of which pages may go.
    pub(super) fn last_tier(&self) -> usize {
        drop_cache::last_tier(&self.controller, NR_TIERS)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tier_of;
    use super::*;

    #[test]
    fn a_tier_is_the_order_of_the_number_of_reads() {
        let tiers = [0, 1, 2, 3, 4, 5, 6, 7].map(tier_of);
        assert_eq!(tiers, [0, 0, 1, 2, 2, 3, 3, 3]);
    }

    #[test]
    fn what_came_back_is_forgotten_by_halves() {
        let mut tiers = CountsByTier::default();
        tiers.pass(TimeMs(0));
        tiers.reclaimed(0, 100_000);
        tiers.reclaimed(1, 1000);
        tiers.refaulted(1, 500);
        assert_eq!(tiers.last_tier(), 0);
        // Fewer than 64 pages that came back say nothing: that is so after three halvings.
        tiers.pass(TimeMs(3 * REMEMBERED_MS - 1));
        assert_eq!(tiers.last_tier(), 0);
        tiers.pass(TimeMs(3 * REMEMBERED_MS));
        assert_eq!(tiers.last_tier(), NR_TIERS - 1);
        assert_eq!(tiers.counts()[1].nr_refaulted_pages, 500, "totals stay");
    }
}
