//! Where usage is read: the group's counter, or the sum over a tree of processes.
//!
//! **Owns** the choice between the two. **Does not own** the group or the tree.

use std::sync::Arc;
use strata_linux::cgroup::{BudgetGroup, CgroupError, Version};
use strata_linux::hold_up;
use strata_linux::process::{ProcessTree, tree_counted_bytes, tree_rss_bytes};

/// What tells how much is used.
#[derive(Clone, Debug)]
pub(super) enum Gauge {
    /// A memory cgroup: exact, one read.
    Group(Arc<BudgetGroup>),
    /// The sum of resident memory: shared pages count once for each process in the quick sum, and by share once that
    /// sum says the budget is near; of large processes they always count in full.
    Tree,
}

impl Gauge {
    /// Usage now, bytes, where so much may be used.
    pub(super) fn usage_bytes(
        &self,
        tree: &ProcessTree,
        budget_bytes: u64,
    ) -> Result<u64, CgroupError> {
        match self {
            Gauge::Group(group) => group.usage_bytes(),
            Gauge::Tree => {
                let quick = tree_counted_bytes(tree);
                let is_alone = tree.nr_processes() <= 1;
                if is_alone || quick < budget_bytes / 10 * 9 {
                    Ok(quick)
                } else {
                    Ok(tree_rss_bytes(tree, hold_up::pages_at_once()))
                }
            }
        }
    }

    /// The group's processes, where there is a group.
    pub(super) fn processes(&self) -> Option<Vec<i32>> {
        match self {
            Gauge::Group(group) => group.processes().ok(),
            Gauge::Tree => None,
        }
    }

    /// Whether the group is gone, or was found to have nobody in it; where there is no group, nobody is in one.
    pub(super) fn is_deserted(&self) -> bool {
        match self.group().map(|group| group.is_inhabited()) {
            None | Some(Err(CgroupError::Gone(_))) => true,
            Some(Ok(is_inhabited)) => !is_inhabited,
            // Who can't be counted may be there.
            Some(Err(_)) => false,
        }
    }

    /// The group, if there is one.
    pub(super) fn group(&self) -> Option<&Arc<BudgetGroup>> {
        match self {
            Gauge::Group(group) => Some(group),
            Gauge::Tree => None,
        }
    }

    /// For the report.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Gauge::Group(group) => match group.version() {
                Version::V1 => "cgroup_v1",
                Version::V2 => "cgroup_v2",
            },
            Gauge::Tree => "rss",
        }
    }
}
