//! Starting the command under a budget, waiting for it, passing signals on.
//!
//! The program runs as it would without Strata in front of it: same standard streams, environment,
//! working directory, process group and signal settings. It joins its cgroup before its first
//! instruction, as the user it is to be.
//!
//! **Owns** the specification, the exit statuses of failures (125, 126, 127 as a shell gives them),
//! and the child. **Does not own** which signals are passed on, nor the cgroup.
//!
//! ```no_run
//! # use strata_linux::process::launch::{CommandSpec, WaitStatus, spawn};
//! let child = spawn(CommandSpec::new("sleep", ["1"]))?;
//! assert_eq!(child.wait()?, WaitStatus::Exited(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, pidfd_send_signal,
    waitid,
};

pub use crate::sys::process::ResourceUse;
use crate::sys::process::{Waited, wait_child};
use crate::sys::spawn::{self as sys, SpawnError, Step};
pub use crate::sys::spawn::{CommandSpec, InheritedSignals, User};
use crate::sys::users;

impl User {
    /// Looks up a user by name, or by number. `None` if there is no such user; a number that the
    /// database does not know is a user without a name whose group has the same number.
    pub fn find(name: &str) -> io::Result<Option<User>> {
        let Ok(c_name) = CString::new(name) else {
            return Ok(None);
        };
        let uid = name.parse::<u32>().ok();
        let mut entry = users::find(users::Key::Name(&c_name))?;
        if let (None, Some(uid)) = (&entry, uid) {
            entry = users::find(users::Key::Uid(uid))?;
        }
        let Some(entry) = entry else {
            return Ok(uid.map(|uid| User {
                name: name.to_owned(),
                uid,
                gid: uid,
                groups: vec![uid],
            }));
        };
        Ok(Some(User {
            name: entry.name.to_string_lossy().into_owned(),
            uid: entry.uid,
            gid: entry.gid,
            groups: users::groups_of(&entry.name, entry.gid)?,
        }))
    }
}

impl InheritedSignals {
    /// Reads them from `/proc/self/status`; call it before changing any. `SIGPIPE` counts as not
    /// ignored: the Rust runtime ignores it before anything else runs.
    pub fn read() -> io::Result<InheritedSignals> {
        let status = std::fs::read_to_string("/proc/thread-self/status")?;
        let set = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
                .ok_or_else(|| io::Error::other(format!("no {key} line in /proc/self/status")))
        };
        let sigpipe = 1u64 << (Signal::PIPE.as_raw() - 1);
        Ok(InheritedSignals {
            ignored: set("SigIgn:")? & !sigpipe,
            blocked: set("SigBlk:")?,
        })
    }
}

impl CommandSpec {
    /// A command in the caller's group, as the caller's user, with default signals.
    pub fn new<S: Into<OsString>>(
        program: impl Into<OsString>,
        args: impl IntoIterator<Item = S>,
    ) -> CommandSpec {
        CommandSpec {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            cgroup_procs: None,
            user: None,
            signals: InheritedSignals::default(),
            output: None,
        }
    }
}

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// No such program.
    #[error("{program:?} was not found: give a path, or a name that is in PATH")]
    NotFound {
        /// The program.
        program: OsString,
    },
    /// The program is there but does not run.
    #[error("{program:?} can't be executed: {source}")]
    NotExecutable {
        /// The program.
        program: OsString,
        /// The reason.
        source: io::Error,
    },
    /// The child could not be put into its cgroup.
    #[error("the command could not be moved into its cgroup: {source}; nothing was started")]
    Cgroup {
        /// The reason.
        source: io::Error,
    },
    /// The child could not become the user.
    #[error(
        "the command could not become user {user:?}: {source}; {}",
        crate::rights::advice("CAP_SETUID or CAP_SETGID")
    )]
    User {
        /// The user.
        user: String,
        /// The reason.
        source: io::Error,
    },
    /// No process could be made.
    #[error("no process could be started for {program:?}: {source}")]
    Start {
        /// The program.
        program: OsString,
        /// The reason.
        source: io::Error,
    },
}

impl LaunchError {
    /// The exit status a shell or `env` would give: 127 not found, 126 not executable, 125 when it
    /// was not the command's fault.
    pub fn exit_status(&self) -> u8 {
        match self {
            LaunchError::NotFound { .. } => 127,
            LaunchError::NotExecutable { .. } => 126,
            LaunchError::Cgroup { .. } | LaunchError::User { .. } | LaunchError::Start { .. } => {
                125
            }
        }
    }
}

/// A change of state of the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// The child ended with this status.
    Exited(i32),
    /// A signal ended the child.
    Signaled {
        /// Number of the signal.
        signal: i32,
    },
    /// A signal stopped the child.
    Stopped(i32),
    /// The child goes on after a stop.
    Continued,
}

