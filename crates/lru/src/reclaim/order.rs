//! Which group is visited next in a pass.
//!
//! **Owns** the position in the tree or the memcg LRU. **Does not own** what the visit does.

use super::{goal::Target, rules::GroupOrder};
use crate::{
    group::ROOT,
    ids::{GroupId, NodeId},
    memcg_lru::{BinWalk, Move},
    policy::Policy,
};

/// A walk over groups.
#[derive(Debug)]
pub(super) enum GroupWalk {
    /// All of a subtree, parents first.
    Whole { top: GroupId, at: Option<GroupId> },
    /// A subtree, on from where the last partial walk left off.
    Partial { top: GroupId, is_begun: bool },
    /// The old generation of a node's memcg LRU.
    Bins { node: NodeId, bins: BinWalk },
}

impl GroupWalk {
    pub(super) fn begin<P: Policy + ?Sized>(
        target: Target,
        is_whole: bool,
        policy: &mut P,
    ) -> GroupWalk {
        let has_bins = policy.group_rules().order == GroupOrder::MemcgLru;
        match target {
            Target::Node(node) if has_bins && let Some(lru) = policy.memcg_lru(node) => {
                let bins = BinWalk::new(lru);
                GroupWalk::Bins { node, bins }
            }
            Target::Node(_) => GroupWalk::Whole {
                top: ROOT,
                at: None,
            },
            Target::Group(top) if is_whole => GroupWalk::Whole { top, at: None },
            Target::Group(top) => GroupWalk::Partial {
                top,
                is_begun: false,
            },
        }
    }

    /// Whether groups are taken in the order of the memcg LRU.
    pub(super) fn is_by_bins(&self) -> bool {
        matches!(self, GroupWalk::Bins { .. })
    }

    /// Whether a pass ends as soon as the goal is met.
    pub(super) fn ends_when_met(&self) -> bool {
        !matches!(self, GroupWalk::Whole { .. })
    }

    /// The next group; `by` is the move that is due for the last one.
    pub(super) fn next<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        by: Option<Move>,
    ) -> Option<GroupId> {
        match self {
            GroupWalk::Whole { top, at } => {
                let groups = policy.groups();
                // A group that went meanwhile may have been the place: the pass ends there.
                *at = match *at {
                    None => Some(*top),
                    Some(last) if groups.is_below(last, *top) => groups.next_below(*top, last),
                    Some(_) => None,
                };
                if *at == Some(ROOT) {
                    *at = groups.next_below(ROOT, ROOT);
                }
                *at
            }
            GroupWalk::Partial { top, is_begun } => {
                let groups = policy.groups_mut();
                let next = groups.advance_cursor(*top, NodeId(0));
                let is_first = !std::mem::replace(is_begun, true);
                // The last walk had come to its end.
                match next {
                    None if is_first => groups.advance_cursor(*top, NodeId(0)),
                    next => next,
                }
            }
            GroupWalk::Bins { node, bins } => bins.next(policy.memcg_lru(*node)?, by),
        }
    }
}
