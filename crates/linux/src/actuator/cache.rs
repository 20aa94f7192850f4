//! A thread that takes censuses of a group's page cache and drops pages of it.
//!
//! ```text
//!   Census          -> access::census::GroupPages -> IdleTable -> what lies idle, by file
//!   LookAtNewcomers -> access::census::Arrivals   -> Newcomers -> what came in
//!   Drop            -> IdleTable chooses                       -> page_cache::drop_of -> what is gone
//!   DropNewcomers   -> Newcomers choose, a look at each        -> page_cache::drop_of -> what is gone
//! ```
//!
//! In a dry run `Drop` plays that pages are gone, and newcomers are left alone.
//!
//! **Owns** the thread. **Does not own** reaching files (`cache_files`), when a census comes and how much is dropped of which
//! file (`strata_control::drop_cache`, `admit_cache`), which pages those are (`strata_control::page_cache`), nor dropping
//! (`page_cache`).
//!
//! **Invariants**
//! - I1: one thing is done after the other: pages are chosen by the last census, newcomers by a look just before.
//! - I2: a dry run drops nothing.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use strata_control::page_cache::{
    IdleTable, NR_TIERS, Newcomer, Newcomers, TierCounts, Tried, Verdict,
};
use strata_control::{CacheSample, CameIn, FileNo, Reads, admit_cache, drop_cache};
use strata_lru::TimeMs;

use super::cache_files::{NEAR_PAGES, Names, add_range, drop_ranges};
use super::worker::Worker;
use crate::access::census::{FileId, GroupPages};
use crate::addr::FILE_PAGES_MAX;
use crate::cgroup::GroupReader;
use crate::page_cache::{Dropped, IdleFile, Mounts, Ways, drop_of};
use crate::process::thread_cpu_ns;

/// Requests under way at most: a tick asks for the pages of some files.
const IN_FLIGHT_MAX: usize = 64;
/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRequest {
    /// A census.
    Census,
    /// Dropping pages of a file, read longest ago first.
    Drop {
        /// Which.
        file: FileNo,
        /// Pages that were read so often.
        reads: Reads,
        /// At most so much.
        bytes: u64,
    },
    /// A look at what came in since the last one.
    LookAtNewcomers {
        /// What came in is remembered until so much came in after it, bytes.
        history_bytes: u64,
    },
    /// Dropping what came in of late and was read once since.
    DropNewcomers {
        /// At most so much.
        bytes: u64,
    },
}

/// How it stands since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheTotals {
    /// Pages of the group that had been dropped, or were played to be, and were read again.
    pub nr_returned_pages: u64,
    /// What became of pages, by tier.
    pub tiers: [TierCounts; NR_TIERS],
    /// Pages that are in memory, and that a dry run plays to have been dropped.
    pub nr_played_pages: u64,
    /// Came in while that was watched, bytes; not what came between two looks that lie 2 s or more apart, nor after the last.
    pub in_bytes: u64,
    /// Part of `in_bytes` that had been in memory before, as far as that is remembered.
    pub in_again_bytes: u64,
    /// Folios that came in and found no room in the buffer.
    pub nr_lost_folios: u64,
    /// CPU time of censuses, of looks and of dropping, nanoseconds.
    pub cpu_ns: u64,
}

/// Which pages were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that a census found idle.
    Idle(Reads),
    /// Those that came in of late.
    Newcomers,
}

/// What became of a request.
#[derive(Debug)]
pub struct CacheOutcome {
    /// What it was about.
    pub of: CacheDone,
    /// How it stands since the start.
    pub totals: CacheTotals,
}

/// What a request was about.
#[derive(Debug)]
pub enum CacheDone {
    /// What a census found. An error: none can be taken here, or this one failed.
    Census(Result<CacheSample, String>),
    /// What came in.
    Look(CameIn),
    /// What became of pages.
    Dropped {
        /// Which they were.
        which: Which,
        /// What was tried, and what is gone.
        dropped: Dropped,
        /// What came in meanwhile.
        came_in: Option<CameIn>,
    },
}

/// The owner's side.
#[derive(Debug)]
pub struct CacheThread {
    worker: Worker<CacheRequest, CacheOutcome>,
}

