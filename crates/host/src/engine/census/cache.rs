//! A thread that takes censuses of page cache, of one group as a whole or of each of many, and drops pages of it.
//!
//! ```text
//!   Census          -> access::census::GroupPages -> a table for each group -> how old its page cache is, what comes up
//!   LookAtNewcomers -> access::census::Arrivals   -> Newcomers              -> what came in
//!   Drop            -> table or Newcomers choose  -> a look at these pages  -> page_cache::Finder -> what is gone
//! ```
//!
//! In a dry run dropping is played, and newcomers are left alone.
//!
//! **Owns** the thread, and whose page is told to which table. **Does not own** when a census comes and how much goes (the loop,
//! the guard), which pages those are (`strata_control::page_cache`), nor dropping (`strata_linux::page_cache`).
//!
//! **Invariants**
//! - I1: there is one census for all groups. A page is of the group that is charged for it.
//! - I2: one thing is done after the other. Pages are chosen by the last census. The oldest of a group and newcomers go only as a look
//!   just before finds them.
//! - I3: a dry run drops nothing.

use super::promote::{Judge, Promote};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_control::page_cache::{
    CacheAges, Idle, IdleTable, NR_CACHE_CLASSES, NR_TIERS, Newcomers, TierCounts,
};
use strata_control::{
    CacheDrop, CacheRequest, CacheSample, CameIn, FileNo, admit_cache, drop_cache,
};
use strata_linux::access::census::{FileId, GroupPages, Whose};
use strata_linux::actuator::{CachePages, Worker};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::GroupReader;
use strata_linux::page_cache::{Dropped, Finder, Left};
use strata_linux::process::{is_multi_gen_on, thread_cpu_ns};
use strata_lru::TimeMs;
use strata_lru::machine::{FileId as KnownFile, FileKey, PageFound, Tried};

/// Requests under way at most: a census, and a drop for each of so many files or groups.
const IN_FLIGHT_MAX: usize = 256;
/// A host has more files with page cache than a group has, source trees and packages of interpreters among them. Each costs processor
/// time at each census, and memory for what is known of it.
const HOST_FILES_MAX: usize = 1 << 14;
/// What was dropped of one of many groups is remembered for so long: what comes back later lay idle for an hour.
const REMEMBERED: Duration = Duration::from_secs(3600);
/// Pages that lie so close together in a file are looked at in one go.
const NEAR_PAGES: u64 = 512;
/// One group as a whole stands for all whose page cache is looked at.
const WHOLE: u64 = 0;

/// Whose page cache is looked at.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// That of one group and those below it, as a whole.
    Whole {
        /// Its directory.
        group: PathBuf,
        /// Which pages lie idle.
        idle: drop_cache::Config,
        /// Which newcomers stay.
        newcomers: admit_cache::Config,
        /// Whether dropping is only played.
        is_dry_run: bool,
    },
    /// That of each of the groups that a census is asked for.
    Groups,
}

/// Dropping of a group what is idle, read longest ago first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DropIdle {
    /// Inode of its directory.
    pub(crate) group: u64,
    pub(crate) idle: Idle,
    /// At most so much of files on disks.
    pub(crate) nr_pages: u64,
    /// At most so much of files that are in memory only.
    pub(crate) nr_swap_pages: u64,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// What the loop asks for of one group as a whole.
    Whole(CacheRequest),
    /// A census of many.
    Census {
        /// The groups that are looked at: inodes of their directories. Of others everything is forgotten.
        groups: Vec<u64>,
        /// What of their page cache is to come up to faster memory; `None`: nothing.
        promote: Option<Promote>,
    },
    /// Dropping pages of one of many.
    Drop(DropIdle),
}

