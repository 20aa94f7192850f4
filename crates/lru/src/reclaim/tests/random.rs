//! Random reclaims held against what a reclaim must never do.

use proptest::prelude::*;

use super::*;
use crate::seam::{Arrival, WriteState};

#[derive(Clone, Debug)]
enum Op {
    Group {
        parent: usize,
    },
    Remove {
        group: usize,
    },
    Limit {
        group: usize,
        limits: Limits,
    },
    Fill {
        group: usize,
        kind: Kind,
        cause: Cause,
        nr_pages: u64,
    },
    Touch {
        folio: usize,
        how: Touch,
    },
    Reclaim {
        target: usize,
        nr_pages: u64,
        origin: Origin,
        evicted: u8,
        does_walk: bool,
    },
}

/// What happens to some folios at once.
#[derive(Clone, Copy, Debug)]
enum Touch {
    Young,
    ReadThrice,
    Write(WriteState),
}

fn op() -> impl Strategy<Value = Op> {
    let pages = || prop_oneof![4 => 0..200u64, 1 => Just(0u64), 1 => Just(Limits::MAX)];
    let kind = prop_oneof![Just(Kind::Anon), Just(Kind::File)];
    let cause = prop_oneof![Just(Cause::Fault), Just(Cause::Read), Just(Cause::Prefetch)];
    let write = [WriteState::Waiting, WriteState::Clean].map(Touch::Write);
    let touch = prop_oneof![2 => Just(Touch::Young), 1 => Just(Touch::ReadThrice), 1 => prop::sample::select(write.to_vec())];
    let origin = prop_oneof![Just(Origin::Background), Just(Origin::Direct)];
    prop_oneof![
        2 => any::<usize>().prop_map(|parent| Op::Group { parent }),
        1 => any::<usize>().prop_map(|group| Op::Remove { group }),
        2 => (any::<usize>(), pages(), pages(), pages()).prop_map(|(group, min_pages, low_pages, swap_max_pages)| {
            Op::Limit { group, limits: Limits { min_pages, low_pages, swap_max_pages, ..Limits::NONE } }
        }),
        6 => (any::<usize>(), kind, cause, 0..200u64)
            .prop_map(|(group, kind, cause, nr_pages)| Op::Fill { group, kind, cause, nr_pages }),
        4 => (any::<usize>(), touch).prop_map(|(folio, how)| Op::Touch { folio, how }),
        5 => (any::<usize>(), 1..300u64, origin, 0..4u8, any::<bool>()).prop_map(
            |(target, nr_pages, origin, evicted, does_walk)| Op::Reclaim {
                target, nr_pages, origin, evicted, does_walk
            }),
    ]
}

/// Applies operations; each batch is held against protection, each reclaim against its end.
fn play<P: Policy>(policy: P, ops: &[Op]) -> Result<String, TestCaseError> {
    let mut world = World::new(policy);
    let (mut groups, mut folios, mut log) = (Vec::new(), Vec::new(), String::new());
    for op in ops {
        let online = |world: &World<P>, groups: &[GroupId], number: usize| {
            let tree = world.policy.groups();
            let of = groups
                .iter()
                .copied()
                .filter(|group| tree.is_online(*group));
            let of: Vec<GroupId> = of.collect();
            (!of.is_empty()).then(|| of[number % of.len()])
        };
        match *op {
            Op::Group { parent } => {
                let is_top = parent % 3 == 0;
                let parent = online(&world, &groups, parent).filter(|_| !is_top);
                groups.push(world.group(parent));
                groups.sort();
                groups.dedup();
            }
            Op::Remove { group } => {
                if let Some(group) = online(&world, &groups, group) {
                    // Refused while it has children that are online.
                    let is_removed = world.policy.remove_group(group).is_ok();
                    prop_assert!(is_removed != world.policy.groups().is_online(group));
                }
            }
            Op::Limit { group, limits } => {
                if let Some(group) = online(&world, &groups, group) {
                    world.limit(group, limits);
                }
            }
            Op::Fill {
                group,
                kind,
                cause,
                nr_pages,
            } => {
                if let Some(group) = online(&world, &groups, group) {
                    folios.extend(world.fill(group, kind, cause, nr_pages));
                    // Some return, and not all to where they left.
                    for shadow in world.shadows.drain(..).take(20) {
                        let arrival = Arrival {
                            shadow: Some(shadow),
                            ..arrival(group, NODE, kind, cause)
                        };
                        folios.push(world.policy.appeared(arrival).unwrap());
                    }
                }
            }
            Op::Touch { folio, how } => {
                if !folios.is_empty() {
                    for step in 0..20 {
                        let folio = folios[(folio.wrapping_add(step * 7)) % folios.len()];
                        let policy = &mut world.policy;
                        match how {
                            Touch::Young => policy.accessed(folio, AccessVia::PageTable),
                            Touch::ReadThrice => {
                                (0..3).for_each(|_| {
                                    policy.accessed(folio, AccessVia::FileDescriptor)
                                });
                            }
                            Touch::Write(state) => policy.set_write_state(folio, state),
                        }
                    }
                }
            }
            Op::Reclaim {
                target,
                nr_pages,
                origin,
                evicted,
                does_walk,
            } => {
                let target = online(&world, &groups, target).filter(|_| target % 2 == 0);
                let goal = match target {
                    Some(group) => Goal {
                        origin,
                        ..Goal::of_group(group, nr_pages)
                    },
                    None => of_node(nr_pages, origin),
                };
                reclaim_checked(&mut world, goal, evicted, does_walk, &mut folios, &mut log)?;
            }
        }
        world.policy.validate().map_err(TestCaseError::fail)?;
    }
    Ok(log)
}

