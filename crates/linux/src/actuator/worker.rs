//! A thread that does one slow thing after another, and never makes its owner wait.
//!
//! ```text
//!   owner:  try_submit -> [queue] -> thread: work -> [reports] -> owner: poll
//!                                            \-> eventfd becomes readable
//! ```
//!
//! **Owns** the queue, the thread and the wake-up. **Does not own** the work.
//!
//! **Invariants**
//! - I1: at most `in_flight_max` requests are queued, worked on or unread at any time; an owner that gives no bound has one of its own.
//! - I2: every request that was taken gives one report, unless the thread panicked or hangs when it is stopped.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use crate::ready::is_any_readable;
use crate::standstill::{Standstill, Steps};

/// How long work that is asked to end is waited for. It ends between two calls into the kernel, of a few milliseconds each.
const STOP_WAIT: Duration = Duration::from_secs(5);
const STOP_POLL: Duration = Duration::from_millis(1);

/// Told to the work so that it can end early. Work that asks is getting on.
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    is_set: Arc<AtomicBool>,
    steps: Steps,
}

impl StopFlag {
    /// Whether the work is to end.
    pub fn is_set(&self) -> bool {
        self.note_step();
        self.is_set.load(Ordering::Relaxed)
    }

    /// The thread has done something.
    pub(super) fn note_step(&self) {
        self.steps.note();
    }

    fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }
}

/// The owner's side.
#[derive(Debug)]
pub struct Worker<Request, Report> {
    /// `None` once stopped.
    requests: Option<Sender<Request>>,
    reports: Receiver<Report>,
    ready: Arc<OwnedFd>,
    stop: StopFlag,
    thread: Option<JoinHandle<()>>,
    nr_in_flight: usize,
    in_flight_max: usize,
    standstill: Standstill,
}

impl<Request: Send + 'static, Report: Send + 'static> Worker<Request, Report> {
    /// Starts the thread.
    pub fn start(
        name: &str,
        in_flight_max: usize,
        mut work: impl FnMut(Request, &StopFlag) -> Report + Send + 'static,
    ) -> io::Result<Worker<Request, Report>> {
        let (requests, inbox) = channel::<Request>();
        let (outbox, reports) = channel();
        let ready = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let stop = StopFlag::default();
        let (thread_ready, thread_stop) = (Arc::clone(&ready), stop.clone());
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                thread_stop.steps.begin();
                for request in inbox {
                    let report = work(request, &thread_stop);
                    if outbox.send(report).is_err() {
                        break;
                    }
                    // Full (2^64 - 1 unread reports) can't happen.
                    let _written = rustix::io::write(&thread_ready, &1u64.to_ne_bytes());
                }
            })?;
        Ok(Worker {
            requests: Some(requests),
            reports,
            ready,
            standstill: Standstill::new(stop.steps.clone()),
            stop,
            thread: Some(thread),
            nr_in_flight: 0,
            in_flight_max,
        })
    }

    /// Readable while reports wait to be polled.
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    /// Requests taken whose reports have not been polled.
    pub fn nr_in_flight(&self) -> usize {
        self.nr_in_flight
    }

    /// Whether a request is out.
    pub fn is_busy(&self) -> bool {
        self.nr_in_flight > 0
    }

    /// Waits for a report while a request is out, but no longer than this.
    pub fn wait(&self, most: Duration) {
        let until = Instant::now() + most;
        let left = || until.saturating_duration_since(Instant::now());
        // A signal ends a wait.
        while self.is_busy()
            && !left().is_zero()
            && is_any_readable(&[self.completion_fd()], left()).is_ok_and(|is_there| !is_there)
        {
        }
    }

    /// Hands over a request, or gives it back: too many in flight, or the worker has stopped.
    pub fn try_submit(&mut self, request: Request) -> Result<(), Request> {
        match &self.requests {
            Some(requests) if self.nr_in_flight < self.in_flight_max => {
                requests.send(request).map_err(|error| error.0)?;
                if self.nr_in_flight == 0 {
                    self.standstill.work_begins();
                }
                self.nr_in_flight += 1;
                Ok(())
            }
            _ => Err(request),
        }
    }

    /// Whether the thread waits in the kernel, and has done nothing for so long.
    pub fn stands_still(&mut self, time: Duration) -> bool {
        self.nr_in_flight > 0 && self.standstill.has_lasted(time)
    }

    /// Takes the next report, if there is one.
    pub fn poll(&mut self) -> Option<Report> {
        // Emptied first: a report that comes in between makes it readable again.
        let mut count = [0; 8];
        let _read = rustix::io::read(&self.ready, &mut count);
        let report = self.reports.try_recv().ok()?;
        self.nr_in_flight = self.nr_in_flight.saturating_sub(1);
        if self.nr_in_flight > 0 {
            // More may be waiting; a needless wake-up is better than a lost one.
            let _written = rustix::io::write(&self.ready, &1u64.to_ne_bytes());
        }
        Some(report)
    }

    /// Asks the work to end early, waits for it (for five seconds at most: a call into the kernel may hang), and returns
    /// the reports that were left.
    pub fn stop(&mut self) -> Vec<Report> {
        self.stop.set();
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let deadline = Instant::now() + STOP_WAIT;
            while !thread.is_finished() && Instant::now() < deadline {
                std::thread::sleep(STOP_POLL);
            }
            if thread.is_finished() {
                // A panic was printed by the thread; its reports are missing, which the owner sees.
                let _ended = thread.join();
            }
        }
        self.nr_in_flight = 0;
        self.reports.try_iter().collect()
    }
}

