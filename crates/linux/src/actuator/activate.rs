//! `activate`: tells the kernel which pages to keep, by touching them.
//!
//! While the classic LRU reclaims it looks at the accessed bits of pages at the end of its inactive list, one
//! bit for all it knows of a page. Walks know more. A page they found warm that has come to the inactive
//! list is touched there and goes back to the active one, so what the kernel finds at the end of the
//! inactive list is what walks found cold. Under MGLRU five touches have eviction pass a page over, once
//! (`lever`).
//!
//! **Owns** the thread, the request and the report. **Does not own** which pages are warm (`control`).
//!
//! **Invariants**
//! - A1: nothing is written and nothing is taken; what can't be read is passed over, and so is what has gone
//!   since the walk, or the touch would read it back.
//! - A2: nobody waits for the thread, not even at the end: a page that goes just before its touch is read back
//!   all the same, and that takes as long as its device takes.
//! - A3: what was asked for more than [`STALE`] ago is left alone: other pages are warm by now.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_control::Lever;

use super::worker::Worker;
use crate::addr::{AddrRange, PAGE_BYTES};
use crate::hold_up;
use crate::process::Process;
use crate::sys::touch;

/// See A3.
const STALE: Duration = Duration::from_secs(1);
/// Pages of a process that can't be read, each of which costs a call, until the rest is left alone.
const NR_HOLES_MAX: u32 = 256;

/// Pages that lie between two of which it is read together whether they are in memory.
const NR_BETWEEN_MAX: u64 = 64;

/// Pages of one process to keep, by address.
pub type WarmPages = (Arc<Process>, Vec<u64>);

/// What became of a request.
#[derive(Debug, Default)]
pub struct ActivateReport {
    /// Base pages touched.
    pub nr_touched_pages: u64,
    /// Processes that may not be read, by number, and why.
    pub refused: Vec<(i32, io::Error)>,
}

/// The touching thread; at most one request is outstanding.
#[derive(Debug)]
pub struct Activate {
    worker: Worker<(Instant, Vec<WarmPages>), ActivateReport>,
}

impl Activate {
    /// Starts the thread.
    pub fn start(lever: Lever) -> io::Result<Activate> {
        let worker = Worker::start(
            "strata-activate",
            1,
            move |(asked, warm): (Instant, Vec<WarmPages>), stop| {
                let mut report = ActivateReport::default();
                let is_over = || stop.is_set() || asked.elapsed() > STALE;
                for (process, pages) in &warm {
                    let nr_touched = &mut report.nr_touched_pages;
                    if let Err(error) = touch_all(process, pages, lever, is_over, nr_touched) {
                        report.refused.push((process.pid(), error));
                    }
                }
                report
            },
        )?;
        Ok(Activate { worker })
    }

    /// Hands pages over; false if the last ones are not done and polled yet.
    pub fn try_submit(&mut self, warm: Vec<WarmPages>) -> bool {
        self.worker.try_submit((Instant::now(), warm)).is_ok()
    }

    /// Whether a request is out.
    pub fn is_busy(&self) -> bool {
        self.worker.nr_in_flight() > 0
    }

    /// Takes the report of the last request, if it is there.
    pub fn poll(&mut self) -> Option<ActivateReport> {
        self.worker.poll()
    }
}

/// Touches the pages of one process; one that has ended is no error.
pub(super) fn touch_all(
    process: &Process,
    pages: &[u64],
    lever: Lever,
    is_over: impl Fn() -> bool,
    nr_touched_pages: &mut u64,
) -> io::Result<()> {
    let mut nr_holes = 0;
    for batch in pages.chunks(touch::pages_max(lever)) {
        if is_over() {
            return Ok(());
        }
        let present = present(process, batch)?;
        let mut rest = &present[..];
        // The number of a process that has ended may be another's by now.
        while !rest.is_empty()
            && nr_holes < NR_HOLES_MAX
            && !is_over()
            && process.is_space_current()
        {
            let nr_touched = match touch::touch(process.pid(), rest, lever) {
                Ok(nr_touched) => nr_touched,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EFAULT) => 0,
                    Some(libc::ESRCH) => return Ok(()),
                    _ => return Err(error),
                },
            };
            hold_up::pause();
            *nr_touched_pages += nr_touched as u64;
            let is_cut = nr_touched < rest.len();
            nr_holes += u32::from(is_cut);
            rest = &rest[nr_touched + usize::from(is_cut)..];
        }
    }
    Ok(())
}

/// The pages that are in memory, by address as they come.
fn present(process: &Process, pages: &[u64]) -> io::Result<Vec<u64>> {
    let mut present = Vec::with_capacity(pages.len());
    let mut entries = Vec::new();
    // What lies between is read, too: more than this costs as much as another call.
    for near in pages.chunk_by(|a, b| b.wrapping_sub(*a) <= NR_BETWEEN_MAX * PAGE_BYTES) {
        let (start, last) = (near[0], near[near.len() - 1]);
        process.read_pagemap(AddrRange::new(start, last + PAGE_BYTES), &mut entries)?;
        let is_present = |page: &&u64| {
            let entry = entries.get(((*page - start) / PAGE_BYTES) as usize);
            entry.is_some_and(|entry| entry.is_present())
        };
        present.extend(near.iter().filter(is_present));
    }
    Ok(present)
}
