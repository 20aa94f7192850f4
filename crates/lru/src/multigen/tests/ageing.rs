//! How the window moves.

use super::*;

#[test]
fn a_walk_is_due_when_two_generations_are_left_and_preferred_at_three() {
    let mut bench = Bench::new();
    let due = |bench: &Bench| bench.engine.ageing(bench.group, bench.swappiness).unwrap();
    bench.appear(Kind::Anon, Cause::Fault);
    bench.appear(Kind::File, Cause::Fault);
    assert_eq!(due(&bench), Ageing::NotDue);
    bench.isolate(1);
    assert_eq!((bench.window(), due(&bench)), ((3, [2, 2]), Ageing::Due));
    bench.walk();
    assert_eq!(
        (bench.window(), due(&bench)),
        ((4, [2, 2]), Ageing::Preferred)
    );
    bench.walk();
    assert_eq!((bench.window(), due(&bench)), ((5, [2, 2]), Ageing::NotDue));
}

#[test]
fn only_kinds_that_may_be_evicted_make_a_walk_due() {
    let mut bench = Bench::new();
    bench.appear(Kind::Anon, Cause::Fault);
    bench.appear(Kind::File, Cause::Read);
    bench.swappiness = Swappiness::ANON_ONLY;
    assert_eq!(bench.isolate(1), Isolated::NeedsAgeing);
    assert_eq!(bench.window(), (3, [2, 0]));
    let of = |value| {
        bench
            .engine
            .ageing(bench.group, Swappiness::try_new(value).unwrap())
    };
    assert_eq!(of(201), Ok(Ageing::Due));
    assert_eq!(of(60), Ok(Ageing::NotDue));
    assert_eq!(of(0), Ok(Ageing::NotDue));
}

#[test]
fn a_walk_over_nothing_is_not_due() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon, Cause::Fault);
    bench.isolate(1);
    bench.engine.gone(folio, GoneCause::Freed);
    assert_eq!(
        bench.engine.ageing(bench.group, bench.swappiness),
        Ok(Ageing::NotDue)
    );
}

#[test]
fn a_walk_makes_every_folio_older_without_touching_it() {
    let mut bench = Bench::new();
    bench.isolate(1);
    let folio = bench.appear(Kind::Anon, Cause::Fault);
    let links = bench.engine.books.folios.next.clone();
    bench.engine.inc_max_seq(0, bench.swappiness, TimeMs(0));
    assert_eq!(bench.engine.books.folios.next, links);
    assert_eq!((bench.window().0, bench.seq(folio)), (4, 2));
}

#[test]
fn a_fifth_generation_merges_the_oldest_into_the_next_at_its_old_end() {
    let mut bench = Bench::new();
    let younger = bench.appear(Kind::Anon, Cause::Fault);
    let oldest = bench.appear(Kind::Anon, Cause::Prefetch);
    bench.walk();
    bench.walk();
    assert_eq!(bench.window(), (5, [2, 2]));
    assert_eq!((bench.seq(oldest), bench.seq(younger)), (2, 2));
    let list = bench.engine.books.lruvecs[0].oldest_list(Kind::Anon);
    assert_eq!(bench.engine.books.lists.tail(list), Some(oldest));
}

#[test]
fn a_merge_leaves_what_a_walk_promoted_where_it_is() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon, Cause::Prefetch);
    bench.young(folio);
    bench.young(folio);
    bench.walk();
    assert_eq!(bench.seq(folio), 3);
    let list = bench.engine.books.lruvecs[0].list(3, Kind::Anon);
    assert_eq!(bench.engine.books.lists.tail(list), Some(folio));
}

#[test]
fn a_merge_counts_as_protection_except_for_the_saturated() {
    let mut bench = Bench::new();
    let folios = bench.appear_many(200, Kind::File, Cause::Read);
    for folio in &folios[..100] {
        bench.read(*folio, 5);
    }
    for folio in &folios[100..] {
        bench.read(*folio, 2);
    }
    bench.walk();
    // The period has ended with the merge, so half of what was counted is in the averages.
    assert_eq!(
        bench.engine.books.lruvecs[0]
            .controller
            .average_total(Kind::File),
        [0, 50, 0, 0, 0]
    );
    assert!(folios.iter().all(|folio| bench.refs(*folio) == 0));
}

#[test]
fn a_generation_remembers_when_it_was_born() {
    let mut bench = Bench::new();
    bench.walk();
    bench.walk();
    let view = &bench.engine.view(bench.group, TimeMs(2500)).unwrap()[0];
    let ages = view.generations.iter().map(|of| (of.seq.0, of.age_ms));
    assert!(ages.eq([(2, 2500), (3, 2500), (4, 1500), (5, 500)]));
}

#[test]
fn time_told_late_does_not_go_back() {
    let mut bench = Bench::new();
    bench.walk();
    bench
        .engine
        .finish_walk(bench.group, bench.swappiness, TimeMs(1))
        .unwrap();
    bench.engine.validate().unwrap();
    let view = &bench.engine.view(bench.group, TimeMs(1000)).unwrap()[0];
    assert_eq!(view.generations.last().unwrap().age_ms, 0);
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
