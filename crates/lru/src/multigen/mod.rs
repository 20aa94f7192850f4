//! The multi-generational LRU: a page's life, a file a stage.
//!
//! ```text
//!   appeared -> refault -> placement      where a new folio enters
//!   accessed -> promotion                 what one access changes
//!   finish_walk -> ageing                 how the window moves up
//!   isolate / complete / gone -> eviction who leaves, who is spared, who comes back
//! ```
//!
//! **Owns** the engine's state and the [`Policy`] door. **Does not own** the rules, which are in the
//! files beside, or which kernel has which ([`crate::model`]).
//!
//! **Invariants**
//! - I1: a live folio is on exactly one list, or isolated and on none.
//! - I2: a folio's generation is never older than the list it is on, except after a generation was
//!   merged by overlap (see `ageing`).
//! - I3: nothing is allocated after a folio has found its slot: only the table and new lruvecs grow.

mod ageing;
mod chosen;
mod command;
mod distance;
mod eviction;
mod full;
mod groups;
mod look_around;
mod migration;
mod placement;
mod promotion;
mod refault;
mod validate;
mod walk;
mod writeback;

#[cfg(test)]
mod tests;

pub use command::{EvictPlan, Plan, WalkPlan};

use crate::{
    config::{Config, ConfigError, Refault},
    counting::Counting,
    folio::{Flags, FolioTable, MAX_ORDER},
    group::{Group, GroupTree, Limits, ROOT},
    ids::{FolioId, GenSeq, GroupId, Kind, NodeId, Order, TimeMs},
    list::Lists,
    lruvec::Lruvec,
    memcg_lru::MemcgLru,
    reclaim::GroupRules,
    rules::{Aborting, Rules},
    seam::{
        AccessVia, Ageing, Arrival, EvictBatch, GenerationView, GoneCause, GroupView, Isolated,
        Policy, PolicyError, ReclaimRequest, ReclaimStats, Shadow, Swappiness, Verdict, WriteState,
    },
    walk::{AgeingWalks, Spaces, WalkStats},
};

/// The multi-generational LRU.
///
/// Deterministic: the same calls give the same answers and the same state.
#[derive(Debug)]
pub struct MultiGen {
    rules: Rules,
    counting: Counting,
    refault: Refault,
    has_swap: bool,
    min_ttl_ms: u64,
    folios: FolioTable,
    lists: Lists,
    lruvecs: Vec<Lruvec>,
    groups: GroupTree,
    /// By node.
    memcg_lrus: Vec<MemcgLru>,
    seed: u64,
    spaces: Spaces,
    nr_isolated_folios: u32,
    /// The latest time told, for lruvecs born between two calls that carry one.
    now: TimeMs,
}

impl MultiGen {
    /// An empty engine; the error names the setting that is out of bounds.
    pub fn new(config: Config) -> Result<MultiGen, ConfigError> {
        config.validate()?;
        Ok(MultiGen {
            counting: config.rules.counting(),
            rules: config.rules,
            refault: config.refault,
            has_swap: config.has_swap,
            min_ttl_ms: config.min_ttl_ms,
            folios: FolioTable::new(config.nr_folios_max),
            lists: Lists::default(),
            lruvecs: Vec::new(),
            groups: GroupTree::new(config.protection),
            memcg_lrus: Vec::new(),
            seed: config.seed,
            spaces: Spaces::default(),
            nr_isolated_folios: 0,
            now: TimeMs::default(),
        })
    }

    /// Generations younger than this many milliseconds are not evicted; 0 turns it off.
    pub fn set_min_ttl_ms(&mut self, min_ttl_ms: u64) {
        self.min_ttl_ms = min_ttl_ms;
    }

    /// Folios in memory, isolated ones included.
    pub fn nr_folios(&self) -> u32 {
        self.folios.nr_live()
    }

    /// The generation a folio counts for, `None` while it is isolated.
    pub fn generation(&self, folio: FolioId) -> Option<GenSeq> {
        let flags = self.flags(folio);
        let lruvec = &self.lruvecs[flags.lruvec()];
        let index = flags.generation()?;
        Some(GenSeq(lruvec.seq_of_index(index)))
    }

    /// The tier a folio is in, from 0: what the feedback controller spares it for.
    pub fn tier(&self, folio: FolioId) -> u8 {
        self.counting.tier(self.flags(folio)) as u8
    }

    /// What the engine goes by.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    fn flags(&self, folio: FolioId) -> Flags {
        self.folios.flags[folio.index()]
    }

    fn group(&self, group: GroupId) -> Result<&Group, PolicyError> {
        self.groups.get(group)
    }

    /// Notes the time, which never goes back.
    fn tell_time(&mut self, now: TimeMs) -> TimeMs {
        self.now = self.now.max(now);
        self.now
    }

    fn lruvec_of(&mut self, group: GroupId, node: NodeId) -> Result<u16, PolicyError> {
        let known = self.group(group)?.lruvecs.iter().copied();
        let known = known
            .into_iter()
            .find(|&n| self.lruvecs[usize::from(n)].node == node);
        match known {
            Some(lruvec) => Ok(lruvec),
            None => self.add_lruvec(group, node),
        }
    }

    fn add_lruvec(&mut self, group: GroupId, node: NodeId) -> Result<u16, PolicyError> {
        let number = self.groups.add_lruvec(group)?;
        let nr_gens = self.rules.nr_gens;
        match self.lruvecs.get_mut(usize::from(number)) {
            Some(freed) => {
                *freed = Lruvec::new(group, node, freed.first_list(), nr_gens, self.now);
            }
            None => {
                let first_list = self.lists.add(2 * u32::from(nr_gens));
                let lruvec = Lruvec::new(group, node, first_list, nr_gens, self.now);
                self.lruvecs.push(lruvec);
            }
        }
        self.memcg_lru_of(node).add(group);
        Ok(number)
    }

    fn view_of(&self, lruvec: &Lruvec, path: &str, now: TimeMs) -> GroupView {
        let oldest = lruvec.min_seq[0].min(lruvec.min_seq[1]);
        let generations = (oldest..=lruvec.max_seq).map(|seq| {
            let sizes = lruvec.nr_pages[lruvec.generation_index(seq)];
            let size =
                |kind: Kind| (seq >= lruvec.min_seq[kind.index()]).then_some(sizes[kind.index()]);
            GenerationView {
                seq: GenSeq(seq),
                age_ms: now.since(lruvec.birth(GenSeq(seq))),
                nr_pages: Kind::ALL.map(size),
            }
        });
        GroupView {
            group: lruvec.group,
            path: path.to_owned(),
            node: lruvec.node,
            generations: generations.collect(),
        }
    }
}

