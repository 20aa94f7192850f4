//! One group's duel: who is followed, what the two in small miss, and which is the better.
//!
//! Of what arrives for the first time one page in `2^n` is followed, `n` growing with memory. Each of the
//! two in small may hold as much as the followed pages that are in memory: their share of it, whatever
//! the group's memory does. What a rule takes from other groups they can't show.
//!
//! While distance is chosen its score is what the group itself misses of the followed pages: it may do worse
//! there, where it did not judge from the beginning, than in small.
//!
//! **Owns** the share of pages that is followed, the score. **Does not own** the two (`small`).
//!
//! **Invariants**
//! - I1: so many followed pages are in memory, and out of it, as [`Duel`] counts: at most
//!   [`NR_FOLLOWED_MAX`] in, and [`NR_OUT_PER_IN`] times as many out.
//! - I2: whoever left first is the first to be forgotten.

use std::collections::VecDeque;

use super::{
    pages::{Page, PageNumber, Pages},
    small::{Event, Room, Small},
};
use crate::{
    config::{Config, ConfigError, Refault},
    error::PolicyError,
    ids::{FolioId, GroupId},
    policy::Policy,
    random::Random,
    seam::{AccessVia, Arrival, Cause, Shadow},
    swappiness::Swappiness,
};

/// Pages in memory that are followed, at most: of more every second is let go. With half as many a
/// memory of 4323 pages was tried in 1080, and was not alike (`cache2k-orm-night`).
const NR_FOLLOWED_MAX: u32 = 4096;

/// Followed pages that are out of memory, at most, for each that may be in: beyond so many times memory no
/// return is near enough for either way to judge.
const NR_OUT_PER_IN: usize = 8;

/// The two are compared after as many events as this part of the pages they have room for. Where several
/// groups share memory each round without a choice is one in which others lose to this group.
const EVENTS_PART: u64 = 2;

/// The least an interval has, or a memory of a few pages would change its mind all the time.
const NR_EVENTS_MIN: u64 = 256;

/// One part in so many of the score is forgotten at each comparison. The choice goes to who was the
/// better for long: each change of it costs some of what is in memory, and following the last few
/// intervals lost more by changing than either way did by staying.
const SCORE_PARTS: u64 = 2048;

/// Refault distance is chosen if it misses at most so many percent of what the window misses.
const CHOSEN_PERCENT: u64 = 98;

/// Refault distance is chosen if it misses fewer by 1/n of the pages of memory.
const CHOSEN_PART: u64 = 2;

const WINDOW: usize = 0;
const DISTANCE: usize = 1;

/// A policy that can't be tried in small; then its groups are judged by the window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TrialError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
}

#[derive(Debug)]
pub(super) struct Duel<P> {
    small: [Small<P>; 2],
    swappiness: Swappiness,
    random: Random,
    /// One page in `2^sparsity` is followed.
    sparsity: u32,
    /// Followed pages that are in memory, and how many base pages they are.
    pub(super) nr_in: u32,
    nr_base_pages_in: u64,
    nr_out: usize,
    /// Followed pages in the order in which they left, with the stamps of their tickets; those that came
    /// back have another stamp, or are in memory.
    left: VecDeque<(PageNumber, u32)>,
    /// Since the last comparison.
    pub(super) nr_events: u64,
    /// Since the beginning, ever less of what was long ago.
    pub(super) nr_misses: [u64; 2],
    prefers_distance: bool,
}

impl<P: Policy> Duel<P> {
    /// Between two policies that `in_small` makes.
    pub(super) fn new(
        config: &Config,
        in_small: impl Fn(Config) -> Result<P, ConfigError>,
    ) -> Result<Duel<P>, TrialError> {
        let small = |refault, side| {
            let policy = in_small(Config {
                refault,
                min_ttl_ms: 0,
                ..config.clone()
            });
            Ok::<_, TrialError>(Small::new(policy?, side)?)
        };
        Ok(Duel {
            small: [
                small(Refault::Window, WINDOW)?,
                small(Refault::Distance, DISTANCE)?,
            ],
            swappiness: Swappiness::DEFAULT,
            random: Random::new(config.seed),
            sparsity: 0,
            nr_in: 0,
            nr_base_pages_in: 0,
            nr_out: 0,
            left: VecDeque::new(),
            nr_events: 0,
            nr_misses: [0; 2],
            prefers_distance: false,
        })
    }

    pub(super) fn prefers_distance(&self) -> bool {
        self.prefers_distance
    }

    pub(super) fn asked(&mut self, swappiness: Swappiness) {
        self.swappiness = swappiness;
    }

    /// A page arrives that nothing is known of.
    pub(super) fn came(&mut self, pages: &mut Pages, folio: FolioId, arrival: &Arrival) {
        let lot = self.random.bits() as u32;
        if self.is_to_follow(lot)
            && let Some(page) = pages.follow(arrival, lot)
        {
            self.entered(pages, page, folio, arrival);
        }
    }

    /// A followed page arrives again, or something else with its ticket: then nothing is told.
    pub(super) fn came_back(
        &mut self,
        pages: &mut Pages,
        page: PageNumber,
        same: Option<(FolioId, &Arrival)>,
    ) {
        match same {
            // Fewer are followed than when it left.
            Some(_) if !self.is_to_follow(pages[page].lot) => self.forget(pages, page),
            Some((folio, arrival)) => {
                self.nr_out -= 1;
                self.entered(pages, page, folio, arrival);
            }
            None => self.forget(pages, page),
        }
    }

