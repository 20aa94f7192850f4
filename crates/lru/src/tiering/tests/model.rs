//! Random events on three nodes against a dumb model: which folio is where, and who holds it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::two_list::TwoList;

const NR_NODES: u8 = 3;

#[derive(Clone, Debug)]
enum Op {
    Appear {
        node: u8,
        is_file: bool,
        is_fault: bool,
        is_huge: bool,
    },
    Access {
        folio: u16,
        via: AccessVia,
    },
    Gone {
        folio: u16,
        is_reclaimed: bool,
    },
    HintFault {
        folio: u16,
        latency_ms: u64,
        to: u8,
    },
    Walk,
    Isolate {
        node: u8,
        nr_pages: u64,
    },
    Complete {
        choices: u64,
        origin: Origin,
    },
    TakePromotions,
    CompletePromotions {
        choices: u64,
    },
    Free {
        nr_pages: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let via = prop_oneof![1 => Just(AccessVia::PageTable), 3 => Just(AccessVia::FileDescriptor)];
    let origin = prop_oneof![Just(Origin::Background), Just(Origin::Direct)];
    let free = prop_oneof![Just(0u64), Just(262_145)];
    prop_oneof![
        20 => (0..NR_NODES, any::<bool>(), any::<bool>(), proptest::bool::weighted(0.1)).prop_map(
            |(node, is_file, is_fault, is_huge)| Op::Appear { node, is_file, is_fault, is_huge }),
        30 => (any::<u16>(), via).prop_map(|(folio, via)| Op::Access { folio, via }),
        6 => (any::<u16>(), any::<bool>())
            .prop_map(|(folio, is_reclaimed)| Op::Gone { folio, is_reclaimed }),
        12 => (any::<u16>(), 0..2000u64, 0..NR_NODES)
            .prop_map(|(folio, latency_ms, to)| Op::HintFault { folio, latency_ms, to }),
        5 => Just(Op::Walk),
        8 => (0..NR_NODES, 0..20u64).prop_map(|(node, nr_pages)| Op::Isolate { node, nr_pages }),
        10 => (any::<u64>(), origin)
            .prop_map(|(choices, origin)| Op::Complete { choices, origin }),
        6 => Just(Op::TakePromotions),
        8 => any::<u64>().prop_map(|choices| Op::CompletePromotions { choices }),
        1 => free.prop_map(|nr_pages| Op::Free { nr_pages }),
    ]
}

/// Who holds a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    List,
    Batch,
    Queue,
    HandedOut,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    node: NodeId,
    nr_pages: u64,
    holder: Holder,
    is_gone: bool,
}

struct Pair<P> {
    bench: Bench<P>,
    nr_folios: fn(&P) -> u32,
    pages: BTreeMap<FolioId, Page>,
    batches: Vec<EvictBatch>,
    handed_out: Vec<Vec<Promotion>>,
    demoted: [u64; 2],
    promoted: u64,
    failed: u64,
}

impl<P: Movable> Pair<P> {
    fn new(engine: P, nr_folios: fn(&P) -> u32, page_cache: PromotionStrategy) -> Pair<P> {
        let nodes = vec![
            node(0, 512, true),
            node(1, 1024, false),
            node(2, 2048, false),
        ];
        let config = TieringConfig {
            page_cache,
            promote_rate_limit_mib_per_s: 4,
            ..TieringConfig::new(Topology::try_new(nodes).unwrap())
        };
        Pair {
            bench: Bench::of(engine, config),
            nr_folios,
            pages: BTreeMap::new(),
            batches: Vec::new(),
            handed_out: Vec::new(),
            demoted: [0; 2],
            promoted: 0,
            failed: 0,
        }
    }

    fn pick(&self, number: u16) -> Option<FolioId> {
        let present: Vec<FolioId> = self
            .pages
            .iter()
            .filter(|of| !of.1.is_gone)
            .map(|of| *of.0)
            .collect();
        (!present.is_empty()).then(|| present[usize::from(number) % present.len()])
    }

