//! The same with the classic two lists inside.

use super::*;
use crate::two_list::TwoList;

fn with_two_lists(page_cache: PromotionStrategy) -> (Tiered<TwoList, true>, GroupId) {
    let inner = TwoList::new(Config::default()).unwrap();
    let mut policy = Tiered::try_new(inner, with_strategy(page_cache)).unwrap();
    let group = policy.add_group("/bench", TimeMs(0)).unwrap();
    (policy, group)
}

fn file_on(group: GroupId, node: NodeId) -> Arrival {
    Arrival {
        group,
        node,
        kind: Kind::File,
        order: Order::BASE,
        cause: Cause::Read,
        shadow: None,
        is_exec: false,
    }
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
        let (mut policy, group) = with_two_lists(strategy);
        let folio = policy.appeared(file_on(group, SLOW)).unwrap();
        let mut promotions = Vec::new();
        let queued_at = (1..=10).find(|_| {
            policy.accessed(folio, AccessVia::FileDescriptor);
            policy.validate().unwrap();
            policy.isolate_promotion(&mut promotions);
            !promotions.is_empty()
        });
        assert_eq!(queued_at, read, "{strategy}");
        if read.is_some() {
            policy.complete_promotion(&promotions, &[Migrated::Moved]);
            policy.validate().unwrap();
            let standing = policy.policy.standing(folio);
            assert_eq!(
                (standing.node, standing.is_active()),
                (FAST, read == Some(4))
            );
        }
    }
}

#[test]
fn what_two_lists_demote_counts_as_reclaimed() {
    let (mut policy, group) = with_two_lists(PromotionStrategy::Never);
    for _ in 0..64 {
        policy.appeared(file_on(group, FAST)).unwrap();
    }
    let mut batch = EvictBatch::default();
    let mut nr_down = 0;
    while nr_down < 64 {
        let request = ReclaimRequest {
            node: Some(FAST),
            priority: 0,
            ..ReclaimRequest::new(group, 64)
        };
        let end = policy.isolate(request, TimeMs(0), &mut batch).unwrap();
        assert!(matches!(end, Isolated::Pages(1..)), "{end:?}");
        let outcomes = vec![Outcome::Demoted(SLOW); batch.folios.len()];
        nr_down += outcomes.len();
        policy.complete_outcomes(&mut batch, &outcomes, Origin::Direct);
        policy.validate().unwrap();
    }
    assert_eq!(policy.tiering_stats().pgdemote_direct, 64);
    let views = policy.view(group, TimeMs(0)).unwrap();
    let slow = views.iter().find(|view| view.node == SLOW).unwrap();
    let sizes: Vec<_> = slow.generations.iter().map(|of| of.nr_pages[1]).collect();
    assert_eq!(
        sizes,
        [Some(64), Some(0)],
        "inactive, as any page that was to go"
    );
}

#[test]
fn a_page_of_two_lists_freed_while_it_moves_is_forgotten() {
    let (mut policy, group) = with_two_lists(PromotionStrategy::FirstAccess);
    let folio = policy.appeared(file_on(group, SLOW)).unwrap();
    policy.accessed(folio, AccessVia::FileDescriptor);
    assert!(
        !policy.hint_fault(folio, 0, FAST, TimeMs(0)),
        "queued already"
    );
    policy.gone(folio, GoneCause::Freed);
    let mut promotions = Vec::new();
    policy.isolate_promotion(&mut promotions);
    policy.complete_promotion(&promotions, &[Migrated::Moved]);
    policy.validate().unwrap();
    assert_eq!(policy.policy.nr_folios(), 0);
}
