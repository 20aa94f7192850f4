//! Refaults: what the return of an evicted folio says of the active list (rules 4.2 and 4.3).
//!
//! Had memory been larger by as much as left since the folio did, it would still be here. If that
//! is no more than what is active, the folio deserves its place as much as they do: it enters the
//! active list, and the active list is questioned.
//!
//! | rule                  | what makes nonresident folios older          | made active                            | and the active list |
//! |-----------------------|----------------------------------------------|----------------------------------------|---------------------|
//! | [`Refault::Window`]   | evictions, activations, refaults made active | up to the distance of what else is active | is questioned    |
//! | [`Refault::Series`]   | evictions                                    | all below the distance of what is active, or inactive if less | is questioned |
//! | [`Refault::Distance`] | evictions                                    | one in a few, by distance in memory (`distance`) | is not, and keeps what is known and used |
//!
//! The first is the kernel's. The second is as worded in the third version of the series of 2023, the third after that series of 2023 "refault distance", which wants one
//! algorithm for both LRUs. Its clock is as described (patch 1), and so is its model: a folio that returns would
//! have had to stay for its distance and the length of the inactive list, which memory is long enough for if the
//! distance is no more than what is active. As worded the test keeps
//! nothing of a set that is read round and round in a group of its own, for three reasons; ours departs there:
//! - *It can't begin.* Where nothing is active, no distance is below it. So distance is judged against memory
//!   as a whole, as the series does for generations.
//! - *All that return displace each other.* Each is made active, and as long as memory is small (below
//!   1 GiB the active list may be no longer than the inactive one) each makes another inactive, before any
//!   is used again. The series throttles that by the inactive list's length, which works where the active
//!   one may be many times as long. So few are made active, and stay for as many rounds.
//! - *Each that is made active has the whole active list questioned*, which shrinks it as fast as it
//!   grows. A chance says nothing of what is active, so here it does not.
//!
//! Besides, folios that were deactivated before, came back and are in use stay active until they are met
//! unused (`reclaim`), as generations spare their working set.
//!
//! With [`Refault::Trial`] it is the one or the other, group by group; what left before a change is judged by a
//! clock that went otherwise until then. What was tried, what it comes to, and where it is the worse for
//! it, is in docs/validation/benchmarks/distance.md.
//!
//! **Owns** the judgement and the tests. **Does not own** the clock and the chances (`distance`).

use super::{TwoList, lruvec::Lruvec, page::Half};
use crate::{
    config::Refault,
    distance::{Departed, Sizes},
    folio::Flags,
    ids::{FolioId, Kind},
    seam::{Cause, Shadow},
};

impl Lruvec {
    /// Makes the shadow of a folio that leaves, and counts its leaving.
    pub(super) fn bury(&mut self, flags: Flags) -> Shadow {
        self.account.stats.nr_left_pages[flags.kind().index()][0] += flags.nr_pages();
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

    /// Whether a return is one of those that are made active by distance.
    fn is_given_chance(&mut self, cause: Cause, distance: u64, has_swap: bool) -> bool {
        let of = |kind| {
            Half::ALL
                .map(|half| self.size(half, kind))
                .iter()
                .sum::<u64>()
        };
        let memory = of(Kind::File) + of(Kind::Anon) * u64::from(has_swap);
        self.nr_returns.gives_chance(cause, distance, memory)
    }
}

impl TwoList {
    /// Judges the return of a folio that is on no list yet; the list it enters.
    pub(super) fn refault(&mut self, folio: FolioId, shadow: Shadow, cause: Cause) -> Half {
        let flags = self.flags(folio);
        let departed = Departed::unpack(shadow);
        // Charged elsewhere now, or another page at the same place: the shadow tells nothing.
        if !departed.is_of(flags) {
            return Half::Inactive;
        }
        let lruvec = &mut self.books.lruvecs[flags.lruvec()];
        let rule = self.judge.rule(lruvec.account.group);
        let (kind, nr_pages) = (flags.kind(), flags.nr_pages());
        lruvec.account.stats.nr_refaulted_pages[kind.index()][0] += nr_pages;
        let distance = lruvec.clock.since(departed.reading);
        let is_wanted = match rule {
            Refault::Distance => lruvec.is_given_chance(cause, distance, self.has_swap),
            Refault::Series => {
                let of = |half| Kind::ALL.map(|kind| lruvec.size(half, kind));
                let sizes = Sizes {
                    active: of(Half::Active),
                    inactive: of(Half::Inactive),
                };
                sizes.keep_series(kind, distance, self.has_swap)
            }
            Refault::Window | Refault::Trial => {
                lruvec.is_within_workingset(kind, distance, self.has_swap)
            }
        };
        if !is_wanted {
            return Half::Inactive;
        }
        lruvec.account.stats.nr_refaulted_recent_pages[kind.index()][0] += nr_pages;
        lruvec.nr_activated_refault_pages[kind.index()] += nr_pages;
        match rule {
            Refault::Distance => lruvec.see_chance(kind, nr_pages),
            Refault::Series => {}
            Refault::Window | Refault::Trial => lruvec.age_nonresident(nr_pages),
        }
        if departed.is_workingset {
            lruvec.note_cost(kind, nr_pages, 0);
            self.books.set_flags(folio, flags.with_workingset(true));
        }
        Half::Active
    }
}
