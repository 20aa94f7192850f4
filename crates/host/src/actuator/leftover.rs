//! Why a page that was advised is still there.
//!
//! `/proc/PID/pagemap` tells whether somebody else maps it too; `/proc/kpageflags`, where it can be
//! opened, tells the rest (Documentation/admin-guide/mm/pagemap.rst).
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

    /// Why the page at `addr` stayed. `is_dirty` is the hardware bit of its entry.
    pub(super) fn verdict(&mut self, process: &Process, addr: u64, is_dirty: bool) -> Verdict {
        let range = AddrRange::new(addr, addr + PAGE_BYTES);
        if process.read_pagemap(range, &mut self.entries).is_err() {
            return Verdict::Busy;
        }
        let Some(entry) = self.entries.first().copied() else {
            return Verdict::Busy;
        };
        let flags = self.flags(entry);
        if !entry.is_present() {
            // It went a moment later than the others.
            return Verdict::Evicted;
        }
        reason(entry, flags, is_dirty)
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
    } else if entry.is_file_or_shmem()
        && !has(ANON | SWAP_BACKED)
        // Without the page's own flags the entry's bit has to do.
        && (has(DIRTY | WRITEBACK) || (flags.is_none() && is_dirty))
    {
        Verdict::Dirty
    } else {
        Verdict::Busy
    }
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
