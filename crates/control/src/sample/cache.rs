//! What a census tells the loop of a group's page cache.
//!
//! **Owns** the names and units. **Does not own** taking a census, nor what is done about it (`strategy::drop_cache`).

use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

/// A file, by a number that it has as long as its page cache is known.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FileNo(pub u32);

/// How often a page was read through descriptors since it came to memory, and how long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reads {
    /// Once, and not since the census before; or never, though readahead brought it a while ago.
    Once,
    /// More often, but not as often as can be counted, and not for long.
    Again,
}

/// Page cache of one file that nobody has mapped, charged to the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCache {
    /// Which.
    pub file: FileNo,
    /// In memory.
    pub cached_bytes: u64,
    /// Clean, and read once and not since the census before, or never for a while.
    pub once_idle_bytes: u64,
    /// Read again, clean, and unread for [`again_idle_ms`](crate::drop_cache::Config::again_idle_ms).
    pub again_idle_bytes: u64,
    /// Part of `cached_bytes` that was read more than once.
    pub reused_bytes: u64,
    /// Dropped within [`REMEMBERED_MS`](crate::drop_cache::REMEMBERED_MS).
    pub dropped_bytes: u64,
    /// Part of `dropped_bytes` that was read since.
    pub returned_bytes: u64,
}

/// What a census found of the group's page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSample {
    /// CPU time of the census, nanoseconds. A search for files does not count.
    pub cpu_ns: u64,
    /// Came to memory since the census before.
    pub new_bytes: u64,
    /// By file.
    pub files: Vec<FileCache>,
}

/// What came to page cache since the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CameIn {
    /// Came in.
    pub in_bytes: u64,
    /// Part of `in_bytes` that had been in memory before, as far as that is remembered.
    pub returned_bytes: u64,
    /// Of all that came in of late, what may go.
    pub ripe_bytes: u64,
    /// Of the pages that had been in memory before: how much else came in since they came in the last time.
    pub distances: Distances,
    /// What was asked to be dropped of newcomers.
    pub tried_bytes: u64,
    /// Part of `tried_bytes` that is gone.
    pub gone_bytes: u64,
}

/// How much else came in since a page came in the last time, summed up over pages that had been in memory before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distances {
    /// Pages.
    pub nr_pages: u64,
    /// Sum of their distances, MiB.
    pub sum_mib: u64,
    /// Sum of the squares of their distances, MiB times MiB.
    pub sum_mib2: u64,
}

impl Distances {
    /// So many pages came back, each after this distance.
    pub fn note(&mut self, nr_pages: u64, distance_mib: u64) {
        self.add(Distances {
            nr_pages,
            sum_mib: nr_pages.saturating_mul(distance_mib),
            sum_mib2: nr_pages.saturating_mul(distance_mib.saturating_mul(distance_mib)),
        });
    }

    /// Adds those of other pages.
    pub fn add(&mut self, other: Distances) {
        self.nr_pages = self.nr_pages.saturating_add(other.nr_pages);
        self.sum_mib = self.sum_mib.saturating_add(other.sum_mib);
        self.sum_mib2 = self.sum_mib2.saturating_add(other.sum_mib2);
    }

    /// All count half from now on.
    pub(crate) fn halve(&mut self) {
        self.nr_pages /= 2;
        self.sum_mib /= 2;
        self.sum_mib2 /= 2;
    }

    /// The mean.
    pub(crate) fn mean_bytes(&self) -> u64 {
        (self.sum_mib / self.nr_pages.max(1)).saturating_mul(MIB)
    }

    /// The standard deviation, as a percentage of the mean; 0 where there is nothing to deviate.
    pub(crate) fn deviation_percent(&self) -> u64 {
        let nr_pages = self.nr_pages.max(1) as f64;
        // So much that it can't be told.
        if self.sum_mib2 == u64::MAX {
            return u64::MAX;
        }
        let mean = self.sum_mib as f64 / nr_pages;
        let variance = (self.sum_mib2 as f64 / nr_pages - mean * mean).max(0.0);
        match mean > 0.0 {
            true => (100.0 * variance.sqrt() / mean) as u64,
            false => 0,
        }
    }
}

/// How it stands with page cache; part of a tick's sample where page cache can be dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheLook {
    /// A census is being taken, or pages are being dropped.
    pub is_busy: bool,
    /// What a census found that ended since the last tick.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub found: Option<CacheSample>,
    /// What came in, if a look has ended since the last tick.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub came_in: Option<CameIn>,
}

impl CacheLook {
    /// A look has ended.
    pub fn add(&mut self, came_in: CameIn) {
        let before = self.came_in.unwrap_or_default();
        let mut distances = before.distances;
        distances.add(came_in.distances);
        self.came_in = Some(CameIn {
            distances,
            in_bytes: before.in_bytes + came_in.in_bytes,
            returned_bytes: before.returned_bytes + came_in.returned_bytes,
            tried_bytes: before.tried_bytes + came_in.tried_bytes,
            gone_bytes: before.gone_bytes + came_in.gone_bytes,
            ripe_bytes: came_in.ripe_bytes,
        });
    }
}
