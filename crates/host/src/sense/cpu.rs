//! Who runs: threads, runnable ones, clocks.
//!
//! ```text
//!   /proc/loadavg:  0.20 0.18 0.12 3/80 11206
//!                                  ^ runnable at this moment, ourselves included
//! ```
//!
//! **Owns** these readings. **Does not own** when they are due, nor averages (`strata_control::cpu`).

use std::collections::BTreeMap;
use std::fs;
use strata_control::ProgramNo;
use strata_control::cpu::Threads;
use strata_linux::process::Process;

/// What the threads of each program ran and waited for. A program that has ended is left out.
pub(crate) fn threads<'a>(
    programs: impl Iterator<Item = (ProgramNo, &'a Process)>,
) -> BTreeMap<ProgramNo, Threads> {
    let read = programs.filter_map(|(number, process)| {
        let threads = Threads {
            wanted_ns: process.wanted_ns().ok()?,
            processors: process.processors().unwrap_or_default(),
        };
        Some((number, threads))
    });
    read.collect()
}

/// What each program has used of the processors so far, nanoseconds. A program that has ended is left out.
pub(crate) fn clocks<'a>(
    programs: impl Iterator<Item = (ProgramNo, &'a Process)>,
) -> BTreeMap<ProgramNo, u64> {
    let read = programs.filter_map(|(number, process)| Some((number, process.cpu_ns().ok()?)));
    read.collect()
}

/// Threads that are runnable on the machine at this moment; `None` where that can't be read.
pub(crate) fn nr_runnable() -> Option<u32> {
    parse_runnable(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_runnable(text: &str) -> Option<u32> {
    let pair = text.split_ascii_whitespace().nth(3)?;
    pair.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_is_understood() {
        assert_eq!(parse_runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(parse_runnable("0.20 0.18 0.12"), None);
        assert!(nr_runnable() >= Some(1), "at least this thread runs");
    }

    #[test]
    fn a_process_has_threads_and_a_clock() {
        let us = Process::open(i32::try_from(std::process::id()).unwrap()).unwrap();
        let number = ProgramNo(7);
        let programs = || [(number, &us)].into_iter();
        let (threads, clocks) = (threads(programs()), clocks(programs()));
        assert!(!threads[&number].wanted_ns.is_empty() && clocks[&number] > 0);
    }
}