impl CacheThread {
    /// Starts the thread for the group at this path and those below it. In a dry run it only plays that it drops.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start(
        group: &Path,
        idle: drop_cache::Config,
        newcomers: admit_cache::Config,
        is_dry_run: bool,
    ) -> io::Result<CacheThread> {
        let mut cache = Cache {
            group: group.to_owned(),
            is_dry_run,
            pages: None,
            table: IdleTable::new(idle),
            newcomers: Newcomers::new(newcomers),
            began: Instant::now(),
            cpu_ns: 0,
            names: Names::default(),
        };
        let worker = Worker::start("strata-cache", IN_FLIGHT_MAX, move |request, stop| {
            cache.handle(request, stop.is_set())
        })?;
        Ok(CacheThread { worker })
    }

    /// Hands a request over; `false`: there are too many.
    pub fn try_submit(&mut self, request: CacheRequest) -> bool {
        self.worker.try_submit(request).is_ok()
    }

    /// The next outcome.
    pub fn poll(&mut self) -> Option<CacheOutcome> {
        self.worker.poll()
    }

    /// Whether a request is under way.
    pub fn is_busy(&self) -> bool {
        self.worker.nr_in_flight() > 0
    }
}

/// What the thread has.
#[derive(Debug)]
struct Cache {
    group: PathBuf,
    /// Whether dropping is only played.
    is_dry_run: bool,
    /// From the first census on, where one can be taken.
    pages: Option<GroupPages>,
    table: IdleTable,
    newcomers: Newcomers,
    began: Instant,
    cpu_ns: u64,
    names: Names,
}

impl Cache {
    fn now(&self) -> TimeMs {
        TimeMs(self.began.elapsed().as_millis() as u64)
    }

    fn handle(&mut self, request: CacheRequest, is_stopped: bool) -> CacheOutcome {
        let cpu_before_ns = thread_cpu_ns();
        let of = match request {
            CacheRequest::Census => CacheDone::Census(self.census()),
            CacheRequest::LookAtNewcomers { history_bytes } => {
                self.newcomers.remember(history_bytes);
                CacheDone::Look(self.look())
            }
            CacheRequest::Drop { reads, .. } if is_stopped => nothing_dropped(Which::Idle(reads)),
            CacheRequest::DropNewcomers { .. } if is_stopped || self.is_dry_run => {
                nothing_dropped(Which::Newcomers)
            }
            CacheRequest::Drop { file, reads, bytes } => CacheDone::Dropped {
                which: Which::Idle(reads),
                dropped: self.drop_pages(file, reads, bytes).unwrap_or_default(),
                came_in: None,
            },
            CacheRequest::DropNewcomers { bytes } => {
                let mut came_in = self.look();
                let dropped = self.drop_newcomers(bytes);
                came_in.tried_bytes = bytes;
                came_in.gone_bytes = dropped.dropped_bytes.min(bytes);
                came_in.ripe_bytes = self.newcomers.ripe_bytes(self.now());
                CacheDone::Dropped {
                    which: Which::Newcomers,
                    dropped,
                    came_in: Some(came_in),
                }
            }
        };
        self.cpu_ns += thread_cpu_ns() - cpu_before_ns;
        let arrivals = self.pages.as_ref().and_then(GroupPages::arrivals);
        let (in_bytes, in_again_bytes) = self.newcomers.totals_bytes();
        CacheOutcome {
            of,
            totals: CacheTotals {
                nr_returned_pages: self.table.nr_returned_pages(),
                tiers: self.table.tiers(),
                nr_played_pages: self.table.nr_played_pages(),
                in_bytes,
                in_again_bytes,
                nr_lost_folios: arrivals.map_or(0, |arrivals| arrivals.nr_lost().unwrap_or(0)),
                cpu_ns: self.cpu_ns,
            },
        }
    }

    fn census(&mut self) -> Result<CacheSample, String> {
        if self.pages.is_none() {
            let group = GroupReader::open(&self.group).map_err(|error| error.to_string())?;
            // Newcomers stay in a dry run.
            let pages = GroupPages::open(group, !self.is_dry_run);
            self.pages = Some(pages.map_err(|error| error.to_string())?);
        }
        let now = self.now();
        let pages = self.pages.as_mut().ok_or("there is no census")?;
        pages.search_if_due().map_err(|error| error.to_string())?;
        // Searches have a pace of their own.
        let searched_ns = thread_cpu_ns();
        let table = &mut self.table;
        table.begin(now, pages.files().values().map(|file| (*file).into()));
        let listed = pages.list(&mut |page| table.see(page));
        for (file, nr_pages) in listed.map_err(|error| error.to_string())? {
            // Truncated: these pages did not have to go.
            table.forget(file, nr_pages..FILE_PAGES_MAX);
        }
        let mut sample = table.end(pages.nr_reads_max());
        sample.cpu_ns = thread_cpu_ns() - searched_ns;
        tracing::debug!(cpu_ns = sample.cpu_ns, "census of page cache");
        Ok(sample)
    }

