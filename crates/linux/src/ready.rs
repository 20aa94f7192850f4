//! Waiting until a descriptor can be read.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Waits for so long at most; whether one of them can be read, or has ended. A signal ends the wait.
///
/// # Errors
/// The kernel can't wait for them.
pub fn is_any_readable(fds: &[BorrowedFd<'_>], wait: Duration) -> io::Result<bool> {
    let fds = fds.iter().copied();
    let mut polled: Vec<PollFd<'_>> = fds
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    match poll(&mut polled, Timespec::try_from(wait).ok().as_ref()) {
        Ok(nr_ready) => Ok(nr_ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
