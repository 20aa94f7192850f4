//! How much of the processors a process asks for: what its threads used, and what they waited for; and which
//! processors threads are on.
//!
//! ```text
//!   /proc/PID/task/TID/schedstat:  48120433 1203344 512
//!                                  ran, ns  |       turns
//!                                           waited for a processor, ns
//! ```
//!
//! **Owns** reading that, and saying where a thread of ours may run. **Does not own** rates and averages
//! (the control loop).

use std::collections::BTreeMap;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use strata_lru::machine::Processors;

use super::Process;
use super::handle::is_gone;

impl Process {
    /// For how long each of its threads has run or waited for a processor so far, nanoseconds, by thread
    /// id. Threads that have ended are not told; none is where the kernel does not count (built without
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
    /// When the process has ended, or there are more processors than a [`Processors`] can name.
    pub fn processors(&self) -> io::Result<Processors> {
        let found = sched_getaffinity(Pid::from_raw(self.pid()))?;
        self.ensure_alive()?;
        let numbers = 0..CpuSet::MAX_CPU.min(Processors::NR_MAX);
        Ok(numbers.filter(|number| found.is_set(*number)).collect())
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

    #[test]
    fn a_process_may_run_somewhere() {
        let us = i32::try_from(std::process::id()).unwrap();
        let processors = Process::open(us).unwrap().processors().unwrap();
        assert!(processors.count() >= 1 && processors != Processors::ALL);
    }
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    #[test]
    fn what_a_thread_ran_and_what_it_waited_for_is_what_it_wanted() {
        assert_eq!(parse("48120433 1203344 512\n"), Some(49_323_777));
        assert_eq!(parse("0 0 0\n"), Some(0));
        assert_eq!(parse("12\n"), None);
    }

    fn is_asleep(tid: i32) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
        stat.is_ok_and(|stat| stat.contains(") S "))
    }

    /// Where a busy machine let the other thread wait for a processor, its count stood still long enough to be
    /// taken for asleep, rose later, and the test waited for ever for a thread that nobody woke.
    #[test]
    fn a_thread_that_works_wants_a_processor_and_one_that_sleeps_does_not() {
        let us = i32::try_from(std::process::id()).unwrap();
        let us = Process::open(us).unwrap();
        let own_id = || rustix::thread::gettid().as_raw_nonzero().get();
        let (tell, told) = mpsc::channel();
        let (wake, woken) = mpsc::channel::<()>();
        std::thread::scope(move |scope| {
            // Dropped when an assertion fails, which ends the other thread.
            let wake = wake;
            scope.spawn(move || {
                tell.send(own_id()).unwrap();
                let _over = woken.recv();
            });
            let sleeper = told.recv().unwrap();
            let begun = Instant::now();
            while !is_asleep(sleeper) {
                assert!(begun.elapsed() < Duration::from_secs(20), "it never sleeps");
                std::thread::sleep(Duration::from_millis(1));
            }
            let asleep = us.wanted_ns().unwrap().get(&sleeper).copied();
            let (before, begun) = (us.wanted_ns().unwrap()[&own_id()], Instant::now());
            let has_worked = || us.wanted_ns().unwrap()[&own_id()] - before >= 80_000_000;
            while !has_worked() {
                assert!(
                    begun.elapsed() < Duration::from_secs(20),
                    "no work is counted"
                );
            }
            assert_eq!(us.wanted_ns().unwrap().get(&sleeper), asleep.as_ref());
            wake.send(()).unwrap();
        });
    }
}
