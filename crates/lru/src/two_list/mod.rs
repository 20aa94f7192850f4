//! The classic LRU: an active and an inactive list a kind, as before generations (rules 8).
//!
//! The baseline of every comparison, behind the same door as [`MultiGen`](crate::MultiGen). It
//! knows of no walks: accessed bits are read one folio at a time, when it reaches the end of a list.
//!
//! ```text
//!   appeared -> workingset            the inactive list, or the active one if it is missed
//!   accessed                          descriptors: referenced, then active; bits: remembered
//!   isolate / complete -> run         which list is looked at next
//!                      -> reclaim     second chances, deactivation, departures
//!                      -> lruvec      how much of which kind
//! ```
//!
//! Where kernels differ it follows 6.1. It departs from the kernel in four things:
//! - a folio that is being written or is locked is put on the active list until it is met again;
//!   there is no rotation to the old end when writing ends,
//! - one mapping a folio: being found accessed counts once, however many map it,
//! - `min_ttl_ms` means nothing to it, and no walk is ever due,
//! - a shadow of another group or node tells nothing (the kernel judges by the old owner's lists).
//!
//! **Owns** the state and the [`Policy`] door. **Does not own** the rules, which are in the files
//! beside.
//!
//! **Invariants**
//! - I1: a live folio is on exactly one list, or isolated and on none.
//! - I2: nothing is allocated after a folio has found its slot: only the table and new lruvecs grow.

mod groups;
mod lruvec;
mod migration;
mod page;
mod reclaim;
mod run;
mod validate;
mod workingset;

#[cfg(test)]
mod tests;

pub use lruvec::TwoListStats;

use crate::{
    config::{Config, ConfigError, Refault},
    folio::{Flags, FolioTable, MAX_ORDER},
    group::{Group, GroupTree, Limits, ROOT},
    ids::{FolioId, GenSeq, GroupId, Kind, NodeId, Order, TimeMs},
    list::Lists,
    seam::{
        AccessVia, Ageing, Arrival, EvictBatch, GenerationView, GoneCause, GroupView, Isolated,
        Policy, PolicyError, ReclaimRequest, ReclaimStats, Shadow, Swappiness, Verdict,
    },
};
use lruvec::{Lruvec, NR_LISTS};
use page::Half;
use run::Run;

/// The classic active and inactive lists.
///
/// Deterministic: the same calls give the same answers and the same state.
#[derive(Debug)]
pub struct TwoList {
    refault: Refault,
    has_swap: bool,
    folios: FolioTable,
    lists: Lists,
    lruvecs: Vec<Lruvec>,
    groups: GroupTree,
    /// What is being reclaimed, by number of the group.
    runs: Vec<Option<Run>>,
    nr_isolated_folios: u32,
    /// The latest time told, for lruvecs born between two calls that carry one.
    now: TimeMs,
}

impl TwoList {
    /// An empty engine; the error names the setting that is out of bounds.
    pub fn new(config: Config) -> Result<TwoList, ConfigError> {
        config.validate()?;
        Ok(TwoList {
            refault: config.refault,
            has_swap: config.has_swap,
            folios: FolioTable::new(config.nr_folios_max),
            lists: Lists::default(),
            lruvecs: Vec::new(),
            groups: GroupTree::new(config.protection),
            runs: Vec::new(),
            nr_isolated_folios: 0,
            now: TimeMs::default(),
        })
    }

    /// Folios in memory, isolated ones included.
    pub fn nr_folios(&self) -> u32 {
        self.folios.nr_live()
    }

    /// Whether a folio is on an active list, `None` while it is isolated.
    pub fn is_active(&self, folio: FolioId) -> Option<bool> {
        let half = self.flags(folio).half()?;
        Some(half == Half::Active)
    }

    /// The counters that only the two lists have, over all nodes of a group.
    pub fn own_stats(&self, group: GroupId) -> Result<TwoListStats, PolicyError> {
        let lruvecs = self.group(group)?.lruvecs.iter();
        let mut sum = TwoListStats::default();
        for lruvec in lruvecs {
            sum += self.lruvecs[usize::from(*lruvec)].own_stats;
        }
        Ok(sum)
    }

    fn flags(&self, folio: FolioId) -> Flags {
        self.folios.flags[folio.index()]
    }

    fn group(&self, group: GroupId) -> Result<&Group, PolicyError> {
        self.groups.get(group)
    }

    fn lruvec_of(&mut self, group: GroupId, node: NodeId) -> Result<u16, PolicyError> {
        let mut known = self.group(group)?.lruvecs.iter().copied();
        match known.find(|n| self.lruvecs[usize::from(*n)].node == node) {
            Some(lruvec) => Ok(lruvec),
            None => self.add_lruvec(group, node),
        }
    }

    fn add_lruvec(&mut self, group: GroupId, node: NodeId) -> Result<u16, PolicyError> {
        let number = self.groups.add_lruvec(group)?;
        match self.lruvecs.get_mut(usize::from(number)) {
            Some(freed) => *freed = Lruvec::new(group, node, freed.first_list(), self.now),
            None => {
                let first_list = self.lists.add(NR_LISTS);
                let lruvec = Lruvec::new(group, node, first_list, self.now);
                self.lruvecs.push(lruvec);
            }
        }
        Ok(number)
    }

    /// An access through a file descriptor: the second one activates (rules 8.2).
    fn count_access(&mut self, folio: FolioId) {
        let flags = self.flags(folio);
        match flags.half() {
            Some(Half::Inactive) if flags.is_referenced() => {
                self.detach(folio);
                self.folios.flags[folio.index()] = self.flags(folio).with_referenced(false);
                self.activate(folio);
            }
            _ => self.folios.flags[folio.index()] = flags.with_referenced(true),
        }
    }

