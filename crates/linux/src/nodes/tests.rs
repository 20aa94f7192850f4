//! Nodes as made-up machines show them.

use super::*;

fn zone(node: u32, start: u64, spanned: u64, free: u64, high: u64) -> String {
    format!(
        "Node {node}, zone   Normal\n  pages free     {free}\n        min      1\n        high     {high}\n        \
         spanned  {spanned}\n        managed  {spanned}\n  pagesets\n    cpu: 0\n              high:     99\n  start_pfn: {start}\n"
    )
}

/// A machine as `/sys` shows it: nodes that are online, those with processors, and tiers.
fn sysfs(online: &str, has_cpu: &str, tiers: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let node = root.path().join("devices/system/node");
    fs::create_dir_all(&node).unwrap();
    fs::write(node.join("online"), online).unwrap();
    fs::write(node.join("has_cpu"), has_cpu).unwrap();
    for (name, nodes) in tiers {
        let tier = root
            .path()
            .join("devices/virtual/memory_tiering")
            .join(name);
        fs::create_dir_all(&tier).unwrap();
        fs::write(tier.join("nodelist"), nodes).unwrap();
    }
    root
}

fn two_nodes() -> String {
    zone(0, 0, 1024, 300, 100) + &zone(1, 1024, 2048, 50, 60)
}

fn tiers_of(nodes: &Nodes) -> Vec<u32> {
    nodes.nodes().iter().map(|node| node.tier).collect()
}

#[test]
fn a_node_without_processors_is_slower_where_the_kernel_makes_no_difference() {
    let root = sysfs("0-1\n", "0\n", &[("memory_tier4", "0-1\n")]);
    let nodes = Nodes::read_from(root.path(), &two_nodes()).unwrap();
    assert_eq!(tiers_of(&nodes), [0, 1]);
    assert!(nodes.is_upper(NodeId(0)) && !nodes.is_upper(NodeId(1)) && nodes.has_tiers());
    assert_eq!(nodes.topology().preferred_targets(NodeId(0)), [NodeId(1)]);
    let ranges = [(0, 1024, NodeId(0)), (1024, 3072, NodeId(1))];
    assert_eq!(nodes.page_ranges(), ranges);
}

#[test]
fn the_kernels_tiers_come_first_and_the_user_may_say_otherwise() {
    let tiers = [("memory_tier4", "0,2\n"), ("memory_tier22", "1\n")];
    let root = sysfs("0-2\n", "0,2\n", &tiers);
    let text = two_nodes() + &zone(2, 4096, 1024, 0, 0);
    let nodes = Nodes::read_from(root.path(), &text).unwrap();
    assert_eq!(tiers_of(&nodes), [0, 1, 0]);
    let said = nodes.clone().with_upper(&BTreeSet::from([0])).unwrap();
    assert_eq!(tiers_of(&said), [0, 1, 1]);
    assert!(!said.is_upper(NodeId(2)));
    let error = nodes.clone().with_upper(&BTreeSet::from([7])).unwrap_err();
    assert!(error.to_string().contains("no memory node 7"), "{error}");
    let all = nodes.with_upper(&BTreeSet::from([0, 1, 2])).unwrap_err();
    assert!(matches!(all, NodesError::NoneIsLower { .. }));
}

#[test]
fn one_node_has_no_tiers_and_nodes_without_memory_are_left_out() {
    let root = sysfs("0-1\n", "0-1\n", &[]);
    let nodes = Nodes::read_from(root.path(), &zone(1, 0, 512, 1, 1)).unwrap();
    assert_eq!(nodes.nodes().len(), 1);
    assert_eq!(nodes.nodes()[0].kernel_id, 1);
    assert!(!nodes.has_tiers());
}

#[test]
fn the_nearest_lower_node_is_preferred() {
    let root = sysfs("0-2\n", "0\n", &[]);
    let node = root.path().join("devices/system/node/node0");
    fs::create_dir_all(&node).unwrap();
    fs::write(node.join("distance"), "10 40 20\n").unwrap();
    let text = two_nodes() + &zone(2, 4096, 1024, 0, 0);
    let nodes = Nodes::read_from(root.path(), &text).unwrap();
    assert_eq!(nodes.topology().preferred_targets(NodeId(0)), [NodeId(2)]);
    assert_eq!(
        nodes.topology().lower_nodes(NodeId(0)),
        [NodeId(2), NodeId(1)]
    );
}

#[test]
fn room_is_what_is_free_above_the_watermark_of_all_zones() {
    let text = two_nodes() + &zone(0, 4096, 1024, 30, 10);
    let rooms = zones::parse(&text);
    assert_eq!(rooms[&0].room_pages(), 300 + 30 - 100 - 10);
    assert_eq!(rooms[&1].room_pages(), 0, "below it");
    assert_eq!(rooms[&0].total_bytes, 2048 * PAGE_BYTES);
}

#[test]
fn lists_of_nodes_are_read_as_the_kernel_writes_them() {
    assert_eq!(parse_list("0,2-3\n"), Some(BTreeSet::from([0, 2, 3])));
    assert_eq!(parse_list("\n"), Some(BTreeSet::new()));
    for garbage in ["a", "3-1", "0-4000000000", "1-"] {
        assert_eq!(parse_list(garbage), None, "{garbage}");
    }
}

#[test]
fn a_node_whose_memory_goes_keeps_its_place_and_one_that_comes_is_behind_the_others() {
    let root = sysfs("0-2\n", "0,2\n", &[]);
    let read = |text: &str| Nodes::read_from(root.path(), text).unwrap();
    let both = read(&two_nodes());
    let one = read(&zone(0, 0, 1024, 300, 100));
    let gone = both.followed_by(one.clone(), root.path()).unwrap();
    assert_eq!(tiers_of(&gone), [0, 1]);
    assert!(!gone.has_tiers() && !gone.is_upper(NodeId(1)));
    assert_eq!(gone.page_ranges(), [(0, 1024, NodeId(0))]);
    let back = gone.followed_by(both.clone(), root.path()).unwrap();
    assert_eq!(back, both);
    assert_ne!(back, gone);
    // A node with a smaller number takes no place of another.
    let alone = read(&zone(1, 1024, 2048, 50, 60).replace("Node 1", "Node 2"));
    let came = alone.followed_by(read(&two_nodes()), root.path()).unwrap();
    let ids: Vec<u32> = came.nodes().iter().map(|node| node.kernel_id).collect();
    assert_eq!(ids, [2, 0, 1]);
}
