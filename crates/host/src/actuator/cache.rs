//! A thread that takes censuses of a group's page cache and drops pages of it.
//!
//! ```text
//!   Census -> access::census::GroupPages -> page_cache::table -> what lies idle, by file
//!   Drop   -> page_cache::table chooses  -> page_cache::drop_of -> what is gone
//! ```
//!
//! **Owns** the thread, and finding the places of files. **Does not own** when a census comes and how much is dropped of which
//! file (`strata_control::drop_cache`), which pages those are (`page_cache::table`), nor dropping (`page_cache`).
//!
//! **Invariants**
//! - I1: one thing is done after the other: pages are chosen by the last census.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use strata_control::{CacheSample, FileNo, Reads, drop_cache};
use strata_lru::TimeMs;

use super::worker::Worker;
use crate::access::census::{FileId, FileNames, GroupPages};
use crate::cgroup::GroupReader;
use crate::page_cache::table::CacheTable;
use crate::page_cache::{Dropped, IdleFile, Left, drop_of};
use crate::process::thread_cpu_ns;

/// Requests under way at most: a tick asks for the pages of some files.
const IN_FLIGHT_MAX: usize = 64;
/// Open files of all processes are looked for at most so often, because there may be many.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

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
}

/// What became of a request.
#[derive(Debug)]
pub enum CacheOutcome {
    /// What a census found. An error: none can be taken here, or this one failed.
    Census {
        /// What it found.
        result: Result<CacheSample, String>,
        /// Pages of the group that had been dropped and were read again, since the start.
        nr_returned_pages: u64,
        /// CPU time of censuses and of dropping since the start, nanoseconds.
        all_cpu_ns: u64,
    },
    /// What became of a file's pages.
    Dropped {
        /// How often they had been read.
        reads: Reads,
        /// What was tried, and what is gone.
        dropped: Dropped,
        /// Pages of the group that had been dropped and were read again, since the start.
        nr_returned_pages: u64,
        /// CPU time of censuses and of dropping since the start, nanoseconds.
        all_cpu_ns: u64,
    },
}

/// The owner's side.
#[derive(Debug)]
pub struct CacheThread {
    worker: Worker<CacheRequest, CacheOutcome>,
}

impl CacheThread {
    /// Starts the thread for the group at this path and those below it.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start(group: &Path, config: drop_cache::Config) -> io::Result<CacheThread> {
        let mut cache = Cache {
            group: group.to_owned(),
            pages: None,
            table: CacheTable::new(config),
            began: Instant::now(),
            all_cpu_ns: 0,
            names: Names::default(),
        };
        let worker = Worker::start(
            "strata-cache",
            IN_FLIGHT_MAX,
            move |request, stop| match request {
                CacheRequest::Census => CacheOutcome::Census {
                    result: cache.census(),
                    nr_returned_pages: cache.table.nr_returned_pages(),
                    all_cpu_ns: cache.all_cpu_ns,
                },
                CacheRequest::Drop { reads, .. } if stop.is_set() => CacheOutcome::Dropped {
                    reads,
                    dropped: Dropped::default(),
                    nr_returned_pages: cache.table.nr_returned_pages(),
                    all_cpu_ns: cache.all_cpu_ns,
                },
                CacheRequest::Drop { file, reads, bytes } => cache.drop(file, reads, bytes),
            },
        )?;
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
    /// From the first census on, where one can be taken.
    pages: Option<GroupPages>,
    table: CacheTable,
    began: Instant,
    all_cpu_ns: u64,
    names: Names,
}

impl Cache {
    fn now(&self) -> TimeMs {
        TimeMs(self.began.elapsed().as_millis() as u64)
    }

    fn census(&mut self) -> Result<CacheSample, String> {
        if self.pages.is_none() {
            let group = GroupReader::open(&self.group).map_err(|error| error.to_string())?;
            self.pages = Some(GroupPages::open(group).map_err(|error| error.to_string())?);
        }
        let now = self.now();
        let pages = self.pages.as_mut().ok_or("there is no census")?;
        let cpu_before_ns = thread_cpu_ns();
        pages.search_if_due().map_err(|error| error.to_string())?;
        // Searches have a pace of their own.
        let searched_ns = thread_cpu_ns();
        let table = &mut self.table;
        table.begin(now, pages.files());
        let listed = pages.list(&mut |page| table.see(page));
        let cost = listed.map_err(|error| error.to_string())?;
        let mut sample = table.end(pages.nr_reads_max());
        sample.cpu_ns = thread_cpu_ns() - searched_ns;
        tracing::debug!(?cost, "census of page cache");
        self.all_cpu_ns += thread_cpu_ns() - cpu_before_ns;
        Ok(sample)
    }

    fn drop(&mut self, number: FileNo, reads: Reads, bytes: u64) -> CacheOutcome {
        let cpu_before_ns = thread_cpu_ns();
        let dropped = self.drop_pages(number, reads, bytes);
        self.all_cpu_ns += thread_cpu_ns() - cpu_before_ns;
        CacheOutcome::Dropped {
            reads,
            dropped: dropped.unwrap_or_default(),
            nr_returned_pages: self.table.nr_returned_pages(),
            all_cpu_ns: self.all_cpu_ns,
        }
    }

    fn drop_pages(&mut self, number: FileNo, reads: Reads, bytes: u64) -> Option<Dropped> {
        let now = self.now();
        let file = *self.table.file(number)?;
        let pages = self.pages.as_ref()?;
        let mut idle = IdleFile {
            file,
            places: self.names.places(pages, &file, false),
            ranges: self.table.choose(number, reads, bytes),
        };
        let table = &mut self.table;
        let mut drop = |idle: &IdleFile| {
            drop_of(idle, false, &mut |range, nr_gone_pages| {
                table.note_dropped(now, number, range, nr_gone_pages);
            })
        };
        let mut dropped = drop(&idle);
        let is_lost = [Left::Unreachable, Left::Replaced]
            .iter()
            .any(|left| dropped.left_bytes.contains_key(left));
        if is_lost {
            // A file without a name, or in another mount namespace, is reached through whoever has it open.
            idle.places = self.names.places(pages, &file, true);
            dropped = drop(&idle);
        }
        if dropped.tried_bytes == 0 && !dropped.left_bytes.is_empty() {
            self.table.leave(now, number);
        }
        Some(dropped)
    }
}

/// Where files can be opened.
#[derive(Debug, Default)]
struct Names {
    /// By the kernel's directory entries.
    mounts: Option<(Instant, FileNames)>,
    /// By those who have them open, too.
    all: Option<(Instant, FileNames)>,
}

impl Names {
    fn places(&mut self, pages: &GroupPages, file: &FileId, is_thorough: bool) -> Vec<PathBuf> {
        let (names, read): (_, fn() -> FileNames) = match is_thorough {
            true => (&mut self.all, FileNames::read),
            false => (&mut self.mounts, FileNames::of_mounts),
        };
        let is_old = |(at, _): &(Instant, FileNames)| at.elapsed() >= LOOK_PAUSE;
        if names.as_ref().is_none_or(is_old) {
            *names = Some((Instant::now(), read()));
        }
        let names = names.as_ref();
        names.map_or_else(Vec::new, |(_, names)| names.places(pages.census(), file))
    }
}
