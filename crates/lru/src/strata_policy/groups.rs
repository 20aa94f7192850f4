//! Groups of the policy of our own: births and deaths, and who is charged for what.
//!
//! **Owns** what happens to lruvecs when groups come and go, and when a folio's group is charged.
//! **Does not own** the tree ([`crate::group`]).
//!
//! **Invariants**
//! - I1: a group is charged for its folios from their arrival until their ids are free again, so a
//!   folio that is gone while isolated still counts.
//! - I2: a lruvec whose number is free is empty and of no group.

use super::{Strata, lruvec::Lruvec};
use crate::{
    group::ROOT,
    ids::{FolioId, GroupId, Kind, NodeId, TimeMs},
    seam::{Arrival, PolicyError},
};

impl Strata {
    /// Makes a group with a lruvec on the first node.
    pub(super) fn make_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        self.now = self.now.max(now);
        let group = self.groups.add(parent, path)?;
        if let Err(error) = self.add_lruvec(group, NodeId::default()) {
            self.groups.take_offline(group)?;
            self.groups.forget(group);
            return Err(error);
        }
        Ok(group)
    }

    /// Gives a folio's slot back and its group the charge.
    pub(super) fn release(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        let group = self.lruvecs[flags.lruvec()].group;
        self.folios.release(folio);
        self.groups.uncharge(group, flags.nr_pages());
        self.forget_if_empty(group);
    }

    /// A folio went to swap, if it is of the kind that does.
    pub(super) fn charge_swap(&mut self, lruvec: usize, kind: Kind, nr_pages: u64) {
        if kind == Kind::Anon {
            let group = self.lruvecs[lruvec].group;
            self.groups.charge_swap(group, nr_pages);
        }
    }

    /// A folio came back: if it was in swap it is no longer.
    pub(super) fn swapped_in(&mut self, arrival: &Arrival) {
        if arrival.kind == Kind::Anon {
            let nr_pages = arrival.order.nr_pages();
            self.groups.uncharge_swap(arrival.group, nr_pages);
        }
    }

    /// Base pages of a group are no longer in swap.
    pub(super) fn uncharge_swap(&mut self, group: GroupId, nr_pages: u64) {
        self.groups.uncharge_swap(group, nr_pages);
        self.forget_if_empty(group);
    }

    /// Forgets a group that was removed when nothing is left of it, and so on with those above.
    pub(super) fn forget_if_empty(&mut self, group: GroupId) {
        let mut next = self.groups.forgettable(group);
        while let Some(group) = next {
            let (parent, lruvecs) = self.groups.forget(group);
            for number in lruvecs {
                let lruvec = &mut self.lruvecs[usize::from(number)];
                *lruvec = Lruvec::new(ROOT, lruvec.node, lruvec.first_list(), self.now);
            }
            next = self.groups.forgettable(parent);
        }
    }
}
