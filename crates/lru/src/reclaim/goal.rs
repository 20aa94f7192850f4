//! What a reclaim is asked for, and what it answers.
//!
//! **Owns** goals, steps and outcomes. **Does not own** how a goal is met (`reclaim`).

use crate::{
    group::{Excess, GroupEvent},
    ids::{GroupId, NodeId},
    seam::Origin,
    swappiness::Swappiness,
};

/// The most relaxed priority.
pub(super) const PRIORITY_MAX: u8 = 12;

/// The least that is reclaimed when a limit is hit (the kernel's SWAP_CLUSTER_MAX).
const NR_GOAL_PAGES_MIN: u64 = 32;

/// Where memory has to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Any group with pages on this node.
    Node(NodeId),
    /// A group and all below it.
    Group(GroupId),
}

/// What a reclaim is to achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    /// Where from.
    pub target: Target,
    /// Base pages that are enough.
    pub nr_pages: u64,
    /// Balance of the kinds. A group whose swap is full gives file pages only, whatever this says, but
    /// from nodes whose folios can be moved down.
    pub swappiness: Swappiness,
    /// Who asks.
    pub origin: Origin,
    /// Base pages in a batch, as far as the policy does not decide that. Default: 64.
    pub nr_batch_pages: u64,
    /// Base pages that the node lacks up to its high watermark, where reclaim is global and the
    /// mechanism has watermarks. The classic lists spare a little page cache by it. Default: `None`.
    pub nr_short_pages: Option<u64>,
    pub(super) event: Option<GroupEvent>,
}

impl Goal {
    /// Base pages in a batch (the kernel's MIN_LRU_BATCH).
    pub const NR_BATCH_PAGES: u64 = 64;

    /// To free base pages of a node.
    pub fn of_node(node: NodeId, nr_pages: u64, origin: Origin) -> Goal {
        Goal {
            target: Target::Node(node),
            nr_pages,
            swappiness: Swappiness::DEFAULT,
            origin,
            nr_batch_pages: Self::NR_BATCH_PAGES,
            nr_short_pages: None,
            event: None,
        }
    }

    /// To free base pages of a group and all below it, on demand (`memory.reclaim`).
    pub fn of_group(group: GroupId, nr_pages: u64) -> Goal {
        Goal {
            target: Target::Group(group),
            ..Self::of_node(NodeId(0), nr_pages, Origin::Direct)
        }
    }

    /// To bring a group below `max` before it is charged; counts as its event.
    pub fn over_max(excess: Excess) -> Goal {
        Self::over(excess, GroupEvent::Max)
    }

    /// To bring a group down towards `high`; counts as its event.
    pub fn over_high(excess: Excess) -> Goal {
        Self::over(excess, GroupEvent::High)
    }

    fn over(excess: Excess, event: GroupEvent) -> Goal {
        let nr_pages = excess.nr_pages.max(NR_GOAL_PAGES_MIN);
        Goal {
            event: Some(event),
            ..Self::of_group(excess.group, nr_pages)
        }
    }
}

/// What the mechanism has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Try the batch, [`Policy::complete`](crate::Policy::complete) it, say [`Reclaim::freed`](super::Reclaim::freed).
    Evict {
        /// Whose it is.
        group: GroupId,
    },
    /// Walk the group and end the walk (or not: the group then has nothing to give in this visit).
    Walk {
        /// Whose address spaces.
        group: GroupId,
        /// The node that is short; `None` when all the group's are meant.
        node: Option<NodeId>,
        /// Which kinds.
        swappiness: Swappiness,
    },
    /// Nothing.
    Done(Outcome),
}

/// How a reclaim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The goal was met.
    Met,
    /// Something was freed, less than wanted: ask again, or somebody else.
    Short,
    /// Nobody has anything to give.
    Exhausted,
    /// Everything left is younger than `min_ttl`: a kernel would kill.
    Thrashing,
}

/// What a reclaim came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Base pages freed.
    pub nr_freed_pages: u64,
    /// Base pages scanned.
    pub nr_scanned_pages: u64,
    /// Why it ended.
    pub end: End,
    /// The priority it ended at.
    pub priority: u8,
}
