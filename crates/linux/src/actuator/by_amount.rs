//! A thread that has the kernel reclaim from any group by amount: the kernel chooses the pages.
//!
//! **Owns** when it runs: one request at a time, the outcome polled later. **Does not own** how the kernel is asked
//! (`cgroup`), how much and of whom.

use std::io;

use super::worker::Worker;
use crate::cgroup::{Amount, GroupReader, ReclaimError, reclaim_from};
use crate::process::thread_cpu_ns;

/// What became of a request.
#[derive(Debug)]
pub struct Freed {
    /// The bytes that it freed.
    pub bytes: Result<u64, ReclaimError>,
    /// Processor time of that, nanoseconds.
    pub cpu_ns: u64,
}

/// The thread; at most one request is outstanding.
#[derive(Debug)]
pub struct ByAmount {
    worker: Worker<(GroupReader, Amount), Freed>,
}

impl ByAmount {
    /// Starts the thread.
    ///
    /// # Errors
    /// There can be none.
    pub fn start() -> io::Result<ByAmount> {
        let worker = Worker::start(
            "strata-amount",
            1,
            |(group, amount): (GroupReader, Amount), stop| {
                let before_ns = thread_cpu_ns();
                let bytes = match stop.is_set() {
                    true => Ok(0),
                    false => reclaim_from(&group, amount),
                };
                Freed {
                    bytes,
                    cpu_ns: thread_cpu_ns() - before_ns,
                }
            },
        )?;
        Ok(ByAmount { worker })
    }

    /// Asks for an amount of a group; false if the last request has not been answered and polled yet.
    pub fn try_submit(&mut self, group: &GroupReader, amount: Amount) -> bool {
        self.worker.try_submit((group.clone(), amount)).is_ok()
    }

    /// Whether the thread waits in the kernel and does nothing for long.
    pub fn stands_still(&mut self) -> bool {
        self.worker.stands_still()
    }

    /// What became of the last request, if it is done.
    pub fn poll(&mut self) -> Option<Freed> {
        self.worker.poll()
    }
}
