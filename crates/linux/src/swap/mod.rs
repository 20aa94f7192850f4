//! Swap devices of our own: zram and files.
//!
//! ```text
//!   SwapSpec  "zram:2G,lz4" | "file:PATH:SIZE" | "existing"
//!      | SwapDevice::create(&spec, &journal)      top priority; zram with a mem_limit
//!   SwapDevice   used_bytes()  memory_bytes()
//!      | take_down()                              only if what it holds fits into free memory
//!   (gone)  or  SwapError::WontFit: left as it is, and said
//! ```
//!
//! Swap is system-wide: others may be swapped out to a device of ours, too.
//!
//! **Owns** making devices and taking them down, and what swapped-out memory takes (`cost`). **Does not own** devices that were there before.
//!
//! **Invariants**
//! - W1: a device is taken down only if there is room for what it holds (`room`): in memory, and below the limit of each group.
//! - W2: a device or file is touched only if it carries the UUID we gave it, or is still blank; a file that a reboot has left
//!   ([`remove_stale`]) only if it carries the label of a Strata's.
//! - W3: two Stratas never take the same zram device.

mod cost;
mod file;
mod header;
mod read_latency;
mod record;
mod room;
mod spec;
pub(crate) mod status;
mod watch;
mod whose;
mod zram;

use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

pub use cost::memory_of_swapped;
pub use file::remove_stale;
use header::FirstPage;
pub use read_latency::{ReadTimes, Refaults, measure_read, measure_refaults};
pub use record::{Backing, DeviceNumber, SwapRecord};
pub use spec::{SWAP_MIN_BYTES, SwapSpec, SwapSpecError, device_bytes_for};
pub use status::{
    SwapArea, free_swap_bytes, is_on_disk, is_swap_below, known_free_swap_bytes, swap_areas,
    total_swap_bytes,
};
pub use watch::SwapWatch;

use crate::addr::PAGE_BYTES;
use crate::cgroup::CgroupError;
use crate::sys::swap as sys;
use crate::undo::{Journal, Undo};
use crate::units::Bytes;

/// What must stay available after a device's pages were read back.
pub const SWAPOFF_MARGIN_BYTES: u64 = 128 << 20;
/// A signal interrupts `swapoff`, which goes on where it was.
const SWAPOFF_TRIES: u32 = 8;

/// Why a swap device can't be made, read or taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwapError {
    /// No zram in this kernel.
    #[error("zram is not available ({why}); load it (`modprobe zram`) or use file:PATH:SIZE")]
    NoZram {
        /// What was tried.
        why: String,
    },
    /// All zram devices are in use and none could be added.
    #[error("no zram device is free ({why}); free one (`zramctl --reset`) or use file:PATH:SIZE")]
    NoFreeZram {
        /// Why none could be added.
        why: String,
    },
    /// The device does not compress that way.
    #[error("zram has no algorithm {algorithm:?}; this kernel offers {offered}")]
    UnknownAlgorithm {
        /// What was asked for.
        algorithm: String,
        /// What there is.
        offered: String,
    },
    /// The device names it, but the part of the kernel that does it is missing.
    #[error(
        "zram can't use algorithm {algorithm:?} here ({source}): its kernel module is missing; choose \
         another"
    )]
    UnusableAlgorithm {
        /// What was asked for.
        algorithm: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A swap file must be new.
    #[error("swap file {} exists already; it is never overwritten: give another path", .0.display())]
    Exists(PathBuf),
    /// No swap file works there.
    #[error("a swap file can't live on {filesystem} ({}); choose a path on ext4, xfs or btrfs", path.display())]
    Filesystem {
        /// The file.
        path: PathBuf,
        /// The file system.
        filesystem: String,
    },
    /// Taking it down would need more memory than there is.
    #[error(
        "swap {} stays in use: it holds {}, and only {} of memory is available; it can be taken down when there is more",
        path.display(), Bytes(*used_bytes), Bytes(*available_bytes)
    )]
    WontFit {
        /// The device.
        path: PathBuf,
        /// What the device holds.
        used_bytes: u64,
        /// What is available, margin not counted.
        available_bytes: u64,
    },
    /// Taking it down would bring a group above its limit, and the kernel would kill there.
    #[error(
        "swap {} stays in use: up to {} of {} come back when it is taken down, and below its limit there is room for {}; \
         raise that limit, or end what runs there",
        path.display(), Bytes(*swapped_bytes), group.display(), Bytes(*room_bytes)
    )]
    GroupWontFit {
        /// The device.
        path: PathBuf,
        /// The group.
        group: PathBuf,
        /// What may come back of it.
        swapped_bytes: u64,
        /// What it may still have in memory.
        room_bytes: u64,
    },
    /// Whether a group has room is not known.
    #[error("swap {} stays in use, as the limits of groups are not known: {source}", path.display())]
    Groups {
        /// The device.
        path: PathBuf,
        /// The reason.
        source: Box<CgroupError>,
    },
    /// The journal could not be written, so nothing was made.
    #[error("the swap device could not be recorded, so it was not made: {0}")]
    Journal(#[source] io::Error),
    /// A privilege is missing.
    #[error(
        "{what} {} failed: {source}; making swap needs CAP_SYS_ADMIN: {}, or use \
         --swap existing",
        path.display(),
        crate::rights::advice("CAP_SYS_ADMIN")
    )]
    NotPermitted {
        /// The operation.
        what: &'static str,
        /// The file or device.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The operating system refused.
    #[error("{what} {} failed: {source}", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file or device.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl SwapError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SwapError {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => SwapError::NotPermitted { what, path, source },
            _ => SwapError::Io { what, path, source },
        }
    }
}

