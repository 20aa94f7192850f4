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
    error::PolicyError,
    ids::{FolioId, GroupId, Kind, TimeMs},
    policy::Policy,
    seam::{EvictBatch, Isolated, ReclaimRequest, Verdict},
    swappiness::Swappiness,
};

/// A policy of one group alone, to be taken apart.
#[derive(Debug)]
pub(crate) struct Part<P> {
    pub(crate) policy: P,
    /// The group, as it is called there.
    pub(crate) group: GroupId,
    /// By folio there: the real one.
    pub(crate) originals: Vec<FolioId>,
}

/// A policy whose eviction can be played out.
pub(crate) trait PlayedOut: Policy + Sized {
    /// Copies what decides which folios of a kind of a group go.
    fn part(&self, group: GroupId, kind: Kind) -> Result<Part<Self>, PolicyError>;

    /// See [`Policy::eviction_order`].
    fn played_out(
        &self,
        group: GroupId,
        kind: Kind,
        now: TimeMs,
    ) -> Result<Box<dyn Iterator<Item = FolioId> + '_>, PolicyError> {
        Ok(Box::new(Takes::new(self.part(group, kind)?, kind, now)))
    }
}

/// Takes a copy apart, page after page.
#[derive(Debug)]
struct Takes<P> {
    copy: P,
    originals: Vec<FolioId>,
    request: ReclaimRequest,
    now: TimeMs,
    batch: EvictBatch,
    has_ended: bool,
}

impl<P: Policy> Takes<P> {
    fn new(part: Part<P>, kind: Kind, now: TimeMs) -> Takes<P> {
        let swappiness = match kind {
            Kind::Anon => Swappiness::ANON_ONLY,
            Kind::File => Swappiness::FILE_ONLY,
        };
        Takes {
            copy: part.policy,
            originals: part.originals,
            request: ReclaimRequest {
                swappiness,
                ..ReclaimRequest::new(part.group, 1)
            },
            now,
            batch: EvictBatch::default(),
            has_ended: false,
        }
    }
}

impl<P: Policy> Iterator for Takes<P> {
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
