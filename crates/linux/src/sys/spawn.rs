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

/// Identity the program is to run under.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// Signals as they were inherited: bit `n - 1` is signal `n`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals {
    pub(crate) ignored: u64,
    pub(crate) blocked: u64,
}

/// The step of the child that failed before exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Cgroup = 1,
    Groups = 2,
    Gid = 3,
    Uid = 4,
    Signals = 5,
}

impl Step {
    fn from_code(code: u8) -> Option<Step> {
        [
            Step::Cgroup,
            Step::Groups,
            Step::Gid,
            Step::Uid,
            Step::Signals,
        ]
        .into_iter()
        .find(|step| *step as u8 == code)
    }
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

/// What surrounds the program.
#[derive(Debug)]
pub(crate) struct Setting {
    /// An open, writable `cgroup.procs` of the group it is to join.
    pub(crate) cgroup_procs: Option<OwnedFd>,
    pub(crate) identity: Option<Identity>,
    pub(crate) signals: Signals,
    /// Limit on open files for the program, soft and hard; `None` is the caller's.
    pub(crate) nr_files: Option<(u64, u64)>,
    /// Where stdout and stderr go, stdin being empty; `None` is the caller's three streams.
    pub(crate) output: Option<OwnedFd>,
}

/// Starts the program in the caller's process group, with its environment and working directory; returns its pid,
/// which the caller has to wait for.
pub(crate) fn spawn(
    program: &OsString,
    args: &[OsString],
    setting: Setting,
) -> Result<i32, SpawnError> {
    let Setting {
        cgroup_procs,
        identity,
        signals,
        nr_files,
        output,
    } = setting;
    let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
    let (report_read, report_write) =
        pipe_with(flags).map_err(|errno| SpawnError::Start(errno.into()))?;
    let (cgroup_fd, report_fd) = (
        cgroup_procs.as_ref().map(AsRawFd::as_raw_fd),
        report_write.as_raw_fd(),
    );
    let mut command = Command::new(program);
    command.args(args);
    if let Some(output) = output {
        let same = output.try_clone().map_err(SpawnError::Start)?;
        command.stdin(Stdio::null()).stdout(output).stderr(same);
    }
    let in_child = move || {
        limit_files(nr_files);
        prepare(cgroup_fd, identity.as_ref(), signals).map_err(|(step, error)| {
            report(report_fd, step);
            error
        })
    };
    // SAFETY: the closure makes raw system calls only, on memory that exists before the fork; the
    // descriptors it uses stay open in this function until the child has called exec.
    unsafe { command.pre_exec(in_child) };
    let result = command.spawn();
    drop((report_write, cgroup_procs));
    match result {
        Ok(child) => i32::try_from(child.id())
            .map_err(|_| SpawnError::Start(io::Error::other("a pid beyond 2^31"))),
        Err(error) => {
            let mut code = [0];
            match rustix::io::read(&report_read, &mut code) {
                Ok(1) => Err(match Step::from_code(code[0]) {
                    Some(step) => SpawnError::Step(step, error),
                    None => SpawnError::Start(error),
                }),
                // Nobody reported, so either exec failed or there was no child at all.
                _ => Err(if is_fork_error(&error) {
                    SpawnError::Start(error)
                } else {
                    SpawnError::Exec(error)
                }),
            }
        }
    }
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
    identity: Option<&Identity>,
    signals: Signals,
) -> Result<(), (Step, io::Error)> {
    if let Some(fd) = cgroup_fd {
        // SAFETY: the descriptor is open and the buffer is a static of one byte; "0" means "me".
        let written = unsafe { libc::write(fd, b"0".as_ptr().cast(), 1) };
        check(written == 1, Step::Cgroup)?;
    }
    if let Some(identity) = identity {
        let (gid, uid) = (
            libc::c_ulong::from(identity.gid),
            libc::c_ulong::from(identity.uid),
        );
        // Raw calls: the C library's wrappers would look for the parent's other threads.
        // SAFETY: the array was made before the fork and has the length given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_setgroups,
                identity.groups.len(),
                identity.groups.as_ptr(),
            )
        };
        check(result == 0, Step::Groups)?;
        // SAFETY: integers only.
        let result = unsafe { libc::syscall(libc::SYS_setresgid, gid, gid, gid) };
        check(result == 0, Step::Gid)?;
        // SAFETY: integers only.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, uid, uid, uid) };
        check(result == 0, Step::Uid)?;
    }
    restore_signals(signals)
}

fn restore_signals(signals: Signals) -> Result<(), (Step, io::Error)> {
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
