//! Strategies: what else than reclaiming can be done for the programs, a file each.
//!
//! **Owns** nothing. **Does not own** when one is asked. **Invariants** S1: no strategy knows another.

pub mod list_balance;
pub mod mark_accessed;
pub mod prefetch;
