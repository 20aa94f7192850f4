//! `activate`: tells the kernel's classic LRU which pages to keep, by touching them.
//!
//! While the kernel reclaims it looks at the accessed bits of pages at the end of its inactive list, one
//! bit for all it knows of a page. Walks know more. A page they found warm that has come to the inactive
//! list is touched there and goes back to the active one, so what the kernel finds at the end of the
//! inactive list is what walks found cold. Under MGLRU a touch does not do that.
//!
//! **Owns** the thread, the request and the report. **Does not own** which pages are warm (`control`).
//!
//! **Invariants**
//! - A1: nothing is written and nothing is taken; what can't be read is passed over.
//! - A2: nobody waits for the thread, not even at the end: a page that went meanwhile is read back by a
//!   touch, and that takes as long as the swap device takes.

use std::io;
use std::sync::Arc;

use super::worker::{StopFlag, Worker};
use crate::process::{Process, thread_cpu_ns};
use crate::sys::touch;

/// Pages of one process to keep, by address.
pub type WarmPages = (Arc<Process>, Vec<u64>);

/// What became of a request.
#[derive(Debug, Default)]
pub struct ActivateReport {
    /// Base pages touched.
    pub nr_touched_pages: u64,
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: u64,
    /// Why a process was left out, if one was that lives.
    pub error: Option<io::Error>,
}

/// The touching thread; at most one request is outstanding.
#[derive(Debug)]
pub struct Activate {
    worker: Worker<Vec<WarmPages>, ActivateReport>,
}

impl Activate {
    /// Starts the thread.
    pub fn start() -> io::Result<Activate> {
        let worker = Worker::start("strata-activate", 1, |warm: Vec<WarmPages>, stop| {
            let cpu_start = thread_cpu_ns();
            let mut report = ActivateReport::default();
            for (process, pages) in &warm {
                if let Err(error) = touch_all(process, pages, stop, &mut report.nr_touched_pages) {
                    report.error = Some(error);
                }
            }
            report.cpu_ns = thread_cpu_ns() - cpu_start;
            report
        })?;
        Ok(Activate { worker })
    }

    /// Hands pages over; false if the last ones are not done and polled yet.
    pub fn try_submit(&mut self, warm: Vec<WarmPages>) -> bool {
        self.worker.try_submit(warm).is_ok()
    }

    /// Takes the report of the last request, if it is there.
    pub fn poll(&mut self) -> Option<ActivateReport> {
        self.worker.poll()
    }
}

/// Touches the pages of one process; one that has ended is no error.
fn touch_all(
    process: &Process,
    pages: &[u64],
    stop: &StopFlag,
    nr_touched_pages: &mut u64,
) -> io::Result<()> {
    let mut rest = pages;
    // The number of a process that has ended may be another's by now.
    while !rest.is_empty() && !stop.is_set() && process.is_alive() {
        let batch = &rest[..rest.len().min(touch::PAGES_MAX)];
        let nr_touched = match touch::touch(process.pid(), batch) {
            Ok(nr_touched) => nr_touched,
            Err(error) => match error.raw_os_error() {
                Some(libc::EFAULT) => 0,
                Some(libc::ESRCH) => return Ok(()),
                _ => return Err(error),
            },
        };
        *nr_touched_pages += nr_touched as u64;
        let is_cut = nr_touched < batch.len();
        rest = &rest[nr_touched + usize::from(is_cut)..];
    }
    Ok(())
}
