//! Which folios would be evicted next, in order, without evicting any.
//!
//! The order is not one list read from its end: eviction sorts as it goes, spares tiers by how what was
//! let go before them came back, deactivates, gives second chances. So it is played out: the very code
//! of [`Policy::isolate`] and [`Policy::complete`] takes page after page of a copy of the group's lists
//! ([`crate::books::Excerpt`]).
//!
//! What it costs (a million folios of one group, 2 cores): the copy, once, 12 bytes and 15 ns for each
//! folio of the group and kind while lists run through memory in order, 100 ns where they run to and fro; then
//! 110 ns for each folio asked for. The copy is of both kinds where both are on one list, and there (`strata`)
//! its lists are sorted on top while nothing has come back yet.
//!
//! **Owns** the playing out. **Does not own** any order, or the copy.
//!
//! **Invariants** I1: no folio comes twice, and each was in memory and on a list when it was asked for.

use crate::{
    ids::{FolioId, GroupId, Kind, TimeMs},
    seam::{EvictBatch, Isolated, Policy, ReclaimRequest, Swappiness, Verdict},
};

/// Takes a policy apart that is a copy, page after page.
#[derive(Debug)]
pub(crate) struct PlayedOut<P> {
    copy: P,
    /// By folio of the copy: the real one.
    originals: Vec<FolioId>,
    request: ReclaimRequest,
    now: TimeMs,
    batch: EvictBatch,
    has_ended: bool,
}

impl<P: Policy> PlayedOut<P> {
    /// Of one kind of a group of `copy`, in whose place the `originals` are named.
    pub(crate) fn new(
        copy: P,
        group: GroupId,
        originals: Vec<FolioId>,
        kind: Kind,
        now: TimeMs,
    ) -> PlayedOut<P> {
        let swappiness = match kind {
            Kind::Anon => Swappiness::ANON_ONLY,
            Kind::File => Swappiness::FILE_ONLY,
        };
        PlayedOut {
            copy,
            originals,
            request: ReclaimRequest {
                swappiness,
                ..ReclaimRequest::new(group, 1)
            },
            now,
            batch: EvictBatch::default(),
            has_ended: false,
        }
    }
}

impl<P: Policy> Iterator for PlayedOut<P> {
    type Item = FolioId;

    fn next(&mut self) -> Option<FolioId> {
        // Ends: what is looked at without being taken becomes younger or inactive, and nothing arrives.
        while !self.has_ended {
            let answer = self
                .copy
                .isolate(self.request, self.now, &mut self.batch)
                .unwrap_or(Isolated::Empty);
            match answer {
                Isolated::Pages(_) | Isolated::Again => {}
                Isolated::NeedsAgeing | Isolated::Thrashing | Isolated::Empty => {
                    self.has_ended = true;
                    break;
                }
            }
            debug_assert!(self.batch.folios.len() <= 1, "one page was asked for");
            let taken = self.batch.folios.first().copied();
            let verdicts: &[Verdict] = match taken {
                Some(_) => &[Verdict::Evicted],
                None => &[],
            };
            self.copy.complete(&mut self.batch, verdicts);
            if let Some(folio) = taken {
                return Some(self.originals[folio.index()]);
            }
        }
        None
    }
}
