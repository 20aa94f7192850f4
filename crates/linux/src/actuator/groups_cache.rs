//! A thread that takes censuses of the page cache of many groups, and drops the oldest of it group by group.
//!
//! ```text
//!   Census (groups)  -> one access::census::GroupPages -> a table for each group -> how old its page cache is
//!   Drop (group)     -> the table chooses -> a look at these pages: still unread? -> page_cache::drop_of -> what is gone
//! ```
//!
//! **Owns** the thread, and whose page is told to which table. **Does not own** when a census comes and how much of which group
//! goes (the guard), which pages of a group are oldest (`strata_control::page_cache`), nor dropping (`page_cache`).
//!
//! **Invariants**
//! - I1: there is one census for all groups. A page is of the group that is charged for it.
//! - I2: a page goes only if it stands, just before, as the last census saw it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_control::drop_cache;
use strata_control::page_cache::{CacheAges, FileId as KnownFile, FileKey, IdleTable, PageFound};
use strata_lru::TimeMs;

use super::cache_files::{NEAR_PAGES, Names, add_range, drop_ranges, open_file};
use super::cache_mover::{CachePages, Judge, Promote};
use super::worker::Worker;
use crate::access::census::{FileId, GroupPages, Whose};
use crate::addr::FILE_PAGES_MAX;
use crate::page_cache::Dropped;
use crate::process::{is_multi_gen_on, thread_cpu_ns};

/// Requests under way at most: a census, and a drop for each of so many groups.
const IN_FLIGHT_MAX: usize = 256;
/// A host has more files with page cache than a group has.
const HOST_FILES_MAX: usize = 4096;
/// What was dropped is remembered for so long: what comes back later lay idle for an hour.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// What is to be done.
#[derive(Clone, Debug)]
pub enum GroupsCacheRequest {
    /// A census.
    Census {
        /// The groups that are looked at: inodes of their directories. Of others everything is forgotten.
        groups: Vec<u64>,
        /// What of their page cache is to come up to faster memory; `None`: nothing.
        promote: Option<Promote>,
    },
    /// Dropping page cache of a group, read longest ago first.
    Drop {
        /// Which.
        group: u64,
        /// What was read within so long stays.
        older_than: Duration,
        /// At most so much.
        nr_pages: u64,
    },
}

/// What a census found of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCache {
    /// Inode of its directory.
    pub group: u64,
    /// How much there is, and how old it is.
    pub ages: CacheAges,
    /// Came to memory since the census before.
    pub new_bytes: u64,
    /// Had been dropped, and was read again since the census before.
    pub nr_returned_pages: u64,
}

/// What became of a request.
#[derive(Debug)]
pub enum GroupsCacheDone {
    /// What a census found.
    Census {
        /// Of each group. An error: none can be taken here, or this one failed.
        found: Result<Vec<GroupCache>, String>,
        /// What is to come up, where that was asked for.
        to_promote: Vec<CachePages>,
        /// The CPU time that it took, nanoseconds.
        cpu_ns: u64,
    },
    /// What became of pages of a group.
    Dropped {
        /// Which group.
        group: u64,
        /// So many were asked for.
        nr_asked_pages: u64,
        /// What was tried, and what is gone.
        dropped: Dropped,
    },
}

/// The owner's side.
#[derive(Debug)]
pub struct GroupsCacheThread {
    worker: Worker<GroupsCacheRequest, GroupsCacheDone>,
}

impl GroupsCacheThread {
    /// Starts the thread; it looks at nothing yet.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start() -> io::Result<GroupsCacheThread> {
        let mut caches = Caches {
            pages: None,
            tables: BTreeMap::new(),
            began: Instant::now(),
            names: Names::default(),
        };
        let worker = Worker::start("strata-caches", IN_FLIGHT_MAX, move |request, stop| {
            caches.handle(request, &|| stop.is_set())
        })?;
        Ok(GroupsCacheThread { worker })
    }

    /// Hands a request over; `false`: there are too many.
    pub fn try_submit(&mut self, request: GroupsCacheRequest) -> bool {
        self.worker.try_submit(request).is_ok()
    }

    /// The next outcome.
    pub fn poll(&mut self) -> Option<GroupsCacheDone> {
        self.worker.poll()
    }

    /// Whether a request is under way.
    pub fn is_busy(&self) -> bool {
        self.worker.nr_in_flight() > 0
    }

    /// Ends the thread; what it has done is told.
    pub fn stop(&mut self) -> Vec<GroupsCacheDone> {
        self.worker.stop()
    }
}