/// What a census found of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCache {
    /// Inode of its directory.
    pub(crate) group: u64,
    /// What lies idle, by file.
    pub(crate) sample: CacheSample,
    /// How much there is, and how old it is; of one of many groups.
    pub(crate) ages: CacheAges,
    /// Had been dropped, and was read again since the census before.
    pub(crate) nr_returned_pages: u64,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Done {
    /// What a census found.
    Census {
        /// Of each group. An error: none can be taken here, or this one failed.
        found: Result<Vec<GroupCache>, String>,
        /// What is to come up, where that was asked for.
        to_promote: Vec<CachePages>,
    },
    /// What came in.
    Look(CameIn),
    /// What became of pages of one group as a whole: what was tried, and what is gone.
    Dropped {
        which: CacheDrop,
        dropped: Dropped,
        /// What came in meanwhile.
        came_in: Option<CameIn>,
    },
    /// What became of pages of one of many, and which are gone, by class.
    DroppedIdle {
        which: DropIdle,
        dropped: Dropped,
        nr_gone_pages: [u64; NR_CACHE_CLASSES],
    },
}

/// How it stands with one group as a whole since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Pages of the group that had been dropped, or were played to be, and were read again.
    pub(crate) nr_returned_pages: u64,
    /// What became of pages, by tier.
    pub(crate) tiers: [TierCounts; NR_TIERS],
    /// Pages that are in memory, and that a dry run plays to have been dropped.
    pub(crate) nr_played_pages: u64,
    /// Came in while that was watched, bytes; not what came between two looks that lie 2 s or more apart, nor after the last.
    pub(crate) in_bytes: u64,
    /// Part of `in_bytes` that had been in memory before, as far as that is remembered.
    pub(crate) in_again_bytes: u64,
    /// Folios that came in and found no room in the buffer.
    pub(crate) nr_lost_folios: u64,
}

/// What became of a request, and how it stands.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) done: Done,
    pub(crate) totals: Totals,
    /// The CPU time that it took, nanoseconds.
    pub(crate) cpu_ns: u64,
}

/// The owner's side.
pub(crate) type CacheThread = Worker<Request, Outcome>;

