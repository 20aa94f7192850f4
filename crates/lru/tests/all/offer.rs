//! What a policy without heat offers, against a model that writes the whole order down: all but the first of
//! `eviction_order` are protected, whatever the policy.

use std::collections::BTreeSet;

use proptest::prelude::*;
use strata_lru::{
    AccessVia, Arrival, Cause, EnginePolicy, EngineSpec, EvictBatch, FolioId, GoneCause, GroupId,
    Heat, HeatPolicy, Isolated, Kind, NodeId, Order, Outside, PastHeat, ReclaimRequest, Shadow,
    SpaceNo, Swappiness, TimeMs, Verdict,
};

const NR_PAGES: usize = 48;
const SPACE: SpaceNo = SpaceNo(0);
const SWAPPINESS: Swappiness = Swappiness::DEFAULT;

#[derive(Clone, Debug)]
enum Operation {
    /// A walk finds pages that came, that went and that were accessed; a bit each.
    Walk(u64, u64),
    /// A batch: so many pages, and which of them go.
    Evict(u64, u64),
    Offer(usize, u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    let few = (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b);
    prop_oneof![
        4 => (few, any::<u64>()).prop_map(|(moves, accessed)| Operation::Walk(moves, accessed)),
        2 => (1..20u64, any::<u64>()).prop_map(|(nr, goes)| Operation::Evict(nr, goes)),
        3 => (0..2usize, 0..1100u64).prop_map(|(kind, nr)| Operation::Offer(kind, nr)),
    ]
}

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    folio: Option<FolioId>,
    shadow: Option<Shadow>,
    /// Accessed in a walk, ever: the page has some heat for a long time.
    was_used: bool,
}

#[derive(Debug)]
struct World {
    policy: Box<dyn HeatPolicy>,
    group: GroupId,
    pages: Vec<Page>,
    now: TimeMs,
    nr_offered_pages: u64,
}

struct Nothing;

impl Outside for Nothing {
    fn for_each_away(&self, _: SpaceNo, _: &mut dyn FnMut(Heat, u64)) {}
    fn for_each_folio(&self, _: &mut dyn FnMut(&[FolioId])) {}
}

fn kind_of(page: usize) -> Kind {
    Kind::ALL[page / 4 % 2]
}

fn order_of(page: usize) -> Order {
    Order(if page % 13 == 5 { 9 } else { 0 })
}

fn is_exec(page: usize) -> bool {
    page % 3 == 1
}

impl World {
    fn new(policy: &EnginePolicy) -> World {
        let mut policy = policy.told().expect("it is valid");
        let group = policy.add_group("/", TimeMs(0)).expect("a group");
        World {
            policy,
            group,
            pages: vec![Page::default(); NR_PAGES],
            now: TimeMs(0),
            nr_offered_pages: 0,
        }
    }

    fn apply(&mut self, operation: Operation) -> Result<(), TestCaseError> {
        self.now.0 += 20;
        match operation {
            Operation::Walk(moves, accessed) => self.walk(moves, accessed),
            Operation::Evict(nr_pages, goes) => self.evict(nr_pages, goes),
            Operation::Offer(kind, nr_pages) => self.offer(Kind::ALL[kind], nr_pages)?,
        }
        self.policy.validate().map_err(TestCaseError::fail)
    }

    fn walk(&mut self, moves: u64, accessed: u64) {
        self.policy.begin_space_walk(self.group, SPACE);
        let mut nr_new_pages = 0;
        for number in 0..NR_PAGES {
            let page = self.pages[number];
            match page.folio {
                Some(folio) if moves >> number & 1 == 1 => {
                    let left = self.policy.gone(folio, GoneCause::Reclaimed);
                    let shadow = left.map(|(shadow, _)| shadow);
                    self.pages[number] = Page {
                        shadow,
                        ..Page::default()
                    };
                }
                None if moves >> number & 1 == 1 => {
                    let arrival = Arrival {
                        group: self.group,
                        node: NodeId(0),
                        kind: kind_of(number),
                        order: order_of(number),
                        cause: Cause::Fault,
                        shadow: page.shadow,
                        is_exec: is_exec(number),
                        space: SPACE,
                        heat: PastHeat::NONE,
                    };
                    self.pages[number].folio =
                        Some(self.policy.appeared(arrival).expect("there is room"));
                    nr_new_pages += order_of(number).nr_pages();
                }
                _ => {}
            }
            if let Some(folio) = self.pages[number].folio
                && accessed >> number & 1 == 1
            {
                self.policy.accessed(folio, AccessVia::PageTable);
                self.pages[number].was_used = true;
            }
        }
        self.policy
            .end_space_walk(self.group, SPACE, nr_new_pages, 1 << 20);
        self.policy
            .finish_walk(self.group, SWAPPINESS, self.now)
            .expect("the group");
    }

