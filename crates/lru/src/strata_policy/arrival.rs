//! Arrivals and accesses: where a folio begins, and when it has proven itself.
//!
//! The test is that of LIRS (Jiang and Zhang, 2002), told by time stamps instead of a stack: a folio
//! that is accessed again after fewer accesses than the coldest proven one has gone without deserves
//! its place more. It holds for a folio on trial and, through its shadow, for one that has left.
//!
//! ```text
//!   arrives, nothing known                          -> trial
//!   arrives, left not long ago, passes the test     -> proven
//!   on trial, accessed again, passes the test       -> marked; eviction moves it when it gets there
//! ```
//!
//! **Owns** placement, counting, the judgement of returns. **Does not own** the lists' order
//! (`eviction`).

use super::{
    Strata,
    ages::Ages,
    page::Part,
    shadow::Departed,
    window::{Evidence, NEVER, Window},
};
use crate::{ids::FolioId, seam::Shadow};

/// What a shadow says of a folio that comes back.
#[derive(Clone, Copy, Debug)]
struct Return {
    is_proven: bool,
    /// Left the trial so lately that a slightly longer one would have kept it.
    is_near: bool,
}

impl Strata {
    /// Places a folio that is on no list yet.
    pub(super) fn arrive(&mut self, folio: FolioId, shadow: Option<Shadow>) {
        let flags = self.flags(folio);
        let lruvec = flags.lruvec();
        self.rotate_proven(lruvec);
        let was_filling = self.books.lruvecs[lruvec].is_filling();
        let returns = shadow.and_then(|shadow| self.judge(folio, shadow));
        let coldest_age = self.coldest_age(lruvec);
        if returns.is_some() {
            self.books.lruvecs[lruvec].lull.note_returned();
        }
        let state = &mut self.books.lruvecs[lruvec];
        state.nr_accesses += 1;
        state.recency.note_arrived(flags.nr_pages());
        let nr_accesses = state.nr_accesses - state.nr_accesses_at_arrival;
        state.nr_accesses_at_arrival = state.nr_accesses;
        let is_filling = state.is_filling();
        if !is_filling || coldest_age < NEVER {
            state.access_dial.fit(coldest_age);
        }
        if !is_filling {
            let smoothed_age = state.window.coldest_age();
            state
                .lull
                .fit(coldest_age.max(smoothed_age), state.nr_accesses);
            let evidence = Evidence {
                nr_pages: state.capacity_pages,
                nr_accesses,
                coldest_age,
                is_near: returns.is_some_and(|of| of.is_near),
                is_lull: state.lull.refutes(state.size(Part::Proven), smoothed_age),
            };
            state.window.learn(evidence);
        }
        self.stamp(folio);
        if returns.is_some_and(|of| of.is_proven) {
            let flags = self.flags(folio).with_workingset(true);
            self.books.set_flags(folio, flags);
            self.books.lruvecs[lruvec].account.stats.nr_promoted_pages += flags.nr_pages();
        }
        self.enter(folio);
        let is_over = was_filling && !is_filling;
        if is_over || !self.books.lruvecs[lruvec].has_overflowed() {
            self.spread(lruvec);
        }
    }

    /// An access was heard of: counted, and the test made.
    pub(super) fn heard_of(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        debug_assert!(!flags.is_gone(), "{folio:?} is not in memory");
        if flags.is_referenced() {
            let lruvec = flags.lruvec();
            self.books.lruvecs[lruvec].nr_accesses += 1;
            let age = self.age(folio);
            let state = &mut self.books.lruvecs[lruvec];
            state.lull.note_accessed(age, state.nr_accesses);
            state.recency.note_accessed();
            let passes = flags.is_workingset() || age < self.coldest_for_certain(lruvec);
            let flags = flags.with_one_more_ref();
            self.books.set_flags(folio, flags.with_workingset(passes));
        } else {
            // The arrival's own.
            self.books.set_flags(folio, flags.with_referenced(true));
        }
        self.stamp(folio);
    }

