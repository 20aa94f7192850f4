//! How much of the processors a process asks for: what its threads used, and what they waited for.
//!
//! ```text
//!   /proc/PID/task/TID/schedstat:  48120433 1203344 512
//!                                  ran, ns  |       turns
//!                                           waited for a processor, ns
//! ```
//!
//! **Owns** reading that. **Does not own** rates and averages (`control::demand`).

use std::collections::BTreeMap;
use std::io;

use rustix::process::Pid;
use rustix::thread::sched_getaffinity;

use super::Process;
use super::handle::is_gone;

impl Process {
    /// For how long each of its threads has run or waited for a processor so far, nanoseconds, by thread
    /// id. Threads that have ended are not told; zeros where the kernel does not count (built without
    /// `CONFIG_SCHED_INFO`). While a quota holds a thread back it counts as waiting.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn wanted_ns(&self) -> io::Result<BTreeMap<i32, u64>> {
        let mut wanted_ns = BTreeMap::new();
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let thread = thread?;
            let Some(tid) = thread.file_name().to_str().and_then(|tid| tid.parse().ok()) else {
                continue;
            };
            match std::fs::read_to_string(thread.path().join("schedstat")) {
                Ok(text) => drop(wanted_ns.insert(tid, parse(&text).unwrap_or(0))),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        self.ensure_alive()?;
        Ok(wanted_ns)
    }

    /// Processors its first thread may run on, which is taken for what all of them may.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn nr_processors(&self) -> io::Result<u32> {
        let processors = sched_getaffinity(Pid::from_raw(self.pid()))?;
        self.ensure_alive()?;
        Ok(processors.count())
    }
}

fn parse(text: &str) -> Option<u64> {
    let mut fields = text.split_ascii_whitespace();
    let mut next = || fields.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_a_thread_ran_and_what_it_waited_for_is_what_it_wanted() {
        assert_eq!(parse("48120433 1203344 512\n"), Some(49_323_777));
        assert_eq!(parse("0 0 0\n"), Some(0));
        assert_eq!(parse("12\n"), None);
    }

    #[test]
    fn a_thread_that_works_wants_a_processor_and_one_that_sleeps_does_not() {
        let us = i32::try_from(std::process::id()).unwrap();
        let us = Process::open(us).unwrap();
        let wanted_ns = |tid| us.wanted_ns().unwrap().get(&tid).copied().unwrap_or(0);
        let worked = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let tid = rustix::thread::gettid().as_raw_nonzero().get();
                let (before, begun) = (wanted_ns(tid), Instant::now());
                while begun.elapsed() < Duration::from_millis(100) {}
                let worked = wanted_ns(tid) - before;
                std::thread::sleep(Duration::from_millis(100));
                (worked, wanted_ns(tid) - before - worked)
            });
            worker.join().unwrap()
        });
        assert!(worked.0 >= 80_000_000, "{worked:?}");
        assert!(worked.1 < worked.0 / 2, "{worked:?}");
        assert!(us.nr_processors().unwrap() >= 1);
    }
}