impl Policy for MultiGen {
    fn name(&self) -> &'static str {
        "mglru"
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
        let flags = Flags::new(lruvec, arrival.kind, arrival.order).with_exec(arrival.is_exec);
        let folio = self.folios.allocate(flags);
        let folio = folio.ok_or_else(|| PolicyError::TableFull(self.folios.nr_live()))?;
        self.groups.charge(arrival.group, arrival.order.nr_pages());
        if let Some(shadow) = arrival.shadow {
            self.swapped_in(&arrival);
            match self.refault {
                Refault::Window => self.refault(folio, shadow, arrival.cause),
                Refault::Distance => self.refault_by_distance(folio, shadow, arrival.cause),
            }
        }
        let standing = self.standing(folio, &arrival);
        self.enter(folio, standing);
        Ok(folio)
    }

    // Inline, so that a wrapper elsewhere (`tiering`) costs no call.
    #[inline]
    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        match via {
            AccessVia::PageTable => self.found_young(folio),
            AccessVia::FileDescriptor => self.count_access(folio),
        }
    }

    fn gone(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow> {
        self.leave(folio, cause)
    }

    fn deactivate(&mut self, folio: FolioId) {
        self.cool(folio);
    }

    fn set_write_state(&mut self, folio: FolioId, state: WriteState) {
        self.wait_for_writeback(folio, state);
    }

    fn ageing(&self, group: GroupId, swappiness: Swappiness) -> Result<Ageing, PolicyError> {
        let rule = self.rules.ageing;
        let of_node = |n: &u16| self.lruvecs[usize::from(*n)].ageing(rule, swappiness);
        let most_urgent = self.group(group)?.lruvecs.iter().map(of_node).max();
        Ok(most_urgent.unwrap_or(Ageing::NotDue))
    }

    fn finish_walk(
        &mut self,
        group: GroupId,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(), PolicyError> {
        let nr_lruvecs = self.group(group)?.lruvecs.len();
        let now = self.tell_time(now);
        for position in 0..nr_lruvecs {
            let lruvec = usize::from(self.group(group)?.lruvecs[position]);
            self.inc_max_seq(lruvec, swappiness, now);
        }
        self.groups.get_mut(group)?.nr_ageing_runs += 1;
        Ok(())
    }

    fn aborting(&self) -> Aborting {
        self.rules.aborting
    }

    fn isolate(
        &mut self,
        request: ReclaimRequest,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        self.isolate_from_group(request, now, batch)
    }

    fn isolate_chosen(
        &mut self,
        folios: &mut dyn Iterator<Item = FolioId>,
        nr_pages_max: u64,
        swappiness: Swappiness,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> u64 {
        self.isolate_these(folios, nr_pages_max, swappiness, now, batch)
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
        let group = self.group(group)?;
        let mut sum = ReclaimStats {
            nr_ageing_runs: group.nr_ageing_runs,
            ..ReclaimStats::default()
        };
        for lruvec in &group.lruvecs {
            sum += self.lruvecs[usize::from(*lruvec)].stats;
        }
        Ok(sum)
    }

    fn memory_bytes(&self) -> u64 {
        let lruvecs = (self.lruvecs.capacity() * size_of::<Lruvec>()) as u64;
        let memcg_lrus = self.memcg_lrus.iter().map(MemcgLru::memory_bytes);
        let fixed = lruvecs + self.groups.memory_bytes() + memcg_lrus.sum::<u64>();
        let filters = self.lruvecs.iter().map(|of| of.walk.filters.memory_bytes());
        let walks = self.spaces.memory_bytes() + filters.sum::<u64>();
        self.folios.memory_bytes() + self.lists.memory_bytes() + walks + fixed
    }

    fn groups(&self) -> &GroupTree {
        &self.groups
    }

    fn groups_mut(&mut self) -> &mut GroupTree {
        &mut self.groups
    }

    fn memcg_lru(&mut self, node: NodeId) -> Option<&mut MemcgLru> {
        self.memcg_lrus.get_mut(usize::from(node.0))
    }

    fn soft_limit_exceeded(&mut self, group: GroupId) {
        for lru in &mut self.memcg_lrus {
            lru.bring_forward(group);
        }
    }

    fn group_rules(&self) -> GroupRules {
        self.rules.groups
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
        self.take_offline(group)
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

    fn walks(&mut self) -> Option<&mut dyn AgeingWalks> {
        Some(self)
    }

    fn walk_stats(&self, group: GroupId) -> Result<WalkStats, PolicyError> {
        self.walk_stats_of(group)
    }

    fn validate(&self) -> Result<(), String> {
        self.recount()
    }
}
