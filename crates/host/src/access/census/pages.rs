//! The page cache of one group and those below it, page by page, as often as wanted.
//!
//! ```text
//!   search (all of memory)    -> which files the group has pages of
//!   every census              -> the pages of these files alone, by the tree in which the kernel keeps them
//! ```
//!
//! A group's pages lie all over memory. A census by file costs as much as its page cache is large, and not the machine.
//! A file that is new to memory is found by the next search.
//!
//! **Owns** which files are looked at, and when all of memory is. **Does not own** what follows from a page's state.
//!
//! **Invariants**
//! - I1: searches take at most 1 % of a processor, but for the first.
//! - I2: files with little in memory are not looked at.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::ranges;
use super::take::{self, Extent};
use super::watch::rank_max;
use super::{AccessError, Arrivals, Census, FileId, FilePart, GroupNames, unavailable};
use crate::addr::FILE_PAGES_MAX;
use crate::cgroup::GroupReader;
use crate::sys::bpf_census::RawRecord;

/// Two searches are so far apart at least.
const SEARCH_PAUSE_MIN: Duration = Duration::from_secs(5);
/// Files with at least so much in memory are looked at.
const FILE_BYTES_MIN: u64 = 256 << 10;
/// At most so many files are looked at, those with most in memory.
const FILES_MAX: usize = 1024;
/// A search comes after so many times the CPU time that the last one took.
const SEARCH_REST: u32 = 100;

/// A file that a census found, as long as the kernel keeps it. Never shown, as the kernel's address in it is a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(u64);

#[cfg(test)]
impl FileKey {
    pub(crate) fn for_tests(number: u64) -> FileKey {
        FileKey(number)
    }
}

/// Page cache that nobody has mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFound {
    /// Of this file.
    pub file: FileKey,
    /// Number of the first page in the file.
    pub index: u64,
    /// Pages: more than one where the kernel keeps them together.
    pub nr_pages: u64,
    /// Reads through descriptors that the kernel has counted; it stops at [`GroupPages::nr_reads_max`].
    pub nr_reads: u32,
    /// Whether the page is to be written, is being written, or is locked in memory.
    pub is_busy: bool,
    /// The kernel's flag: the page was read since it came to memory, or since the kernel last took the flag away.
    pub is_referenced: bool,
}

/// Takes censuses of a group's page cache.
#[derive(Debug)]
pub struct GroupPages {
    census: Census,
    group: GroupReader,
    ranges: Vec<ranges::Range>,
    /// Those of which the group has most in memory, as of the last search.
    files: BTreeMap<FileKey, FileId>,
    /// When the next search may begin.
    search_due: Option<Instant>,
    arrivals: Option<Arrivals>,
}

impl GroupPages {
    /// Sets up; looks at nothing yet.
    ///
    /// # Errors
    /// Those of [`Census::open`]; [`AccessError::Unavailable`] where `/proc/zoneinfo` can't be read.
    pub fn open(group: GroupReader) -> Result<GroupPages, AccessError> {
        Ok(GroupPages {
            // Where the kernel does not tell of what comes to memory, everything else still goes.
            census: Census::open_with(0, true).or_else(|_| Census::open())?,
            group,
            ranges: ranges::read().map_err(|error| unavailable(error.to_string()))?,
            files: BTreeMap::new(),
            search_due: None,
            arrivals: None,
        })
    }

    /// Looks through all of memory for files that the group has pages of, if that is due.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn search_if_due(&mut self) -> io::Result<()> {
        let started = Instant::now();
        if self.search_due.is_some_and(|due| started < due) {
            return Ok(());
        }
        let names = GroupNames::read().map_err(io::Error::other)?;
        let ids = names.ids_within(&self.group);
        self.census.program.watch_groups(&ids)?;
        let taken = take::take(
            &self.census,
            &self.ranges,
            &Extent::Whole,
            true,
            None,
            true,
            &|| false,
        )?;
        let mut parts = taken.files;
        let is_worth_it = |part: &FilePart| part.sums.bytes >= FILE_BYTES_MIN && !part.file.is_disk;
        parts.retain(|part| ids.contains(&part.group_id) && is_worth_it(part));
        parts.sort_by_key(|part| Reverse(part.sums.bytes));
        let files = parts.iter().take(FILES_MAX);
        self.files = files
            .map(|part| (FileKey(part.file.mapping), part.file))
            .collect();
        if self.arrivals.is_none() {
            let watched = Arrivals::watch(&self.census);
            self.arrivals = watched.unwrap_or_else(|error| {
                tracing::debug!(%error, "what comes to page cache is not told");
                None
            });
        }
        let rest = Duration::from_nanos(taken.cost.cpu_ns) * SEARCH_REST;
        self.search_due = Some(started + rest.max(SEARCH_PAUSE_MIN));
        Ok(())
    }

    /// The files that are looked at: those of which the group has most in memory, as of the last search.
    pub fn files(&self) -> &BTreeMap<FileKey, FileId> {
        &self.files
    }

    /// Tells of each page of these files that is charged to the group. Pages of a file come in order.
    ///
    /// # Errors
    /// Those of the kernel; pages may have been told before.
    pub fn list(&self, each: &mut dyn FnMut(PageFound)) -> io::Result<()> {
        let mut on_page = |record: &RawRecord| each(found_of(record));
        for file in self.files.values() {
            take::list(&self.census, file, 0..FILE_PAGES_MAX, &mut on_page)?;
        }
        Ok(())
    }

    /// Tells of each page in a part of a file that is charged to the group, in order. Pages beside the part may be told, too.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn list_part(
        &self,
        file: &FileId,
        pages: Range<u64>,
        each: &mut dyn FnMut(PageFound),
    ) -> io::Result<()> {
        let mut on_page = |record: &RawRecord| each(found_of(record));
        take::list(&self.census, file, pages, &mut on_page)
    }

    /// Tells of page cache as it comes to memory, from the first search on; `None`: this kernel does not tell, or nothing was
    /// searched yet.
    pub fn arrivals(&self) -> Option<&Arrivals> {
        self.arrivals.as_ref()
    }

    /// Reads of a page that the kernel counts at most.
    pub fn nr_reads_max(&self) -> u32 {
        rank_max(&self.census.places) as u32
    }

    /// The census, for names of files.
    pub fn census(&self) -> &Census {
        &self.census
    }
}

fn found_of(record: &RawRecord) -> PageFound {
    PageFound {
        file: FileKey(record.mapping),
        index: record.index,
        nr_pages: record.nr_pages,
        nr_reads: record.rank,
        is_busy: record.is_busy,
        is_referenced: record.is_referenced,
    }
}