/// Starts the thread; it looks at nothing yet.
///
/// # Errors
/// Those of starting a thread.
pub(crate) fn start(subject: Subject) -> io::Result<CacheThread> {
    let newcomers = match &subject {
        Subject::Whole { newcomers, .. } => *newcomers,
        Subject::Groups => admit_cache::Config::default(),
    };
    let mut room = Room {
        newcomers: Newcomers::new(newcomers),
        subject,
        pages: None,
        tables: BTreeMap::new(),
        began: Instant::now(),
        finder: Finder::default(),
    };
    Worker::start("strata-cache", IN_FLIGHT_MAX, move |request, stop| {
        room.handle(request, &|| stop.is_set())
    })
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
struct Room {
    subject: Subject,
    /// From the first census on, where one can be taken.
    pages: Option<GroupPages>,
    tables: BTreeMap<u64, Table>,
    newcomers: Newcomers,
    began: Instant,
    finder: Finder,
}

impl Subject {
    fn open(&self) -> Result<GroupPages, String> {
        let pages = match self {
            Subject::Whole {
                group, is_dry_run, ..
            } => {
                let group = GroupReader::open(group).map_err(|error| error.to_string())?;
                // Newcomers stay in a dry run.
                GroupPages::open(group, !is_dry_run)
            }
            Subject::Groups => GroupPages::open_for(Whose::Each(Vec::new()), HOST_FILES_MAX, false),
        };
        pages.map_err(|error| error.to_string())
    }

    fn table(&self) -> Table {
        let table = match self {
            Subject::Whole { idle, .. } => IdleTable::new(*idle),
            Subject::Groups => IdleTable::new(drop_cache::Config::default())
                .remembering(REMEMBERED.as_millis() as u64),
        };
        Table {
            table,
            nr_returned_pages: 0,
        }
    }

    fn is_whole(&self) -> bool {
        matches!(self, Subject::Whole { .. })
    }

    fn is_dry_run(&self) -> bool {
        matches!(self, Subject::Whole { is_dry_run, .. } if *is_dry_run)
    }
}

impl Room {
    fn now(&self) -> TimeMs {
        TimeMs(self.began.elapsed().as_millis() as u64)
    }

    fn handle(&mut self, request: Request, is_stopped: &dyn Fn() -> bool) -> Outcome {
        let before_ns = thread_cpu_ns();
        let done = match request {
            Request::Whole(CacheRequest::Census) => self.census(Vec::new(), None, is_stopped),
            Request::Census { groups, promote } => {
                self.census(groups, promote.as_ref(), is_stopped)
            }
            Request::Whole(CacheRequest::LookAtNewcomers(history_bytes)) => {
                self.newcomers.remember(history_bytes);
                Done::Look(self.look())
            }
            Request::Whole(CacheRequest::Drop(which)) => self.drop_pages(which, is_stopped),
            Request::Drop(which) => self.drop_idle(which, is_stopped),
        };
        Outcome {
            done,
            totals: self.totals(),
            cpu_ns: thread_cpu_ns() - before_ns,
        }
    }

    fn totals(&self) -> Totals {
        let Some(Table { table, .. }) = self.tables.get(&WHOLE) else {
            return Totals::default();
        };
        let arrivals = self.pages.as_ref().and_then(GroupPages::arrivals);
        let (in_bytes, in_again_bytes) = self.newcomers.totals_bytes();
        Totals {
            nr_returned_pages: table.nr_returned_pages(),
            tiers: table.tiers(),
            nr_played_pages: table.nr_played_pages(),
            in_bytes,
            in_again_bytes,
            nr_lost_folios: arrivals.map_or(0, |arrivals| arrivals.nr_lost().unwrap_or(0)),
        }
    }

    fn census(
        &mut self,
        groups: Vec<u64>,
        promote: Option<&Promote>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Done {
        let mut to_promote = Vec::new();
        let found = match is_stopped() {
            true => Err("it is over".to_owned()),
            false => self.take_census(groups, promote, &mut to_promote),
        };
        Done::Census { found, to_promote }
    }

    fn take_census(
        &mut self,
        mut groups: Vec<u64>,
        promote: Option<&Promote>,
        to_promote: &mut Vec<CachePages>,
    ) -> Result<Vec<GroupCache>, String> {
        let now = self.now();
        let is_whole = self.subject.is_whole();
        if is_whole {
            groups = vec![WHOLE];
        }
        self.tables.retain(|id, _| groups.contains(id));
        for id in &groups {
            let subject = &self.subject;
            self.tables.entry(*id).or_insert_with(|| subject.table());
        }
        if self.pages.is_none() {
            self.pages = Some(self.subject.open()?);
        }
        let pages = self.pages.as_mut().ok_or("there is no census")?;
        if !is_whole {
            pages.look_at(groups);
        }
        pages.search_if_due().map_err(|error| error.to_string())?;
        // Searches of one group have a pace of their own.
        let searched_ns = thread_cpu_ns();
        let table_of = |id: Option<u64>| if is_whole { Some(WHOLE) } else { id };
        let mut files: BTreeMap<Option<u64>, Vec<KnownFile>> = BTreeMap::new();
        for (id, file) in pages.files_of_groups() {
            files
                .entry(table_of(Some(id)))
                .or_default()
                .push(file.into());
        }
        // Of which files pages were dropped that may come back, charged to whomever.
        let mut left: HashMap<FileKey, Vec<u64>> = HashMap::new();
        for (id, of) in &mut self.tables {
            of.table
                .begin(now, files.remove(&Some(*id)).unwrap_or_default());
            for key in of.table.files_left().filter(|_| !is_whole) {
                left.entry(key).or_default().push(*id);
            }
        }
        let tables = &mut self.tables;
        let nr_reads_max = pages.nr_reads_max();
        let judge = promote.map(|promote| Judge::new(promote, nr_reads_max, is_multi_gen_on()));
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
            let id = table_of(id);
            if let Some(of) = id.and_then(|id| tables.get_mut(&id)) {
                of.table.see(page);
            }
            for other in left.get(&page.file).into_iter().flatten() {
                if let Some(of) = tables.get_mut(other).filter(|_| Some(*other) != id) {
                    of.table.see_elsewhere(page);
                }
            }
        });
        let listed = listed
            .map_err(|error| error.to_string())?
            .into_iter()
            .collect();
        for (key, ranges) in coming {
            let file = pages.files().get(&key);
            let opened = file.and_then(|file| self.finder.open(pages.census(), file));
            to_promote.extend(opened.map(|file| CachePages {
                file: Arc::new(file),
                nr_pages: ranges.iter().map(|range| range.end - range.start).sum(),
                ranges,
            }));
        }
        let tables = self.tables.iter_mut();
        let found = tables.map(|(id, of)| {
            of.table.truncate(&listed);
            let mut sample = of.table.end(nr_reads_max);
            sample.cpu_ns = thread_cpu_ns() - searched_ns;
            let nr_returned_pages = of.table.nr_returned_pages();
            let before = std::mem::replace(&mut of.nr_returned_pages, nr_returned_pages);
            GroupCache {
                group: *id,
                ages: match is_whole {
                    true => CacheAges::default(),
                    false => of.table.ages(),
                },
                sample,
                nr_returned_pages: nr_returned_pages - before,
            }
        });
        Ok(found.collect())
    }

    /// Reads what has come in. A kernel that does not tell tells of nothing.
    fn look(&mut self) -> CameIn {
        let now = self.now();
        let arrivals = self.pages.as_ref().and_then(GroupPages::arrivals);
        let came = arrivals.map(|arrivals| arrivals.take().unwrap_or_default());
        self.newcomers.take(now, came.into_iter().flatten())
    }

    fn drop_pages(&mut self, which: CacheDrop, is_stopped: &dyn Fn() -> bool) -> Done {
        let (mut dropped, mut came_in) = (Dropped::default(), None);
        match which {
            _ if is_stopped() => {}
            CacheDrop::File(number, reads, bytes) => {
                let table = self.tables.get_mut(&WHOLE);
                let chosen = table.map(|of| vec![(number, of.table.choose(number, reads, bytes))]);
                (dropped, _) = self.drop_chosen(WHOLE, chosen.unwrap_or_default(), is_stopped);
            }
            CacheDrop::Newcomers(_) if self.subject.is_dry_run() => {}
            CacheDrop::Newcomers(bytes) => {
                let looked = self.look();
                dropped = self.drop_newcomers(bytes);
                came_in = Some(CameIn {
                    tried_bytes: bytes,
                    gone_bytes: dropped.dropped_bytes.min(bytes),
                    ripe_bytes: self.newcomers.ripe_bytes(self.now()),
                    ..looked
                });
            }
        }
        Done::Dropped {
            which,
            dropped,
            came_in,
        }
    }

    fn drop_idle(&mut self, which: DropIdle, is_stopped: &dyn Fn() -> bool) -> Done {
        let table = self.tables.get(&which.group).filter(|_| !is_stopped());
        let chosen = table.map(|of| {
            let mut chosen = of.table.choose_older(which.idle, which.nr_pages, false);
            chosen.extend((of.table).choose_older(which.idle, which.nr_swap_pages, true));
            chosen
        });
        let chosen = chosen.unwrap_or_default();
        let (dropped, nr_gone_pages) = self.drop_chosen(which.group, chosen, is_stopped);
        Done::DroppedIdle {
            which,
            dropped,
            nr_gone_pages,
        }
    }

    /// Drops ranges of files of a group; what is gone by class, too; of one of many groups what stands as the last census saw
    /// it.
    fn drop_chosen(
        &mut self,
        group: u64,
        chosen: Vec<(FileNo, Vec<Range<u64>>)>,
        is_stopped: &dyn Fn() -> bool,
    ) -> (Dropped, [u64; NR_CACHE_CLASSES]) {
        let now = self.now();
        let (is_whole, is_dry_run) = (self.subject.is_whole(), self.subject.is_dry_run());
        let (mut dropped, mut nr_gone_pages) = (Dropped::default(), [0; NR_CACHE_CLASSES]);
        let (Some(pages), Some(of)) = (self.pages.as_ref(), self.tables.get_mut(&group)) else {
            return (dropped, nr_gone_pages);
        };
        let table = &mut of.table;
        for (number, mut ranges) in chosen {
            if is_stopped() {
                break;
            }
            let Some(id) = table.file(number).copied() else {
                continue;
            };
            let class = table.class(number);
            let found = pages.files().get(&id.key).copied();
            let file = found.unwrap_or_else(|| id.into());
            if !is_whole {
                let mut as_seen = Vec::new();
                let standing = standing(pages, &file, &ranges).into_iter();
                for page in standing.filter(|page| table.is_as_seen(number, page)) {
                    add_range(&mut as_seen, page.index..page.index + page.nr_pages);
                }
                ranges = common(&ranges, &as_seen);
                if ranges.is_empty() {
                    continue;
                }
            }
            let mut on_range = |range: &Range<u64>, tried: Tried| match is_dry_run {
                // Of a range that is gone the next census tells. Where a part is gone, it is not known which.
                true if tried.nr_tried_pages == 0 => {}
                true => table.play_dropped(now, number, range),
                false => table.note_dropped(now, number, range, tried),
            };
            let finder = &mut self.finder;
            let of_file =
                finder.drop_ranges(pages.census(), &file, &ranges, is_dry_run, &mut on_range);
            if of_file.tried_bytes == 0 && !of_file.left_bytes.is_empty() {
                let is_left = |left| of_file.left_bytes.contains_key(left);
                let unreachable = [Left::FileSystem, Left::Unreachable];
                table.leave(now, number, unreachable.iter().any(is_left));
            }
            nr_gone_pages[class as usize] += of_file.dropped_bytes / PAGE_BYTES;
            dropped.add(&of_file);
        }
        (dropped, nr_gone_pages)
    }

    fn drop_newcomers(&mut self, bytes: u64) -> Dropped {
        let now = self.now();
        let mut dropped = Dropped::default();
        let (Some(pages), Some(of)) = (self.pages.as_ref(), self.tables.get_mut(&WHOLE)) else {
            return dropped;
        };
        for (file, newcomers) in self.newcomers.choose(now, bytes) {
            let id = FileId::from(file);
            let look = |ranges: &[Range<u64>]| standing(pages, &id, ranges);
            let going = self.newcomers.judge(now, newcomers, look);
            if going.is_empty() {
                continue;
            }
            // Newcomers have counts of their own.
            let mut on_range = |range: &Range<u64>, tried: Tried| {
                if tried.nr_gone_pages > 0 {
                    of.table.note_counted(file.key, range.clone());
                }
            };
            let finder = &mut self.finder;
            let census = pages.census();
            dropped.add(&finder.drop_ranges(census, &id, &going, false, &mut on_range));
        }
        dropped
    }
}

