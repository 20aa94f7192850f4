//! Who belongs to the group: the spaces of its processes, through fork, exec and exit.
//!
//! **Owns** which space of the tracker each process has. **Does not own** finding the processes, nor
//! noticing exec and shared spaces (`process`).
//!
//! **Invariants** I1: every space the tree yields has a number, until the tree says it ended.

use crate::pages::places::{NR_SPACES_MAX, SpaceNo};
use crate::pages::tracker::Tracker;
use std::collections::BTreeMap;
use std::sync::Arc;
use strata_linux::process::ProcessTree;

/// The members of a group.
#[derive(Debug)]
pub(crate) struct Members {
    tree: ProcessTree,
    spaces: BTreeMap<i32, SpaceNo>,
    nr_seen: u64,
}

impl Members {
    /// Follows `tree`.
    pub(crate) fn new(tree: ProcessTree) -> Members {
        Members {
            tree,
            spaces: BTreeMap::new(),
            nr_seen: 0,
        }
    }

    /// The processes as last refreshed.
    pub(crate) fn tree(&self) -> &ProcessTree {
        &self.tree
    }

    /// How many spaces there have been.
    pub(crate) fn nr_seen(&self) -> u64 {
        self.nr_seen
    }

    /// Looks who came and went; `listed` are the processes of the group where it has a list.
    /// Returns what can't be managed and why, each once.
    pub(crate) fn refresh(&mut self, listed: Option<&[i32]>, tracker: &mut Tracker) -> Vec<String> {
        let change = match self.tree.refresh(listed) {
            Ok(change) => change,
            Err(error) => return vec![format!("the process list can't be read: {error}")],
        };
        for ended in &change.ended {
            if let Some(number) = self.spaces.remove(&ended.pid()) {
                tracker.remove_space(number);
            }
        }
        let mut refused: Vec<String> = change
            .refused
            .iter()
            .map(|(_, error)| error.to_string())
            .collect();
        for process in &change.appeared {
            self.nr_seen += 1;
            match tracker.add_space(Arc::clone(process)) {
                Some(number) => {
                    let former = self.spaces.insert(process.pid(), number);
                    debug_assert!(former.is_none(), "{} is managed twice", process.pid());
                }
                None => refused.push(format!(
                    "process {} is not managed: there are more than {} already",
                    process.pid(),
                    NR_SPACES_MAX
                )),
            }
        }
        refused
    }
}
