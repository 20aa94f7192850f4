//! What one access changes.

use super::*;

#[test]
fn new_folios_are_inactive_whatever_brought_them() {
    let mut bench = Bench::new();
    for cause in [Cause::Fault, Cause::Read, Cause::Prefetch] {
        for kind in Kind::ALL {
            let arrival = Arrival {
                cause,
                ..bench.arrival(kind)
            };
            let folio = bench.engine.appeared(arrival).unwrap();
            assert_eq!(bench.engine.is_active(folio), Some(false));
        }
    }
    assert_eq!(bench.sizes(), [[3, 3], [0, 0]]);
}

#[test]
fn the_second_read_activates_and_the_third_marks_again() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File);
    bench.read(folio, 1);
    assert_eq!(bench.engine.is_active(folio), Some(false));
    assert!(bench.engine.flags(folio).is_referenced());
    bench.read(folio, 1);
    assert_eq!(bench.engine.is_active(folio), Some(true));
    assert!(!bench.engine.flags(folio).is_referenced());
    bench.read(folio, 1);
    assert!(bench.engine.flags(folio).is_referenced());
    assert_eq!(bench.own_stats().nr_activated_pages, 1);
    bench.engine.validate().unwrap();
}

#[test]
fn an_access_through_a_mapping_moves_nothing_until_the_folio_is_looked_at() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon);
    for _ in 0..5 {
        bench.young(folio);
    }
    assert_eq!(bench.sizes(), [[1, 0], [0, 0]]);
    assert!(!bench.engine.flags(folio).is_referenced());
    // Looked at: it is not handed out, and has its second chance.
    bench.isolate(1);
    assert!(bench.engine.flags(folio).is_referenced());
    assert_eq!(bench.stats().nr_young_pages, 1);
}
