//! Why a run, or a watch, can't start or go on.
//!
//! **Owns** the exit status of each reason. **Does not own** the texts of the parts that failed.

use crate::keeper::{SessionError, SessionName};
use crate::observe::SubjectError;
use strata_linux::access::AccessError;
use strata_linux::cgroup::CgroupError;
use strata_linux::process::ProcessError;
use strata_linux::process::launch::LaunchError;
use strata_linux::swap::SwapError;
use strata_lru::{ConfigError, PolicyError};

/// What stopped a run before or while it managed anything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The command was not started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The process to attach to can't be managed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The group can't be made, found or limited.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The swap device can't be made.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// What has to be undone can't be written down.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Accesses can't be seen.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Nobody can be watched.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// The only process that is watched can't be read.
    #[error("{0}")]
    Unseen(String),
    /// The engine refused its configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The engine can't go on.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Pages are to be managed by nobody.
    #[error("--policy {0} manages no pages: name a policy of the engine, such as mglru")]
    NoEngine(String),
    /// `min_ttl` can't be kept.
    #[error(
        "--policy {0} can't keep --min-ttl, because it keeps no ages: leave one of them out, or use mglru"
    )]
    NoAges(String),
    /// The user named for the program does not exist.
    #[error("there is no user {0:?}: give a name or number from `getent passwd`")]
    NoUser(String),
    /// The budget is smaller than anything could live in.
    #[error(
        "a budget of {budget_bytes} bytes is too small: a number without K, M or G is in bytes ({budget_bytes}M?); give at least {}M",
        least_bytes >> 20
    )]
    BudgetTooSmall {
        /// What was asked for.
        budget_bytes: u64,
        /// What is possible.
        least_bytes: u64,
    },
    /// A run of that name exists already.
    #[error(
        "a run named {name} is there already, or its program still is ({}): ask it with strata ctl --name \
         {name}, end it, or choose another name", directory.display()
    )]
    NameTaken {
        /// The name.
        name: SessionName,
        /// Directory of that run below the run directory.
        directory: std::path::PathBuf,
    },
    /// Metrics can't be offered there.
    #[error("metrics can't be answered on {address}: {source}; choose another port (0: any)")]
    Metrics {
        /// Where.
        address: std::net::SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The trace can't be written there.
    #[error(
        "the trace can't be written to {}: {source}; name a file in a directory that exists and is yours to write",
        path.display()
    )]
    Trace {
        /// Where.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An operation of the operating system failed.
    #[error("{what} failed: {source}")]
    Io {
        /// What.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

impl RunError {
    /// The exit status: 127 and 126 as a shell for a command that can't be started, 2 for what was
    /// asked wrongly, 125 when Strata itself fails.
    pub fn exit_status(&self) -> u8 {
        match self {
            RunError::Launch(error) => error.exit_status(),
            RunError::Subject(error) => error.exit_status(),
            RunError::NoUser(_)
            | RunError::BudgetTooSmall { .. }
            | RunError::NameTaken { .. }
            | RunError::NoEngine(_)
            | RunError::NoAges(_) => 2,
            RunError::Cgroup(CgroupError::NotAGroup { .. }) => 2,
            RunError::Process(
                ProcessError::NotFound { .. }
                | ProcessError::NotAPid { .. }
                | ProcessError::IsThread { .. }
                | ProcessError::KernelThread { .. }
                | ProcessError::NotPermitted { .. },
            ) => 2,
            _ => 125,
        }
    }
}

/// For `map_err` on plain I/O.
pub(crate) fn io_error(what: &'static str) -> impl FnOnce(std::io::Error) -> RunError {
    move |source| RunError::Io { what, source }
}
