//! What is known of the pages of a group's page cache, page by page, whoever looks at them: a live kernel or a played one.
//!
//! ```text
//!   a census (files, each page in memory)  -> idle:      which pages nobody has read for a while, and which left and came back
//!                                             tiers:     what became of pages, by how often they had been read
//!   what comes to memory, in order         -> newcomers: which of it may go again, and what had been there before
//! ```
//!
//! **Owns** what is asked of whoever has the pages, and sums of pages by age. **Does not own** the names of files and pages
//! (`strata_lru::machine`), taking a census, hearing of what comes in and dropping (whoever has the pages), nor how much is dropped
//! (`strategy::drop_cache`, `admit_cache`).
//!
//! **Invariants** I1: nothing here is read from the system or written to it; time is a parameter.

mod idle;
mod newcomers;
mod tiers;

pub use idle::IdleTable;
pub use newcomers::{Newcomer, Newcomers};
pub use tiers::TierCounts;

use crate::plan::Action;
use crate::sample::{FileNo, Reads};
use std::collections::BTreeMap;
use std::time::Duration;
use strata_lru::machine::FILE_PAGES_MAX;
pub use strata_lru::machine::{
    Arrival, FILE_BYTES_MIN, FILES_MAX, FileId, FileKey, PageFound, Placed, SEARCH_PAUSE_MS, Tried,
};

/// Pages of a huge folio. Ranges that are dropped end where one may end.
pub const FOLIO_PAGES_MAX: u64 = 512;
/// Tiers that pages of page cache have.
pub const NR_TIERS: usize = 4;

/// The tier of a page that was read so often.
fn tier_of(nr_reads: u8) -> usize {
    let order = nr_reads.max(1).next_power_of_two().trailing_zeros() as usize;
    order.min(NR_TIERS - 1)
}

/// What an action asks of whoever looks at page cache and drops it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRequest {
    /// A census.
    Census,
    /// A look at what came in; it is remembered until so many bytes came in after it.
    LookAtNewcomers(u64),
    /// Dropping pages.
    Drop(CacheDrop),
}

/// Which pages of page cache are to be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheDrop {
    /// Of a file what lies idle and was read so often, read longest ago first: at most so many bytes.
    File(FileNo, Reads, u64),
    /// What came in of late and was read once since: at most so many bytes.
    Newcomers(u64),
}

impl CacheRequest {
    /// What an action asks for; `None`: it has nothing to do with page cache.
    pub fn of(action: Action) -> Option<CacheRequest> {
        let drop = match action {
            Action::TakeCensus => return Some(CacheRequest::Census),
            Action::LookAtNewcomers { history_bytes } => {
                return Some(CacheRequest::LookAtNewcomers(history_bytes));
            }
            Action::DropReadOnce { file, bytes } => {
                CacheDrop::File(FileNo(file), Reads::Once, bytes)
            }
            Action::DropReadAgain { file, bytes } => {
                CacheDrop::File(FileNo(file), Reads::Again, bytes)
            }
            Action::DropNewcomers { bytes } => CacheDrop::Newcomers(bytes),
            Action::PageOut { .. } | Action::Reclaim { .. } | Action::LimitPageout { .. } => {
                return None;
            }
        };
        Some(CacheRequest::Drop(drop))
    }
}

/// What page cache that nobody has mapped is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheClass {
    /// Files on disks.
    #[default]
    File,
    /// Files on disks of which there is less than [`FILE_BYTES_MIN`].
    SmallFile,
    /// Files that are in memory only: it goes to swap.
    MemoryOnly,
}

/// Classes of page cache.
pub const NR_CACHE_CLASSES: usize = 3;

/// Pages that were not read for about the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheAge {
    /// What of.
    pub class: CacheClass,
    /// For at least so long, milliseconds.
    pub age_ms: u64,
    /// They were read once, of a file on a disk, or brought by readahead and not read since, and not since the census before.
    pub is_once: bool,
    /// How many.
    pub nr_pages: u64,
}

/// Which page cache is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// What was not read for so long.
    pub older_than: Duration,
    /// Also what was read once, whatever its age.
    pub with_once: bool,
}

impl Idle {
    /// Whether these pages are.
    pub fn has(self, age_ms: u64, is_once: bool) -> bool {
        u128::from(age_ms) >= self.older_than.as_millis() || self.with_once && is_once
    }
}

/// A group's page cache that nobody has mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheAges {
    /// In memory, by class.
    pub nr_cached_pages: [u64; NR_CACHE_CLASSES],
    /// Part of that which is of files that can't be reached, as far as that was tried, by how long it was not read; 0 where that is not
    /// known.
    pub unreachable: Vec<CacheAge>,
    /// Part of `nr_cached_pages` which can be dropped, by how long it was not read; the oldest first.
    pub ages: Vec<CacheAge>,
    /// Pages that were read again since the census before, by the time for which they had not been read, milliseconds.
    pub read_again: BTreeMap<u64, u64>,
    /// Dropped, and not come back as far as is remembered, by class.
    pub nr_away_pages: [u64; NR_CACHE_CLASSES],
    /// What it takes to know all this, bytes.
    pub kept_bytes: u64,
}

impl CacheAges {
    /// What can be dropped and was not read for so long, pages.
    pub fn nr_older_pages(&self, idle_ms: u64) -> u64 {
        let older = self.ages.iter().filter(|of| of.age_ms >= idle_ms);
        older.map(|of| of.nr_pages).sum()
    }

    /// Part of that, of one class.
    pub fn nr_older_of(&self, class: CacheClass, idle_ms: u64) -> u64 {
        nr_of(&self.ages, class, idle_ms)
    }

    /// Pages of one class of files that can't be reached that were not read for so long.
    pub fn nr_unreachable_of(&self, class: CacheClass, idle_ms: u64) -> u64 {
        nr_of(&self.unreachable, class, idle_ms)
    }
}

fn nr_of(ages: &[CacheAge], class: CacheClass, idle_ms: u64) -> u64 {
    let is_meant = |of: &&CacheAge| of.class == class && of.age_ms >= idle_ms;
    ages.iter().filter(is_meant).map(|of| of.nr_pages).sum()
}
