//! All `unsafe` of the workspace: raw system calls, shared BPF memory, and what runs between fork and exec.
//!
//! **Owns** thin safe wrappers, one operation each, errno turned into `io::Error`.
//! **Does not own** policy or retries.

pub(crate) mod bpf;
pub(crate) mod bpf_arrivals;
pub(crate) mod bpf_census;
pub(crate) mod bpf_shared;
#[expect(
    unsafe_code,
    reason = "timers and signal handlers have no safe wrapper"
)]
pub(crate) mod deadline;
#[expect(unsafe_code, reason = "runs between fork and exec")]
pub mod detach;
pub(crate) mod file_handle;
pub(crate) mod fresh_pages;
pub mod heartbeat;
pub mod madvise;
pub(crate) mod mapping;
pub(crate) mod move_pages;
pub mod own_memory;
pub(crate) mod page_cache;
pub(crate) mod process;
pub(crate) mod spawn;
#[expect(unsafe_code, reason = "system calls that no safe wrapper offers")]
pub(crate) mod swap;
pub(crate) mod touch;
pub mod users;

use std::io;

/// The error of a call that answers 0 where it was carried out.
fn check(status: impl Into<i64>) -> io::Result<()> {
    match status.into() {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
