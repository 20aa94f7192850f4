//! `read_back`: reads certain ranges of programs back into memory, in a given order, several at a time.
//!
//! What is in swap is asked for some hundred pages at a time and then touched, so that the program finds it mapped. Of
//! files and shared memory that are not mapped any more the kernel is only asked, which waits for nobody: not for a file
//! server, nor for a program that supplies pages itself.
//!
//! **Owns** the threads and the cutting. **Does not own** the order, nor how much may be read (the caller).
//!
//! **Invariants**
//! - R1: nothing is written and nothing is taken; what is not there any more is passed over.
//! - R2: pieces are begun in the order given, each after the caller has allowed it.
//! - R3: one call asks for at most [`WINDOW_PAGES`] pages, so that it holds the lock of the address space briefly.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up;
use crate::process::{PagemapEntry, Process};
use crate::sys::madvise::{self, Advice};
use crate::sys::touch;

use super::bring_back::{WINDOW_PAGES, cut, runs};

/// Pieces that are handed to a thread at once.
const PIECE_PAGES: u64 = 4 * WINDOW_PAGES;

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

/// Reads ranges in their order by so many threads. `may_read` is asked before each piece with its bytes; after a no
/// nothing more is begun.
pub fn read_back(
    wanted: &[Wanted],
    nr_threads: usize,
    may_read: &(dyn Fn(u64) -> bool + Sync),
) -> ReadBack {
    let piece = |one: &Wanted| {
        let process = Arc::clone(&one.process);
        cut(one.range, PIECE_PAGES).map(move |range| (Arc::clone(&process), range))
    };
    let work = Work {
        pieces: wanted.iter().flat_map(piece).collect(),
        next: AtomicUsize::new(0),
        mapped_pages: AtomicU64::new(0),
        asked_pages: AtomicU64::new(0),
        is_cut_short: AtomicBool::new(false),
        may_read,
    };
    thread::scope(|scope| {
        for _ in 1..nr_threads {
            scope.spawn(|| work.run());
        }
        work.run();
    });
    ReadBack {
        mapped_bytes: work.mapped_pages.into_inner() * PAGE_BYTES,
        asked_bytes: work.asked_pages.into_inner() * PAGE_BYTES,
        is_cut_short: work.is_cut_short.into_inner(),
    }
}

struct Work<'a> {
    pieces: Vec<(Arc<Process>, AddrRange)>,
    next: AtomicUsize,
    mapped_pages: AtomicU64,
    asked_pages: AtomicU64,
    is_cut_short: AtomicBool,
    may_read: &'a (dyn Fn(u64) -> bool + Sync),
}

impl Work<'_> {
    fn run(&self) {
        let mut entries = Vec::new();
        while !self.is_cut_short.load(Ordering::Relaxed) {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some((process, range)) = self.pieces.get(at) else {
                return;
            };
            // A process that ended meanwhile, or is another program by now, has nothing to be read, and one that is stalled is
            // asked for nothing.
            if process.is_space_current() && process.stalled().is_none() {
                self.piece(process, *range, &mut entries);
            }
        }
    }

    fn piece(&self, process: &Process, range: AddrRange, entries: &mut Vec<PagemapEntry>) {
        if process.read_pagemap(range, entries).is_err() {
            return;
        }
        let places = |is_meant: &dyn Fn(&PagemapEntry) -> bool| -> Vec<u64> {
            let meant = entries.iter().enumerate();
            let meant = meant.filter(|(_, entry)| is_meant(entry));
            meant
                .map(|(index, _)| range.start + index as u64 * PAGE_BYTES)
                .collect()
        };
        let swapped = places(&|entry| entry.is_swapped());
        let absent = places(&|entry| !entry.is_swapped() && !entry.is_present());
        let bytes = (swapped.len() + absent.len()) as u64 * PAGE_BYTES;
        if bytes == 0 {
            return;
        }
        if !(self.may_read)(bytes) {
            self.is_cut_short.store(true, Ordering::Relaxed);
            return;
        }
        let ask = |ranges: &[AddrRange]| {
            let asked = madvise::advise(process.pidfd(), ranges, Advice::WillNeed);
            hold_up::pause();
            asked.is_ok()
        };
        for window in absent.chunks(WINDOW_PAGES as usize) {
            if ask(&runs(window)) {
                self.asked_pages
                    .fetch_add(window.len() as u64, Ordering::Relaxed);
            }
        }
        // All are under way before the first is waited for.
        for window in swapped.chunks(WINDOW_PAGES as usize) {
            ask(&runs(window));
        }
        for window in swapped.chunks(WINDOW_PAGES as usize) {
            let nr_pages = touch_all(process, window);
            self.mapped_pages.fetch_add(nr_pages, Ordering::Relaxed);
            hold_up::pause();
        }
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
