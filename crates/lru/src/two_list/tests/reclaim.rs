//! Who is tried, who gets a second chance, who is deactivated.

use super::*;

#[test]
fn the_oldest_inactive_folio_is_tried_first() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(3, Kind::File);
    assert_eq!(bench.isolate(2), Isolated::Pages(2));
    assert_eq!(bench.batch.folios, folios[..2]);
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.engine.nr_folios(), 1);
    assert_eq!(bench.stats().nr_evicted_pages, [0, 2]);
}

#[test]
fn a_folio_found_accessed_gets_a_second_chance_and_the_second_time_is_activated() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon);
    bench.tried(folio, Verdict::Referenced);
    assert_eq!(bench.engine.is_active(folio), Some(false));
    bench.tried(folio, Verdict::Referenced);
    assert_eq!(bench.engine.is_active(folio), Some(true));
    let stats = bench.stats();
    assert_eq!((stats.nr_young_pages, stats.nr_promoted_pages), (2, 1));
}

#[test]
fn an_executable_file_folio_is_activated_the_first_time() {
    let mut bench = Bench::new();
    let folio = bench.exec();
    bench.tried(folio, Verdict::Referenced);
    assert_eq!(bench.engine.is_active(folio), Some(true));
}

#[test]
fn a_folio_that_was_read_and_is_found_accessed_is_activated() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File);
    bench.read(folio, 1);
    bench.tried(folio, Verdict::Referenced);
    assert_eq!(bench.engine.is_active(folio), Some(true));
}

#[test]
fn a_second_chance_is_over_when_the_folio_is_looked_at_again_unused() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File);
    bench.tried(folio, Verdict::Referenced);
    bench.tried(folio, Verdict::Evicted);
    assert_eq!(bench.engine.nr_folios(), 0);
}

#[test]
fn a_dirty_file_folio_is_put_aside_unless_it_was_referenced() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File);
    bench.read(folio, 1);
    bench.tried(folio, Verdict::Dirty);
    assert_eq!(bench.engine.is_active(folio), Some(false));
    assert!(!bench.engine.flags(folio).is_referenced());
    bench.tried(folio, Verdict::Dirty);
    assert_eq!(bench.engine.is_active(folio), Some(true));
}

#[test]
fn a_folio_written_after_it_was_due_is_the_next_to_leave() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File);
    bench.tried(folio, Verdict::Dirty);
    assert_eq!(bench.engine.is_active(folio), Some(true));
    let others = bench.appear_many(3, Kind::File);
    bench.engine.set_write_state(folio, WriteState::Clean);
    assert_eq!(bench.engine.is_active(folio), Some(false));
    assert_eq!(bench.own_stats().nr_rotated_pages, 1);
    // Once only, and nothing moves that was not due.
    for written in [folio, others[2]] {
        bench.engine.set_write_state(written, WriteState::Clean);
    }
    assert_eq!(bench.isolate(2), Isolated::Pages(2));
    assert_eq!(bench.batch.folios, [folio, others[0]]);
}

#[test]
fn a_folio_written_to_again_is_not_moved_when_it_is_written() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File);
    bench.tried(folio, Verdict::Dirty);
    bench.engine.set_write_state(folio, WriteState::Waiting);
    bench.engine.set_write_state(folio, WriteState::Clean);
    assert_eq!(bench.engine.is_active(folio), Some(true));
}

#[test]
fn a_cold_hint_deactivates_and_forgets_accesses() {
    let mut bench = Bench::new();
    let folio = bench.active_many(1, Kind::File)[0];
    bench.read(folio, 1);
    bench.young(folio);
    bench.engine.deactivate(folio);
    bench.engine.validate().unwrap();
    assert_eq!(bench.engine.is_active(folio), Some(false));
    let flags = bench.engine.flags(folio);
    assert!(!flags.is_referenced() && !flags.is_young() && !flags.is_workingset());
    assert_eq!(bench.own_stats().nr_deactivated_pages, 1);
    // What is inactive keeps its place.
    let others = bench.appear_many(1, Kind::File);
    bench.engine.deactivate(folio);
    assert_eq!(bench.isolate(2), Isolated::Pages(2));
    assert_eq!(bench.batch.folios, [folio, others[0]]);
}

#[test]
fn what_can_not_be_had_is_put_aside_on_the_active_list() {
    for verdict in [Verdict::Busy, Verdict::Shared, Verdict::Unevictable] {
        let mut bench = Bench::new();
        let folio = bench.appear(Kind::Anon);
        bench.tried(folio, verdict);
        assert_eq!(bench.engine.is_active(folio), Some(true), "{verdict:?}");
    }
}

#[test]
fn a_dry_run_changes_no_folio() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File);
    bench.read(folio, 1);
    let before = bench.engine.flags(folio);
    bench.tried(folio, Verdict::NotTried);
    assert_eq!(bench.engine.flags(folio), before);
}