/// A swap device in use.
#[derive(Debug)]
pub struct SwapDevice {
    /// `None`: what the machine has already.
    record: Option<SwapRecord>,
    journal: Journal,
}

impl SwapDevice {
    /// Makes the device and starts swapping to it, at the highest priority there is. What was begun
    /// is taken back on failure.
    ///
    /// A `zram` device may take at most `SIZE` bytes of memory (`mem_limit`).
    pub fn create(spec: &SwapSpec, journal: &Journal) -> Result<SwapDevice, SwapError> {
        let record = match spec {
            SwapSpec::Existing => None,
            SwapSpec::Zram {
                size_bytes,
                algorithm,
            } => Some(zram::create(*size_bytes, algorithm.as_deref(), journal)?),
            SwapSpec::File { path, size_bytes } => Some(file::create(path, *size_bytes, journal)?),
        };
        Ok(SwapDevice {
            record,
            journal: journal.clone(),
        })
    }

    /// The device that a dead Strata has left in use. `None`: it is in use no more, or another's by now; what is left of it is
    /// taken down.
    pub fn take_over(
        record: SwapRecord,
        journal: &Journal,
    ) -> Result<Option<SwapDevice>, SwapError> {
        let is_ours = header::read(&record.path)
            .is_ok_and(|page| page == FirstPage::Swap(record.uuid.clone()));
        let swaps = Path::new("/proc/swaps");
        let area = status::area_at(&record.path).map_err(SwapError::io("reading", swaps))?;
        let is_in_use = is_ours && area.is_some();
        let mut device = SwapDevice {
            record: Some(record),
            journal: journal.clone(),
        };
        if is_in_use {
            return Ok(Some(device));
        }
        device.take_down()?;
        Ok(None)
    }

    /// The device or file; `None` for what the machine has already.
    pub fn path(&self) -> Option<&Path> {
        self.record.as_ref().map(|record| record.path.as_path())
    }

    /// How it differs from what is asked for, for people; `None`: it does not, or that can't be told.
    pub fn unlike(&self, spec: &SwapSpec) -> Option<String> {
        let record = self.record.as_ref()?;
        let (size_bytes, algorithm) = match spec {
            SwapSpec::Existing => return None,
            SwapSpec::Zram {
                size_bytes,
                algorithm,
            } => (size_bytes, algorithm.as_deref()),
            SwapSpec::File { size_bytes, .. } => (size_bytes, None),
        };
        let area = status::area_at(&record.path).ok()??;
        // The page of the header is not counted.
        let has_bytes = area.size_bytes + PAGE_BYTES;
        if has_bytes != size_bytes - size_bytes % PAGE_BYTES {
            let (has, asked) = (Bytes(has_bytes), Bytes(*size_bytes));
            return Some(format!("its size is {has}, and {asked} is asked for"));
        }
        let Backing::Zram { index, .. } = record.backing else {
            return None;
        };
        let (has, asked) = (zram::algorithm(index)?, algorithm?);
        (has != asked).then(|| format!("it compresses with {has}, and {asked} is asked for"))
    }

