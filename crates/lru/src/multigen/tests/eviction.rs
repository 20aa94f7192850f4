//! Who leaves, who is spared, who comes back.

use super::*;
use crate::model::KernelModel;

fn swappiness(value: u8) -> Swappiness {
    Swappiness::try_new(value).unwrap()
}

/// Lets `tier` of the kind refault so often that the controller protects it.
fn teach_that_tier_refaults(bench: &mut Bench, kind: Kind, tier: usize) {
    let controller = &mut bench.engine.books.lruvecs[0].controller;
    controller.evicted(kind, 0, 1000);
    controller.evicted(kind, tier, 1000);
    controller.refaulted(kind, tier, 1000);
}

#[test]
fn the_oldest_folio_leaves_first() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(5, Kind::File, Cause::Read);
    assert_eq!(bench.isolate(3), Isolated::Pages(3));
    assert_eq!(bench.batch.folios, folios[..3]);
}

#[test]
fn what_a_walk_promoted_is_sorted_away_when_eviction_gets_there() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(3, Kind::File, Cause::Read);
    bench.young(folios[0]);
    bench.young(folios[0]);
    assert_eq!(bench.isolate(3), Isolated::Pages(2));
    assert_eq!(bench.batch.folios, folios[1..]);
    assert_eq!(bench.stats().nr_scanned_pages, 3);
    let list = bench.engine.books.lruvecs[0].list(3, Kind::File);
    assert_eq!(bench.engine.books.lists.tail(list), Some(folios[0]));
    assert_eq!(by_kind(bench.stats().nr_protected_pages), [0, 0]);
}

#[test]
fn a_folio_of_a_protected_tier_is_spared_one_generation() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(2, Kind::File, Cause::Read);
    bench.read(folios[0], 2);
    teach_that_tier_refaults(&mut bench, Kind::File, 1);
    bench.swappiness = swappiness(1);
    assert_eq!(bench.isolate(1), Isolated::Pages(1));
    assert_eq!(bench.batch.folios, [folios[1]]);
    assert_eq!(bench.seq(folios[0]), 1);
    assert_eq!(bench.refs(folios[0]), 0, "it has to earn its tier again");
    assert_eq!(bench.stats().nr_protected_pages, [[0; 5], [0, 1, 0, 0, 0]]);
}

#[test]
fn a_workingset_folio_of_the_page_tables_is_spared_when_its_tier_refaults() {
    let mut bench = Bench::new();
    let hot = bench.appear(Kind::Anon, Cause::Prefetch);
    bench.young(hot);
    bench.young(hot);
    bench.appear(Kind::Anon, Cause::Prefetch);
    bench.swappiness = Swappiness::ANON_ONLY;
    // Four walks later it is old again, and keeps its workingset flag.
    for _ in 0..4 {
        bench.walk();
    }
    assert_eq!(bench.window(), (7, [4, 4]));
    assert!(bench.engine.flags(hot).is_workingset());
    teach_that_tier_refaults(&mut bench, Kind::Anon, 3);
    assert_eq!(bench.isolate(2), Isolated::Pages(1));
    assert_eq!(bench.seq(hot), 5);
}

#[test]
fn a_pass_ends_after_4096_folios_even_if_all_were_sorted_away() {
    for (kernel, nr_pages) in [(KernelModel::V6_14, 4096), (KernelModel::V7_2, 64)] {
        let mut bench = Bench::with(Config::of(kernel));
        for folio in bench.appear_many(nr_pages + 1, Kind::File, Cause::Read) {
            bench.read(folio, 5);
        }
        assert_eq!(bench.isolate(1), Isolated::Again);
        assert_eq!(bench.stats().nr_scanned_pages, nr_pages as u64);
    }
}

