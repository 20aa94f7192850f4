//! What stands against taking a page, and why one that was advised is still there.
//!
//! `/proc/PID/pagemap` tells whether somebody else maps it too; `/proc/kpageflags`, where it can be
//! opened, tells the rest (Documentation/admin-guide/mm/pagemap.rst).
//!
//! A dirty page of a file has to be found before it is advised: the kernel unmaps it first and then
//! keeps it, because only the flusher threads may write it. It would look evicted and would not be.
//!
//! **Owns** the bits and their order of precedence. **Does not own** the bookkeeping (`pass`).

use std::fs::File;
use std::os::unix::fs::FileExt;

use strata_lru::Verdict;

use crate::addr::{AddrRange, PAGE_BYTES};
use crate::process::{PagemapEntry, Process};

/// Bits of `/proc/kpageflags`.
const DIRTY: u64 = 1 << 4;
const WRITEBACK: u64 = 1 << 8;
const ANON: u64 = 1 << 12;
const SWAP_BACKED: u64 = 1 << 14;
const UNEVICTABLE: u64 = 1 << 18;
const KSM: u64 = 1 << 21;
const ZERO_PAGE: u64 = 1 << 24;

/// Asks the kernel about pages.
#[derive(Debug)]
pub(super) struct Leftover {
    /// `None` without the right to read it.
    kpageflags: Option<File>,
    entries: Vec<PagemapEntry>,
}

impl Leftover {
    pub(super) fn new() -> Leftover {
        Leftover {
            kpageflags: File::open("/proc/kpageflags").ok(),
            entries: Vec::new(),
        }
    }

    /// Whether the page at `addr` belongs to a file and would have to be written first. `is_dirty`
    /// is the hardware bit of its entry. False where nothing can be learned.
    pub(super) fn is_dirty_file(&mut self, process: &Process, addr: u64, is_dirty: bool) -> bool {
        self.entry(process, addr).is_some_and(|entry| {
            entry.is_present()
                && entry.is_file_or_shmem()
                && must_be_written(entry, self.flags(entry), is_dirty)
        })
    }

    /// Why the page at `addr` stayed. `is_dirty` is the hardware bit of its entry.
    pub(super) fn verdict(&mut self, process: &Process, addr: u64, is_dirty: bool) -> Verdict {
        let Some(entry) = self.entry(process, addr) else {
            return Verdict::Busy;
        };
        let flags = self.flags(entry);
        if !entry.is_present() {
            // It went a moment later than the others.
            return Verdict::Evicted;
        }
        reason(entry, flags, is_dirty)
    }

    fn entry(&mut self, process: &Process, addr: u64) -> Option<PagemapEntry> {
        let range = AddrRange::new(addr, addr + PAGE_BYTES);
        process.read_pagemap(range, &mut self.entries).ok()?;
        self.entries.first().copied()
    }

    fn flags(&self, entry: PagemapEntry) -> Option<u64> {
        let frame = Some(entry.frame()).filter(|frame| *frame != 0)?;
        let mut word = [0; 8];
        self.kpageflags
            .as_ref()?
            .read_exact_at(&mut word, frame * 8)
            .ok()?;
        Some(u64::from_ne_bytes(word))
    }
}

/// The first reason that holds, strongest first.
fn reason(entry: PagemapEntry, flags: Option<u64>, is_dirty: bool) -> Verdict {
    let has = |bits: u64| flags.is_some_and(|flags| flags & bits != 0);
    if has(ZERO_PAGE | UNEVICTABLE) {
        Verdict::Unevictable
    } else if has(KSM) || !entry.is_exclusive() {
        Verdict::Shared
    } else if must_be_written(entry, flags, is_dirty) {
        Verdict::Dirty
    } else {
        Verdict::Busy
    }
}

/// Whether it is a page of a file that differs from the disk. Shared memory goes to swap instead.
fn must_be_written(entry: PagemapEntry, flags: Option<u64>, is_dirty: bool) -> bool {
    let has = |bits: u64| flags.is_some_and(|flags| flags & bits != 0);
    // Without the page's own flags the entry's bit has to do.
    let differs = has(DIRTY | WRITEBACK) || (flags.is_none() && is_dirty);
    entry.is_file_or_shmem() && !has(ANON | SWAP_BACKED) && differs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_reason_is_named() {
        let exclusive = PagemapEntry(1 << 63 | 1 << 56);
        let shared = PagemapEntry(1 << 63);
        let file = PagemapEntry(1 << 63 | 1 << 61 | 1 << 56);
        assert_eq!(reason(shared, Some(ZERO_PAGE), false), Verdict::Unevictable);
        assert_eq!(reason(shared, Some(DIRTY), false), Verdict::Shared);
        assert_eq!(reason(exclusive, Some(KSM | ANON), false), Verdict::Shared);
        assert_eq!(
            reason(file, Some(UNEVICTABLE | DIRTY), false),
            Verdict::Unevictable
        );
        assert_eq!(reason(file, Some(DIRTY), false), Verdict::Dirty);
        assert_eq!(reason(file, Some(WRITEBACK), false), Verdict::Dirty);
        assert_eq!(reason(file, Some(SWAP_BACKED | DIRTY), true), Verdict::Busy);
        assert_eq!(reason(file, Some(0), true), Verdict::Busy);
        assert_eq!(reason(exclusive, Some(ANON | DIRTY), true), Verdict::Busy);
        // Without root only the entry is known.
        assert_eq!(reason(file, None, true), Verdict::Dirty);
        assert_eq!(reason(exclusive, None, true), Verdict::Busy);
        assert_eq!(reason(shared, None, true), Verdict::Shared);
    }
}
