//! The multi-generational LRU as a pure engine: it decides which pages to keep, somebody else does it.
//!
//! Linux keeps pages in generations: a page is as old as the last walk that found its accessed bit
//! set. This crate is that idea with nothing of Linux in it, so that it can sort the pages of live
//! processes, of a recorded trace, or of a cache that somebody writes. What happens to pages is
//! reported to it, what it wants done comes back as a value, and time is a parameter.
//!
//! # A page's life
//!
//! ```text
//!             fault, read                         found young twice
//!   (not in) ------------> placement --> lists --------------------> youngest generation
//!      ^                                   |  ^                            |
//!      |                          ageing   |  | every walk makes all       |
//!      |                                   v  | others one older <---------+
//!      |                          oldest generation
//!      |                                   |
//!      |          eviction sorts: promoted, protected tiers -> back up
//!      |                                   |
//!      |                                   v
//!      |   shadow               batch -> the mechanism tries -> verdicts
//!      +----------- evicted <--------------+------> survived: back, but not to the oldest
//!      |
//!      +--> comes back (refault): the controller learns which tier, which kind was cut too short
//! ```
//!
//! 1. **Fault.** [`Policy::appeared`]. A page faulted in enters the second youngest generation, one
//!    read ahead the oldest (`multigen/placement.rs`).
//! 2. **Walks.** [`Policy::accessed`] for each page found young. The second time promotes it: the
//!    flags word changes, its list does not (`multigen/promotion.rs`).
//! 3. **Ageing.** [`Policy::finish_walk`] begins a generation; nothing is moved, everything else is
//!    older by that (`multigen/ageing.rs`).
//! 4. **Eviction.** [`Policy::isolate`] sorts the oldest list and hands out a batch;
//!    [`Policy::complete`] learns what became of it (`multigen/eviction.rs`).
//! 5. **Shadow.** 31 bits remain of an evicted page (`shadow.rs`). The mechanism keeps them.
//! 6. **Refault.** A page that comes back brings its shadow; if it left lately, it gets back what it
//!    had earned (`multigen/refault.rs`).
//! 7. **Feedback.** The rates of return per tier and kind decide what is spared and what goes first
//!    next time (`controller.rs`).
//!
//! Where a comment says "rules 2.1" it means that section of `docs/develop/RULES.md`, which also names the
//! test that holds the rule. How kernels differ is data ([`KernelModel`], [`Rules`]), not branches.
//!
//! # Example
//!
//! A mechanism over a vector of pages, with room for four:
//!
//! ```
//! use strata_lru::*;
//!
//! let mut lru = MultiGen::new(Config::default())?;
//! let group = lru.add_group("/example", TimeMs(0))?;
//! let mut resident: Vec<Option<FolioId>> = vec![None; 8];
//! let mut shadows: Vec<Option<Shadow>> = vec![None; 8];
//! let (mut batch, mut nr_faults) = (EvictBatch::default(), 0);
//!
//! // Pages 0 and 1 are wanted all the time, 2 to 7 once in a while.
//! for (tick, page) in (0..60).flat_map(|tick| [(tick, 0), (tick, 1), (tick, 2 + tick as usize % 6)]) {
//!     if let Some(folio) = resident[page] {
//!         lru.accessed(folio, AccessVia::PageTable);
//!         continue;
//!     }
//!     nr_faults += 1;
//!     let (kind, cause, shadow) = (Kind::Anon, Cause::Fault, shadows[page].take());
//!     let (node, order) = (NodeId(0), Order::BASE);
//!     let arrival = Arrival { group, node, kind, order, cause, shadow, is_exec: false };
//!     resident[page] = Some(lru.appeared(arrival)?);
//!     while lru.nr_folios() > 4 {
//!         let request = ReclaimRequest::new(group, 1);
//!         if lru.isolate(request, TimeMs(tick), &mut batch)? == Isolated::NeedsAgeing {
//!             lru.finish_walk(group, request.swappiness, TimeMs(tick))?;
//!         }
//!         let verdicts = vec![Verdict::Evicted; batch.folios.len()];
//!         lru.complete(&mut batch, &verdicts);
//!         for (folio, shadow) in batch.folios.iter().zip(&batch.shadows) {
//!             let page = resident.iter().position(|of| *of == Some(*folio)).expect("resident");
//!             (resident[page], shadows[page]) = (None, *shadow);
//!         }
//!     }
//! }
//! assert!(resident[0].is_some() && resident[1].is_some());
//! assert!((60..=62).contains(&nr_faults), "0 and 1 fault once, the others each time: {nr_faults}");
//! lru.validate()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Beside the policies stands [`ages`], the ledger of how old every page of every watched space is, [`bits`], what is done with
//! a bit for each page of a table, and [`machine`], words for what is read of a machine.
//!
//! **Owns** folios, generations, tiers, the feedback controller, refault shadows and groups; ages of pages.
//! **Does not own** page contents, a clock, threads, randomness, I/O or anything of Linux: time is
//! a parameter, and what happens to pages is reported to it.
//!
//! **Invariants**
//! - I1: nothing here reads a clock, spawns a thread or performs I/O; same calls, same answers.
//! - I2: every count can be recounted ([`Policy::validate`]).
//! - I3: what was tried and what took effect are never the same counter.
#![forbid(unsafe_code)]

