//! What stands against taking a page, and why one that was advised is still there.
//!
//! `/proc/PID/pagemap` tells whether somebody else maps it too; `/proc/kpageflags`, where it can be
//! opened, tells the rest (Documentation/admin-guide/mm/pagemap.rst).
//!
//! Absence proves less for pages of files and shared memory than for anonymous ones: the kernel
//! unmaps them first and may then find that it can't free them (dirty, and only the flusher threads
//! may write; shared memory without a free swap slot; part of a large folio). Such a page looks
//! evicted and is not. Dirty pages of files are therefore found before they are advised, and the
//! frame of every other page of that kind is looked at again afterwards.
//!
//! **Owns** the bits and their order of precedence. **Does not own** the bookkeeping (`pass`).

use std::fs::File;
use std::os::unix::fs::FileExt;

use strata_lru::Verdict;

use crate::addr::{AddrRange, PAGE_BYTES};
use crate::process::{PagemapEntry, Process};

/// Bits of `/proc/kpageflags`.
const UP_TO_DATE: u64 = 1 << 3;
const DIRTY: u64 = 1 << 4;
const LRU: u64 = 1 << 5;
const SLAB: u64 = 1 << 7;
const WRITEBACK: u64 = 1 << 8;
const BUDDY: u64 = 1 << 10;
const MAPPED: u64 = 1 << 11;
const ANON: u64 = 1 << 12;
const SWAP_BACKED: u64 = 1 << 14;
const UNEVICTABLE: u64 = 1 << 18;
const ZERO_PAGE: u64 = 1 << 24;
const PRIVATE: u64 = 1 << 35;

/// What a page is, before it is advised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Anonymous, or nothing is known: gone from its entry means gone.
    Anon,
    /// Of a file or shared memory, in this frame (0: not known).
    Cached { frame: u64, is_shmem: bool },
    /// Of a file, and different from the disk.
    MustBeWritten,
}

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

    /// What is to be known of the resident page at `addr` before it is advised. `is_dirty` is the
    /// hardware bit of its entry.
    pub(super) fn look(&mut self, process: &Process, addr: u64, is_dirty: bool) -> Look {
        match self.entry(process, addr) {
            Some(entry) if entry.is_present() && entry.is_file_or_shmem() => {
                let flags = self.flags(entry.frame());
                if must_be_written(entry, flags, is_dirty) {
                    Look::MustBeWritten
                } else {
                    Look::Cached {
                        frame: entry.frame(),
                        is_shmem: flags.is_some_and(|flags| flags & SWAP_BACKED != 0),
                    }
                }
            }
            _ => Look::Anon,
        }
    }

    /// Whether a frame seen as [`Look::Cached`], which nobody maps any more, still holds its page.
    /// False where nothing can be learned.
    pub(super) fn is_still_cached(&self, frame: u64, is_shmem: bool) -> bool {
        self.flags(frame)
            .is_some_and(|flags| holds_unmapped_cache(flags, is_shmem))
    }

    /// Why the page at `addr` stayed. `is_dirty` is the hardware bit of its entry.
    pub(super) fn verdict(&mut self, process: &Process, addr: u64, is_dirty: bool) -> Verdict {
        let Some(entry) = self.entry(process, addr) else {
            return Verdict::Busy;
        };
        let flags = self.flags(entry.frame());
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

    fn flags(&self, frame: u64) -> Option<u64> {
        if frame == 0 {
            return None;
        }
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
    } else if !entry.is_exclusive() {
        Verdict::Shared
    } else if must_be_written(entry, flags, is_dirty) {
        Verdict::Dirty
    } else {
        Verdict::Busy
    }
}

/// Whether a page belongs to a file and differs from the disk. Shared memory goes to swap instead.
fn must_be_written(entry: PagemapEntry, flags: Option<u64>, is_dirty: bool) -> bool {
    let has = |bits: u64| flags.is_some_and(|flags| flags & bits != 0);
    // Without the page's own flags the entry's bit has to do.
    let differs = has(DIRTY | WRITEBACK) || (flags.is_none() && is_dirty);
    entry.is_file_or_shmem() && !has(ANON | SWAP_BACKED) && differs
}

/// Whether the frame still holds its page of a file (or of shared memory) although no entry points
/// to it. A freed frame has no flags, or within microseconds those of its next user: often the
/// compressed pool of zram, which marks its pages private and has them on no list. Only a frame
/// that is used for the same kind of page at once is taken for the old one.
fn holds_unmapped_cache(flags: u64, is_shmem: bool) -> bool {
    let is_pool = flags & PRIVATE != 0 && flags & LRU == 0;
    flags & UP_TO_DATE != 0
        && flags & (ANON | MAPPED | SLAB | BUDDY) == 0
        && (flags & SWAP_BACKED != 0) == is_shmem
        && !is_pool
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

    #[test]
    fn a_frame_in_the_page_cache_is_told_from_a_free_or_reused_one() {
        // As 6.1, 6.12 and 6.18 print them: shared memory without swap, part of a split folio.
        for kept in [0x4038, 0x4058, 0x4078] {
            assert!(holds_unmapped_cache(kept, true), "{kept:#x}");
            assert!(!holds_unmapped_cache(kept, false), "{kept:#x}");
        }
        for kept in [0x28, 0x2c, 0x8, PRIVATE | 0x28] {
            assert!(holds_unmapped_cache(kept, false), "{kept:#x}");
            assert!(!holds_unmapped_cache(kept, true), "{kept:#x}");
        }
        // Free, zram's pool, a new anonymous page, a new mapped page of shared memory.
        for gone in [0, BUDDY, SLAB, 0x8_0000_0008, 0x4_0000_5828, 0x483c] {
            assert!(!holds_unmapped_cache(gone, true), "{gone:#x}");
            assert!(!holds_unmapped_cache(gone, false), "{gone:#x}");
        }
    }
}
