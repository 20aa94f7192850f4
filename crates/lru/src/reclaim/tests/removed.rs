//! Groups that are removed while pages are charged to them.

use super::*;

#[test]
fn a_removed_group_is_reclaimed_whole_and_forgotten() {
    for model in [
        KernelModel::V2022,
        KernelModel::V6_1,
        KernelModel::V6_14,
        KernelModel::V7_2,
    ] {
        let mut world = World::of(model);
        let (gone, other) = (world.group(None), world.group(None));
        world.read(gone, 100);
        world.read(other, 100);
        world.policy.remove_group(gone).unwrap();
        // At a priority at which a living group of this size is not looked at.
        let outcome = world.reclaim(of_node(60, Origin::Direct));
        assert_eq!(
            (outcome.end, world.usage(other)),
            (End::Met, 100),
            "{model}"
        );
        world.reclaim(of_node(100, Origin::Direct));
        assert!(world.policy.groups().path(gone).is_err(), "{model}");
    }
}

#[test]
fn a_removed_group_that_had_to_be_walked_is_put_off_and_the_second_time_for_longer() {
    let mut world = World::of(KernelModel::V6_14);
    let removed = world.group(None);
    world.due(removed, 8192);
    world.policy.remove_group(removed).unwrap();
    let mut reclaim = Reclaim::new(of_node(32, Origin::Direct));
    let mut segments = Vec::new();
    loop {
        let step = world.next(&mut reclaim);
        let segment = world.policy.memcg_lru(NODE).unwrap().segment(removed);
        segments.push(segment.unwrap());
        match step {
            Step::Walk { .. } => world.walk(removed),
            _ => break,
        }
    }
    // Walked twice; the batch comes when its turn has come again.
    let expected = [Segment::Default, Segment::Tail, Segment::Default];
    assert_eq!(segments, expected);
}
