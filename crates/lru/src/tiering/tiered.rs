//! A policy with tiers: what comes up, what goes down, and the queue in between.
//!
//! ```text
//!   hint_fault ----\                                            /--Moved--> the target node
//!                   +-> taken off its list, queued -> isolate_promotion
//!   fd access -----/    (isolated all the while)                \--Failed-> back where it was
//! ```
//!
//! `PAGE_CACHE` says at compile time whether descriptor accesses are looked at. It is chosen by
//! [`tiered`] from the configuration, so that what is off is not even a branch.
//!
//! **Owns** the queue, the brakes, the counters. **Does not own** the judgement of a page
//! (`strategy`) or the order of nodes (`topology`).
//!
//! **Invariants**
//! - I1: what is queued is isolated in the policy, and nothing else here is.
//! - I2: the queue holds at most [`NR_QUEUED_FOLIOS_MAX`] folios and never allocates after it was made.

use super::{
    FolioStanding, Migrated, Movable, Outcome, Promotion, Tiering, TieringConfig, TieringError,
    TieringStats, Topology,
    throttle::{Admission, Limits, Throttle},
};
use crate::{
    ids::{FolioId, NodeId, NodeSet, TimeMs},
    policy::Policy,
    random::Random,
    seam::{AccessVia, EvictBatch, Origin, Verdict},
};

/// Folios queued for promotion, at most: 16 MiB of base pages.
const NR_QUEUED_FOLIOS_MAX: usize = 4096;

/// Base pages in a MiB.
const NR_PAGES_PER_MIB: u64 = 256;

/// A node's share of free memory that lets promotions pass: one in so many.
const PLENTY_SHARE: u64 = 16;

/// What is kept of a node.
#[derive(Debug)]
struct NodeState {
    node: NodeId,
    nr_pages_plenty: u64,
    nr_free_pages: u64,
    throttle: Throttle,
}

/// A policy that knows of tiers; made by [`tiered`].
#[derive(Debug)]
pub(super) struct Tiered<P, const PAGE_CACHE: bool> {
    pub(super) policy: P,
    config: TieringConfig,
    limits: Limits,
    nodes: Vec<NodeState>,
    /// Whose folios may come up.
    lower: NodeSet,
    /// Where unmapped page cache comes up to.
    local: NodeId,
    queue: Vec<Promotion>,
    stats: TieringStats,
    random: Random,
    now: TimeMs,
    /// What is left of a batch without its demoted folios.
    rest: EvictBatch,
    verdicts: Vec<Verdict>,
}

/// Wraps a policy with tiers; nothing of the configuration can be changed later.
///
/// Its groups have room on every node from the start.
pub fn tiered<P: Movable + 'static>(
    policy: P,
    config: TieringConfig,
) -> Result<Box<dyn Policy>, TieringError> {
    Ok(if config.promotes_page_cache() {
        Box::new(Tiered::<P, true>::try_new(policy, config)?)
    } else {
        Box::new(Tiered::<P, false>::try_new(policy, config)?)
    })
}

impl<P: Movable, const PAGE_CACHE: bool> Tiered<P, PAGE_CACHE> {
    /// A wrapped policy that has no groups yet.
    pub(super) fn try_new(policy: P, config: TieringConfig) -> Result<Self, TieringError> {
        config.validate()?;
        let topology = &config.topology;
        let mut lower = NodeSet::default();
        for of in topology
            .nodes()
            .iter()
            .filter(|of| !topology.is_top_tier(of.node))
        {
            lower.insert(of.node);
        }
        let state = |of: &super::NodeConfig| NodeState {
            node: of.node,
            nr_pages_plenty: config.nr_free_pages_plenty.max(of.nr_pages / PLENTY_SHARE),
            nr_free_pages: 0,
            throttle: Throttle::default(),
        };
        Ok(Tiered {
            policy,
            limits: Limits {
                nr_pages_per_s: config
                    .promote_rate_limit_mib_per_s
                    .saturating_mul(NR_PAGES_PER_MIB),
                threshold_ms: config.hot_threshold_ms,
                adapt_period_ms: config.adapt_period_ms,
            },
            nodes: topology.nodes().iter().map(state).collect(),
            lower,
            local: topology.fastest_node_with_cpu(),
            queue: Vec::with_capacity(NR_QUEUED_FOLIOS_MAX),
            stats: TieringStats::default(),
            random: Random::new(config.seed),
            now: TimeMs::default(),
            rest: EvictBatch::default(),
            verdicts: Vec::new(),
            config,
        })
    }

