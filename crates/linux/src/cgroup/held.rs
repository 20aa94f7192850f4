//! Holding a group, so that nobody else acts on it: whatever their run directory is, they have the group in common.
//!
//! Whoever can open a file can lock it, even for reading only, and anybody can open a group's directory. So it is a control file
//! that is locked, one that only those may open who manage the group.
//!
//! **Owns** which file that is, and the lock. **Does not own** who is asked first (whoever keeps the notes).
//!
//! **Invariants** H1: nobody who may not write to the group keeps anybody from it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::error::CgroupError;
use crate::run_dir::holder_of;

/// Files that are for writing only: of every group but the root (v2), of every group (v1), and of the root (v2).
const FILES: [&str; 3] = ["cgroup.kill", "memory.force_empty", "memory.reclaim"];

/// What came of it.
#[derive(Debug)]
pub enum Hold {
    /// It is held until the file is closed. `None`: there is no file that this user may open.
    Held(Option<File>),
    /// Somebody else holds it.
    Taken {
        /// The process, where it can be seen.
        pid: Option<i32>,
    },
}

/// Holds the group at `group`, if nobody else does.
///
/// # Errors
/// The file can't be locked.
pub fn hold(group: &Path) -> Result<Hold, CgroupError> {
    let open = |name| {
        let path = group.join(name);
        let file = OpenOptions::new().write(true).open(&path).ok()?;
        Some((path, file))
    };
    let Some((path, file)) = FILES.into_iter().find_map(open) else {
        return Ok(Hold::Held(None));
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Hold::Held(Some(file))),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(Hold::Taken {
            pid: file.metadata().ok().and_then(|found| holder_of(&found)),
        }),
        Err(errno) => Err(CgroupError::io("locking", &path, io::Error::from(errno))),
    }
}
