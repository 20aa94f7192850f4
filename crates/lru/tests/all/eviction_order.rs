//! `eviction_order` against `isolate`: any history, then what was foretold is what goes.
//!
//! The history is drawn as for the test against the model, and played on any policy: folios of two groups
//! on two nodes come, are accessed, written, leave; walks; batches that are open still when it is asked.

use std::cell::RefCell;

use proptest::{
    prelude::*,
    test_runner::{Config as Cases, TestRunner},
};
use strata_lru::{
    Arrival, Config, EvictBatch, FolioId, GroupId, Ingredient, Ingredients, Isolated, KernelModel,
    Kind, MinTtl, MultiGen, NodeConfig, NodeId, Order, Policy, PolicyError, ReclaimRequest,
    Refault, Shadow, Strata, Swappiness, TieringConfig, TimeMs, Topology, TwoList, Verdict, tiered,
};

use crate::support::{Op, op};

/// Longest history.
const NR_OPS_MAX: usize = 500;

/// Histories of each policy.
const NR_CASES: u32 = 60;

/// What a mechanism knows of a policy that it plays a history on.
struct History {
    policy: Box<dyn Policy>,
    groups: Vec<GroupId>,
    /// In memory; those of open batches are left alone.
    live: Vec<FolioId>,
    shadows: Vec<Shadow>,
    batches: Vec<EvictBatch>,
    now: TimeMs,
}

impl History {
    fn new(mut policy: Box<dyn Policy>) -> History {
        let mut add = |path| policy.add_group(path, TimeMs(0)).expect("two groups fit");
        let groups = vec![add("/0"), add("/1")];
        History {
            policy,
            groups,
            live: Vec::new(),
            shadows: Vec::new(),
            batches: Vec::new(),
            now: TimeMs(0),
        }
    }

    fn group(&self, number: u8) -> GroupId {
        self.groups[usize::from(number)]
    }

    fn pick(&self, number: u16) -> Option<usize> {
        (!self.live.is_empty()).then(|| usize::from(number) % self.live.len())
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Appear {
                group,
                node,
                kind,
                cause,
                order,
                shadow,
                is_exec,
            } => {
                let left = shadow.filter(|_| !self.shadows.is_empty()).map(|n| {
                    self.shadows
                        .swap_remove(usize::from(n) % self.shadows.len())
                });
                let arrival = Arrival {
                    group: self.group(group),
                    node: NodeId(node),
                    kind,
                    order: Order(order),
                    cause,
                    shadow: left,
                    is_exec,
                };
                self.live
                    .push(self.policy.appeared(arrival).expect("it fits"));
            }
            Op::Access { folio, via, times } => {
                if let Some(at) = self.pick(folio) {
                    (0..times).for_each(|_| self.policy.accessed(self.live[at], via));
                }
            }
            Op::Write { folio, state } => {
                if let Some(at) = self.pick(folio) {
                    self.policy.set_write_state(self.live[at], state);
                }
            }
            Op::Gone { folio, cause } => {
                if let Some(at) = self.pick(folio) {
                    let folio = self.live.swap_remove(at);
                    self.shadows.extend(self.policy.gone(folio, cause));
                }
            }
            Op::Walk { group, swappiness } => {
                self.now.0 += 100;
                let (group, swappiness) = (self.group(group), level(swappiness));
                self.policy
                    .finish_walk(group, swappiness, self.now)
                    .expect("the group exists");
            }
            Op::Isolate {
                group,
                nr_pages,
                swappiness,
                priority,
            } => {
                let request = ReclaimRequest {
                    swappiness: level(swappiness),
                    priority,
                    ..ReclaimRequest::new(self.group(group), nr_pages.into())
                };
                let mut batch = EvictBatch::default();
                let answer = self.policy.isolate(request, self.now, &mut batch);
                answer.expect("the group exists");
                self.live
                    .retain(|of| !batch.folios.contains(of) && !batch.to_check.contains(of));
                self.batches.push(batch);
            }
            Op::EvictCommand { .. } => {}
            Op::Complete { batch, verdicts } => {
                if !self.batches.is_empty() {
                    let at = usize::from(batch) % self.batches.len();
                    self.complete(at, verdicts);
                }
            }
            Op::MinTtl { .. } => {}
            Op::Sleep { ms } => self.now.0 += u64::from(ms),
        }
    }

    /// Half of a batch leaves, the others stay for one reason or another.
    fn complete(&mut self, at: usize, bits: u64) {
        const STAYING: [Verdict; 4] = [
            Verdict::Referenced,
            Verdict::Busy,
            Verdict::Dirty,
            Verdict::NotTried,
        ];
        let mut batch = self.batches.swap_remove(at);
        let verdict = |n: usize| match bits.rotate_left(5 * n as u32) {
            bits if bits & 8 == 0 => Verdict::Evicted,
            bits => STAYING[bits as usize % STAYING.len()],
        };
        let verdicts: Vec<Verdict> = (0..batch.folios.len()).map(verdict).collect();
        batch.young = (0..batch.to_check.len())
            .map(|n| bits.rotate_right(3 * n as u32) & 1 == 1)
            .collect();
        self.policy.complete(&mut batch, &verdicts);
        self.live.extend(&batch.to_check);
        for (n, (folio, verdict)) in batch.folios.iter().zip(verdicts).enumerate() {
            self.shadows.extend(batch.shadows[n]);
            if verdict != Verdict::Evicted {
                self.live.push(*folio);
            }
        }
    }

    /// What is taken page by page.
    fn taken(&mut self, group: GroupId, kind: Kind) -> Vec<FolioId> {
        let swappiness = match kind {
            Kind::Anon => Swappiness::ANON_ONLY,
            Kind::File => Swappiness::FILE_ONLY,
        };
        let request = ReclaimRequest {
            swappiness,
            ..ReclaimRequest::new(group, 1)
        };
        let (mut taken, mut batch) = (Vec::new(), EvictBatch::default());
        // A group that was removed is gone with the last of it.
        while let Ok(Isolated::Pages(_) | Isolated::Again) =
            self.policy.isolate(request, self.now, &mut batch)
        {
            taken.extend(&batch.folios);
            let verdicts = vec![Verdict::Evicted; batch.folios.len()];
            self.policy.complete(&mut batch, &verdicts);
        }
        taken
    }
}

