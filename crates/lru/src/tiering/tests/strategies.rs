//! Which unmapped page cache comes up.

use super::*;

#[test]
fn a_page_that_is_only_read_comes_up_as_early_as_its_strategy_says() {
    let expected = [
        (PromotionStrategy::Never, None),
        (PromotionStrategy::FirstAccess, Some(1)),
        // It enters an old generation in every model, and stays there however often it is read.
        (PromotionStrategy::RfcAsCoded, None),
        (PromotionStrategy::Refs, Some(6)),
        // The same.
        (PromotionStrategy::FiveConditions, None),
    ];
    assert_eq!(expected.map(|of| of.0), PromotionStrategy::ALL);
    for model in KernelModel::ALL {
        for (strategy, read) in expected {
            let mut bench = Bench::of_model(*model, with_strategy(strategy));
            let folio = bench.appear(SLOW, Kind::File, Cause::Read);
            assert!(!bench.standing(folio).is_active(), "{model}");
            assert_eq!(bench.queued_at(folio), read, "{model} {strategy}");
        }
    }
}

/// At which of ten reads a page that is in one of the two youngest generations is a candidate.
fn candidate_at(bench: &mut Bench, folio: FolioId) -> Vec<usize> {
    let is_candidate = |bench: &mut Bench| {
        let before = bench.standing(folio);
        assert!(before.is_active());
        bench.read(folio, 1);
        bench.queued();
        bench.answer(Migrated::Failed);
        PromotionStrategy::RfcAsCoded.wants(&before)
    };
    (1..=10).filter(|_| is_candidate(bench)).collect()
}

#[test]
fn as_coded_a_young_page_comes_up_at_reads_that_set_no_flag() {
    for model in KernelModel::ALL {
        let mut bench = Bench::of_model(*model, with_strategy(PromotionStrategy::Never));
        let folio = bench.appear(SLOW, Kind::File, Cause::Fault);
        bench.young(folio);
        bench.young(folio);
        let before = bench.standing(folio);
        let reads = candidate_at(&mut bench, folio);
        let is_old_encoding = !before.is_workingset;
        let expected: &[usize] = match is_old_encoding {
            // The first sets referenced, the second workingset, and a full count is looked at, too.
            true => &[3, 4, 5, 6, 7, 8, 9, 10],
            // The first sets referenced. What is workingset by its mapping is looked at with a full count, too.
            false => &[2, 3, 4, 5, 6, 7, 8, 9, 10],
        };
        assert_eq!(reads, expected, "{model}");
        // Not from any older generation.
        bench.walk();
        bench.walk();
        assert!(!bench.standing(folio).is_active());
        let of_field = FolioStanding {
            is_referenced: true,
            ..bench.standing(folio)
        };
        assert!(!PromotionStrategy::RfcAsCoded.wants(&of_field), "{model}");
    }
}

#[test]
fn as_coded_the_read_that_makes_a_page_workingset_does_not_bring_it_up() {
    for model in KernelModel::ALL {
        let mut bench = Bench::of_model(*model, with_strategy(PromotionStrategy::Never));
        let folio = bench.appear(SLOW, Kind::File, Cause::Read);
        for read in 1..=10 {
            let before = bench.standing(folio);
            bench.read(folio, 1);
            let is_made = !before.is_workingset && bench.standing(folio).is_workingset;
            let Recency::Generation { sets_no_flag, .. } = before.recency else {
                panic!("generations");
            };
            let sets_flag = read == 1 || is_made;
            assert!(!(sets_flag && sets_no_flag), "{model}: read {read}");
        }
        assert!(bench.standing(folio).is_workingset, "{model}");
    }
}

#[test]
fn under_five_conditions_a_page_only_read_comes_up_if_only_two_generations_are_left() {
    // Before 6.14 the second read makes a page workingset, from then on the fifth does.
    let reads = [3, 3, 3, 6, 6];
    for (model, read) in KernelModel::ALL.iter().zip(reads) {
        let strategy = PromotionStrategy::FiveConditions;
        let mut bench = Bench::of_model(*model, with_strategy(strategy));
        // Emptied generations are dropped down to the two youngest.
        let kept = Kind::ALL.map(|kind| {
            let folio = bench.appear(SLOW, kind, Cause::Fault);
            bench.young(folio);
            bench.young(folio);
            folio
        });
        bench.isolate(SLOW, 1);
        assert!(kept.iter().all(|folio| !bench.standing(*folio).is_isolated));
        let folio = bench.appear(SLOW, Kind::File, Cause::Read);
        assert!(bench.standing(folio).is_active(), "{model}");
        assert_eq!(bench.queued_at(folio), Some(read), "{model}");
    }
}

