//! The lruvec of the policy of our own: two lists, and the counts that time is told by.
//!
//! There is no clock: time is the number of accesses that were heard of, and the number of pages
//! that left.
//!
//! **Owns** sizes, counts, the window and the dials of shadows. **Does not own** folios or lists.
//!
//! **Invariants**
//! - I1: `nr_pages[part][kind]` is the sum of the sizes of the folios on that list of that kind.
//! - I2: counts never go back.

use super::{
    ages::Ages,
    lull::Lull,
    page::Part,
    recency::Recency,
    shadow::{AccessDial, LeftDial},
    walks::Walks,
    window::Window,
};
use crate::{
    books::{Account, Booked, answered_by_fields, two_generations},
    ids::{Kind, TimeMs},
    list::ListId,
    seam::GenerationView,
    swappiness::Swappiness,
};

/// How much of the past the age at the end of the trial forgets with each folio, as a power of two.
const TRIAL_AGE_SHIFT: u32 = 3;

/// Folios of one group on one node.
#[derive(Debug)]
pub(crate) struct Lruvec {
    /// Base pages on lists, by part and kind.
    pub(super) nr_pages: [[u64; 2]; 2],
    /// Base pages in memory when it was last full, as far as is known: what reclaim was asked at.
    pub(super) capacity_pages: u64,
    /// Arrivals, and accesses heard of that were not a folio's first.
    pub(super) nr_accesses: u64,
    /// `nr_accesses` at the last arrival.
    pub(super) nr_accesses_at_arrival: u64,
    /// Base pages that left, by part.
    pub(super) nr_left_pages: [u64; 2],
    /// Average of the accesses that went by between the last access and the leaving of folios on
    /// trial, times `2^TRIAL_AGE_SHIFT`.
    trial_age_sum: u64,
    /// Of the folios on the list of the proven.
    pub(super) ages: Ages,
    pub(super) window: Window,
    pub(super) lull: Lull,
    pub(super) walks: Walks,
    pub(super) recency: Recency,
    pub(super) access_dial: AccessDial,
    pub(super) left_dial: LeftDial,
    pub(super) account: Account,
    birth: TimeMs,
}

impl Booked for Lruvec {
    type Shape = ();

    fn nr_lists((): ()) -> u32 {
        2
    }

    fn new(account: Account, (): (), now: TimeMs) -> Lruvec {
        Lruvec {
            nr_pages: [[0; 2]; 2],
            capacity_pages: 0,
            nr_accesses: 0,
            nr_accesses_at_arrival: 0,
            nr_left_pages: [0; 2],
            trial_age_sum: 0,
            ages: Ages::default(),
            window: Window::default(),
            lull: Lull::default(),
            walks: Walks::default(),
            recency: Recency::default(),
            access_dial: AccessDial::default(),
            left_dial: LeftDial::default(),
            account,
            birth: now,
        }
    }

    answered_by_fields!();

    /// Both kinds are in one order.
    fn list_of(&self, part: usize, _kind: Kind) -> ListId {
        ListId(self.account.first_list.0 + part as u32)
    }

    fn generations(&self, now: TimeMs) -> Vec<GenerationView> {
        two_generations(self.nr_pages, now.since(self.birth))
    }
}

impl Lruvec {
    pub(super) fn list(&self, part: Part) -> ListId {
        self.list_of(part.index(), Kind::Anon)
    }

    /// Base pages on the list of a part.
    pub(super) fn size(&self, part: Part) -> u64 {
        self.nr_pages[part.index()].iter().sum()
    }

    /// Base pages in memory.
    pub(super) fn nr_resident_pages(&self) -> u64 {
        self.size(Part::Trial) + self.size(Part::Proven) + self.account.nr_isolated_pages
    }

    /// Base pages on the list of a part that may be evicted.
    pub(super) fn nr_evictable_pages(&self, part: Part, swappiness: Swappiness) -> u64 {
        let allowed = Kind::ALL
            .into_iter()
            .filter(|kind| swappiness.allows(*kind));
        allowed
            .map(|kind| self.nr_pages[part.index()][kind.index()])
            .sum()
    }

    /// Base pages that the proven may be.
    pub(super) fn proven_pages_max(&self) -> u64 {
        self.capacity_pages
            - self
                .window
                .nr_trial_pages(self.capacity_pages)
                .min(self.capacity_pages)
    }

    /// Whether there is room for more proven folios.
    pub(super) fn has_room_for_proven(&self) -> bool {
        self.size(Part::Proven) < self.proven_pages_max()
    }

    /// Whether anything has ever left: before that there is nothing to learn from.
    pub(super) fn has_overflowed(&self) -> bool {
        self.nr_left_pages != [0; 2]
    }

    /// Whether nothing says yet that who was not accessed for longest is the wrong one to go.
    pub(super) fn is_by_recency(&self) -> bool {
        !self.recency.has_any_returned()
    }

    /// Whether memory fills or might as well: there is nothing to learn from yet.
    pub(super) fn is_filling(&self) -> bool {
        !self.has_overflowed() || self.is_by_recency()
    }

    /// Reclaim is asked for: memory is full.
    pub(super) fn note_full(&mut self) {
        self.capacity_pages = self.nr_resident_pages();
        self.left_dial.fit(self.capacity_pages);
    }

    /// A folio left; what its shadow keeps of the time.
    pub(super) fn note_left(&mut self, part: Part, nr_pages: u64, access_age: u64) -> (u32, u32) {
        if part == Part::Trial {
            self.trial_age_sum += access_age;
            self.trial_age_sum -= self.trial_age_sum >> TRIAL_AGE_SHIFT;
        }
        let left = &mut self.nr_left_pages[part.index()];
        *left += nr_pages;
        let accessed_at = self.nr_accesses.saturating_sub(access_age);
        (
            self.access_dial.reading(accessed_at),
            self.left_dial.reading(*left),
        )
    }

    /// Accesses between the last access and the leaving of folios on trial.
    pub(super) fn trial_age(&self) -> u64 {
        self.trial_age_sum >> TRIAL_AGE_SHIFT
    }
}