fn reclaim_checked<P: Policy>(
    world: &mut World<P>,
    goal: Goal,
    evicted: u8,
    does_walk: bool,
    folios: &mut Vec<FolioId>,
    log: &mut String,
) -> Result<(), TestCaseError> {
    let within = match goal.target {
        Target::Group(group) => Some(group),
        Target::Node(_) => None,
    };
    let (mut nr_freed, mut nr_steps) = (0, 0);
    let mut reclaim = Reclaim::new(goal);
    loop {
        nr_steps += 1;
        prop_assert!(nr_steps < 20_000, "it does not end");
        match reclaim
            .next(&mut world.policy, world.now, &mut world.batch)
            .unwrap()
        {
            Step::Evict { group } => {
                let tree = world.policy.groups();
                if let Some(top) = within {
                    prop_assert!(tree.is_below(group, top));
                }
                let visit = reclaim.visit.as_ref().unwrap();
                if visit.nr_freed_pages == 0 {
                    prop_assert_eq!(visit.protection, tree.protection(group, within));
                    let has_swap = tree.swap_room_pages(group).unwrap() >= NR_SWAP_ROOM;
                    prop_assert!(has_swap || !visit.has_anon);
                }
                prop_assert!(!visit.protection.is_below_min());
                if visit.protection.is_below_low() {
                    prop_assert!(reclaim.is_low_ignored || reclaim.is_by_bins());
                    prop_assert!(tree.events_local(group).unwrap().nr_low > 0);
                }
                let verdict = |number: usize| match (number as u8) % 4 >= evicted {
                    true => Verdict::Evicted,
                    false => Verdict::Referenced,
                };
                let verdicts: Vec<Verdict> = (0..world.batch.folios.len()).map(verdict).collect();
                let gone: Vec<FolioId> = world
                    .batch
                    .folios
                    .iter()
                    .zip(&verdicts)
                    .filter(|of| *of.1 == Verdict::Evicted)
                    .map(|of| *of.0)
                    .collect();
                folios.retain(|folio| !gone.contains(folio));
                let nr_pages = gone.len() as u64;
                world.policy.complete(&mut world.batch, &verdicts);
                world.shadows.extend(world.batch.shadows.iter().flatten());
                reclaim.freed(nr_pages);
                nr_freed += nr_pages;
                log.push_str(&format!("{group:?} {nr_pages} "));
            }
            Step::Walk {
                group, swappiness, ..
            } => {
                if does_walk {
                    world
                        .policy
                        .finish_walk(group, swappiness, world.now)
                        .unwrap();
                }
                log.push_str(&format!("{group:?} walked "));
            }
            Step::Done(outcome) => {
                prop_assert_eq!(outcome.nr_freed_pages, nr_freed);
                prop_assert_eq!(outcome.end == End::Met, nr_freed >= goal.nr_pages);
                prop_assert_eq!(
                    outcome.end == End::Short,
                    (1..goal.nr_pages).contains(&nr_freed)
                );
                log.push_str(&format!("{outcome:?}\n"));
                return Ok(());
            }
        }
    }
}

const NR_SWAP_ROOM: u64 = 64;

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_groups_there_are_reclaim_ends_and_everything_adds_up(
        ops in proptest::collection::vec(op(), 1..60),
        model in prop::sample::select(KernelModel::ALL),
        (nr_gens, nr_tiers) in (4..=16_usize, 1..=5_usize),
        sparing in prop_oneof![Just(Sparing::Off), Just(Sparing::Background), Just(Sparing::Both)],
        seed: u64,
    ) {
        let rules = format!("{model},nr_gens={nr_gens},nr_tiers={nr_tiers}").parse().unwrap();
        let mut config = Config { seed, rules, ..Config::default() };
        if matches!(config.rules.groups.order, GroupOrder::Rounds(_)) {
            config.rules.groups.order = GroupOrder::Rounds(sparing);
        }
        let play_once = || play(MultiGen::new(config.clone()).unwrap(), &ops);
        let first = play_once()?;
        prop_assert_eq!(&play_once()?, &first, "the same calls, the same answers");
        play(TwoList::new(config.clone()).unwrap(), &ops)?;
    }
}