    fn evict(&mut self, nr_pages: u64, goes: u64) {
        let request = ReclaimRequest {
            swappiness: SWAPPINESS,
            ..ReclaimRequest::new(self.group, nr_pages)
        };
        let mut batch = EvictBatch::default();
        let answer = self
            .policy
            .isolate(request, self.now, &mut batch)
            .expect("the group");
        assert!(matches!(answer, Isolated::Pages(_)) || batch.folios.is_empty());
        let verdict = |n: usize| match goes >> (n % 64) & 1 {
            0 => Verdict::Evicted,
            _ => Verdict::Shared,
        };
        let verdicts: Vec<Verdict> = (0..batch.folios.len()).map(verdict).collect();
        self.policy.complete(&mut batch, &verdicts);
        for (position, folio) in batch.folios.iter().enumerate() {
            if verdicts[position] == Verdict::Evicted {
                let page = self.pages.iter_mut().find(|of| of.folio == Some(*folio));
                *page.expect("it is in memory") = Page {
                    shadow: batch.shadows[position],
                    ..Page::default()
                };
            }
        }
    }

    fn offer(&mut self, kind: Kind, nr_pages: u64) -> Result<(), TestCaseError> {
        let order = self.policy.eviction_order(self.group, kind, self.now);
        let order: Vec<FolioId> = order.expect("the group").collect();
        let number = |folio: &FolioId| {
            let number = self.pages.iter().position(|of| of.folio == Some(*folio));
            number.expect("it is in memory")
        };
        let is_code = |folio: &FolioId| {
            let number = number(folio);
            is_exec(number) && kind == Kind::File && self.pages[number].was_used
        };
        let (code, others): (Vec<FolioId>, Vec<FolioId>) = order.into_iter().partition(is_code);
        let mut offered = BTreeSet::new();
        let mut nr_expected = 0;
        for folio in others.iter().chain(&code) {
            if nr_expected >= nr_pages {
                break;
            }
            nr_expected += order_of(number(folio)).nr_pages();
            offered.insert(*folio);
        }
        let answer = self
            .policy
            .offer(self.group, kind, nr_pages, self.now, &Nothing);
        prop_assert_eq!(answer.expect("the group"), nr_expected);
        self.nr_offered_pages += nr_expected;
        for (number, page) in self.pages.iter().enumerate() {
            let Some(folio) = page.folio.filter(|_| kind_of(number) == kind) else {
                continue;
            };
            let is_protected = order_of(number) == Order::BASE && !offered.contains(&folio);
            prop_assert_eq!(self.policy.is_warm(folio), is_protected, "page {}", number);
        }
        Ok(())
    }
}

/// Plays histories; whether anything was offered and everything added up.
fn play(text: &'static str) {
    let spec: EngineSpec = text.parse().expect("a policy");
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let nr_offered_pages = std::cell::Cell::new(0);
    let histories = prop::collection::vec(operation(), 60);
    let result = runner.run(&histories, |operations| {
        let mut world = World::new(spec.policy());
        for operation in operations {
            world.apply(operation)?;
        }
        nr_offered_pages.set(nr_offered_pages.get() + world.nr_offered_pages);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert!(nr_offered_pages.get() > 1000, "{text}");
}

#[test]
fn generations_protect_all_but_the_next_to_go() {
    play("mglru");
    play("mglru:v6.1+nr_gens=8");
}

#[test]
fn generations_by_refault_distance_do_so_too() {
    play("mglru+distance=always");
    play("mglru+distance");
}

#[test]
fn the_two_lists_do_so_too() {
    play("two-list");
    play("two-list+distance");
}

#[test]
fn the_policy_of_our_own_does_so_too() {
    play("strata");
}

#[test]
fn what_is_younger_than_min_ttl_is_protected_however_much_is_offered() {
    play("mglru+min-ttl-each=100");
    let spec: EngineSpec = "mglru+min-ttl-each=100".parse().expect("a policy");
    let mut world = World::new(spec.policy());
    world.now = TimeMs(20);
    world.walk(u64::MAX, u64::MAX);
    let old: Vec<FolioId> = world.pages.iter().filter_map(|of| of.folio).collect();
    let protected = |world: &World| old.iter().filter(|of| world.policy.is_warm(**of)).count();
    let base =
        |kind: Kind| move |page: &usize| kind_of(*page) == kind && order_of(*page) == Order::BASE;
    let nr_anon_pages = (0..NR_PAGES).filter(base(Kind::Anon)).count();
    world.offer(Kind::Anon, 1 << 20).unwrap();
    assert_eq!(protected(&world), nr_anon_pages, "all are young");
    for _ in 0..4 {
        world.now.0 += 100;
        world.walk(0, 0);
    }
    world.offer(Kind::Anon, 1 << 20).unwrap();
    assert_eq!(protected(&world), 0, "all are old");
}
