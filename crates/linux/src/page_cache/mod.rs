//! Page cache that is given back: exact ranges of files, dropped by `posix_fadvise`, or, of files that are in memory only, sent to swap.
//!
//! ```text
//!   a census names idle pages (file, group, ranges) -> reach: open that very file -> drop: the kernel forgets these pages
//! ```
//!
//! **Owns** reaching a file, whether it is still there, dropping pages of it, and resetting their counts of reads. **Does not own** censuses (`access::census`), which
//! pages of a group lie idle and which came in of late, nor how much is dropped.
//!
//! **Invariants**
//! - I1: no data is lost. The kernel drops clean pages that nobody has mapped, and reads them again when they are wanted; what
//!   is nowhere else goes to swap.
//! - I2: pages are dropped only of the very file that was seen: its device, inode and generation are compared after it was
//!   opened.
//! - I3: only regular files on ext4, xfs and tmpfs (a memfd is one of those). Others are left and counted.
//! - I4: what was tried and what is gone are counted apart.

mod finder;
mod reach;
mod reset;

use std::collections::BTreeMap;
use std::path::PathBuf;

use rustix::fs::fstat;

pub use finder::Finder;
pub use reach::{Left, Mounts};
pub(crate) use reset::CountReset;
pub use reset::ResetReport;

use crate::access::census::FileId;

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
    pub fn add(&mut self, other: &Dropped) {
        self.nr_files += other.nr_files;
        self.idle_bytes += other.idle_bytes;
        self.tried_bytes += other.tried_bytes;
        self.dropped_bytes += other.dropped_bytes;
        for (left, bytes) in &other.left_bytes {
            *self.left_bytes.entry(*left).or_default() += bytes;
        }
    }
}

/// What is known of a file whose pages are in memory no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The file is there and so many bytes long.
    There(u64),
    /// The file is deleted, and nobody has it open.
    Deleted,
    /// That can't be found out here.
    Unknown,
}

/// Whether a file that a census found is still there. It is looked for by its handle, as it may have another name by now, and not
/// opened for reading, which would break leases that others have on it. `mounted`: where its file system is.
pub fn standing(file: &FileId, mounted: &[PathBuf], mounts: &mut Mounts) -> Standing {
    match mounts.find(file, mounted) {
        Ok(found) => fstat(found).map_or(Standing::Unknown, |found| {
            Standing::There(u64::try_from(found.st_size).unwrap_or(0))
        }),
        Err(Left::Replaced) => Standing::Deleted,
        Err(_) => Standing::Unknown,
    }
}
