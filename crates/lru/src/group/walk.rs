//! One group after another: the hierarchical order of the kernel's iterator.
//!
//! A parent comes before its children, children in the order of their birth. Pressure on a group
//! visits it and all below it. A walk that ends as soon as enough is freed would always press the
//! same groups first; so it goes on, next time, where it left off.
//!
//! **Owns** the order and where walks go on. **Does not own** what is done at a group.

use super::tree::{GroupTree, NONE, ROOT};
use crate::ids::{GroupId, NodeId};

impl GroupTree {
    /// All groups, parents before their children.
    pub fn ids(&self) -> impl Iterator<Item = GroupId> {
        let mut at = self.next_below(ROOT, ROOT);
        std::iter::from_fn(move || {
            let current = at?;
            at = self.next_below(ROOT, current);
            Some(current)
        })
    }

    /// Whether a group that is there is `top` or lies below it.
    pub(crate) fn is_below(&self, group: GroupId, top: GroupId) -> bool {
        let mut at = Some(group);
        while let Some(group) = at {
            if group == top {
                return true;
            }
            at = self.parent_or_root(group);
        }
        false
    }

    /// The group after `at` in the walk of `top` and all below it; `None` at its end.
    pub(crate) fn next_below(&self, top: GroupId, at: GroupId) -> Option<GroupId> {
        let mut of = self.node(at.0);
        if of.first_child != NONE {
            return Some(GroupId(of.first_child));
        }
        let mut number = at.0;
        while number != top.0 && number != ROOT.0 {
            if of.after != NONE {
                return Some(GroupId(of.after));
            }
            number = of.parent;
            of = self.node(number);
        }
        None
    }

    /// The group before one other than the root, in any walk that visits both.
    pub(super) fn before_in_walk(&self, group: GroupId) -> GroupId {
        let of = self.node(group.0);
        if of.before == NONE {
            return GroupId(of.parent);
        }
        let mut last = of.before;
        while self.node(last).last_child != NONE {
            last = self.node(last).last_child;
        }
        GroupId(last)
    }

    /// Takes the next step of the walk that all partial walks of a subtree on a node share.
    /// `None` when its end is reached, and the walk begins anew after that.
    pub(crate) fn advance_cursor(&mut self, top: GroupId, node: NodeId) -> Option<GroupId> {
        let next = match self.cursor(top, node) {
            Some(at) => self.next_below(top, at),
            None => Some(top),
        };
        self.set_cursor(top, node, next);
        next
    }
}
