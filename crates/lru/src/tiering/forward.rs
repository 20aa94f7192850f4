//! The door of a wrapped policy: everything is the policy's own but what tiers change.
//!
//! **Owns** the passing on. **Does not own** anything else; a test reads this file and
//! the trait's and finds every call here (`every_call_of_a_policy_is_passed_on`).

use super::{Movable, Tiering, tiered::Tiered};
use crate::{
    error::PolicyError,
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
    walk::{AgeingWalks, WalkStats},
};

impl<P: Movable, const PAGE_CACHE: bool> Tiered<P, PAGE_CACHE> {
    /// Gives a new group room on every node.
    fn add_nodes(&mut self, group: GroupId) -> Result<(), PolicyError> {
        for at in 0..self.topology().nodes().len() {
            let node = self.topology().nodes()[at].node;
            self.policy.add_node(group, node)?;
        }
        Ok(())
    }
}

impl<P: Movable, const PAGE_CACHE: bool> Policy for Tiered<P, PAGE_CACHE> {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn add_group(&mut self, path: &str, now: TimeMs) -> Result<GroupId, PolicyError> {
        self.note_time(now);
        let group = self.policy.add_group(path, now)?;
        self.add_nodes(group)?;
        Ok(group)
    }

    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        self.note_time(now);
        let group = self.policy.add_child_group(parent, path, now)?;
        self.add_nodes(group)?;
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
        self.policy.appeared(arrival)
    }

    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        if PAGE_CACHE && via == AccessVia::FileDescriptor {
            self.accessed_unmapped(folio);
        } else {
            self.policy.accessed(folio, via);
        }
    }

    fn deactivate(&mut self, folio: FolioId) {
        self.policy.deactivate(folio);
    }

    fn set_write_state(&mut self, folio: FolioId, state: WriteState) {
        self.policy.set_write_state(folio, state);
    }

    fn gone(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow> {
        self.policy.gone(folio, cause)
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
        self.note_time(now);
        self.policy.finish_walk(group, swappiness, now)
    }

    fn aborting(&self) -> Aborting {
        self.policy.aborting()
    }

    fn demoting_nodes(&self) -> NodeSet {
        self.nodes_above_others()
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
        self.note_time(now);
        self.policy.isolate(request, now, batch)
    }

    fn complete(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]) {
        self.policy.complete(batch, verdicts);
    }

    fn kind(&self, folio: FolioId) -> Kind {
        self.policy.kind(folio)
    }

    fn order(&self, folio: FolioId) -> Order {
        self.policy.order(folio)
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
        Some(self)
    }

    fn memory_bytes(&self) -> u64 {
        self.policy.memory_bytes() + self.own_memory_bytes()
    }

    fn validate(&self) -> Result<(), String> {
        self.validate_queue()?;
        self.policy.validate()
    }
}
