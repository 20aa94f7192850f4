//! Placement: which generation a folio enters (rules 1.6).
//!
//! From 6.14 on a page faulted in starts in the second youngest generation, not the youngest: it has
//! to be found young by a walk to be taken for hot. What nobody waits for starts further down.
//!
//! **Owns** the choice of the generation, and putting a folio on its list.
//! **Does not own** the distances (`rules`, `model`).

use super::MultiGen;
use crate::{
    folio::Flags,
    ids::MIN_NR_GENS,
    ids::{FolioId, Kind},
    lruvec::Lruvec,
    rules::{Faulted, ListEnd, Place, Placement},
    seam::{Arrival, Cause},
};

/// How a folio stands when it enters a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Somebody waits for it (the kernel's active flag).
    Active,
    /// The folio can't be dropped at once: anon that is not in the swap cache, or waiting to be written.
    Busy,
    /// Nobody waits for it and it can be dropped.
    Idle,
    /// The folio was due while it waited to be written, and is written now.
    Rotated,
    /// The folio came back from so near that it is to be spared once.
    Returned,
    /// It did, and was accessed several times before it left: the youngest.
    Wanted,
}

impl Standing {
    /// How a folio stands that nobody waits for and that is in memory already: its anon is in no swap cache.
    pub(super) fn unwanted(kind: Kind) -> Standing {
        match kind {
            Kind::Anon => Standing::Busy,
            Kind::File => Standing::Idle,
        }
    }
}

impl Lruvec {
    /// Sequence number of the generation a folio enters, never outside its kind's window.
    pub(super) fn entry_seq(&self, rule: &Placement, flags: Flags, standing: Standing) -> u64 {
        let oldest = self.min_seq[flags.kind().index()];
        let place = match (standing, flags.is_workingset()) {
            (Standing::Active, true) => rule.active_workingset,
            (Standing::Active, false) => rule.active,
            (Standing::Busy, _) => rule.busy,
            (Standing::Idle, true) => rule.idle_workingset,
            (Standing::Idle, false) => rule.idle,
            (Standing::Rotated, _) => rule.rotated,
            (Standing::Returned, _) => Place::AboveOldest(1),
            (Standing::Wanted, _) => Place::BelowYoungest(0),
        };
        let seq = match place {
            Place::BelowYoungest(n) => self.max_seq - n,
            Place::AboveOldest(n) => oldest + n,
            Place::AboveOldestPossible(n) => self.max_seq + 1 - self.nr_gens_max() as u64 + n,
            Place::SecondOldestOfFour if oldest + MIN_NR_GENS < self.max_seq => oldest + 1,
            Place::SecondOldestOfFour => oldest,
        };
        seq.max(oldest)
    }
}

impl MultiGen {
    /// How an arriving folio stands; one that nobody is taken to wait for is counted as accessed.
    pub(super) fn standing(&mut self, folio: FolioId, arrival: &Arrival) -> Standing {
        let flags = self.flags(folio);
        // Anon that was read ahead or brings a shadow comes out of swap: it is in the swap cache.
        let is_in_swap_cache = arrival.cause == Cause::Prefetch
            || arrival.cause == Cause::Fault && arrival.shadow.is_some();
        let is_active = match self.rules.placement.faulted {
            Faulted::Active => arrival.cause == Cause::Fault,
            Faulted::ActiveIfWorkingset => arrival.cause == Cause::Fault && flags.is_workingset(),
        };
        if is_active {
            return Standing::Active;
        }
        if arrival.cause == Cause::Fault && !flags.is_referenced() {
            self.books.set_flags(folio, self.counting.count(flags));
        }
        match arrival.kind {
            Kind::Anon if !is_in_swap_cache => Standing::Busy,
            _ => Standing::Idle,
        }
    }

    /// Puts a folio that is on no list into the generation it belongs to.
    pub(super) fn enter(&mut self, folio: FolioId, standing: Standing) {
        let flags = self.flags(folio);
        let lruvec = &self.books.lruvecs[flags.lruvec()];
        let seq = lruvec.entry_seq(&self.rules.placement, flags, standing);
        let generation = lruvec.generation_index(seq);
        let end = match standing {
            Standing::Rotated => ListEnd::Old,
            _ => ListEnd::Young,
        };
        self.books.enter(folio, generation, end);
    }
}
