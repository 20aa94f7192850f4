//! How fast pages may come up, and how hot they must be.

use super::*;

/// 256 base pages a second.
fn slow_promotion() -> TieringConfig {
    TieringConfig {
        promote_rate_limit_mib_per_s: 1,
        page_cache: PromotionStrategy::FirstAccess,
        ..two_tiers()
    }
}

/// Faults of so many new folios; how many were queued.
fn faults(bench: &mut Bench, nr_folios: usize) -> usize {
    let mut nr_queued = 0;
    for _ in 0..nr_folios {
        let folio = bench.appear(SLOW, Kind::Anon, Cause::Fault);
        nr_queued += usize::from(bench.policy.hint_fault(folio, 0, FAST, bench.now));
    }
    bench.queued();
    bench.answer(Migrated::Moved);
    nr_queued
}

#[test]
fn in_a_second_no_more_than_the_limit_comes_up_mapped_or_not() {
    let mut bench = Bench::with(slow_promotion());
    bench.now = TimeMs(5000);
    assert_eq!(faults(&mut bench, 200), 200);
    bench.now = TimeMs(5900);
    assert_eq!(faults(&mut bench, 200), 56);
    let folio = bench.appear(SLOW, Kind::File, Cause::Read);
    bench.read(folio, 1);
    assert!(bench.queued().is_empty());
    assert_eq!(bench.stats().nr_rate_limited_pages, 145);
    bench.now = TimeMs(6001);
    assert_eq!(faults(&mut bench, 300), 256);
    assert_eq!(bench.stats().pgpromote_candidate, 701);
}

#[test]
fn with_plenty_free_nothing_is_limited_and_the_threshold_begins_afresh() {
    let mut bench = Bench::with(slow_promotion());
    bench.policy.tell_free(FAST, 262_144);
    bench.now = TimeMs(5000);
    assert_eq!(faults(&mut bench, 300), 256, "not more than 1 GiB free");
    bench.policy.tell_free(FAST, 262_145);
    bench.policy.tell_free(NodeId(9), 1);
    assert_eq!(faults(&mut bench, 300), 300);
    assert_eq!(bench.stats().pgpromote_candidate_nrl, 300);
    let late = bench.appear(SLOW, Kind::Anon, Cause::Fault);
    assert!(bench.hint_fault(late, 1_000_000), "nor has it to be hot");

    let mut large = node(FAST.0, 512, true);
    large.nr_pages = 16 * 300_000;
    let nodes = vec![large, node(SLOW.0, 1024, false)];
    let mut bench = Bench::with(TieringConfig {
        promote_rate_limit_mib_per_s: 0,
        ..TieringConfig::new(Topology::try_new(nodes).unwrap())
    });
    bench.policy.tell_free(FAST, 300_000);
    assert_eq!(
        faults(&mut bench, 1),
        0,
        "a sixteenth of a large node is more than 1 GiB"
    );
    bench.policy.tell_free(FAST, 300_001);
    assert_eq!(faults(&mut bench, 1), 1);
}

#[test]
fn the_threshold_falls_while_too_many_are_hot_and_rises_while_too_few_are() {
    let mut bench = Bench::with(TieringConfig {
        adapt_period_ms: 2000,
        ..slow_promotion()
    });
    // 512 pages a period are allowed; 700 are too many.
    let mut seen = Vec::new();
    for _ in 0..10 {
        bench.now.0 += 2001;
        faults(&mut bench, 700);
        seen.push(bench.policy.hot_threshold_ms(FAST));
    }
    // The first period had no candidates at all.
    assert_eq!(seen, [1125, 1000, 875, 750, 625, 500, 375, 250, 125, 125]);
    seen.clear();
    for _ in 0..17 {
        bench.now.0 += 2001;
        faults(&mut bench, 1);
        seen.push(bench.policy.hot_threshold_ms(FAST));
    }
    assert_eq!((seen[0], seen[1], seen[2]), (125, 250, 375));
    assert_eq!(seen[16], 2000);
    bench.policy.tell_free(FAST, u64::MAX);
    faults(&mut bench, 1);
    assert_eq!(bench.policy.hot_threshold_ms(FAST), 1000);
    assert_eq!(bench.policy.hot_threshold_ms(NodeId(9)), 1000);
}

#[test]
fn about_as_many_candidates_as_allowed_leave_the_threshold_alone() {
    let mut bench = Bench::with(TieringConfig {
        adapt_period_ms: 2000,
        ..slow_promotion()
    });
    bench.now = TimeMs(2001);
    faults(&mut bench, 512);
    let before = bench.policy.hot_threshold_ms(FAST);
    bench.now = TimeMs(4002);
    faults(&mut bench, 1);
    assert_eq!(bench.policy.hot_threshold_ms(FAST), before);
}

#[test]
fn settings_out_of_bounds_are_refused() {
    let of = |hot_threshold_ms, adapt_period_ms| TieringConfig {
        hot_threshold_ms,
        adapt_period_ms,
        ..two_tiers()
    };
    let refused = |config| tiered(MultiGen::new(Config::default()).unwrap(), config).err();
    assert_eq!(refused(of(0, 1)), Some(TieringError::HotThreshold(0)));
    assert_eq!(refused(of(1, 0)), Some(TieringError::AdaptPeriod));
    assert_eq!(refused(of(1, 1)), None);
}
