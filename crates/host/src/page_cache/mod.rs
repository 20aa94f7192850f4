//! Page cache that is given back: exact ranges of files, dropped by `posix_fadvise`.
//!
//! ```text
//!   a census names idle pages (file, group, ranges) -> reach: open that very file -> drop: the kernel forgets these pages
//! ```
//!
//! **Owns** reaching a file, dropping pages of it, which pages of a group lie idle from census to census (`table`), and which came
//! in of late (`newcomers`). **Does not own** censuses (`access::census`), nor how much is dropped (`strata_control::drop_cache`,
//! `admit_cache`).
//!
//! **Invariants**
//! - I1: no data is lost. The kernel drops clean pages that nobody has mapped, and reads them again when they are wanted.
//! - I2: pages are dropped only of the very file that was seen: its device, inode and generation are compared after it was
//!   opened.
//! - I3: only regular files on ext4 and xfs. Others are left and counted.
//! - I4: what was tried and what is gone are counted apart.

pub(crate) mod newcomers;
mod reach;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::{Advice, fadvise};

pub(crate) use reach::Mounts;
pub use reach::Ways;

use crate::access::census::FileId;
use crate::addr::PAGE_BYTES;
use crate::sys::page_cache::nr_resident;

/// Idle pages of a file.
#[derive(Clone, Debug)]
pub struct IdleFile {
    /// Which.
    pub file: FileId,
    /// How it may be reached.
    pub ways: Ways,
    /// Pages by number, in order and apart from each other.
    pub ranges: Vec<Range<u64>>,
}

/// Why pages of a file are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// No path is known and no process has it open.
    Unreachable,
    /// The file is not there any more, or another one is at its path.
    Replaced,
    /// It is no regular file, but a disk, for example.
    NotRegular,
    /// It lies neither on ext4 nor on xfs.
    FileSystem,
    /// It can't be opened or asked for: a right is missing, or somebody has a lease on it.
    Refused,
    /// The pages were made dirty, mapped, or are being read.
    InUse,
}

/// What became of idle page cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Dropped {
    /// Files with idle pages.
    pub nr_files: u64,
    /// Idle in all of these files: clean, not mapped.
    pub idle_bytes: u64,
    /// Part of `idle_bytes` that was in memory when the kernel was asked to drop it; in a dry run, that would be tried.
    pub tried_bytes: u64,
    /// Part of `tried_bytes` that was gone afterwards.
    pub dropped_bytes: u64,
    /// Part of `idle_bytes` that is left, by reason.
    pub left_bytes: BTreeMap<Left, u64>,
}

impl Dropped {
    /// Adds what became of other files.
    pub(crate) fn add(&mut self, other: &Dropped) {
        self.nr_files += other.nr_files;
        self.idle_bytes += other.idle_bytes;
        self.tried_bytes += other.tried_bytes;
        self.dropped_bytes += other.dropped_bytes;
        for (left, bytes) in &other.left_bytes {
            *self.left_bytes.entry(*left).or_default() += bytes;
        }
    }
}

/// Drops idle pages, or only counts what would be tried.
pub fn drop_idle(files: &[IdleFile], is_dry_run: bool) -> Dropped {
    let mut dropped = Dropped::default();
    let mut mounts = Mounts::default();
    for idle in files {
        dropped.add(&drop_of(idle, &mut mounts, is_dry_run, &mut |_, _| {}));
    }
    dropped
}

/// Drops idle pages of one file, or only counts what would be tried. `on_range` is told how many pages of each range that
/// was tried are gone.
pub(crate) fn drop_of(
    idle: &IdleFile,
    mounts: &mut Mounts,
    is_dry_run: bool,
    on_range: &mut dyn FnMut(&Range<u64>, u64),
) -> Dropped {
    let lengths = idle.ranges.iter().map(|range| range.end - range.start);
    let idle_bytes = lengths.sum::<u64>() * PAGE_BYTES;
    let mut dropped = Dropped {
        nr_files: 1,
        idle_bytes,
        ..Dropped::default()
    };
    let file = match reach::open(&idle.file, &idle.ways, mounts) {
        Ok(file) => file,
        Err(left) => {
            dropped.left_bytes.insert(left, idle_bytes);
            return dropped;
        }
    };
    for range in &idle.ranges {
        let before_bytes = dropped.dropped_bytes;
        // What is not known to be in memory is not known to be gone either.
        if drop_range(&file, range, is_dry_run, &mut dropped).is_err() {
            let nr_bytes = (range.end - range.start) * PAGE_BYTES;
            *dropped.left_bytes.entry(Left::Refused).or_default() += nr_bytes;
        }
        on_range(range, (dropped.dropped_bytes - before_bytes) / PAGE_BYTES);
    }
    dropped
}

fn drop_range(
    file: &File,
    range: &Range<u64>,
    is_dry_run: bool,
    dropped: &mut Dropped,
) -> io::Result<()> {
    let before_bytes = nr_resident(file.as_fd(), range)? * PAGE_BYTES;
    if is_dry_run || before_bytes == 0 {
        dropped.tried_bytes += before_bytes;
        return Ok(());
    }
    let nr_bytes = NonZero::new((range.end - range.start) * PAGE_BYTES);
    fadvise(file, range.start * PAGE_BYTES, nr_bytes, Advice::DontNeed)?;
    let left_bytes = (nr_resident(file.as_fd(), range)? * PAGE_BYTES).min(before_bytes);
    dropped.tried_bytes += before_bytes;
    dropped.dropped_bytes += before_bytes - left_bytes;
    if left_bytes > 0 {
        *dropped.left_bytes.entry(Left::InUse).or_default() += left_bytes;
    }
    Ok(())
}
