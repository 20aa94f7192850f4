//! What an access changes.

use super::*;

#[test]
fn a_folio_seen_young_twice_is_promoted_and_once_is_not() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon, Cause::Fault);
    bench.young(folio);
    assert_eq!(bench.seq(folio), 2);
    bench.young(folio);
    assert_eq!(bench.seq(folio), 3);
    assert_eq!(
        (
            bench.stats().nr_young_pages,
            bench.stats().nr_promoted_pages
        ),
        (2, 1)
    );
    bench.engine.validate().unwrap();
}

#[test]
fn promotion_touches_no_list() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(3, Kind::Anon, Cause::Fault);
    let links = (
        bench.engine.books.folios.next.clone(),
        bench.engine.books.folios.prev.clone(),
    );
    for folio in [folios[1], folios[1], folios[0], folios[0]] {
        bench.young(folio);
    }
    let now = (
        &bench.engine.books.folios.next,
        &bench.engine.books.folios.prev,
    );
    assert_eq!(now, (&links.0, &links.1));
    assert_eq!(bench.seq(folios[1]), 3);
    assert_eq!(bench.engine.books.lruvecs[0].nr_pages[3], [2, 0]);
    bench.engine.validate().unwrap();
}

#[test]
fn a_hot_folio_is_promoted_by_every_walk() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon, Cause::Fault);
    bench.young(folio);
    for max_seq in 4..10 {
        bench.walk();
        bench.young(folio);
        assert_eq!(bench.seq(folio), max_seq);
    }
}

#[test]
fn a_huge_folio_counts_its_base_pages_everywhere() {
    let mut bench = Bench::new();
    let arrival = Arrival {
        order: Order::PMD,
        ..bench.arrival(Kind::File, Cause::Read)
    };
    let folio = bench.engine.appeared(arrival).unwrap();
    assert_eq!(bench.engine.books.lruvecs[0].nr_pages[0], [0, 512]);
    bench.young(folio);
    bench.young(folio);
    assert_eq!(bench.stats().nr_young_pages, 1024);
    assert_eq!(bench.engine.books.lruvecs[0].nr_pages[3], [0, 512]);
    bench.engine.gone(folio, GoneCause::Reclaimed).unwrap();
    assert_eq!(bench.stats().nr_kernel_evicted_pages, [0, 512]);
    bench.engine.validate().unwrap();
}

#[test]
fn descriptor_accesses_are_counted_to_the_workingset_and_saturate() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File, Cause::Read);
    let mut tiers = Vec::new();
    for _ in 0..7 {
        let flags = bench.engine.flags(folio);
        tiers.push((
            bench.engine.tier(folio),
            bench.engine.counting.is_saturated(flags),
        ));
        bench.read(folio, 1);
    }
    let counted: Vec<u8> = tiers.iter().map(|of| of.0).collect();
    assert_eq!(counted, [0, 0, 1, 2, 2, 3, 3]);
    let saturated: Vec<bool> = tiers.iter().map(|of| of.1).collect();
    assert_eq!(saturated, [false, false, false, false, false, true, true]);
    assert_eq!(
        bench.seq(folio),
        0,
        "an access through a descriptor moves nothing"
    );
}

#[test]
fn a_mapped_access_after_counted_reads_starts_the_count_afresh() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File, Cause::Read);
    bench.read(folio, 3);
    bench.young(folio);
    let flags = bench.engine.flags(folio);
    assert_eq!((bench.refs(folio), flags.is_workingset()), (0, true));
    assert_eq!(bench.seq(folio), 3);
}

#[test]
fn a_cold_hint_forgets_the_count_and_lets_the_folio_enter_anew() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File, Cause::Read);
    bench.read(folio, 5);
    bench.young(folio);
    assert_eq!((bench.seq(folio), bench.engine.tier(folio)), (3, 3));
    bench.engine.deactivate(folio);
    assert_eq!((bench.seq(folio), bench.engine.tier(folio)), (0, 0));
    bench.engine.validate().unwrap();
    // Of the oldest already, only the count goes; the place in the list stays.
    bench.appear(Kind::File, Cause::Read);
    bench.read(folio, 5);
    bench.engine.deactivate(folio);
    assert_eq!(bench.engine.tier(folio), 0);
    bench.isolate(1);
    assert_eq!(bench.batch.folios, [folio]);
    bench.engine.deactivate(folio);
    bench.complete(Verdict::NotTried);
}

#[test]
fn a_cold_hint_puts_anon_into_the_second_youngest_generation_unless_it_is_of_the_oldest() {
    let mut bench = Bench::new();
    let kept = bench.appear(Kind::Anon, Cause::Fault);
    let hot = bench.appear(Kind::Anon, Cause::Fault);
    bench.young(hot);
    bench.young(hot);
    bench.engine.deactivate(hot);
    assert_eq!((bench.seq(hot), bench.engine.tier(hot)), (2, 0));
    // What has grown older is younger after the hint.
    bench.walk();
    assert_eq!(bench.seq(hot), 2);
    bench.engine.deactivate(hot);
    assert_eq!(bench.seq(hot), 3);
    bench.walk();
    bench.engine.deactivate(kept);
    assert_eq!(bench.seq(kept), 2, "of the oldest: it stays");
    bench.engine.validate().unwrap();
}

#[test]
fn up_to_613_a_cold_hint_forgets_the_first_access_only() {
    let mut bench = Bench::with(Config::of(crate::model::KernelModel::V6_1));
    let folio = bench.appear(Kind::File, Cause::Fault);
    bench.read(folio, 3);
    bench.engine.deactivate(folio);
    assert_eq!((bench.seq(folio), bench.refs(folio)), (1, 2));
    assert!(!bench.engine.flags(folio).is_referenced());
}
