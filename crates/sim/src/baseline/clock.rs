//! CLOCK: first in, first out, but a page used since the hand came by gets another round.
//!
//! Corbato, "A paging experiment with the Multics system", 1968. One reference bit, clear when a page
//! comes in; the new page takes the victim's place, so the hand reaches it last. The circle is cut open
//! where the hand is: what it spares goes from the front of a queue to its end, which is the same.
//!
//! **Owns** the queue and the bits. **Does not own** the links' arithmetic (`queue`).
//!
//! **Invariants**
//! - I1: `queue` from its oldest page on is the order in which the hand will look.

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
pub(super) struct Clock {
    state: Vec<State>,
    links: Links,
    queue: Queue,
    capacity: u32,
}

impl<'w> Cache<'w> for Clock {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        Clock {
            state: vec![State::Out; workload.nr_pages() as usize],
            links: Links::new(workload.nr_pages()),
            queue: Queue::EMPTY,
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
        if std::mem::replace(&mut self.state[page.index()], State::Out) != State::Out {
            self.queue.remove(&mut self.links, page.0);
        }
    }

    fn memory_bytes(&self) -> u64 {
        (self.state.capacity() * size_of::<State>()) as u64 + self.links.memory_bytes()
    }
}

impl Clock {
    fn evict(&mut self) {
        while let Some(page) = self.queue.pop(&mut self.links) {
            let state = &mut self.state[page as usize];
            if *state == State::Used {
                *state = State::In;
                self.queue.push(&mut self.links, page);
                continue;
            }
            *state = State::Out;
            return;
        }
    }
}
