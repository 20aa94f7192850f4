//! The control loop: when to reclaim, how much, and who does it.
//!
//! Everything here is a function of what it is given. Time is a parameter, and nothing is read from the system, written
//! to it or waited for; `strata-host` carries out what is decided.
//!
//! **Owns** the judgements that the loop is made of. **Does not own** which page goes (`strata-lru`), nor any call of
//! the system.
//!
//! **Invariants** I1: same samples, same decisions.
#![forbid(unsafe_code)]

mod backoff;
pub mod stall;
mod strategy;

pub use backoff::Backoff;
pub use strategy::{list_balance, mark_accessed, prefetch};
