//! The state file of a session, and the lock beside it.
//!
//! ```text
//!   /run/strata/.sessions.lock     held while a directory is made, claimed or removed
//!   /run/strata/<id>/lock          flock'ed by the owner and its keeper while either lives
//!   /run/strata/<id>/state.json    written whole: temporary file, fsync, rename
//! ```
//!
//! **Invariants**
//! - S1: `state.json` is absent (nothing was changed yet) or complete.
//! - S2: whoever reads it to undo holds the lock.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use strata_linux::cgroup::{GroupMark, as_text};
use strata_linux::run_dir::trust::{self, Missing};
use strata_linux::run_dir::{ProcessMark, lock_in, read};
use strata_linux::swap::SwapRecord;
use strata_linux::undo::Undo;

/// Raised when an older Strata could misread the file.
const VERSION: u32 = 1;

/// What is in `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct State {
    version: u32,
    pub(super) boot_id: String,
    pub(super) owner: ProcessMark,
    /// Who undoes when the owner has died, so that others can name it.
    #[serde(default)]
    pub(super) keeper: Option<ProcessMark>,
    /// The groups that are acted on.
    #[serde(default)]
    pub(crate) groups: Vec<GroupMark>,
    /// The process under a budget, if there is one in particular.
    pub(crate) program: Option<ProcessMark>,
    /// An attached group whose processes are the program.
    #[serde(default, with = "as_text::option")]
    pub(super) group: Option<PathBuf>,
    /// Whether the session has ended in good order: nobody is waited for with what it could not undo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_over: bool,
    /// Whether swap stays when its Strata has ended, until the next one of the session's name takes it over or down.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) keeps_swap: bool,
    /// Oldest first.
    pub(super) undo: Vec<Undo>,
}

impl State {
    pub(super) fn new(boot_id: String, owner: ProcessMark) -> State {
        State {
            version: VERSION,
            boot_id,
            owner,
            keeper: None,
            groups: Vec::new(),
            program: None,
            group: None,
            is_over: false,
            keeps_swap: false,
            undo: Vec::new(),
        }
    }

    /// `None`: nothing was written yet.
    ///
    /// # Errors
    /// Also if others could have written it (see `trust`).
    pub(super) fn load(directory: &Path) -> io::Result<Option<State>> {
        let Some(text) = read(&directory.join("state.json"))? else {
            return Ok(None);
        };
        let state: State = serde_json::from_slice(&text)?;
        if state.version != VERSION {
            let why = format!(
                "state.json has version {}, this Strata reads {VERSION}",
                state.version
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Some(state))
    }

    /// Whether values in groups are changed.
    pub(super) fn has_values_to_restore(&self) -> bool {
        let is_value = |undo: &Undo| matches!(undo, Undo::RestoreFile { .. });
        self.undo.iter().any(is_value)
    }

    /// The swap that is recorded.
    pub(crate) fn swap(&self) -> Option<&SwapRecord> {
        self.undo.iter().find_map(|undo| match undo {
            Undo::Swap(record) => Some(record),
            _ => None,
        })
    }

    /// The group that a path lies in, if it is one of those acted on.
    pub(super) fn mark_of(&self, path: &Path) -> Option<&GroupMark> {
        let mut groups = self.groups.iter();
        groups.find(|group| path.starts_with(&group.path))
    }

    pub(super) fn save(&self, directory: &Path) -> io::Result<()> {
        let temporary = directory.join("state.json.new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = trust::open_file(&temporary, &mut options)?;
        file.write_all(&serde_json::to_vec_pretty(self)?)?;
        file.sync_all()?;
        fs::rename(&temporary, directory.join("state.json"))?;
        File::open(directory)?.sync_all()
    }
}

/// Makes the directory of a session and takes its lock.
pub(super) fn make_directory(run_dir: &Path, id: &str) -> io::Result<(PathBuf, File)> {
    let _scan_lock = lock_in(run_dir, "sessions")?;
    let directory = run_dir.join(id);
    DirBuilder::new().mode(0o700).create(&directory)?;
    let lock = try_lock(&directory)?
        .ok_or_else(|| io::Error::other("a directory just made is locked already"))?;
    Ok((directory, lock))
}

/// Takes the lock of a directory that nobody holds. `None`: somebody does, or it is gone.
pub(super) fn claim_directory(run_dir: &Path, directory: &Path) -> io::Result<Option<File>> {
    let _scan_lock = lock_in(run_dir, "sessions")?;
    if !directory.is_dir() {
        return Ok(None);
    }
    trust::check_directory(directory, Missing::Refuse)?;
    try_lock(directory)
}

fn try_lock(directory: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = trust::open_file(&directory.join("lock"), options.mode(0o600))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Removes the directory of a session whose lock the caller holds. Done twice it is no error.
pub(super) fn remove_directory(directory: &Path) -> io::Result<()> {
    let run_dir = directory.parent().unwrap_or(directory);
    let _scan_lock = lock_in(run_dir, "sessions")?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
