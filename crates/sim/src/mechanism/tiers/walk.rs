//! Walks on tiers: each node ages by itself, so a walk takes the accessed bits of one node's pages.
//!
//! **Owns** which node a walk is for. **Does not own** what is visited (the one-node mechanism's `walk`), or what the policy makes
//! of it.

use strata_lru::{FolioId, GroupId, NodeId, Policy, Swappiness};

use super::{super::walk::PageTables, machine::TierMachine};
use crate::simulate::SimError;

impl TierMachine<'_> {
    /// Walks a group's page tables for a node, or for each, and begins a generation there.
    pub(super) fn walk(
        &mut self,
        group: GroupId,
        node: Option<NodeId>,
        swappiness: Swappiness,
    ) -> Result<(), SimError> {
        let nodes = match node {
            Some(NodeId(node)) => node..node + 1,
            None => 0..self.nodes.len() as u8,
        };
        for node in nodes {
            let now = self.now;
            let (tables, node_of) = self.tables();
            let lies_there = |slot: u32| node_of[slot as usize] == node;
            tables.walk(group, NodeId(node), swappiness, now, lies_there)?;
        }
        Ok(())
    }

    /// Looks at the entries around one that was found accessed when its page was to go, of pages on the same node.
    pub(super) fn look_around(&mut self, folio: FolioId, slot: u32) {
        let (tables, node_of) = self.tables();
        let node = node_of[slot as usize];
        tables.look_around(folio, slot, |of| node_of[of as usize] == node);
    }

    /// Its page tables, and by slot which node a page lies on.
    fn tables(&mut self) -> (PageTables<'_, dyn Policy>, &[u8]) {
        let tables = PageTables {
            policy: self.policy.as_mut(),
            layout: &self.layout,
            memory: &mut self.memory,
            spaces: &mut self.spaces,
        };
        (tables, &self.node_of)
    }
}
