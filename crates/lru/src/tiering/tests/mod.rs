//! Stories of tiers, and everything at once against a dumb model.

mod brakes;
mod demotion;
mod forward;
mod model;
mod promotion;
mod strategies;
mod topology;
mod two_list;

use super::{tiered::Tiered, *};
use crate::{
    bench_tests::arrival,
    config::Config,
    ids::{GroupId, Kind, Order},
    model::KernelModel,
    multigen::MultiGen,
    policy::Policy,
    seam::{AccessVia, Arrival, Cause, GoneCause, Isolated, ReclaimRequest},
    swappiness::Swappiness,
};

/// Where processors are.
const FAST: NodeId = NodeId(0);

/// Where they are not.
const SLOW: NodeId = NodeId(1);

fn node(number: u8, abstract_distance: u32, has_cpu: bool) -> NodeConfig {
    NodeConfig {
        node: NodeId(number),
        nr_pages: 1 << 20,
        abstract_distance,
        has_cpu,
    }
}

fn two_tiers() -> TieringConfig {
    let nodes = vec![node(FAST.0, 512, true), node(SLOW.0, 1024, false)];
    TieringConfig::new(Topology::try_new(nodes).unwrap())
}

fn with_strategy(page_cache: PromotionStrategy) -> TieringConfig {
    TieringConfig {
        page_cache,
        ..two_tiers()
    }
}

/// A wrapped engine with one group, and short words for what happens to it.
struct Bench<P = MultiGen> {
    policy: Tiered<P, true>,
    group: GroupId,
    now: TimeMs,
    batch: EvictBatch,
    promotions: Vec<Promotion>,
}

impl Bench {
    fn with(config: TieringConfig) -> Bench {
        Bench::of_model(KernelModel::default(), config)
    }

    fn of_model(model: KernelModel, config: TieringConfig) -> Bench {
        Bench::of(MultiGen::new(Config::of(model)).unwrap(), config)
    }
}

impl<P: Movable> Bench<P> {
    fn of(engine: P, config: TieringConfig) -> Bench<P> {
        let mut policy = Tiered::try_new(engine, config).unwrap();
        let group = policy.add_group("/bench", TimeMs(0)).unwrap();
        Bench {
            policy,
            group,
            now: TimeMs(0),
            batch: EvictBatch::default(),
            promotions: Vec::new(),
        }
    }

    fn appear(&mut self, node: NodeId, kind: Kind, cause: Cause) -> FolioId {
        let arrival = arrival(self.group, node, kind, cause);
        self.policy.appeared(arrival).unwrap()
    }

    fn read(&mut self, folio: FolioId, times: usize) {
        for _ in 0..times {
            self.policy.accessed(folio, AccessVia::FileDescriptor);
            self.policy.validate().unwrap();
        }
    }

    fn young(&mut self, folio: FolioId) {
        self.policy.accessed(folio, AccessVia::PageTable);
    }

    fn walk(&mut self) {
        self.now.0 += 1000;
        let swappiness = Swappiness::DEFAULT;
        self.policy
            .finish_walk(self.group, swappiness, self.now)
            .unwrap();
    }

    fn hint_fault(&mut self, folio: FolioId, latency_ms: u64) -> bool {
        let is_queued = self.policy.hint_fault(folio, latency_ms, FAST, self.now);
        self.policy.validate().unwrap();
        is_queued
    }

    /// At which of ten reads the page is queued.
    fn queued_at(&mut self, folio: FolioId) -> Option<usize> {
        (1..=10).find(|_| {
            self.read(folio, 1);
            let is_queued = !self.queued().is_empty();
            self.answer(Migrated::Failed);
            is_queued
        })
    }

    /// What is queued for promotion.
    fn queued(&mut self) -> Vec<FolioId> {
        self.policy.isolate_promotion(&mut self.promotions);
        self.promotions.iter().map(|of| of.folio).collect()
    }

    fn answer(&mut self, migrated: Migrated) {
        let answers = vec![migrated; self.promotions.len()];
        self.policy.complete_promotion(&self.promotions, &answers);
        self.policy.validate().unwrap();
    }

    fn isolate(&mut self, node: NodeId, nr_pages: u64) -> Isolated {
        let request = ReclaimRequest {
            node: Some(node),
            ..ReclaimRequest::new(self.group, nr_pages)
        };
        let end = self.policy.isolate(request, self.now, &mut self.batch);
        self.policy.validate().unwrap();
        end.unwrap()
    }

    fn standing(&self, folio: FolioId) -> FolioStanding {
        self.policy.policy.standing(folio)
    }

    fn stats(&self) -> TieringStats {
        self.policy.tiering_stats()
    }
}
