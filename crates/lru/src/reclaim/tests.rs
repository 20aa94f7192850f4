//! Stories of reclaim from several groups, and random ones held against what it must never do.

use proptest::prelude::*;

use super::*;
use crate::{
    config::Config,
    group::{GroupEvents, Limits},
    ids::{FolioId, Order},
    memcg_lru::Segment,
    model::KernelModel,
    multigen::MultiGen,
    rules::Rules,
    seam::{AccessVia, Arrival, Cause, Isolated, ReclaimRequest, Verdict},
    two_list::TwoList,
};

const NODE: NodeId = NodeId(0);

/// What a reclaim did, step by step: from whom how many of each kind, or whom it had walked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    Took(GroupId, [u64; 2]),
    Walked(GroupId),
}

/// A policy, and a mechanism that evicts whatever it is asked to.
#[derive(Debug)]
struct World<P> {
    policy: P,
    now: TimeMs,
    batch: EvictBatch,
    did: Vec<Did>,
}

impl World<MultiGen> {
    fn of(model: KernelModel) -> World<MultiGen> {
        World::with_rules(model.into())
    }

    fn with_rules(rules: Rules) -> World<MultiGen> {
        let config = Config {
            rules,
            ..Config::default()
        };
        World::new(MultiGen::new(config).unwrap())
    }
}

impl<P: Policy> World<P> {
    fn new(policy: P) -> World<P> {
        World {
            policy,
            now: TimeMs(0),
            batch: EvictBatch::default(),
            did: Vec::new(),
        }
    }

    /// A group at the top, or below another.
    fn group(&mut self, parent: Option<GroupId>) -> GroupId {
        let group = match parent {
            None => self.policy.add_group("/g", self.now),
            Some(parent) => self.policy.add_child_group(parent, "/g/c", self.now),
        };
        group.unwrap()
    }

    fn limit(&mut self, group: GroupId, limits: Limits) {
        self.policy.set_limits(group, limits).unwrap();
    }

    fn fill(&mut self, group: GroupId, kind: Kind, cause: Cause, nr_pages: u64) -> Vec<FolioId> {
        let arrival = Arrival {
            group,
            node: NODE,
            kind,
            order: Order::BASE,
            cause,
            shadow: None,
            is_exec: false,
        };
        (0..nr_pages)
            .map(|_| self.policy.appeared(arrival).unwrap())
            .collect()
    }

    /// So many pages read once: cold.
    fn read(&mut self, group: GroupId, nr_pages: u64) -> Vec<FolioId> {
        self.fill(group, Kind::File, Cause::Read, nr_pages)
    }

    /// Has the generations that nobody is in dropped, so that a walk is due.
    fn settle(&mut self, group: GroupId) {
        let request = ReclaimRequest::new(group, 1);
        let end = self.policy.isolate(request, self.now, &mut self.batch);
        assert_eq!(end, Ok(Isolated::NeedsAgeing));
    }

    fn usage(&self, group: GroupId) -> u64 {
        self.policy.groups().usage_pages(group).unwrap_or(0)
    }

    fn events(&self, group: GroupId) -> GroupEvents {
        self.policy.groups().events_local(group).unwrap()
    }

    fn reclaim(&mut self, goal: Goal) -> Outcome {
        self.did.clear();
        let mut reclaim = Reclaim::new(goal);
        loop {
            match reclaim
                .next(&mut self.policy, self.now, &mut self.batch)
                .unwrap()
            {
                Step::Evict { group } => {
                    let mut nr_pages = [0; 2];
                    for folio in &self.batch.folios {
                        let order = self.policy.order(*folio);
                        nr_pages[self.policy.kind(*folio).index()] += order.nr_pages();
                    }
                    let verdicts = vec![Verdict::Evicted; self.batch.folios.len()];
                    self.policy.complete(&mut self.batch, &verdicts);
                    reclaim.freed(nr_pages.iter().sum());
                    if nr_pages != [0; 2] {
                        self.did.push(Did::Took(group, nr_pages));
                    }
                }
                Step::Walk {
                    group, swappiness, ..
                } => {
                    self.policy
                        .finish_walk(group, swappiness, self.now)
                        .unwrap();
                    self.did.push(Did::Walked(group));
                }
                Step::Done(outcome) => {
                    self.policy.validate().unwrap();
                    return outcome;
                }
            }
        }
    }

