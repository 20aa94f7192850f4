//! Ending all processes of a group: `cgroup.kill` (v2), or SIGKILL to each.
//!
//! **Owns** the two ways. **Does not own** who is ended, and when: nobody is unless a rule asks for it.
//!
//! **Invariants** I1: neither Strata nor pid 1 is ended, nor a process that is not in the group any more.

use rustix::process::Signal;

use super::file::write_text;
use super::freeze::{HaltError, spared};
use super::reader::GroupReader;
use crate::process::Process;

/// Ends everybody in a group and in those below. Returns how many there were.
///
/// # Errors
/// [`HaltError`]: the group is one to spare, or gone.
pub fn kill(group: &GroupReader) -> Result<usize, HaltError> {
    let pids = spared(group)?;
    let file = group.path().join("cgroup.kill");
    if file.exists() {
        write_text(&file, "1")?;
        return Ok(pids.len());
    }
    let handles: Vec<Process> = pids
        .iter()
        .filter_map(|pid| Process::open(*pid).ok())
        .collect();
    // A number that went to another process meanwhile is not in the group.
    let there = spared(group)?;
    let still = handles
        .iter()
        .filter(|process| there.contains(&process.pid()));
    let ended = still.filter(|process| process.signal(Signal::KILL).is_ok());
    Ok(ended.count())
}
