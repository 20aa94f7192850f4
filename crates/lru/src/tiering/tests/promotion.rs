//! What comes up, and what is never taken twice.

use super::*;

#[test]
fn a_mapped_folio_that_faults_in_time_comes_up_where_it_was_in_age() {
    let mut bench = Bench::with(two_tiers());
    let folio = bench.appear(SLOW, Kind::Anon, Cause::Fault);
    let old = bench.appear(SLOW, Kind::File, Cause::Read);
    assert!(bench.hint_fault(folio, 999));
    assert!(bench.hint_fault(old, 0));
    assert_eq!(bench.queued(), [folio, old]);
    assert!(bench.standing(folio).is_isolated);
    bench.answer(Migrated::Moved);
    let age = |folio| match bench.standing(folio).recency {
        Recency::Generation { below_max, .. } => below_max.unwrap(),
        Recency::List { .. } => unreachable!("generations"),
    };
    assert_eq!((age(folio), age(old)), (1, 3));
    assert_eq!(bench.standing(folio).node, FAST);
    let stats = bench.stats();
    assert_eq!((stats.pgpromote_candidate, stats.pgpromote_success), (2, 2));
    assert_eq!(
        (stats.numa_hint_faults, stats.nr_promoted_unmapped_pages),
        (2, 0)
    );
}

#[test]
fn a_fault_that_comes_late_is_cold() {
    let mut bench = Bench::with(two_tiers());
    let folio = bench.appear(SLOW, Kind::Anon, Cause::Fault);
    assert!(!bench.hint_fault(folio, 1000));
    assert_eq!(
        (
            bench.stats().nr_cold_pages,
            bench.stats().pgpromote_candidate
        ),
        (1, 0)
    );
    assert!(bench.queued().is_empty());
}

#[test]
fn nothing_comes_up_from_a_top_tier_or_with_tiering_off() {
    let mut bench = Bench::with(two_tiers());
    let fast = bench.appear(FAST, Kind::Anon, Cause::Fault);
    let slow = bench.appear(SLOW, Kind::Anon, Cause::Fault);
    assert!(!bench.hint_fault(fast, 0));
    assert!(
        !bench.policy.hint_fault(slow, 0, SLOW, TimeMs(0)),
        "it is there already"
    );
    assert!(
        !bench.policy.hint_fault(slow, 0, NodeId(9), TimeMs(0)),
        "no such node"
    );
    let mut bench = Bench::with(TieringConfig {
        is_promotion_on: false,
        ..two_tiers()
    });
    let slow = bench.appear(SLOW, Kind::Anon, Cause::Fault);
    assert!(!bench.hint_fault(slow, 0));
}

#[test]
fn a_folio_that_is_queued_or_in_a_batch_is_not_taken_again() {
    let mut bench = Bench::with(with_strategy(PromotionStrategy::FirstAccess));
    let queued = bench.appear(SLOW, Kind::File, Cause::Read);
    bench.read(queued, 3);
    assert!(!bench.hint_fault(queued, 0));
    assert_eq!(bench.isolate(SLOW, 1), Isolated::Empty);
    let batched = bench.appear(SLOW, Kind::File, Cause::Read);
    assert_eq!(bench.isolate(SLOW, 1), Isolated::Pages(1));
    bench.read(batched, 1);
    assert!(!bench.hint_fault(batched, 0));
    assert_eq!(bench.queued(), [queued]);
    // Handed out and not answered yet, it still is not taken.
    bench.policy.accessed(queued, AccessVia::FileDescriptor);
    bench.answer(Migrated::Moved);
    bench.policy.complete(&mut bench.batch, &[Verdict::Busy]);
    assert!(bench.queued().is_empty());
    assert_eq!(bench.stats().pgpromote_candidate, 1);
    assert_eq!(bench.stats().nr_promoted_unmapped_pages, 1);
}

#[test]
fn an_access_while_the_folio_is_queued_is_not_lost() {
    let mut bench = Bench::with(two_tiers());
    let folio = bench.appear(SLOW, Kind::Anon, Cause::Fault);
    bench.young(folio);
    bench.hint_fault(folio, 0);
    bench.young(folio);
    bench.queued();
    bench.answer(Migrated::Moved);
    assert!(bench.standing(folio).is_workingset);
}

#[test]
fn a_page_comes_up_whatever_became_of_its_group() {
    // Nothing is asked of the group: not its limits, not whether anybody is in it.
    let mut bench = Bench::with(with_strategy(PromotionStrategy::FirstAccess));
    let idle = bench.policy.add_group("/idle", TimeMs(0)).unwrap();
    let own = bench.group;
    for group in [own, idle] {
        bench.group = group;
        let folio = bench.appear(SLOW, Kind::File, Cause::Read);
        bench.read(folio, 1);
        assert_eq!(bench.queued(), [folio]);
        bench.answer(Migrated::Moved);
        assert_eq!(bench.standing(folio).node, FAST);
    }
}

#[test]
fn a_full_queue_turns_candidates_away_and_counts_them() {
    let mut bench = Bench::with(with_strategy(PromotionStrategy::FirstAccess));
    for _ in 0..4100 {
        let folio = bench.appear(SLOW, Kind::File, Cause::Read);
        bench.policy.accessed(folio, AccessVia::FileDescriptor);
    }
    assert_eq!(bench.stats().nr_queue_full_pages, 4);
    assert_eq!(bench.queued().len(), 4096);
    bench.answer(Migrated::Moved);
}
