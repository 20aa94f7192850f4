//! Memory nodes as they stand, and which node has room for what a group uses.
//!
//! **Owns** what is told of a node, and the order in which groups get room. **Does not own** which nodes there are
//! (`strata_linux::nodes`), nor on which of them a page is (the ledger).
//!
//! **Invariants**
//! - I1: what fits a node, all groups together, is no more than what is free there and what these groups hold there.

use super::{OnNodes, RankedGroup};
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

/// Gives each group the fastest node that has room for what is not idle of it, the groups first that use most.
pub(super) fn fit(groups: &mut [RankedGroup], nodes: &[NodeStatus]) {
    let mut rooms: Vec<(&NodeStatus, u64)> = nodes
        .iter()
        .map(|node| (node, node.free_bytes + node.resident_bytes))
        .collect();
    rooms.sort_by_key(|(node, _)| !node.is_upper);
    let mut by_use: Vec<&mut RankedGroup> = groups.iter_mut().collect();
    by_use.sort_by_key(|group| Reverse(group.used_bytes()));
    for group in by_use {
        let used_bytes = group.used_bytes();
        let room = rooms.iter_mut().find(|(_, room)| *room >= used_bytes);
        group.fits_node = room.map(|(node, room)| {
            *room -= used_bytes;
            node.node
        });
    }
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

    fn group(name: &str, resident_bytes: u64, idle_bytes: u64) -> RankedGroup {
        RankedGroup {
            group: name.to_owned(),
            resident_bytes,
            idle_bytes,
            ..RankedGroup::default()
        }
    }

    #[test]
    fn what_is_used_most_gets_fast_memory_and_what_fits_nowhere_is_told() {
        let mut groups = [
            group("/idle", 500, 490),
            group("/large", 900, 400),
            group("/small", 150, 0),
            group("/huge", 2000, 0),
        ];
        // The slow node stands first: order is by speed, not by number.
        fit(
            &mut groups,
            &[node(0, false, 100, 200), node(1, true, 50, 460)],
        );
        let fits = groups.map(|group| (group.group, group.fits_node));
        let expected = [
            ("/idle", Some(1)),
            ("/large", Some(1)),
            ("/small", Some(0)),
            ("/huge", None),
        ];
        assert_eq!(fits, expected.map(|(name, node)| (name.to_owned(), node)));
    }
}