#[test]
fn under_five_conditions_a_page_only_read_comes_up_once_eviction_spared_it_for_its_tier() {
    let mut bench = Bench::with(with_strategy(PromotionStrategy::FiveConditions));
    // Three generations are left: the two youngest and the oldest.
    for kind in Kind::ALL {
        bench.appear(SLOW, kind, Cause::Fault);
    }
    bench.isolate(SLOW, 1);
    bench.walk();
    let folio = bench.appear(SLOW, Kind::File, Cause::Read);
    bench.read(folio, 5);
    assert!(!bench.standing(folio).is_active());
    // Saturated, it is spared into the second youngest.
    bench.isolate(SLOW, 8);
    let standing = bench.standing(folio);
    assert!(standing.is_active() && standing.is_workingset && !standing.is_referenced);
    assert_eq!(bench.queued_at(folio), Some(2));
}

#[test]
fn under_five_conditions_a_mapped_page_comes_up_at_its_second_read() {
    let mut bench = Bench::with(with_strategy(PromotionStrategy::FiveConditions));
    let folio = bench.appear(SLOW, Kind::File, Cause::Fault);
    bench.young(folio);
    bench.young(folio);
    assert_eq!(bench.queued_at(folio), Some(2));
}

#[test]
fn each_of_the_five_conditions_is_needed() {
    let hot = FolioStanding {
        node: SLOW,
        order: Order::BASE,
        is_isolated: false,
        is_referenced: true,
        is_workingset: true,
        recency: Recency::Generation {
            below_max: Some(1),
            is_saturated: false,
            sets_no_flag: false,
        },
    };
    let wants = |of: &FolioStanding| PromotionStrategy::FiveConditions.wants(of);
    let of_age = |below_max| FolioStanding {
        recency: Recency::Generation {
            below_max,
            is_saturated: true,
            sets_no_flag: false,
        },
        ..hot
    };
    assert!(wants(&hot) && wants(&of_age(Some(0))));
    assert!(!wants(&FolioStanding {
        is_referenced: false,
        ..hot
    }));
    assert!(!wants(&FolioStanding {
        is_workingset: false,
        ..hot
    }));
    assert!(!wants(&of_age(Some(2))) && !wants(&of_age(None)));
    assert!(!wants(&FolioStanding {
        is_isolated: true,
        ..hot
    }));
    // The other two: tiering on, and on a lower node.
    for (config, node, is_queued) in [
        (with_strategy(PromotionStrategy::FiveConditions), SLOW, true),
        (
            with_strategy(PromotionStrategy::FiveConditions),
            FAST,
            false,
        ),
    ] {
        let mut bench = Bench::with(config);
        let folio = bench.appear(node, Kind::File, Cause::Fault);
        bench.young(folio);
        bench.young(folio);
        assert_eq!(bench.queued_at(folio).is_some(), is_queued);
    }
    let off = TieringConfig {
        is_promotion_on: false,
        ..with_strategy(PromotionStrategy::FiveConditions)
    };
    assert!(!off.promotes_page_cache());
}

#[test]
fn with_two_lists_all_but_the_first_access_ask_for_referenced_and_active() {
    let of = |is_referenced, is_active| FolioStanding {
        node: SLOW,
        order: Order::BASE,
        is_isolated: false,
        is_referenced,
        is_workingset: false,
        recency: Recency::List { is_active },
    };
    use PromotionStrategy::{FirstAccess, FiveConditions, Never, Refs, RfcAsCoded};
    for strategy in [RfcAsCoded, Refs, FiveConditions] {
        assert!(strategy.wants(&of(true, true)));
        assert!(!strategy.wants(&of(true, false)) && !strategy.wants(&of(false, true)));
    }
    assert!(FirstAccess.wants(&of(false, false)) && !Never.wants(&of(true, true)));
}

#[test]
fn the_second_switch_is_off_by_default_and_nothing_is_looked_at() {
    assert_eq!(two_tiers().page_cache, PromotionStrategy::Never);
    let off = TieringConfig {
        is_promotion_on: false,
        ..with_strategy(PromotionStrategy::FirstAccess)
    };
    let on = with_strategy(PromotionStrategy::FirstAccess);
    for (config, nr_queued) in [(two_tiers(), 0), (on, 1), (off, 0)] {
        let engine = MultiGen::new(Config::default()).unwrap();
        let mut policy = tiered(engine, config).unwrap();
        let group = policy.add_group("/bench", TimeMs(0)).unwrap();
        let arrival = arrival(group, SLOW, Kind::File, Cause::Read);
        let folio = policy.appeared(arrival).unwrap();
        policy.accessed(folio, AccessVia::FileDescriptor);
        let mut promotions = Vec::new();
        policy.tiering().unwrap().isolate_promotion(&mut promotions);
        assert_eq!(promotions.len(), nr_queued);
    }
}

#[test]
fn every_strategy_is_found_by_its_name() {
    for strategy in PromotionStrategy::ALL {
        assert_eq!(strategy.to_string().parse(), Ok(*strategy));
    }
    let error = "always".parse::<PromotionStrategy>().unwrap_err();
    assert!(error.to_string().contains("five-conditions"), "{error}");
}
