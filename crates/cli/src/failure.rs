//! What the process's exit status says when something fails.
//!
//! **Owns** the translation of an error into a status. **Does not own** the errors' texts.
//!
//! ```text
//!            run, record                                 every other verb
//!   2        bad arguments, or a target that can't be     the same
//!   126 127  the command can't be executed, not found     -
//!   125      Strata itself failed                         1
//! ```

use std::io;

use anyhow::Error;
use strata_host::compare::CompareError;
use strata_host::observe::{AttendError, SubjectError};
use strata_host::remote::RemoteError;
use strata_host::run::RunError;
use strata_linux::process::ProcessError;

/// A mistake in the arguments that only shows once they are looked at together or tried.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Refuses the arguments.
pub(crate) fn refuse<T>(why: impl Into<String>) -> anyhow::Result<T> {
    Err(UsageError(why.into()).into())
}

/// Status of a usage error, as clap has it.
pub(crate) const STATUS_USAGE: u8 = 2;
/// Status of a verb that starts a program when Strata fails before or instead of the program.
const STATUS_RUN_FAILED: u8 = 125;
/// Status of any other verb that fails.
const STATUS_FAILED: u8 = 1;

/// Whether the reader of our stdout is gone, which is its right.
pub(crate) fn is_broken_pipe(error: &Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Status of a failed verb that starts a program.
pub(crate) fn status_of_run(error: &Error) -> u8 {
    if error.is::<UsageError>() {
        return STATUS_USAGE;
    }
    if let Some(error) = error.downcast_ref::<SubjectError>() {
        return error.exit_status();
    }
    if let Some(ProcessError::NotPermitted { .. }) = error.downcast_ref::<ProcessError>() {
        return STATUS_USAGE;
    }
    if let Some(error) = error.downcast_ref::<AttendError>() {
        return error.exit_status();
    }
    error
        .downcast_ref::<RunError>()
        .map_or(STATUS_RUN_FAILED, RunError::exit_status)
}

/// Status of any other failed verb.
pub(crate) fn status(error: &Error) -> u8 {
    if let Some(error) = error.downcast_ref::<RemoteError>() {
        return error.exit_status();
    }
    if let Some(error) = error.downcast_ref::<CompareError>() {
        return error.exit_status();
    }
    match status_of_run(error) {
        STATUS_USAGE => STATUS_USAGE,
        _ => STATUS_FAILED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usage_error_is_2_everywhere_and_anything_else_depends_on_the_verb() {
        let usage = Error::new(UsageError("no".to_owned())).context("around it");
        assert_eq!((status_of_run(&usage), status(&usage)), (2, 2));
        let other = Error::msg("no");
        assert_eq!((status_of_run(&other), status(&other)), (125, 1));
    }

    #[test]
    fn a_closed_pipe_is_recognised_below_any_context() {
        let broken = Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing");
        assert!(is_broken_pipe(&broken));
        assert!(!is_broken_pipe(&Error::msg("broken pipe")));
    }
}
