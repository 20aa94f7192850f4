//! What a command comes to: a walk, or evictions batch by batch.
//!
//! **Owns** these values. **Does not own** how a command becomes one, or what is done with it (`multigen::command`).

use crate::{
    ids::{GenSeq, GroupId, NodeId},
    swappiness::Swappiness,
};

/// What a command comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing is to be done: the generation is there already (up to 6.13).
    Done,
    /// Walk, then [`LruGen::finish_planned_walk`](super::LruGen::finish_planned_walk).
    Walk(WalkPlan),
    /// Evict the batches of [`LruGen::isolate_planned`](super::LruGen::isolate_planned) until there is none.
    Evict(EvictPlan),
}

/// A walk asked for by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkPlan {
    /// Whose.
    pub group: GroupId,
    /// Where.
    pub node: NodeId,
    /// Which kinds.
    pub swappiness: Swappiness,
    /// Whether to look also where the filters say nothing was young.
    pub is_scan_forced: bool,
    pub(crate) lruvec: usize,
    pub(crate) max_seq: u64,
}

/// An eviction asked for by a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictPlan {
    /// Whose.
    pub group: GroupId,
    /// Where.
    pub node: NodeId,
    /// Which kinds.
    pub swappiness: Swappiness,
    /// The youngest generation to evict.
    pub seq: GenSeq,
    /// Base pages after which it is enough.
    pub nr_pages_max: u64,
    pub(crate) lruvec: usize,
}