/// How pages of these ranges stand, which are in order. What is not told any more is mapped, charged to others or gone. Pages beside
/// the ranges may be told, too.
fn standing(pages: &GroupPages, file: &FileId, ranges: &[Range<u64>]) -> Vec<PageFound> {
    let mut found = Vec::new();
    // What lies close together is looked at in one go.
    for near in ranges.chunk_by(|one, next| next.start.saturating_sub(one.end) <= NEAR_PAGES) {
        let (Some(first), Some(last)) = (near.first(), near.last()) else {
            continue;
        };
        let nr_before = found.len();
        let part = first.start..last.end;
        if pages
            .list_part(file, part, &mut |page| found.push(page))
            .is_err()
        {
            found.truncate(nr_before);
        }
    }
    found
}

/// Adds a range that begins no earlier than those before.
fn add_range(ranges: &mut Vec<Range<u64>>, range: Range<u64>) {
    match ranges.last_mut() {
        Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
        _ => ranges.push(range),
    }
}

/// What both have, in the pieces that the first has, of which none reaches over the end of another before.
fn common(ranges: &[Range<u64>], others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut found = Vec::new();
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
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_was_chosen_only_that_goes_which_stands_as_it_was_seen() {
        let found = common(&[0..8, 8..12, 20..30], &[2..10, 11..22, 25..26]);
        assert_eq!(found, [2..8, 8..10, 11..12, 20..22, 25..26]);
        assert!(common(std::slice::from_ref(&(0..8)), &[]).is_empty());
        assert!(common(&[], std::slice::from_ref(&(0..8))).is_empty());
    }
}
