//! The same with the classic two lists inside.

use super::*;
use crate::two_list::TwoList;

fn with_two_lists(page_cache: PromotionStrategy) -> Bench<TwoList> {
    let engine = TwoList::new(Config::default()).unwrap();
    Bench::of(engine, with_strategy(page_cache))
}

#[test]
fn on_two_lists_a_page_only_read_is_referenced_and_active_at_its_fourth_read() {
    for (strategy, read) in [
        (PromotionStrategy::Never, None),
        (PromotionStrategy::FirstAccess, Some(1)),
        (PromotionStrategy::RfcAsCoded, Some(4)),
        (PromotionStrategy::Refs, Some(4)),
        (PromotionStrategy::FiveConditions, Some(4)),
    ] {
        let mut bench = with_two_lists(strategy);
        let folio = bench.appear(SLOW, Kind::File, Cause::Read);
        let queued_at = (1..=10).find(|_| {
            bench.read(folio, 1);
            !bench.queued().is_empty()
        });
        assert_eq!(queued_at, read, "{strategy}");
        if read.is_some() {
            bench.answer(Migrated::Moved);
            let standing = bench.standing(folio);
            let is_active = read == Some(4);
            assert_eq!((standing.node, standing.is_active()), (FAST, is_active));
        }
    }
}

#[test]
fn what_two_lists_demote_counts_as_reclaimed() {
    let mut bench = with_two_lists(PromotionStrategy::Never);
    for _ in 0..64 {
        bench.appear(FAST, Kind::File, Cause::Read);
    }
    let mut nr_down = 0;
    while nr_down < 64 {
        let end = bench.isolate(FAST, 64);
        assert!(matches!(end, Isolated::Pages(1..)), "{end:?}");
        let outcomes = vec![Outcome::Demoted(SLOW); bench.batch.folios.len()];
        nr_down += outcomes.len();
        let policy = &mut bench.policy;
        policy.complete_outcomes(&mut bench.batch, &outcomes, Origin::Direct);
        policy.validate().unwrap();
    }
    assert_eq!(bench.stats().pgdemote_direct, 64);
    let views = bench.policy.view(bench.group, TimeMs(0)).unwrap();
    let slow = views.iter().find(|view| view.node == SLOW).unwrap();
    let sizes: Vec<_> = slow.generations.iter().map(|of| of.nr_pages[1]).collect();
    assert_eq!(
        sizes,
        [Some(64), Some(0)],
        "inactive, as any page that was to go"
    );
}
