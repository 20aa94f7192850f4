//! Stopping single processes, and letting them go on: SIGSTOP and SIGCONT.
//!
//! A parent sees that its child was stopped, and a shell takes it for a job that was. Where a freezer can be used it is
//! (`cgroup::Freezer`): nobody sees that.
//!
//! **Owns** the two signals. **Does not own** who is stopped, and when.
//!
//! **Invariants**
//! - H1: that a process can go on again is recorded before it is stopped.
//! - H2: what is stopped already is somebody else's to let go on.

use std::io;

use rustix::process::Signal;

use super::handle::read_stat;
use super::{Process, Stat};
use crate::run_dir::ProcessMark;
use crate::undo::{Journal, Undo};

/// Stops a process, unless it is stopped already. Returns its mark if it was stopped here.
///
/// # Errors
/// It can't be recorded, or the signal may not be sent; then it runs.
pub fn stop(process: &Process, journal: &Journal) -> io::Result<Option<ProcessMark>> {
    if is_stopped(process.pid())? {
        return Ok(None);
    }
    let mark = ProcessMark {
        pid: process.pid(),
        start_ticks: process.start_ticks(),
    };
    journal.record(&Undo::GoOn { process: mark })?;
    process.signal(Signal::STOP)?;
    Ok(Some(mark))
}

/// Whether a process is stopped, by whomever. Where its first thread has ended the others tell.
///
/// # Errors
/// There is no such process.
pub fn is_stopped(pid: i32) -> io::Result<bool> {
    let is_stop = |state: char| matches!(state, 'T' | 't');
    let first = read_stat(pid)?;
    if first.state != 'Z' {
        return Ok(is_stop(first.state));
    }
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let texts = threads.filter_map(|thread| std::fs::read(thread.path().join("stat")).ok());
    let mut stats = texts.filter_map(|text| Stat::parse(&String::from_utf8_lossy(&text)));
    Ok(stats.any(|stat| is_stop(stat.state)))
}

/// Lets a process go on. One that is gone needs nothing, nor does another that has its number.
///
/// # Errors
/// The signal may not be sent.
pub fn go_on(mark: ProcessMark) -> io::Result<()> {
    if !mark.is_running() {
        return Ok(());
    }
    match Process::open(mark.pid) {
        Ok(process) if process.start_ticks() == mark.start_ticks => {
            match process.signal(Signal::CONT) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
                _ => Ok(()),
            }
        }
        Ok(_) => Ok(()),
        Err(error) if error.is_gone() => Ok(()),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}
