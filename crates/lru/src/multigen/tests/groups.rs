//! Who is charged, and what becomes of groups that are removed.

use super::*;

#[test]
fn folios_are_charged_from_their_arrival_until_they_are_gone() {
    let mut bench = Bench::new();
    let child = bench
        .engine
        .add_child_group(bench.group, "/bench/child", bench.now)
        .unwrap();
    let usage = |bench: &Bench, group| bench.engine.groups().usage_pages(group).unwrap();
    bench.appear(Kind::File, Cause::Read);
    let parent = std::mem::replace(&mut bench.group, child);
    let arrival = Arrival {
        order: Order::PMD,
        ..bench.arrival(Kind::File, Cause::Read)
    };
    let huge = bench.engine.appeared(arrival).unwrap();
    bench.appear(Kind::File, Cause::Read);
    assert_eq!((usage(&bench, parent), usage(&bench, child)), (514, 513));
    assert_eq!(bench.isolate(1), Isolated::Pages(512));
    bench.engine.gone(huge, GoneCause::Freed);
    assert_eq!(usage(&bench, child), 513, "its id is not free yet");
    bench.complete(Verdict::Evicted);
    assert_eq!((usage(&bench, parent), usage(&bench, child)), (2, 1));
    assert_eq!(bench.isolate(1), Isolated::Pages(1));
    bench.complete(Verdict::Evicted);
    assert_eq!((usage(&bench, parent), usage(&bench, child)), (1, 0));
}

#[test]
fn swap_is_charged_from_the_eviction_of_anon_until_its_return() {
    let mut bench = Bench::new();
    let swapped = |bench: &Bench| bench.engine.groups().swap_pages(bench.group).unwrap();
    bench.appear_many(3, Kind::Anon, Cause::Prefetch);
    bench.appear(Kind::File, Cause::Read);
    assert_eq!(bench.isolate(4), Isolated::Pages(4));
    let shadows = bench.complete(Verdict::Evicted);
    assert_eq!(swapped(&bench), 3);
    let shadow = shadows.into_iter().flatten().next();
    bench.refault(Kind::Anon, Cause::Fault, shadow.unwrap());
    assert_eq!(swapped(&bench), 2);
    bench.engine.swap_freed(bench.group, 1).unwrap();
    assert_eq!(swapped(&bench), 1);
    let lost = bench.appear(Kind::Anon, Cause::Fault);
    bench.engine.gone(lost, GoneCause::Reclaimed);
    assert_eq!(swapped(&bench), 2);
}

#[test]
fn a_removed_group_can_still_be_reclaimed_and_its_numbers_are_used_again() {
    let mut bench = Bench::new();
    bench.appear_many(2, Kind::File, Cause::Read);
    bench.engine.remove_group(bench.group).unwrap();
    let arrival = bench.arrival(Kind::File, Cause::Read);
    let refused = bench.engine.appeared(arrival);
    assert_eq!(refused, Err(PolicyError::GroupOffline(bench.group)));
    assert_eq!(bench.isolate(1), Isolated::Pages(1));
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.isolate(1), Isolated::Pages(1));
    bench.complete(Verdict::Evicted);
    let gone = bench.engine.stats(bench.group);
    assert_eq!(gone, Err(PolicyError::NoGroup(bench.group)));
    let next = bench.engine.add_group("/next", bench.now).unwrap();
    assert_eq!((next, bench.engine.books.lruvecs.len()), (bench.group, 1));
    bench.engine.validate().unwrap();
}

#[test]
fn a_removed_group_waits_for_what_it_has_in_swap() {
    let mut bench = Bench::new();
    bench.appear(Kind::Anon, Cause::Prefetch);
    bench.isolate(1);
    bench.complete(Verdict::Evicted);
    bench.engine.remove_group(bench.group).unwrap();
    assert!(bench.engine.stats(bench.group).is_ok());
    bench.engine.swap_freed(bench.group, 1).unwrap();
    let gone = bench.engine.swap_freed(bench.group, 1);
    assert_eq!(gone, Err(PolicyError::NoGroup(bench.group)));
    bench.engine.validate().unwrap();
}

#[test]
fn a_group_with_children_or_address_spaces_is_not_removed() {
    let mut bench = Bench::new();
    let child = bench
        .engine
        .add_child_group(bench.group, "/bench/c", bench.now);
    let busy = Err(PolicyError::GroupBusy(bench.group));
    assert_eq!(bench.engine.remove_group(bench.group), busy);
    bench.engine.remove_group(child.unwrap()).unwrap();
    let space = bench
        .engine
        .walks()
        .unwrap()
        .space_added(bench.group)
        .unwrap();
    assert_eq!(bench.engine.remove_group(bench.group), busy);
    bench.engine.walks().unwrap().space_gone(space);
    assert_eq!(bench.engine.remove_group(bench.group), Ok(()));
    let unknown = bench.engine.set_limits(bench.group, Limits::NONE);
    assert_eq!(unknown, Err(PolicyError::NoGroup(bench.group)));
}

#[test]
fn what_may_be_evicted_is_counted_by_node_and_kind() {
    let mut bench = Bench::new();
    bench.appear_many(2, Kind::Anon, Cause::Fault);
    let arrival = bench.arrival(Kind::File, Cause::Read);
    let node = NodeId(1);
    bench.engine.appeared(Arrival { node, ..arrival }).unwrap();
    let count = |node, swappiness| {
        let swappiness = Swappiness::try_new(swappiness).unwrap();
        bench
            .engine
            .nr_evictable_pages(bench.group, node, swappiness)
            .unwrap()
    };
    assert_eq!(
        [count(None, 60), count(None, 0), count(None, 201)],
        [3, 1, 2]
    );
    assert_eq!([count(Some(node), 60), count(Some(NodeId(0)), 0)], [1, 0]);
}
