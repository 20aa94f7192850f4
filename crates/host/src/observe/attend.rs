//! Watching a target to its end: a command that is started for it, or somebody who runs already.
//!
//! **Owns** the pace of walks, passing signals on, and the command's status. **Does not own** what a
//! walk is for: that is the caller's.
//!
//! **Invariants**
//! - I1: nobody is ever stopped or slowed by the wait between walks; a walk that took longer than
//!   its interval, or has to be followed by a longer rest ([`Observer::rest`]), has the next ones left out, not made
//!   up for.
//! - I2: the command is waited for to its end whatever becomes of the watching.

use super::{Observer, Subject, SubjectError};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use strata_linux::access::{self, AccessChoice, AccessError};
use strata_linux::process::job::{self, Job, Then};
use strata_linux::process::launch::{Child, CommandSpec, InheritedSignals, LaunchError, spawn};
use strata_linux::process::signals::{Signals, Wish};
use strata_linux::ready::is_any_readable;

/// An attached target that has ended wakes nobody: it is looked at this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Who is watched.
#[derive(Debug)]
pub enum Who {
    /// Somebody who runs already.
    Running(Subject),
    /// Somebody who runs already, watched by a service: a hang-up is no wish to end, and the caller's. Its turns come in time:
    /// the caller walks less often, and who has to rest is not cleared.
    Served(Subject),
    /// A command to start, with its descendants.
    Command {
        /// The program.
        program: OsString,
        /// Arguments of the program.
        args: Vec<OsString>,
    },
    /// A command to start in a cgroup, and somebody who is watched by a service until the command ends.
    ServedCommand {
        /// Who is watched.
        subject: Subject,
        /// `cgroup.procs` of the group that the command starts in.
        cgroup_procs: OwnedFd,
        /// The program.
        program: OsString,
        /// Arguments of the program.
        args: Vec<OsString>,
    },
}

/// Which turn it is to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be another one after it.
    Next,
    /// The time is up.
    Last,
}

/// Whether the watching goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Walk again.
    GoOn,
    /// Walk again after so long.
    After(Duration),
    /// No more walks; a command is still waited for.
    Enough,
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attended {
    /// The command's status as a shell has it; `None` for who ran already.
    pub exit_status: Option<u8>,
    /// Intervals without a walk, because the one before took too long, or walks that often would hold the target up.
    pub nr_left_out: u64,
    /// Whether the command ended before it could be watched.
    pub was_too_short: bool,
}

