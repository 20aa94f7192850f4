//! The trait that every reclaim policy has.
//!
//! **Owns** [`Policy`], with the calls of the seam and the defaults of those that not every policy needs. **Does not own** the values
//! that are exchanged (`seam`), nor any policy.

use crate::{
    error::PolicyError,
    group::{GroupTree, Limits, ROOT},
    ids::{FolioId, GroupId, Kind, NodeId, NodeSet, Order, TimeMs},
    lru_gen::LruGen,
    memcg_lru::MemcgLru,
    reclaim::GroupRules,
    rules::Aborting,
    seam::{
        AccessVia, Ageing, Arrival, EvictBatch, GoneCause, GroupView, Isolated, ReclaimRequest,
        ReclaimStats, RelaxedWalk, Shadow, Verdict, WriteState,
    },
    swappiness::Swappiness,
    tiering::Tiering,
    walk::{AgeingWalks, WalkStats},
};

/// A reclaim policy: [`MultiGen`](crate::MultiGen), or the classic two lists ([`TwoList`](crate::TwoList))
/// behind the same door.
///
/// The mechanism promises: a folio is reported `appeared` once before anything else is said of it,
/// and nothing is said of it after it is gone; folios of a batch are completed once. The policy
/// promises: it never hands out a folio twice, and forgets a folio only when told it is gone.
/// A folio that `gone` names while it is isolated stays in the batch and is completed with
/// [`Verdict::Gone`]; its id is not reused before.
pub trait Policy: std::fmt::Debug + Send {
    /// Name of the policy on the command line.
    fn name(&self) -> &'static str;

    /// Makes a group whose generations are born `now`.
    fn add_group(&mut self, path: &str, now: TimeMs) -> Result<GroupId, PolicyError> {
        self.add_child_group(ROOT, path, now)
    }

    /// Makes a group below another one, or the root: what it uses counts for both.
    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError>;

    /// Removes a group that has no children. What is charged to it stays, unprotected, until it
    /// has been reclaimed or freed; then the group's number may be given to another.
    fn remove_group(&mut self, group: GroupId) -> Result<(), PolicyError>;

    /// Changes what a group may use. Nothing is reclaimed by that alone.
    fn set_limits(&mut self, group: GroupId, limits: Limits) -> Result<(), PolicyError>;

    /// The groups: usage, limits, protection, events.
    fn groups(&self) -> &GroupTree;

    /// The groups, for [`Reclaim`](crate::Reclaim), which counts events and remembers its place there.
    fn groups_mut(&mut self) -> &mut GroupTree;

    /// The memcg LRU of a node, if this policy has one and the node has been used.
    fn memcg_lru(&mut self, _node: NodeId) -> Option<&mut MemcgLru> {
        None
    }

    /// A group is above its soft limit (cgroup v1): the next to be reclaimed under global pressure.
    fn soft_limit_exceeded(&mut self, _group: GroupId) {}

    /// How reclaim from several groups goes.
    fn group_rules(&self) -> GroupRules {
        GroupRules::CLASSIC
    }

    /// Base pages that a group has in swap will not come back: they were freed, or they came back
    /// for another group. Anon is charged to its group's swap from its eviction until it returns
    /// with its shadow, or until this is said; more than the group has there counts as all of it.
    fn swap_freed(&mut self, group: GroupId, nr_pages: u64) -> Result<(), PolicyError>;

    /// Base pages of a group that this swappiness allows to evict, on one node or on all.
    fn nr_evictable_pages(
        &self,
        group: GroupId,
        node: Option<NodeId>,
        swappiness: Swappiness,
    ) -> Result<u64, PolicyError>;

    /// A folio is in memory. With a shadow this is a refault.
    fn appeared(&mut self, arrival: Arrival) -> Result<FolioId, PolicyError>;

    /// A folio was accessed. For [`AccessVia::PageTable`] changes flags only, never a list.
    fn accessed(&mut self, folio: FolioId, via: AccessVia);

