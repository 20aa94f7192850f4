//! How long one call may hold the lock of a program's address space, and how much of the time clearing may.
//!
//! **Owns** the two bounds. **Does not own** measuring calls and keeping to the bounds (`strata-host`, or a model of Linux).

/// Calls are made so small that each is expected to take no longer, nanoseconds.
pub const CALL_GOAL_NS: u64 = 1_500_000;
/// Walks come so far apart that clearing accessed bits takes at most one part in so many of the time: 0.5 %.
pub const CLEARING_SHARE: u32 = 200;
