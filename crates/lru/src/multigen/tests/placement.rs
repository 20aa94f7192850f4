//! Where a folio enters.

use super::*;

#[test]
fn a_faulted_folio_starts_in_the_second_youngest_generation() {
    let mut bench = Bench::new();
    for kind in Kind::ALL {
        let folio = bench.appear(kind, Cause::Fault);
        assert_eq!(bench.seq(folio), 2);
    }
}

#[test]
fn a_faulted_folio_of_the_workingset_starts_in_the_youngest_generation() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File, Cause::Read);
    bench.young(folio);
    // An isolated folio keeps what walks found, so its shadow says workingset.
    bench.isolate(1);
    bench.young(folio);
    let shadow = bench.complete(Verdict::Evicted)[0].unwrap();
    let folio = bench.refault(Kind::File, Cause::Fault, shadow);
    assert_eq!(bench.seq(folio), 3);
}

#[test]
fn what_nobody_waits_for_starts_in_the_oldest_generations() {
    let mut bench = Bench::new();
    let read = bench.appear(Kind::File, Cause::Read);
    let prefetched_file = bench.appear(Kind::File, Cause::Prefetch);
    let prefetched_anon = bench.appear(Kind::Anon, Cause::Prefetch);
    for folio in [read, prefetched_file, prefetched_anon] {
        assert_eq!(bench.seq(folio), 0);
    }
}

#[test]
fn a_read_folio_of_the_workingset_starts_one_generation_up() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File, Cause::Read);
    bench.appear(Kind::File, Cause::Read);
    bench.isolate(1);
    bench.young(folio);
    bench.young(folio);
    let shadow = bench.complete(Verdict::Evicted)[0].unwrap();
    let folio = bench.refault(Kind::File, Cause::Read, shadow);
    assert_eq!(bench.seq(folio), 1);
}

#[test]
fn fresh_anon_that_is_in_no_swap_cache_starts_in_the_second_youngest_generation() {
    let mut bench = Bench::new();
    let shmem = bench.appear(Kind::Anon, Cause::Read);
    assert_eq!(bench.seq(shmem), 2);
}

#[test]
fn no_folio_enters_below_its_kinds_oldest_generation() {
    let mut bench = Bench::new();
    bench.appear(Kind::Anon, Cause::Fault);
    // The two oldest generations are empty: reclaim drops them.
    assert_eq!(bench.isolate(1), Isolated::NeedsAgeing);
    assert_eq!(bench.window(), (3, [2, 2]));
    let read = bench.appear(Kind::File, Cause::Read);
    assert_eq!(bench.seq(read), 2);
}
