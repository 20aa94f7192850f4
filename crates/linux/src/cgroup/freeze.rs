//! Stopping all processes of a group, and letting them go on: `cgroup.freeze` (v2), `freezer.state` (v1).
//!
//! On v1 the freezer is a hierarchy of its own. A memory group can be frozen where its processes, and nobody else, are in
//! one group of that hierarchy.
//!
//! **Owns** finding the control file, and the two writes. **Does not own** who is frozen, and when.
//!
//! **Invariants**
//! - F1: a thaw is recorded before anything is frozen.
//! - F2: what somebody else has frozen is left to them.
//! - F3: neither Strata nor pid 1 is ever frozen.

use std::path::{Path, PathBuf};

use super::error::CgroupError;
use super::file::{read_text, write_back};
use super::mounts::freezer_group_of;
use super::processes::processes_below;
use super::reader::GroupReader;
use crate::undo::{Journal, Undo};
use strata_lru::machine::CgroupVersion as Version;

/// Why a group is not slowed, frozen or killed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HaltError {
    /// There is no way.
    #[error("{} can't be frozen: {why}", path.display())]
    NoFreezer {
        /// The group.
        path: PathBuf,
        /// What is missing.
        why: &'static str,
    },
    /// Strata or pid 1 is in it.
    #[error("{} is left alone: Strata or pid 1 is in it", .0.display())]
    Vital(PathBuf),
    /// Somebody else has frozen it.
    #[error("{} is frozen already, by somebody else", .0.display())]
    Taken(PathBuf),
    /// Its limit leaves no room for a lower one.
    #[error("{} is left: it stands at what the group uses, or somebody else has changed it", .0.display())]
    Throttled(PathBuf),
    /// What lets it go on can't be recorded.
    #[error("{} is left alone, as a change could not be recorded: {source}", path.display())]
    Journal {
        /// The group.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file of the group.
    #[error(transparent)]
    Group(#[from] CgroupError),
}

/// The control file by which a group is frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freezer {
    file: PathBuf,
    version: Version,
}

impl Freezer {
    /// That of a group which nobody has frozen.
    ///
    /// # Errors
    /// There is none, or the group is not one to freeze.
    pub fn of(group: &GroupReader) -> Result<Freezer, HaltError> {
        let freezer = Freezer::find(group)?;
        match is_frozen(&freezer.file)? {
            false => Ok(freezer),
            true => Err(HaltError::Taken(group.path().to_owned())),
        }
    }

    /// That of a group, frozen or not.
    ///
    /// # Errors
    /// As [`Freezer::of`].
    pub fn find(group: &GroupReader) -> Result<Freezer, HaltError> {
        let none = |why| HaltError::NoFreezer {
            path: group.path().to_owned(),
            why,
        };
        let pids = spared(group)?;
        let version = group.version();
        let file = match version {
            Version::V2 => group.path().join("cgroup.freeze"),
            Version::V1 => {
                let first = *pids.first().ok_or_else(|| none("nobody is in it"))?;
                let directory = freezer_group_of(first);
                let directory = directory
                    .ok_or_else(|| none("its processes are in no group of the freezer"))?;
                if processes_below(&directory)? != pids {
                    return Err(none("no group of the freezer holds just its processes"));
                }
                directory.join("freezer.state")
            }
        };
        if !file.exists() {
            return Err(none("the kernel has no file for that"));
        }
        Ok(Freezer { file, version })
    }

    /// Records that its processes are to go on, and stops them all.
    ///
    /// # Errors
    /// [`HaltError`]; then nobody is stopped.
    pub fn freeze(&self, journal: &Journal) -> Result<(), HaltError> {
        let recorded = journal.record(&self.undo());
        recorded.map_err(|source| HaltError::Journal {
            path: self.file.clone(),
            source,
        })?;
        if let Err(error) = self.stop() {
            thaw(&self.file)?;
            self.forget(journal).map_err(|source| HaltError::Journal {
                path: self.file.clone(),
                source,
            })?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Stops all of its processes, after [`Freezer::undo`] was recorded.
    ///
    /// # Errors
    /// The file can't be written; some may be stopped then, so [`thaw`] is due.
    pub(super) fn stop(&self) -> Result<(), CgroupError> {
        let word = match self.version {
            Version::V1 => "FROZEN",
            Version::V2 => "1",
        };
        write_back(&self.file, word)
    }

    /// The thaw is done, or is for whoever knows the file.
    ///
    /// # Errors
    /// The journal can't be written; then they are let go on once more when this Strata has ended.
    pub fn forget(&self, journal: &Journal) -> std::io::Result<()> {
        journal.forget(&self.undo())
    }

    /// The control file, for [`thaw`].
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What lets its processes go on.
    pub(super) fn undo(&self) -> Undo {
        Undo::Thaw {
            path: self.file.clone(),
        }
    }
}

/// Whether a group is stopped, by its control file.
///
/// # Errors
/// [`CgroupError::Gone`]; or the file can't be read.
pub fn is_frozen(file: &Path) -> Result<bool, CgroupError> {
    Ok(!matches!(read_text(file)?.trim(), "0" | "THAWED"))
}

/// Lets the processes of a group go on, by the control file that stopped them, as a journal names it.
///
/// # Errors
/// It is no such file, or can't be written.
pub fn thaw(file: &Path) -> Result<(), CgroupError> {
    let word = match file.file_name().and_then(|name| name.to_str()) {
        Some("cgroup.freeze") => "0",
        Some("freezer.state") => "THAWED",
        _ => return Err(CgroupError::NotOurs(file.to_owned())),
    };
    match write_back(file, word) {
        Err(CgroupError::Gone(_)) => Ok(()),
        done => done,
    }
}

/// All processes of a group and of those below, if none of them is one that the host or Strata lives by.
pub(super) fn spared(group: &GroupReader) -> Result<Vec<i32>, HaltError> {
    let pids = group.processes()?;
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    match pids.contains(&own) || pids.contains(&1) {
        true => Err(HaltError::Vital(group.path().to_owned())),
        false => Ok(pids),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_that_names_another_file_is_not_carried_out() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["shadow", "cgroup.freeze", "freezer.state"] {
            let file = directory.path().join(name);
            std::fs::write(&file, "mine").expect("written");
            let error = thaw(&file).expect_err("no control file");
            assert!(matches!(error, CgroupError::NotOurs(_)), "{error}");
            assert_eq!(std::fs::read_to_string(&file).expect("read"), "mine");
        }
        let gone = directory.path().join("gone/cgroup.freeze");
        thaw(&gone).expect("nobody is there");
    }

    #[test]
    fn what_strata_is_in_is_never_frozen() {
        let own = i32::try_from(std::process::id()).expect("a pid");
        let Ok(Some(group)) = GroupReader::of_process(own) else {
            return;
        };
        let error = Freezer::of(&group).expect_err("Strata is in it");
        assert!(matches!(error, HaltError::Vital(_)), "{error}");
    }
}
