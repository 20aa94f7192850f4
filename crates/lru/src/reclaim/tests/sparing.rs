//! Rounds that spare walks and swapping, as the series of 2022 had them.

use super::*;

/// A group that is due for a walk, one with cold page cache, and one with cold anon.
fn warm_and_cold(rules: Rules) -> World<MultiGen> {
    let mut world = World::with_rules(rules);
    let [warm, file, anon] = [0; 3].map(|_| world.group(None));
    world.fill(warm, Kind::Anon, Cause::Fault, 4000);
    world.fill(warm, Kind::File, Cause::Fault, 4000);
    world.settle(warm);
    world.fill(file, Kind::File, Cause::Read, 20_000);
    world.fill(anon, Kind::Anon, Cause::Prefetch, 20_000);
    world
}

fn rules_2022(sparing: Sparing) -> Rules {
    let mut rules = Rules::from(KernelModel::V2022);
    rules.groups.order = GroupOrder::Rounds(sparing);
    rules
}

#[test]
fn with_cold_page_cache_somewhere_the_background_neither_walks_nor_swaps() {
    let done = |sparing| {
        let mut world = warm_and_cold(rules_2022(sparing));
        let outcome = world.reclaim(of_node(4000, Origin::Background));
        assert_eq!(outcome.end, End::Met);
        (world.nr_walks(), world.nr_swapped_out())
    };
    let (with, without) = (done(Sparing::Background), done(Sparing::Off));
    assert_eq!((with.0, without.0 > 0), (0, true), "{with:?}, {without:?}");
    assert!(with.1 * 2 < without.1, "{with:?}, {without:?}");
    assert_eq!(done(Sparing::Both), with);
    // Kernel 6.1 took the walks of the series, and not the swapping.
    let merged = done(Sparing::Ageing);
    assert_eq!(merged.0, 0, "{merged:?}");
    assert!(with.1 * 2 < merged.1, "{with:?}, {merged:?}");
}

#[test]
fn in_kernel_6_1_a_group_that_gives_less_than_a_batch_keeps_no_other_from_being_aged() {
    let nr_walks = |nr_cold_pages| {
        let mut world = World::of(KernelModel::V6_1);
        let [warm, cold] = [0; 2].map(|_| world.group(None));
        world.fill(warm, Kind::File, Cause::Fault, 4000);
        world.settle(warm);
        world.read(cold, nr_cold_pages);
        let mut reclaim = Reclaim::new(of_node(1 << 20, Origin::Background));
        // Nothing can be had, but of the cold one.
        let mut nr_walks = 0;
        while reclaim.priority > 6 {
            match world.next(&mut reclaim) {
                Step::Evict { group } if group == cold => {
                    let nr_pages = world.batch.folios.len() as u64;
                    world.complete(Verdict::Evicted);
                    reclaim.freed(nr_pages);
                }
                Step::Evict { .. } => {
                    world.complete(Verdict::Busy);
                    reclaim.freed(0);
                }
                Step::Walk { group, .. } => {
                    // The first pass only drops generations that nobody is in.
                    nr_walks += u64::from(group == warm && reclaim.priority < 11);
                    world.walk(group);
                }
                Step::Done(outcome) => panic!("{outcome:?}"),
            }
        }
        nr_walks
    };
    // 2^20 pages give more than a batch at each of these priorities, 63 pages never do.
    assert_eq!(nr_walks(1 << 20), 0);
    assert!(nr_walks(63) > 0);
}

#[test]
fn direct_reclaim_is_spared_only_under_the_option() {
    let done = |sparing| {
        let mut world = warm_and_cold(rules_2022(sparing));
        world.reclaim(of_node(4000, Origin::Direct));
        world.did
    };
    assert_eq!(done(Sparing::Background), done(Sparing::Off));
    assert_eq!(done(Sparing::Ageing), done(Sparing::Off));
    let is_walk = |did: &Did| matches!(did, Did::Walked(_));
    assert!(!done(Sparing::Both).iter().any(is_walk));
}

#[test]
fn when_no_group_has_anything_cold_the_next_pass_ages_and_does_not_swap() {
    let mut world = World::with_rules(rules_2022(Sparing::Background));
    let groups = [0, 1].map(|_| world.group(None));
    for group in groups {
        // So many that at priority 11 a visit looks at several batches, and old as soon as a walk has been made.
        world.fill(group, Kind::Anon, Cause::Fault, 1 << 18);
        world.settle(group);
        world.walk(group);
        world.settle(group);
    }
    let outcome = world.reclaim(of_node(128, Origin::Background));
    assert_eq!(outcome.end, End::Met);
    assert_eq!(world.nr_walks(), 2, "{:?}", world.did);
    // The pass that aged leaves a group after its first batch of anon.
    let is_taken = |did: &&Did| matches!(did, Did::Took(..));
    let taken: Vec<&Did> = world.did.iter().filter(is_taken).collect();
    let [first, second] = groups.map(|group| Did::Took(group, [64, 0]));
    assert_eq!(taken, [&first, &second], "{:?}", world.did);
    let stats = groups.map(|group| world.policy.stats(group).unwrap());
    let sum = |value: fn(&crate::seam::ReclaimStats) -> u64| stats.iter().map(value).sum::<u64>();
    // Ageing runs and swap-outs are reported, with the series or without.
    assert_eq!(sum(|of| of.nr_ageing_runs), 2 + world.nr_walks() as u64);
    assert_eq!(sum(|of| of.nr_evicted_pages[0]), world.nr_swapped_out());
}

/// Found by replaying groups one after another: the first page of the second was the end.
#[test]
fn a_group_of_a_few_pages_keeps_no_other_from_being_aged() {
    let mut world = World::with_rules(rules_2022(Sparing::Both));
    let [large, small] = [0, 1].map(|_| world.group(None));
    world.fill(large, Kind::File, Cause::Fault, 4000);
    world.settle(large);
    world.fill(small, Kind::File, Cause::Fault, 3);
    let outcome = world.reclaim(of_node(500, Origin::Direct));
    assert_eq!(outcome.end, End::Met);
    assert!(world.usage(large) <= 3500, "{:?}", world.did);
}

#[test]
fn with_one_group_sparing_changes_nothing_at_all() {
    let state = |sparing| {
        let mut world = World::with_rules(rules_2022(sparing));
        let (group, empty) = (world.group(None), world.group(None));
        let mut log = String::new();
        for round in 0..40 {
            world.fill(group, Kind::Anon, Cause::Fault, 60);
            let folios = world.fill(group, Kind::File, Cause::Fault, 60);
            world.fill(group, Kind::File, Cause::Read, 40);
            for folio in folios.iter().step_by(3) {
                world.policy.accessed(*folio, AccessVia::PageTable);
            }
            let origin = if round % 3 == 0 {
                Origin::Direct
            } else {
                Origin::Background
            };
            let outcome = world.reclaim(of_node(100, origin));
            log += &format!("{outcome:?} {:?}\n", world.did);
        }
        let stats = world.policy.stats(group).unwrap();
        let view = world.policy.view(group, world.now).unwrap();
        assert_eq!(world.usage(empty), 0);
        log + &format!("{stats:?} {view:?} {:?}", world.policy.groups())
    };
    assert_eq!(state(Sparing::Off), state(Sparing::Ageing));
    assert_eq!(state(Sparing::Off), state(Sparing::Background));
    assert_eq!(state(Sparing::Off), state(Sparing::Both));
    assert!(state(Sparing::Off).contains("Walked"), "it aged on the way");
}