/// The page cache of one group.
#[derive(Debug)]
struct Table {
    table: IdleTable,
    /// What had come back at the last census.
    nr_returned_pages: u64,
}

/// What the thread has.
#[derive(Debug)]
struct Caches {
    /// From the first census on, where one can be taken.
    pages: Option<GroupPages>,
    tables: BTreeMap<u64, Table>,
    began: Instant,
    names: Names,
}

impl Caches {
    fn now(&self) -> TimeMs {
        TimeMs(self.began.elapsed().as_millis() as u64)
    }

    fn handle(
        &mut self,
        request: GroupsCacheRequest,
        is_stopped: &dyn Fn() -> bool,
    ) -> GroupsCacheDone {
        match request {
            GroupsCacheRequest::Census { groups, promote } => {
                let mut to_promote = Vec::new();
                let before_ns = thread_cpu_ns();
                let found = match is_stopped() {
                    true => Err("it is over".to_owned()),
                    false => self.census(groups, promote.as_ref(), &mut to_promote),
                };
                GroupsCacheDone::Census {
                    found,
                    to_promote,
                    cpu_ns: thread_cpu_ns() - before_ns,
                }
            }
            GroupsCacheRequest::Drop {
                group,
                older_than,
                nr_pages,
            } => GroupsCacheDone::Dropped {
                group,
                nr_asked_pages: nr_pages,
                dropped: self.drop_oldest(group, older_than, nr_pages, is_stopped),
            },
        }
    }

    fn census(
        &mut self,
        groups: Vec<u64>,
        promote: Option<&Promote>,
        to_promote: &mut Vec<CachePages>,
    ) -> Result<Vec<GroupCache>, String> {
        let now = self.now();
        self.tables.retain(|id, _| groups.contains(id));
        for id in &groups {
            self.tables.entry(*id).or_insert_with(|| Table {
                table: IdleTable::new(drop_cache::Config::default())
                    .remembering(REMEMBERED.as_millis() as u64),
                nr_returned_pages: 0,
            });
        }
        if self.pages.is_none() {
            let pages = GroupPages::open_for(Whose::Each(Vec::new()), HOST_FILES_MAX, false);
            self.pages = Some(pages.map_err(|error| error.to_string())?);
        }
        let pages = self.pages.as_mut().ok_or("there is no census")?;
        pages.look_at(groups);
        pages.search_if_due().map_err(|error| error.to_string())?;
        let mut files: BTreeMap<u64, Vec<KnownFile>> = BTreeMap::new();
        for (id, file) in pages.files_of_groups() {
            files.entry(id).or_default().push(file.into());
        }
        // Of which files pages were dropped that may come back, charged to whomever.
        let mut left: HashMap<FileKey, Vec<u64>> = HashMap::new();
        for (id, of) in &mut self.tables {
            of.table.begin(now, files.remove(id).unwrap_or_default());
            for key in of.table.files_left() {
                left.entry(key).or_default().push(*id);
            }
        }
        let tables = &mut self.tables;
        let judge =
            promote.map(|promote| Judge::new(promote, pages.nr_reads_max(), is_multi_gen_on()));
        let mut coming: BTreeMap<FileKey, Vec<Range<u64>>> = BTreeMap::new();
        let mut room = promote.map_or(0, |promote| promote.nr_pages_max);
        let listed = pages.list_by_group(&mut |id, page, placed| {
            if let (Some(id), Some(judge)) = (id, judge.as_ref().filter(|_| room > 0))
                && judge.is_of(id)
                && judge.wants(id, &page, &placed)
            {
                room = room.saturating_sub(page.nr_pages);
                let ranges = coming.entry(page.file).or_default();
                add_range(ranges, page.index..page.index + page.nr_pages);
            }
            if let Some(of) = id.and_then(|id| tables.get_mut(&id)) {
                of.table.see(page);
            }
            for other in left.get(&page.file).into_iter().flatten() {
                if let Some(of) = tables.get_mut(other).filter(|_| Some(*other) != id) {
                    of.table.see_elsewhere(page);
                }
            }
        });
        let listed = listed.map_err(|error| error.to_string())?;
        for (key, ranges) in coming {
            let file = pages.files().get(&key);
            let names = &mut self.names;
            let opened = file.and_then(|file| open_file(names, pages.census(), file));
            to_promote.extend(opened.map(|file| CachePages {
                file: Arc::new(file),
                nr_pages: ranges.iter().map(|range| range.end - range.start).sum(),
                ranges,
            }));
        }
        let nr_reads_max = pages.nr_reads_max();
        let tables = self.tables.iter_mut();
        let found = tables.map(|(id, of)| {
            for (file, nr_pages) in &listed {
                // Truncated: these pages did not have to go.
                of.table.forget(*file, *nr_pages..FILE_PAGES_MAX);
            }
            let sample = of.table.end(nr_reads_max);
            let nr_returned_pages = of.table.nr_returned_pages();
            GroupCache {
                group: *id,
                ages: of.table.ages(),
                new_bytes: sample.new_bytes,
                nr_returned_pages: nr_returned_pages
                    - std::mem::replace(&mut of.nr_returned_pages, nr_returned_pages),
            }
        });
        Ok(found.collect())
    }

