//! `process_madvise(MADV_COLD)`: marking ranges of another process cold.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::addr::AddrRange;

/// Ranges one call takes.
pub(crate) const RANGES_MAX: usize = 512;

/// Marks the ranges cold, in order, and returns how many bytes were gone through before the first
/// range that the kernel refused. At most [`RANGES_MAX`] ranges.
pub(crate) fn advise_cold(pidfd: BorrowedFd<'_>, ranges: &[AddrRange]) -> io::Result<u64> {
    let vectors: Vec<libc::iovec> = ranges
        .iter()
        .take(RANGES_MAX)
        .map(|range| libc::iovec {
            iov_base: std::ptr::without_provenance_mut(range.start as usize),
            iov_len: range.len_bytes() as usize,
        })
        .collect();
    #[expect(unsafe_code, reason = "system call")]
    // SAFETY: the kernel reads `vectors.len()` iovecs of ours; the addresses in them belong to the
    // other process, and MADV_COLD changes no content.
    let advised = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            vectors.as_ptr(),
            vectors.len(),
            libc::MADV_COLD,
            0,
        )
    };
    u64::try_from(advised).map_err(|_| io::Error::last_os_error())
}
