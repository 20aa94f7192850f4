//! `process_madvise`: `MADV_PAGEOUT`, `MADV_COLD` and `MADV_WILLNEED` on ranges of another process; and having the kernel carry out what
//! it has gathered for its lists.
//!
//! **Owns** the calls. **Does not own** which ranges, nor what a partial answer means (`actuator`).
#![expect(unsafe_code, reason = "process_madvise has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::move_pages::{self, MPOL_MF_MOVE, OURSELVES};
use crate::addr::AddrRange;
use crate::hold_up::{Call, timed};

/// Most ranges in one call; the kernel takes up to 1024.
pub(crate) const RANGES_MAX: usize = 512;

/// What the kernel is to do with the ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Reclaim them.
    Pageout,
    /// Clear their accessed bits and take them for cold.
    Cold,
    /// Read them in, without waiting.
    WillNeed,
}

/// Advises the kernel on the ranges (at most `RANGES_MAX`) of the process. Returns the bytes
/// advised: whole ranges up to the first one that was refused. An error means the first.
pub fn advise(process: BorrowedFd<'_>, ranges: &[AddrRange], advice: Advice) -> io::Result<u64> {
    let (advice, call) = match advice {
        Advice::Pageout => (libc::MADV_PAGEOUT, Call::Pageout),
        Advice::Cold => (libc::MADV_COLD, Call::Cold),
        Advice::WillNeed => (libc::MADV_WILLNEED, Call::ReadIn),
    };
    let vectors: Vec<libc::iovec> = ranges
        .iter()
        .take(RANGES_MAX)
        .map(|range| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(range.start as usize),
            iov_len: range.len_bytes() as usize,
        })
        .collect();
    let (advised, _) = timed(call, || {
        // SAFETY: the vector array is valid for the call; the addresses in it are of the other
        // process and only named. No advice loses data: what is taken comes back by a fault.
        let advised = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                process.as_raw_fd(),
                vectors.as_ptr(),
                vectors.len(),
                advice,
                0,
            )
        };
        u64::try_from(advised).map_err(|_| io::Error::last_os_error())
    });
    advised
}

/// A page of ours, of which nothing is done.
#[repr(align(4096))]
struct Page([u8; 4096]);
static OWN: Page = Page([0; 4096]);

/// Has the kernel carry out what it has gathered on all processors for its lists. Until then a page of page cache that was read a
/// second time has not become active. Moving a page begins with that, so one of our own is asked to move where it is.
pub(crate) fn drain_all_processors() {
    let page = [std::ptr::from_ref(&OWN).addr() as u64];
    let told = move_pages::ask(OURSELVES, &page, None, MPOL_MF_MOVE);
    // Where it is refused nothing was carried out, which only leaves pages on another list.
    if let Ok(node) = told {
        let _moved = move_pages::ask(OURSELVES, &page, Some(&node), MPOL_MF_MOVE);
    }
}

/// Has the kernel carry out what it has gathered on this processor for its lists (`lru_add_drain`): every
/// `MADV_COLD` begins with that, so one on a page of our own will do.
pub(crate) fn drain_own_processor() {
    // SAFETY: the range is one whole page of ours; the advice changes nothing of its content. Where it is refused
    // nothing was gathered up, which only leaves pages on another list.
    let _advised = unsafe {
        libc::madvise(
            std::ptr::from_ref(&OWN.0).cast_mut().cast(),
            OWN.0.len(),
            libc::MADV_COLD,
        )
    };
}
