//! Who lies below whom.

use super::*;

fn topology(nodes: &[(u8, u32, bool)]) -> Topology {
    let nodes = nodes
        .iter()
        .map(|(number, distance, has_cpu)| node(*number, *distance, *has_cpu));
    Topology::try_new(nodes.collect()).unwrap()
}

fn numbers(nodes: &[NodeId]) -> Vec<u8> {
    nodes.iter().map(|node| node.0).collect()
}

#[test]
fn nodes_whose_distances_share_a_chunk_of_128_are_one_tier() {
    let nodes = topology(&[(0, 512, true), (1, 639, false), (2, 640, false)]);
    assert_eq!(numbers(nodes.lower_nodes(NodeId(0))), [2]);
    assert_eq!(numbers(nodes.lower_nodes(NodeId(1))), [2]);
    assert_eq!(numbers(nodes.lower_nodes(NodeId(2))), []);
}

#[test]
fn top_tiers_are_those_no_slower_than_the_slowest_with_processors() {
    let nodes = topology(&[
        (0, 512, true),
        (1, 0, false),
        (2, 700, true),
        (3, 900, false),
    ]);
    let top: Vec<u8> = (0..=4).filter(|n| nodes.is_top_tier(NodeId(*n))).collect();
    assert_eq!(
        top,
        [0, 1, 2, 4],
        "4 is no node of ours: nothing is promoted from it"
    );
    assert_eq!(nodes.fastest_node_with_cpu(), NodeId(0));
}

#[test]
fn demotion_prefers_the_nearest_nodes_of_the_next_tier_and_falls_back_to_any_lower() {
    let nodes = [
        (0, 512, true),
        (1, 1024, false),
        (2, 1024, false),
        (3, 1024, false),
        (4, 2048, false),
    ];
    let nodes = topology(&nodes);
    assert_eq!(numbers(nodes.preferred_targets(NodeId(0))), [1, 2, 3]);
    let nodes = nodes.with_distance(NodeId(1), NodeId(0), 40).unwrap();
    let nodes = nodes.with_distance(NodeId(4), NodeId(0), 10).unwrap();
    assert_eq!(numbers(nodes.preferred_targets(NodeId(0))), [2, 3]);
    assert_eq!(numbers(nodes.lower_nodes(NodeId(0))), [2, 3, 1, 4]);
    assert_eq!(numbers(nodes.preferred_targets(NodeId(1))), [4]);
    assert_eq!(numbers(nodes.preferred_targets(NodeId(9))), []);
}

#[test]
fn nodes_that_make_no_sense_are_refused() {
    let twice = Topology::try_new(vec![node(1, 0, true), node(1, 9, false)]);
    assert_eq!(twice, Err(TieringError::NodeTwice(NodeId(1))));
    let idle = Topology::try_new(vec![node(1, 0, false)]);
    assert_eq!(idle, Err(TieringError::NoProcessor));
    let far = topology(&[(0, 0, true)]).with_distance(NodeId(0), NodeId(7), 30);
    assert_eq!(far, Err(TieringError::NoNode(NodeId(7))));
}