    fn state(&mut self, node: NodeId) -> Option<&mut NodeState> {
        self.nodes.iter_mut().find(|of| of.node == node)
    }

    /// The nodes that reclaim demotes from.
    pub(super) fn nodes_above_others(&self) -> NodeSet {
        let topology = &self.config.topology;
        let mut nodes = NodeSet::default();
        for of in topology.nodes() {
            if self.config.is_demotion_on && !topology.lower_nodes(of.node).is_empty() {
                nodes.insert(of.node);
            }
        }
        nodes
    }

    pub(super) fn note_time(&mut self, now: TimeMs) {
        self.now = self.now.max(now);
    }

    /// A descriptor access, looked at before it is counted.
    pub(super) fn accessed_unmapped(&mut self, folio: FolioId) {
        // The node first: most accesses are to pages that are up already.
        if !self.lower.contains(self.policy.node(folio)) {
            self.policy.accessed(folio, AccessVia::FileDescriptor);
            return;
        }
        let before = self.policy.standing(folio);
        self.policy.accessed(folio, AccessVia::FileDescriptor);
        if self.config.page_cache.wants(&before) {
            self.consider(folio, &before, self.local, None);
        }
    }

    /// Asks the brakes, and queues the folio if they let it pass; whether it is queued.
    fn consider(
        &mut self,
        folio: FolioId,
        before: &FolioStanding,
        to: NodeId,
        latency_ms: Option<u64>,
    ) -> bool {
        let (limits, now) = (self.limits, self.now);
        let nr_pages = before.order.nr_pages();
        let Some(target) = self.state(to) else {
            return false;
        };
        let has_plenty = target.nr_free_pages > target.nr_pages_plenty;
        let admission = if has_plenty {
            target.throttle.reset_threshold();
            Admission::Admitted
        } else {
            match latency_ms {
                Some(latency) => target
                    .throttle
                    .admit_mapped(&limits, nr_pages, latency, now),
                None => target.throttle.admit(&limits, nr_pages, now),
            }
        };
        match admission {
            Admission::TooCold => {
                self.stats.nr_cold_pages += nr_pages;
                return false;
            }
            _ if has_plenty => self.stats.pgpromote_candidate_nrl += nr_pages,
            _ => self.stats.pgpromote_candidate += nr_pages,
        }
        if admission == Admission::RateLimited {
            self.stats.nr_rate_limited_pages += nr_pages;
            return false;
        }
        if self.queue.len() == NR_QUEUED_FOLIOS_MAX {
            self.stats.nr_queue_full_pages += nr_pages;
            return false;
        }
        let is_taken = self.policy.begin_move(folio);
        if is_taken {
            self.queue.push(Promotion {
                folio,
                to,
                was_active: before.is_active(),
                is_unmapped: latency_ms.is_none(),
            });
        }
        is_taken
    }

    /// Checks that exactly what is queued or handed out is isolated here.
    pub(super) fn validate_queue(&self) -> Result<(), String> {
        for (at, promotion) in self.queue.iter().enumerate() {
            let folio = promotion.folio;
            if !self.policy.standing(folio).is_isolated {
                return Err(format!("{folio:?} is queued and not isolated"));
            }
            if self.queue[..at].iter().any(|of| of.folio == folio) {
                return Err(format!("{folio:?} is queued twice"));
            }
        }
        Ok(())
    }

    /// Bytes beside the policy's own.
    pub(super) fn own_memory_bytes(&self) -> u64 {
        let queue = self.queue.capacity() * size_of::<Promotion>();
        let rest = (self.rest.folios.capacity() * size_of::<FolioId>())
            + self.verdicts.capacity() * size_of::<Verdict>();
        (queue + rest + self.nodes.capacity() * size_of::<NodeState>()) as u64
    }
}

impl<P: Movable, const PAGE_CACHE: bool> Tiering for Tiered<P, PAGE_CACHE> {
    fn tell_time(&mut self, now: TimeMs) {
        self.note_time(now);
    }

    fn tell_free(&mut self, node: NodeId, nr_pages: u64) {
        if let Some(state) = self.state(node) {
            state.nr_free_pages = nr_pages;
        }
    }

