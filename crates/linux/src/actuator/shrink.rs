//! A thread around the kernel's batched reclaim of a group.
//!
//! **Owns** when it runs: one request at a time, the result polled later. **Does not own** how the
//! kernel is asked (`cgroup`: `memory.reclaim`, or the careful dip on version 1).

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::worker::Worker;
use crate::cgroup::ReclaimError;
use crate::process::thread_cpu_ns;

/// Somebody who can make the kernel reclaim from a group. May take seconds.
pub trait Shrink: Send {
    /// Asks for `bytes` to be reclaimed; returns the bytes that were.
    fn shrink(&mut self, bytes: u64) -> Result<u64, ReclaimError>;
}

impl<F: FnMut(u64) -> Result<u64, ReclaimError> + Send> Shrink for F {
    fn shrink(&mut self, bytes: u64) -> Result<u64, ReclaimError> {
        self(bytes)
    }
}

/// What became of one request.
#[derive(Debug)]
pub struct ShrinkOutcome {
    /// Bytes asked for.
    pub asked_bytes: u64,
    /// Bytes reclaimed.
    pub result: Result<u64, ReclaimError>,
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: u64,
}

/// Runs a [`Shrink`] beside the control loop; at most one request is outstanding.
#[derive(Debug)]
pub struct ShrinkThread {
    worker: Worker<u64, ShrinkOutcome>,
}

impl ShrinkThread {
    /// Starts the thread.
    pub fn start(mut how: impl Shrink + 'static) -> io::Result<ShrinkThread> {
        let worker = Worker::start("strata-shrink", 1, move |asked_bytes, stop| {
            let (start, cpu_start) = (Instant::now(), thread_cpu_ns());
            let result = if stop.is_set() {
                Ok(0)
            } else {
                how.shrink(asked_bytes)
            };
            ShrinkOutcome {
                asked_bytes,
                result,
                wall_ns: start.elapsed().as_nanos() as u64,
                cpu_ns: thread_cpu_ns() - cpu_start,
            }
        })?;
        Ok(ShrinkThread { worker })
    }

    /// Asks for `bytes`; false if the last request has not been answered and polled yet.
    pub fn try_submit(&mut self, bytes: u64) -> bool {
        self.worker.try_submit(bytes).is_ok()
    }

    /// Takes the outcome of the last request, if it is there.
    pub fn poll(&mut self) -> Option<ShrinkOutcome> {
        self.worker.poll()
    }

    /// Whether a request is out.
    pub fn is_busy(&self) -> bool {
        self.worker.nr_in_flight() > 0
    }

    /// Waits for the outcome of the request that is out, but no longer than this.
    pub fn wait(&self, most: Duration) {
        let until = Instant::now() + most;
        while self.is_busy() {
            let left = until.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            let fd = self.completion_fd();
            match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Readable while an outcome waits to be polled.
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        self.worker.completion_fd()
    }

    /// Waits for the request that is out and ends the thread; returns what was not polled.
    pub fn stop(&mut self) -> Option<ShrinkOutcome> {
        self.worker.stop().pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn one_request_at_a_time_and_the_loop_never_waits() {
        let (go, may_go) = channel::<()>();
        let mut thread = ShrinkThread::start(move |bytes: u64| {
            may_go.recv().expect("who tells it to go");
            match bytes {
                1 => Err(ReclaimError::NothingReclaimable("/g".into())),
                bytes => Ok(bytes / 2),
            }
        })
        .unwrap();
        assert!(thread.try_submit(4096));
        assert!(!thread.try_submit(4096) && thread.is_busy());
        assert!(thread.poll().is_none());
        go.send(()).unwrap();
        let outcome = wait(&mut thread);
        assert_eq!(outcome.asked_bytes, 4096);
        assert_eq!(outcome.result.unwrap(), 2048);
        assert!(outcome.wall_ns >= outcome.cpu_ns / 2);

        assert!(thread.try_submit(1));
        go.send(()).unwrap();
        assert!(wait(&mut thread).result.is_err());
        assert!(thread.stop().is_none());
        assert!(!thread.try_submit(1));
    }

    fn wait(thread: &mut ShrinkThread) -> ShrinkOutcome {
        loop {
            if let Some(outcome) = thread.poll() {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