/// Why nobody could be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttendError {
    /// The command was not started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// No such subject, or no source of accesses.
    #[error(transparent)]
    Subject(#[from] SubjectError),
    /// The operating system refused.
    #[error("{what} failed: {source}")]
    Io {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl AttendError {
    /// 127 and 126 as a shell for a command that can't be started, 2 for what was asked wrongly, 125
    /// where Strata or the machine can't.
    pub fn exit_status(&self) -> u8 {
        match self {
            AttendError::Launch(error) => error.exit_status(),
            AttendError::Subject(error) => error.exit_status(),
            AttendError::Io { .. } => 125,
        }
    }
}

impl From<AccessError> for AttendError {
    fn from(error: AccessError) -> AttendError {
        AttendError::Subject(error.into())
    }
}

/// Calls `each` with an observer that may walk, every `interval`, until it has had enough, the
/// target has ended, or a signal asks for an end. `for_at_most` ends the watching of a command, not
/// the command.
///
/// # Errors
/// [`AttendError`], before `each` was called.
pub fn attend(
    who: &Who,
    access: AccessChoice,
    interval: Duration,
    for_at_most: Option<Duration>,
    each: &mut dyn FnMut(&mut Observer, Turn) -> Attention,
) -> Result<Attended, AttendError> {
    let inherited = InheritedSignals::read().map_err(io_error("reading our signal settings"))?;
    let new_watch = |child, signals| Attendance::new(child, signals, interval, for_at_most);
    let (program, args, served) = match who {
        Who::Running(subject) | Who::Served(subject) => {
            let observer = Observer::open(subject, access)?;
            let mut watch = new_watch(None, install_signals(false)?);
            watch.is_service = matches!(who, Who::Served(_));
            return watch.run(observer, each);
        }
        Who::Command { program, args } => (program, args, None),
        Who::ServedCommand {
            subject,
            cgroup_procs,
            program,
            args,
        } => (program, args, Some((subject, cgroup_procs))),
    };
    // The source takes a while to open; the command shall not run unseen for that long.
    let source = access::open(access)?;
    let signals = install_signals(true)?;
    let mut spec = CommandSpec::new(program, args.iter().cloned());
    spec.signals = inherited;
    let procs = served.map(|(_, procs)| procs.try_clone()).transpose();
    spec.cgroup_procs = procs.map_err(io_error("copying a descriptor"))?;
    let child = spawn(spec)?;
    let observer = match served {
        Some((subject, _)) => Observer::with_source(subject, access, source),
        None => Observer::with_source(&Subject::Tree(child.pid()), access, source),
    };
    let mut watch = new_watch(Some(child), signals);
    watch.is_service = served.is_some();
    match observer {
        Ok(observer) => watch.run(observer, each),
        // It ended already, or can't be looked at; it runs to its end all the same.
        Err(error) => watch.only_wait(error),
    }
}

fn install_signals(owns_program: bool) -> Result<Signals, AttendError> {
    Signals::install(owns_program).map_err(io_error("installing signal handlers"))
}

#[derive(Debug)]
struct Attendance {
    child: Option<Child>,
    signals: Signals,
    job: Job,
    is_service: bool,
    interval: Duration,
    until: Option<Instant>,
    attended: Attended,
}

/// What the wait for the next walk ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    TimeIsUp,
    Ended,
    LetGo,
}

impl Attendance {
    fn new(
        child: Option<Child>,
        signals: Signals,
        interval: Duration,
        for_at_most: Option<Duration>,
    ) -> Attendance {
        Attendance {
            child,
            signals,
            job: Job::default(),
            is_service: false,
            interval,
            until: for_at_most.map(|time| Instant::now() + time),
            attended: Attended::default(),
        }
    }

    fn run(
        mut self,
        mut observer: Observer,
        each: &mut dyn FnMut(&mut Observer, Turn) -> Attention,
    ) -> Result<Attended, AttendError> {
        let mut due = Instant::now();
        loop {
            match each(&mut observer, Turn::Next) {
                Attention::Enough => break,
                Attention::GoOn => due += self.interval,
                Attention::After(pause) => due = Instant::now() + pause,
            }
            let earliest = Instant::now() + observer.rest();
            if due < earliest && !self.is_service {
                let behind =
                    earliest.duration_since(due).as_nanos() / self.interval.as_nanos().max(1);
                self.attended.nr_left_out += u64::try_from(behind).unwrap_or(u64::MAX);
                due = earliest;
            }
            let (until, is_last) = match self.until {
                Some(until) if until < due => (until, true),
                _ => (due, false),
            };
            match self.wait(Some(until), Some(&observer))? {
                Woken::TimeIsUp if is_last => {
                    // What happened since the last walk belongs to the time asked for.
                    observer.set_last();
                    let _ = each(&mut observer, Turn::Last);
                    break;
                }
                Woken::TimeIsUp => {}
                Woken::Ended | Woken::LetGo => return Ok(self.attended),
            }
        }
        drop(observer);
        self.wait_for_command()
    }

    /// The command can't be watched: says so if it is still there, and waits for it.
    fn only_wait(mut self, error: SubjectError) -> Result<Attended, AttendError> {
        let is_gone = matches!(&error, SubjectError::Process(process) if process.is_gone());
        if !is_gone {
            tracing::warn!(%error, "the command runs unwatched");
        }
        self.attended.was_too_short = true;
        self.wait_for_command()
    }

    fn wait_for_command(mut self) -> Result<Attended, AttendError> {
        if self.child.is_some() {
            while self.wait(None, None)? == Woken::TimeIsUp {}
        }
        Ok(self.attended)
    }

    /// Waits until then; for ever without a time.
    fn wait(
        &mut self,
        until: Option<Instant>,
        observer: Option<&Observer>,
    ) -> Result<Woken, AttendError> {
        loop {
            for wish in self.signals.take(None) {
                match (wish, &self.child) {
                    (Wish::PassOn(signal), Some(child)) => {
                        // One that has ended has no use for it; its status is coming.
                        let _ = child.signal(signal);
                    }
                    (Wish::End(Signal::HUP), _) if self.is_service => {}
                    (Wish::End(_), _) => return Ok(Woken::LetGo),
                    (Wish::Suspend, Some(_)) => {
                        let then = self.job.terminal_asks(Instant::now());
                        self.heed(then);
                    }
                    (Wish::Suspend, None) => self.heed(Then::Suspend),
                    _ => {}
                }
            }
            if self.has_ended(observer)? {
                return Ok(Woken::Ended);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Woken::TimeIsUp);
            }
            self.sleep(left.map_or(LOOK_INTERVAL, |left| left.min(LOOK_INTERVAL)))?;
        }
    }

    fn has_ended(&mut self, observer: Option<&Observer>) -> Result<bool, AttendError> {
        if self.child.is_none() {
            return Ok(observer.is_some_and(Observer::is_over));
        }
        let next = |child: &Option<Child>| child.as_ref().map_or(Ok(None), Child::try_wait);
        while let Some(status) = next(&self.child).map_err(io_error("waiting for the command"))? {
            if let Some(code) = status.exit_status() {
                // A status has eight bits, as the kernel has it.
                self.attended.exit_status = Some((code & 0xff) as u8);
                return Ok(true);
            }
            let then = self.job.changed(status);
            self.heed(then);
        }
        Ok(false)
    }

    /// Stops with the command, where a shell waits for that.
    fn heed(&mut self, then: Then) {
        if then == Then::StayAwake {
            return;
        }
        match job::suspend(self.child.as_ref().map(Child::pid)) {
            Ok(Some(waker)) => self.signals.note_waker(waker),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "the watch goes on while the command is stopped"),
        }
    }

    fn sleep(&self, time: Duration) -> Result<(), AttendError> {
        let mut fds = vec![self.signals.fd()];
        fds.extend(self.child.as_ref().map(Child::pidfd));
        is_any_readable(&fds, time).map_err(io_error("waiting for events"))?;
        Ok(())
    }
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> AttendError {
    move |source| AttendError::Io { what, source }
}
