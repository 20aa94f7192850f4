//! Memory nodes as they stand, and which node has room for what a group uses.
//!
//! **Owns** what is told of a node, and the order in which groups get room. **Does not own** which nodes there are
//! (`strata_linux::nodes`), nor on which of them a page is (the ledger).
//!
//! **Invariants**
//! - I1: what fits a node, all groups together, is no more than what is free there and what these groups hold there.

use super::OnNodes;
use std::cmp::Reverse;
use strata_linux::nodes::Nodes;
use strata_lru::NodeId;

/// A memory node as it stands. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NodeStatus {
    /// The kernel's number.
    pub node: u32,
    /// Whether its memory is as fast as any that a processor is near to.
    pub is_upper: bool,
    /// All of it.
    pub total_bytes: u64,
    /// Free.
    pub free_bytes: u64,
    /// Of the groups that are looked after.
    pub resident_bytes: u64,
}

impl NodeStatus {
    /// All nodes, of which so much is held by groups.
    pub fn of_all(nodes: &Nodes, resident: &OnNodes) -> Vec<NodeStatus> {
        let rooms = nodes.rooms().unwrap_or_default();
        let nodes = nodes
            .nodes()
            .iter()
            .enumerate()
            .zip(rooms)
            .map(|((at, node), room)| NodeStatus {
                node: node.kernel_id,
                is_upper: nodes.is_upper(NodeId(at as u8)),
                total_bytes: room.total_bytes,
                free_bytes: room.free_bytes,
                resident_bytes: resident.get(&node.kernel_id).copied().unwrap_or(0),
            });
        nodes.collect()
    }
}

/// The fastest node with room for each of these working sets, bytes; the largest is given room first. `None`: no node has room.
pub(super) fn fit(used_bytes: &[u64], nodes: &[NodeStatus]) -> Vec<Option<u32>> {
    let mut rooms: Vec<(&NodeStatus, u64)> = nodes
        .iter()
        .map(|node| (node, node.free_bytes + node.resident_bytes))
        .collect();
    rooms.sort_by_key(|(node, _)| !node.is_upper);
    let mut by_use: Vec<usize> = (0..used_bytes.len()).collect();
    by_use.sort_by_key(|at| Reverse(used_bytes[*at]));
    let mut fits = vec![None; used_bytes.len()];
    for at in by_use {
        let room = rooms.iter_mut().find(|(_, room)| *room >= used_bytes[at]);
        fits[at] = room.map(|(node, room)| {
            *room -= used_bytes[at];
            node.node
        });
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(node: u32, is_upper: bool, free_bytes: u64, resident_bytes: u64) -> NodeStatus {
        NodeStatus {
            node,
            is_upper,
            total_bytes: 1000,
            free_bytes,
            resident_bytes,
        }
    }

    #[test]
    fn what_is_used_most_gets_fast_memory_and_what_fits_nowhere_is_told() {
        // The slow node stands first: order is by speed, not by number.
        let nodes = [node(0, false, 100, 200), node(1, true, 50, 460)];
        let fits = fit(&[10, 500, 150, 2000], &nodes);
        assert_eq!(fits, [Some(1), Some(1), Some(0), None]);
    }
}
