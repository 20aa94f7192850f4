//! Least recently used, with the trace itself for its list.
//!
//! Pages in order of last use are the requests in order, without those whose page was asked for again
//! later. So all it takes is the position of each page's last request, and a mark below which every
//! page has been evicted; the mark moves up past stale requests to the next victim.
//!
//! ```text
//!   requests   a b c a d b | now
//!                  ^mark: c is the oldest; b at 1 and a at 0 are stale
//! ```
//!
//! **Owns** the positions. **Does not own** the requests.
//!
//! **Invariants**
//! - I1: a page is in memory iff its last request is at the mark or above.

use super::{Cache, Found};
use crate::workload::{PageId, Request, Workload};

/// Last request of a page that has had none: below any mark.
const NEVER: u32 = 0;

#[derive(Debug)]
pub(super) struct Lru<'w> {
    requests: &'w [Request],
    /// By page: position of the last request plus one.
    last: Vec<u32>,
    /// Requests before this position are of pages that are gone, or stale.
    mark: u32,
    nr_free: u32,
}

impl<'w> Cache<'w> for Lru<'w> {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        Lru {
            requests: workload.requests(),
            last: vec![NEVER; workload.nr_pages() as usize],
            mark: 0,
            nr_free: capacity,
        }
    }

    fn request(&mut self, position: u32, page: PageId) -> Found {
        let last = std::mem::replace(&mut self.last[page.index()], position + 1);
        if last > self.mark {
            return Found::Hit;
        }
        if self.nr_free > 0 {
            self.nr_free -= 1;
        } else {
            self.evict();
        }
        Found::Miss
    }

    fn free(&mut self, page: PageId) {
        let last = std::mem::replace(&mut self.last[page.index()], NEVER);
        self.nr_free += u32::from(last > self.mark);
    }

    fn memory_bytes(&self) -> u64 {
        (self.last.capacity() * size_of::<u32>()) as u64
    }
}

impl Lru<'_> {
    fn evict(&mut self) {
        loop {
            let oldest = self.requests[self.mark as usize].page();
            self.mark += 1;
            if self.last[oldest.index()] == self.mark {
                return;
            }
        }
    }
}
