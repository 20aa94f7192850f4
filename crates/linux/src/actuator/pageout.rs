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
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::pass::{PageoutReport, PageoutRequest, Pass};
use super::worker::{StopFlag, Worker};
use crate::access::AccessSource;
use crate::process::thread_cpu_ns;

/// Longest sleep between two looks at the stop flag.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Takes pages in a thread of its own. What it did not come to when it is stopped is `NotTried`.
pub type Pageout = Worker<PageoutRequest, PageoutReport>;

/// Most CPU time of the thread, percent of one core; 100 (the default) and above: no bound. Clones are the same bound.
#[derive(Clone, Debug)]
pub struct CpuBound(Arc<AtomicU32>);

impl Default for CpuBound {
    fn default() -> Self {
        CpuBound(Arc::new(AtomicU32::new(100)))
    }
}

impl CpuBound {
    /// Changes it.
    pub fn set(&self, percent: u32) {
        self.0.store(percent, Ordering::Relaxed);
    }
}

/// Starts the thread, with a source of its own to read entries through; at most `in_flight_max` requests are queued, worked on
/// or unpolled.
///
/// # Errors
/// The thread can't be started.
pub fn start_pageout(
    source: Box<dyn AccessSource>,
    in_flight_max: usize,
    bound: CpuBound,
) -> io::Result<Pageout> {
    let mut runner = Runner {
        pass: Pass::new(source),
        bound,
    };
    Worker::start("strata-pageout", in_flight_max, move |request, stop| {
        runner.run(&request, stop)
    })
}

/// The thread's side.
#[derive(Debug)]
struct Runner {
    pass: Pass,
    bound: CpuBound,
}

impl Runner {
    fn run(&mut self, request: &PageoutRequest, stop: &StopFlag) -> PageoutReport {
        let (start, cpu_start) = (Instant::now(), thread_cpu_ns());
        let mut report = PageoutReport {
            space: request.space,
            ..PageoutReport::default()
        };
        let mut between = || throttle(start, cpu_start, &self.bound, stop);
        self.pass.run(request, stop, &mut report, &mut between);
        report.wall_ns = start.elapsed().as_nanos() as u64;
        report.cpu_ns = thread_cpu_ns() - cpu_start;
        report
    }
}

/// Sleeps until the CPU time used since `start` is no more than the bound allows.
fn throttle(start: Instant, cpu_start: u64, bound: &CpuBound, stop: &StopFlag) {
    let percent = u64::from(bound.0.load(Ordering::Relaxed)).max(1);
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
        let (bound, stop) = (CpuBound::default(), StopFlag::default());
        throttle(start, cpu_start, &bound, &stop);
        bound.set(10);
        throttle(start, cpu_start, &bound, &stop);
        assert!(start.elapsed() >= Duration::from_millis(50));
    }
}
