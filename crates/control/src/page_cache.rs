//! What is known of the pages of a group's page cache, page by page, whoever looks at them: a live kernel or a played one.
//!
//! ```text
//!   a census (files, each page in memory)  -> idle:      which pages nobody has read for a while, and which left and came back
//!                                             tiers:     what became of pages, by how often they had been read
//!   what comes to memory, in order         -> newcomers: which of it may go again, and what had been there before
//! ```
//!
//! **Owns** the names by which files and pages are told here. **Does not own** taking a census, hearing of what comes in and
//! dropping (whoever has the pages), nor how much is dropped (`strategy::drop_cache`, `admit_cache`).
//!
//! **Invariants** I1: nothing here is read from the system or written to it; time is a parameter.

mod idle;
mod newcomers;
mod tiers;

pub use idle::IdleTable;
pub use newcomers::{Newcomer, Newcomers, Verdict};
pub use tiers::TierCounts;

use crate::sample::PAGE_BYTES;
pub use crate::strategy::drop_cache::FILE_BYTES_MIN;

/// Two searches of all of memory for files that a group has page cache of are so far apart at least, milliseconds.
pub const SEARCH_PAUSE_MS: u64 = 5_000;
/// Censuses look at so many files at most, those with most in memory.
pub const FILES_MAX: usize = 1024;
/// Pages of a huge folio. Ranges that are dropped end where one may end.
pub const FOLIO_PAGES_MAX: u64 = 512;
/// No file has as many pages.
const FILE_PAGES_MAX: u64 = i64::MAX as u64 / PAGE_BYTES;

/// Tiers that pages of page cache have.
pub const NR_TIERS: usize = 4;

/// What a file goes by for as long as whoever looks at pages keeps it; later it may stand for another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u64);

/// A file that has page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Number of the device that its file system lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Tells files apart that had the same number one after the other.
    pub generation: u64,
    /// What it goes by now.
    pub key: FileKey,
}

impl FileId {
    /// Whether both are one file, whatever they go by.
    fn is_same(&self, other: &FileId) -> bool {
        let of = |id: &FileId| (id.device, id.inode, id.generation);
        of(self) == of(other)
    }
}

/// Pages that a census has found in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFound {
    /// Of this file.
    pub file: FileKey,
    /// Number of the first page in the file.
    pub index: u64,
    /// Pages: more than one where the kernel keeps them together.
    pub nr_pages: u64,
    /// Reads through descriptors that the kernel has counted; it stops at a number that whoever takes the census knows.
    pub nr_reads: u32,
    /// Whether the page is to be written, is being written, or is locked in memory.
    pub is_busy: bool,
    /// The kernel's flag: the page was read since it came to memory, or since the kernel last took the flag away.
    pub is_referenced: bool,
    /// Whether a program has mapped one of them: then reads are not counted, and nothing else is known of them here.
    pub is_mapped: bool,
}

/// Where a page of page cache is, and how it stands with the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Number of its first page in physical memory.
    pub page: u64,
    /// The kernel's flag.
    pub is_active: bool,
    /// The kernel's flag.
    pub is_workingset: bool,
    /// MGLRU: the number of its generation, modulo 4; `None`: on none, or not known.
    pub generation: Option<u8>,
}

/// What came of an attempt at dropping a range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Pages of the range that were in memory when the kernel was asked to drop it.
    pub nr_tried_pages: u64,
    /// Pages that were tried and are gone.
    pub nr_gone_pages: u64,
}

/// A folio of page cache that has come to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Of this file.
    pub file: FileId,
    /// Number of the first page in the file.
    pub index: u64,
    /// Pages: more than one where the kernel keeps them together.
    pub nr_pages: u64,
}

/// The tier of a page that was read so often.
fn tier_of(nr_reads: u8) -> usize {
    let order = nr_reads.max(1).next_power_of_two().trailing_zeros() as usize;
    order.min(NR_TIERS - 1)
}

/// Pages that were not read for about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheAge {
    /// For at least so long, milliseconds.
    pub age_ms: u64,
    /// How many.
    pub nr_pages: u64,
}

/// A group's page cache that nobody has mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheAges {
    /// In memory.
    pub nr_cached_pages: u64,
    /// Part of that which can be dropped, by how long it was not read; the oldest first.
    pub ages: Vec<CacheAge>,
    /// Dropped, and not come back as far as is remembered.
    pub nr_away_pages: u64,
    /// What it takes to know all this, bytes.
    pub kept_bytes: u64,
}

impl CacheAges {
    /// What can be dropped and was not read for so long, pages.
    pub fn nr_older_pages(&self, idle_ms: u64) -> u64 {
        let older = self.ages.iter().filter(|of| of.age_ms >= idle_ms);
        older.map(|of| of.nr_pages).sum()
    }
}
