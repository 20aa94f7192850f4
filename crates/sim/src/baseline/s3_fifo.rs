//! S3-FIFO: a small queue on trial, a main queue, and a memory of those that failed the trial.
//!
//! Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, with the sizes of the
//! authors' own implementation in libCacheSim: a tenth of the memory on trial, nine tenths as many
//! pages remembered, two more uses to pass.
//!
//! ```text
//!            miss                      used twice
//!   (unknown) ----> small (1/10) -------------------> main (9/10) <--+ used: once more around
//!                     | else                           |  ^  |_______|
//!                     v               remembered: miss |  |
//!                   ghost (9/10) ----------------------|--+
//!                     | full                           v not used
//!                     +---------> (unknown) <----------+
//! ```
//!
//! As there, before the first eviction what does not fit into the small queue goes to the main one.
//!
//! **Owns** the queues and the counts. **Does not own** the links' arithmetic (`queue`).
//!
//! **Invariants**
//! - I1: `places` names the queue a page is in; a page is in one at most.
//! - I2: small and main together hold no more than the memory.

use super::{
    Cache, Found,
    queue::{Links, Queue},
};
use crate::workload::{PageId, Workload};

/// Uses after the first that pass the trial.
const PASSING_USES: u8 = 2;

/// Uses that are counted.
const USES_MAX: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Unknown,
    Small,
    Main,
    Ghost,
}

#[derive(Debug)]
pub(super) struct S3Fifo {
    places: Vec<Place>,
    uses: Vec<u8>,
    links: Links,
    small: Queue,
    main: Queue,
    ghost: Queue,
    small_max: u32,
    ghost_max: u32,
    capacity: u32,
    has_evicted: bool,
}

impl<'w> Cache<'w> for S3Fifo {
    fn new(workload: &'w Workload, capacity: u32) -> Self {
        S3Fifo {
            places: vec![Place::Unknown; workload.nr_pages() as usize],
            uses: vec![0; workload.nr_pages() as usize],
            links: Links::new(workload.nr_pages()),
            small: Queue::EMPTY,
            main: Queue::EMPTY,
            ghost: Queue::EMPTY,
            small_max: (capacity / 10).max(1),
            ghost_max: (u64::from(capacity) * 9 / 10) as u32,
            capacity,
            has_evicted: false,
        }
    }

    fn request(&mut self, _: u32, page: PageId) -> Found {
        let place = self.places[page.index()];
        let uses = &mut self.uses[page.index()];
        if matches!(place, Place::Small | Place::Main) {
            *uses = (*uses + 1).min(USES_MAX);
            return Found::Hit;
        }
        *uses = 0;
        if place == Place::Ghost {
            self.ghost.remove(&mut self.links, page.0);
            self.places[page.index()] = Place::Unknown;
        }
        while self.small.len() + self.main.len() >= self.capacity {
            self.evict();
        }
        let is_first_filling = !self.has_evicted && self.small.len() >= self.small_max;
        if place == Place::Ghost || is_first_filling {
            self.enter_main(page.0);
        } else {
            self.places[page.index()] = Place::Small;
            self.small.push(&mut self.links, page.0);
        }
        Found::Miss
    }

    fn free(&mut self, page: PageId) {
        let queue = match std::mem::replace(&mut self.places[page.index()], Place::Unknown) {
            Place::Unknown => return,
            Place::Small => &mut self.small,
            Place::Main => &mut self.main,
            Place::Ghost => &mut self.ghost,
        };
        queue.remove(&mut self.links, page.0);
    }

    fn memory_bytes(&self) -> u64 {
        (self.places.capacity() * size_of::<Place>() + self.uses.capacity()) as u64
            + self.links.memory_bytes()
    }
}

impl S3Fifo {
    /// Evicts one page, or moves the small queue's to the main one.
    fn evict(&mut self) {
        self.has_evicted = true;
        let main_max = self.capacity - self.small_max;
        if self.main.len() > main_max || self.small.len() == 0 {
            self.evict_main();
        } else {
            self.evict_small();
        }
    }

    fn evict_main(&mut self) {
        while let Some(page) = self.main.pop(&mut self.links) {
            let uses = &mut self.uses[page as usize];
            if *uses == 0 {
                self.places[page as usize] = Place::Unknown;
                return;
            }
            *uses -= 1;
            self.main.push(&mut self.links, page);
        }
    }

    fn evict_small(&mut self) {
        while let Some(page) = self.small.pop(&mut self.links) {
            if self.uses[page as usize] >= PASSING_USES {
                self.uses[page as usize] = 0;
                self.enter_main(page);
            } else {
                self.remember(page);
                return;
            }
        }
    }

    fn enter_main(&mut self, page: u32) {
        self.places[page as usize] = Place::Main;
        self.main.push(&mut self.links, page);
    }

    fn remember(&mut self, page: u32) {
        self.places[page as usize] = Place::Ghost;
        self.ghost.push(&mut self.links, page);
        if self.ghost.len() > self.ghost_max
            && let Some(oldest) = self.ghost.pop(&mut self.links)
        {
            self.places[oldest as usize] = Place::Unknown;
        }
    }
}
