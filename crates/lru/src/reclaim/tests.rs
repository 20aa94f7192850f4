//! Stories of reclaim from several groups; random ones are in `random`.

mod min_ttl;
mod random;
mod removed;
mod sparing;

use super::*;
use crate::{
    bench_tests::arrival,
    config::Config,
    group::{GroupEvents, Limits},
    ids::FolioId,
    memcg_lru::Segment,
    model::KernelModel,
    multigen::MultiGen,
    rules::Rules,
    seam::{AccessVia, Cause, Isolated, ReclaimRequest, Shadow, Verdict},
    swappiness::Swappiness,
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
    /// What those left that were evicted at random.
    shadows: Vec<Shadow>,
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
            shadows: Vec::new(),
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
        let arrival = arrival(group, NODE, kind, cause);
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
        let mut ends = std::iter::from_fn(|| {
            let end = self.policy.isolate(request, self.now, &mut self.batch);
            Some(end.unwrap())
        });
        let end = ends.find(|end| *end != Isolated::Again);
        assert_eq!(end, Some(Isolated::NeedsAgeing));
    }

    /// So many pages that are old, by any kernel, as soon as the walk that is due has been made.
    fn due(&mut self, group: GroupId, nr_pages: u64) {
        for folio in self.fill(group, Kind::File, Cause::Fault, nr_pages) {
            self.policy.accessed(folio, AccessVia::PageTable);
            self.policy.accessed(folio, AccessVia::PageTable);
        }
        self.settle(group);
        self.walk(group);
        self.settle(group);
    }

    fn walk(&mut self, group: GroupId) {
        let swappiness = Swappiness::DEFAULT;
        let walked = self.policy.finish_walk(group, swappiness, self.now);
        walked.unwrap();
    }

    /// All of the batch fares like this.
    fn complete(&mut self, verdict: Verdict) {
        let verdicts = vec![verdict; self.batch.folios.len()];
        self.policy.complete(&mut self.batch, &verdicts);
    }

    fn next(&mut self, reclaim: &mut Reclaim) -> Step {
        let step = reclaim.next(&mut self.policy, self.now, &mut self.batch);
        step.unwrap()
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
            match self.next(&mut reclaim) {
                Step::Evict { group } => {
                    let mut nr_pages = [0; 2];
                    for folio in &self.batch.folios {
                        let order = self.policy.order(*folio);
                        nr_pages[self.policy.kind(*folio).index()] += order.nr_pages();
                    }
                    self.complete(Verdict::Evicted);
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
            if let Step::Evict { .. } = world.next(&mut reclaim) {
                world.complete(Verdict::Busy);
                nr_steps += 1;
            }
        }
        nr_steps
    };
    let (exposed, all) = (scanned(6144), scanned(0));
    assert!(exposed < all, "{exposed} {all}");
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

#[test]
fn from_6_14_on_the_first_pass_over_a_node_has_the_priority_that_suits_its_goal() {
    let first_priority = |model, is_global| {
        let mut world = World::of(model);
        let group = world.group(None);
        // 2^14 cold pages, and a goal of 2^6 of them.
        world.read(group, 1 << 14);
        let goal = match is_global {
            true => of_node(64, Origin::Direct),
            false => Goal::of_group(group, 64),
        };
        let mut reclaim = Reclaim::new(goal);
        world.next(&mut reclaim);
        reclaim.first_priority
    };
    assert_eq!(first_priority(KernelModel::V6_1, true), PRIORITY_MAX);
    assert_eq!(first_priority(KernelModel::V6_14, true), 8);
    assert_eq!(first_priority(KernelModel::V7_2, true), 8);
    assert_eq!(first_priority(KernelModel::V6_14, false), PRIORITY_MAX);
}

#[test]
fn by_72_a_walk_that_must_be_is_made_at_the_most_relaxed_priority() {
    for model in [KernelModel::V6_1, KernelModel::V6_14, KernelModel::V7_2] {
        for is_global in [true, false] {
            let mut world = World::of(model);
            let group = world.group(None);
            world.due(group, 8192);
            let goal = match is_global {
                true => of_node(32, Origin::Direct),
                false => Goal::of_group(group, 32),
            };
            let outcome = world.reclaim(goal);
            assert!(world.nr_walks() > 0 && outcome.end == End::Met, "{model}");
            let is_put_off = outcome.priority < PRIORITY_MAX - 1;
            assert_eq!(
                is_put_off,
                model != KernelModel::V7_2,
                "{model}: {outcome:?}"
            );
        }
    }
}

#[test]
fn by_72_a_group_that_had_to_be_walked_gives_one_batch_when_memory_as_a_whole_is_short() {
    // How many batches the first walk is followed by.
    let nr_batches = |rules: &str, is_global| {
        let mut world = World::with_rules(rules.parse().unwrap());
        let group = world.group(None);
        // So many that more than a batch of them is looked at even at the most relaxed priority.
        world.due(group, 1 << 19);
        let goal = match is_global {
            true => of_node(4000, Origin::Direct),
            false => Goal::of_group(group, 4000),
        };
        world.reclaim(goal);
        let is_walk = |did: &Did| matches!(did, Did::Walked(_));
        world.did.split(is_walk).nth(1).unwrap().len()
    };
    assert_eq!(nr_batches("v7.2", true), 1);
    assert!(
        nr_batches("v7.2", false) > 1,
        "a group's limit is no such case"
    );
    assert!(nr_batches("v7.2,aborting=v6.1", true) > 1);
}

// Rounds.

#[test]
fn the_order_of_groups_is_chosen_by_name() {
    for &order in GroupOrder::ALL {
        let rules: Rules = format!("v7.2,group_order={order}").parse().unwrap();
        assert_eq!(rules.groups.order, order);
    }
    let unknown = "group_order=random".parse::<Rules>();
    assert!(unknown.unwrap_err().to_string().contains("rounds-sparing"));
    let of = |model| Rules::from(model).groups.order;
    assert_eq!(of(KernelModel::V2021), GroupOrder::Rounds(Sparing::Off));
    // The memcg LRU came with 6.3, after both of these.
    let of_61 = GroupOrder::Rounds(Sparing::Ageing);
    assert_eq!([of(KernelModel::V2022), of(KernelModel::V6_1)], [of_61; 2]);
    let later = [KernelModel::V6_14, KernelModel::V7_2].map(of);
    assert_eq!(later, [GroupOrder::MemcgLru; 2]);
}

// The end.

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
