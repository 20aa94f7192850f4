//! Looking at a session from outside: which program it has under its budget, and in which groups.
//!
//! **Owns** reading that much of another session's state. **Does not own** what is done with it.

use std::io;
use std::path::PathBuf;

use super::state::State;
use strata_linux::run_dir::{ProcessMark, run_dir};
use strata_linux::swap::SwapRecord;

/// What another Strata says of its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionView {
    /// The process under the budget, once it has been started.
    pub(crate) program: Option<ProcessMark>,
    /// The groups that the session acts on.
    pub(crate) groups: Vec<PathBuf>,
    /// The swap that the session has made.
    pub(crate) swap: Option<SwapRecord>,
}

/// Looks at the session of that name; `None` where there is none, none yet, or none that may be read.
pub(crate) fn look_at(id: &str) -> Option<SessionView> {
    let state = State::load(&run_dir().join(id)).ok()??;
    Some(SessionView {
        swap: state.swap().cloned(),
        program: state.program,
        groups: state.groups.into_iter().map(|group| group.path).collect(),
    })
}

/// Whether the Strata of the session of that name runs.
///
/// # Errors
/// The session may not be looked at.
pub(crate) fn is_running(id: &str) -> io::Result<bool> {
    let state = State::load(&run_dir().join(id))?;
    Ok(state.is_some_and(|state| state.owner.is_running()))
}