    /// A hint that a folio is not needed soon (`MADV_COLD`, `POSIX_FADV_DONTNEED`): what was counted
    /// is forgotten, and it enters anew as if nobody waited for it. A policy may ignore it.
    fn deactivate(&mut self, folio: FolioId) {
        let _ = folio;
    }

    /// A folio became dirty (of a file) or began to be written, or is clean again. A mechanism that
    /// can't tell never calls this; a policy that does not care ignores it.
    fn set_write_state(&mut self, folio: FolioId, state: WriteState) {
        let (_, _) = (folio, state);
    }

    /// A folio left memory outside any batch; its shadow is to be kept for its return.
    fn gone(&mut self, folio: FolioId, cause: GoneCause) -> Option<Shadow>;

    /// Whether a walk is due; never, where accessed bits are only read at the end of a list.
    fn ageing(&self, group: GroupId, _swappiness: Swappiness) -> Result<Ageing, PolicyError> {
        self.groups().get(group).map(|_| Ageing::NotDue)
    }

    /// What becomes of a walk that is due while scanning is relaxed.
    fn relaxed_walk(&self) -> RelaxedWalk {
        RelaxedWalk::PutOff
    }

    /// Ends a walk of the group: everything young was reported, a new generation is born `now`.
    fn finish_walk(
        &mut self,
        group: GroupId,
        _swappiness: Swappiness,
        _now: TimeMs,
    ) -> Result<(), PolicyError> {
        self.groups().get(group).map(|_| ())
    }

    /// When a reclaim of this policy stops scanning at one priority before its budget is used up.
    fn aborting(&self) -> Aborting {
        Aborting::WhenMet
    }

    /// The nodes whose folios reclaim may move down to a slower one. From there anon can be taken even
    /// without swap.
    fn demoting_nodes(&self) -> NodeSet {
        NodeSet::default()
    }

    /// Whether a group has anything on a node that is older than what the policy promises to keep.
    /// Reclaim of a node asks it of all groups before each pass, and ends when none has. A policy that
    /// promises nothing of the kind, or keeps a promise group by group, says yes.
    fn is_reclaimable(
        &self,
        group: GroupId,
        _node: NodeId,
        _swappiness: Swappiness,
        _priority: u8,
        _now: TimeMs,
    ) -> Result<bool, PolicyError> {
        self.groups().get(group).map(|_| true)
    }

    /// Takes folios off their lists into `batch`, which is cleared first.
    fn isolate(
        &mut self,
        request: ReclaimRequest,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError>;

    /// Learns what became of a batch; `verdicts[i]` is of `batch.folios[i]`, `batch.young[i]` of
    /// `batch.to_check[i]`. Evicted and gone folios are forgotten (`batch.shadows` is filled), the
    /// others are put back.
    fn complete(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]);

    /// Kind of a live folio.
    fn kind(&self, folio: FolioId) -> Kind;

    /// Size of a live folio.
    fn order(&self, folio: FolioId) -> Order;

    /// Sizes and ages of the group's generations (active and inactive count as two for `TwoList`).
    fn view(&self, group: GroupId, now: TimeMs) -> Result<Vec<GroupView>, PolicyError>;

    /// The group's counters.
    fn stats(&self, group: GroupId) -> Result<ReclaimStats, PolicyError>;

    /// The walks that leave idle spaces and sparse tables out, if this policy has them.
    fn walks(&mut self) -> Option<&mut dyn AgeingWalks> {
        None
    }

    /// The group's counters of walks.
    fn walk_stats(&self, _group: GroupId) -> Result<WalkStats, PolicyError> {
        Ok(WalkStats::default())
    }

    /// The kernel's `lru_gen` commands and full text, if this policy has generations.
    fn lru_gen(&mut self) -> Option<&mut dyn LruGen> {
        None
    }

    /// Moving pages between fast and slow nodes, if this policy was made to.
    fn tiering(&mut self) -> Option<&mut dyn Tiering> {
        None
    }

    /// Bytes of memory the policy itself uses.
    fn memory_bytes(&self) -> u64;

    /// Recounts everything; the error says what does not add up.
    fn validate(&self) -> Result<(), String>;
}
