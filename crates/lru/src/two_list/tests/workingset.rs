//! What a return teaches the two lists.

use super::*;
use crate::config::Refault;

fn with(refault: Refault, has_swap: bool) -> Bench {
    Bench::with(Config {
        refault,
        has_swap,
        ..Config::default()
    })
}

/// Has `count` other file folios come and go.
fn pass(bench: &mut Bench, count: usize) {
    for _ in 0..count {
        let folio = bench.appear(Kind::File);
        bench.reclaimed(folio);
    }
}

/// Whether a file folio is made active when it returns after `nr_left` more have left.
fn is_activated(bench: &mut Bench, nr_left: usize) -> bool {
    let folio = bench.appear(Kind::File);
    let shadow = bench.reclaimed(folio);
    pass(bench, nr_left);
    let folio = bench.refault(Kind::File, shadow);
    let is_active = bench.engine.is_active(folio) == Some(true);
    bench.engine.gone(folio, GoneCause::Freed);
    is_active
}

#[test]
fn a_return_within_the_active_lists_size_is_activated() {
    let mut bench = with(Refault::Window, true);
    bench.active_many(10, Kind::File);
    // Its own leaving counts as one.
    assert!(is_activated(&mut bench, 9));
    assert!(!is_activated(&mut bench, 10));
    let stats = bench.stats();
    assert_eq!(
        (
            by_kind(stats.nr_refaulted_pages),
            by_kind(stats.nr_refaulted_recent_pages)
        ),
        ([0, 2], [0, 1])
    );
    assert_eq!(bench.own_stats().nr_activated_refault_pages, [0, 1]);
}

#[test]
fn a_file_folio_competes_with_anon_too_where_anon_can_be_swapped() {
    for has_swap in [true, false] {
        let mut bench = with(Refault::Window, has_swap);
        bench.active_many(4, Kind::File);
        bench.active_many(2, Kind::Anon);
        bench.appear_many(3, Kind::Anon);
        assert!(is_activated(&mut bench, 3));
        assert_eq!(is_activated(&mut bench, 8), has_swap);
        assert!(!is_activated(&mut bench, 9));
    }
}

#[test]
fn activations_make_what_is_gone_older() {
    let mut bench = with(Refault::Window, true);
    bench.active_many(10, Kind::File);
    let folio = bench.appear(Kind::File);
    let shadow = bench.reclaimed(folio);
    pass(&mut bench, 5);
    bench.active_many(5, Kind::File);
    // Eleven away, fifteen active: it is as if the five had been evicted.
    let departed = crate::distance::Departed::unpack(shadow);
    assert_eq!(
        bench.engine.books.lruvecs[0].clock.since(departed.reading),
        11
    );
    let folio = bench.refault(Kind::File, shadow);
    assert_eq!(bench.engine.is_active(folio), Some(true));
    assert_eq!(
        bench.engine.books.lruvecs[0].clock.since(departed.reading),
        12
    );
}

#[test]
fn what_was_active_before_is_restored_and_charged_as_io() {
    let mut bench = with(Refault::Window, true);
    bench.active_many(100, Kind::File);
    bench.appear_many(100, Kind::Anon);
    let once = bench.appear(Kind::File);
    let shadow = bench.reclaimed(once);
    let folio = bench.refault(Kind::File, shadow);
    assert!(!bench.engine.flags(folio).is_workingset());
    assert_eq!(bench.own_stats().nr_restored_pages, [0, 0]);
    // Deactivated, evicted, back.
    assert_eq!(bench.isolate_some(1), Isolated::Pages(1));
    bench.complete(Verdict::Evicted);
    let known = bench.appear(Kind::File);
    let flags = bench.engine.flags(known).with_workingset(true);
    bench.engine.books.folios.flags[known.index()] = flags;
    let shadow = bench.reclaimed(known);
    bench.engine.books.lruvecs[0].cost = [0, 0];
    let folio = bench.refault(Kind::File, shadow);
    assert!(bench.engine.flags(folio).is_workingset());
    assert_eq!(bench.own_stats().nr_restored_pages, [0, 1]);
    assert_eq!(bench.engine.books.lruvecs[0].cost, [0, 32]);
}

/// How a file folio is read again after `nr_left` more have left.
fn read_again(bench: &mut Bench, nr_left: usize) -> FolioId {
    let folio = bench.appear(Kind::File);
    let shadow = bench.reclaimed(folio);
    pass(bench, nr_left);
    let arrival = Arrival {
        cause: Cause::Read,
        shadow: Some(shadow),
        ..bench.arrival(Kind::File)
    };
    bench.engine.appeared(arrival).unwrap()
}

#[test]
fn by_the_series_nothing_is_made_active_where_nothing_is_and_all_within_the_shorter_list() {
    for (nr_active, nr_inactive, reach) in [(0, 40, 0), (10, 40, 10), (40, 10, 10)] {
        for nr_left in 0..12 {
            let mut bench = with(Refault::Series, false);
            bench.active_many(nr_active, Kind::File);
            bench.appear_many(nr_inactive, Kind::File);
            let again = read_again(&mut bench, nr_left);
            // Its own leaving counts as one.
            let is_wanted = nr_left + 1 < reach;
            assert_eq!(bench.engine.is_active(again), Some(is_wanted), "{nr_left}");
            let control = bench.engine.books.lruvecs[0].control(0, false, None);
            let is_questioned = is_wanted || nr_active > nr_inactive;
            assert_eq!(
                control.may_deactivate[Kind::File.index()],
                is_questioned,
                "{nr_active}, {nr_left}"
            );
        }
    }
}

