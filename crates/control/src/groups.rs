//! A tree of groups: each has its budget and its loop, and what goes from a group goes from all above it, too.
//!
//! ```text
//!   samples, by group -> the lowest groups tick first -> what they ask for counts as going from those above -> plans
//! ```
//!
//! **Owns** the tree, and the order of ticks within it. **Does not own** the decisions of a group ([`Control`]), nor which
//! groups there are.
//!
//! **Invariants** I1: a group number is never reused. I2: a group asks for its excess over the low mark, less what the
//! groups below it ask for in the same tick. What a dry run would take is not deducted.

use crate::control::Control;
use crate::plan::{Plan, Reclaim};
use crate::sample::{PAGE_BYTES, Sample};
use std::collections::BTreeMap;

/// A group of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupNo(u32);

impl GroupNo {
    /// The one that all others are below.
    pub const ROOT: GroupNo = GroupNo(0);
}

/// A group below the root.
#[derive(Debug)]
struct Node {
    parent: GroupNo,
    control: Control,
}

/// All groups that are looked after.
#[derive(Debug)]
pub struct Groups {
    root: Control,
    /// By number; that of a group is higher than that of the one above it.
    below: BTreeMap<GroupNo, Node>,
    last: GroupNo,
}

impl Groups {
    /// The root alone.
    pub fn new(root: Control) -> Groups {
        Groups {
            root,
            below: BTreeMap::new(),
            last: GroupNo::ROOT,
        }
    }

    /// One more, below `parent`. `None`: there is no such parent.
    pub fn add(&mut self, parent: GroupNo, control: Control) -> Option<GroupNo> {
        self.get(parent)?;
        self.last = GroupNo(self.last.0 + 1);
        self.below.insert(self.last, Node { parent, control });
        Some(self.last)
    }

    /// A group is gone. One that has groups below it, and the root, stay: `false`.
    pub fn remove(&mut self, number: GroupNo) -> bool {
        let is_above = |node: &Node| node.parent == number;
        !self.below.values().any(is_above) && self.below.remove(&number).is_some()
    }

    /// The root.
    pub fn root(&self) -> &Control {
        &self.root
    }

    /// The root, to tell it something.
    pub fn root_mut(&mut self) -> &mut Control {
        &mut self.root
    }

    /// One of the groups.
    pub fn get(&self, number: GroupNo) -> Option<&Control> {
        match number {
            GroupNo::ROOT => Some(&self.root),
            number => Some(&self.below.get(&number)?.control),
        }
    }

    /// One of the groups, to tell it something.
    pub fn get_mut(&mut self, number: GroupNo) -> Option<&mut Control> {
        match number {
            GroupNo::ROOT => Some(&mut self.root),
            number => Some(&mut self.below.get_mut(&number)?.control),
        }
    }

    /// Takes in what was read of each group; says what is to be done with each. A group that was not read has no tick.
    pub fn tick(&mut self, mut samples: BTreeMap<GroupNo, Sample>) -> BTreeMap<GroupNo, Plan> {
        let mut going_bytes: BTreeMap<GroupNo, u64> = BTreeMap::new();
        let mut plans = BTreeMap::new();
        // From the highest number down no group comes before one that is below it.
        let below = self.below.iter_mut().rev();
        let below = below.map(|(number, node)| (*number, &mut node.control, Some(node.parent)));
        for (number, control, parent) in below.chain([(GroupNo::ROOT, &mut self.root, None)]) {
            let mut bytes = going_bytes.remove(&number).unwrap_or(0);
            if let Some(sample) = samples.remove(&number) {
                let plan = control.tick(Sample {
                    going_bytes: bytes,
                    ..sample
                });
                if !control.is_dry_run() {
                    bytes += asked_bytes(plan.decision.reclaim());
                }
                plans.insert(number, plan);
            }
            if let Some(parent) = parent {
                *going_bytes.entry(parent).or_default() += bytes;
            }
        }
        plans
    }
}

fn asked_bytes(reclaim: Reclaim) -> u64 {
    reclaim.pageout_pages * PAGE_BYTES + reclaim.kernel_bytes
}

#[cfg(test)]
mod tests;
