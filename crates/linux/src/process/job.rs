//! Stopping with the program, where a shell waits for that, and being woken when the program goes on.
//!
//! A shell takes its terminal back when the process it started has stopped, and that process is
//! Strata. So at Ctrl-Z Strata stops too. Everywhere else it stays awake while the program is stopped:
//! it answers, sees the program go on, and reports its end.
//!
//! A process that is stopped can't see anything. While Strata is, a small process of its own (the waker)
//! looks at the program ten times a second, and sends Strata CONT when the program runs again or has
//! ended. It ends with Strata.
//!
//! **Owns** the decision ([`Job`]), the stop, and the waker. **Does not own** what has to be lifted
//! before Strata sleeps (`run`).
//!
//! **Invariants**
//! - J1: the waker sends CONT only to a Strata that it sees stopped, so none is lost before the stop.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getppid, kill_process};

use super::handle::read_stat;
use super::launch::WaitStatus;
use crate::ready::is_any_readable;
use crate::sys::detach::detach;

/// The hidden verb the binary must pass on to [`waker_main`], before anything else it does.
pub const WAKER_VERB: &str = "waker";
/// How often the waker looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// A program that catches Ctrl-Z (to clear its screen, say) stops itself by STOP within this.
const ASKED_TIME: Duration = Duration::from_secs(5);

/// What Strata does when its program stops, or is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Strata goes on as before.
    StayAwake,
    /// Strata stops too.
    Suspend,
}

/// Whether Strata has a controlling terminal: then it is some shell's job, which waits for it to stop.
fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// The program as a job of a shell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Job {
    is_stopped: bool,
    asked: Option<Instant>,
}

impl Job {
    /// The terminal's Ctrl-Z has come, to the program as well.
    pub fn terminal_asks(&mut self, now: Instant) -> Then {
        if self.is_stopped {
            return Then::Suspend;
        }
        // The program decides: it may catch the signal, or ignore it.
        self.asked = Some(now);
        Then::StayAwake
    }

    /// The program was stopped, or runs again.
    pub fn changed(&mut self, status: WaitStatus) -> Then {
        match status {
            WaitStatus::Stopped(signal) => self.stopped(signal, has_terminal(), Instant::now()),
            _ => {
                *self = Job::default();
                Then::StayAwake
            }
        }
    }

    fn stopped(&mut self, signal: i32, has_terminal: bool, now: Instant) -> Then {
        self.is_stopped = true;
        let is_job_control = matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        let asked = self.asked.take();
        let was_asked = asked.is_some_and(|then| now.duration_since(then) <= ASKED_TIME);
        match has_terminal && (is_job_control || was_asked) {
            true => Then::Suspend,
            false => Then::StayAwake,
        }
    }
}

/// Stops the calling process until somebody continues it; with a program (a child that was not waited for),
/// also until that goes on or ends. Returns the pid of the waker, which is gone by then and may have sent CONT.
///
/// # Errors
/// Where nobody could be found to wake us: then we have not stopped.
pub fn suspend(program: Option<i32>) -> io::Result<Option<i32>> {
    let waker = program.map(Waker::start).transpose()?;
    // To this thread, so that it does not run on for a moment.
    signal_hook::low_level::raise(libc::SIGSTOP)?;
    waker.map(Waker::dismiss).transpose()
}

/// Our end of the waker.
#[derive(Debug)]
struct Waker {
    child: Child,
    /// Our end of the pipe; when it closes, we are gone or awake.
    pipe: OwnedFd,
}

impl Waker {
    /// Starts this program again as `waker PID` (see [`WAKER_VERB`]).
    fn start(pid: i32) -> io::Result<Waker> {
        let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(WAKER_VERB)
            .arg(pid.to_string())
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        detach(&mut command, []);
        Ok(Waker {
            child: command.spawn()?,
            pipe: ours,
        })
    }

    fn dismiss(mut self) -> io::Result<i32> {
        drop(self.pipe);
        self.child.wait()?;
        Ok(self.child.id() as i32)
    }
}

/// The waker's `main`; `args` are those after [`WAKER_VERB`].
pub fn waker_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let pid = args.into_iter().next();
    let pid = pid.and_then(|pid| pid.to_str()?.parse::<i32>().ok());
    match pid.map(watch) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(_)) => ExitCode::FAILURE,
        None => ExitCode::from(2),
    }
}

/// Looks at the program until it goes on, and then wakes Strata; or until Strata is awake or gone.
fn watch(program: i32) -> io::Result<()> {
    // Strata reaps its program only when it is awake, so the pid can't be another's.
    let is_stopped = |pid| read_stat(pid).is_ok_and(|stat| stat.state == 'T');
    let stdin = io::stdin();
    loop {
        let is_over = is_any_readable(&[stdin.as_fd()], LOOK_PAUSE)?;
        let Some(strata) = getppid().filter(|_| !is_over) else {
            return Ok(());
        };
        if is_stopped(strata.as_raw_nonzero().get()) && !is_stopped(program) {
            kill_process(strata, Signal::CONT)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_catches_ctrl_z_and_stops_itself_takes_strata_with_it() {
        let now = Instant::now();
        let mut job = Job::default();
        assert_eq!(
            job.terminal_asks(now),
            Then::StayAwake,
            "the program decides"
        );
        let later = now + Duration::from_secs(1);
        assert_eq!(job.stopped(libc::SIGSTOP, true, later), Then::Suspend);
        assert_eq!(job.changed(WaitStatus::Continued), Then::StayAwake);
        let much_later = now + Duration::from_secs(60);
        assert_eq!(
            job.stopped(libc::SIGSTOP, true, much_later),
            Then::StayAwake
        );
        assert_eq!(
            job.terminal_asks(much_later),
            Then::Suspend,
            "the terminal comes back from a program that is stopped already"
        );
    }
}
