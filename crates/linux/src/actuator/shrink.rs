//! A thread that has the kernel reclaim by amount: the kernel chooses the pages.
//!
//! **Owns** when it runs: one request at a time, the result polled later. **Does not own** what a request names, nor how the
//! kernel is asked (`cgroup`: `memory.reclaim`, or the careful dip on version 1).

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::worker::Worker;
use crate::cgroup::ReclaimError;
use crate::process::thread_cpu_ns;

/// What became of one request.
#[derive(Debug)]
pub struct ShrinkOutcome {
    /// Bytes reclaimed.
    pub result: Result<u64, ReclaimError>,
    /// Wall time, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: u64,
}

/// Asks the kernel beside the control loop; at most one request (bytes, say) is outstanding.
#[derive(Debug)]
pub struct ShrinkThread<Request = u64> {
    worker: Worker<Request, ShrinkOutcome>,
}

impl<Request: Send + 'static> ShrinkThread<Request> {
    /// Starts the thread. `shrink` asks the kernel, which may take seconds, and returns the bytes that were reclaimed.
    ///
    /// # Errors
    /// There can be none.
    pub fn start(
        mut shrink: impl FnMut(Request) -> Result<u64, ReclaimError> + Send + 'static,
    ) -> io::Result<ShrinkThread<Request>> {
        let worker = Worker::start("strata-shrink", 1, move |request, stop| {
            let (start, cpu_start) = (Instant::now(), thread_cpu_ns());
            let result = match stop.is_set() {
                true => Ok(0),
                false => shrink(request),
            };
            ShrinkOutcome {
                result,
                wall_ns: start.elapsed().as_nanos() as u64,
                cpu_ns: thread_cpu_ns() - cpu_start,
            }
        })?;
        Ok(ShrinkThread { worker })
    }

    /// Hands a request over; false if the last one has not been answered and polled yet.
    pub fn try_submit(&mut self, request: Request) -> bool {
        self.worker.try_submit(request).is_ok()
    }

    /// Whether the thread waits in the kernel and does nothing for long.
    pub fn stands_still(&mut self) -> bool {
        self.worker.stands_still()
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
        assert_eq!(outcome.result.unwrap(), 2048);
        assert!(outcome.wall_ns >= outcome.cpu_ns / 2);

        assert!(thread.try_submit(1));
        go.send(()).unwrap();
        assert!(wait(&mut thread).result.is_err());
        assert!(thread.stop().is_none());
        assert!(!thread.try_submit(1));
    }

    fn wait(thread: &mut ShrinkThread<u64>) -> ShrinkOutcome {
        loop {
            if let Some(outcome) = thread.poll() {
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
