//! Undoing: the state directory, the keeper process, and recovery at the next start.
//!
//! **Owns** `/run/strata/<id>/` (state under a lock) and the small process that outlives Strata's
//! death: limits are undone at once, swap and cgroup when the program has ended.
//! **Does not own** how a limit or a device is made.

mod journal;
mod mark;

pub use journal::{Journal, JournalSink, Undo};
pub use mark::{ProcessMark, run_dir};
pub(crate) use mark::{boot_id, lock_run_dir, parent_of};