    fn taken(&self, from: GroupId) -> [u64; 2] {
        let mut sum = [0; 2];
        for did in &self.did {
            if let Did::Took(group, nr_pages) = did
                && *group == from
            {
                sum = [sum[0] + nr_pages[0], sum[1] + nr_pages[1]];
            }
        }
        sum
    }

    fn nr_walks(&self) -> usize {
        let is_walk = |did: &&Did| matches!(did, Did::Walked(_));
        self.did.iter().filter(is_walk).count()
    }

    fn nr_swapped_out(&self) -> u64 {
        let anon = |did: &Did| match did {
            Did::Took(_, nr_pages) => nr_pages[0],
            Did::Walked(_) => 0,
        };
        self.did.iter().map(anon).sum()
    }
}

fn protected(min_pages: u64, low_pages: u64) -> Limits {
    Limits {
        min_pages,
        low_pages,
        ..Limits::NONE
    }
}

fn of_node(nr_pages: u64, origin: Origin) -> Goal {
    Goal::of_node(NODE, nr_pages, origin)
}

// Targets and limits.

#[test]
fn pressure_on_a_group_takes_from_it_and_those_below_only() {
    let mut world = World::of(KernelModel::V6_14);
    let (a, other) = (world.group(None), world.group(None));
    let below = world.group(Some(a));
    world.read(below, 200);
    world.read(other, 200);
    let outcome = world.reclaim(Goal::of_group(a, 150));
    assert!((150..=214).contains(&outcome.nr_freed_pages) && outcome.end == End::Met);
    assert_eq!(world.usage(other), 200);
    assert_eq!(world.usage(below), 200 - outcome.nr_freed_pages);
    let unknown = Reclaim::new(Goal::of_group(GroupId(99), 1)).next(
        &mut world.policy,
        TimeMs(0),
        &mut world.batch,
    );
    assert_eq!(unknown, Err(PolicyError::NoGroup(GroupId(99))));
}

#[test]
fn limits_that_are_crossed_are_events_of_the_group_whose_they_are() {
    let mut world = World::of(KernelModel::V6_14);
    let parent = world.group(None);
    let child = world.group(Some(parent));
    let limits = Limits {
        high_pages: 80,
        max_pages: 100,
        ..Limits::NONE
    };
    world.limit(parent, limits);
    world.read(child, 100);
    let excess = world.policy.groups().over_max(child, 1).unwrap().unwrap();
    let outcome = world.reclaim(Goal::over_max(excess));
    assert!(
        outcome.nr_freed_pages >= 32,
        "a limit that is hit frees a cluster"
    );
    assert_eq!(world.policy.groups().over_max(child, 1), Ok(None));
    world.read(child, 60);
    let excess = world.policy.groups().over_high(child).unwrap().unwrap();
    world.reclaim(Goal::over_high(excess));
    assert_eq!(world.policy.groups().over_high(child), Ok(None));
    let events = GroupEvents {
        nr_low: 0,
        nr_high: 1,
        nr_max: 1,
    };
    assert_eq!(
        (world.events(parent), world.events(child)),
        (events, GroupEvents::default())
    );
}

#[test]
fn children_give_in_turn_when_their_parent_is_pressed_again_and_again() {
    let mut world = World::new(TwoList::new(Config::default()).unwrap());
    let parent = world.group(None);
    let children = [0, 1, 2].map(|_| world.group(Some(parent)));
    for child in children {
        world.read(child, 4096);
    }
    for _ in 0..30 {
        assert_eq!(world.reclaim(Goal::of_group(parent, 32)).end, End::Met);
    }
    let left = children.map(|child| world.usage(child));
    let (least, most) = (left.iter().min().unwrap(), left.iter().max().unwrap());
    assert!(most - least <= 64, "{left:?}");
}

#[test]
fn a_group_whose_swap_is_full_gives_file_pages_only() {
    let mut world = World::of(KernelModel::V6_14);
    let (full, free) = (world.group(None), world.group(None));
    let limits = Limits {
        swap_max_pages: 63,
        ..Limits::NONE
    };
    world.limit(full, limits);
    for group in [full, free] {
        world.fill(group, Kind::Anon, Cause::Prefetch, 300);
        world.read(group, 300);
    }
    let goal = Goal {
        swappiness: Swappiness::try_new(200).unwrap(),
        ..of_node(1200, Origin::Direct)
    };
    world.reclaim(goal);
    assert_eq!(world.taken(full), [0, 300]);
    assert_eq!(world.taken(free), [300, 300]);
}