    /// Accesses since the folio's last one.
    pub(super) fn age(&self, folio: FolioId) -> u64 {
        let now = self.books.lruvecs[self.flags(folio).lruvec()].nr_accesses as u32;
        u64::from(now.wrapping_sub(self.stamps[folio.index()]))
    }

    /// Accesses since the last one of the coldest proven folio: of the one that is next to go, or as
    /// many as the mean says; [`NEVER`] without one.
    pub(super) fn coldest_age(&self, lruvec: usize) -> u64 {
        self.coldest_by(lruvec, Ages::coldest_at_least)
    }

    /// As [`Strata::coldest_age`], but what nobody can doubt: the coldest has waited as long as all have on
    /// average. Whoever is proven by less would take the place of one that is asked for sooner: in a
    /// loop all come back as late as each other.
    pub(super) fn coldest_for_certain(&self, lruvec: usize) -> u64 {
        self.coldest_by(lruvec, Ages::mean)
    }

    fn coldest_by(&self, lruvec: usize, of_ages: fn(Ages, u64) -> u64) -> u64 {
        let state = &self.books.lruvecs[lruvec];
        let Some(next) = self.books.lists.tail(state.list(Part::Proven)) else {
            return NEVER;
        };
        self.age(next).max(of_ages(state.ages, state.nr_accesses))
    }

    fn stamp(&mut self, folio: FolioId) {
        let (flags, age) = (self.flags(folio), self.age(folio));
        let state = &mut self.books.lruvecs[flags.lruvec()];
        if flags.part() == Some(Part::Proven) {
            state.ages.renew(age, state.nr_accesses);
        }
        self.stamps[folio.index()] = state.nr_accesses as u32;
    }

    /// Judges the return of a folio; `None` if its shadow tells nothing, or no more: as many pages as
    /// memory holds have left its part since.
    fn judge(&mut self, folio: FolioId, shadow: Shadow) -> Option<Return> {
        let flags = self.flags(folio);
        let departed = Departed::unpack(shadow);
        if !departed.is_of(flags) {
            return None;
        }
        self.books.lruvecs[flags.lruvec()].recency.note_returned();
        let coldest_age = self.coldest_age(flags.lruvec());
        let certain_age = self.coldest_for_certain(flags.lruvec());
        let state = &mut self.books.lruvecs[flags.lruvec()];
        let (kind, nr_pages) = (flags.kind().index(), flags.nr_pages());
        state.account.stats.nr_refaulted_pages[kind][0] += nr_pages;
        let nr_left_pages = state.nr_left_pages[departed.part.index()];
        let distance = state.left_dial.since(departed.left, nr_left_pages);
        if distance > state.capacity_pages {
            return None;
        }
        state.account.stats.nr_refaulted_recent_pages[kind][0] += nr_pages;
        let age = state
            .access_dial
            .since_at_most(departed.accessed, state.nr_accesses);
        let near = Window::near_pages(state.capacity_pages, state.trial_age(), coldest_age);
        Some(Return {
            is_proven: age < certain_age || state.has_room_for_proven(),
            is_near: departed.part == Part::Trial && distance <= near,
        })
    }

    /// While memory fills, and when that is over, the oldest are taken for proven: there is nothing to
    /// choose by.
    fn spread(&mut self, lruvec: usize) {
        loop {
            let state = &mut self.books.lruvecs[lruvec];
            state.capacity_pages = state.nr_resident_pages();
            let is_full = state.size(Part::Proven) >= state.proven_pages_max();
            let oldest = self.books.lists.tail(state.list(Part::Trial));
            let Some(folio) = oldest.filter(|_| !is_full) else {
                return;
            };
            self.detach(folio);
            self.books
                .set_flags(folio, self.flags(folio).with_workingset(true));
            self.enter(folio);
        }
    }
}
