//! What goes down.

use super::*;
use crate::{
    group::Limits,
    reclaim::{Goal, Reclaim, Step, Target},
};

fn anywhere(_: NodeId) -> bool {
    true
}

#[test]
fn reclaim_demotes_before_it_evicts_and_counts_by_who_asked() {
    for (origin, counted) in [(Origin::Background, (2, 0)), (Origin::Direct, (0, 2))] {
        let mut bench = Bench::with(two_tiers());
        let file = bench.appear(FAST, Kind::File, Cause::Read);
        let anon = bench.appear(FAST, Kind::Anon, Cause::Prefetch);
        let last = bench.appear(FAST, Kind::File, Cause::Read);
        assert_eq!(bench.isolate(FAST, 8), Isolated::Pages(3));
        let target = bench.policy.demotion_target(FAST, &anywhere).unwrap();
        let outcome = |folio: &FolioId| match *folio == last {
            true => Outcome::Tried(Verdict::Evicted),
            false => Outcome::Demoted(target),
        };
        let outcomes: Vec<Outcome> = bench.batch.folios.iter().map(outcome).collect();
        let tried = bench.batch.folios.clone();
        bench
            .policy
            .complete_outcomes(&mut bench.batch, &outcomes, origin);
        bench.policy.validate().unwrap();

        assert_eq!(bench.batch.folios, tried, "the batch names what it named");
        let left: Vec<bool> = bench.batch.shadows.iter().map(Option::is_some).collect();
        assert_eq!(left, tried.iter().map(|of| *of == last).collect::<Vec<_>>());
        let stats = bench.stats();
        assert_eq!((stats.pgdemote_kswapd, stats.pgdemote_direct), counted);
        assert_eq!(stats.pgmigrate_success, 2);
        assert_eq!(
            bench.policy.stats(bench.group).unwrap().nr_evicted_pages,
            [0, 1]
        );

        // As any folio put back: anon can't be dropped at once, file can.
        let entered = |folio| (bench.standing(folio).node, bench.standing(folio).recency);
        // The file page was read by nobody, as little as the anon page.
        let sets_no_flag = false;
        let below = |below| Recency::Generation {
            below_max: Some(below),
            is_saturated: false,
            sets_no_flag,
        };
        assert_eq!(entered(file), (SLOW, below(3)));
        assert_eq!(entered(anon), (SLOW, below(1)));
    }
}

#[test]
fn a_demoted_folio_keeps_what_it_had_earned() {
    let mut bench = Bench::with(two_tiers());
    let folio = bench.appear(FAST, Kind::File, Cause::Read);
    bench.read(folio, 1);
    bench.isolate(FAST, 1);
    let outcomes = [Outcome::Demoted(SLOW)];
    bench
        .policy
        .complete_outcomes(&mut bench.batch, &outcomes, Origin::Background);
    assert!(bench.standing(folio).is_referenced);
    assert_eq!(bench.isolate(FAST, 1), Isolated::Empty);
    assert_eq!(bench.isolate(SLOW, 1), Isolated::Pages(1));
}

#[test]
fn equally_near_targets_are_drawn_by_lot_and_the_lot_by_the_seed() {
    let nodes = vec![
        node(0, 512, true),
        node(1, 1024, false),
        node(2, 1024, false),
        node(3, 2048, false),
    ];
    let drawn = |seed| {
        let topology = Topology::try_new(nodes.clone()).unwrap();
        let mut bench = Bench::with(TieringConfig {
            seed,
            ..TieringConfig::new(topology)
        });
        let mut draw = || bench.policy.demotion_target(FAST, &anywhere).unwrap().0;
        (0..100).map(|_| draw()).collect::<Vec<u8>>()
    };
    assert_eq!(drawn(7), drawn(7));
    assert_ne!(drawn(7), drawn(8));
    let nr_first = drawn(7).iter().filter(|of| **of == 1).count();
    assert!((30..70).contains(&nr_first), "{nr_first}");
    assert!(drawn(7).iter().all(|of| [1, 2].contains(of)));
}

