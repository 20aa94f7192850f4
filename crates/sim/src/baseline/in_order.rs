//! FIFO, CLOCK and SIEVE: one queue, and three ways to treat what was used since it came in or was last looked at.
//!
//! | policy | a page that was used |
//! |---|---|
//! | FIFO | goes all the same |
//! | CLOCK (Corbato, "A paging experiment with the Multics system", 1968) | goes to the young end, once |
//! | SIEVE (Zhang et al., "SIEVE is simpler than LRU", NSDI 2024) | stays where it is; the hand moves from old to young |
//!
//! CLOCK's circle is cut open where the hand is: what it spares goes from the front of a queue to its end, which is the same, and
//! the new page takes the victim's place, so the hand reaches it last. Under SIEVE new pages enter at the young end, not where the
//! hand is, so what has not been used yet is looked at again soon.
//!
//! **Owns** the queue, the hand and the bits. **Does not own** the links' arithmetic (`queue`).
//!
//! **Invariants**
//! - I1: the hand is at a page in memory, or at none and then begins with the oldest, as it always does but under SIEVE.

use super::{
    Cache, Found,
    queue::{Links, Queue},
};
use crate::workload::{PageId, Workload};

/// Of `SPARING`: nothing is spared.
const NOTHING: u8 = 0;
/// What was used goes to the young end.
const AT_THE_END: u8 = 1;
/// What was used stays in its place.
const IN_PLACE: u8 = 2;

pub(super) type Fifo = InOrder<NOTHING>;
pub(super) type Clock = InOrder<AT_THE_END>;
pub(super) type Sieve = InOrder<IN_PLACE>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    In,
    /// In, and used since it came in or the hand came by.
    Used,
}

#[derive(Debug)]
pub(super) struct InOrder<const SPARING: u8> {
    state: Vec<State>,
    links: Links,
    queue: Queue,
    hand: Option<u32>,
    capacity: u32,
}

impl<'w, const SPARING: u8> Cache<'w> for InOrder<SPARING> {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        InOrder {
            state: vec![State::Out; workload.nr_pages() as usize],
            links: Links::new(workload.nr_pages()),
            queue: Queue::EMPTY,
            hand: None,
            capacity,
        }
    }

    fn request(&mut self, _: u32, page: PageId) -> Found {
        if self.state[page.index()] != State::Out {
            if SPARING != NOTHING {
                self.state[page.index()] = State::Used;
            }
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

impl<const SPARING: u8> InOrder<SPARING> {
    fn evict(&mut self) {
        while let Some(page) = self.hand.or_else(|| self.queue.oldest()) {
            if SPARING == IN_PLACE {
                self.hand = self.links.younger(page);
            }
            let state = &mut self.state[page as usize];
            let is_spared = *state == State::Used;
            *state = match is_spared {
                true => State::In,
                false => State::Out,
            };
            if !is_spared || SPARING == AT_THE_END {
                self.queue.remove(&mut self.links, page);
            }
            if !is_spared {
                return;
            }
            if SPARING == AT_THE_END {
                self.queue.push(&mut self.links, page);
            }
        }
    }
}
