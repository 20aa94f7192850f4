//! Departures: what becomes of folios that were tried, or that left unasked.
//!
//! **Owns** verdicts and their counters, shadows' time of making. **Does not own** what a shadow says
//! or where a folio that stays goes: both are the policy's ([`Bookkeeper`]).
//!
//! **Invariants** I1: isolated, evicted by request, evicted by the kernel and rejected are counters of
//! their own.

use super::{Booked, Books};
use crate::{
    folio::Flags,
    ids::FolioId,
    seam::{EvictBatch, GoneCause, Shadow, Verdict},
};

/// What a batch came to, in base pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Completed {
    pub(crate) nr_evicted_pages: u64,
    /// Tried or not, and still in memory.
    pub(crate) nr_kept_pages: u64,
}

/// A policy that keeps books: the part of a departure that depends on its order.
pub(crate) trait Bookkeeper {
    type Lruvec: Booked;

    fn books(&mut self) -> &mut Books<Self::Lruvec>;

    /// The books, to be looked at.
    fn kept(&self) -> &Books<Self::Lruvec>;

    /// Makes the shadow of a folio that leaves, and learns of it.
    fn bury(&mut self, folio: FolioId, flags: Flags) -> Shadow;

    /// Puts a folio of a batch, on no list now, back where it belongs after this verdict.
    fn put_back(&mut self, folio: FolioId, verdict: Verdict);

    /// The verdict that counts, of a folio that is not gone.
    fn settled(&self, _flags: Flags, verdict: Verdict) -> Verdict {
        verdict
    }

    /// A folio left memory unasked.
    fn leave(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow> {
        let flags = self.books().flags(folio);
        assert!(
            flags.is_live() && !flags.is_gone(),
            "{folio:?} is not in memory"
        );
        let shadow = match cause {
            GoneCause::Freed => None,
            GoneCause::Reclaimed => {
                let lruvec = &mut self.books().lruvecs[flags.lruvec()];
                let stats = &mut lruvec.account_mut().stats;
                stats.nr_kernel_evicted_pages[flags.kind().index()] += flags.nr_pages();
                let shadow = self.bury(folio, flags);
                self.books().charge_swap(flags);
                Some(shadow)
            }
        };
        if flags.is_isolated() {
            self.books().set_flags(folio, flags.gone());
        } else {
            self.books().detach(folio);
            self.books().release(folio);
        }
        shadow
    }

    /// Learns what became of the folios of a batch that were to leave, and fills in their shadows.
    fn settle(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) -> Completed {
        assert_eq!(
            batch.folios.len(),
            verdicts.len(),
            "one verdict for each folio of the batch"
        );
        batch.shadows.clear();
        let mut completed = Completed::default();
        for (&folio, &verdict) in batch.folios.iter().zip(verdicts) {
            let flags = self.books().end_isolation(folio);
            let verdict = match flags.is_gone() {
                true => Verdict::Gone,
                false => self.settled(flags, verdict),
            };
            let (kind, nr_pages) = (flags.kind().index(), flags.nr_pages());
            let stats = &mut self.books().lruvecs[flags.lruvec()].account_mut().stats;
            if let Some(reason) = verdict.rejection_index() {
                stats.nr_rejected_pages[reason] += nr_pages;
            }
            let shadow = match verdict {
                Verdict::Evicted => {
                    stats.nr_evicted_pages[kind] += nr_pages;
                    completed.nr_evicted_pages += nr_pages;
                    let shadow = self.bury(folio, flags);
                    self.books().charge_swap(flags);
                    Some(shadow)
                }
                _ => None,
            };
            if matches!(verdict, Verdict::Evicted | Verdict::Gone) {
                self.books().release(folio);
            } else {
                completed.nr_kept_pages += nr_pages;
                self.put_back(folio, verdict);
            }
            batch.shadows.push(shadow);
        }
        completed
    }
}
