//! The cgroup namespace of pid 1, in which paths of groups are those that everybody else on the host sees.
//!
//! A container that shares the processes of the host (Kubernetes: `hostPID`) has a cgroup namespace of its own, in which groups of
//! others have no path.
//!
//! **Owns** joining that of pid 1. **Does not own** which hierarchies are mounted (`mounts`).

use std::fs::{File, read_link};
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The namespace of pid 1, as this process sees it.
const FIRST: &str = "/proc/1/ns/cgroup";
/// The namespace of this thread.
const OURS: &str = "/proc/thread-self/ns/cgroup";

/// Moves the calling thread, and those that it starts afterwards, into the cgroup namespace of pid 1; tells whether it was in
/// another one. Has to be called before other threads are started.
///
/// # Errors
/// Pid 1 can't be asked, or root lacks `CAP_SYS_ADMIN`; nothing has changed then.
pub fn join_first() -> io::Result<bool> {
    if read_link(FIRST)? == read_link(OURS)? {
        return Ok(false);
    }
    let first = File::open(FIRST)?;
    move_into_link_name_space(first.as_fd(), Some(LinkNameSpaceType::ControlGroup))?;
    Ok(true)
}
