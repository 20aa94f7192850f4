//! Folios: how they come in, enter and leave lists, and give their slots back.
//!
//! **Owns** slots, charges, sizes of lists. **Does not own** which list a folio belongs on.
//!
//! **Invariants** I1: `nr_pages[generation][kind]` of an lruvec is the sum of the sizes of the folios
//! whose flags name that generation.

use super::{Booked, Books};
use crate::{
    error::PolicyError,
    folio::{Flags, MAX_ORDER},
    ids::{FolioId, Kind, Order},
    rules::ListEnd,
    seam::Arrival,
};

impl<L: Booked> Books<L> {
    /// Finds a slot for a folio that arrives and charges its group; it is on no list yet.
    pub(crate) fn admit(&mut self, arrival: &Arrival) -> Result<FolioId, PolicyError> {
        if arrival.order.0 > MAX_ORDER {
            return Err(PolicyError::OrderTooLarge {
                order: arrival.order,
                largest: Order(MAX_ORDER),
            });
        }
        if self.group(arrival.group)?.is_offline() {
            return Err(PolicyError::GroupOffline(arrival.group));
        }
        let lruvec = self.lruvec_of(arrival.group, arrival.node)?;
        let flags = Flags::new(lruvec, arrival.kind, arrival.order).with_exec(arrival.is_exec);
        let folio = self.folios.allocate(flags);
        let folio = folio.ok_or_else(|| PolicyError::TableFull(self.folios.nr_live()))?;
        let nr_pages = arrival.order.nr_pages();
        self.groups.charge(arrival.group, nr_pages);
        // Anon with a shadow comes back from swap.
        if arrival.shadow.is_some() && arrival.kind == Kind::Anon {
            self.groups.uncharge_swap(arrival.group, nr_pages);
        }
        Ok(folio)
    }

    /// Gives a folio's slot back and its group the charge.
    pub(crate) fn release(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        let group = self.lruvecs[flags.lruvec()].account().group;
        self.folios.release(folio);
        self.groups.uncharge(group, flags.nr_pages());
        self.forget_if_empty(group);
    }

    /// Puts a folio that is on no list on one of its lruvec's, and into its size.
    pub(crate) fn enter(&mut self, folio: FolioId, generation: usize, end: ListEnd) {
        let flags = self.flags(folio);
        let lruvec = &mut self.lruvecs[flags.lruvec()];
        lruvec.nr_pages_mut()[generation][flags.kind().index()] += flags.nr_pages();
        let list = lruvec.list_of(generation, flags.kind());
        self.set_flags(folio, flags.with_generation(Some(generation)));
        self.lists.push(&mut self.folios, list, end, folio);
    }

    /// Takes a folio off its list and out of its size; its flags then.
    pub(crate) fn detach(&mut self, folio: FolioId) -> Flags {
        let flags = self.flags(folio);
        if let Some(generation) = flags.generation() {
            let lruvec = &mut self.lruvecs[flags.lruvec()];
            lruvec.nr_pages_mut()[generation][flags.kind().index()] -= flags.nr_pages();
            self.lists.remove(&mut self.folios, folio);
        }
        let flags = flags.with_generation(None);
        self.set_flags(folio, flags);
        flags
    }

    /// Puts a folio at an end of another list without asking which one it is on; its generation
    /// and the sizes stay.
    pub(crate) fn move_to_end(&mut self, folio: FolioId, generation: usize, end: ListEnd) {
        let flags = self.flags(folio);
        let list = self.lruvecs[flags.lruvec()].list_of(generation, flags.kind());
        self.lists.remove(&mut self.folios, folio);
        self.lists.push(&mut self.folios, list, end, folio);
    }

    /// Takes a folio out of its list: it is in a batch, or moves between nodes.
    pub(crate) fn isolate(&mut self, folio: FolioId) {
        let flags = self.detach(folio);
        self.set_flags(folio, flags.isolated());
        let account = self.lruvecs[flags.lruvec()].account_mut();
        account.nr_isolated_pages += flags.nr_pages();
    }

    /// Ends an isolation; the flags as they were, which still say whether the folio is gone.
    pub(crate) fn end_isolation(&mut self, folio: FolioId) -> Flags {
        let flags = self.flags(folio);
        assert!(flags.is_isolated(), "{folio:?} is in no batch");
        let account = self.lruvecs[flags.lruvec()].account_mut();
        account.nr_isolated_pages -= flags.nr_pages();
        self.set_flags(folio, flags.with_generation(None));
        flags
    }
}
