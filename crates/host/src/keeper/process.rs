//! The keeper process.
//!
//! ```text
//!   waiting --"done"--> gone
//!      |  four times a second: Strata is stopped, and did not say that it would be -> told to go on
//!      |                      Strata has not beaten for a second                   -> limits undone; it sets them again
//!      | end of file: Strata died
//!      v
//!   limits undone --program ended, or let go in good order--> swap and group undone --nothing left--> directory removed, gone
//!                                        ^                        | something left: swap that has no room in memory
//!                                        '------ again, later ----'
//! ```
//!
//! **Owns** starting it, sending it home, and its life. **Does not own** the undoing itself.
//!
//! **Invariants**
//! - K1: it holds nothing of ours but the read end of a pipe (its stdin), the session's lock and the heartbeat's memory, so
//!   that nobody waits for its end: not a shell on our stdout, not a terminal.
//! - K2: it holds the lock as long as it lives, so that nobody else cleans up meanwhile.
//! - K4: a limit, and an OOM killer that is off, never outlast a Strata that hangs by more than [`LATE_MS_MAX`] or, while it only
//!   wants a processor, [`STARVED_MS_MAX`].
//! - K3: only a Strata that is seen stopped is told to go on. One that is to sleep, its limits lifted, says so before.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getppid, kill_process, waitid};

use super::session::{Session, hold};
use super::state::{State, remove_directory};
use super::undo::{Due, UndoError, carry_out, is_waiting, put_values_back};
use strata_linux::process::read_stat;
use strata_linux::ready::is_any_readable;
use strata_linux::sys::detach::detach;
use strata_linux::sys::heartbeat::Heartbeat;

/// The hidden verb the binary must pass on to [`keeper_main`], before anything else it does.
pub const KEEPER_VERB: &str = "keeper";
const DONE: u8 = b'D';
/// Strata is about to stop, its limits lifted.
const ASLEEP: u8 = b'S';
/// Strata is awake, whether or not it has stopped.
const AWAKE: u8 = b'A';
/// How often the keeper looks how Strata is.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// So many of these pauses make a second.
const LOOKS_PER_S: u64 = 4;
/// A Strata that waits for something and is so late gives way at no limit: its limits are undone, milliseconds.
const LATE_MS_MAX: u64 = 1000;
/// A Strata that only waits for a processor, as on a machine where everybody does, may be so late, milliseconds.
const STARVED_MS_MAX: u64 = 5000;
/// A keeper that is sent home has a directory to remove; on a busy machine that takes a while.
const DISMISS_WAIT: Duration = Duration::from_secs(3);
const DISMISS_POLL: Duration = Duration::from_millis(2);
/// How long the kernel may take to end a killed keeper.
const KILL_WAIT: Duration = Duration::from_secs(1);
/// Shortest and longest pause between two looks at whether the rest can be undone; between them it is an eighth of the time that
/// is waited for already, so that whoever waits long is looked at rarely.
const REST_PAUSE_MIN: Duration = Duration::from_millis(100);
const REST_PAUSE_MAX: Duration = Duration::from_secs(30);
const REST_PAUSE_PART: u32 = 8;
/// How long the rest is tried; then it is left to the next start of Strata.
const REST_TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// Our side of the keeper. Dropped without [`Keeper::dismiss`], it is the sign that Strata died.
#[derive(Debug)]
pub struct Keeper {
    child: Child,
    pipe: File,
}

impl Keeper {
    /// Starts this program again as `keeper --state DIR` (see [`KEEPER_VERB`]).
    pub fn spawn(session: &Session) -> io::Result<Keeper> {
        let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(KEEPER_VERB)
            .arg("--state")
            .arg(session.directory().canonicalize()?)
            .arg("--heartbeat")
            .arg(session.heartbeat().as_fd().as_raw_fd().to_string())
            // What a person sees in the list of processes.
            .arg0("strata-keeper")
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        detach(
            &mut command,
            [session.lock_fd(), session.heartbeat().as_fd()],
        );
        let keeper = Keeper {
            child: command.spawn()?,
            pipe: File::from(ours),
        };
        session.set_keeper(keeper.pid())?;
        Ok(keeper)
    }