    fn view_of(&self, lruvec: &Lruvec, path: &str, now: TimeMs) -> GroupView {
        let generation = |half: Half| GenerationView {
            seq: GenSeq(half.index() as u64),
            age_ms: now.since(lruvec.birth),
            nr_pages: Kind::ALL.map(|kind| Some(lruvec.size(half, kind))),
        };
        GroupView {
            group: lruvec.group,
            path: path.to_owned(),
            node: lruvec.node,
            generations: Half::ALL.map(generation).to_vec(),
        }
    }
}

impl Policy for TwoList {
    fn name(&self) -> &'static str {
        "two-list"
    }

    fn add_group(&mut self, path: &str, now: TimeMs) -> Result<GroupId, PolicyError> {
        self.make_group(ROOT, path, now)
    }

    fn appeared(&mut self, arrival: Arrival) -> Result<FolioId, PolicyError> {
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
        let flags = Flags::new(lruvec, arrival.kind, arrival.order);
        let flags = if arrival.is_exec {
            flags.with_exec(true)
        } else {
            flags
        };
        let folio = self.folios.allocate(flags);
        let folio = folio.ok_or_else(|| PolicyError::TableFull(self.folios.nr_live()))?;
        self.groups.charge(arrival.group, arrival.order.nr_pages());
        let half = match arrival.shadow {
            Some(shadow) => {
                self.swapped_in(&arrival);
                self.refault(folio, shadow)
            }
            None => Half::Inactive,
        };
        self.enter(folio, half);
        Ok(folio)
    }

    // Inline, so that a wrapper elsewhere (`tiering`) costs no call.
    #[inline]
    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        let flags = self.flags(folio);
        debug_assert!(
            flags.is_live() && !flags.is_gone(),
            "{folio:?} is not in memory"
        );
        match via {
            AccessVia::PageTable => self.folios.flags[folio.index()] = flags.with_young(),
            AccessVia::FileDescriptor => self.count_access(folio),
        }
    }

    fn gone(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow> {
        self.leave(folio, cause)
    }

    fn ageing(&self, group: GroupId, _swappiness: Swappiness) -> Result<Ageing, PolicyError> {
        self.group(group).map(|_| Ageing::NotDue)
    }

    fn finish_walk(
        &mut self,
        group: GroupId,
        _swappiness: Swappiness,
        _now: TimeMs,
    ) -> Result<(), PolicyError> {
        self.group(group).map(|_| ())
    }

    fn isolate(
        &mut self,
        request: ReclaimRequest,
        _now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        self.isolate_from_group(request, batch)
    }

    fn complete(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        self.complete_batch(batch, verdicts);
    }

    fn kind(&self, folio: FolioId) -> Kind {
        self.flags(folio).kind()
    }

    fn order(&self, folio: FolioId) -> Order {
        self.flags(folio).order()
    }

    fn view(&self, group: GroupId, now: TimeMs) -> Result<Vec<GroupView>, PolicyError> {
        let group = self.group(group)?;
        let lruvecs = group.lruvecs.iter().map(|n| &self.lruvecs[usize::from(*n)]);
        let mut views: Vec<GroupView> = lruvecs
            .map(|lruvec| self.view_of(lruvec, &group.path, now))
            .collect();
        views.sort_by_key(|view| view.node);
        Ok(views)
    }

    fn stats(&self, group: GroupId) -> Result<ReclaimStats, PolicyError> {
        let mut sum = ReclaimStats::default();
        for lruvec in &self.group(group)?.lruvecs {
            sum += self.lruvecs[usize::from(*lruvec)].stats;
        }
        Ok(sum)
    }

    fn groups(&self) -> &GroupTree {
        &self.groups
    }

    fn groups_mut(&mut self) -> &mut GroupTree {
        &mut self.groups
    }

    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        self.group(parent)?;
        self.make_group(parent, path, now)
    }

    fn set_limits(&mut self, group: GroupId, limits: Limits) -> Result<(), PolicyError> {
        self.groups.set_limits(group, limits)
    }

    fn remove_group(&mut self, group: GroupId) -> Result<(), PolicyError> {
        self.groups.take_offline(group)?;
        self.forget_if_empty(group);
        Ok(())
    }

    fn swap_freed(&mut self, group: GroupId, nr_pages: u64) -> Result<(), PolicyError> {
        self.group(group)?;
        self.uncharge_swap(group, nr_pages);
        Ok(())
    }

    fn nr_evictable_pages(
        &self,
        group: GroupId,
        node: Option<NodeId>,
        swappiness: Swappiness,
    ) -> Result<u64, PolicyError> {
        let of_group = self.group(group)?.lruvecs.iter();
        let lruvecs = of_group.map(|n| &self.lruvecs[usize::from(*n)]);
        let asked_for = lruvecs.filter(|of| node.is_none_or(|node| node == of.node));
        Ok(asked_for.map(|of| of.nr_evictable_pages(swappiness)).sum())
    }

    fn memory_bytes(&self) -> u64 {
        let lruvecs = self.lruvecs.capacity() * size_of::<Lruvec>();
        let runs = self.runs.capacity() * size_of::<Option<Run>>();
        let fixed = (lruvecs + runs) as u64 + self.groups.memory_bytes();
        self.folios.memory_bytes() + self.lists.memory_bytes() + fixed
    }

    fn validate(&self) -> Result<(), String> {
        self.recount()
    }
}
