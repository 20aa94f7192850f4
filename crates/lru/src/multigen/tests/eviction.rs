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
fn without_feedback_all_tiers_are_evicted_except_the_saturated() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(3, Kind::File, Cause::Read);
    bench.read(folios[0], 5);
    bench.read(folios[1], 4);
    assert_eq!(bench.isolate(3), Isolated::Pages(2));
    assert_eq!(bench.batch.folios, folios[1..]);
    assert_eq!(
        bench.engine.books.lruvecs[0]
            .controller
            .average_total(Kind::File),
        [0; 5]
    );
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
fn nothing_is_taken_from_the_two_youngest_generations() {
    let mut bench = Bench::new();
    bench.appear_many(10, Kind::Anon, Cause::Fault);
    assert_eq!(bench.isolate(10), Isolated::NeedsAgeing);
    bench.walk();
    assert_eq!(bench.isolate(10), Isolated::Pages(10));
}

#[test]
fn the_last_folio_of_a_batch_may_overshoot_so_that_huge_ones_can_leave() {
    let mut bench = Bench::new();
    let arrival = Arrival {
        order: Order::PMD,
        ..bench.arrival(Kind::File, Cause::Read)
    };
    bench.engine.appeared(arrival).unwrap();
    bench.appear(Kind::File, Cause::Read);
    assert_eq!(bench.isolate(1), Isolated::Pages(512));
    assert_eq!(bench.stats().nr_isolated_pages, 512);
    assert_eq!(bench.isolate(0), Isolated::Empty);
}

#[test]
fn a_batch_is_filled_over_many_passes() {
    let mut bench = Bench::new();
    bench.appear_many(1000, Kind::File, Cause::Read);
    assert_eq!(bench.isolate(700), Isolated::Pages(700));
    assert_eq!(bench.batch.folios.len(), 700);
}

#[test]
fn a_pass_ends_after_4096_folios_even_if_all_were_sorted_away() {
    let mut bench = Bench::new();
    for folio in bench.appear_many(4097, Kind::File, Cause::Read) {
        bench.read(folio, 5);
    }
    assert_eq!(bench.isolate(1), Isolated::Again);
    assert_eq!(bench.stats().nr_scanned_pages, 4096);
}

#[test]
fn a_batch_ends_where_a_walk_becomes_preferred_except_at_relaxed_priority() {
    let two_old_generations = || {
        let mut bench = Bench::new();
        bench.swappiness = swappiness(0);
        bench.appear_many(100, Kind::File, Cause::Fault);
        bench.walk();
        bench.appear_many(50, Kind::File, Cause::Fault);
        bench.walk();
        assert_eq!((bench.window().0, bench.window().1[1]), (5, 2));
        bench
    };
    let mut relaxed = two_old_generations();
    assert_eq!(relaxed.isolate_at(150, 12), Isolated::Pages(150));

    let mut pressed = two_old_generations();
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
fn the_other_kind_is_tried_when_the_chosen_one_gives_nothing() {
    let mut bench = Bench::new();
    bench.appear(Kind::Anon, Cause::Prefetch);
    bench.swappiness = swappiness(1);
    assert_eq!(bench.isolate(1), Isolated::Pages(1));
}

#[test]
fn swappiness_0_never_takes_anon_and_201_never_takes_file() {
    let mut bench = Bench::new();
    let anon = bench.appear(Kind::Anon, Cause::Prefetch);
    let file = bench.appear(Kind::File, Cause::Read);
    bench.swappiness = swappiness(0);
    assert_eq!(bench.isolate(10), Isolated::Pages(1));
    assert_eq!(bench.batch.folios, [file]);
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.isolate(10), Isolated::Empty);

    bench.swappiness = Swappiness::ANON_ONLY;
    let file = bench.appear(Kind::File, Cause::Read);
    assert_eq!(bench.isolate(10), Isolated::Pages(1));
    assert_eq!(bench.batch.folios, [anon]);
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.isolate(10), Isolated::Empty);
    assert_eq!(bench.engine.kind(file), Kind::File);
}

