//! `pageout`: takes exactly the pages it is given, and learns what became of each.
//!
//! Just before a batch goes its entries are read again: a page that was accessed since the walk is
//! spared, and its accessed neighbours are reported (the kernel's look-around, reference 2.6, but
//! read-only: no bit is cleared, the next walk sees them again). `MADV_PAGEOUT` itself looks at no
//! accessed bit. Afterwards the entries are read once more for the verdicts.
//!
//! With a source that sees only mappings (`smaps`) accesses of single pages can't be read: nothing
//! is spared, nothing found around, and presence comes from `/proc/PID/pagemap`.
//!
//! **Owns** the thread. **Does not own** the choice of pages, nor the pass over a request (`pass`).
//!
//! **Invariants**
//! - I1: every page of a request is in its report once, in the order of addresses.
//! - I2: `nr_evicted_pages` counts pages that were there before and are not afterwards; pages the
//!   process unmapped meanwhile are not among them.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::pass::{PageoutReport, PageoutRequest, Pass};
use super::worker::{StopFlag, Worker};
use crate::access::AccessSource;
use crate::process::thread_cpu_ns;

/// Longest sleep between two looks at the stop flag.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// How the thread works.
#[derive(Clone, Copy, Debug)]
pub struct PageoutConfig {
    /// Most requests queued, worked on or unpolled; at least 1, default 4.
    pub in_flight_max: usize,
    /// Most CPU time of the thread, percent of one core; 100 (the default) and above: no bound.
    pub cpu_percent_max: u32,
}

impl Default for PageoutConfig {
    fn default() -> Self {
        PageoutConfig {
            in_flight_max: 4,
            cpu_percent_max: 100,
        }
    }
}

/// The pageout thread.
#[derive(Debug)]
pub struct Pageout {
    worker: Worker<PageoutRequest, PageoutReport>,
    cpu_percent_max: Arc<AtomicU32>,
}

impl Pageout {
    /// Starts the thread, with a source of its own to read entries through.
    pub fn start(source: Box<dyn AccessSource>) -> io::Result<Pageout> {
        Pageout::start_with(source, PageoutConfig::default())
    }

    /// Starts the thread as configured.
    pub fn start_with(source: Box<dyn AccessSource>, config: PageoutConfig) -> io::Result<Pageout> {
        let cpu_percent_max = Arc::new(AtomicU32::new(config.cpu_percent_max));
        let mut runner = Runner {
            pass: Pass::new(source),
            cpu_percent_max: Arc::clone(&cpu_percent_max),
        };
        let worker = Worker::start(
            "strata-pageout",
            config.in_flight_max.max(1),
            move |request, stop| runner.run(&request, stop),
        )?;
        Ok(Pageout {
            worker,
            cpu_percent_max,
        })
    }

    /// Hands over a request, or gives it back when too many are out (poll first) or after `stop`.
    pub fn try_submit(&mut self, request: PageoutRequest) -> Result<(), PageoutRequest> {
        self.worker.try_submit(request)
    }

    /// Whether the thread waits in the kernel and does nothing for long.
    pub fn stands_still(&mut self) -> bool {
        self.worker.stands_still()
    }

    /// Takes the next report, if there is one.
    pub fn poll(&mut self) -> Option<PageoutReport> {
        self.worker.poll()
    }

    /// Readable while reports wait to be polled.
    pub fn completion_fd(&self) -> BorrowedFd<'_> {
        self.worker.completion_fd()
    }

    /// Requests handed over whose reports have not been polled.
    pub fn nr_in_flight(&self) -> usize {
        self.worker.nr_in_flight()
    }

    /// Changes the bound on the thread's CPU time, percent of one core.
    pub fn set_cpu_percent_max(&self, percent: u32) {
        self.cpu_percent_max.store(percent, Ordering::Relaxed);
    }

    /// Ends the thread after the call it is in and returns the reports that were left; what it did
    /// not come to is `NotTried`.
    pub fn stop(&mut self) -> Vec<PageoutReport> {
        self.worker.stop()
    }
}

/// The thread's side.
#[derive(Debug)]
struct Runner {
    pass: Pass,
    cpu_percent_max: Arc<AtomicU32>,
}

impl Runner {
    fn run(&mut self, request: &PageoutRequest, stop: &StopFlag) -> PageoutReport {
        let (start, cpu_start) = (Instant::now(), thread_cpu_ns());
        let mut report = PageoutReport {
            space: request.space,
            ..PageoutReport::default()
        };
        let percent_max = Arc::clone(&self.cpu_percent_max);
        let mut between = || throttle(start, cpu_start, &percent_max, stop);
        self.pass.run(request, stop, &mut report, &mut between);
        report.wall_ns = start.elapsed().as_nanos() as u64;
        report.cpu_ns = thread_cpu_ns() - cpu_start;
        report
    }
}

/// Sleeps until the CPU time used since `start` is no more than the bound allows.
fn throttle(start: Instant, cpu_start: u64, percent_max: &AtomicU32, stop: &StopFlag) {
    let percent = u64::from(percent_max.load(Ordering::Relaxed)).max(1);
    if percent >= 100 {
        return;
    }
    let due = Duration::from_nanos((thread_cpu_ns() - cpu_start) * 100 / percent);
    while let Some(left) = due.checked_sub(start.elapsed())
        && !left.is_zero()
        && !stop.is_set()
    {
        std::thread::sleep(left.min(SLEEP_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throttle_stretches_time_to_the_share_it_allows() {
        let (start, cpu_start) = (Instant::now(), thread_cpu_ns());
        while thread_cpu_ns() - cpu_start < 5_000_000 {
            std::hint::spin_loop();
        }
        throttle(start, cpu_start, &AtomicU32::new(100), &StopFlag::default());
        throttle(start, cpu_start, &AtomicU32::new(10), &StopFlag::default());
        assert!(start.elapsed() >= Duration::from_millis(50));
    }
}