    fn entered(&mut self, pages: &mut Pages, page: PageNumber, folio: FolioId, arrival: &Arrival) {
        pages.enter(page, folio);
        self.nr_in += 1;
        self.nr_base_pages_in += arrival.order.nr_pages();
        self.nr_misses[DISTANCE] += u64::from(self.prefers_distance);
        // What was read comes with an access of its own.
        if arrival.cause != Cause::Read {
            self.tell(pages, page, Event::Brought(arrival.cause));
        }
        if self.nr_in > NR_FOLLOWED_MAX {
            self.follow_fewer(pages, arrival.group);
        }
    }

    pub(super) fn accessed(&mut self, pages: &mut Pages, page: PageNumber, via: AccessVia) {
        self.tell(pages, page, Event::Accessed(via));
    }

    /// A followed page leaves memory; its ticket.
    pub(super) fn left(&mut self, pages: &mut Pages, page: PageNumber, shadow: Shadow) -> Shadow {
        self.nr_in -= 1;
        self.nr_base_pages_in -= pages[page].order.nr_pages();
        self.nr_out += 1;
        let ticket = pages.leave(page, shadow);
        self.left.push_back((page, pages.stamp(page)));
        let nr_out_max = NR_OUT_PER_IN * NR_FOLLOWED_MAX as usize;
        while self.nr_out > nr_out_max {
            self.forget_first(pages);
        }
        // Most of it may have come back.
        if self.left.len() > 2 * nr_out_max {
            self.left.retain(|of| is_out_since(pages, *of));
        }
        ticket
    }

    /// Recalls the ticket of the page that left first.
    fn forget_first(&mut self, pages: &mut Pages) {
        while let Some(of) = self.left.pop_front() {
            if is_out_since(pages, of) {
                return self.forget(pages, of.0);
            }
        }
    }

    /// No longer follows a page.
    pub(super) fn forget(&mut self, pages: &mut Pages, page: PageNumber) {
        if pages[page].is_in_memory() {
            self.nr_in -= 1;
            self.nr_base_pages_in -= pages[page].order.nr_pages();
        } else {
            self.nr_out -= 1;
        }
        for small in &mut self.small {
            small.freed(pages, page);
        }
        pages.forget(page);
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
            if pages[page].is_in_memory() {
                self.forget(pages, page);
                continue;
            }
            // Its own shadow is kept here until it comes back.
            for small in &mut self.small {
                small.freed(pages, page);
            }
        }
    }

    fn tell(&mut self, pages: &mut Pages, page: PageNumber, event: Event) {
        let room = Room {
            nr_pages: self.nr_base_pages_in,
            swappiness: self.swappiness,
        };
        let [window, distance] = &mut self.small;
        self.nr_misses[WINDOW] += u64::from(window.hear(pages, page, event, room));
        let is_miss = distance.hear(pages, page, event, room);
        self.nr_misses[DISTANCE] += u64::from(is_miss && !self.prefers_distance);
        self.nr_events += 1;
        if self.nr_events >= (room.nr_pages / EVENTS_PART).max(NR_EVENTS_MIN) {
            self.compare(room.nr_pages);
        }
    }

    /// Makes the choice anew.
    pub(super) fn compare(&mut self, nr_pages_max: u64) {
        let [by_window, by_distance] = self.nr_misses;
        self.prefers_distance = match self.prefers_distance {
            true => by_distance <= by_window,
            false => {
                by_distance * 100 <= by_window * CHOSEN_PERCENT
                    && (by_window - by_distance) * CHOSEN_PART >= nr_pages_max.max(1)
            }
        };
        self.nr_misses = self.nr_misses.map(|of| of - of / SCORE_PARTS);
        self.nr_events = 0;
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let small = self.small.iter().map(Small::memory_bytes);
        let left = self.left.capacity() * size_of::<(PageNumber, u32)>();
        (size_of::<Self>() + left) as u64 + small.sum::<u64>()
    }

    pub(super) fn validate(&self, pages: &Pages, group: GroupId) -> Result<(), String> {
        let is_in = |page: &&Page| page.is_in_memory();
        let followed = || pages.of_group(group).map(|(_, page)| page);
        let (nr_in, nr_out) = (
            followed().filter(is_in).count(),
            followed().filter(|page| !is_in(page)).count(),
        );
        let base_pages = followed().filter(is_in).map(|page| page.order.nr_pages());
        let found = (nr_in, nr_out, base_pages.sum::<u64>());
        let counted = (self.nr_in as usize, self.nr_out, self.nr_base_pages_in);
        if found != counted || self.nr_in > NR_FOLLOWED_MAX {
            return Err(format!(
                "followed of {group:?}, in, out, base pages in: {found:?}, not {counted:?}"
            ));
        }
        let mut small = self.small.iter();
        small.try_for_each(|small| small.validate(pages, group))
    }
}

/// Whether a page has been out of memory since it left with this stamp.
fn is_out_since(pages: &Pages, (page, stamp): (PageNumber, u32)) -> bool {
    pages.is_followed(page) && !pages[page].is_in_memory() && pages.stamp(page) == stamp
}
