//! Recognising a process, a boot and the run directory.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::process::{Stat, read_stat};

/// Where state directories live unless `STRATA_RUN_DIR` says otherwise.
const RUN_DIR: &str = "/run/strata";

/// `/run/strata`, or what `STRATA_RUN_DIR` says.
pub fn run_dir() -> PathBuf {
    std::env::var_os("STRATA_RUN_DIR").map_or_else(|| PathBuf::from(RUN_DIR), PathBuf::from)
}

/// Whether `STRATA_RUN_DIR` is set to nothing, which names no directory.
pub fn is_run_dir_empty() -> bool {
    std::env::var_os("STRATA_RUN_DIR").is_some_and(|place| place.is_empty())
}

/// Names this boot of the machine.
pub fn boot_id() -> io::Result<String> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

/// A process that a reused pid is not mistaken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Pid of the process.
    pub pid: i32,
    /// When the process started, clock ticks after boot.
    pub start_ticks: u64,
}

impl ProcessMark {
    /// Marks a running process; `None` if there is none (any more).
    pub fn of(pid: i32) -> Option<ProcessMark> {
        let stat = read_stat(pid).ok()?;
        Some(ProcessMark {
            pid,
            start_ticks: stat.start_ticks,
        })
    }

    /// Whether the process still runs; one of which all threads have ended does not.
    pub fn is_running(self) -> bool {
        self.stat().is_some()
    }

    /// `/proc/PID/stat` of the process, if it still runs.
    pub fn stat(self) -> Option<Stat> {
        let stat = read_stat(self.pid).ok()?;
        (stat.start_ticks == self.start_ticks && !stat.has_ended()).then_some(stat)
    }
}

/// The parent of a process; `None` if it is gone.
pub fn parent_of(pid: i32) -> Option<i32> {
    read_stat(pid).ok().map(|stat| stat.ppid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_pid_is_another_process() {
        let own = ProcessMark::of(std::process::id() as i32).expect("runs");
        assert!(own.is_running());
        let other = ProcessMark {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert!(!other.is_running());
    }
}
