//! Page cache that nobody maps, on its way to faster memory.
//!
//! ```text
//!   CachePages (the pages of one file, held open) -> mapped for a moment, moved, unmapped
//! ```
//!
//! Such a page is in no page table, and only what is mapped can be moved. So this process maps it, for some hundred
//! microseconds, at random, which counts as no access. Nothing is read in.
//!
//! **Owns** the thread. **Does not own** which pages come up, how many, nor when (the guard).
//!
//! **Invariants**
//! - I1: what was tried and what moved are counted apart.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::sleep;

use super::worker::Worker;
use crate::hold_up::PAUSE;
use crate::sys::page_cache::move_to_node;

/// Pages of one call: as long as a fault on one of them waits.
const BATCH_PAGES: u64 = 128;
/// Requests that the thread has at once.
const IN_FLIGHT_MAX: usize = 64;
/// Pages of one file that are to come up.
#[derive(Clone, Debug)]
pub struct CachePages {
    /// The file, which stays open until they have.
    pub file: Arc<File>,
    /// Pages by number, in order and apart from each other.
    pub ranges: Vec<Range<u64>>,
    /// How many are in these ranges.
    pub nr_pages: u64,
}

/// What is to be moved.
#[derive(Clone, Debug)]
pub struct CacheMoveRequest {
    /// Which pages.
    pub pages: CachePages,
    /// Where they are to go, by the kernel's number.
    pub to: u32,
}

/// What became of it.
#[derive(Debug)]
pub struct CacheMoveReport {
    /// In memory then, and on another node.
    pub nr_tried_pages: u64,
    /// Moved.
    pub nr_moved_pages: u64,
}

/// Moves page cache in a thread of its own.
pub type CacheMover = Worker<CacheMoveRequest, CacheMoveReport>;

/// Starts that thread.
///
/// # Errors
/// The thread can't be started.
pub fn start_cache_mover() -> io::Result<CacheMover> {
    Worker::start("strata-cachemov", IN_FLIGHT_MAX, |request, stop| {
        carry_out(&request, &|| stop.is_set())
    })
}

fn carry_out(request: &CacheMoveRequest, is_stopped: &dyn Fn() -> bool) -> CacheMoveReport {
    let mut report = CacheMoveReport {
        nr_tried_pages: 0,
        nr_moved_pages: 0,
    };
    for range in &request.pages.ranges {
        let mut first = range.start;
        while first < range.end && !is_stopped() {
            let end = range.end.min(first + BATCH_PAGES);
            match move_to_node(request.pages.file.as_fd(), &(first..end), request.to) {
                Ok((tried, moved)) => {
                    report.nr_tried_pages += tried;
                    report.nr_moved_pages += moved;
                }
                // Truncated or removed meanwhile.
                Err(error) => tracing::debug!("page cache was not moved: {error}"),
            }
            first = end;
            sleep(PAUSE);
        }
    }
    report
}