    /// Process id of the keeper.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// How the keeper is. An end or a stop is told once.
    pub(super) fn look(&mut self) -> Condition {
        match self.child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Condition::Ended(status.to_string()),
            Err(error) => return Condition::Ended(error.to_string()),
        }
        let stops = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(Pid::from_child(&self.child)), stops) {
            Ok(Some(_)) => Condition::Stopped,
            _ => Condition::Fine,
        }
    }

    /// Tells it whether Strata is about to stop, its limits lifted, or awake again.
    pub(super) fn tell_sleep(&mut self, is_asleep: bool) {
        let word = if is_asleep { ASLEEP } else { AWAKE };
        // Ended, it is found to be so by the next look.
        let _ = self.pipe.write_all(&[word]);
    }

    /// Has the keeper go on if it was stopped.
    pub(super) fn wake(&self) {
        // Ended, it is found to be so by the next look.
        let _ = kill_process(Pid::from_child(&self.child), Signal::CONT);
    }

    /// Sends it home: everything was undone. Waits until it has ended; one that does not within
    /// `DISMISS_WAIT` is killed, because with its pipe closed it would be in the way of the next session.
    ///
    /// # Errors
    /// What became of it, if it did not end as it was told.
    pub fn dismiss(mut self) -> Result<(), String> {
        let told = self.pipe.write_all(&[DONE]);
        self.wake();
        if let Some(status) = self.wait_for_end(DISMISS_WAIT) {
            return match told {
                Ok(()) => Ok(()),
                // It was gone before.
                Err(_) => Err(format!("had ended before its time ({status})")),
            };
        }
        let limit = DISMISS_WAIT.as_secs();
        let pid = Pid::from_child(&self.child);
        let killed = kill_process(pid, Signal::KILL).map_err(io::Error::from);
        let ended = killed.map(|()| self.wait_for_end(KILL_WAIT).is_some());
        Err(match ended {
            Ok(true) => {
                format!("did not end within {limit} s and was killed; all was undone before")
            }
            Ok(false) => format!("did not end within {limit} s, nor when it was killed"),
            Err(error) => format!("did not end within {limit} s and could not be killed: {error}"),
        })
    }

    fn wait_for_end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            thread::sleep(DISMISS_POLL);
        }
    }
}

impl Session {
    /// The orderly end: undoes everything, and if nothing is left, has the keeper remove the directory
    /// and end. Otherwise the keeper stays for the rest, and what is left is returned. Waits for the
    /// keeper, but not for ever.
    pub fn finish(self, keeper: Option<Keeper>) -> Vec<UndoError> {
        let mut errors = self.undo_all();
        if !errors.is_empty() {
            if let Err(source) = self.end() {
                errors.push(UndoError::State {
                    path: self.directory().to_owned(),
                    source,
                });
            }
            // Dropping the keeper's pipe without a word is the sign to take over.
            return errors;
        }
        if let Some(keeper) = keeper {
            let pid = keeper.pid();
            if let Err(why) = keeper.dismiss() {
                errors.push(UndoError::Keeper { pid, why });
            }
        }
        if let Err(source) = remove_directory(self.directory()) {
            errors.push(UndoError::State {
                path: self.directory().to_owned(),
                source,
            });
        }
        errors
    }

    /// [`Session::finish`] of a session without a keeper: one is started for what is left. Returns that, for people.
    pub(super) fn finish_or_leave(self) -> Vec<String> {
        let mut left: Vec<String> = self.undo_all().iter().map(ToString::to_string).collect();
        if left.is_empty() {
            let left = self.finish(None);
            return left.iter().map(ToString::to_string).collect();
        }
        let kept = self.end().and_then(|()| Keeper::spawn(&self));
        left.push(match kept {
            Ok(keeper) => {
                let Keeper { mut child, pipe } = keeper;
                let pid = child.id();
                drop(pipe);
                // A process that goes on has its end taken note of.
                thread::spawn(move || child.wait());
                format!("the keeper (pid {pid}) tries again until it can go")
            }
            Err(error) => format!("nobody tries again, as no keeper could be started: {error}"),
        });
        left
    }
}

/// How a keeper is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The keeper waits.
    Fine,
    /// Somebody has stopped it: it would not notice our death.
    Stopped,
    /// The keeper is no more, and why.
    Ended(String),
}

/// The keeper's `main`; `args` are those after [`KEEPER_VERB`].
///
/// Exit status 0: nothing is left to undo; 1: something is (see `keeper.log` in the state directory);
/// 2: wrong arguments.
pub fn keeper_main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let (directory, heartbeat) = match &args[..] {
        [state, directory] if state == "--state" => (PathBuf::from(directory), None),
        [state, directory, heartbeat, fd] if state == "--state" && heartbeat == "--heartbeat" => {
            (PathBuf::from(directory), open_heartbeat(fd))
        }
        _ => return ExitCode::from(2),
    };
    let strata = Strata {
        pid: getppid(),
        heartbeat,
    };
    // It is needed most when memory is short. Only root may ask for this.
    let _ = fs::write("/proc/self/oom_score_adj", "-1000");
    let done = match attend(io::stdin().as_fd(), &strata, &directory) {
        // Strata may be killed right after the word; then the empty directory would stay.
        true => remove_directory(&directory).map_err(|error| error.to_string()),
        false => take_over(&directory),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            note(&directory, &why);
            ExitCode::FAILURE
        }
    }
}

/// Says why something is still there, for whoever looks.
fn note(directory: &Path, why: &str) {
    let _ = fs::write(directory.join("keeper.log"), format!("{why}\n"));
}

/// The heartbeat's memory, inherited under this number. Without it only death and a stop are noticed.
fn open_heartbeat(fd: &OsString) -> Option<Heartbeat> {
    let path = Path::new("/proc/self/fd").join(fd);
    let file = File::options().read(true).write(true).open(path).ok()?;
    Heartbeat::open(file).ok()
}