impl WaitStatus {
    /// Whether the child is over.
    pub fn is_end(self) -> bool {
        matches!(self, WaitStatus::Exited(_) | WaitStatus::Signaled { .. })
    }

    /// The exit status that stands for it, as a shell has it; `None` while it is not over.
    pub fn exit_status(self) -> Option<i32> {
        match self {
            WaitStatus::Exited(code) => Some(code),
            WaitStatus::Signaled { signal } => Some(128 + signal),
            WaitStatus::Stopped(_) | WaitStatus::Continued => None,
        }
    }
}

/// The started command. Dropping it neither ends nor reaps it.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    pidfd: OwnedFd,
    used: OnceLock<ResourceUse>,
}

impl Child {
    /// Pid of the child; not reused before [`Child::wait`] has reported its end.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Becomes readable when the child has ended (not when it stops).
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Sends the child a signal; an error says it has ended already.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.pidfd, signal)?)
    }

    /// Waits for its next change of state; its end is reported once, and reaps it.
    pub fn wait(&self) -> io::Result<WaitStatus> {
        loop {
            // Without NOHANG there is always a status; the loop is for interruptions.
            if let Some(status) = self.wait_id(0)? {
                return Ok(status);
            }
        }
    }

    /// Reports a change of state if there is one; its end is reported once, and reaps it.
    pub fn try_wait(&self) -> io::Result<Option<WaitStatus>> {
        self.wait_id(libc::WNOHANG)
    }

    /// What it used, with those of its children that it waited for; known once its end was reported.
    pub fn used(&self) -> Option<ResourceUse> {
        self.used.get().copied()
    }

    fn wait_id(&self, extra: libc::c_int) -> io::Result<Option<WaitStatus>> {
        let options = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED;
        let waited = match wait_child(self.pidfd.as_fd(), options | extra) {
            Ok(waited) => waited,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
            Err(error) => return Err(error),
        };
        let Some(waited) = waited else {
            return Ok(None);
        };
        let status = wait_status(&waited);
        if status.is_some_and(WaitStatus::is_end) {
            // Reported once, so this is the first value.
            let _first = self.used.set(waited.used);
        }
        Ok(status)
    }
}

fn wait_status(waited: &Waited) -> Option<WaitStatus> {
    let number = waited.status;
    match waited.code {
        libc::CLD_EXITED => Some(WaitStatus::Exited(number)),
        libc::CLD_KILLED | libc::CLD_DUMPED => Some(WaitStatus::Signaled { signal: number }),
        libc::CLD_STOPPED | libc::CLD_TRAPPED => Some(WaitStatus::Stopped(number)),
        libc::CLD_CONTINUED => Some(WaitStatus::Continued),
        _ => None,
    }
}

/// Starts a command.
pub fn spawn(mut spec: CommandSpec) -> Result<Child, LaunchError> {
    let pid = match sys::spawn(&mut spec, super::descriptors::inherited()) {
        Ok(pid) => pid,
        Err(error) => return Err(launch_error(error, spec)),
    };
    // The child is not reaped before `wait`, so its pid is still its own.
    let pidfd = Pid::from_raw(pid)
        .ok_or(rustix::io::Errno::SRCH)
        .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()));
    match pidfd {
        Ok(pidfd) => Ok(Child {
            pid,
            pidfd,
            used: OnceLock::new(),
        }),
        Err(errno) => {
            if let Some(pid) = Pid::from_raw(pid) {
                // Nobody could wait for it or stop it later; it may have ended already.
                let _killed = kill_process(pid, Signal::KILL);
                let _reaped = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            }
            Err(LaunchError::Start {
                program: spec.program,
                source: errno.into(),
            })
        }
    }
}

fn launch_error(error: SpawnError, spec: CommandSpec) -> LaunchError {
    let CommandSpec { program, user, .. } = spec;
    match error {
        SpawnError::Step(Step::Cgroup, source) => LaunchError::Cgroup { source },
        SpawnError::Step(Step::User, source) => LaunchError::User {
            user: user.map_or_else(String::new, |user| user.name),
            source,
        },
        SpawnError::Step(Step::Signals, source) | SpawnError::Start(source) => {
            LaunchError::Start { program, source }
        }
        // A script whose interpreter is missing exists, but can't be executed.
        SpawnError::Exec(source)
            if source.kind() == io::ErrorKind::NotFound && find_in_path(&program).is_none() =>
        {
            LaunchError::NotFound { program }
        }
        SpawnError::Exec(source) => LaunchError::NotExecutable { program, source },
    }
}

/// Where a program would be found, executable or not.
fn find_in_path(program: &OsStr) -> Option<PathBuf> {
    let exists = |path: &Path| path.exists().then(|| path.to_owned());
    if program.as_bytes().contains(&b'/') {
        return exists(Path::new(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|dir| exists(&dir.join(program)))
}
