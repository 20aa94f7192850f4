//! SIEVE: like CLOCK, but what is spared stays where it is, and the hand moves from old to young.
//!
//! Zhang et al., "SIEVE is simpler than LRU", NSDI 2024. New pages enter at the young end, not where
//! the hand is, so what has not been used yet is looked at again soon.
//!
//! **Owns** the queue, the hand and the bits. **Does not own** the links' arithmetic (`queue`).
//!
//! **Invariants**
//! - I1: the hand is at a page in memory, or at none and then begins with the oldest.

use super::{
    Cache, Found,
    queue::{Links, Queue},
};
use crate::workload::{PageId, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    In,
    /// In, and used since it came in or the hand came by.
    Used,
}

#[derive(Debug)]
pub(super) struct Sieve {
    state: Vec<State>,
    links: Links,
    queue: Queue,
    hand: Option<u32>,
    capacity: u32,
}

impl<'w> Cache<'w> for Sieve {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        Sieve {
            state: vec![State::Out; workload.nr_pages() as usize],
            links: Links::new(workload.nr_pages()),
            queue: Queue::EMPTY,
            hand: None,
            capacity,
        }
    }

    fn request(&mut self, _: u32, page: PageId) -> Found {
        if self.state[page.index()] != State::Out {
            self.state[page.index()] = State::Used;
            return Found::Hit;
        }
        if self.queue.len() == self.capacity {
            self.evict();
        }
        self.state[page.index()] = State::In;
        self.queue.push(&mut self.links, page.0);
        Found::Miss
    }

    fn free(&mut self, page: PageId) {
        if std::mem::replace(&mut self.state[page.index()], State::Out) == State::Out {
            return;
        }
        if self.hand == Some(page.0) {
            self.hand = self.links.younger(page.0);
        }
        self.queue.remove(&mut self.links, page.0);
    }

    fn memory_bytes(&self) -> u64 {
        (self.state.capacity() * size_of::<State>()) as u64 + self.links.memory_bytes()
    }
}

impl Sieve {
    fn evict(&mut self) {
        while let Some(page) = self.hand.or_else(|| self.queue.oldest()) {
            self.hand = self.links.younger(page);
            let state = &mut self.state[page as usize];
            if *state == State::Used {
                *state = State::In;
                continue;
            }
            *state = State::Out;
            self.queue.remove(&mut self.links, page);
            return;
        }
    }
}
