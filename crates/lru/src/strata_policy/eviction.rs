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

use super::{Strata, page::Part, shadow::Departed};
use crate::{
    folio::Flags,
    ids::FolioId,
    seam::{
        EvictBatch, GoneCause, Isolated, PolicyError, ReclaimRequest, Shadow, Swappiness, Verdict,
    },
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
        let nr_lruvecs = self.group(request.group)?.lruvecs.len();
        let mut nr_pages = 0;
        for position in 0..nr_lruvecs {
            let lruvec = usize::from(self.group(request.group)?.lruvecs[position]);
            let state = &mut self.lruvecs[lruvec];
            if request.node.is_some_and(|only| only != state.node) {
                continue;
            }
            state.note_full();
            while nr_pages < request.nr_pages
                && let Some(folio) = self.next_victim(lruvec, request.swappiness)
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
            let state = &self.lruvecs[lruvec];
            let of_trial = state.nr_evictable_pages(Part::Trial, swappiness);
            let of_proven = state.nr_evictable_pages(Part::Proven, swappiness);
            if of_trial + of_proven == 0 {
                return None;
            }
            let is_proven_too_long = state.size(Part::Proven) > state.proven_pages_max();
            let part = if of_trial == 0 || is_proven_too_long && of_proven > 0 {
                Part::Proven
            } else {
                Part::Trial
            };
            let folio = self.lists.tail(state.list(part))?;
            let nr_pages = self.flags(folio).nr_pages();
            self.lruvecs[lruvec].stats.nr_scanned_pages += nr_pages;
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
        let state = &mut self.lruvecs[flags.lruvec()];
        let refs = flags.refs_field();
        let flags = match part {
            Part::Trial if flags.is_workingset() || refs > 0 && state.has_room_for_proven() => {
                state.stats.nr_promoted_pages += flags.nr_pages();
                flags.with_workingset(true).with_refs_field(0)
            }
            Part::Trial if refs > 0 => flags.with_refs_field(0),
            Part::Proven if refs > 0 => {
                state.stats.nr_protected_pages += flags.nr_pages();
                flags.with_refs_field(refs - 1)
            }
            // Looked past, not looked at.
            Part::Trial | Part::Proven => return !swappiness.allows(flags.kind()),
        };
        self.folios.flags[folio.index()] = flags;
        true
    }

    /// Moves accessed folios away from the old end of the proven list, so that its last one is a
    /// fair measure of how long a proven folio goes without an access.
    pub(super) fn rotate_proven(&mut self, lruvec: usize) {
        if !self.lruvecs[lruvec].has_overflowed() {
            return;
        }
        let list = self.lruvecs[lruvec].list(Part::Proven);
        for _ in 0..NR_ROTATED_MAX {
            let Some(folio) = self.lists.tail(list) else {
                return;
            };
            let flags = self.flags(folio);
            let Some(refs) = flags.refs_field().checked_sub(1) else {
                return;
            };
            self.folios.flags[folio.index()] = flags.with_refs_field(refs);
            self.lists.remove(&mut self.folios, folio);
            self.lists.push_head(&mut self.folios, list, folio);
        }
    }

    fn isolate_folio(&mut self, folio: FolioId) -> u64 {
        self.detach(folio);
        let flags = self.flags(folio);
        let nr_pages = flags.nr_pages();
        self.folios.flags[folio.index()] = flags.isolated();
        let state = &mut self.lruvecs[flags.lruvec()];
        state.nr_isolated_pages += nr_pages;
        state.stats.nr_isolated_pages += nr_pages;
        nr_pages
    }

    /// Learns what became of a batch.
    pub(super) fn complete_batch(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        assert_eq!(
            batch.folios.len(),
            verdicts.len(),
            "one verdict for each folio"
        );
        batch.shadows.clear();
        for (&folio, &verdict) in batch.folios.iter().zip(verdicts) {
            let flags = self.flags(folio);
            assert!(flags.is_isolated(), "{folio:?} is in no batch");
            let nr_pages = flags.nr_pages();
            let verdict = if flags.is_gone() {
                Verdict::Gone
            } else {
                verdict
            };
            let state = &mut self.lruvecs[flags.lruvec()];
            state.nr_isolated_pages -= nr_pages;
            if let Some(reason) = verdict.rejection_index() {
                state.stats.nr_rejected_pages[reason] += nr_pages;
            }
            self.folios.flags[folio.index()] = flags.with_generation(None);
            let shadow = match verdict {
                Verdict::Evicted => {
                    let stats = &mut self.lruvecs[flags.lruvec()].stats;
                    stats.nr_evicted_pages[flags.kind().index()] += nr_pages;
                    Some(self.bury(folio))
                }
                _ => None,
            };
            match verdict {
                Verdict::Evicted | Verdict::Gone => self.release(folio),
                _ => self.put_back(folio, verdict),
            }
            batch.shadows.push(shadow);
        }
    }

    /// A folio was tried and stays.
    fn put_back(&mut self, folio: FolioId, verdict: Verdict) {
        if verdict == Verdict::Referenced {
            let flags = self.flags(folio);
            self.lruvecs[flags.lruvec()].stats.nr_young_pages += flags.nr_pages();
            self.heard_of(folio);
            // The way to the young end is what this access earns.
            self.folios.flags[folio.index()] =
                self.flags(folio).with_refs_field(flags.refs_field());
        }
        self.enter(folio);
    }

    /// A folio left memory unasked.
    pub(super) fn leave(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow> {
        let flags = self.flags(folio);
        assert!(
            flags.is_live() && !flags.is_gone(),
            "{folio:?} is not in memory"
        );
        let shadow = match cause {
            GoneCause::Freed => None,
            GoneCause::Reclaimed => {
                let state = &mut self.lruvecs[flags.lruvec()];
                state.note_full();
                state.stats.nr_kernel_evicted_pages[flags.kind().index()] += flags.nr_pages();
                Some(self.bury(folio))
            }
        };
        if flags.is_isolated() {
            self.folios.flags[folio.index()] = flags.gone();
        } else {
            self.detach(folio);
            self.release(folio);
        }
        shadow
    }

    /// Makes the shadow of a folio that leaves, and counts its leaving.
    fn bury(&mut self, folio: FolioId) -> Shadow {
        let age = self.age(folio);
        let flags = self.flags(folio);
        let state = &mut self.lruvecs[flags.lruvec()];
        let (accessed, left) = state.note_left(flags.home(), flags.nr_pages(), age);
        self.charge_swap(flags.lruvec(), flags.kind(), flags.nr_pages());
        Departed::new(flags, accessed, left).pack()
    }

    /// Puts a folio that is on no list at the young end of the list it belongs to.
    pub(super) fn enter(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        let part = flags.home();
        let state = &mut self.lruvecs[flags.lruvec()];
        state.nr_pages[part.index()][flags.kind().index()] += flags.nr_pages();
        let list = state.list(part);
        self.folios.flags[folio.index()] = flags.with_part(Some(part));
        self.lists.push_head(&mut self.folios, list, folio);
    }

    /// Takes a folio off its list and out of its size.
    pub(super) fn detach(&mut self, folio: FolioId) {
        let flags: Flags = self.flags(folio);
        if let Some(part) = flags.part() {
            let state = &mut self.lruvecs[flags.lruvec()];
            state.nr_pages[part.index()][flags.kind().index()] -= flags.nr_pages();
            self.lists.remove(&mut self.folios, folio);
        }
        self.folios.flags[folio.index()] = flags.with_part(None);
    }
}