// Protection.

#[test]
fn below_min_nothing_is_taken_even_in_despair() {
    for model in KernelModel::ALL {
        let mut world = World::of(*model);
        let group = world.group(None);
        world.limit(group, protected(100, 0));
        world.read(group, 100);
        let outcome = world.reclaim(of_node(1, Origin::Direct));
        assert_eq!(
            (outcome.nr_freed_pages, outcome.end),
            (0, End::Exhausted),
            "{model}"
        );
        assert_eq!(world.usage(group), 100);
        // From the group itself it can be taken all the same.
        let outcome = world.reclaim(Goal::of_group(group, 50));
        assert_eq!(outcome.end, End::Met, "{model}");
    }
}

#[test]
fn below_low_a_group_is_taken_from_only_when_nothing_else_is_left() {
    let mut world = World::of(KernelModel::V2022);
    let (low, other) = (world.group(None), world.group(None));
    world.limit(low, protected(0, 500));
    world.read(low, 400);
    world.read(other, 300);
    let outcome = world.reclaim(of_node(200, Origin::Direct));
    assert_eq!((outcome.end, world.usage(low)), (End::Met, 400));
    assert_eq!(world.events(low).nr_low, 0);
    world.reclaim(of_node(300, Origin::Direct));
    assert_eq!(
        (world.usage(low), world.usage(other)),
        (400, 0),
        "there was something"
    );
    let outcome = world.reclaim(of_node(50, Origin::Direct));
    assert_eq!(outcome.end, End::Met);
    assert!(world.usage(low) <= 350 && world.events(low).nr_low > 0);
}

#[test]
fn the_memcg_lru_puts_a_group_below_low_off_once() {
    let mut world = World::of(KernelModel::V6_14);
    let (low, other) = (world.group(None), world.group(None));
    world.limit(low, protected(0, 50_000));
    world.read(low, 40_000);
    world.read(other, 100_000);
    // Somebody else had a turn before the first page of it is taken.
    world.reclaim(of_node(64, Origin::Direct));
    assert_eq!((world.taken(low), world.events(low).nr_low), ([0, 0], 0));
    for _ in 0..4 {
        world.reclaim(of_node(64, Origin::Direct));
    }
    assert_eq!(world.taken(low) == [0, 0], world.events(low).nr_low == 0);
    world.reclaim(of_node(120_000, Origin::Direct));
    assert!(world.events(low).nr_low > 0, "taken all the same, and said");
}

#[test]
fn from_7_2_on_pressure_falls_on_what_is_not_protected() {
    let scanned = |min_pages| {
        let mut world = World::of(KernelModel::V7_2);
        let group = world.group(None);
        world.limit(group, protected(min_pages, 0));
        world.read(group, 8192);
        let goal = of_node(1 << 20, Origin::Direct);
        let mut reclaim = Reclaim::new(goal);
        // The first visit that has a budget: the first priority at which 64 pages are looked at.
        let mut nr_steps = 0;
        while reclaim.priority > 5 {
            let step = reclaim
                .next(&mut world.policy, TimeMs(0), &mut world.batch)
                .unwrap();
            if let Step::Evict { .. } = step {
                world
                    .policy
                    .complete(&mut world.batch, &[Verdict::Busy; 64]);
                nr_steps += 1;
            }
        }
        nr_steps
    };
    assert!(
        scanned(6144) < scanned(0),
        "{} {}",
        scanned(6144),
        scanned(0)
    );
}

// The memcg LRU.

#[test]
fn pressure_on_a_node_goes_round_all_groups() {
    let mut world = World::of(KernelModel::V6_14);
    let groups: Vec<GroupId> = (0..20).map(|_| world.group(None)).collect();
    for group in &groups {
        world.read(*group, 2000);
    }
    for _ in 0..60 {
        assert_eq!(world.reclaim(of_node(200, Origin::Direct)).end, End::Met);
    }
    let left: Vec<u64> = groups.iter().map(|group| world.usage(*group)).collect();
    assert!(left.iter().all(|usage| *usage < 2000), "{left:?}");
}

