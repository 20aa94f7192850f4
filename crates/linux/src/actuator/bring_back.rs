//! `bring_back`: reads what programs have in swap back into memory before Strata leaves them.
//!
//! Where pages of a process are in swap its page tables say. The kernel is asked to read some hundred at a time,
//! which waits for none of them, and then each is touched, so that the program finds it mapped. Swapped-out shared
//! memory stands in no page table: of that the kernel is only asked.
//!
//! **Owns** the order of reading. **Does not own** how much may be read, nor for how long (the caller).
//!
//! **Invariants**
//! - B1: nothing is written and nothing is taken; a page that can't be had is passed over.
//! - B2: nothing is read that does not fit into what the caller allows at that moment.
//! - B3: one call asks for at most [`WINDOW_PAGES`] pages, so that it holds the lock of the address space briefly.

use std::sync::Arc;

use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up;
use crate::process::{MappingClass, MemoryDevices, Process, classify};
use crate::sys::madvise::{self, Advice};
use crate::sys::touch;

/// See B3.
pub(super) const WINDOW_PAGES: u64 = 64;
/// Page tables are read for so many windows at a time; most of a large mapping may be empty.
const LOOK_PAGES: u64 = 64 * WINDOW_PAGES;

/// Who limits the reading.
pub trait Allowance {
    /// Bytes that may be read at this moment.
    fn room_bytes(&self) -> u64;
    /// Whether to stop.
    fn is_over(&mut self) -> bool;
}

/// Reads everything that `processes` have in swap. Returns the bytes that were read and are mapped.
pub fn bring_back(processes: &[Arc<Process>], allowance: &mut dyn Allowance) -> u64 {
    let nr_pages = processes.iter().map(|process| {
        let mut reader = Reader {
            process,
            allowance: &mut *allowance,
            entries: Vec::new(),
            nr_read_pages: 0,
        };
        // A process that ends meanwhile has nothing to be read.
        let _ended = reader.read_all();
        reader.nr_read_pages
    });
    nr_pages.sum::<u64>() * PAGE_BYTES
}

/// Why reading has ended early.
struct Stopped;

struct Reader<'a> {
    process: &'a Process,
    allowance: &'a mut dyn Allowance,
    entries: Vec<crate::process::PagemapEntry>,
    nr_read_pages: u64,
}

impl Reader<'_> {
    fn read_all(&mut self) -> Result<(), Stopped> {
        let raw = self.process.read_maps().map_err(|_| Stopped)?;
        let devices = MemoryDevices::of_process(self.process.pid()).unwrap_or_default();
        for mapping in classify(&raw, &[], &devices) {
            if mapping.class == MappingClass::Shmem {
                for window in cut(mapping.range, WINDOW_PAGES) {
                    self.may_read(window.len_bytes())?;
                    self.ask(&[window]);
                    hold_up::pause();
                }
            } else {
                for look in cut(mapping.range, LOOK_PAGES) {
                    self.read_swapped(look)?;
                }
            }
        }
        Ok(())
    }

    fn may_read(&mut self, bytes: u64) -> Result<(), Stopped> {
        let may = !self.allowance.is_over()
            && self.process.is_space_current()
            && self.allowance.room_bytes() >= bytes;
        may.then_some(()).ok_or(Stopped)
    }

    fn read_swapped(&mut self, look: AddrRange) -> Result<(), Stopped> {
        if self.allowance.is_over() {
            return Err(Stopped);
        }
        let read = self.process.read_pagemap(look, &mut self.entries);
        read.map_err(|_| Stopped)?;
        let swapped = self.entries.iter().enumerate();
        let swapped = swapped.filter(|(_, entry)| entry.is_swapped());
        let pages: Vec<u64> = swapped
            .map(|(index, _)| look.start + index as u64 * PAGE_BYTES)
            .collect();
        for window in pages.chunks(WINDOW_PAGES as usize) {
            self.may_read(window.len() as u64 * PAGE_BYTES)?;
            self.ask(&runs(window));
            hold_up::pause();
            self.touch(window)?;
            hold_up::pause();
        }
        Ok(())
    }

    /// Has the kernel read them without waiting. What it refuses is left to the touch.
    fn ask(&self, ranges: &[AddrRange]) {
        let _left_to_the_touch = madvise::advise(self.process.pidfd(), ranges, Advice::WillNeed);
    }

    fn touch(&mut self, pages: &[u64]) -> Result<(), Stopped> {
        let mut rest = pages;
        while !rest.is_empty() {
            let nr_touched = match touch::touch(self.process.pid(), rest, touch::NR_ACTIVATING) {
                Ok(nr_touched) => nr_touched,
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => 0,
                Err(_) => return Err(Stopped),
            };
            self.nr_read_pages += nr_touched as u64;
            // The first that can't be read is passed over.
            rest = rest.get(nr_touched + 1..).unwrap_or_default();
            if !rest.is_empty() && !self.process.is_space_current() {
                return Err(Stopped);
            }
        }
        Ok(())
    }
}

/// A range in pieces of at most so many pages.
pub(super) fn cut(range: AddrRange, nr_pages: u64) -> impl Iterator<Item = AddrRange> {
    let bytes = nr_pages * PAGE_BYTES;
    let starts = (range.start..range.end).step_by(bytes as usize);
    starts.map(move |start| AddrRange::new(start, range.end.min(start.saturating_add(bytes))))
}

/// Pages that lie side by side as ranges.
pub(super) fn runs(pages: &[u64]) -> Vec<AddrRange> {
    let mut ranges = Vec::new();
    for page in pages {
        AddrRange::new(*page, page + PAGE_BYTES).append_to(&mut ranges);
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_side_by_side_are_one_range_and_pieces_cover_a_range() {
        let pages = [1, 2, 3, 7, 9, 10].map(|page| page * PAGE_BYTES);
        let pieces: Vec<u64> = runs(&pages).iter().map(|range| range.nr_pages()).collect();
        assert_eq!(pieces, [3, 1, 2]);
        let range = AddrRange::new(3 * PAGE_BYTES, 600 * PAGE_BYTES);
        let pieces: Vec<AddrRange> = cut(range, WINDOW_PAGES).collect();
        assert_eq!(
            pieces.iter().map(|piece| piece.nr_pages()).sum::<u64>(),
            597
        );
        assert!(pieces.iter().all(|piece| piece.nr_pages() <= WINDOW_PAGES));
        assert_eq!(pieces.last().map(|piece| piece.end), Some(range.end));
    }

    #[test]
    fn nothing_is_read_where_nothing_is_allowed() {
        struct Nothing;
        impl Allowance for Nothing {
            fn room_bytes(&self) -> u64 {
                0
            }
            fn is_over(&mut self) -> bool {
                false
            }
        }
        let own = std::process::id().try_into().expect("a pid");
        let own = Arc::new(Process::open(own).expect("opens"));
        assert_eq!(bring_back(&[own], &mut Nothing), 0);
    }
}