/// The Strata that is looked after.
struct Strata {
    pid: Option<Pid>,
    heartbeat: Option<Heartbeat>,
}

impl Strata {
    /// The state letter of its first thread, which is the control loop's. Strata is our parent, so its pid can't be another's
    /// while it is that.
    fn state(&self) -> Option<char> {
        let strata = self.pid.filter(|strata| getppid() == Some(*strata))?;
        let stat = read_stat(strata.as_raw_nonzero().get()).ok()?;
        Some(stat.state)
    }

    /// By how much the control loop is late in being heard of, milliseconds.
    fn late_ms(&self) -> u64 {
        let late_ms = self.heartbeat.as_ref().and_then(Heartbeat::late_ms);
        late_ms.unwrap_or(0)
    }

    /// Whether the control loop has not been heard of for too long: it hangs, or gets no processor.
    fn is_late(&self) -> bool {
        let late_ms = self.late_ms();
        late_ms > LATE_MS_MAX && (self.state() != Some('R') || late_ms > STARVED_MS_MAX)
    }
}

/// Waits for the end of the session. Meanwhile it has Strata go on where somebody has stopped it, and undoes its limits where its
/// control loop hangs: then it would not give way at them. Whether everything was undone; `false`: Strata died.
fn attend(pipe: BorrowedFd<'_>, strata: &Strata, directory: &Path) -> bool {
    let mut is_asleep = false;
    let mut nr_looks = 0_u64;
    loop {
        match is_any_readable(&[pipe], LOOK_PAUSE) {
            Ok(false) if !is_asleep => {
                nr_looks += 1;
                // Where no limit needs it awake nothing is heard of it, and its state tells.
                if (strata.late_ms() > 0 || nr_looks.is_multiple_of(LOOKS_PER_S))
                    && strata.state() == Some('T')
                    // Stopped it writes no more: what it has said before lies in the pipe by now.
                    && is_any_readable(&[pipe], Duration::ZERO).is_ok_and(|is_told| !is_told)
                    && let Some(pid) = strata.pid
                {
                    let _ = kill_process(pid, Signal::CONT);
                }
                // At each look: a thread of its that was in the middle of changing a limit writes it once more.
                if strata.is_late() {
                    lift(directory);
                    // Heard of again, it knows by this that its limits are to be set anew. After each, or the last of them, which
                    // may undo what it has just set, would go unnoticed.
                    strata.heartbeat.iter().for_each(Heartbeat::note_missed);
                }
            }
            Ok(false) => {}
            Err(_) => return false,
            Ok(true) => {
                let mut word = [0];
                match rustix::io::read(pipe, &mut word) {
                    Ok(1) if word[0] == DONE => return true,
                    Ok(1) => is_asleep = word[0] == ASLEEP,
                    Err(rustix::io::Errno::INTR) => {}
                    Ok(_) | Err(_) => return false,
                }
            }
        }
    }
}

/// Puts all values back, and leaves them in the state: Strata lives, and may set its own again.
fn lift(directory: &Path) {
    match State::load(directory) {
        Ok(Some(state)) => {
            for error in put_values_back(&state, directory) {
                note(directory, &error.to_string());
            }
        }
        Ok(None) => {}
        Err(error) => note(directory, &format!("state.json can't be read: {error}")),
    }
}

fn take_over(directory: &Path) -> Result<(), String> {
    let load = || match State::load(directory) {
        Ok(state) => Ok(state),
        Err(error) => Err(format!("state.json can't be read: {error}")),
    };
    let Some(mut state) = load()? else {
        return remove_directory(directory).map_err(|error| error.to_string());
    };
    // Nobody with another run directory begins on the groups before they are as they were. One that has begun is left in peace:
    // only values that are still this session's are put back.
    let held: Vec<File> = (state.groups.iter())
        .filter_map(|group| hold(&group.path).ok().flatten())
        .collect();
    carry_out(&mut state, directory, Due::AtOnce);
    drop(held);
    let mut waiting_since = Instant::now();
    while is_waiting(&state) {
        thread::sleep(rest_pause(waiting_since.elapsed()));
    }
    waiting_since = Instant::now();
    loop {
        let errors = carry_out(&mut state, directory, Due::AfterTheProgram);
        // A state that can't be written (somebody has removed the directory) holds nobody up.
        if errors.is_empty() || state.undo.is_empty() {
            return remove_directory(directory).map_err(|error| error.to_string());
        }
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let why = lines.join("\n");
        if waiting_since.elapsed() > REST_TIME_MAX {
            return Err(why);
        }
        note(directory, &why);
        thread::sleep(rest_pause(waiting_since.elapsed()));
    }
}

fn rest_pause(waited: Duration) -> Duration {
    (waited / REST_PAUSE_PART).clamp(REST_PAUSE_MIN, REST_PAUSE_MAX)
}