fn level(swappiness: u8) -> Swappiness {
    Swappiness::try_new(swappiness).expect("0 to 201")
}

/// How much of what could be seen was seen.
#[derive(Debug, Default)]
struct Seen {
    nr_foretold: usize,
    nr_open: usize,
    nr_both: usize,
}

/// Whether the group that is asked about was removed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Online,
    Removed,
}

/// Plays histories on what `make` makes, and takes what was foretold.
fn holds(make: impl Fn() -> Box<dyn Policy>, life: Life) {
    let swappiness = prop_oneof![3 => Just(60u8), 1 => Just(0), 1 => Just(201), 1 => 0..=201u8];
    let histories = proptest::collection::vec(op(swappiness), 1..=NR_OPS_MAX);
    let cases = Cases {
        cases: NR_CASES,
        failure_persistence: None,
        ..Cases::default()
    };
    let seen = RefCell::new(Seen::default());
    let outcome = TestRunner::new(cases).run(&histories, |ops: Vec<Op>| {
        let mut history = History::new(make());
        ops.iter().for_each(|op| history.apply(op));
        let group = history.groups[0];
        if life == Life::Removed {
            history
                .policy
                .remove_group(group)
                .expect("it is empty of groups");
        }
        let mut seen = seen.borrow_mut();
        seen.nr_open += usize::from(!history.batches.is_empty());
        let mut nr_of_kinds = [0; 2];
        for kind in Kind::ALL {
            let before = format!("{:?}", history.policy);
            let policy = &history.policy;
            let Ok(order) = policy.eviction_order(group, kind, history.now) else {
                prop_assert_eq!(life, Life::Removed);
                continue;
            };
            let foretold: Vec<FolioId> = order.collect();
            let first = policy
                .eviction_order(group, kind, history.now)
                .expect("as before");
            let first: Vec<FolioId> = first.take(3).collect();
            prop_assert!(
                foretold.starts_with(&first),
                "asked for less it says the same"
            );
            prop_assert_eq!(&before, &format!("{:?}", policy), "asking changes nothing");
            prop_assert!(foretold.iter().all(|of| policy.kind(*of) == kind));
            prop_assert_eq!(&foretold, &history.taken(group, kind), "{}", kind);
            history.policy.validate().map_err(TestCaseError::fail)?;
            nr_of_kinds[kind.index()] = foretold.len();
        }
        seen.nr_foretold += nr_of_kinds[0] + nr_of_kinds[1];
        seen.nr_both += usize::from(nr_of_kinds.iter().all(|of| *of > 0));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let seen = seen.into_inner();
    let is_telling = seen.nr_foretold > 100 && seen.nr_open > 5 && seen.nr_both > 5;
    assert!(is_telling, "{seen:?}");
}

fn generations(config: Config) -> impl Fn() -> Box<dyn Policy> {
    move || Box::new(MultiGen::new(config.clone()).expect("valid"))
}

fn two_lists(config: Config) -> impl Fn() -> Box<dyn Policy> {
    move || Box::new(TwoList::new(config.clone()).expect("valid"))
}

fn strata(ingredients: Ingredients) -> impl Fn() -> Box<dyn Policy> {
    move || Box::new(Strata::made_of(ingredients, Config::default()).expect("valid"))
}

fn judged(refault: Refault) -> Config {
    Config {
        refault,
        ..Config::default()
    }
}

#[test]
fn generations_of_every_kernel_give_what_was_foretold() {
    for kernel in KernelModel::ALL {
        holds(generations(Config::of(*kernel)), Life::Online);
    }
}

#[test]
fn generations_judged_by_distance_or_on_trial_give_what_was_foretold() {
    for refault in [Refault::Distance, Refault::Trial] {
        holds(generations(judged(refault)), Life::Online);
    }
}

#[test]
fn what_is_too_young_to_go_is_not_foretold() {
    for min_ttl in [MinTtl::AllTogether, MinTtl::EachByItself] {
        for kernel in KernelModel::ALL {
            let config = Config {
                min_ttl_ms: 1000,
                min_ttl,
                ..Config::of(*kernel)
            };
            holds(generations(config), Life::Online);
        }
    }
}

#[test]
fn the_two_lists_give_what_was_foretold() {
    for refault in [Refault::Window, Refault::Distance, Refault::Trial] {
        holds(two_lists(judged(refault)), Life::Online);
    }
}

#[test]
fn the_policy_of_our_own_gives_what_was_foretold_whatever_it_is_made_of() {
    holds(strata(Ingredients::ALL), Life::Online);
    for ingredient in Ingredient::ALL {
        holds(strata(Ingredients::ALL.without(*ingredient)), Life::Online);
    }
}

#[test]
fn what_is_left_of_a_removed_group_goes_as_foretold() {
    holds(generations(Config::default()), Life::Removed);
    holds(two_lists(Config::default()), Life::Removed);
    holds(strata(Ingredients::ALL), Life::Removed);
}

#[test]
fn with_tiers_it_is_the_order_of_the_policy_within() {
    let node = |node, abstract_distance| NodeConfig {
        node: NodeId(node),
        nr_pages: 1 << 20,
        abstract_distance,
        has_cpu: node == 0,
    };
    let topology = Topology::try_new(vec![node(0, 100), node(1, 300)]).unwrap();
    let config = TieringConfig::new(topology);
    let make = || tiered(MultiGen::new(Config::default()).unwrap(), config.clone()).unwrap();
    holds(make, Life::Online);
    let make = || tiered(TwoList::new(Config::default()).unwrap(), config.clone()).unwrap();
    holds(make, Life::Online);
    let make = || tiered(Strata::new(Config::default()).unwrap(), config.clone()).unwrap();
    holds(make, Life::Online);
}

#[test]
fn of_a_group_that_is_not_there_nothing_is_foretold() {
    let policy = MultiGen::new(Config::default()).unwrap();
    let order = policy.eviction_order(GroupId(7), Kind::Anon, TimeMs(0));
    assert_eq!(order.err(), Some(PolicyError::NoGroup(GroupId(7))));
}
