//! The optimum: evicts the page whose next request is the farthest.
//!
//! Belady, "A study of replacement algorithms for a virtual-storage computer", 1966; as in a memory a
//! page that is asked for has to come in, whether it is wanted again or not.
//!
//! **Owns** the order of next requests. **Does not own** the requests.
//!
//! **Invariants**
//! - I1: each page in memory has one entry whose position lies ahead; entries that lie behind are
//!   stale. The largest entry of a page in memory is never stale, as stale ones are smaller than any
//!   other; one of a page that was freed, since in memory again or not, is passed over.

use std::collections::BinaryHeap;

use super::{Cache, Found};
use crate::workload::{PageId, Workload};

/// Next request of a page that is not wanted again, or is freed before.
const NEVER: u32 = u32::MAX;

/// Stale entries that are let be.
const NR_STALE_MAX: usize = 4096;

#[derive(Debug)]
pub(super) struct Opt {
    /// By request: position of the next request of the same page.
    next: Vec<u32>,
    /// By page: its next request, if it is in memory.
    resident: Vec<Option<u32>>,
    /// Next position and page.
    farthest: BinaryHeap<(u32, u32)>,
    capacity: usize,
    nr_free: u32,
}

impl<'w> Cache<'w> for Opt {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        let mut seen = vec![NEVER; workload.nr_pages() as usize];
        let mut next = vec![NEVER; workload.requests().len()];
        let mut ends = workload.ends().iter().rev().peekable();
        for position in (0..workload.nr_requests()).rev() {
            // What is requested after its end has to come in anew, wherever it was.
            while let Some(end) = ends.next_if(|end| end.position > position) {
                seen[end.page.index()] = NEVER;
            }
            let page = workload.requests()[position as usize].page().index();
            next[position as usize] = std::mem::replace(&mut seen[page], position);
        }
        Opt {
            next,
            resident: vec![None; workload.nr_pages() as usize],
            farthest: BinaryHeap::new(),
            capacity: capacity as usize,
            nr_free: capacity,
        }
    }

    fn request(&mut self, position: u32, page: PageId) -> Found {
        let next = self.next[position as usize];
        let found = match self.resident[page.index()] {
            Some(_) => Found::Hit,
            None if self.nr_free > 0 => {
                self.nr_free -= 1;
                Found::Miss
            }
            None => {
                self.evict();
                Found::Miss
            }
        };
        self.resident[page.index()] = Some(next);
        self.farthest.push((next, page.0));
        if self.farthest.len() > 2 * self.capacity + NR_STALE_MAX {
            self.farthest.retain(|(next, _)| *next > position);
        }
        found
    }

    fn free(&mut self, page: PageId) {
        let was_resident = self.resident[page.index()].take();
        self.nr_free += u32::from(was_resident.is_some());
    }

    fn memory_bytes(&self) -> u64 {
        (self.next.capacity() * size_of::<u32>()
            + self.resident.capacity() * size_of::<Option<u32>>()
            + self.farthest.capacity() * size_of::<(u32, u32)>()) as u64
    }
}

impl Opt {
    fn evict(&mut self) {
        while let Some((next, victim)) = self.farthest.pop() {
            let resident = &mut self.resident[victim as usize];
            if *resident == Some(next) {
                *resident = None;
                return;
            }
        }
    }
}
