//! The directory in which every Strata on this machine notes what it has changed: which one it is, whether it can be believed,
//! and the locks in it.
//!
//! **Owns** the directory's place (`/run/strata`, or what `STRATA_RUN_DIR` says), the checks of what lies in it (`trust`), reading it (`read`), locks
//! of the whole machine as files in it (`lock`), and how a process and a boot are recognised later (`mark`). **Does not own**
//! what is noted there (`undo` names it, a keeper writes it).
//!
//! **Invariants**
//! - What lies in a run directory that others could have written to is not believed.
//! - A lock that is returned is of the file at its path at that moment, so two never have it.

mod lock;
mod mark;
mod read;
pub mod trust;

pub(crate) use lock::holder_of;
pub use lock::{Lock, lock_in, lock_run_dir};
pub use mark::{ProcessMark, boot_id, is_run_dir_empty, parent_of, run_dir};
pub use read::{names, read};

/// Beside the session directories: what is parked.
pub const PARKED_DIR: &str = "parked";
/// The session of the guard.
pub const GUARD_DIR: &str = "guard";
/// The session whose swap is for what is parked.
pub const PARK_DIR: &str = "park";

/// Whether an entry of the run directory is there for all sessions, and none itself.
pub fn is_common(name: &std::ffi::OsStr) -> bool {
    name == PARKED_DIR
}

/// Whether an entry of the run directory is no run's: no run has such a name.
pub fn is_no_run(name: &std::ffi::OsStr) -> bool {
    is_common(name) || name == GUARD_DIR || name == PARK_DIR
}

/// The socket's name in the state directory.
pub const SOCKET_NAME: &str = "control.sock";
