//! The tests of the simulator, one module a subject, in one binary.
//!
//! **Owns** the list of them. **Does not own** any test.

#[path = "../support/mod.rs"]
mod support;

mod against_others;
mod code;
mod distance;
mod fidelity;
mod golden;
mod plan_cache;
mod promotion_letter;