    /// The model learns of a folio that was on a list and is isolated now.
    fn queue_if_taken(&mut self, folio: FolioId) -> Result<bool, TestCaseError> {
        let page = self.pages.get_mut(&folio).unwrap();
        let is_isolated = self.bench.standing(folio).is_isolated;
        let is_new = is_isolated && page.holder == Holder::List;
        if is_new {
            prop_assert_ne!(page.node, FAST, "nothing of the top tier is promoted");
            page.holder = Holder::Queue;
        }
        Ok(is_new)
    }

    fn settle(&mut self, folio: FolioId, to: Option<NodeId>) {
        let page = self.pages.get_mut(&folio).unwrap();
        if page.is_gone {
            self.pages.remove(&folio);
        } else {
            page.node = to.unwrap_or(page.node);
            page.holder = Holder::List;
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Appear {
                node,
                is_file,
                is_fault,
                is_huge,
            } => {
                let kind = if is_file { Kind::File } else { Kind::Anon };
                let cause = if is_fault { Cause::Fault } else { Cause::Read };
                let arrival = Arrival {
                    order: if is_huge { Order::PMD } else { Order::BASE },
                    ..arrival(self.bench.group, NodeId(node), kind, cause)
                };
                let folio = self.bench.policy.appeared(arrival).unwrap();
                let page = Page {
                    node: NodeId(node),
                    nr_pages: arrival.order.nr_pages(),
                    holder: Holder::List,
                    is_gone: false,
                };
                prop_assert!(
                    self.pages.insert(folio, page).is_none(),
                    "{:?} is still in use",
                    folio
                );
            }
            Op::Access { folio, via } => {
                if let Some(folio) = self.pick(folio) {
                    self.bench.policy.accessed(folio, via);
                    let is_new = self.queue_if_taken(folio)?;
                    prop_assert!(!is_new || via == AccessVia::FileDescriptor);
                }
            }
            Op::Gone {
                folio,
                is_reclaimed,
            } => {
                if let Some(folio) = self.pick(folio) {
                    let cause = if is_reclaimed {
                        GoneCause::Reclaimed
                    } else {
                        GoneCause::Freed
                    };
                    self.bench.policy.gone(folio, cause);
                    if self.pages[&folio].holder == Holder::List {
                        self.pages.remove(&folio);
                    } else {
                        self.pages.get_mut(&folio).unwrap().is_gone = true;
                    }
                }
            }
            Op::HintFault {
                folio,
                latency_ms,
                to,
            } => {
                if let Some(folio) = self.pick(folio) {
                    let is_up = to < self.pages[&folio].node.0;
                    let now = self.bench.now;
                    let is_queued =
                        self.bench
                            .policy
                            .hint_fault(folio, latency_ms, NodeId(to), now);
                    prop_assert_eq!(self.queue_if_taken(folio)?, is_queued);
                    prop_assert!(is_up || !is_queued);
                }
            }
            Op::Walk => self.bench.walk(),
            Op::Isolate { node, nr_pages } => {
                self.bench.isolate(NodeId(node), nr_pages);
                let batch = std::mem::take(&mut self.bench.batch);
                for folio in batch.folios.iter().chain(&batch.to_check) {
                    let page = self.pages.get_mut(folio).unwrap();
                    prop_assert_eq!((page.holder, page.node), (Holder::List, NodeId(node)));
                    page.holder = Holder::Batch;
                }
                if !batch.is_empty() {
                    self.batches.push(batch);
                }
            }
            Op::Complete { choices, origin } => {
                let Some(mut batch) = self.batches.pop() else {
                    return Ok(());
                };
                let outcome = |(at, folio): (usize, &FolioId)| match choices >> (at % 32 * 2) & 3 {
                    0 => Outcome::Tried(Verdict::Evicted),
                    1 => Outcome::Tried(Verdict::Referenced),
                    // Down, where there is a down.
                    _ if self.pages[folio].node.0 + 1 < NR_NODES => {
                        Outcome::Demoted(NodeId(self.pages[folio].node.0 + 1))
                    }
                    _ => Outcome::Tried(Verdict::Busy),
                };
                let outcomes: Vec<Outcome> = batch.folios.iter().enumerate().map(outcome).collect();
                let to_check = batch.to_check.clone();
                self.bench
                    .policy
                    .complete_outcomes(&mut batch, &outcomes, origin);
                prop_assert_eq!(batch.shadows.len(), batch.folios.len());
                to_check.iter().for_each(|folio| self.settle(*folio, None));
                for ((folio, outcome), shadow) in
                    batch.folios.iter().zip(outcomes).zip(&batch.shadows)
                {
                    let page = self.pages[folio];
                    let is_evicted = outcome == Outcome::Tried(Verdict::Evicted);
                    prop_assert_eq!(shadow.is_some(), is_evicted && !page.is_gone);
                    match outcome {
                        Outcome::Demoted(to) => {
                            self.demoted[origin as usize] +=
                                if page.is_gone { 0 } else { page.nr_pages };
                            self.settle(*folio, Some(to));
                        }
                        Outcome::Tried(Verdict::Evicted) => _ = self.pages.remove(folio),
                        Outcome::Tried(_) => self.settle(*folio, None),
                    }
                }
            }
            Op::TakePromotions => {
                let mut promotions = Vec::new();
                self.bench.policy.isolate_promotion(&mut promotions);
                let in_queue = |of: &&Page| of.holder == Holder::Queue;
                prop_assert_eq!(
                    promotions.len(),
                    self.pages.values().filter(in_queue).count()
                );
                for promotion in &promotions {
                    let page = self.pages.get_mut(&promotion.folio).unwrap();
                    prop_assert_eq!(page.holder, Holder::Queue);
                    prop_assert!(promotion.to.0 < page.node.0);
                    page.holder = Holder::HandedOut;
                }
                self.handed_out.push(promotions);
            }
            Op::CompletePromotions { choices } => {
                let Some(promotions) = self.handed_out.pop() else {
                    return Ok(());
                };
                let answer = |at: usize| match choices >> (at % 64) & 1 {
                    0 => Migrated::Moved,
                    _ => Migrated::Failed,
                };
                let answers: Vec<Migrated> = (0..promotions.len()).map(answer).collect();
                self.bench.policy.complete_promotion(&promotions, &answers);
                for (promotion, answer) in promotions.iter().zip(answers) {
                    let page = self.pages[&promotion.folio];
                    let has_moved = answer == Migrated::Moved && !page.is_gone;
                    *(if has_moved {
                        &mut self.promoted
                    } else {
                        &mut self.failed
                    }) += page.nr_pages;
                    self.settle(promotion.folio, has_moved.then_some(promotion.to));
                }
            }
            Op::Free { nr_pages } => self.bench.policy.tell_free(FAST, nr_pages),
        }
        self.compare()
    }

