//! Placement: which generation a folio enters (rules 1.6).
//!
//! A page faulted in starts in the second youngest generation, not the youngest: it has to be found
//! young by a walk to be taken for hot. What nobody waits for starts further down.
//!
//! **Owns** the choice of the generation, and putting a folio on its list.
//! **Does not own** the distances (`model`).

use super::MultiGen;
use crate::{
    folio::Flags,
    ids::{FolioId, Kind},
    lruvec::Lruvec,
    model::Model,
    seam::{Arrival, Cause},
};

/// How a folio stands when it enters a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Somebody waits for it (the kernel's active flag).
    Active,
    /// It can't be dropped at once: anon that is not in the swap cache, or waiting to be written.
    Busy,
    /// Nobody waits for it and it can be dropped.
    Idle,
}

/// How an arriving folio stands.
pub(super) fn standing(arrival: &Arrival) -> Standing {
    match (arrival.cause, arrival.kind) {
        (Cause::Fault, _) => Standing::Active,
        (Cause::Read, Kind::Anon) => Standing::Busy,
        // Anon that was read ahead comes out of swap, so it is in the swap cache.
        (Cause::Read, Kind::File) | (Cause::Prefetch, _) => Standing::Idle,
    }
}

impl Lruvec {
    /// Sequence number of the generation a folio enters, never below its kind's oldest.
    pub(super) fn entry_seq(&self, model: &Model, flags: Flags, standing: Standing) -> u64 {
        let below_max = match (standing, flags.is_workingset()) {
            (Standing::Active, true) => model.entry.active_workingset,
            (Standing::Active, false) => model.entry.active,
            (Standing::Busy, _) => model.entry.busy,
            (Standing::Idle, true) => model.entry.idle_workingset,
            (Standing::Idle, false) => model.entry.idle,
        };
        (self.max_seq - below_max).max(self.min_seq[flags.kind().index()])
    }
}

impl MultiGen {
    /// Puts a folio that is on no list at the young end of the generation it belongs to.
    pub(super) fn enter(&mut self, folio: FolioId, standing: Standing) {
        let flags = self.flags(folio);
        let lruvec = &mut self.lruvecs[flags.lruvec()];
        let seq = lruvec.entry_seq(self.model, flags, standing);
        let generation = Lruvec::generation_index(seq);
        lruvec.nr_pages[generation][flags.kind().index()] += flags.nr_pages();
        let list = lruvec.list(generation, flags.kind());
        self.folios.flags[folio.index()] = flags.with_generation(Some(generation));
        self.lists.push_head(&mut self.folios, list, folio);
    }
}