    /// Reads what has come in. A kernel that does not tell tells of nothing.
    fn look(&mut self) -> CameIn {
        let now = self.now();
        let arrivals = self.pages.as_ref().and_then(GroupPages::arrivals);
        let came = arrivals.map(|arrivals| arrivals.take().unwrap_or_default());
        let came = came.into_iter().flatten();
        self.newcomers.take(now, came)
    }

    fn drop_newcomers(&mut self, bytes: u64) -> Dropped {
        let now = self.now();
        let mut dropped = Dropped::default();
        let mut mounts = Mounts::default();
        for (file, newcomers) in self.newcomers.choose(now, bytes) {
            let (key, file) = (file.key, FileId::from(file));
            let Some(pages) = self.pages.as_ref() else {
                break;
            };
            let judged = judge(pages, &file, newcomers);
            for newcomer in judged.unread {
                self.newcomers.put_back(now, newcomer);
            }
            if judged.going.is_empty() {
                continue;
            }
            let mut idle = IdleFile {
                file,
                ways: Ways {
                    places: Vec::new(),
                    mounts: self.names.mounts(&file),
                },
                ranges: judged.going,
            };
            let table = &mut self.table;
            // Newcomers have counts of their own.
            let mut drop = |idle: &IdleFile| {
                drop_of(idle, &mut mounts, false, &mut |range, tried| {
                    if tried.nr_gone_pages > 0 {
                        table.note_counted(key, range.clone());
                    }
                })
            };
            let mut of_file = drop(&idle);
            if of_file.tried_bytes == 0 && !of_file.left_bytes.is_empty() {
                idle.ways.places = self.names.places(pages.census(), &file, false);
                of_file = drop(&idle);
            }
            dropped.add(&of_file);
        }
        dropped
    }

    fn drop_pages(&mut self, number: FileNo, reads: Reads, bytes: u64) -> Option<Dropped> {
        let now = self.now();
        let id = *self.table.file(number)?;
        let pages = self.pages.as_ref()?;
        let found = pages.files().get(&id.key).copied();
        let file = found.unwrap_or_else(|| id.into());
        let ranges = self.table.choose(number, reads, bytes);
        let (table, is_dry_run) = (&mut self.table, self.is_dry_run);
        let mut on_range = |range: &Range<u64>, tried: Tried| match is_dry_run {
            // Of a range that is gone the next census tells. Where a part is gone, it is not known which.
            true if tried.nr_tried_pages == 0 => {}
            true => table.play_dropped(now, number, range),
            false => table.note_dropped(now, number, range, tried),
        };
        let names = &mut self.names;
        let dropped = drop_ranges(
            names,
            pages.census(),
            file,
            ranges,
            is_dry_run,
            &mut on_range,
        );
        if dropped.tried_bytes == 0 && !dropped.left_bytes.is_empty() {
            self.table.leave(now, number);
        }
        Some(dropped)
    }
}

fn nothing_dropped(which: Which) -> CacheDone {
    CacheDone::Dropped {
        which,
        dropped: Dropped::default(),
        came_in: None,
    }
}

/// Newcomers of one file.
struct Judged {
    /// Pages that go, as ranges in order.
    going: Vec<Range<u64>>,
    /// Those that nobody has read yet.
    unread: Vec<Newcomer>,
}

/// Looks at how newcomers of one file stand now. What is not told is mapped, charged to others or gone.
fn judge(pages: &GroupPages, file: &FileId, mut newcomers: Vec<Newcomer>) -> Judged {
    newcomers.sort_by_key(|newcomer| newcomer.arrival.index);
    let mut judged = Judged {
        going: Vec::new(),
        unread: Vec::new(),
    };
    // What lies close together is looked at in one go.
    for near in newcomers.chunk_by(|one, next| next.arrival.index - one.arrival.index <= NEAR_PAGES)
    {
        let (Some(first), Some(last)) = (near.first(), near.last()) else {
            continue;
        };
        let end = last.arrival.index + last.arrival.nr_pages;
        let mut found = HashMap::new();
        let listed = pages.list_part(file, first.arrival.index..end, &mut |page| {
            found.insert(page.index, page);
        });
        if listed.is_err() {
            continue;
        }
        for newcomer in near {
            let Some(page) = found.get(&newcomer.arrival.index) else {
                continue;
            };
            match newcomer.verdict(page) {
                Verdict::Goes => {
                    add_range(&mut judged.going, page.index..page.index + page.nr_pages)
                }
                Verdict::Unread => judged.unread.push(*newcomer),
                Verdict::Stays => {}
            }
        }
    }
    judged
}
