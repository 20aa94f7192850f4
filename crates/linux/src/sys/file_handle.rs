//! Opening a file by its handle (`open_by_handle_at`): by its number in a file system, whatever its name is.
//!
//! **Owns** the call. **Does not own** how a file system writes its handles.
#![expect(unsafe_code, reason = "the call has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Bytes of the largest handle that is used.
const HANDLE_BYTES: usize = 12;

/// `struct file_handle`.
#[repr(C)]
struct RawHandle {
    handle_bytes: u32,
    handle_type: i32,
    handle: [u8; HANDLE_BYTES],
}

/// What a file system calls one of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// How the handle is written.
    pub(crate) kind: u8,
    /// The handle itself, at most 12 bytes.
    pub(crate) bytes: [u8; HANDLE_BYTES],
    /// How many of these count.
    pub(crate) nr_bytes: u32,
}

/// Opens a file of the file system that `mount` lies on, without any right to its content (`O_PATH`).
pub(crate) fn open_by_handle(mount: BorrowedFd<'_>, handle: &Handle) -> io::Result<OwnedFd> {
    let mut raw = RawHandle {
        handle_bytes: handle.nr_bytes.min(HANDLE_BYTES as u32),
        handle_type: i32::from(handle.kind),
        handle: handle.bytes,
    };
    let raw: *mut RawHandle = &raw mut raw;
    // SAFETY: the kernel reads a `struct file_handle` with `handle_bytes` bytes after it, which is how `RawHandle` is
    // laid out, and it lives until the call returns.
    let found = unsafe {
        libc::open_by_handle_at(
            mount.as_raw_fd(),
            raw.cast(),
            libc::O_PATH | libc::O_CLOEXEC,
        )
    };
    if found < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(found) })
}