#[test]
fn file_goes_before_anon_at_1_and_anon_before_file_at_200() {
    for (value, first) in [(1, Kind::File), (200, Kind::Anon)] {
        let mut bench = Bench::new();
        bench.appear(Kind::Anon, Cause::Prefetch);
        bench.appear(Kind::File, Cause::Read);
        bench.swappiness = swappiness(value);
        bench.isolate(1);
        assert_eq!(bench.engine.kind(bench.batch.folios[0]), first);
    }
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
    bench.engine.set_min_ttl_ms(5000);
    assert_eq!(bench.isolate(1), Isolated::Thrashing);
}

#[test]
fn an_empty_group_has_nothing_to_give() {
    let mut bench = Bench::new();
    assert_eq!(bench.isolate(1), Isolated::Empty);
    let unknown = GroupId(9);
    let request = ReclaimRequest::new(unknown, 1);
    let error = bench.engine.isolate(request, bench.now, &mut bench.batch);
    assert_eq!(error, Err(PolicyError::NoGroup(unknown)));
}

#[test]
fn all_nodes_of_a_group_give() {
    let mut bench = Bench::new();
    for node in [0, 1, 2] {
        let arrival = bench.arrival(Kind::File, Cause::Read);
        bench
            .engine
            .appeared(Arrival {
                node: NodeId(node),
                ..arrival
            })
            .unwrap();
    }
    assert_eq!(bench.isolate(10), Isolated::Pages(3));
    let nodes = bench.engine.view(bench.group, bench.now).unwrap();
    assert_eq!(
        nodes.iter().map(|view| view.node.0).collect::<Vec<_>>(),
        [0, 1, 2]
    );
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
fn survivors_do_not_come_back_to_the_oldest_generation() {
    use Verdict::{Busy, Dirty, NotTried, Referenced, Shared, Unevictable};
    for kind in Kind::ALL {
        for verdict in [Referenced, Busy, Shared, Dirty, Unevictable, NotTried] {
            let mut bench = Bench::new();
            let folio = bench.appear(kind, Cause::Prefetch);
            bench.appear(kind, Cause::Prefetch);
            assert_eq!(bench.isolate(1), Isolated::Pages(1));
            assert_eq!(bench.engine.generation(folio), None);
            assert_eq!(bench.complete(verdict), [None]);
            assert_eq!(bench.seq(folio), 2, "{kind} {verdict:?}");
            assert_eq!(bench.stats().nr_rejected_pages.iter().sum::<u64>(), 1);
            assert_eq!(bench.stats().nr_evicted_pages, [0, 0]);
        }
    }
}

#[test]
fn a_folio_that_would_re_enter_the_oldest_generation_re_enters_the_second_youngest() {
    let mut bench = Bench::new();
    bench.appear_many(2, Kind::File, Cause::Read);
    bench.isolate(1);
    let folio = bench.batch.folios[0];
    bench.walk();
    let (max_seq, [_, oldest]) = bench.window();
    assert_eq!((max_seq, oldest), (4, 1));
    bench.complete(Verdict::Shared);
    assert_eq!(bench.seq(folio), 3);
}

#[test]
fn a_folio_found_young_before_its_eviction_is_spared_and_the_second_time_promoted() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(3, Kind::Anon, Cause::Prefetch);
    bench.young(folios[0]);
    bench.isolate(2);
    assert_eq!(bench.batch.folios, folios[..2]);
    bench.complete(Verdict::Referenced);
    // Referenced before: workingset now, and youngest. Fresh: referenced now.
    let (known, fresh) = (bench.engine.flags(folios[0]), bench.engine.flags(folios[1]));
    assert_eq!(
        (
            bench.seq(folios[0]),
            known.is_workingset(),
            bench.refs(folios[0])
        ),
        (3, true, 0)
    );
    assert_eq!(
        (
            bench.seq(folios[1]),
            fresh.is_workingset(),
            bench.refs(folios[1])
        ),
        (2, false, 1)
    );
    assert_eq!(bench.stats().nr_rejected_pages, [2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        (
            bench.stats().nr_young_pages,
            bench.stats().nr_promoted_pages
        ),
        (3, 1)
    );
}

#[test]
fn each_verdict_is_counted_in_its_place() {
    let mut bench = Bench::new();
    bench.appear_many(8, Kind::File, Cause::Read);
    bench.isolate(8);
    let verdicts = [
        Verdict::Evicted,
        Verdict::Referenced,
        Verdict::Busy,
        Verdict::Shared,
        Verdict::Dirty,
        Verdict::Unevictable,
        Verdict::Gone,
        Verdict::NotTried,
    ];
    bench.engine.complete(&mut bench.batch, &verdicts);
    bench.engine.validate().unwrap();
    assert_eq!(bench.stats().nr_rejected_pages, [1; 7]);
    assert_eq!(
        (
            bench.stats().nr_isolated_pages,
            bench.stats().nr_evicted_pages
        ),
        (8, [0, 1])
    );
    let has_shadow: Vec<bool> = bench.batch.shadows.iter().map(Option::is_some).collect();
    assert_eq!(
        has_shadow,
        [true, false, false, false, false, false, false, false]
    );
    assert_eq!(bench.engine.nr_folios(), 6);
}

#[test]
fn a_folio_gone_while_isolated_keeps_its_id_until_the_batch_is_completed() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File, Cause::Read);
    bench.isolate(1);
    let shadow = bench.engine.gone(folio, GoneCause::Reclaimed);
    assert!(shadow.is_some());
    bench.engine.validate().unwrap();
    let newcomer = bench.appear(Kind::File, Cause::Read);
    assert_ne!(newcomer, folio);
    // Whatever the mechanism believes it did, the folio was gone already.
    assert_eq!(bench.complete(Verdict::Evicted), [None]);
    assert_eq!(
        (bench.engine.nr_folios(), bench.stats().nr_evicted_pages),
        (1, [0, 0])
    );
    assert_eq!(bench.stats().nr_kernel_evicted_pages, [0, 1]);
    assert_eq!(bench.appear(Kind::File, Cause::Read), folio);
}

