//! What a return teaches.

use super::*;
use crate::config::Refault;

/// Reads, evicts and forgets one file folio that was accessed `times` before.
fn evicted_after(bench: &mut Bench, times: usize) -> Shadow {
    let folio = bench.appear(Kind::File, Cause::Read);
    bench.read(folio, times);
    bench.engine.gone(folio, GoneCause::Reclaimed).unwrap()
}

#[test]
fn what_leaves_and_what_returns_is_counted_under_the_tier_the_folio_had() {
    let mut bench = Bench::new();
    // 0, 1 accesses: tier 0; 2: tier 1; 3, 4: tier 2; 5: tier 3.
    for times in 0..=5 {
        let shadow = evicted_after(&mut bench, times);
        bench.refault(Kind::File, Cause::Read, shadow);
    }
    let expected = [[0; 5], [2, 1, 2, 1, 0]];
    assert_eq!(bench.stats().nr_left_pages, expected);
    assert_eq!(bench.stats().nr_refaulted_pages, expected);
    assert_eq!(bench.stats().nr_refaulted_recent_pages, expected);
}

#[test]
fn the_controller_hears_of_a_return_under_the_tier_the_folio_had() {
    let mut bench = Bench::new();
    // Of 100 accessed twice all come back, of 100 accessed once none.
    for _ in 0..100 {
        evicted_after(&mut bench, 1);
    }
    let gains = bench.engine.rules.gains;
    let last_tier = |bench: &Bench| {
        bench.engine.books.lruvecs[0]
            .controller
            .last_evictable_tier(Kind::File, gains, 4)
    };
    let shadows: Vec<Shadow> = (0..100).map(|_| evicted_after(&mut bench, 2)).collect();
    assert_eq!(last_tier(&bench), 3);
    for shadow in shadows {
        bench.refault(Kind::File, Cause::Read, shadow);
    }
    assert_eq!(last_tier(&bench), 0);
}

/// An engine that judges returns as the series does, with so many pages in the two youngest generations and below.
fn by_the_series(nr_active: usize, nr_inactive: usize) -> Bench {
    let mut bench = Bench::with(Config {
        refault: Refault::Series,
        has_swap: false,
        ..Config::default()
    });
    bench.appear_many(nr_active, Kind::File, Cause::Fault);
    bench.appear_many(nr_inactive, Kind::File, Cause::Read);
    bench
}

#[test]
fn by_the_series_generations_raise_all_that_return_within_the_shorter_of_both_ages() {
    for (nr_active, nr_inactive, reach) in [(10, 40, 10), (40, 10, 10), (0, 40, 0)] {
        let mut bench = by_the_series(nr_active, nr_inactive);
        let mut seq = |nr_left: usize| {
            let shadow = evicted_after(&mut bench, 0);
            for _ in 1..nr_left {
                evicted_after(&mut bench, 0);
            }
            let again = bench.refault(Kind::File, Cause::Read, shadow);
            let seq = bench.seq(again);
            bench.engine.gone(again, GoneCause::Freed);
            seq
        };
        let entered: Vec<u64> = (1..=12).map(&mut seq).collect();
        let expected: Vec<u64> = (1..=12).map(|of| u64::from(of < reach)).collect();
        assert_eq!(entered, expected, "{nr_active}, {nr_inactive}");
    }
}

#[test]
fn by_the_series_a_return_is_a_tier_higher_and_from_the_second_on_the_youngest() {
    // Read so often before, in this tier and generation after the read that it returns for.
    for (times, tier, seq) in [(1, 1, 1), (2, 2, 3), (4, 3, 3), (5, 3, 3)] {
        let mut bench = by_the_series(10, 40);
        let shadow = evicted_after(&mut bench, times);
        let again = bench.refault(Kind::File, Cause::Read, shadow);
        bench.read(again, 1);
        assert_eq!(
            (bench.engine.tier(again), bench.seq(again)),
            (tier, seq),
            "{times}"
        );
    }
}