#[test]
fn a_forbidden_or_full_target_gives_way_to_the_nearest_that_is_allowed() {
    let nodes = vec![
        node(0, 512, true),
        node(1, 1024, false),
        node(2, 2048, false),
    ];
    let topology = Topology::try_new(nodes).unwrap();
    let mut bench = Bench::with(TieringConfig::new(topology));
    let target = |bench: &mut Bench, forbidden: u8| {
        let allowed = |node: NodeId| node.0 != forbidden && forbidden != 9;
        bench.policy.demotion_target(FAST, &allowed)
    };
    assert_eq!(target(&mut bench, 7), Some(NodeId(1)));
    assert_eq!(target(&mut bench, 1), Some(NodeId(2)));
    assert_eq!(target(&mut bench, 9), None, "nowhere is allowed");
    assert_eq!(bench.policy.demotion_target(NodeId(2), &anywhere), None);
    bench.policy.demotion_failed(512);
    assert_eq!(bench.stats().pgmigrate_fail, 512);
}

#[test]
fn with_demotion_off_nothing_goes_down() {
    let mut bench = Bench::with(TieringConfig {
        is_demotion_on: false,
        ..two_tiers()
    });
    assert_eq!(bench.policy.demotion_target(FAST, &anywhere), None);
}

/// What a reclaim tries of each kind by node, when nothing can be swapped: file leaves, anon goes down.
fn tried_without_swap(target: Target, config: TieringConfig) -> [[u64; 2]; 2] {
    let mut bench = Bench::with(config);
    let no_swap = Limits {
        swap_max_pages: 0,
        ..Limits::NONE
    };
    bench.policy.set_limits(bench.group, no_swap).unwrap();
    for node in [FAST, SLOW] {
        for _ in 0..200 {
            bench.appear(node, Kind::Anon, Cause::Prefetch);
            bench.appear(node, Kind::File, Cause::Read);
        }
    }
    // More than there is of file.
    let mut goal = Goal::of_node(FAST, 800, Origin::Direct);
    goal.target = match target {
        Target::Node(_) => target,
        Target::Group(_) => Target::Group(bench.group),
    };
    let mut reclaim = Reclaim::new(goal);
    let mut tried = [[0; 2]; 2];
    let (now, mut batch) = (bench.now, EvictBatch::default());
    loop {
        match reclaim.next(&mut bench.policy, now, &mut batch).unwrap() {
            Step::Evict { .. } => {
                let outcome = |folio: &FolioId| {
                    let (node, kind) = (bench.standing(*folio).node, bench.policy.kind(*folio));
                    tried[usize::from(node.0)][kind.index()] += 1;
                    match (kind, node) {
                        (Kind::Anon, FAST) => Outcome::Demoted(SLOW),
                        (Kind::Anon, _) => Outcome::Tried(Verdict::Busy),
                        (Kind::File, _) => Outcome::Tried(Verdict::Evicted),
                    }
                };
                let outcomes: Vec<Outcome> = batch.folios.iter().map(outcome).collect();
                bench
                    .policy
                    .complete_outcomes(&mut batch, &outcomes, Origin::Direct);
                bench.policy.validate().unwrap();
                reclaim.freed(outcomes.len() as u64);
            }
            Step::Walk {
                group, swappiness, ..
            } => bench.policy.finish_walk(group, swappiness, now).unwrap(),
            Step::Done(_) => return tried,
        }
    }
}

#[test]
fn where_anon_can_be_moved_down_it_is_reclaimable_without_swap() {
    let of_node = |node| tried_without_swap(Target::Node(node), two_tiers());
    let [fast, slow] = of_node(FAST);
    assert!(fast[0] > 0 && fast[1] > 0, "{fast:?}");
    assert_eq!(slow, [0, 0]);
    // The lowest node has nowhere to move anon to.
    let [fast, slow] = of_node(SLOW);
    assert_eq!((fast, slow[0], slow[1] > 0), ([0, 0], 0, true));
    // A limit is of all nodes, and each gives what it can.
    let target = Target::Group(GroupId(0));
    let [fast, slow] = tried_without_swap(target, two_tiers());
    assert!(fast[0] > 0 && fast[1] > 0, "{fast:?}");
    assert!(slow[0] == 0 && slow[1] > 0, "{slow:?}");
    for target in [Target::Node(FAST), target] {
        let off = TieringConfig {
            is_demotion_on: false,
            ..two_tiers()
        };
        let [fast, slow] = tried_without_swap(target, off);
        assert_eq!((fast[0], slow[0]), (0, 0), "{target:?}");
        assert!(fast[1] > 0);
    }
}
