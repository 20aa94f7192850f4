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

#[test]
fn by_distance_a_small_active_list_is_reached_only_as_far_as_it_goes() {
    let mut bench = with(Refault::Distance, true);
    bench.active_many(4, Kind::File);
    bench.appear_many(20, Kind::File);
    bench.appear_many(3, Kind::Anon);
    // Fewer active than inactive: the active ones and the other kind's inactive, and fewer than that.
    assert!(is_activated(&mut bench, 5));
    assert!(!is_activated(&mut bench, 6));
}

#[test]
fn by_distance_a_large_active_list_is_challenged_within_the_inactive_size_only() {
    let mut bench = with(Refault::Distance, true);
    bench.active_many(50, Kind::File);
    bench.appear_many(4, Kind::File);
    bench.appear_many(3, Kind::Anon);
    assert!(is_activated(&mut bench, 5));
    assert!(!is_activated(&mut bench, 6));
    let mut bench = with(Refault::Distance, false);
    bench.active_many(50, Kind::File);
    bench.appear_many(4, Kind::File);
    bench.appear_many(3, Kind::Anon);
    assert!(is_activated(&mut bench, 2));
    assert!(!is_activated(&mut bench, 3));
}

#[test]
fn by_distance_only_evictions_make_what_is_gone_older() {
    let mut bench = with(Refault::Distance, true);
    let folio = bench.appear(Kind::File);
    let shadow = bench.reclaimed(folio);
    bench.active_many(50, Kind::File);
    let departed = crate::distance::Departed::unpack(shadow);
    assert_eq!(
        bench.engine.books.lruvecs[0].clock.since(departed.reading),
        1
    );
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
