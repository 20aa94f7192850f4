//! What is done beside reclaim, each by itself: which huge pages are split, which page cache is dropped and which stays.
//!
//! **Owns** the list of strategies. **Does not own** when one is asked (`control`).
//!
//! **Invariants** S1: no strategy knows another.

pub mod admit_cache;
pub mod drop_cache;
pub mod split_huge;
