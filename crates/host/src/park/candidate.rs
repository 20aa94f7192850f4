//! Who is to be parked, and what stays.
//!
//! **Owns** these words. **Does not own** parking (`away`), nor who is idle.

use std::path::PathBuf;
use std::time::Duration;

/// What stays of a parked program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nothing that can go.
    #[default]
    Nothing,
    /// So many bytes, those that were used last.
    Bytes(u64),
    /// What was accessed while it was looked at.
    WorkingSet,
}

/// A group that did nothing for long.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Path of the group below the mount.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its processes.
    pub pids: Vec<i32>,
    /// What stays of it.
    pub keep: Keep,
    /// What was typed within so long counts as somebody at it.
    pub lately: Duration,
}
