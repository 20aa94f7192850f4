//! `swapon` and `swapoff`.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::check;

/// The highest priority the kernel takes.
pub(crate) const SWAP_PRIORITY_MAX: i32 = 0x7fff;
/// `SWAP_FLAG_PREFER` of `linux/swap.h`: the low 15 bits are the priority.
const SWAP_FLAG_PREFER: i32 = 0x8000;

/// Starts swapping to a prepared device or file with a priority of `0..=SWAP_PRIORITY_MAX`.
pub(crate) fn swapon(path: &Path, priority: i32) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let flags = SWAP_FLAG_PREFER | (priority & SWAP_PRIORITY_MAX);
    // SAFETY: `path` is a NUL-terminated string that outlives the call, which only reads it.
    check(unsafe { libc::swapon(path.as_ptr(), flags) })
}

/// Stops swapping to a device or file; reads back all it holds first, which may take long.
/// EINTR: a signal came in between, the device is still in use.
pub(crate) fn swapoff(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `path` is a NUL-terminated string that outlives the call, which only reads it.
    check(unsafe { libc::swapoff(path.as_ptr()) })
}
