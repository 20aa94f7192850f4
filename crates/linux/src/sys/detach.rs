//! Starting a process that has nothing in common with us but what it is given.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::check;

/// Signals a terminal, a shell or an init sends to whole groups of processes.
const IGNORED_SIGNALS: [libc::c_int; 4] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM];

/// Makes the command start in a session of its own, deaf to INT, QUIT, HUP and TERM, and with no
/// descriptor above 2 but those of `kept`, which keep their numbers.
pub fn detach<const N: usize>(command: &mut Command, kept: [BorrowedFd<'_>; N]) {
    let kept = kept.map(|fd| fd.as_raw_fd());
    let between_fork_and_exec = move || {
        rustix::process::setsid()?;
        for signal in IGNORED_SIGNALS {
            ignore(signal)?;
        }
        let flag = libc::CLOSE_RANGE_CLOEXEC;
        // SAFETY: the call takes integers and changes only flags of descriptors, no memory.
        check(unsafe { libc::syscall(libc::SYS_close_range, 3, RawFd::MAX, flag) })?;
        // SAFETY: as above.
        let keep = |fd: &RawFd| check(unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) });
        kept.iter().try_for_each(keep)
    };
    // SAFETY: the closure makes nothing but async-signal-safe system calls, allocates nothing and
    // takes no lock: `io::Error` from an errno is a plain value.
    unsafe { command.pre_exec(between_fork_and_exec) };
}

/// Makes this process deaf to a signal; what it starts inherits that.
pub(crate) fn ignore(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: SIG_IGN is a valid disposition for these signals, and no handler is replaced that
    // anything of ours relies on: nobody here installs one for them.
    let before = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if before == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