#[test]
fn deactivated_folios_are_workingset_and_lose_their_accessed_bits_not_their_referenced_flag() {
    let mut bench = Bench::new();
    let folios = bench.active_many(2, Kind::File);
    bench.read(folios[0], 1);
    bench.young(folios[1]);
    assert_eq!(bench.isolate(4), Isolated::Again);
    assert_eq!(bench.batch.to_check, folios);
    assert!(bench.batch.folios.is_empty());
    bench.batch.young = vec![true, false];
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.sizes(), [[0, 2], [0, 0]]);
    let flags = folios.iter().map(|folio| bench.engine.flags(*folio));
    let flags: Vec<_> = flags
        .map(|of| (of.is_workingset(), of.is_referenced(), of.is_young()))
        .collect();
    assert_eq!(flags, [(true, true, false), (true, false, false)]);
    assert_eq!(bench.own_stats().nr_deactivated_pages, 2);
    assert_eq!(bench.stats().nr_young_pages, 2);
}

#[test]
fn executable_file_folios_in_use_stay_active() {
    let mut bench = Bench::new();
    let folios = [bench.exec(), bench.exec()];
    folios.iter().for_each(|folio| bench.read(*folio, 2));
    assert_eq!(bench.isolate(1), Isolated::Again);
    bench.batch.young = vec![true, false];
    bench.complete(Verdict::Evicted);
    let active = folios.map(|folio| bench.engine.is_active(folio));
    assert_eq!(active, [Some(true), Some(false)]);
    assert_eq!(by_kind(bench.stats().nr_protected_pages), [0, 1]);
}

#[test]
fn a_mechanism_that_can_not_look_deactivates_all() {
    let mut bench = Bench::new();
    let folio = bench.exec();
    bench.read(folio, 2);
    bench.isolate(1);
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.engine.is_active(folio), Some(false));
}

#[test]
fn each_verdict_on_the_two_lists_is_counted_in_its_place() {
    let verdicts = [
        Verdict::Referenced,
        Verdict::Busy,
        Verdict::Shared,
        Verdict::Dirty,
        Verdict::Unevictable,
        Verdict::Gone,
        Verdict::NotTried,
    ];
    for (position, verdict) in verdicts.into_iter().enumerate() {
        let mut bench = Bench::new();
        let folio = bench.appear(Kind::File);
        bench.tried(folio, verdict);
        let mut expected = [0; 7];
        expected[position] = 1;
        assert_eq!(bench.stats().nr_rejected_pages, expected, "{verdict:?}");
        assert_eq!(bench.stats().nr_evicted_pages, [0, 0]);
    }
}

#[test]
fn what_is_freed_while_isolated_is_released_with_its_batch() {
    let mut bench = Bench::new();
    let tried = bench.appear(Kind::File);
    assert_eq!(bench.isolate(1), Isolated::Pages(1));
    assert_eq!(bench.engine.gone(tried, GoneCause::Freed), None);
    assert_eq!(bench.engine.nr_folios(), 1);
    assert_eq!(bench.complete(Verdict::Evicted), [None]);
    assert_eq!(bench.engine.nr_folios(), 0);

    let checked = bench.active_many(1, Kind::File)[0];
    assert_eq!(bench.isolate(1), Isolated::Again);
    assert_eq!(bench.batch.to_check, [checked]);
    bench.engine.gone(checked, GoneCause::Freed);
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.engine.nr_folios(), 0);
}

#[test]
fn a_walk_that_finds_an_isolated_folio_young_saves_it() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon);
    bench.isolate(1);
    bench.young(folio);
    bench.complete(Verdict::Busy);
    assert_eq!(bench.engine.is_active(folio), Some(false));
    assert_eq!(bench.stats().nr_rejected_pages[0], 1);
}

#[test]
fn when_nothing_can_be_had_the_answer_is_empty_and_not_for_ever_again() {
    let mut bench = Bench::new();
    assert_eq!(bench.isolate(1), Isolated::Empty);
    bench.active_many(100, Kind::Anon);
    bench.appear_many(100, Kind::File);
    for nr_calls in 0.. {
        assert!(nr_calls < 1000, "no end");
        if bench.isolate_at(32, 12) == Isolated::Empty {
            break;
        }
        bench.complete(Verdict::Unevictable);
    }
}

#[test]
fn a_huge_folio_is_one_folio_and_many_pages() {
    let mut bench = Bench::new();
    let arrival = Arrival {
        order: Order::PMD,
        ..bench.arrival(Kind::Anon)
    };
    bench.engine.appeared(arrival).unwrap();
    assert_eq!(bench.isolate(1), Isolated::Pages(512));
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.stats().nr_evicted_pages, [512, 0]);
}