    fn drop_oldest(
        &mut self,
        group: u64,
        older_than: Duration,
        nr_pages: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Dropped {
        let now = self.now();
        let mut dropped = Dropped::default();
        let (Some(pages), Some(of)) = (self.pages.as_ref(), self.tables.get_mut(&group)) else {
            return dropped;
        };
        let table = &mut of.table;
        for (number, ranges) in table.choose_older(older_than.as_millis() as u64, nr_pages) {
            if is_stopped() {
                break;
            }
            let Some(id) = table.file(number).copied() else {
                continue;
            };
            let found = pages.files().get(&id.key).copied();
            let file = found.unwrap_or_else(|| id.into());
            let is_as_seen = |page: &PageFound| table.is_as_seen(number, page);
            let ranges = unread(pages, &file, &ranges, &is_as_seen);
            if ranges.is_empty() {
                continue;
            }
            let mut on_range =
                |range: &Range<u64>, tried| table.note_dropped(now, number, range, tried);
            let of_file = drop_ranges(
                &mut self.names,
                pages.census(),
                file,
                ranges,
                false,
                &mut on_range,
            );
            if of_file.tried_bytes == 0 && !of_file.left_bytes.is_empty() {
                table.leave(now, number);
            }
            dropped.add(&of_file);
        }
        dropped
    }
}

/// What of these ranges stands as it was seen, as ranges of which none reaches over the end of another before. What is not told any
/// more is mapped, charged to others or gone.
fn unread(
    pages: &GroupPages,
    file: &FileId,
    ranges: &[Range<u64>],
    is_as_seen: &dyn Fn(&PageFound) -> bool,
) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    // What lies close together is looked at in one go.
    for near in ranges.chunk_by(|one, next| next.start - one.end <= NEAR_PAGES) {
        let (Some(first), Some(last)) = (near.first(), near.last()) else {
            continue;
        };
        let mut as_seen: Vec<Range<u64>> = Vec::new();
        let listed = pages.list_part(file, first.start..last.end, &mut |page| {
            if is_as_seen(&page) {
                add_range(&mut as_seen, page.index..page.index + page.nr_pages);
            }
        });
        if listed.is_ok() {
            common(near, &as_seen, &mut left);
        }
    }
    left
}

/// What both have, in the pieces that the first has.
fn common(ranges: &[Range<u64>], others: &[Range<u64>], found: &mut Vec<Range<u64>>) {
    let mut others = others.iter().peekable();
    for range in ranges {
        while let Some(other) = others.peek() {
            let both = range.start.max(other.start)..range.end.min(other.end);
            if !both.is_empty() {
                found.push(both);
            }
            if other.end > range.end {
                break;
            }
            others.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_was_chosen_only_that_goes_which_stands_as_it_was_seen() {
        let mut found = Vec::new();
        common(&[0..8, 8..12, 20..30], &[2..10, 11..22, 25..26], &mut found);
        assert_eq!(found, [2..8, 8..10, 11..12, 20..22, 25..26]);
        found.clear();
        common(std::slice::from_ref(&(0..8)), &[], &mut found);
        common(&[], std::slice::from_ref(&(0..8)), &mut found);
        assert!(found.is_empty());
    }
}