#[test]
fn a_group_that_had_to_be_walked_is_young_and_others_come_first() {
    let mut world = World::of(KernelModel::V6_14);
    let (hot, cold) = (world.group(None), world.group(None));
    world.fill(hot, Kind::Anon, Cause::Fault, 10_000);
    world.read(cold, 10_000);
    for _ in 0..2 {
        assert_eq!(world.reclaim(of_node(3000, Origin::Direct)).end, End::Met);
    }
    // The walk alone gave nothing; by the time its turn came again, the cold one had given.
    assert_eq!(world.taken(hot), [0, 0]);
    assert!(world.usage(cold) <= 4000 && world.usage(hot) == 10_000);
    assert_eq!(
        world.policy.memcg_lru(NODE).unwrap().segment(hot),
        Some(Segment::Default)
    );
}

#[test]
fn a_removed_group_is_reclaimed_whole_and_forgotten() {
    for model in [
        KernelModel::V2022,
        KernelModel::V6_1,
        KernelModel::V6_14,
        KernelModel::V7_2,
    ] {
        let mut world = World::of(model);
        let (gone, other) = (world.group(None), world.group(None));
        world.read(gone, 100);
        world.read(other, 100);
        world.policy.remove_group(gone).unwrap();
        // At a priority at which a living group of this size is not looked at.
        let outcome = world.reclaim(of_node(60, Origin::Direct));
        assert_eq!(
            (outcome.end, world.usage(other)),
            (End::Met, 100),
            "{model}"
        );
        world.reclaim(of_node(100, Origin::Direct));
        assert!(world.policy.groups().path(gone).is_err(), "{model}");
    }
}

#[test]
fn a_soft_limit_that_is_exceeded_puts_a_group_first() {
    let mut nr_first = 0;
    for seed in 0..40 {
        let config = Config {
            seed,
            ..Config::of(KernelModel::V6_14)
        };
        let mut world = World::new(MultiGen::new(config).unwrap());
        let groups: Vec<GroupId> = (0..40).map(|_| world.group(None)).collect();
        for group in &groups {
            world.read(*group, 5000);
        }
        world.policy.soft_limit_exceeded(groups[7]);
        world.reclaim(of_node(1, Origin::Direct));
        nr_first += u32::from(matches!(world.did[0], Did::Took(group, _) if group == groups[7]));
    }
    // First in its bin; a walk begins with any of eight.
    assert!((2..=12).contains(&nr_first), "{nr_first} of 40");
}

#[test]
fn the_first_priority_suits_the_size_of_the_goal() {
    assert_eq!(
        initial_priority(1 << 20, 32),
        12,
        "small goals begin relaxed"
    );
    // 2^20 pages: 20 - 12 with a goal of 4096, and a visit looks at 4096 of them.
    assert_eq!(initial_priority(1 << 20, 4096), 8);
    assert_eq!(initial_priority(1 << 30, 64), 12);
    assert_eq!(initial_priority(1000, 1000), 6);
    assert_eq!(initial_priority(0, 64), 6);
}

// Rounds.

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
    rules.groups = rules.groups.with_order(GroupOrder::Rounds(sparing));
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
}

#[test]
fn direct_reclaim_is_spared_only_under_the_option() {
    let done = |sparing| {
        let mut world = warm_and_cold(rules_2022(sparing));
        world.reclaim(of_node(4000, Origin::Direct));
        world.did
    };
    assert_eq!(done(Sparing::Background), done(Sparing::Off));
    let is_walk = |did: &Did| matches!(did, Did::Walked(_));
    assert!(!done(Sparing::Both).iter().any(is_walk));
}

#[test]
fn when_no_group_has_anything_cold_the_next_pass_ages_and_does_not_swap() {
    let mut world = World::of(KernelModel::V2022);
    let groups = [0, 1].map(|_| world.group(None));
    for group in groups {
        world.fill(group, Kind::Anon, Cause::Fault, 2000);
        world.fill(group, Kind::File, Cause::Fault, 2000);
        world.settle(group);
    }
    let outcome = world.reclaim(of_node(500, Origin::Background));
    assert_eq!(outcome.end, End::Met);
    assert!(world.nr_walks() >= 2, "{:?}", world.did);
    let stats = groups.map(|group| world.policy.stats(group).unwrap());
    let sum = |value: fn(&crate::seam::ReclaimStats) -> u64| stats.iter().map(value).sum::<u64>();
    // Ageing runs and swap-outs are reported, with the series or without.
    assert_eq!(sum(|of| of.nr_ageing_runs), world.nr_walks() as u64);
    assert_eq!(sum(|of| of.nr_evicted_pages[0]), world.nr_swapped_out());
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
    assert_eq!(state(Sparing::Off), state(Sparing::Background));
    assert_eq!(state(Sparing::Off), state(Sparing::Both));
    assert!(state(Sparing::Off).contains("Walked"), "it aged on the way");
}

