//! What an access changes.

use super::*;

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
