//! Eviction: which folio goes next, and what becomes of a batch.
//!
//! ```text
//!   arrive -> [ trial  ................ ] --not accessed again--> evicted
//!                  |             ^    \
//!                  | passed      |     accessed again, failed the test: once more
//!                  v             |
//!             [ proven ................ ] --no access since the hand passed--> evicted
//!                  ^                |
//!                  +--- accessed ---+   one count less
//! ```
//!
//! An access changes a folio's flags and its stamp; lists are put in order here, at their old ends.
//!
//! **Owns** the order of the lists, batches, verdicts, departures. **Does not own** the test
//! (`arrival`) or how long the lists are (`window`).
//!
//! **Invariants**
//! - I1: an isolated folio is on no list, in no part's size, and in one batch.
//! - I2: isolated, evicted by request, evicted by the kernel and rejected are counters of their own.

use super::{Strata, page::Part};
use crate::{
    error::PolicyError,
    ids::FolioId,
    rules::ListEnd,
    seam::{EvictBatch, Isolated, ReclaimRequest, Verdict},
    swappiness::Swappiness,
};

/// Proven folios that an arrival moves out of the way at most. Each was accessed for it, so on
/// average it is fewer than one an access.
const NR_ROTATED_MAX: u32 = 4096;

impl Strata {
    /// Fills a batch from the nodes of a group.
    pub(super) fn isolate_from_group(
        &mut self,
        request: ReclaimRequest,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        batch.clear();
        let nr_lruvecs = self.books.group(request.group)?.lruvecs.len();
        let mut nr_pages = 0;
        for position in 0..nr_lruvecs {
            let lruvec = usize::from(self.books.group(request.group)?.lruvecs[position]);
            let state = &mut self.books.lruvecs[lruvec];
            if request.node.is_some_and(|only| only != state.account.node) {
                continue;
            }
            state.note_full();
            let swappiness = request.one_pass.map_or(request.swappiness, |of| {
                of.swappiness_on(state.account.node, request.swappiness)
            });
            while nr_pages < request.nr_pages
                && let Some(folio) = self.next_victim(lruvec, swappiness)
            {
                nr_pages += self.isolate_folio(folio);
                batch.folios.push(folio);
            }
        }
        Ok(match nr_pages {
            0 => Isolated::Empty,
            _ => Isolated::Pages(nr_pages),
        })
    }

    /// Sorts the old ends of the lists until a folio is found that may go; it is still on its list.
    fn next_victim(&mut self, lruvec: usize, swappiness: Swappiness) -> Option<FolioId> {
        loop {
            let state = &mut self.books.lruvecs[lruvec];
            let of_trial = state.nr_evictable_pages(Part::Trial, swappiness);
            let of_proven = state.nr_evictable_pages(Part::Proven, swappiness);
            if of_trial + of_proven == 0 {
                return None;
            }
            let is_scan = state.recency.is_scan(state.capacity_pages);
            if state.is_by_recency() && !is_scan {
                return self.least_recent(lruvec, swappiness);
            }
            state.recency.note_disordered();
            let is_proven_too_long = state.size(Part::Proven) > state.proven_pages_max();
            let part = if of_trial == 0 || is_proven_too_long && of_proven > 0 {
                Part::Proven
            } else {
                Part::Trial
            };
            let folio = self.books.lists.tail(state.list(part))?;
            let nr_pages = self.flags(folio).nr_pages();
            self.books.lruvecs[lruvec].account.stats.nr_scanned_pages += nr_pages;
            if self.is_kept(folio, part, swappiness) {
                self.detach(folio);
                self.enter(folio);
            } else {
                return Some(folio);
            }
        }
    }

    /// Whether the folio at the old end of a list stays, and with which flags.
    fn is_kept(&mut self, folio: FolioId, part: Part, swappiness: Swappiness) -> bool {
        let flags = self.flags(folio);
        let state = &mut self.books.lruvecs[flags.lruvec()];
        let refs = flags.refs_field();
        let flags = match part {
            Part::Trial if flags.is_workingset() || refs > 0 && state.has_room_for_proven() => {
                state.account.stats.nr_promoted_pages += flags.nr_pages();
                flags.with_workingset(true).with_refs_field(0)
            }
            Part::Trial if refs > 0 => flags.with_refs_field(0),
            Part::Proven if refs > 0 => {
                let kind = flags.kind().index();
                state.account.stats.nr_protected_pages[kind][0] += flags.nr_pages();
                flags.with_refs_field(refs - 1)
            }
            // Looked past, not looked at.
            Part::Trial | Part::Proven => return !swappiness.allows(flags.kind()),
        };
        self.books.set_flags(folio, flags);
        true
    }

