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

use super::Process;
use crate::run_dir::ProcessMark;
use crate::undo::{Journal, Undo};

/// Stops a process, unless it is stopped already. Returns its mark if it was stopped here.
///
/// # Errors
/// It can't be recorded, or the signal may not be sent; then it runs.
pub fn stop(process: &Process, journal: &Journal) -> io::Result<Option<ProcessMark>> {
    let stat = process.stat()?;
    if matches!(stat.state, 'T' | 't') {
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