#[test]
fn events_of_other_folios_may_come_between_isolating_and_completing() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(4, Kind::File, Cause::Read);
    bench.isolate(2);
    bench.young(folios[0]);
    bench.read(folios[1], 1);
    bench.engine.gone(folios[3], GoneCause::Freed);
    bench.walk();
    bench.complete(Verdict::Busy);
    assert_eq!(bench.engine.nr_folios(), 3);
}

#[test]
#[should_panic(expected = "is in no batch")]
fn completing_a_batch_twice_is_refused() {
    let mut bench = Bench::new();
    bench.appear(Kind::File, Cause::Read);
    bench.isolate(1);
    bench.complete(Verdict::Busy);
    bench.complete(Verdict::Busy);
}

#[test]
fn a_folio_too_large_or_too_many_is_refused() {
    let mut bench = Bench::with(Config {
        nr_folios_max: 1,
        ..Config::default()
    });
    let arrival = bench.arrival(Kind::Anon, Cause::Fault);
    let too_large = bench.engine.appeared(Arrival {
        order: Order(16),
        ..arrival
    });
    assert!(matches!(too_large, Err(PolicyError::OrderTooLarge { .. })));
    bench.appear(Kind::Anon, Cause::Fault);
    assert_eq!(
        bench.engine.appeared(arrival),
        Err(PolicyError::TableFull(1))
    );
    bench.engine.validate().unwrap();
}

#[test]
fn a_surviving_file_folio_of_the_workingset_re_enters_two_generations_below_the_youngest() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File, Cause::Read);
    bench.appear(Kind::File, Cause::Read);
    bench.isolate(1);
    bench.young(folio);
    bench.young(folio);
    bench.complete(Verdict::Busy);
    assert_eq!((bench.window(), bench.seq(folio)), ((3, [1, 0]), 1));
}
