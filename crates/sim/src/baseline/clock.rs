//! CLOCK: first in, first out, but a page used since the hand came by gets another round.
//!
//! Corbato, "A paging experiment with the Multics system", 1968. One reference bit, clear when a page
//! comes in; the new page takes the victim's place, so the hand reaches it last.
//!
//! **Owns** the ring and the bits. **Does not own** anything else.
//!
//! **Invariants**
//! - I1: `ring` from `hand` on, around its end, is the order in which the hand will look.

use super::{Cache, Found};
use crate::workload::{PageId, Workload};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    In,
    /// In, and used since it came in or the hand came by.
    Used,
}

#[derive(Debug)]
pub(super) struct Clock {
    state: Vec<State>,
    /// Full once it is as long as the memory is large.
    ring: Vec<u32>,
    hand: usize,
    capacity: usize,
}

impl<'w> Cache<'w> for Clock {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        Clock {
            state: vec![State::Out; workload.nr_pages() as usize],
            ring: Vec::with_capacity(capacity as usize),
            hand: 0,
            capacity: capacity as usize,
        }
    }

    fn request(&mut self, _: u32, page: PageId) -> Found {
        if self.state[page.index()] != State::Out {
            self.state[page.index()] = State::Used;
            return Found::Hit;
        }
        self.state[page.index()] = State::In;
        if self.ring.len() < self.capacity {
            self.ring.push(page.0);
            return Found::Miss;
        }
        loop {
            let seen = &mut self.state[self.ring[self.hand] as usize];
            let at = self.hand;
            self.hand = (self.hand + 1) % self.capacity;
            if *seen == State::Used {
                *seen = State::In;
                continue;
            }
            *seen = State::Out;
            self.ring[at] = page.0;
            return Found::Miss;
        }
    }

    fn memory_bytes(&self) -> u64 {
        (self.state.capacity() * size_of::<State>() + self.ring.capacity() * size_of::<u32>())
            as u64
    }
}