impl<Request, Report> Drop for Worker<Request, Report> {
    fn drop(&mut self) {
        // Not joined: a call into the kernel may take seconds, and nobody is left to be told.
        self.stop.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(worker: &Worker<u32, u32>, timeout_s: u64) -> bool {
        is_any_readable(&[worker.completion_fd()], Duration::from_secs(timeout_s)).unwrap()
    }

    #[test]
    fn a_full_queue_gives_the_request_back_and_room_comes_with_each_poll() {
        let mut worker = Worker::start("test", 2, |n: u32, _: &StopFlag| n * 10).unwrap();
        assert!(!is_readable(&worker, 0));
        assert_eq!(worker.poll(), None);
        assert_eq!(worker.try_submit(1), Ok(()));
        assert_eq!(worker.try_submit(2), Ok(()));
        assert_eq!(worker.try_submit(3), Err(3));
        let mut got = Vec::new();
        while got.len() < 2 {
            assert!(
                is_readable(&worker, 10),
                "a report makes the descriptor readable"
            );
            got.extend(worker.poll());
        }
        assert_eq!(got, [10, 20]);
        assert_eq!(worker.poll(), None);
        assert!(!is_readable(&worker, 0), "quiet when all is read");
        assert_eq!(worker.try_submit(3), Ok(()));
        assert_eq!(worker.stop(), [30]);
        assert_eq!(worker.try_submit(4), Err(4));
    }

    #[test]
    fn work_stands_still_once_it_has_waited_for_as_long_as_the_owner_allows() {
        let (go, may_go) = channel::<()>();
        let mut worker =
            Worker::start("test", 2, move |_: u32, _: &StopFlag| may_go.recv().is_ok()).unwrap();
        worker.standstill = Standstill::of_any_wait(worker.stop.steps.clone());
        let (at_once, in_an_hour) = (Duration::ZERO, Duration::from_secs(3600));
        assert!(!worker.stands_still(at_once), "nothing is asked of it");
        worker.try_submit(1).unwrap();
        assert!(worker.stands_still(at_once) && !worker.stands_still(in_an_hour));
        go.send(()).unwrap();
        worker.wait(Duration::from_secs(60));
        assert_eq!(worker.poll(), Some(true));
        assert!(!worker.stands_still(at_once), "all is done");
    }

    #[test]
    fn stopping_ends_long_work_and_keeps_its_report() {
        let wait_for_stop = |n: u32, stop: &StopFlag| {
            while !stop.is_set() {
                std::thread::yield_now();
            }
            n
        };
        let mut worker = Worker::start("test", 4, wait_for_stop).unwrap();
        worker.try_submit(1).unwrap();
        worker.try_submit(2).unwrap();
        assert_eq!(worker.stop(), [1, 2]);
        assert!(worker.stop().is_empty());
    }
}
