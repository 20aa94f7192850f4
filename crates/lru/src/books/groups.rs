//! Groups: births and deaths, and who is charged for what.
//!
//! **Owns** what happens to lruvecs and memcg LRUs when groups come and go, and when a group is
//! charged. **Does not own** the tree ([`crate::group`]).

use super::{Account, Booked, Books};
use crate::{
    error::PolicyError,
    folio::Flags,
    group::ROOT,
    ids::{GroupId, Kind, NodeId, TimeMs},
    memcg_lru::{MemcgLru, Move},
};

impl<L: Booked> Books<L> {
    /// Makes a group below another one, or the root, with a lruvec on the first node.
    pub(crate) fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        if parent != ROOT {
            self.group(parent)?;
        }
        self.tell_time(now);
        let group = self.groups.add(parent, path)?;
        if let Err(error) = self.add_lruvec(group, NodeId::default()) {
            self.groups.take_offline(group)?;
            self.groups.forget(group);
            return Err(error);
        }
        Ok(group)
    }

    /// The number of a group's lruvec on a node, which is made if it is the first time.
    pub(crate) fn lruvec_of(&mut self, group: GroupId, node: NodeId) -> Result<u16, PolicyError> {
        let mut known = self.group(group)?.lruvecs.iter().copied();
        match known.find(|number| self.lruvecs[usize::from(*number)].account().node == node) {
            Some(number) => Ok(number),
            None => self.add_lruvec(group, node),
        }
    }

    fn add_lruvec(&mut self, group: GroupId, node: NodeId) -> Result<u16, PolicyError> {
        let number = self.groups.add_lruvec(group)?;
        match self.lruvecs.get_mut(usize::from(number)) {
            Some(freed) => {
                let account = Account::new(group, node, freed.account().first_list);
                *freed = L::new(account, self.shape, self.now);
            }
            None => {
                let first_list = self.lists.add(L::nr_lists(self.shape));
                let account = Account::new(group, node, first_list);
                self.lruvecs.push(L::new(account, self.shape, self.now));
            }
        }
        if let Some(seed) = self.memcg_seed {
            self.memcg_lru_of(node, seed).add(group);
        }
        Ok(number)
    }

    fn memcg_lru_of(&mut self, node: NodeId, seed: u64) -> &mut MemcgLru {
        let number = usize::from(node.0);
        while self.memcg_lrus.len() <= number {
            // Nodes draw differently, so that they do not press the same groups first.
            let seed = seed.wrapping_add(self.memcg_lrus.len() as u64);
            self.memcg_lrus.push(MemcgLru::new(seed));
        }
        &mut self.memcg_lrus[number]
    }

    /// The memcg LRU of a node that a group has come to.
    pub(crate) fn memcg_lru(&mut self, node: NodeId) -> Option<&mut MemcgLru> {
        self.memcg_lrus.get_mut(usize::from(node.0))
    }

    /// Makes a group the next to be reclaimed from under global pressure.
    pub(crate) fn bring_forward(&mut self, group: GroupId) {
        for lru in &mut self.memcg_lrus {
            lru.bring_forward(group);
        }
    }

    /// Takes a group offline; it is forgotten once nothing is charged to it.
    pub(crate) fn take_offline(&mut self, group: GroupId) -> Result<(), PolicyError> {
        self.groups.take_offline(group)?;
        for lru in &mut self.memcg_lrus {
            lru.rotate(group, Move::Old);
        }
        self.forget_if_empty(group);
        Ok(())
    }

    /// A folio went to swap, if it is of the kind that does.
    pub(crate) fn charge_swap(&mut self, flags: Flags) {
        if flags.kind() == Kind::Anon {
            let group = self.lruvecs[flags.lruvec()].account().group;
            self.groups.charge_swap(group, flags.nr_pages());
        }
    }

    /// Base pages of a group are no longer in swap.
    pub(crate) fn swap_freed(&mut self, group: GroupId, nr_pages: u64) -> Result<(), PolicyError> {
        self.group(group)?;
        self.groups.uncharge_swap(group, nr_pages);
        self.forget_if_empty(group);
        Ok(())
    }

    /// Forgets a group that was removed when nothing is left of it, and so on with those above.
    pub(super) fn forget_if_empty(&mut self, group: GroupId) {
        let mut next = self.groups.forgettable(group);
        while let Some(group) = next {
            let (parent, lruvecs) = self.groups.forget(group);
            for lru in &mut self.memcg_lrus {
                lru.remove(group);
            }
            for number in lruvecs {
                let lruvec = &mut self.lruvecs[usize::from(number)];
                let Account {
                    node, first_list, ..
                } = *lruvec.account();
                *lruvec = L::new(Account::new(ROOT, node, first_list), self.shape, self.now);
            }
            next = self.groups.forgettable(parent);
        }
    }
}
