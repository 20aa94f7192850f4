//! The policy of our own: generations on trial and proven, told apart by time between accesses.
//!
//! It stands behind the same door as [`MultiGen`](crate::MultiGen), on the same folio table, flags word,
//! lists and shadows, and keeps its bargain: an access changes the flags of a folio and no list; the
//! old end of a list is put in order when eviction gets there; accessed bits are only needed of what
//! is about to go. What it does differently answers what is known to be weak there:
//!
//! | weak in the kernel's                             | here                                              |
//! |--------------------------------------------------|---------------------------------------------------|
//! | page cache enters the oldest generation          | everything begins on trial, whatever its kind     |
//! | the controller does not find the working set     | the test of LIRS, on each access and each return  |
//! | counted accesses are lost at promotion           | they spare a proven folio once each               |
//! | file or anon is taken too much                   | one order for both: who is used less goes first   |
//! | four generations, whatever the load              | the trial is as long as pays (`window`)           |
//!
//! ```text
//!   appeared / accessed -> arrival    where it begins, the test, what a return says
//!   isolate / complete  -> eviction   who leaves, who is kept and where
//!                       -> window     how much memory is for trial
//!   gone, complete      -> shadow     what is kept of what left
//! ```
//!
//! Swappiness says only which kinds may go: between 1 and 200 the order of use decides. No walk is
//! ever due, and `min_ttl_ms` means nothing to it.
//!
//! A folio costs 16 bytes. A shadow counts until as many pages as memory holds have left the same
//! part, so shadows worth keeping are at most twice the pages in memory.
//!
//! **Owns** the state and the [`Policy`] door. **Does not own** the rules, which are in the files
//! beside.
//!
//! **Invariants**
//! - I1: a live folio is on exactly one list, or isolated and on none.
//! - I2: nothing is allocated after a folio has found its slot: only the tables and new lruvecs grow.

mod arrival;
mod dial;
mod eviction;
mod groups;
mod lruvec;
mod page;
mod shadow;
#[cfg(test)]
mod tests;
mod validate;
mod window;

use crate::{
    config::{Config, ConfigError},
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
use page::Part;

/// An age above that of any folio.
const NEVER: u64 = 1 << u32::BITS;

/// The policy of our own.
///
/// Deterministic: the same calls give the same answers and the same state. Of [`Config`] only
/// `nr_folios_max` concerns it.
#[derive(Debug)]
pub struct Strata {
    folios: FolioTable,
    /// By folio: the lruvec's count of accesses at the folio's last one, low bits.
    stamps: Vec<u32>,
    lists: Lists,
    lruvecs: Vec<Lruvec>,
    groups: GroupTree,
    /// The latest time told, for lruvecs born between two calls that carry one.
    now: TimeMs,
}

impl Strata {
    /// An empty engine; the error names the setting that is out of bounds.
    pub fn new(config: Config) -> Result<Strata, ConfigError> {
        config.validate()?;
        Ok(Strata {
            folios: FolioTable::new(config.nr_folios_max),
            stamps: Vec::new(),
            lists: Lists::default(),
            lruvecs: Vec::new(),
            groups: GroupTree::new(config.protection),
            now: TimeMs::default(),
        })
    }

    /// Folios in memory, isolated ones included.
    pub fn nr_folios(&self) -> u32 {
        self.folios.nr_live()
    }

    /// Whether a folio is proven, `None` while it is isolated.
    pub fn is_proven(&self, folio: FolioId) -> Option<bool> {
        let part = self.flags(folio).part()?;
        Some(part == Part::Proven)
    }

    /// Base pages of a group's memory that are for trial, over all nodes.
    pub fn nr_trial_pages(&self, group: GroupId) -> Result<u64, PolicyError> {
        let lruvecs = self.group(group)?.lruvecs.iter();
        let of_node = |lruvec: &u16| {
            let lruvec = &self.lruvecs[usize::from(*lruvec)];
            lruvec.window.nr_trial_pages(lruvec.capacity_pages)
        };
        Ok(lruvecs.map(of_node).sum())
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

    fn view_of(&self, lruvec: &Lruvec, path: &str, now: TimeMs) -> GroupView {
        let generation = |part: Part| GenerationView {
            seq: GenSeq(part.index() as u64),
            age_ms: now.since(lruvec.birth),
            nr_pages: lruvec.nr_pages[part.index()].map(Some),
        };
        GroupView {
            group: lruvec.group,
            path: path.to_owned(),
            node: lruvec.node,
            generations: Part::ALL.map(generation).to_vec(),
        }
    }
}

impl Policy for Strata {
    fn name(&self) -> &'static str {
        "strata"
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
        let folio = self.folios.allocate(flags);
        let folio = folio.ok_or_else(|| PolicyError::TableFull(self.folios.nr_live()))?;
        if self.stamps.len() < self.folios.flags.len() {
            let step = self.folios.flags.capacity() - self.stamps.len();
            self.stamps.reserve_exact(step);
            self.stamps.resize(self.folios.flags.len(), 0);
        }
        self.groups.charge(arrival.group, arrival.order.nr_pages());
        if arrival.shadow.is_some() {
            self.swapped_in(&arrival);
        }
        self.arrive(folio, arrival.shadow);
        Ok(folio)
    }

    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        if via == AccessVia::PageTable {
            let flags = self.flags(folio);
            self.lruvecs[flags.lruvec()].stats.nr_young_pages += flags.nr_pages();
        }
        self.heard_of(folio);
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
        Ok(asked_for
            .map(|of| of.nr_evictable_pages_of_all(swappiness))
            .sum())
    }

    fn memory_bytes(&self) -> u64 {
        let lruvecs = self.lruvecs.capacity() * size_of::<Lruvec>();
        let stamps = self.stamps.capacity() * size_of::<u32>();
        let fixed = (lruvecs + stamps) as u64 + self.groups.memory_bytes();
        self.folios.memory_bytes() + self.lists.memory_bytes() + fixed
    }

    fn validate(&self) -> Result<(), String> {
        self.recount()
    }
}
