//! Carrying recorded steps out.
//!
//! **Owns** the order: the last change first; limits before everything else.
//! **Does not own** how a single step is undone (`cgroup`, `swap`).

use std::path::Path;

use super::state::State;
use super::written;
use strata_linux::cgroup::{self, CgroupError, PutBack};
use strata_linux::process::halt;
use strata_linux::swap::{self, SwapError};
use strata_linux::undo::Undo;

/// Why something is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// A value or a group.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A swap device.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// The keeper, which was told to go.
    #[error("the keeper (pid {pid}) {why}")]
    Keeper {
        /// Process id of the keeper.
        pid: i32,
        /// What became of the keeper.
        why: String,
    },
    /// A stopped process.
    #[error("process {pid} was stopped and can't be told to go on: {source}; send it SIGCONT")]
    GoOn {
        /// The process.
        pid: i32,
        /// The reason.
        source: std::io::Error,
    },
    /// The state file.
    #[error("the state in {} could not be updated: {source}", path.display())]
    State {
        /// The session's directory.
        path: std::path::PathBuf,
        /// The reason.
        source: std::io::Error,
    },
}

/// The steps that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Values: they squeeze a program that nobody watches over any more.
    AtOnce,
    /// Everything.
    AfterTheProgram,
    /// What outlives a reboot: files.
    AfterReboot,
}

impl Due {
    fn covers(self, undo: &Undo) -> bool {
        match (self, undo) {
            (Due::AtOnce, Undo::RestoreFile { .. } | Undo::Thaw { .. } | Undo::GoOn { .. })
            | (Due::AfterTheProgram, _) => true,
            (Due::AfterReboot, Undo::Swap(record)) => {
                matches!(record.backing, swap::Backing::File { .. })
            }
            _ => false,
        }
    }
}

/// Carries out what is due, the last step first, goes on after a failure, and keeps in the state what
/// is left. Returns the failures.
pub(super) fn carry_out(state: &mut State, directory: &Path, due: Due) -> Vec<UndoError> {
    let mut errors = Vec::new();
    for at in (0..state.undo.len()).rev() {
        if !due.covers(&state.undo[at]) {
            continue;
        }
        match carry_out_one(state, &state.undo[at], directory) {
            Ok(()) => {
                state.undo.remove(at);
            }
            Err(error) => errors.push(error),
        }
    }
    if let Err(source) = state.save(directory) {
        errors.push(UndoError::State {
            path: directory.to_owned(),
            source,
        });
    }
    errors
}

/// Puts all values back, the last first, and keeps them in the state. Returns the failures.
pub(super) fn put_values_back(state: &State, directory: &Path) -> Vec<UndoError> {
    let values = state.undo.iter().rev();
    values
        .filter(|undo| Due::AtOnce.covers(undo))
        .filter_map(|undo| carry_out_one(state, undo, directory).err())
        .collect()
}

fn carry_out_one(state: &State, undo: &Undo, directory: &Path) -> Result<(), UndoError> {
    match undo {
        Undo::RestoreFile { path, value } => {
            let ours = written::load(directory, path);
            let done = cgroup::put_back(state.mark_of(path), path, value, &ours)?;
            if let PutBack::Left(said) = done {
                tracing::warn!("{said}");
            }
        }
        Undo::Thaw { path } => cgroup::thaw(path)?,
        Undo::GoOn { process } => halt::go_on(*process).map_err(|source| UndoError::GoOn {
            pid: process.pid,
            source,
        })?,
        Undo::RemoveGroup { path } if !cgroup::may_be_ours(path) => {
            return Err(CgroupError::NotOurs(path.clone()).into());
        }
        Undo::RemoveGroup { path } => match state.mark_of(path) {
            Some(group) => cgroup::remove_marked(group)?,
            // The crash came before it was marked, and so before anybody could rename it.
            None => cgroup::remove_group(path)?,
        },
        Undo::Swap(record) => swap::take_down(record)?,
    }
    Ok(())
}

/// Whether what is left waits for the program's end: the session did not end in good order, which lets the program go.
pub(super) fn is_waiting(state: &State) -> bool {
    !state.is_over && is_program_running(state)
}

/// Whether the program under the budget still runs: the process, or anybody in its group.
pub(super) fn is_program_running(state: &State) -> bool {
    if state.program.is_some_and(|program| program.is_running()) {
        return true;
    }
    let ours = state.undo.iter().filter_map(|undo| match undo {
        Undo::RemoveGroup { path } => Some(path),
        _ => None,
    });
    ours.chain(&state.group)
        .filter_map(|group| match state.mark_of(group) {
            Some(mark) => mark.locate().unwrap_or_else(|_| Some(group.clone())),
            None => Some(group.clone()),
        })
        .any(|group| match cgroup::is_inhabited(&group) {
            Ok(is_inhabited) => is_inhabited,
            Err(CgroupError::Gone(_)) => false,
            // Who can't be counted may be there.
            Err(_) => true,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use strata_linux::run_dir::ProcessMark;

    #[test]
    fn who_was_stopped_goes_on_at_once_and_a_group_that_is_gone_needs_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = ProcessMark::of(std::process::id() as i32).expect("runs");
        let mut state = State::new("boot".to_owned(), own);
        let planted = dir.path().join("cgroup.freeze");
        fs::write(&planted, "mine").expect("written");
        let gone = dir.path().join("gone/freezer.state");
        let thaw = |path: &Path| Undo::Thaw {
            path: path.to_owned(),
        };
        state.undo = vec![thaw(&gone), thaw(&planted)];
        let errors = carry_out(&mut state, dir.path(), Due::AtOnce);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(state.undo, [thaw(&planted)], "that is no group's");
        assert_eq!(fs::read_to_string(&planted).expect("read"), "mine");
    }
}
