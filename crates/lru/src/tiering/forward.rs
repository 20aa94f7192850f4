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

/// Calls that are the policy's own.
macro_rules! passed_on {
    (&self: $(fn $name:ident($($of:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        $(fn $name(&self, $($of: $type),*) $(-> $answer)? {
            self.policy.$name($($of),*)
        })*
    };
    (&mut self: $(fn $name:ident($($of:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        $(fn $name(&mut self, $($of: $type),*) $(-> $answer)? {
            self.policy.$name($($of),*)
        })*
    };
}

impl<P: Movable, const PAGE_CACHE: bool> Policy for Tiered<P, PAGE_CACHE> {
    passed_on! {
        &self:
        fn name() -> &'static str;
        fn groups() -> &GroupTree;
        fn group_rules() -> GroupRules;
        fn nr_evictable_pages(group: GroupId, node: Option<NodeId>, swappiness: Swappiness) -> Result<u64, PolicyError>;
        fn ageing(group: GroupId, swappiness: Swappiness) -> Result<Ageing, PolicyError>;
        fn relaxed_walk() -> RelaxedWalk;
        fn aborting() -> Aborting;
        fn is_reclaimable(
            group: GroupId,
            node: NodeId,
            swappiness: Swappiness,
            priority: u8,
            now: TimeMs
        ) -> Result<bool, PolicyError>;
        fn kind(folio: FolioId) -> Kind;
        fn order(folio: FolioId) -> Order;
        fn view(group: GroupId, now: TimeMs) -> Result<Vec<GroupView>, PolicyError>;
        fn stats(group: GroupId) -> Result<ReclaimStats, PolicyError>;
        fn walk_stats(group: GroupId) -> Result<WalkStats, PolicyError>;
    }

    passed_on! {
        &mut self:
        fn remove_group(group: GroupId) -> Result<(), PolicyError>;
        fn set_limits(group: GroupId, limits: Limits) -> Result<(), PolicyError>;
        fn groups_mut() -> &mut GroupTree;
        fn memcg_lru(node: NodeId) -> Option<&mut MemcgLru>;
        fn soft_limit_exceeded(group: GroupId);
        fn swap_freed(group: GroupId, nr_pages: u64) -> Result<(), PolicyError>;
        fn appeared(arrival: Arrival) -> Result<FolioId, PolicyError>;
        fn deactivate(folio: FolioId);
        fn set_write_state(folio: FolioId, state: WriteState);
        fn gone(folio: FolioId, cause: GoneCause) -> Option<Shadow>;
        fn complete(batch: &mut EvictBatch, verdicts: &[Verdict]);
        fn walks() -> Option<&mut dyn AgeingWalks>;
        fn lru_gen() -> Option<&mut dyn LruGen>;
    }

    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError> {
        self.note_time(now);
        let group = self.policy.add_child_group(parent, path, now)?;
        // It has room on every node.
        for at in 0..self.topology().nodes().len() {
            let node = self.topology().nodes()[at].node;
            self.policy.add_node(group, node)?;
        }
        Ok(group)
    }

    fn accessed(&mut self, folio: FolioId, via: AccessVia) {
        if PAGE_CACHE && via == AccessVia::FileDescriptor {
            self.accessed_unmapped(folio);
        } else {
            self.policy.accessed(folio, via);
        }
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

    fn demoting_nodes(&self) -> NodeSet {
        self.nodes_above_others()
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
