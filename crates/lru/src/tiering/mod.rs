//! Memory tiering: fast and slow nodes, and what moves between them (rules 7).
//!
//! ```text
//!              fast node                                     slow node
//!   reclaim: oldest generation --(not young)--> demotion --> enters as a page put back
//!                   ^                           or swap              |
//!                   |                                                | mapped: hint fault in time
//!                   +---------- promotion, if the rate allows <------+ unmapped: a strategy
//! ```
//!
//! A policy is made to know of tiers by [`tiered`], which wraps it: the policy inside neither knows
//! nor pays. Tiering and the promotion of unmapped page cache are two switches, the second off by
//! default; which of them is on is decided when the wrapper is made, and with the second off its
//! access through a descriptor is the policy's own, instruction for instruction.
//!
//! # When a page that is only ever read through descriptors can come up
//!
//! Such a page enters an old generation in every model, is never found young by a walk, and so never
//! gets to a younger generation by itself. That decides what the strategies can do for it:
//!
//! | strategy          | a page only ever read comes up                                            |
//! |-------------------|---------------------------------------------------------------------------|
//! | `never`           | never                                                                     |
//! | `first-access`    | at the first read after it went down                                      |
//! | `rfc-as-coded`    | hardly ever, see below                                                    |
//! | `refs`            | at the sixth counted read: five saturate the count, by any model          |
//! | `five-conditions` | hardly ever, see below                                                    |
//! | any, `TwoList`    | `rfc-as-coded`, `refs` and `five-conditions` all ask for referenced and active: at the fourth read, as two activate it and one more marks it again |
//!
//! `rfc-as-coded` and `five-conditions` both ask for one of the two youngest generations. The proposal's
//! second version dropped that, for the reason above, and is `refs`. As first coded the hook lets such a
//! page up only where the two youngest generations are all there is, at the read after the first that
//! sets no flag (the second; before 6.14 the third), or once eviction spared it into them.
//!
//! `five-conditions` lets it up in two cases. Where the two youngest generations are all there is, it
//! enters one of them, and the read after the one that makes it workingset finds it (the sixth; before
//! 6.14 the third). And where eviction spares it for its tier from the third youngest generation: that
//! keeps workingset alone (before 6.14 not even that), so it is found at the second read from then on.
//!
//! Every page counts, whatever group it is charged to: nothing of the group is asked.
//!
//! **Owns** the nodes and their order ([`Topology`]), who goes down where, who comes up and how
//! fast, the counters. **Does not own** copying pages (the mechanism), or what folios are worth
//! (the policy inside).
//!
//! **Invariants**
//! - I1: a folio is in the promotion queue at most once, and isolated as long as it is; what is
//!   isolated already is never queued.
//! - I2: nothing of a top tier is promoted, nothing of the lowest tier demoted.
//! - I3: candidates, promotions that took effect and failures are counters of their own.

mod config;
mod forward;
mod movable;
mod strategy;
mod throttle;
mod tiered;
mod topology;

pub use config::TieringConfig;
pub use movable::Movable;
pub use strategy::{FolioStanding, PromotionStrategy, Recency, UnknownStrategy};
pub use tiered::tiered;
pub use topology::{NodeConfig, TieringError, Topology};

use crate::{
    ids::{FolioId, NodeId, TimeMs},
    seam::{EvictBatch, Origin, Verdict},
};

/// What became of one folio of an eviction batch where there are tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As without tiers.
    Tried(Verdict),
    /// Moved to a lower node instead of being evicted; counts as reclaimed.
    Demoted(NodeId),
}

/// A folio that is to be promoted; isolated until completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// The folio.
    pub folio: FolioId,
    /// The node it is to go to; there or nowhere.
    pub to: NodeId,
    was_active: bool,
    is_unmapped: bool,
}

/// What became of one promotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrated {
    /// The folio is on the target node now.
    Moved,
    /// The folio is where it was: no room, locked, or gone.
    Failed,
}

/// Moving pages between nodes; a policy that [`tiered`] wrapped has it.
pub trait Tiering {
    /// Notes the time, which windows of rate limits go by. Calls that carry a time do the same.
    fn tell_time(&mut self, now: TimeMs);

    /// Notes how many base pages of a node are free; much free memory lets promotions pass unlimited.
    fn tell_free(&mut self, node: NodeId, nr_pages: u64);

    /// Where to demote to from a node: one of the nearest nodes of the next lower tier, by lot, else
    /// the nearest lower node that is `allowed`. If the target turns out full, try
    /// [`Topology::lower_nodes`]; what fits nowhere is evicted, or put back if the reclaim is only
    /// proactive.
    fn demotion_target(&mut self, from: NodeId, allowed: &dyn Fn(NodeId) -> bool)
    -> Option<NodeId>;

    /// [`Policy::complete`](crate::Policy::complete) for a batch of which some were demoted; `outcomes[i]` is of
    /// `batch.folios[i]`. `origin` is that of the goal.
    fn complete_outcomes(&mut self, batch: &mut EvictBatch, outcomes: &[Outcome], origin: Origin);

    /// Demotions of so many base pages failed: what becomes of them is told as usual.
    fn demotion_failed(&mut self, nr_pages: u64);

    /// A mapped folio was accessed `latency_ms` after its entry was made to fault, by a processor of
    /// node `to`; whether it is queued for promotion now.
    fn hint_fault(&mut self, folio: FolioId, latency_ms: u64, to: NodeId, now: TimeMs) -> bool;

    /// Takes what is queued for promotion into `promotions`, which is cleared first.
    fn isolate_promotion(&mut self, promotions: &mut Vec<Promotion>);

    /// Learns what became of promotions; `migrated[i]` is of `promotions[i]`.
    fn complete_promotion(&mut self, promotions: &[Promotion], migrated: &[Migrated]);

    /// The nodes.
    fn topology(&self) -> &Topology;

    /// The latency below which a hint fault on the way to a node counts as hot, in milliseconds.
    fn hot_threshold_ms(&self, to: NodeId) -> u64;

    /// The counters.
    fn tiering_stats(&self) -> TieringStats;
}

/// Counters of tiering in base pages, named as in the kernel's `vmstat` where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TieringStats {
    /// Demoted by background reclaim.
    pub pgdemote_kswapd: u64,
    /// Demoted by whoever needed the memory.
    pub pgdemote_direct: u64,
    /// Hot pages considered for promotion, before the rate limit.
    pub pgpromote_candidate: u64,
    /// Hot pages considered for promotion while so much was free that no limit was asked.
    pub pgpromote_candidate_nrl: u64,
    /// Promoted (applied).
    pub pgpromote_success: u64,
    /// Moved between nodes, up or down.
    pub pgmigrate_success: u64,
    /// Not moved although it was tried.
    pub pgmigrate_fail: u64,
    /// Hint faults, a number of faults.
    pub numa_hint_faults: u64,
    /// Of `pgpromote_success`, those that a descriptor access asked for.
    #[cfg_attr(feature = "serde", serde(rename = "promoted_unmapped"))]
    pub nr_promoted_unmapped_pages: u64,
    /// Hint faults that came too late to count as hot.
    #[cfg_attr(feature = "serde", serde(rename = "cold"))]
    pub nr_cold_pages: u64,
    /// Refused by the rate limit.
    #[cfg_attr(feature = "serde", serde(rename = "rate_limited"))]
    pub nr_rate_limited_pages: u64,
    /// Refused because the queue was full.
    #[cfg_attr(feature = "serde", serde(rename = "queue_full"))]
    pub nr_queue_full_pages: u64,
}

#[cfg(test)]
mod tests;
