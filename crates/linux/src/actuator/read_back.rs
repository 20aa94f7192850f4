//! `read_back`: reads what programs have in swap, or had in memory, back in.
//!
//! ```text
//!   read_back     certain ranges, in a given order, by several threads         a program that is woken
//!   bring_back    all that programs have in swap                               a program that Strata leaves
//!   Recall        certain ranges, by a thread of its own; nothing is mapped    a program that came back to some of it
//! ```
//!
//! Where pages are in swap the page tables say. The kernel is asked to read some hundred at a time, which waits for none of
//! them, and then each is touched, so that the program finds it mapped. Of files and shared memory that are not mapped any more
//! the kernel is only asked, which waits for nobody: not for a file server, nor for a program that supplies pages itself.
//!
//! **Owns** the threads, the cutting, and the calls. **Does not own** which ranges, nor how much may be read (the caller).
//!
//! **Invariants**
//! - R1: nothing is written and nothing is taken; what is not there any more is passed over.
//! - R2: pieces are begun in the order given, each after the caller has allowed it; after a no nothing more is begun.
//! - R3: one call asks for at most [`WINDOW_PAGES`] pages, so that it holds the lock of the address space briefly.
//! - R4: a process that is stalled, has ended or runs another program is asked for nothing.
//! - R5: nobody waits for the thread of a [`Recall`], not even at the end. What it was asked for more than [`STALE`] ago is left
//!   alone: the program has asked for it itself by now.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::worker::Worker;
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up;
use crate::process::{MappingClass, MemoryDevices, PagemapEntry, Process, classify};
use crate::sys::madvise::{self, Advice};
use crate::sys::touch;

/// See R3.
const WINDOW_PAGES: u64 = 64;
/// Pieces that are allowed, and handed to a thread, at once.
const PIECE_PAGES: u64 = 4 * WINDOW_PAGES;
/// Of mappings, most of which may be empty, page tables are read for so much at a time.
const LOOK_PAGES: u64 = 16 * PIECE_PAGES;
/// See R5.
const STALE: Duration = Duration::from_secs(2);
/// Where there is no room it is looked for again after this.
const PAUSE: Duration = Duration::from_millis(2);

/// A range to be read back.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Whose.
    pub process: Arc<Process>,
    /// What of its addresses.
    pub range: AddrRange,
}

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    /// Bytes that were in swap and are mapped again.
    pub mapped_bytes: u64,
    /// Bytes of files and shared memory that the kernel was asked for.
    pub asked_bytes: u64,
    /// Whether the caller forbade the rest.
    pub is_cut_short: bool,
}

/// Reads ranges in their order by so many threads. `may_read` is asked before each piece with its bytes.
pub fn read_back(
    wanted: &[Wanted],
    nr_threads: usize,
    may_read: &(dyn Fn(u64) -> bool + Sync),
) -> ReadBack {
    let pieces = wanted.iter().flat_map(|one| {
        let pieces = cut(one.range, PIECE_PAGES);
        pieces.map(|range| (&*one.process, range))
    });
    let pieces: Vec<(&Process, AddrRange)> = pieces.collect();
    let next = AtomicUsize::new(0);
    let work = Work::new(may_read);
    let run = || {
        while let Some((process, range)) = pieces.get(next.fetch_add(1, Ordering::Relaxed))
            && !work.is_cut_short.load(Ordering::Relaxed)
        {
            if is_asked(process) {
                work.range(process, *range, [What::Swapped, What::Absent]);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..nr_threads {
            scope.spawn(run);
        }
        run();
    });
    work.done()
}

/// Reads everything that `processes` have in swap. `may_read` is asked before each piece with its bytes, and with none while
/// there is nothing to be read. Returns the bytes that were read and are mapped.
pub fn bring_back(processes: &[Arc<Process>], may_read: &(dyn Fn(u64) -> bool + Sync)) -> u64 {
    let work = Work::new(may_read);
    for process in processes.iter().filter(|process| is_asked(process)) {
        let Ok(raw) = process.read_maps() else {
            continue;
        };
        let devices = MemoryDevices::of_process(process.pid()).unwrap_or_default();
        for mapping in classify(&raw, &[], &devices) {
            // Swapped-out shared memory stands in no page table.
            let what = match mapping.class {
                MappingClass::Shmem => What::Absent,
                _ => What::Swapped,
            };
            let mut looks = cut(mapping.range, LOOK_PAGES);
            if !looks.all(|look| may_read(0) && work.range(process, look, [what])) {
                break;
            }
        }
    }
    work.done().mapped_bytes
}

/// A thread that has the kernel read pages in before the program asks for them; at most one request is outstanding.
#[derive(Debug)]
pub struct Recall {
    worker: Worker<(Instant, Vec<Wanted>), ()>,
}

impl Recall {
    /// Starts the thread; `room_bytes` is how much may be read in at that moment.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn start(room_bytes: impl Fn() -> u64 + Send + Sync + 'static) -> io::Result<Recall> {
        let worker = Worker::start(
            "strata-recall",
            1,
            move |(asked, all): (Instant, Vec<Wanted>), stop| {
                let is_over = || stop.is_set() || asked.elapsed() > STALE;
                let may_read = |bytes| wait_for_room(bytes, &room_bytes, &is_over);
                let mut work = Work::new(&may_read);
                work.is_mapped = false;
                for Wanted { process, range } in &all {
                    if is_asked(process) {
                        work.range(process, *range, [What::Swapped, What::Absent]);
                    }
                }
            },
        )?;
        Ok(Recall { worker })
    }

    /// Hands ranges over; false if the last ones are not done yet.
    pub fn try_submit(&mut self, wanted: Vec<Wanted>) -> bool {
        while self.worker.poll().is_some() {}
        self.worker.try_submit((Instant::now(), wanted)).is_ok()
    }
}

