//! A thread that has the kernel reclaim from any group by amount: the kernel chooses the pages.
//!
//! **Owns** when it runs: one request at a time, the outcome polled later. **Does not own** how the kernel is asked
//! (`cgroup`), how much and of whom.

use std::io;

use super::worker::Worker;
use crate::cgroup::{GroupReader, ReclaimError, reclaim_from};
use crate::process::thread_cpu_ns;

/// What became of one request.
#[derive(Debug)]
pub struct AmountOutcome {
    /// Bytes reclaimed.
    pub result: Result<u64, ReclaimError>,
    /// Processor time of the thread, nanoseconds.
    pub cpu_ns: u64,
}

/// The thread; at most one request is outstanding.
#[derive(Debug)]
pub struct ByAmount {
    worker: Worker<(GroupReader, u64), AmountOutcome>,
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
            |(group, bytes): (GroupReader, u64), stop| {
                let start = thread_cpu_ns();
                let result = match stop.is_set() {
                    true => Ok(0),
                    false => reclaim_from(&group, bytes),
                };
                AmountOutcome {
                    result,
                    cpu_ns: thread_cpu_ns() - start,
                }
            },
        )?;
        Ok(ByAmount { worker })
    }

    /// Asks for `bytes` of a group; false if the last request has not been answered and polled yet.
    pub fn try_submit(&mut self, group: &GroupReader, bytes: u64) -> bool {
        self.worker.try_submit((group.clone(), bytes)).is_ok()
    }

    /// Takes the outcome of the last request, if it is there.
    pub fn poll(&mut self) -> Option<AmountOutcome> {
        self.worker.poll()
    }

    /// Whether a request is out.
    pub fn is_busy(&self) -> bool {
        self.worker.nr_in_flight() > 0
    }
}