#[test]
fn a_batch_ends_where_a_walk_becomes_preferred_except_at_relaxed_priority() {
    let two_old_generations = |kernel: KernelModel| {
        let rules = format!("{kernel},placement=v6.14").parse();
        let mut bench = Bench::with(Config {
            rules: rules.unwrap(),
            ..Config::default()
        });
        bench.swappiness = swappiness(0);
        bench.appear_many(100, Kind::File, Cause::Fault);
        bench.walk();
        bench.appear_many(50, Kind::File, Cause::Fault);
        bench.walk();
        assert_eq!((bench.window().0, bench.window().1[1]), (5, 2));
        bench
    };
    let mut relaxed = two_old_generations(KernelModel::V6_14);
    assert_eq!(relaxed.isolate_at(150, 12), Isolated::Pages(150));
    let mut newest = two_old_generations(KernelModel::V7_2);
    assert_eq!(newest.isolate_at(150, 11), Isolated::Pages(150));

    let mut pressed = two_old_generations(KernelModel::V6_14);
    assert_eq!(pressed.isolate_at(150, 11), Isolated::Pages(100));
    assert_eq!(
        pressed.engine.ageing(pressed.group, pressed.swappiness),
        Ok(Ageing::Preferred)
    );
    // Asked again without a walk it goes on.
    pressed.complete(Verdict::Evicted);
    assert_eq!(pressed.isolate_at(150, 11), Isolated::Pages(50));
}

#[test]
fn a_working_set_younger_than_min_ttl_is_not_taken() {
    let mut bench = Bench::with(Config {
        min_ttl_ms: 1000,
        ..Config::default()
    });
    bench.appear(Kind::File, Cause::Read);
    bench.now = TimeMs(1000);
    assert_eq!(bench.isolate(1), Isolated::Thrashing);
    bench.now = TimeMs(1001);
    assert_eq!(bench.isolate(1), Isolated::Pages(1));
    bench.complete(Verdict::NotTried);
    bench.engine.min_ttl_ms = 5000;
    assert_eq!(bench.isolate(1), Isolated::Thrashing);
}

#[test]
fn a_request_for_one_node_leaves_the_others_alone() {
    let mut bench = Bench::new();
    let folios = [0, 1, 2].map(|node| {
        let arrival = bench.arrival(Kind::File, Cause::Read);
        let node = NodeId(node);
        bench.engine.appeared(Arrival { node, ..arrival }).unwrap()
    });
    let request = ReclaimRequest {
        node: Some(NodeId(1)),
        ..ReclaimRequest::new(bench.group, 10)
    };
    let end = bench.engine.isolate(request, bench.now, &mut bench.batch);
    assert_eq!(end, Ok(Isolated::Pages(1)));
    assert_eq!(bench.batch.folios, [folios[1]]);
    bench.engine.validate().unwrap();
}

#[test]
fn a_batch_asked_for_in_one_pass_holds_what_one_pass_gave() {
    let mut bench = Bench::new();
    bench.appear_many(100, Kind::File, Cause::Read);
    let request = ReclaimRequest {
        nr_passes_max: 1,
        ..ReclaimRequest::new(bench.group, 100)
    };
    let end = bench.engine.isolate(request, bench.now, &mut bench.batch);
    assert_eq!(end, Ok(Isolated::Pages(64)));
    bench.complete(Verdict::Evicted);
    let end = bench.engine.isolate(request, bench.now, &mut bench.batch);
    assert_eq!(end, Ok(Isolated::Pages(36)));
}

#[test]
fn scans_of_6_1_and_7_2_end_when_enough_left_and_those_of_6_14_after_a_walk() {
    let aborting = |model| MultiGen::new(Config::of(model)).unwrap().aborting();
    assert_eq!(aborting(KernelModel::V2022), Aborting::WhenMet);
    assert_eq!(aborting(KernelModel::V6_1), Aborting::WhenMet);
    assert_eq!(aborting(KernelModel::V6_14), Aborting::AfterWalk);
    assert_eq!(aborting(KernelModel::V7_2), Aborting::WhenMetOrWalked);
}

// Verdicts.

#[test]
#[should_panic(expected = "is in no batch")]
fn completing_a_batch_twice_is_refused() {
    let mut bench = Bench::new();
    bench.appear(Kind::File, Cause::Read);
    bench.isolate(1);
    bench.complete(Verdict::Busy);
    bench.complete(Verdict::Busy);
}