/// Waits until there is room for so much; false if it is over before.
fn wait_for_room(bytes: u64, room_bytes: &dyn Fn() -> u64, is_over: &dyn Fn() -> bool) -> bool {
    while !is_over() {
        if room_bytes() >= bytes {
            return true;
        }
        thread::sleep(PAUSE);
    }
    false
}

/// See R4.
fn is_asked(process: &Process) -> bool {
    process.is_space_current() && process.stalled().is_none()
}

/// Which pages of a range are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Those that page tables say are in swap.
    Swapped,
    /// Those that are not mapped, of files and shared memory.
    Absent,
}

struct Work<'a> {
    may_read: &'a (dyn Fn(u64) -> bool + Sync),
    /// What was in swap is mapped afterwards.
    is_mapped: bool,
    nr_mapped_pages: AtomicU64,
    nr_asked_pages: AtomicU64,
    is_cut_short: AtomicBool,
}

impl<'a> Work<'a> {
    fn new(may_read: &'a (dyn Fn(u64) -> bool + Sync)) -> Work<'a> {
        Work {
            may_read,
            is_mapped: true,
            nr_mapped_pages: AtomicU64::new(0),
            nr_asked_pages: AtomicU64::new(0),
            is_cut_short: AtomicBool::new(false),
        }
    }

    fn done(self) -> ReadBack {
        ReadBack {
            mapped_bytes: self.nr_mapped_pages.into_inner() * PAGE_BYTES,
            asked_bytes: self.nr_asked_pages.into_inner() * PAGE_BYTES,
            is_cut_short: self.is_cut_short.into_inner(),
        }
    }

    /// Reads what of a range is to be read; whether it goes on.
    fn range<const N: usize>(&self, process: &Process, range: AddrRange, all: [What; N]) -> bool {
        let mut entries = Vec::new();
        if process.read_pagemap(range, &mut entries).is_err() {
            return false;
        }
        all.into_iter().all(|what| {
            let is_meant = |entry: &PagemapEntry| match what {
                What::Swapped => entry.is_swapped(),
                What::Absent => !entry.is_swapped() && !entry.is_present(),
            };
            let meant = (0..).zip(&entries).filter(|(_, entry)| is_meant(entry));
            let pages: Vec<u64> = meant
                .map(|(index, _)| range.start + index * PAGE_BYTES)
                .collect();
            let mut pieces = pages.chunks(PIECE_PAGES as usize);
            pieces.all(|piece| self.piece(process, piece, what))
        })
    }

    fn piece(&self, process: &Process, pages: &[u64], what: What) -> bool {
        if !(self.may_read)(pages.len() as u64 * PAGE_BYTES) || !process.is_space_current() {
            self.is_cut_short.store(true, Ordering::Relaxed);
            return false;
        }
        let windows = || pages.chunks(WINDOW_PAGES as usize);
        // All are under way before the first is waited for. What the kernel refuses is left to the touch.
        for window in windows() {
            let asked = madvise::advise(process.pidfd(), &runs(window), Advice::WillNeed);
            if what == What::Absent && asked.is_ok() {
                let nr_pages = window.len() as u64;
                self.nr_asked_pages.fetch_add(nr_pages, Ordering::Relaxed);
            }
            hold_up::pause();
        }
        if what == What::Swapped && self.is_mapped {
            for window in windows() {
                let nr_pages = touch_all(process, window);
                self.nr_mapped_pages.fetch_add(nr_pages, Ordering::Relaxed);
                hold_up::pause();
            }
        }
        true
    }
}

/// Touches pages; one that can't be read is passed over. Returns how many could.
fn touch_all(process: &Process, pages: &[u64]) -> u64 {
    let mut rest = pages;
    let mut nr_pages = 0;
    while !rest.is_empty() && process.is_space_current() {
        let nr_touched = match touch::touch(process.pid(), rest, touch::NR_ACTIVATING) {
            Ok(nr_touched) => nr_touched,
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => 0,
            Err(_) => return nr_pages,
        };
        nr_pages += nr_touched as u64;
        rest = rest.get(nr_touched + 1..).unwrap_or_default();
    }
    nr_pages
}

/// A range in pieces of at most so many pages.
fn cut(range: AddrRange, nr_pages: u64) -> impl Iterator<Item = AddrRange> {
    let bytes = nr_pages * PAGE_BYTES;
    let starts = (range.start..range.end).step_by(bytes as usize);
    starts.map(move |start| AddrRange::new(start, range.end.min(start.saturating_add(bytes))))
}

/// Pages that lie side by side as ranges.
fn runs(pages: &[u64]) -> Vec<AddrRange> {
    let mut ranges = Vec::new();
    for page in pages {
        AddrRange::new(*page, page + PAGE_BYTES).append_to(&mut ranges);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn pages_side_by_side_are_one_range_and_pieces_cover_a_range() {
        let pages = [1, 2, 3, 7, 9, 10].map(|page| page * PAGE_BYTES);
        let pieces: Vec<u64> = runs(&pages).iter().map(|range| range.nr_pages()).collect();
        assert_eq!(pieces, [3, 1, 2]);
        let range = AddrRange::new(3 * PAGE_BYTES, 600 * PAGE_BYTES);
        let pieces: Vec<u64> = cut(range, WINDOW_PAGES).map(|one| one.nr_pages()).collect();
        assert_eq!(pieces.iter().sum::<u64>(), 597);
        assert!(pieces.iter().all(|nr_pages| *nr_pages <= WINDOW_PAGES));
        assert_eq!(cut(range, 600).collect::<Vec<_>>(), [range]);
    }

    #[test]
    fn nothing_is_read_where_nothing_is_allowed() {
        let own = std::process::id().try_into().expect("a pid");
        let own = Arc::new(Process::open(own).expect("opens"));
        assert_eq!(bring_back(&[Arc::clone(&own)], &|_| false), 0);
        let page = vec![7_u8; 3 * PAGE_BYTES as usize];
        let start = (page.as_ptr() as u64).next_multiple_of(PAGE_BYTES);
        let wanted = Wanted {
            process: own,
            range: AddrRange::new(start, start + PAGE_BYTES),
        };
        // It is in memory: there is nothing to be allowed.
        let read = read_back(&[wanted], 2, &|bytes| bytes == 0);
        assert_eq!(read, ReadBack::default());
    }

    #[test]
    fn room_is_waited_for_until_it_is_over() {
        let room_bytes = Cell::new(0_u64);
        let comes = || room_bytes.replace(room_bytes.get() + 10);
        assert!(wait_for_room(25, &comes, &|| false));
        assert_eq!(room_bytes.get(), 40);
        let nr_looks = Cell::new(0);
        let is_over = || nr_looks.replace(nr_looks.get() + 1) == 3;
        assert!(!wait_for_room(1, &|| 0, &is_over));
    }
}