    fn apply_all(mut self, ops: &[Op]) -> Result<(), TestCaseError> {
        ops.iter().try_for_each(|op| self.apply(op))
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        self.bench.policy.validate().map_err(TestCaseError::fail)?;
        let nr_folios = (self.nr_folios)(&self.bench.policy.policy);
        prop_assert_eq!(nr_folios as usize, self.pages.len());
        for (folio, page) in &self.pages {
            let standing = self.bench.standing(*folio);
            prop_assert_eq!(standing.node, page.node);
            prop_assert_eq!(standing.is_isolated, page.holder != Holder::List);
        }
        let stats = self.bench.stats();
        prop_assert_eq!([stats.pgdemote_kswapd, stats.pgdemote_direct], self.demoted);
        prop_assert_eq!(
            (stats.pgpromote_success, stats.pgmigrate_fail),
            (self.promoted, self.failed)
        );
        prop_assert_eq!(
            stats.pgmigrate_success,
            self.promoted + self.demoted.iter().sum::<u64>()
        );
        let nr_candidates = stats.pgpromote_candidate + stats.pgpromote_candidate_nrl;
        prop_assert!(stats.pgpromote_success + stats.nr_rate_limited_pages <= nr_candidates);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_folio_is_where_the_model_has_it_and_nobody_takes_it_twice(
        strategy in proptest::sample::select(PromotionStrategy::ALL),
        ops in proptest::collection::vec(op(), 1..300),
    ) {
        let engine = MultiGen::new(Config::default()).unwrap();
        Pair::new(engine, MultiGen::nr_folios, strategy).apply_all(&ops)?;
        let engine = TwoList::new(Config::default()).unwrap();
        Pair::new(engine, TwoList::nr_folios, strategy).apply_all(&ops)?;
    }
}
