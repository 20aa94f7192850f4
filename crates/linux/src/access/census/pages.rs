//! The page cache of one group and those below it, or of many groups, page by page, as often as wanted.
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
//! - I2: of one group files with little in memory are not looked at; of many the largest are, up to a number.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use strata_lru::machine::{FILE_BYTES_MIN, FILES_MAX, FileKey, PageFound, Placed, SEARCH_PAUSE_MS};

use super::super::AccessError;
use super::take::{self, Asked, Extent, FilesOf};
use super::{Arrivals, Census, FileId, FilePart};
use crate::addr::{FILE_PAGES_MAX, PAGE_BYTES};
use crate::cgroup::{GroupNames, GroupReader};
use crate::nodes::ranges;
use crate::sys::bpf_census::RawRecord;

/// A search comes after so many times the CPU time that the last one took.
const SEARCH_REST: u32 = 100;

/// Whose page cache is looked at.
#[derive(Clone, Debug)]
pub enum Whose {
    /// That of a group and those below it.
    Within(GroupReader),
    /// That of each of these groups: inodes of their directories. Files with little in memory are looked at, and files that are in
    /// memory only (tmpfs, memfd).
    Each(Vec<u64>),
}

/// Takes censuses of the page cache of groups.
#[derive(Debug)]
pub struct GroupPages {
    census: Census,
    whose: Whose,
    /// Those of which the group has most in memory, as of the last search.
    files: BTreeMap<FileKey, FileId>,
    /// Which group has most of each of these files.
    group_ids: BTreeMap<FileKey, u64>,
    /// The files of each group.
    of_groups: BTreeSet<(u64, FileKey)>,
    /// Which group the kernel's struct of one is.
    id_of_memcg: BTreeMap<u64, u64>,
    /// At most so many files are looked at.
    nr_files_max: usize,
    /// When the next search may begin.
    search_due: Option<Instant>,
    arrivals: Option<Arrivals>,
}

impl GroupPages {
    /// Sets up; looks at nothing yet. `watches_arrivals`: what comes to memory is to be told, where the kernel does.
    ///
    /// # Errors
    /// Those of [`Census::open`].
    pub fn open(group: GroupReader, watches_arrivals: bool) -> Result<GroupPages, AccessError> {
        GroupPages::open_for(Whose::Within(group), FILES_MAX, watches_arrivals)
    }

    /// As [`open`](GroupPages::open), for these groups and at most so many files.
    ///
    /// # Errors
    /// As there.
    pub fn open_for(
        whose: Whose,
        nr_files_max: usize,
        watches_arrivals: bool,
    ) -> Result<GroupPages, AccessError> {
        Ok(GroupPages {
            // Where the kernel does not tell of what comes to memory, everything else still goes.
            census: Census::open_with(0, watches_arrivals).or_else(|_| Census::open())?,
            whose,
            nr_files_max,
            of_groups: BTreeSet::new(),
            id_of_memcg: BTreeMap::new(),
            files: BTreeMap::new(),
            group_ids: BTreeMap::new(),
            search_due: None,
            arrivals: None,
        })
    }

    /// Looks through all of memory for files that the group has pages of, if that is due; tells whether it was. A search that is
    /// not the first is put off where groups can't be read at the moment.
    ///
    /// # Errors
    /// Those of the kernel; [`io::ErrorKind::NotFound`] where the group was removed. The files stay those of the last search.
    pub fn search_if_due(&mut self) -> io::Result<bool> {
        let started = Instant::now();
        if self.search_due.is_some_and(|due| started < due) {
            return Ok(false);
        }
        let Some(ids) = self.ids(started)? else {
            return Ok(false);
        };
        self.census.program.watch_groups(&ids)?;
        let asked = Asked {
            extent: Extent::Whole,
            wants_files: true,
            files_of: match self.whose {
                Whose::Within(_) => FilesOf::Groups,
                Whose::Each(_) => FilesOf::GroupsWithShmem,
            },
            remembering: None,
        };
        let taken = take::take(&self.census, &ranges::read()?, &asked, &mut |_| {}, &|| {
            false
        })?;
        let mut parts = taken.files;
        self.id_of_memcg = parts.iter().map(|of| (of.memcg, of.group_id)).collect();
        let bytes_min = match self.whose {
            Whose::Within(_) => FILE_BYTES_MIN,
            Whose::Each(_) => 0,
        };
        let is_worth_it = |part: &FilePart| part.sums.bytes >= bytes_min && !part.file.is_disk;
        parts.retain(|part| ids.contains(&part.group_id) && is_worth_it(part));
        parts.sort_by_key(|part| Reverse(part.sums.bytes));
        parts.truncate(self.nr_files_max);
        self.files.clear();
        self.group_ids.clear();
        self.of_groups.clear();
        for part in &parts {
            let key = FileKey(part.file.mapping);
            self.files.insert(key, part.file);
            self.of_groups.insert((part.group_id, key));
            // The first part is the largest.
            self.group_ids.entry(key).or_insert(part.group_id);
        }
        if self.arrivals.is_none() {
            let watched = Arrivals::watch(&self.census);
            self.arrivals = watched.unwrap_or_else(|error| {
                tracing::debug!(%error, "what comes to page cache is not told");
                None
            });
        }
        let rest = Duration::from_nanos(taken.cost.cpu_ns) * SEARCH_REST;
        self.search_due = Some(started + rest.max(Duration::from_millis(SEARCH_PAUSE_MS)));
        Ok(true)
    }

