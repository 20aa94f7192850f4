//! First in, first out: the page that has been in memory longest goes, used or not.
//!
//! **Owns** which pages are in memory. **Does not own** the links' arithmetic (`queue`).
//!
//! **Invariants**
//! - I1: `queue` from its oldest page on is the order of arrival.

use super::{
    Cache, Found,
    queue::{Links, Queue},
};
use crate::workload::{PageId, Workload};

#[derive(Debug)]
pub(super) struct Fifo {
    is_resident: Vec<bool>,
    links: Links,
    queue: Queue,
    capacity: u32,
}

impl<'w> Cache<'w> for Fifo {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        Fifo {
            is_resident: vec![false; workload.nr_pages() as usize],
            links: Links::new(workload.nr_pages()),
            queue: Queue::EMPTY,
            capacity,
        }
    }

    fn request(&mut self, _: u32, page: PageId) -> Found {
        if std::mem::replace(&mut self.is_resident[page.index()], true) {
            return Found::Hit;
        }
        if self.queue.len() == self.capacity
            && let Some(victim) = self.queue.pop(&mut self.links)
        {
            self.is_resident[victim as usize] = false;
        }
        self.queue.push(&mut self.links, page.0);
        Found::Miss
    }

    fn free(&mut self, page: PageId) {
        if std::mem::take(&mut self.is_resident[page.index()]) {
            self.queue.remove(&mut self.links, page.0);
        }
    }

    fn memory_bytes(&self) -> u64 {
        self.is_resident.capacity() as u64 + self.links.memory_bytes()
    }
}
