//! Looking at a session from outside: which program it has under its budget, and in which groups.
//!
//! **Owns** reading that much of another session's state. **Does not own** what is done with it.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::state::State;
use strata_linux::run_dir::{ProcessMark, SOCKET_NAME, run_dir};

/// What the session of that name says of itself; `None` where there is none, none yet, or none that may be read.
pub(crate) fn look_at(id: &str) -> Option<State> {
    State::load(&run_dir().join(id)).ok()?
}

/// The groups that runs act on. Nobody is asked: one that is stopped would not answer.
pub(crate) fn groups_of_runs() -> Vec<PathBuf> {
    let entries = fs::read_dir(run_dir()).into_iter().flatten().flatten();
    let runs = entries.filter(|entry| entry.path().join(SOCKET_NAME).exists());
    let states = runs.filter_map(|entry| State::load(&entry.path()).ok()?);
    let living = states.filter(|state| state.owner.is_running());
    let groups = living.flat_map(|state| state.groups);
    groups.map(|group| group.path).collect()
}

/// The Strata of the session of that name, if it runs.
///
/// # Errors
/// What the session says can't be read, or not be believed.
pub(crate) fn owner_of(id: &str) -> io::Result<Option<ProcessMark>> {
    let state = State::load(&run_dir().join(id))?;
    Ok(state
        .map(|state| state.owner)
        .filter(|owner| owner.is_running()))
}
