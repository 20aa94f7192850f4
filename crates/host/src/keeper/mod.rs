//! Undoing: the state directory, the keeper process, and recovery at the next start.
//!
//! **Owns** `/run/strata/<id>/` (state under a lock) and the small process that outlives Strata's
//! death: limits are undone at once, swap and cgroup when the program has ended.
//! **Does not own** how a limit or a device is made.
