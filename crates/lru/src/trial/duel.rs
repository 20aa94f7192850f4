//! One group's duel: who is followed, what the two in small miss, and which is the better.
//!
//! **Owns** the share of pages that is followed, the score. **Does not own** the two (`small`).
//!
//! **Invariants**
//! - I1: so many followed pages are in memory as [`Duel`] counts, at most [`NR_FOLLOWED_MAX`].

use super::{
    Tried,
    pages::{PageNumber, Pages},
    small::{Event, Small},
};
use crate::{
    config::{Config, ConfigError, Refault},
    ids::{FolioId, GroupId},
    random::Random,
    seam::{AccessVia, Arrival, Cause, Shadow, Swappiness},
};

/// Pages in memory that are followed, at most: of more every second is let go. With half as many a
/// memory of 4323 pages was tried in 1080, and was not alike (`cache2k-orm-night`).
const NR_FOLLOWED_MAX: u32 = 4096;

/// Events after which the two are compared, for each page they have room for.
const NR_EVENTS_PER_PAGE: u64 = 2;

/// The least an interval has, or a memory of a few pages would change its mind all the time.
const NR_EVENTS_MIN: u64 = 256;

/// One part in so many of the score is forgotten at each comparison. The choice goes to who was the
/// better for long: each change of it costs some of what is in memory, and following the last few
/// intervals lost more by changing than either way did by staying.
const SCORE_PARTS: u64 = 512;

/// By distance has to miss at most so many percent of what the window does to be chosen,
const CHOSEN_PERCENT: u64 = 98;

/// and fewer by so large a part of memory.
const CHOSEN_PART: u64 = 2;

const WINDOW: usize = 0;
const DISTANCE: usize = 1;

#[derive(Debug)]
pub(super) struct Duel<P> {
    small: [Small<P>; 2],
    random: Random,
    /// One page in `2^sparsity` is followed.
    sparsity: u32,
    /// Followed pages that are in memory.
    pub(super) nr_followed: u32,
    /// Since the last comparison.
    nr_events: u64,
    /// Since the beginning, ever less of what was long ago.
    pub(super) nr_misses: [u64; 2],
    prefers_distance: bool,
}

impl<P: Tried> Duel<P> {
    pub(super) fn new(config: &Config) -> Result<Duel<P>, ConfigError> {
        let small = |refault| {
            P::in_small(Config {
                refault,
                min_ttl_ms: 0,
                ..config.clone()
            })
        };
        Ok(Duel {
            small: [
                Small::new(small(Refault::Window)?, WINDOW),
                Small::new(small(Refault::Distance)?, DISTANCE),
            ],
            random: Random::new(config.seed),
            sparsity: 0,
            nr_followed: 0,
            nr_events: 0,
            nr_misses: [0; 2],
            prefers_distance: false,
        })
    }

    pub(super) fn prefers_distance(&self) -> bool {
        self.prefers_distance
    }

    /// Takes note of an arrival; `page` if it was followed before.
    pub(super) fn arrived(
        &mut self,
        pages: &mut Pages,
        page: Option<PageNumber>,
        folio: FolioId,
        arrival: &Arrival,
    ) {
        let page = match page {
            Some(page) => page,
            None => {
                let lot = self.random.bits() as u32;
                if !self.is_to_follow(lot) {
                    return;
                }
                match pages.follow(arrival, lot) {
                    Some(page) => page,
                    None => return,
                }
            }
        };
        pages.enter(page, folio);
        self.nr_followed += 1;
        // What was read comes with an access of its own.
        if arrival.cause != Cause::Read {
            self.tell(pages, page, Event::Brought(arrival.cause));
        }
        if self.nr_followed > NR_FOLLOWED_MAX {
            self.follow_fewer(pages, arrival.group);
        }
    }

    pub(super) fn accessed(&mut self, pages: &mut Pages, page: PageNumber, via: AccessVia) {
        self.tell(pages, page, Event::Accessed(via));
    }

    /// A followed page leaves memory; its ticket.
    pub(super) fn left(&mut self, pages: &mut Pages, page: PageNumber, shadow: Shadow) -> Shadow {
        self.nr_followed -= 1;
        pages.leave(page, shadow)
    }

    pub(super) fn freed(&mut self, pages: &mut Pages, page: PageNumber) {
        self.nr_followed -= u32::from(pages[page].is_in_memory());
        for small in &mut self.small {
            small.freed(pages, page);
        }
        pages.forget(page);
    }

    /// Base pages are asked back of a group that holds so many: the two in small have as much room as
    /// their share of that.
    pub(super) fn pressed(&mut self, swappiness: Swappiness, nr_resident_pages: u64) {
        let nr_pages_max = (nr_resident_pages >> self.sparsity).max(1);
        for small in &mut self.small {
            small.set_room(nr_pages_max, swappiness);
        }
    }

    fn is_to_follow(&self, lot: u32) -> bool {
        lot.trailing_zeros() >= self.sparsity
    }

    fn follow_fewer(&mut self, pages: &mut Pages, group: GroupId) {
        self.sparsity += 1;
        let followed = pages.of_group(group);
        let too_many = followed.filter(|(_, page)| !self.is_to_follow(page.lot));
        let too_many: Vec<PageNumber> = too_many.map(|(number, _)| number).collect();
        for page in too_many {
            self.freed(pages, page);
        }
    }

    fn tell(&mut self, pages: &mut Pages, page: PageNumber, event: Event) {
        for (small, nr_misses) in self.small.iter_mut().zip(&mut self.nr_misses) {
            *nr_misses += u64::from(small.hear(pages, page, event));
        }
        self.nr_events += 1;
        if let Some(nr_pages_max) = self.small[WINDOW].nr_pages_max()
            && self.nr_events >= (NR_EVENTS_PER_PAGE * nr_pages_max).max(NR_EVENTS_MIN)
        {
            self.compare(nr_pages_max);
        }
    }

    /// Makes the choice anew.
    fn compare(&mut self, nr_pages_max: u64) {
        let [by_window, by_distance] = self.nr_misses;
        self.prefers_distance = match self.prefers_distance {
            true => by_distance <= by_window,
            false => {
                by_distance * 100 <= by_window * CHOSEN_PERCENT
                    && (by_window - by_distance) * CHOSEN_PART >= nr_pages_max
            }
        };
        self.nr_misses = self.nr_misses.map(|of| of - of / SCORE_PARTS);
        self.nr_events = 0;
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let small = self.small.iter().map(Small::memory_bytes);
        size_of::<Self>() as u64 + small.sum::<u64>()
    }

    pub(super) fn validate(&self, pages: &Pages, group: GroupId) -> Result<(), String> {
        let followed = pages.of_group(group);
        let nr_in_memory = followed.filter(|(_, page)| page.is_in_memory()).count();
        if nr_in_memory != self.nr_followed as usize || self.nr_followed > NR_FOLLOWED_MAX {
            let counted = self.nr_followed;
            return Err(format!(
                "{nr_in_memory} followed pages of {group:?} are in memory, not {counted}"
            ));
        }
        let mut small = self.small.iter();
        small.try_for_each(|small| small.validate(pages, group))
    }
}