#[test]
fn by_distance_some_of_those_that_return_are_made_active_though_nothing_is() {
    let mut bench = with(Refault::Distance, true);
    bench.appear_many(40, Kind::File);
    let active = |bench: &mut Bench, nr_left: usize| {
        let again: Vec<FolioId> = (0..16).map(|_| read_again(bench, nr_left)).collect();
        let is_active = |of: &&FolioId| bench.engine.is_active(**of) == Some(true);
        let nr_active = again.iter().filter(is_active).count();
        for folio in again {
            bench.engine.gone(folio, GoneCause::Freed);
        }
        nr_active
    };
    // Missed by little, by more, and out of reach.
    assert_eq!(active(&mut bench, 9), 8);
    assert_eq!(active(&mut bench, 80), 1);
    assert_eq!(active(&mut bench, 200), 0);
    assert_eq!(bench.own_stats().nr_activated_refault_pages, [0, 9]);
}

#[test]
fn by_distance_anon_counts_as_memory_only_where_it_can_be_swapped() {
    for (has_swap, nr_active) in [(true, 1), (false, 0)] {
        let mut bench = with(Refault::Distance, has_swap);
        bench.appear_many(4, Kind::File);
        bench.appear_many(36, Kind::Anon);
        let again: Vec<FolioId> = (0..16).map(|_| read_again(&mut bench, 60)).collect();
        let is_active = |of: &&FolioId| bench.engine.is_active(**of) == Some(true);
        assert_eq!(again.iter().filter(is_active).count(), nr_active);
    }
}

#[test]
fn by_distance_a_return_made_active_does_not_question_the_active_list() {
    for (refault, is_questioned) in [(Refault::Window, true), (Refault::Distance, false)] {
        let mut bench = with(refault, true);
        bench.active_many(20, Kind::File);
        bench.appear_many(40, Kind::File);
        let again: Vec<FolioId> = (0..4).map(|_| read_again(&mut bench, 0)).collect();
        let is_active = |of: &&FolioId| bench.engine.is_active(**of) == Some(true);
        assert!(again.iter().filter(is_active).count() > 0);
        let control = bench.engine.books.lruvecs[0].control(0, false, None);
        assert_eq!(control.may_deactivate[Kind::File.index()], is_questioned);
    }
}

/// Answers batches until some of the active list was checked.
fn check_active(bench: &mut Bench) {
    loop {
        assert_ne!(bench.isolate(4), Isolated::Empty);
        let is_check = !bench.batch.to_check.is_empty();
        bench.complete(Verdict::Evicted);
        if is_check {
            return;
        }
    }
}

#[test]
fn by_distance_working_set_in_use_stays_active_until_it_is_met_unused() {
    for (refault, nr_spared) in [(Refault::Window, 0), (Refault::Distance, 2)] {
        let mut bench = with(refault, true);
        let known = bench.active_many(4, Kind::File);
        for folio in &known {
            let flags = bench.engine.flags(*folio).with_workingset(true);
            bench.engine.books.folios.flags[folio.index()] = flags;
        }
        bench.read(known[0], 1);
        bench.young(known[1]);
        check_active(&mut bench);
        let active = |bench: &Bench| {
            let used = known[..2].iter();
            used.filter(|of| bench.engine.is_active(**of) == Some(true))
                .count()
        };
        assert_eq!(active(&bench), nr_spared, "{refault:?}");
        let nr_spared_pages = by_kind(bench.stats().nr_protected_pages);
        assert_eq!(nr_spared_pages, [0, nr_spared as u64]);
        if nr_spared > 0 {
            check_active(&mut bench);
            assert_eq!(active(&bench), 0, "{refault:?}");
        }
    }
}

#[test]
fn by_distance_only_evictions_make_what_is_gone_older() {
    for refault in [Refault::Distance, Refault::Series] {
        let mut bench = with(refault, true);
        let folio = bench.appear(Kind::File);
        let shadow = bench.reclaimed(folio);
        bench.active_many(50, Kind::File);
        let departed = crate::distance::Departed::unpack(shadow);
        assert_eq!(
            bench.engine.books.lruvecs[0].clock.since(departed.reading),
            1
        );
    }
}

#[test]
fn a_shadow_of_another_group_node_or_kind_tells_the_two_lists_nothing() {
    let mut bench = Bench::new();
    bench.active_many(10, Kind::File);
    let folio = bench.appear(Kind::File);
    let shadow = bench.reclaimed(folio);
    let other_group = bench.engine.add_group("/other", TimeMs(0)).unwrap();
    let arrival = Arrival {
        shadow: Some(shadow),
        ..bench.arrival(Kind::File)
    };
    let strangers = [
        Arrival {
            group: other_group,
            ..arrival
        },
        Arrival {
            node: NodeId(1),
            ..arrival
        },
        Arrival {
            kind: Kind::Anon,
            ..arrival
        },
    ];
    for arrival in strangers {
        let folio = bench.engine.appeared(arrival).unwrap();
        assert_eq!(bench.engine.is_active(folio), Some(false));
    }
    assert_eq!(by_kind(bench.stats().nr_refaulted_pages), [0, 0]);
    bench.engine.validate().unwrap();
}
