//! The options that name a running program or group.
//!
//! **Owns** their form. **Does not own** finding it (`strata_host::observe`).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use strata_host::observe::Subject;

use crate::args::parse_pid;
use crate::failure::UsageError;

/// Whom it is about.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Target {
    /// One process with its threads, for example 4242
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, allow_hyphen_values = true)]
    pub(crate) pid: Option<i32>,

    /// A process with its children and theirs, also those to come
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, allow_hyphen_values = true)]
    pub(crate) tree: Option<i32>,

    /// All processes in a cgroup and in the groups below it: its directory, or its path as
    /// /proc/PID/cgroup has it
    #[arg(short, long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,
}

/// Whom it is about, where that may be a command to start.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct CommandOrTarget {
    /// A process that runs already, with its children; it stays in its cgroup, for example 4242
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, allow_hyphen_values = true)]
    pub(crate) pid: Option<i32>,

    /// Everything in this memory cgroup and below, for example /sys/fs/cgroup/app.slice
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<PathBuf>,

    /// The command to run and its arguments, after --
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

/// The program of a command, and its arguments.
pub(crate) fn program(mut command: Vec<OsString>) -> Result<(OsString, Vec<OsString>), UsageError> {
    let empty = || UsageError("the command after -- is empty; name a program".to_owned());
    let first = command.first().filter(|program| !program.is_empty());
    let program = first.cloned().ok_or_else(empty)?;
    Ok((program, command.split_off(1)))
}

impl Target {
    /// The one that is named.
    pub(crate) fn subject(&self) -> Result<Subject, UsageError> {
        match (self.pid, self.tree, &self.cgroup) {
            (Some(pid), _, _) => Ok(Subject::Process(pid)),
            (_, Some(pid), _) => Ok(Subject::Tree(pid)),
            (_, _, Some(path)) => Ok(Subject::Cgroup(path.clone())),
            (None, None, None) => Err(UsageError(
                "name a target: --pid, --tree or --cgroup".into(),
            )),
        }
    }
}