    /// The groups that are looked at; `None`: that can't be told at the moment.
    fn ids(&mut self, started: Instant) -> io::Result<Option<Vec<u64>>> {
        let group = match &self.whose {
            Whose::Each(ids) => return Ok(Some(ids.clone())),
            Whose::Within(group) => group,
        };
        let names = match GroupNames::read() {
            Ok(names) => names,
            // As where too many files are open for a moment.
            Err(error) if self.search_due.is_some() => {
                tracing::debug!(%error, "a search for files is put off");
                self.search_due = Some(started + Duration::from_millis(SEARCH_PAUSE_MS));
                return Ok(None);
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let ids = names.ids_within(group);
        if ids.is_empty() {
            // Without a group everything would look as if it had left memory.
            let why = format!("the cgroup {} was removed", group.name());
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(Some(ids))
    }

    /// From the next search on the page cache of these groups is looked at.
    pub fn look_at(&mut self, ids: Vec<u64>) {
        self.whose = Whose::Each(ids);
    }

    /// The files that are looked at of each group, by the inode of its directory, as of the last search.
    pub fn files_of_groups(&self) -> impl Iterator<Item = (u64, FileId)> {
        let files = self.of_groups.iter();
        files.filter_map(|(id, key)| Some((*id, *self.files.get(key)?)))
    }

    /// The files that are looked at: those of which the group has most in memory, as of the last search.
    pub fn files(&self) -> &BTreeMap<FileKey, FileId> {
        &self.files
    }

    /// The group that is charged for most of one of these files: inode of its directory, which [`GroupNames`] tells the name of.
    pub fn group_of(&self, file: &FileId) -> Option<u64> {
        self.group_ids.get(&FileKey(file.mapping)).copied()
    }

    /// Tells of each page of these files that is charged to the group, mapped or not, with the group that is charged (`None`: the search
    /// did not find it) and where it is. Pages of a file come in order. Returns how many pages each file is long: 0 where the file has no
    /// name any more.
    ///
    /// # Errors
    /// Those of the kernel; pages may have been told before.
    pub fn list_by_group(
        &self,
        each: &mut dyn FnMut(Option<u64>, PageFound, Placed),
    ) -> io::Result<Vec<(FileKey, u64)>> {
        let id = |record: &RawRecord| self.id_of_memcg.get(&record.memcg).copied();
        let mut on_page =
            |record: &RawRecord| each(id(record), found_of(record), placed_of(record));
        let files = self.files.iter();
        let lengths = files.map(|(key, file)| {
            let file_bytes = take::list(&self.census, file, 0..FILE_PAGES_MAX, true, &mut on_page)?;
            Ok((*key, file_bytes.div_ceil(PAGE_BYTES)))
        });
        lengths.collect()
    }

    /// Tells of each page in a part of a file that is charged to the group and that nobody has mapped, in order. Pages beside
    /// the part may be told, too.
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
        take::list(&self.census, file, pages, false, &mut on_page).map(drop)
    }

    /// Tells of page cache as it comes to memory, from the first search on; `None`: this kernel does not tell, or nothing was
    /// searched yet.
    pub fn arrivals(&self) -> Option<&Arrivals> {
        self.arrivals.as_ref()
    }

    /// Reads of a page that the kernel counts at most.
    pub fn nr_reads_max(&self) -> u32 {
        self.census.places.rank_max() as u32
    }

    /// The census, for names of files.
    pub fn census(&self) -> &Census {
        &self.census
    }
}

fn placed_of(record: &RawRecord) -> Placed {
    Placed {
        page: record.page,
        is_active: record.is_active,
        is_workingset: record.is_workingset,
        generation: record.lru_generation,
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
        is_mapped: record.is_mapped,
    }
}
