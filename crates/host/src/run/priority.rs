//! The priority at which Strata's threads run.
//!
//! A thread of a higher priority takes its processor time from the programs and from their neighbours. So Strata's threads
//! have the nice value of the programs that they serve: where those differ, the lowest of them (the highest priority), but
//! never one below that with which Strata was started.
//!
//! **Owns** the nice values of Strata's threads. **Does not own** which processors the threads use (the scheduler's).
//!
//! **Invariants** I1: no thread of Strata has a lower nice value than every program it serves.

use rustix::process::{Pid, getpriority_process, setpriority_process};
use std::fs;

/// The nice value of all threads of Strata.
#[derive(Debug)]
pub(super) struct Priority {
    /// With which Strata was started.
    own_nice: i32,
    nice: i32,
}

impl Priority {
    /// As Strata was started.
    pub(super) fn new() -> Priority {
        let own_nice = getpriority_process(None).unwrap_or(0);
        Priority {
            own_nice,
            nice: own_nice,
        }
    }

    /// Has all threads run at the priority of the programs, which are these processes.
    pub(super) fn follow(&mut self, pids: impl Iterator<Item = i32>) {
        let nice_of = |pid| getpriority_process(Some(Pid::from_raw(pid)?)).ok();
        let Some(nice) = nice_to_have(self.own_nice, pids.filter_map(nice_of)) else {
            return;
        };
        if nice == self.nice {
            return;
        }
        self.nice = nice;
        for tid in own_threads() {
            if let Err(errno) = setpriority_process(Some(tid), nice) {
                tracing::debug!("a thread of Strata can't run at nice {nice}: {errno}");
            }
        }
    }
}

/// The nice value for those who serve programs with these; `None` without a program.
fn nice_to_have(own_nice: i32, programs: impl Iterator<Item = i32>) -> Option<i32> {
    programs.min().map(|nice| nice.max(own_nice))
}

fn own_threads() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_favoured_program_is_followed_but_never_above_where_strata_began() {
        let nice = |own, programs: &[i32]| nice_to_have(own, programs.iter().copied());
        assert_eq!(nice(0, &[10, 5]), Some(5));
        assert_eq!(nice(0, &[0]), Some(0));
        assert_eq!(nice(0, &[-5, 0]), Some(0));
        assert_eq!(nice(5, &[0]), Some(5));
        assert_eq!(nice(-5, &[0]), Some(0));
        assert_eq!(nice(0, &[]), None);
    }

    #[test]
    fn all_threads_of_this_process_are_known() {
        let us = rustix::thread::gettid();
        assert!(own_threads().any(|tid| tid == us));
    }
}