    fn demotion_target(
        &mut self,
        from: NodeId,
        allowed: &dyn Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        if !self.config.is_demotion_on {
            return None;
        }
        let topology = &self.config.topology;
        let may_go = |node: &NodeId| allowed(*node);
        let preferred = topology.preferred_targets(from).iter().copied();
        let preferred = preferred.filter(may_go);
        match preferred.clone().count() {
            0 => topology.lower_nodes(from).iter().copied().find(may_go),
            nr_nodes => preferred.clone().nth(self.random.below(nr_nodes)),
        }
    }

    fn complete_outcomes(&mut self, batch: &mut EvictBatch, outcomes: &[Outcome], origin: Origin) {
        let nr_folios = batch.folios.len();
        assert_eq!(
            nr_folios,
            outcomes.len(),
            "one outcome for each folio of the batch"
        );
        let mut rest = std::mem::take(&mut self.rest);
        std::mem::swap(&mut rest, batch);
        // `rest` is the batch now; its folios are thinned out in place, the caller's stay as they are.
        batch.clear();
        batch.folios.extend_from_slice(&rest.folios);
        rest.folios.clear();
        self.verdicts.clear();
        for (&folio, &outcome) in batch.folios.iter().zip(outcomes) {
            match outcome {
                Outcome::Tried(verdict) => {
                    rest.folios.push(folio);
                    self.verdicts.push(verdict);
                }
                Outcome::Demoted(node) => {
                    let nr_pages = self.policy.order(folio).nr_pages();
                    if !self.policy.demoted(folio, node) {
                        continue;
                    }
                    self.stats.pgmigrate_success += nr_pages;
                    match origin {
                        Origin::Background => self.stats.pgdemote_kswapd += nr_pages,
                        Origin::Direct => self.stats.pgdemote_direct += nr_pages,
                    }
                }
            }
        }
        self.policy.complete(&mut rest, &self.verdicts);
        let mut shadows = rest.shadows.iter();
        batch
            .shadows
            .extend(outcomes.iter().map(|outcome| match outcome {
                Outcome::Tried(_) => shadows.next().copied().flatten(),
                Outcome::Demoted(_) => None,
            }));
        self.rest = rest;
    }

    fn demotion_failed(&mut self, nr_pages: u64) {
        self.stats.pgmigrate_fail += nr_pages;
    }

    fn hint_fault(&mut self, folio: FolioId, latency_ms: u64, to: NodeId, now: TimeMs) -> bool {
        self.note_time(now);
        self.stats.numa_hint_faults += 1;
        let before = self.policy.standing(folio);
        let is_up = self.config.topology.lower_nodes(to).contains(&before.node);
        let is_candidate = self.config.is_promotion_on
            && is_up
            && self.lower.contains(before.node)
            && !before.is_isolated;
        is_candidate && self.consider(folio, &before, to, Some(latency_ms))
    }

    fn isolate_promotion(&mut self, promotions: &mut Vec<Promotion>) {
        promotions.clear();
        promotions.append(&mut self.queue);
    }

    fn complete_promotion(&mut self, promotions: &[Promotion], migrated: &[Migrated]) {
        assert_eq!(
            promotions.len(),
            migrated.len(),
            "an answer for each promotion"
        );
        for (promotion, migrated) in promotions.iter().zip(migrated) {
            let nr_pages = self.policy.order(promotion.folio).nr_pages();
            let to = (*migrated == Migrated::Moved).then_some(promotion.to);
            let is_there = self
                .policy
                .end_move(promotion.folio, to, promotion.was_active);
            if to.is_none() || !is_there {
                self.stats.pgmigrate_fail += nr_pages;
                continue;
            }
            self.stats.pgmigrate_success += nr_pages;
            self.stats.pgpromote_success += nr_pages;
            if promotion.is_unmapped {
                self.stats.nr_promoted_unmapped_pages += nr_pages;
            }
        }
    }

    fn topology(&self) -> &Topology {
        &self.config.topology
    }

    fn hot_threshold_ms(&self, to: NodeId) -> u64 {
        let state = self.nodes.iter().find(|of| of.node == to);
        state.map_or(self.limits.threshold_ms, |of| {
            of.throttle.threshold_ms(&self.limits)
        })
    }

    fn tiering_stats(&self) -> TieringStats {
        self.stats
    }
}