#[test]
fn the_order_of_groups_is_chosen_by_name() {
    for order in GroupOrder::ALL {
        let rules: Rules = format!("v7.2,group_order={order}").parse().unwrap();
        assert_eq!(rules.groups.order, order);
    }
    let unknown = "group_order=random".parse::<Rules>();
    assert!(unknown.unwrap_err().to_string().contains("rounds-sparing"));
    let of = |model| Rules::from(model).groups.order;
    assert_eq!(of(KernelModel::V2021), GroupOrder::Rounds(Sparing::Off));
    assert_eq!(
        of(KernelModel::V2022),
        GroupOrder::Rounds(Sparing::Background)
    );
    assert_eq!(of(KernelModel::V6_1), GroupOrder::MemcgLru);
}

// The end.

#[test]
fn a_working_set_younger_than_min_ttl_ends_a_reclaim_as_thrashing() {
    let mut world = World::of(KernelModel::V6_14);
    world.policy.set_min_ttl_ms(1000);
    let group = world.group(None);
    world.read(group, 5000);
    let outcome = world.reclaim(of_node(64, Origin::Direct));
    assert_eq!((outcome.end, outcome.nr_freed_pages), (End::Thrashing, 0));
    world.now = TimeMs(1001);
    assert_eq!(world.reclaim(of_node(64, Origin::Direct)).end, End::Met);
}

#[test]
fn nothing_to_take_is_soon_said() {
    let mut world = World::of(KernelModel::V6_14);
    let outcome = world.reclaim(of_node(64, Origin::Direct));
    assert_eq!(
        (outcome.end, outcome.nr_scanned_pages, outcome.priority),
        (End::Exhausted, 0, 0)
    );
    let group = world.group(None);
    assert_eq!(world.reclaim(Goal::of_group(group, 1)).end, End::Exhausted);
}

// Against what it must never do.

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
    },
    Reclaim {
        target: usize,
        nr_pages: u64,
        origin: Origin,
        evicted: u8,
        does_walk: bool,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let pages = || prop_oneof![4 => 0..200u64, 1 => Just(0u64), 1 => Just(Limits::MAX)];
    let kind = prop_oneof![Just(Kind::Anon), Just(Kind::File)];
    let cause = prop_oneof![Just(Cause::Fault), Just(Cause::Read), Just(Cause::Prefetch)];
    let origin = prop_oneof![Just(Origin::Background), Just(Origin::Direct)];
    prop_oneof![
        2 => any::<usize>().prop_map(|parent| Op::Group { parent }),
        1 => any::<usize>().prop_map(|group| Op::Remove { group }),
        2 => (any::<usize>(), pages(), pages(), pages()).prop_map(|(group, min_pages, low_pages, swap_max_pages)| {
            Op::Limit { group, limits: Limits { min_pages, low_pages, swap_max_pages, ..Limits::NONE } }
        }),
        6 => (any::<usize>(), kind, cause, 0..200u64)
            .prop_map(|(group, kind, cause, nr_pages)| Op::Fill { group, kind, cause, nr_pages }),
        4 => any::<usize>().prop_map(|folio| Op::Touch { folio }),
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
                }
            }
            Op::Touch { folio } => {
                if !folios.is_empty() {
                    for step in 0..20 {
                        let folio = folios[(folio.wrapping_add(step * 7)) % folios.len()];
                        world.policy.accessed(folio, AccessVia::PageTable);
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
                    prop_assert!(tree.ids_below(top).any(|id| id == group));
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
        model in 0..KernelModel::ALL.len(),
        sparing in prop_oneof![Just(Sparing::Off), Just(Sparing::Background), Just(Sparing::Both)],
        seed: u64,
    ) {
        let mut config = Config { seed, ..Config::of(KernelModel::ALL[model]) };
        if matches!(config.rules.groups.order, GroupOrder::Rounds(_)) {
            config.rules.groups.order = GroupOrder::Rounds(sparing);
        }
        let play_once = || play(MultiGen::new(config.clone()).unwrap(), &ops);
        let first = play_once()?;
        prop_assert_eq!(&play_once()?, &first, "the same calls, the same answers");
        play(TwoList::new(config.clone()).unwrap(), &ops)?;
    }
}
