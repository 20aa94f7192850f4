//! `deactivate`: tells the kernel's classic LRU which active pages to let go first, by `MADV_COLD`.
//!
//! By itself the kernel moves pages from the active list to the inactive one in the order in which they came,
//! wanted or unwanted. A page that is named here goes there out of its turn, and one that has not been
//! used since the walk that chose it costs no flush of other processors.
//!
//! **Owns** the thread, the request and the report. **Does not own** which pages (`control`).
//!
//! **Invariants**
//! - D1: nothing is taken by this: a page that is used again goes back to the active list.
//! - D2: nobody waits for the thread, not even at the end.
//! - D3: what was asked for more than [`STALE`] ago is left alone: it may be in use by now. So is everything while
//!   nothing is allowed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::recall::{advise, ask};
use super::worker::Worker;
use crate::addr::AddrRange;
use crate::process::Process;
use crate::sys::madvise::Advice;

/// See D3.
const STALE: Duration = Duration::from_millis(500);

/// Pages of one process, sorted by address.
pub type ColdPages = (Arc<Process>, Vec<AddrRange>);

/// What became of a request.
#[derive(Debug, Default)]
pub struct DeactivateReport {
    /// Base pages that were named.
    pub nr_named_pages: u64,
    /// Processes of which nothing may be named, by number, and why.
    pub refused: Vec<(i32, io::Error)>,
}

/// The thread; at most one request is outstanding.
#[derive(Debug)]
pub struct Deactivate {
    worker: Worker<(Instant, Vec<ColdPages>), DeactivateReport>,
    is_allowed: Arc<AtomicBool>,
}

impl Deactivate {
    /// Starts the thread. All is allowed.
    pub fn start() -> io::Result<Deactivate> {
        let is_allowed = Arc::new(AtomicBool::new(true));
        let may_go_on = Arc::clone(&is_allowed);
        let worker = Worker::start(
            "strata-cold",
            1,
            move |(asked, cold): (Instant, Vec<ColdPages>), stop| {
                let mut report = DeactivateReport::default();
                for (process, ranges) in &cold {
                    let is_over = || {
                        stop.is_set()
                            || !may_go_on.load(Ordering::Relaxed)
                            || asked.elapsed() > STALE
                            || !process.is_space_current()
                    };
                    let done = ask(ranges, is_over, || u64::MAX, advise(process, Advice::Cold));
                    let nr_pages = |ranges: &[AddrRange]| -> u64 {
                        ranges.iter().map(|range| range.nr_pages()).sum()
                    };
                    report.nr_named_pages += nr_pages(ranges) - nr_pages(&done.left);
                    if let Some(error) = done.error.filter(|_| process.is_space_current()) {
                        report.refused.push((process.pid(), error));
                    }
                }
                report
            },
        )?;
        Ok(Deactivate { worker, is_allowed })
    }

    /// Whether pages may be named from now on; if not, what is left of a request is given up.
    pub fn allow(&self, is_allowed: bool) {
        self.is_allowed.store(is_allowed, Ordering::Relaxed);
    }

    /// Hands pages over; false if the last ones are not done and polled yet.
    pub fn try_submit(&mut self, cold: Vec<ColdPages>) -> bool {
        self.worker.try_submit((Instant::now(), cold)).is_ok()
    }

    /// Whether a request is out.
    pub fn is_busy(&self) -> bool {
        self.worker.nr_in_flight() > 0
    }

    /// Takes the report of the last request, if it is there.
    pub fn poll(&mut self) -> Option<DeactivateReport> {
        self.worker.poll()
    }
}
