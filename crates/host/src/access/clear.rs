//! Clearing accessed bits after a walk: two ways, and which one is cheaper.
//!
//! - `clear_refs` = 1 visits every resident page of the space, holds its mmap lock, and leaves the
//!   kernel's own lists alone.
//! - `MADV_COLD` visits only the ranges it is given, but also moves their pages on the kernel's
//!   lists: to the inactive end (classic LRU), to the second youngest generation (MGLRU). It leaves
//!   out pages that several processes map, and those faulted so recently that they still wait in a
//!   CPU's batch for their list: these stay young until the next time, or until the other way is
//!   taken.
//!
//! **Owns** the choice and its constants. **Does not own** what is young.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{AccessError, ClearIntent};
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::process::Process;
use crate::sys::madvise::{self, Advice};

// Measured by `cargo run --release -p strata-host --example walk_cost` (Linux 6.18, 2-core VM): 1 GiB
// of 4 KiB pages, 1 % of them young in ranges of one page, 612 ns a page; all of them in one range,
// 109 ns; `clear_refs` 68 ns a page. Huge pages cost so little either way that they are not told
// apart.

/// `MADV_COLD` of one more range, whatever its length.
const COLD_RANGE_NS: u64 = 500;
/// `MADV_COLD` of one more page in a range.
const COLD_PAGE_NS: u64 = 110;
/// `clear_refs` of one resident page.
const REFS_PAGE_NS: u64 = 68;

/// The two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Cold,
    Refs,
}

fn choose(nr_ranges: u64, young_pages: u64, resident_pages: u64, intent: ClearIntent) -> Way {
    let cold_ns = nr_ranges * COLD_RANGE_NS + young_pages * COLD_PAGE_NS;
    match intent {
        ClearIntent::Pageout if cold_ns < resident_pages * REFS_PAGE_NS => Way::Cold,
        ClearIntent::Pageout | ClearIntent::Watch => Way::Refs,
    }
}

/// Clears, and returns the nanoseconds it took.
pub(super) fn clear(
    process: &Process,
    young: &[AddrRange],
    resident_pages: u64,
    intent: ClearIntent,
) -> Result<u64, AccessError> {
    if young.is_empty() {
        return Ok(0);
    }
    let started = Instant::now();
    let young_pages = young.iter().map(|r| r.len_bytes() / PAGE_BYTES).sum();
    match choose(young.len() as u64, young_pages, resident_pages, intent) {
        Way::Cold => match cold_ranges(process, young) {
            // The leader has exited: advice can't be given any more, see [`clear_refs`].
            Err(AccessError::ProcessGone(_)) if process.is_alive() => clear_refs(process)?,
            result => result?,
        },
        Way::Refs => clear_refs(process)?,
    }
    Ok(started.elapsed().as_nanos() as u64)
}

/// `clear_refs` over the whole space. The kernel takes the write and clears nothing where the thread
/// has no space any more (a leader that has exited), so it goes through one that has.
pub(super) fn clear_refs(process: &Process) -> Result<(), AccessError> {
    process
        .space_dir()
        .and_then(|dir| fs::write(dir.join("clear_refs"), "1"))
        .map_err(|e| to_error(process, "writing clear_refs", e))
}

/// `MADV_COLD` over the ranges; one that the kernel refuses (unmapped meanwhile, locked) is left out.
pub(super) fn cold_ranges(process: &Process, young: &[AddrRange]) -> Result<(), AccessError> {
    let pid =
        Pid::from_raw(process.pid()).ok_or_else(|| AccessError::ProcessGone(process.pid()))?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|e| to_error(process, "opening a pidfd", e.into()))?;
    let mut rest = young;
    while !rest.is_empty() {
        let batch = &rest[..rest.len().min(madvise::RANGES_MAX)];
        let done_bytes = match madvise::advise(pidfd.as_fd(), batch, Advice::Cold) {
            Ok(bytes) => bytes,
            // The first range itself was refused.
            Err(e) if is_about_the_range(&e) => 0,
            Err(e) => return Err(to_error(process, "MADV_COLD", e)),
        };
        let mut gone_through = 0;
        let stopped_at = batch.iter().position(|range| {
            gone_through += range.len_bytes();
            gone_through > done_bytes
        });
        rest = &rest[stopped_at.map_or(batch.len(), |refused| refused + 1)..];
    }
    Ok(())
}

fn is_about_the_range(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOMEM | libc::EINVAL | libc::EFAULT)
    )
}

fn to_error(process: &Process, what: &'static str, source: io::Error) -> AccessError {
    match source.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => AccessError::ProcessGone(process.pid()),
        _ => AccessError::Io {
            what,
            pid: process.pid(),
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_young_ranges_are_cleared_one_by_one() {
        assert_eq!(choose(10, 100, 100_000, ClearIntent::Pageout), Way::Cold);
    }

    #[test]
    fn a_space_that_is_young_all_over_is_cleared_whole() {
        let scattered = choose(50_000, 50_000, 100_000, ClearIntent::Pageout);
        assert_eq!(scattered, Way::Refs);
        let solid = choose(1, 100_000, 100_000, ClearIntent::Pageout);
        assert_eq!(solid, Way::Refs);
    }

    #[test]
    fn a_watcher_never_moves_pages_on_the_kernels_lists() {
        assert_eq!(choose(1, 1, 100_000, ClearIntent::Watch), Way::Refs);
    }
}
