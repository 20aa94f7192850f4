//! Starting a command: what runs between fork and exec.
//!
//! The child joins the cgroup first, while it still has the right to, then gives up its privileges,
//! then puts signals back to what Strata itself was started with (its own handlers and masks must
//! not leak into the program; a `nohup` in front of Strata must). Everything the child does is a raw
//! system call on memory prepared before the fork, hence async-signal-safe.
//!
//! **Owns** that order. **Does not own** looking up users, nor waiting (`process::launch`).
#![expect(
    unsafe_code,
    reason = "pre_exec, and system calls that libc would broadcast to threads"
)]

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::pipe::{PipeFlags, pipe_with};

/// Highest signal number.
const SIGNAL_MAX: libc::c_int = 64;

/// A user to run the program as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name in the user database; the number if it has none.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// All groups, the primary one included.
    pub groups: Vec<u32>,
}

/// Signals that were ignored and blocked when Strata was started: what the program shall inherit. Bit `n - 1` is signal `n`.
#[derive(Clone, Copy, Debug, Default)]
pub struct InheritedSignals {
    pub(crate) ignored: u64,
    pub(crate) blocked: u64,
}

/// What to start and how: in the caller's process group, with its environment and working directory.
#[derive(Debug)]
pub struct CommandSpec {
    /// The program: a path if it has a slash, else looked up in `PATH`.
    pub program: OsString,
    /// Arguments of the program, without its name.
    pub args: Vec<OsString>,
    /// An open, writable `cgroup.procs` of the group it is to live in.
    pub cgroup_procs: Option<OwnedFd>,
    /// The user it is to run as; `None` is the caller.
    pub user: Option<User>,
    /// Signal settings it is to have; the default is none ignored, none blocked.
    pub signals: InheritedSignals,
    /// Where both stdout and stderr go, stdin being empty; `None` is the caller's three streams.
    pub output: Option<OwnedFd>,
}

/// The step of the child that failed before exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Cgroup,
    User,
    Signals,
}

/// Why nothing was started.
#[derive(Debug)]
pub(crate) enum SpawnError {
    /// A step of ours.
    Step(Step, io::Error),
    /// fork, a pipe, ...
    Start(io::Error),
    /// exec.
    Exec(io::Error),
}

/// Starts the program; returns its pid, which the caller has to wait for. `nr_files`: limit on open files for the program, soft
/// and hard; `None` is the caller's. Descriptors are taken out of what is asked for.
pub(crate) fn spawn(
    spec: &mut CommandSpec,
    nr_files: Option<(u64, u64)>,
) -> Result<i32, SpawnError> {
    let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
    let (report_read, report_write) =
        pipe_with(flags).map_err(|errno| SpawnError::Start(errno.into()))?;
    let cgroup_procs = spec.cgroup_procs.take();
    let (cgroup_fd, report_fd) = (
        cgroup_procs.as_ref().map(AsRawFd::as_raw_fd),
        report_write.as_raw_fd(),
    );
    let mut command = Command::new(&spec.program);
    command.args(&spec.args);
    if let Some(output) = spec.output.take() {
        let same = output.try_clone().map_err(SpawnError::Start)?;
        command.stdin(Stdio::null()).stdout(output).stderr(same);
    }
    let (user, signals) = (spec.user.clone(), spec.signals);
    let in_child = move || {
        limit_files(nr_files);
        prepare(cgroup_fd, user.as_ref(), signals).map_err(|(step, error)| {
            report(report_fd, step);
            error
        })
    };
    // SAFETY: the closure makes raw system calls only, on memory that exists before the fork; the
    // descriptors it uses stay open in this function until the child has called exec.
    unsafe { command.pre_exec(in_child) };
    let result = command.spawn();
    drop((report_write, cgroup_procs));
    let error = match result {
        Ok(child) => return Ok(child.id() as i32),
        Err(error) => error,
    };
    let mut code = [0];
    let reported = rustix::io::read(&report_read, &mut code) == Ok(1);
    let steps = [Step::Cgroup, Step::User, Step::Signals];
    let step = steps.into_iter().find(|step| *step as u8 == code[0]);
    Err(match step.filter(|_| reported) {
        Some(step) => SpawnError::Step(step, error),
        // Nobody reported, so either exec failed or there was no child at all.
        None if is_fork_error(&error) => SpawnError::Start(error),
        None => SpawnError::Exec(error),
    })
}

/// Runs in the child: puts the limit on open files, soft and hard, back to what Strata was started with.
fn limit_files(nr_files: Option<(u64, u64)>) {
    let Some((rlim_cur, rlim_max)) = nr_files else {
        return;
    };
    let limit = libc::rlimit { rlim_cur, rlim_max };
    // The same hard limit and a lower soft one are always granted.
    // SAFETY: the limit is a valid place to read from.
    let _granted = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
}

/// Runs in the child. The order matters: see the module text.
fn prepare(
    cgroup_fd: Option<RawFd>,
    user: Option<&User>,
    signals: InheritedSignals,
) -> Result<(), (Step, io::Error)> {
    if let Some(fd) = cgroup_fd {
        // SAFETY: the descriptor is open and the buffer is a static of one byte; "0" means "me".
        let written = unsafe { libc::write(fd, b"0".as_ptr().cast(), 1) };
        check(written == 1, Step::Cgroup)?;
    }
    if let Some(user) = user {
        let (gid, uid) = (libc::c_ulong::from(user.gid), libc::c_ulong::from(user.uid));
        // Raw calls: the C library's wrappers would look for the parent's other threads.
        // SAFETY: the array was made before the fork and has the length given.
        let result =
            unsafe { libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()) };
        check(result == 0, Step::User)?;
        // SAFETY: integers only.
        let result = unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) };
        check(result == 0, Step::User)?;
        // SAFETY: integers only.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
        check(result == 0, Step::User)?;
    }
    restore_signals(signals)
}

fn restore_signals(signals: InheritedSignals) -> Result<(), (Step, io::Error)> {
    // SAFETY: all zeroes is a valid set, initialised properly below.
    let mut blocked: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is a valid place to write to.
    unsafe { libc::sigemptyset(&raw mut blocked) };
    for signal in 1..=SIGNAL_MAX {
        let bit = 1u64 << (signal - 1);
        let action = if signals.ignored & bit != 0 {
            libc::SIG_IGN
        } else {
            libc::SIG_DFL
        };
        // KILL, STOP and the C library's own two can't be set, which is as it should be.
        // SAFETY: neither action runs code of ours.
        unsafe { libc::signal(signal, action) };
        if signals.blocked & bit != 0 {
            // SAFETY: the set is initialised, the signal number is in range.
            unsafe { libc::sigaddset(&raw mut blocked, signal) };
        }
    }
    // SAFETY: the set is initialised; nothing is to be written back.
    let result =
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const blocked, std::ptr::null_mut()) };
    check(result == 0, Step::Signals)
}

fn check(is_ok: bool, step: Step) -> Result<(), (Step, io::Error)> {
    if is_ok {
        Ok(())
    } else {
        Err((step, io::Error::last_os_error()))
    }
}

/// Runs in the child: tells the parent which step failed.
fn report(fd: RawFd, step: Step) {
    let code = [step as u8];
    // SAFETY: the pipe is open and the buffer holds one byte.
    // Nothing can be done if it can't be written: the parent then blames exec.
    let _written = unsafe { libc::write(fd, code.as_ptr().cast(), 1) };
}

/// Errors of fork(2) that exec(3) does not give.
fn is_fork_error(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOMEM))
        || error.raw_os_error().is_none()
}
