//! The multi-generational LRU as a pure engine: it decides which pages to keep, somebody else does it.
//!
//! **Owns** folios, generations, tiers, the feedback controller, refault shadows and groups.
//! **Does not own** page contents, a clock, threads, randomness, I/O or anything of Linux: time is
//! a parameter, and what happens to pages is reported to it.
//!
//! **Invariants**
//! - I1: nothing here reads a clock, spawns a thread or performs I/O; same calls, same answers.
//! - I2: every count can be recounted ([`Policy::validate`]).
//! - I3: what was tried and what took effect are never the same counter.
#![forbid(unsafe_code)]

mod config;
mod controller;
mod folio;
mod ids;
mod list;
pub mod lru_gen;
mod lruvec;
mod model;
mod multigen;
mod seam;
mod shadow;

pub use config::{Config, ConfigError};
pub use ids::{FolioId, GenSeq, GroupId, Kind, NodeId, Order, TimeMs};
pub use model::{KernelModel, UnknownModel};
pub use multigen::{EvictPlan, MultiGen, Plan, WalkPlan};
pub use seam::{
    AccessVia, Ageing, Arrival, Cause, EvictBatch, GenerationView, GoneCause, GroupView, Isolated,
    Policy, PolicyError, ReclaimRequest, ReclaimStats, Shadow, Swappiness, Verdict,
};