    /// Moves accessed folios away from the old end of the proven list, so that its last one is a
    /// fair measure of how long a proven folio goes without an access.
    pub(super) fn rotate_proven(&mut self, lruvec: usize) {
        if self.books.lruvecs[lruvec].is_filling() {
            return;
        }
        let list = self.books.lruvecs[lruvec].list(Part::Proven);
        for _ in 0..NR_ROTATED_MAX {
            let Some(folio) = self.books.lists.tail(list) else {
                return;
            };
            let flags = self.flags(folio);
            let Some(refs) = flags.refs_field().checked_sub(1) else {
                return;
            };
            self.books.set_flags(folio, flags.with_refs_field(refs));
            self.books.lists.remove(&mut self.books.folios, folio);
            self.books
                .lists
                .push_head(&mut self.books.folios, list, folio);
        }
    }

    fn isolate_folio(&mut self, folio: FolioId) -> u64 {
        self.stop_ageing(folio);
        self.books.isolate(folio);
        let flags = self.flags(folio);
        let nr_pages = flags.nr_pages();
        let stats = &mut self.books.lruvecs[flags.lruvec()].account.stats;
        stats.nr_isolated_pages += nr_pages;
        nr_pages
    }

    /// A folio was tried and stays.
    pub(super) fn keep(&mut self, folio: FolioId, verdict: Verdict) {
        if verdict == Verdict::Referenced {
            let flags = self.flags(folio);
            self.books.lruvecs[flags.lruvec()]
                .account
                .stats
                .nr_young_pages += flags.nr_pages();
            self.heard_of(folio);
            // The way to the young end is what this access earns.
            self.books.folios.flags[folio.index()] =
                self.flags(folio).with_refs_field(flags.refs_field());
        }
        self.enter(folio);
    }

    /// Puts a folio that is on no list at the young end of the list it belongs to.
    pub(super) fn enter(&mut self, folio: FolioId) {
        let part = self.flags(folio).home();
        self.books.enter(folio, part.index(), ListEnd::Young);
        if part == Part::Proven {
            let (lruvec, age) = (self.flags(folio).lruvec(), self.age(folio));
            let state = &mut self.books.lruvecs[lruvec];
            state.ages.add(age, state.nr_accesses);
        }
    }

    /// Takes a folio off its list and out of its size.
    pub(super) fn detach(&mut self, folio: FolioId) {
        self.stop_ageing(folio);
        self.books.detach(folio);
    }

    /// A folio is about to leave its list: it counts no more among the ages of the proven.
    pub(super) fn stop_ageing(&mut self, folio: FolioId) {
        let (flags, age) = (self.flags(folio), self.age(folio));
        if flags.part() == Some(Part::Proven) {
            let state = &mut self.books.lruvecs[flags.lruvec()];
            state.ages.remove(age, state.nr_accesses);
        }
    }
}

impl Strata {
    /// The folio whose last access is longest ago, of those that may go; it is still on its list.
    pub(super) fn least_recent(
        &mut self,
        lruvec: usize,
        swappiness: Swappiness,
    ) -> Option<FolioId> {
        let in_order = self.least_recent_in_order(lruvec, swappiness);
        if in_order.is_some() {
            return in_order;
        }
        self.sort(lruvec);
        self.least_recent_in_order(lruvec, swappiness)
    }

    fn least_recent_in_order(&mut self, lruvec: usize, swappiness: Swappiness) -> Option<FolioId> {
        match Part::ALL.map(|part| self.least_recent_of(lruvec, part, swappiness)) {
            [Some(on_trial), Some(proven)] if self.age(on_trial) > self.age(proven) => {
                Some(on_trial)
            }
            [on_trial, proven] => proven.or(on_trial),
        }
    }

    /// The folio of one list whose last access is longest ago, of the folios that are in order still.
    fn least_recent_of(
        &mut self,
        lruvec: usize,
        part: Part,
        swappiness: Swappiness,
    ) -> Option<FolioId> {
        let state = &self.books.lruvecs[lruvec];
        if state.recency.is_used_up[part.index()] {
            return None;
        }
        let list = state.list(part);
        let age_of_order = state.nr_accesses - state.recency.sorted_at;
        let mut first_passed = None;
        while let Some(folio) = self.books.lists.tail(list)
            && first_passed != Some(folio)
        {
            let flags = self.flags(folio);
            let stats = &mut self.books.lruvecs[lruvec].account.stats;
            stats.nr_scanned_pages += flags.nr_pages();
            if self.age(folio) >= age_of_order && swappiness.allows(flags.kind()) {
                return Some(folio);
            }
            first_passed.get_or_insert(folio);
            let (lists, folios) = (&mut self.books.lists, &mut self.books.folios);
            lists.remove(folios, folio);
            lists.push_head(folios, list, folio);
        }
        self.books.lruvecs[lruvec].recency.is_used_up[part.index()] = true;
        None
    }

    /// Puts both lists in the order of last use.
    fn sort(&mut self, lruvec: usize) {
        let state = &mut self.books.lruvecs[lruvec];
        let now = state.nr_accesses;
        state.recency.sorted_at = now;
        state.recency.is_used_up = [false; 2];
        let stamps = &self.stamps;
        let age = |folio: FolioId| (now as u32).wrapping_sub(stamps[folio.index()]);
        for list in Part::ALL.map(|part| state.list(part)) {
            self.books.lists.sort(&mut self.books.folios, list, age);
        }
    }
}
