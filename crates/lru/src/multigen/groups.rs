//! Groups of the engine: births and deaths, and who is charged for what.
//!
//! **Owns** what happens to lruvecs when groups come and go, and when a folio's group is charged.
//! **Does not own** the tree ([`crate::group`]).
//!
//! **Invariants**
//! - I1: a group is charged for its folios from their arrival until their ids are free again, so a
//!   folio that is gone while isolated still counts.
//! - I2: a lruvec whose number is free is empty and of no group.

use super::MultiGen;
use crate::{
    group::ROOT,
    ids::{FolioId, GroupId, Kind, NodeId, TimeMs},
    lruvec::Lruvec,
    memcg_lru::{MemcgLru, Move},
    seam::{Arrival, PolicyError},
};

impl MultiGen {
    /// Makes a group with a lruvec on the first node.
    pub(super) fn make_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        self.tell_time(now);
        let group = self.groups.add(parent, path)?;
        if let Err(error) = self.add_lruvec(group, NodeId::default()) {
            self.groups.take_offline(group)?;
            self.groups.forget(group);
            return Err(error);
        }
        Ok(group)
    }

    /// The memcg LRU of a node that a group comes to.
    pub(super) fn memcg_lru_of(&mut self, node: NodeId) -> &mut MemcgLru {
        let number = usize::from(node.0);
        while self.memcg_lrus.len() <= number {
            // Nodes draw differently, so that they do not press the same groups first.
            let seed = self.seed.wrapping_add(self.memcg_lrus.len() as u64);
            self.memcg_lrus.push(MemcgLru::new(seed));
        }
        &mut self.memcg_lrus[number]
    }

    /// Takes a group offline; it is forgotten once nothing is charged to it.
    pub(super) fn take_offline(&mut self, group: GroupId) -> Result<(), PolicyError> {
        self.group(group)?;
        if !self.spaces.row(group).is_empty() {
            return Err(PolicyError::GroupBusy(group));
        }
        self.groups.take_offline(group)?;
        for lru in &mut self.memcg_lrus {
            lru.rotate(group, Move::Old);
        }
        self.forget_if_empty(group);
        Ok(())
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
    fn forget_if_empty(&mut self, group: GroupId) {
        let mut next = self.groups.forgettable(group);
        while let Some(group) = next {
            let (parent, lruvecs) = self.groups.forget(group);
            for lru in &mut self.memcg_lrus {
                lru.remove(group);
            }
            for number in lruvecs {
                let lruvec = &mut self.lruvecs[usize::from(number)];
                let (node, first_list) = (lruvec.node, lruvec.first_list());
                *lruvec = Lruvec::new(ROOT, node, first_list, self.rules.nr_gens, self.now);
            }
            next = self.groups.forgettable(parent);
        }
    }
}
