//! Opening files that censuses found, and dropping ranges of them, again and again.
//!
//! **Owns** how long what is known of places holds, and the order of tries: by the file's handle, by the kernel's names, through
//! whoever has the file open. **Does not own** which pages go, nor the proof that a file is the one (`reach`).

use std::fs::File;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use strata_lru::machine::Tried;

use super::reach::{self, Mounts, Ways};
use super::{Dropped, Left};
use crate::access::census::{Census, FileId, FileNames};
use crate::addr::PAGE_BYTES;
use crate::sys::page_cache::{nr_resident, page_out};

/// Open files of all processes are looked for at most so often, because there may be many.
const LOOK_PAUSE: Duration = Duration::from_secs(5);

/// How much is done to find a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    Handle,
    Names,
    /// A file without a name, or in another mount namespace, is reached through whoever has it open.
    Processes,
}

const SEARCHES: [Search; 3] = [Search::Handle, Search::Names, Search::Processes];

/// Finds files.
#[derive(Debug, Default)]
pub struct Finder {
    /// By the kernel's directory entries.
    mounts: Option<(Instant, FileNames)>,
    /// By those who have them open, too.
    all: Option<(Instant, FileNames)>,
}

impl Finder {
    /// Drops ranges of a file, wherever it can be reached, or only counts what would be tried. `on_range` is told what came of each
    /// range that was tried.
    pub fn drop_ranges(
        &mut self,
        census: &Census,
        file: &FileId,
        ranges: &[Range<u64>],
        is_dry_run: bool,
        on_range: &mut dyn FnMut(&Range<u64>, Tried),
    ) -> Dropped {
        let mut dropped = Dropped::default();
        let mut mounts = Mounts::default();
        for search in SEARCHES {
            let ways = self.ways(census, file, search);
            dropped = drop_of(file, &ways, ranges, &mut mounts, is_dry_run, on_range);
            let is_left = |left: &Left| dropped.left_bytes.contains_key(left);
            let is_done = match search {
                Search::Handle => dropped.tried_bytes > 0 || dropped.left_bytes.is_empty(),
                _ => ![Left::Unreachable, Left::Replaced].iter().any(is_left),
            };
            if is_done {
                break;
            }
        }
        dropped
    }

    /// Opens a file, wherever it can be reached.
    pub fn open(&mut self, census: &Census, file: &FileId) -> Option<File> {
        let mut searches = SEARCHES.into_iter();
        searches.find_map(|search| {
            let ways = self.ways(census, file, search);
            reach::open(file, &ways, &mut Mounts::default()).ok()
        })
    }

    fn ways(&mut self, census: &Census, file: &FileId, search: Search) -> Ways {
        let names = self.look(search == Search::Processes);
        Ways {
            places: match search {
                Search::Handle => Vec::new(),
                Search::Names | Search::Processes => names.places(census, file),
            },
            mounts: names.mounts(file),
        }
    }

    fn look(&mut self, is_thorough: bool) -> &FileNames {
        let (names, read): (_, fn() -> FileNames) = match is_thorough {
            true => (&mut self.all, FileNames::read),
            false => (&mut self.mounts, FileNames::of_mounts),
        };
        let is_old = |(at, _): &(Instant, FileNames)| at.elapsed() >= LOOK_PAUSE;
        if names.as_ref().is_some_and(is_old) {
            *names = None;
        }
        &names.get_or_insert_with(|| (Instant::now(), read())).1
    }
}

/// Drops idle pages of one file, or only counts what would be tried. `on_range` is told what came of each range that was tried.
fn drop_of(
    file: &FileId,
    ways: &Ways,
    ranges: &[Range<u64>],
    mounts: &mut Mounts,
    is_dry_run: bool,
    on_range: &mut dyn FnMut(&Range<u64>, Tried),
) -> Dropped {
    let lengths = ranges.iter().map(|range| range.end - range.start);
    let idle_bytes = lengths.sum::<u64>() * PAGE_BYTES;
    let mut dropped = Dropped {
        nr_files: 1,
        idle_bytes,
        ..Dropped::default()
    };
    let opened = match reach::open(file, ways, mounts) {
        Ok(opened) => opened,
        Err(left) => {
            dropped.left_bytes.insert(left, idle_bytes);
            return dropped;
        }
    };
    for range in ranges {
        match drop_range(
            &opened,
            range,
            is_dry_run,
            file.is_in_memory_only,
            &mut dropped,
        ) {
            Ok(tried) => on_range(range, tried),
            // What is not known to be in memory is not known to be gone either.
            Err(_) => {
                let nr_bytes = (range.end - range.start) * PAGE_BYTES;
                *dropped.left_bytes.entry(Left::Refused).or_default() += nr_bytes;
            }
        }
    }
    dropped
}

fn drop_range(
    file: &File,
    range: &Range<u64>,
    is_dry_run: bool,
    is_in_memory_only: bool,
    dropped: &mut Dropped,
) -> io::Result<Tried> {
    let nr_before = nr_resident(file.as_fd(), range)?;
    let mut tried = Tried {
        nr_tried_pages: nr_before,
        nr_gone_pages: 0,
    };
    if !is_dry_run && nr_before > 0 {
        if is_in_memory_only {
            page_out(file.as_fd(), range)?;
        } else {
            let nr_bytes = NonZero::new((range.end - range.start) * PAGE_BYTES);
            fadvise(file, range.start * PAGE_BYTES, nr_bytes, Advice::DontNeed)?;
        }
        let nr_left = nr_resident(file.as_fd(), range)?.min(nr_before);
        tried.nr_gone_pages = nr_before - nr_left;
        if nr_left > 0 {
            *dropped.left_bytes.entry(Left::InUse).or_default() += nr_left * PAGE_BYTES;
        }
    }
    dropped.tried_bytes += tried.nr_tried_pages * PAGE_BYTES;
    dropped.dropped_bytes += tried.nr_gone_pages * PAGE_BYTES;
    Ok(tried)
}
