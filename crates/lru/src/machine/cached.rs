//! Words for page cache, page by page, as whoever looks at pages tells of it.
//!
//! **Owns** the names of files and pages, and which files are worth a look. **Does not own** looking, nor what follows.

use super::PAGE_BYTES;

/// Two searches of all of memory for files that a group has page cache of are so far apart at least, milliseconds.
pub const SEARCH_PAUSE_MS: u64 = 5_000;
/// Censuses look at so many files at most, those with most in memory.
pub const FILES_MAX: usize = 1024;
/// Files of which less lies idle or is in memory are left, bytes: opening one costs as much as reading some pages, and what is
/// left of a program's own files is not worth it.
pub const FILE_BYTES_MIN: u64 = 256 << 10;
/// Pages of the longest file.
pub const FILE_PAGES_MAX: u64 = i64::MAX as u64 / PAGE_BYTES;

/// What a file goes by for as long as whoever looks at pages keeps it; later it may stand for another file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub u64);

/// A file that has page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Number of the device that its file system lies on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
    /// Tells files apart that had the same number one after the other.
    pub generation: u64,
    /// What it goes by now.
    pub key: FileKey,
    /// Whether the file is on no disk (tmpfs, memfd, shared memory): reclaim sends its pages to swap.
    pub is_in_memory_only: bool,
}

impl FileId {
    /// Whether both are one file, whatever they go by.
    pub fn is_same(&self, other: &FileId) -> bool {
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
