//! Resetting the kernel's count of reads of pages, so that it shows again if they are read.
//!
//! A range of the file is mapped here for a moment, `MADV_COLD` takes its pages for cold, and it is unmapped. The kernel then
//! takes these pages sooner than others, until they are read again as often as before. Before Linux 6.14 a kernel that keeps
//! generations lets the count fall by one step only, which the next read makes up for.
//!
//! **Owns** doing it. **Does not own** which pages (`access::census`, a sample), nor what their counts tell later. Which counts were
//! reset the census finds out.
//!
//! **Invariants**
//! - I1: only what was in memory a moment before is mapped, so next to nothing is read from the disk.
//! - I2: between two calls no file and no file system is held open.

use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::reach::{self, Mounts, Ways};
use crate::access::census::{FileId, FullPages};
use crate::addr::PAGE_BYTES;
use crate::process::mountinfo::{self, MountLine};
use crate::sys::madvise::drain_own_processor;
use crate::sys::page_cache::{deactivate, nr_resident};

/// Resets counts.
#[derive(Debug)]
pub(crate) struct CountReset {
    mounted: Vec<MountLine>,
    mounts: Mounts,
    /// Files that could not be opened: trying again may disturb others, as those who hold leases on them.
    refused: HashSet<FileId>,
    /// Pages that the kernel was told to take for cold, bytes.
    pub(crate) tried_bytes: u64,
}

impl CountReset {
    /// Finds out what is mounted where.
    pub(crate) fn new() -> CountReset {
        CountReset {
            mounted: mountinfo::mounted_here(),
            mounts: Mounts::default(),
            refused: HashSet::new(),
            tried_bytes: 0,
        }
    }

    /// Resets the counts of these pages, where their files can be reached by handles (ext4 and xfs).
    pub(crate) fn reset(&mut self, full: &[FullPages]) {
        // What the kernel gathers on a processor, it is told to carry out on that one.
        let pinned = Pinned::here();
        for of_file in full.chunk_by(|one, next| one.file == next.file) {
            if let Some(file) = of_file.first().and_then(|first| self.open(&first.file)) {
                self.reset_of(&file, of_file);
            }
        }
        drain_own_processor();
        drop(pinned);
        self.mounts = Mounts::default();
    }

    fn open(&mut self, file: &FileId) -> Option<File> {
        if self.refused.contains(file) {
            return None;
        }
        let ways = Ways {
            places: Vec::new(),
            mounts: mountinfo::with_handles(&self.mounted, file.device),
        };
        let found = reach::open(file, &ways, &mut self.mounts).ok();
        if found.is_none() {
            self.refused.insert(*file);
        }
        found
    }

    /// Neighbours go together; where that fails, each by itself.
    fn reset_of(&mut self, file: &File, full: &[FullPages]) {
        for run in full.chunk_by(|one, next| one.pages.end == next.pages.start) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else {
                continue;
            };
            if self.reset_range(file, &(first.pages.start..last.pages.end)) {
                continue;
            }
            for one in run.iter().filter(|_| run.len() > 1) {
                self.reset_range(file, &one.pages);
            }
        }
    }

    fn reset_range(&mut self, file: &File, pages: &Range<u64>) -> bool {
        let nr_pages = pages.end - pages.start;
        let is_in_memory = nr_resident(file.as_fd(), pages).is_ok_and(|nr| nr == nr_pages);
        let is_done = is_in_memory && deactivate(file.as_fd(), pages).is_ok();
        if is_done {
            self.tried_bytes += nr_pages * PAGE_BYTES;
        }
        is_done
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ResetReport {
    /// Pages that the kernel was told to take for cold, once for each time.
    pub tried_bytes: u64,
    /// Part of `tried_bytes` whose count was lower when it was looked at again.
    pub reset_bytes: u64,
}

impl ResetReport {
    /// Why nothing can be learnt; `None`: something can.
    pub fn trouble(&self) -> Option<&'static str> {
        match (self.tried_bytes, self.reset_bytes) {
            (0, _) => Some(
                "no count of reads was reset: no page has a full count, lies on ext4 or xfs on a mount that is seen here, and is \
                 neither mapped, dirty nor locked",
            ),
            (_, 0) => Some("the kernel reset none of the counts that it was asked to"),
            _ => None,
        }
    }
}

/// The calling thread stays on its processor for as long as it lives, where that can be had.
#[derive(Debug)]
struct Pinned(Option<CpuSet>);

impl Pinned {
    fn here() -> Pinned {
        let before = sched_getaffinity(None).ok();
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        Pinned(before.filter(|_| sched_setaffinity(None, &here).is_ok()))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // Only our own thread is slower where it is refused.
            let _ = sched_setaffinity(None, before);
        }
    }
}
