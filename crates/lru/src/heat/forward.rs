//! The door of a policy that goes by heat: everything is the policy's own but who goes first.
//!
//! **Owns** the passing on. **Does not own** anything else; a test reads this file and the trait's and finds
//! every call here (`every_call_of_a_policy_is_passed_on_by_heat`).

use super::{ByHeat, HeatPolicy, PastHeat, Ranking, by_heat::Ranks};
use crate::{
    error::PolicyError,
    eviction_order::PlayedOut,
    group::{GroupTree, Limits},
    ids::{FolioId, GroupId, Kind, NodeId, NodeSet, Order, TimeMs},
    lru_gen::LruGen,
    memcg_lru::MemcgLru,
    policy::Policy,
    reclaim::GroupRules,
    rules::Aborting,
    seam::{
        AccessVia, Ageing, Arrival, EvictBatch, GoneCause, GroupView, Isolated, ReclaimRequest,
        ReclaimStats, RelaxedWalk, Shadow, Verdict, WriteState,
    },
    swappiness::Swappiness,
    tiering::{FolioStanding, Movable, Tiering},
    walk::{AgeingWalks, Scan, WalkStats},
};

impl<P: PlayedOut> Policy for ByHeat<P> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn add_group(&mut self, path: &str, now: TimeMs) -> Result<GroupId, PolicyError> {
        let group = self.policy.add_group(path, now)?;
        self.begin_group(group);
        Ok(group)
    }

    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        let group = self.policy.add_child_group(parent, path, now)?;
        self.begin_group(group);
        Ok(group)
    }

    fn remove_group(&mut self, group: GroupId) -> Result<(), PolicyError> {
        self.policy.remove_group(group)
    }

    fn set_limits(&mut self, group: GroupId, limits: Limits) -> Result<(), PolicyError> {
        self.policy.set_limits(group, limits)
    }

    fn groups(&self) -> &GroupTree {
        self.policy.groups()
    }

    fn groups_mut(&mut self) -> &mut GroupTree {
        self.policy.groups_mut()
    }

    fn memcg_lru(&mut self, node: NodeId) -> Option<&mut MemcgLru> {
        self.policy.memcg_lru(node)
    }

    fn soft_limit_exceeded(&mut self, group: GroupId) {
        self.policy.soft_limit_exceeded(group);
    }

    fn group_rules(&self) -> GroupRules {
        self.policy.group_rules()
    }

    fn swap_freed(&mut self, group: GroupId, nr_pages: u64) -> Result<(), PolicyError> {
        self.policy.swap_freed(group, nr_pages)
    }

    fn nr_evictable_pages(
        &self,
        group: GroupId,
        node: Option<NodeId>,
        swappiness: Swappiness,
    ) -> Result<u64, PolicyError> {
        self.policy.nr_evictable_pages(group, node, swappiness)
    }

    fn appeared(&mut self, arrival: Arrival) -> Result<FolioId, PolicyError> {
        let folio = self.policy.appeared(arrival)?;
        self.arrived(folio, &arrival);
        Ok(folio)
    }

    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        // Heat is a share of walks, and they see no descriptors.
        if via == AccessVia::PageTable {
            self.seen(folio);
        }
        self.policy.accessed(folio, via);
    }

    fn note_young(&mut self, folios: &[FolioId]) {
        folios.iter().for_each(|folio| self.seen(*folio));
        self.policy.note_young(folios);
    }

    fn walk_scan(&self) -> Scan {
        Scan::Forced
    }

    fn ranking(&self, group: GroupId, now: TimeMs) -> Result<Ranking, PolicyError> {
        self.policy.groups().get(group)?;
        Ok(self.ranking_of(group, now))
    }

    fn deactivate(&mut self, folio: FolioId) {
        self.policy.deactivate(folio);
    }

    fn set_write_state(&mut self, folio: FolioId, state: WriteState) {
        self.policy.set_write_state(folio, state);
    }

    fn gone(&mut self, folio: FolioId, cause: GoneCause) -> Option<(Shadow, PastHeat)> {
        let past = match cause {
            GoneCause::Reclaimed => self.left(folio),
            GoneCause::Freed => PastHeat::NONE,
        };
        if cause == GoneCause::Reclaimed {
            self.note_gone(folio);
        }
        self.forget(folio);
        let left = self.policy.gone(folio, cause);
        left.map(|(shadow, _)| (shadow, past))
    }

    fn ageing(&self, group: GroupId, swappiness: Swappiness) -> Result<Ageing, PolicyError> {
        self.policy.ageing(group, swappiness)
    }

    fn relaxed_walk(&self) -> RelaxedWalk {
        self.policy.relaxed_walk()
    }

    fn finish_walk(
        &mut self,
        group: GroupId,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(), PolicyError> {
        self.policy.finish_walk(group, swappiness, now)?;
        match self.ranks {
            Ranks::ByItself => self.walked(group, swappiness, now),
            Ranks::WhenTold => {
                self.finish_look(group);
                Ok(())
            }
        }
    }

    fn aborting(&self) -> Aborting {
        self.policy.aborting()
    }

    fn demoting_nodes(&self) -> NodeSet {
        self.policy.demoting_nodes()
    }

    fn is_reclaimable(
        &self,
        group: GroupId,
        node: NodeId,
        swappiness: Swappiness,
        priority: u8,
        now: TimeMs,
    ) -> Result<bool, PolicyError> {
        self.policy
            .is_reclaimable(group, node, swappiness, priority, now)
    }

    fn isolate(
        &mut self,
        request: ReclaimRequest,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError> {
        let answer = self.isolate_coldest(request, now, batch);
        self.handed_out(batch);
        answer
    }

    fn eviction_order(
        &self,
        group: GroupId,
        kind: Kind,
        now: TimeMs,
    ) -> Result<Box<dyn Iterator<Item = FolioId> + '_>, PolicyError> {
        match self.ranks {
            Ranks::ByItself => self.played_out(group, kind, now),
            // What is ranked goes when the mechanism says so, and not by itself.
            Ranks::WhenTold => self.policy.eviction_order(group, kind, now),
        }
    }

    fn isolate_chosen(
        &mut self,
        folios: &mut dyn Iterator<Item = FolioId>,
        nr_pages_max: u64,
        swappiness: Swappiness,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> u64 {
        let nr_pages = self
            .policy
            .isolate_chosen(folios, nr_pages_max, swappiness, now, batch);
        self.handed_out(batch);
        nr_pages
    }

    fn complete(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        self.settle(batch, verdicts);
        self.policy.complete(batch, verdicts);
    }

    fn kind(&self, folio: FolioId) -> Kind {
        self.policy.kind(folio)
    }

    fn order(&self, folio: FolioId) -> Order {
        self.policy.order(folio)
    }

    fn is_exec(&self, folio: FolioId) -> bool {
        self.policy.is_exec(folio)
    }

    fn is_too_young(&self, folio: FolioId, now: TimeMs) -> bool {
        self.policy.is_too_young(folio, now)
    }

    fn view(&self, group: GroupId, now: TimeMs) -> Result<Vec<GroupView>, PolicyError> {
        self.policy.view(group, now)
    }

    fn stats(&self, group: GroupId) -> Result<ReclaimStats, PolicyError> {
        self.policy.stats(group)
    }

    fn walks(&mut self) -> Option<&mut dyn AgeingWalks> {
        self.policy.walks()
    }

    fn walk_stats(&self, group: GroupId) -> Result<WalkStats, PolicyError> {
        self.policy.walk_stats(group)
    }

    fn lru_gen(&mut self) -> Option<&mut dyn LruGen> {
        self.policy.lru_gen()
    }

    fn tiering(&mut self) -> Option<&mut dyn Tiering> {
        self.policy.tiering()
    }

    fn memory_bytes(&self) -> u64 {
        self.policy.memory_bytes() + self.own_memory_bytes()
    }

    fn validate(&self) -> Result<(), String> {
        self.recount()?;
        self.policy.validate()
    }
}

impl<P: PlayedOut + Movable> Movable for ByHeat<P> {
    fn standing(&self, folio: FolioId) -> FolioStanding {
        self.policy.standing(folio)
    }

    #[inline]
    fn node(&self, folio: FolioId) -> NodeId {
        self.policy.node(folio)
    }

    fn add_node(&mut self, group: GroupId, node: NodeId) -> Result<(), PolicyError> {
        self.policy.add_node(group, node)
    }

    fn begin_move(&mut self, folio: FolioId) -> bool {
        let is_taken = self.policy.begin_move(folio);
        if is_taken {
            self.isolated(folio);
        }
        is_taken
    }

    fn end_move(&mut self, folio: FolioId, to: Option<NodeId>, was_active: bool) -> bool {
        let is_there = self.policy.end_move(folio, to, was_active);
        self.moved(folio, to);
        is_there
    }

    fn demoted(&mut self, folio: FolioId, to: NodeId) -> bool {
        let is_there = self.policy.demoted(folio, to);
        self.moved(folio, Some(to));
        is_there
    }
}