    /// Takes it down: `swapoff`, then the device is reset and removed, or the file deleted.
    /// Does nothing for `existing`. May be called again after a failure.
    ///
    /// # Errors
    /// [`SwapError::WontFit`]: the device is left in use.
    pub fn take_down(&mut self) -> Result<(), SwapError> {
        let Some(record) = &self.record else {
            return Ok(());
        };
        take_down(record)?;
        if let Err(error) = self.journal.forget(&Undo::Swap(record.clone())) {
            tracing::debug!("journal: {error}");
        }
        self.record = None;
        Ok(())
    }
}

/// Records the device, then prepares and starts it; takes everything back on failure.
fn start(
    mut record: SwapRecord,
    journal: &Journal,
    prepare: impl FnOnce(&SwapRecord) -> Result<(), SwapError>,
) -> Result<SwapRecord, SwapError> {
    let undo = Undo::Swap(record.clone());
    let started = journal
        .record(&undo)
        .map_err(SwapError::Journal)
        .and_then(|()| prepare(&record))
        .and_then(|()| {
            let before = swap_areas().unwrap_or_default();
            sys::swapon(&record.path, sys::SWAP_PRIORITY_MAX)
                .map_err(SwapError::io("swapon", &record.path))?;
            let after = swap_areas().unwrap_or_default();
            Ok(DeviceNumber::of_new(&record.path, &before, &after))
        });
    let number = match started {
        Ok(number) => number,
        Err(error) => {
            match take_down(&record) {
                Ok(()) => {
                    let _ = journal.forget(&undo);
                }
                Err(second) => tracing::warn!("{second}"),
            }
            return Err(error);
        }
    };
    let numbered = SwapRecord {
        number,
        ..record.clone()
    };
    // Without its number the device is known all the same.
    if number.is_some() && journal.record(&Undo::Swap(numbered.clone())).is_ok() {
        if let Err(error) = journal.forget(&undo) {
            tracing::debug!("journal: {error}");
        }
        record = numbered;
    }
    Ok(record)
}

/// Takes a recorded device down. One that is not there, or not ours any more, needs nothing.
pub fn take_down(record: &SwapRecord) -> Result<(), SwapError> {
    let path = &record.path;
    let is_ours = match header::read(path) {
        Ok(FirstPage::Swap(uuid)) => uuid == record.uuid,
        Ok(FirstPage::Blank) => true,
        Ok(FirstPage::Other) | Err(_) => false,
    };
    if is_ours {
        swap_off(path, record.number)?;
        match record.backing {
            Backing::Zram { index, .. } => zram::reset(index)?,
            Backing::File { inode, .. } => file::remove(path, inode)?,
        }
    }
    match record.backing {
        Backing::Zram {
            index,
            is_hot_added: true,
        } => zram::hot_remove(index),
        _ => Ok(()),
    }
}

/// Stops swapping to the path if it is in use and there is room for what it holds.
fn swap_off(path: &Path, number: Option<DeviceNumber>) -> Result<(), SwapError> {
    let failed = |source| SwapError::io("swapoff", path)(source);
    for _ in 0..SWAPOFF_TRIES {
        if status::area_at(path).map_err(failed)?.is_none() {
            return Ok(());
        }
        room::check(path, number)?;
        match sys::swapoff(path) {
            Ok(()) => return Ok(()),
            Err(source) if source.kind() == io::ErrorKind::Interrupted => {
                thread::sleep(Duration::from_millis(1));
            }
            Err(source) => return Err(failed(source)),
        }
    }
    Err(failed(io::ErrorKind::Interrupted.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_file_that_is_not_ours_touches_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("precious");
        std::fs::write(&path, vec![7; 8192]).expect("written");
        let record = SwapRecord {
            path: path.clone(),
            uuid: header::fresh_uuid().expect("read"),
            backing: Backing::File { inode: 0 },
            number: None,
        };
        take_down(&record).expect("nothing to do");
        std::fs::write(&path, vec![0; 8192]).expect("blank, but another inode");
        take_down(&record).expect("nothing to do");
        assert!(path.exists());
    }
}
