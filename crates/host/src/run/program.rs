//! What is managed: a command we started, a process that ran already, or a group.
//!
//! **Owns** starting it, telling when it has ended, and passing signals on. **Does not own** its
//! pages or its limits.

use crate::run::config::Target;
use crate::run::error::{RunError, io_error};
use crate::run::gauge::Gauge;
use rustix::process::Signal;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::plain;
use strata_linux::process::Process;
use strata_linux::process::launch::{
    Child, CommandSpec, InheritedSignals, ResourceUse, User, WaitStatus, spawn,
};

/// The managed program.
#[derive(Debug)]
pub(super) enum Program {
    /// Our own child.
    Child {
        /// Waited for.
        child: Child,
        /// Watched. `None` if it ended before it could be opened.
        process: Option<Arc<Process>>,
    },
    /// Somebody else's process.
    Attached(Arc<Process>),
    /// All processes of a group.
    Group,
}

impl Program {
    /// Starts or finds the target; a command starts in the group that `join_file` is of.
    pub(super) fn start(
        target: &Target,
        join_file: impl FnOnce() -> Result<Option<OwnedFd>, RunError>,
        signals: InheritedSignals,
    ) -> Result<Program, RunError> {
        match target {
            Target::Command {
                program,
                args,
                user,
            } => {
                let mut spec = CommandSpec::new(program, args.iter().cloned());
                spec.signals = signals;
                spec.cgroup_procs = join_file()?;
                if let Some(name) = user {
                    let found = User::find(name).map_err(io_error("looking up the user"))?;
                    spec.user = Some(found.ok_or_else(|| RunError::NoUser(name.clone()))?);
                }
                let child = spawn(spec)?;
                let process = Process::open(child.pid()).ok().map(Arc::new);
                Ok(Program::Child { child, process })
            }
            Target::Pid(pid) => Ok(Program::Attached(Arc::new(Process::open(*pid)?))),
            Target::Cgroup(_) => Ok(Program::Group),
        }
    }

    /// The process at the root, if there is one.
    pub(super) fn root(&self) -> Option<&Arc<Process>> {
        match self {
            Program::Child { process, .. } => process.as_ref(),
            Program::Attached(process) => Some(process),
            Program::Group => None,
        }
    }

    /// Pid of the program, if it is one process.
    pub(super) fn pid(&self) -> Option<i32> {
        match self {
            Program::Child { child, .. } => Some(child.pid()),
            Program::Attached(process) => Some(process.pid()),
            Program::Group => None,
        }
    }

    /// Resident memory of the root, bytes.
    pub(super) fn rss_bytes(&self) -> u64 {
        self.root()
            .and_then(|process| process.stat().ok())
            .map_or(0, |stat| stat.rss_pages * PAGE_BYTES)
    }

    /// What a command of ours used; known once it has ended.
    pub(super) fn used(&self) -> Option<ResourceUse> {
        match self {
            Program::Child { child, .. } => child.used(),
            Program::Attached(_) | Program::Group => None,
        }
    }

    /// Whether we started the program.
    pub(super) fn is_child(&self) -> bool {
        matches!(self, Program::Child { .. })
    }

    /// Readable when it has ended.
    pub(super) fn end_fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Program::Child { child, .. } => Some(child.pidfd()),
            Program::Attached(process) => Some(process.pidfd()),
            Program::Group => None,
        }
    }

    /// A change of state of our child.
    pub(super) fn poll(&self) -> Option<WaitStatus> {
        match self {
            Program::Child { child, .. } => child.try_wait().ok().flatten(),
            Program::Attached(_) | Program::Group => None,
        }
    }

    /// Whether an attached process is no more; its descriptor would wake us for ever.
    pub(super) fn has_exited(&self) -> bool {
        matches!(self, Program::Attached(process) if !process.is_alive())
    }

    /// Whether an attached target is no more. For a group this reads whether anybody is in it.
    pub(super) fn has_ended(&self, gauge: &Gauge) -> bool {
        match self {
            Program::Child { .. } => false,
            Program::Attached(process) => !process.is_alive(),
            Program::Group => gauge.is_deserted(),
        }
    }

    /// Passes a signal on to our child; it may have ended, which its status will say.
    pub(super) fn signal(&self, signal: Signal) {
        if let Program::Child { child, .. } = self {
            let _ = child.signal(signal);
        }
    }

    /// Ends and reaps the command we started, because we can't manage it.
    pub(super) fn abandon(self) {
        if let Program::Child { child, .. } = self {
            let _ = child.signal(Signal::KILL);
            while child.wait().is_ok_and(|status| !status.is_end()) {}
        }
    }

    /// For the report.
    pub(super) fn describe(&self, target: &Target) -> String {
        let text = match target {
            Target::Command { program, args, .. } => {
                let words = std::iter::once(program).chain(args);
                words
                    .map(|word| word.to_string_lossy())
                    .collect::<Vec<_>>()
                    .join(" ")
            }
            Target::Pid(pid) => match self.root() {
                Some(process) => format!("process {pid} ({})", process.comm()),
                None => format!("process {pid}"),
            },
            Target::Cgroup(path) => format!("cgroup {}", path.display()),
        };
        plain::line(&text).into_owned()
    }
}
