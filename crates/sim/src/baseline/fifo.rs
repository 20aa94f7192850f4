//! First in, first out: the page that has been in memory longest goes, used or not.
//!
//! **Owns** the ring of pages. **Does not own** anything else.
//!
//! **Invariants**
//! - I1: `ring` from `oldest` on, around its end, is the order of arrival.

use super::{Cache, Found};
use crate::workload::{PageId, Workload};

#[derive(Debug)]
pub(super) struct Fifo {
    is_resident: Vec<bool>,
    /// Full once it is as long as the memory is large.
    ring: Vec<u32>,
    oldest: usize,
    capacity: usize,
}

impl<'w> Cache<'w> for Fifo {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        Fifo {
            is_resident: vec![false; workload.nr_pages() as usize],
            ring: Vec::with_capacity(capacity as usize),
            oldest: 0,
            capacity: capacity as usize,
        }
    }

    fn request(&mut self, _: u32, page: PageId) -> Found {
        if std::mem::replace(&mut self.is_resident[page.index()], true) {
            return Found::Hit;
        }
        if self.ring.len() < self.capacity {
            self.ring.push(page.0);
            return Found::Miss;
        }
        let victim = std::mem::replace(&mut self.ring[self.oldest], page.0);
        self.is_resident[victim as usize] = false;
        self.oldest = (self.oldest + 1) % self.capacity;
        Found::Miss
    }

    fn memory_bytes(&self) -> u64 {
        (self.is_resident.capacity() + self.ring.capacity() * size_of::<u32>()) as u64
    }
}
