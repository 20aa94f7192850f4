//! Refaults: what the return of an evicted folio says of the active list (rules 4.2 and 4.3).
//!
//! Had memory been larger by as much as left since the folio did, it would still be here. If that
//! is no more than what is active, the folio deserves its place as much as they do: it enters the
//! active list, and the active list is questioned.
//!
//! | rule                  | what makes nonresident folios older            | made active at a distance            |
//! |-----------------------|------------------------------------------------|--------------------------------------|
//! | [`Refault::Window`]   | evictions, activations, refaults made active   | up to what else is active            |
//! | [`Refault::Distance`] | evictions                                      | below what is active, or inactive if less |
//!
//! The first is the kernel's, the second the test of the 2023 series "refault distance" (patches 1
//! and 2), which throttles challenges against a large active list. With [`Refault::Trial`] it is the one or
//! the other, group by group; what left before a change is judged by a clock that went otherwise until then.
//!
//! **Owns** the judgement and the tests. **Does not own** the clock (`distance`).

use super::{TwoList, lruvec::Lruvec, page::Half};
use crate::{
    distance::Departed,
    folio::Flags,
    ids::{FolioId, Kind},
    seam::Shadow,
};

impl Lruvec {
    /// Makes the shadow of a folio that leaves, and counts its leaving.
    pub(super) fn bury(&mut self, flags: Flags) -> Shadow {
        self.clock.widen(self.nr_listed_pages());
        let shadow = Departed::new(flags, 0, flags.is_workingset(), self.clock).pack();
        self.clock.advance(flags.nr_pages());
        shadow
    }

    /// The kernel's test: what is active, and the other kind's inactive folios, which the folio
    /// did not compete with, have to yield no more than they are.
    fn is_within_workingset(&self, kind: Kind, distance: u64, has_swap: bool) -> bool {
        let other = match kind {
            Kind::Anon => Kind::File,
            Kind::File => Kind::Anon,
        };
        let counts = |kind: Kind| kind == Kind::File || has_swap;
        let active = Kind::ALL.into_iter().filter(|kind| counts(*kind));
        let active: u64 = active.map(|kind| self.size(Half::Active, kind)).sum();
        let inactive = self.size(Half::Inactive, other) * u64::from(counts(other));
        distance <= active + inactive
    }

    /// The series' test: how much of the active list a challenger may reach.
    fn may_challenge(&self, kind: Kind, distance: u64, has_swap: bool) -> bool {
        let swappable = |half| self.size(half, Kind::Anon) * u64::from(has_swap);
        let active = self.size(Half::Active, Kind::File) + swappable(Half::Active);
        let inactive_file = self.size(Half::Inactive, Kind::File);
        let inactive_anon = swappable(Half::Inactive);
        let inactive = inactive_file + inactive_anon;
        let reach = if active >= inactive {
            inactive
        } else {
            active
                + match kind {
                    Kind::Anon => inactive_file,
                    Kind::File => inactive_anon,
                }
        };
        distance < reach
    }
}

impl TwoList {
    /// Judges the return of a folio that is on no list yet; the list it enters.
    pub(super) fn refault(&mut self, folio: FolioId, shadow: Shadow) -> Half {
        let flags = self.flags(folio);
        let departed = Departed::unpack(shadow);
        // Charged elsewhere now, or another page at the same place: the shadow tells nothing.
        if !departed.is_of(flags) {
            return Half::Inactive;
        }
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        let is_by_distance = self.judge.is_by_distance(lruvec.account.group);
        let (kind, nr_pages) = (flags.kind(), flags.nr_pages());
        lruvec.account.stats.nr_refaulted_pages[kind.index()][0] += nr_pages;
        let distance = lruvec.clock.since(departed.reading);
        let is_wanted = match is_by_distance {
            false => lruvec.is_within_workingset(kind, distance, self.has_swap),
            true => lruvec.may_challenge(kind, distance, self.has_swap),
        };
        if !is_wanted {
            return Half::Inactive;
        }
        if !is_by_distance {
            lruvec.age_nonresident(nr_pages);
        }
        lruvec.account.stats.nr_refaulted_recent_pages[kind.index()][0] += nr_pages;
        lruvec.own_stats.nr_activated_refault_pages[kind.index()] += nr_pages;
        if departed.is_workingset {
            lruvec.own_stats.nr_restored_pages[kind.index()] += nr_pages;
            lruvec.note_cost(kind, nr_pages, 0);
            self.books.set_flags(folio, flags.with_workingset(true));
        }
        Half::Active
    }
}
