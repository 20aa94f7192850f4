//! Recognising a process, a boot and the run directory.

use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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
        let stat = Stat::read(pid)?;
        Some(ProcessMark {
            pid,
            start_ticks: stat.start_ticks,
        })
    }

    /// Whether the process still runs; a zombie does not.
    pub fn is_running(self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| {
            stat.start_ticks == self.start_ticks && !matches!(stat.state, 'Z' | 'X')
        })
    }
}

/// The parent of a process; `None` if it is gone.
pub fn parent_of(pid: i32) -> Option<i32> {
    Stat::read(pid).map(|stat| stat.parent)
}

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: i32,
    start_ticks: u64,
}

impl Stat {
    fn read(pid: i32) -> Option<Stat> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Stat::parse(&String::from_utf8_lossy(&text))
    }

    /// The name is in parentheses and may hold anything, so fields count from the last one.
    fn parse(text: &str) -> Option<Stat> {
        let (_, after_name) = text.rsplit_once(')')?;
        let mut fields = after_name.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        // Field 22 of the file, the 18th after the parent.
        let start_ticks = fields.nth(17)?.parse().ok()?;
        Some(Stat {
            state,
            parent,
            start_ticks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) S 9 (b) R 7 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 123456 0 0";
        let stat = Stat::parse(text).expect("a stat line");
        assert_eq!(
            (stat.state, stat.parent, stat.start_ticks),
            ('R', 7, 123_456)
        );
    }

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