#[macro_use]
mod counts;
#[macro_use]
mod named;

pub mod ages;
#[cfg(test)]
mod bench_tests;
pub mod bits;
mod books;
mod config;
mod controller;
mod counting;
mod distance;
mod error;
mod folio;
mod group;
mod ids;
mod list;
pub mod lru_gen;
mod lruvec;
pub mod machine;
mod memcg_lru;
mod model;
#[cfg(test)]
mod model_tests;
mod multigen;
mod policy;
mod random;
mod reclaim;
mod rules;
mod seam;
mod shadow;
mod spec;
mod swappiness;
mod tiering;
mod trial;
mod two_list;
mod walk;

pub use config::{Config, ConfigError, MinTtl, Refault};
pub use controller::{Controller, TierGains};
pub use counts::AddUp;
pub use error::{BadText, PolicyError};
pub use group::{Excess, GroupEvents, GroupTree, Limits, Protection};
pub use ids::{FolioId, GenSeq, GroupId, Kind, NodeId, NodeSet, Order, SpaceNo, TimeMs};
pub use lru_gen::{EvictPlan, Plan, WalkPlan};
pub use memcg_lru::MemcgLru;
pub use model::KernelModel;
pub use multigen::MultiGen;
pub use policy::Policy;
pub use random::mix;
pub use reclaim::{
    End, Goal, GroupOrder, GroupRules, Outcome as ReclaimOutcome, Reclaim, ScanBudget, Sparing,
    Step, Target, UnknownOrder,
};
pub use rules::{Aborting, Rule, Rules, RulesError, UnknownModel};
pub use seam::{
    AccessVia, Ageing, Arrival, Cause, EvictBatch, GenerationView, GoneCause, GroupView, Isolated,
    OnePass, Origin, ReclaimRequest, ReclaimStats, RelaxedWalk, Shadow, Verdict, WriteState,
};
pub use spec::{EnginePolicy, EngineSpec};
pub use swappiness::Swappiness;
pub use tiering::{
    FolioStanding, Migrated, Movable, NodeConfig, Outcome, Promotion, PromotionStrategy, Recency,
    Tiering, TieringConfig, TieringError, TieringStats, Topology, UnknownStrategy, tiered,
};
pub use two_list::TwoList;
pub use walk::{
    AgeingWalks, LookAround, LookAroundBy, NR_LOOK_AROUND_ENTRIES, NextSpace, Scan, SpaceSlot,
    TableBit, TableId, TableScan, Walk, WalkStats, look_around_window,
};
