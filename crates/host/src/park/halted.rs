//! What was stopped for parking, as its note says it, and letting that go on.
//!
//! **Owns** that value. **Does not own** stopping (`halt`).

use std::io;
use std::path::PathBuf;
use strata_linux::cgroup::{self, CgroupError};
use strata_linux::process::halt;
use strata_linux::run_dir::ProcessMark;

/// What is stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Halted {
    /// Nothing, by us.
    #[default]
    No,
    /// A group, by this control file.
    Freezer {
        /// The file.
        path: PathBuf,
    },
    /// Processes, each by SIGSTOP.
    Signal {
        /// Who.
        processes: Vec<ProcessMark>,
    },
}

impl Halted {
    /// Lets all go on that is stopped.
    ///
    /// # Errors
    /// Who does not, and why.
    pub(super) fn go_on(&self) -> Result<(), GoOnError> {
        match self {
            Halted::No => {}
            Halted::Freezer { path } => cgroup::thaw(path)?,
            Halted::Signal { processes } => {
                for mark in processes.iter().rev() {
                    halt::go_on(*mark).map_err(|source| GoOnError::Signal {
                        pid: mark.pid,
                        source,
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// What was stopped does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoOnError {
    /// The control file.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The signal.
    #[error("process {pid} can't be sent SIGCONT: {source}")]
    Signal {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
}
