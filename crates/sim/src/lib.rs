//! Reclaim policies on page traces, in virtual time.
//!
//! **Owns** the mechanism that plays the kernel for the engine, the baselines and the reports.
//! **Does not own** the policy (`strata-lru`) or the formats of traces (`strata-trace`).
//!
//! **Invariants**
//! - I1: same trace, seed and configuration give the same bytes, on any machine.
//! - I2: one run is one thread; runs are independent of each other.
#![forbid(unsafe_code)]
