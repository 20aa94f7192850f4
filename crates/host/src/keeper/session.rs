//! A session: one Strata, what it changed, and the lock that says it (or its keeper) lives.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::claim::{command_of, find_holder};
use super::state::{State, claim_directory, make_directory, remove_directory};
use super::undo::{Due, UndoError, carry_out, is_program_running, put_values_back};
use super::written;
use strata_linux::cgroup::{self, GroupMark, Hold};
use strata_linux::claim::{Claim, ClaimError, Holder, Life};
use strata_linux::run_dir::lock_in;
use strata_linux::run_dir::{ProcessMark, SOCKET_NAME, boot_id, run_dir};
use strata_linux::swap::SwapRecord;
use strata_linux::sys::heartbeat::Heartbeat;
use strata_linux::undo::{Journal, JournalSink, Undo};

/// How long a session that has died is waited for, whose keeper puts its values back just now.
const DYING_WAIT: Duration = Duration::from_secs(2);
const DYING_POLL: Duration = Duration::from_millis(20);

/// Who owns what is left to the next session of its name.
const NOBODY: ProcessMark = ProcessMark {
    pid: 0,
    start_ticks: 0,
};

/// Why there is no session, and so nothing may be changed.
#[derive(Debug, thiserror::Error)]
#[error("no state directory {}: {source}; {}", path.display(), remedy(source))]
pub struct SessionError {
    /// The directory.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

/// What to do about a state directory that can't be made.
fn remedy(why: &io::Error) -> String {
    const ANOTHER: &str =
        "set STRATA_RUN_DIR to a directory that only you can write, by its whole path";
    match why.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => format!(
            "{}, or {ANOTHER}",
            strata_linux::rights::advice("the right to write there")
        ),
        // Who holds a lock, and who owns what, is in the reason.
        _ => ANOTHER.to_owned(),
    }
}

impl SessionError {
    /// Whether there is a session of that name.
    pub fn is_taken(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }
}

/// What this Strata changed, kept in `/run/strata/<id>/` until it is undone.
#[derive(Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: String,
    directory: PathBuf,
    lock: File,
    state: Mutex<State>,
    /// By which the keeper knows that the control loop goes on.
    heartbeat: Heartbeat,
    /// Groups that are acted on, locked so that no session of another run directory acts on them, too.
    held: Mutex<Vec<(GroupMark, Option<File>)>>,
}

/// A name for a session that no other process uses: the pid, and a number where it is needed.
pub fn fresh_id() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let pid = std::process::id();
    match NEXT.fetch_add(1, Ordering::Relaxed) {
        0 => pid.to_string(),
        next => format!("{pid}-{next}"),
    }
}

impl Session {
    /// Makes the state directory `<run dir>/<id>` and takes its lock. What a dead session of that name has left (swap, as long as
    /// its program runs) is this session's to undo from then on.
    ///
    /// # Errors
    /// If a session of that name lives, or the directory can't be made.
    pub fn create(id: &str) -> Result<Session, SessionError> {
        Session::create_in(&run_dir(), id)
    }

    /// [`Session::create`] below another run directory.
    pub fn create_in(run_dir: &Path, id: &str) -> Result<Session, SessionError> {
        let failed = |source| SessionError {
            path: run_dir.join(id),
            source,
        };
        if !run_dir.is_absolute() {
            let why =
                "STRATA_RUN_DIR is no whole path: another process would look for it elsewhere";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, why)));
        }
        let (directory, lock, state) = match make_directory(run_dir, id) {
            Ok((directory, lock)) => {
                let state = first_state(&directory);
                if state.is_err() {
                    let _ = remove_directory(&directory);
                }
                (directory, lock, state.map_err(failed)?)
            }
            Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {
                take_over(run_dir, id, taken).map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        let heartbeat = Heartbeat::create().map_err(failed)?;
        Ok(Session {
            inner: Arc::new(Inner {
                id: id.to_owned(),
                state: Mutex::new(state),
                directory,
                lock,
                heartbeat,
                held: Mutex::default(),
            }),
        })
    }

    /// Name of the session, for [`strata_linux::cgroup::BudgetGroup::create`] too.
    pub fn id(&self) -> &str {
        &self.inner.id
    }

    /// Directory of the session, absolute or as given.
    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    /// The handle that groups and swap devices record their changes with.
    pub fn journal(&self) -> Journal {
        Journal::new(Arc::clone(&self.inner) as Arc<dyn JournalSink>)
    }

    /// Says which process is under the budget: swap and group stay while it runs. Processes in a
    /// group made with this session's journal count without being named.
    pub fn set_program(&self, pid: i32) -> io::Result<()> {
        self.inner
            .change(|state| state.program = ProcessMark::of(pid))
    }

    /// Says which attached group is under the budget: swap stays while anybody is in it.
    pub fn set_group(&self, path: &Path) -> io::Result<()> {
        self.inner
            .change(|state| state.group = Some(path.to_owned()))
    }

    /// Says that swap stays when this Strata has ended, however it ends: the next session of this name takes it over, and nobody
    /// else takes it down.
    pub fn keep_swap(&self) -> io::Result<()> {
        self.inner.change(|state| state.keeps_swap = true)
    }

    /// Leaves what it keeps to the next session of its name, though this process goes on.
    ///
    /// # Errors
    /// That can't be written down; then it is this session's until the process ends.
    pub fn leave(self) -> io::Result<()> {
        self.inner.change(|state| state.owner = NOBODY)
    }

    /// Says that the session has ended in good order: nobody is waited for with what is left of it, which is nobody's, so that
    /// the next session of its name takes that over.
    pub(super) fn end(&self) -> io::Result<()> {
        self.inner.change(|state| {
            (state.owner, state.is_over) = (NOBODY, true);
        })
    }

    /// The swap that is recorded: what a dead session of this name has left, or what was made since.
    pub fn swap(&self) -> Option<SwapRecord> {
        self.inner.state().swap().cloned()
    }

    /// Puts all values back at once (limits, OOM killer); swap and group stay. The steps stay recorded: a thread that is in the
    /// middle of changing one of the values may write it once more, and [`Session::undo_all`] puts it back again.
    pub fn put_limits_back(&self) -> Vec<UndoError> {
        put_values_back(&self.inner.state(), &self.inner.directory)
    }

    /// Undoes everything that was recorded and not undone by its owner. May be called again.
    pub fn undo_all(&self) -> Vec<UndoError> {
        carry_out(
            &mut self.inner.state(),
            &self.inner.directory,
            Due::AfterTheProgram,
        )
    }

    /// By which the keeper knows that the control loop goes on.
    pub fn heartbeat(&self) -> &Heartbeat {
        &self.inner.heartbeat
    }

    /// Names the keeper to those who wonder who puts things back.
    pub(super) fn set_keeper(&self, pid: i32) -> io::Result<()> {
        self.inner
            .change(|state| state.keeper = ProcessMark::of(pid))
    }

    /// The locked file: a process that inherits it keeps the session alive.
    pub(super) fn lock_fd(&self) -> BorrowedFd<'_> {
        self.inner.lock.as_fd()
    }
}

/// Takes the directory of a session over whose Strata has died: its keeper is sent away, values that still stand are put back,
/// and the rest is ours to undo. `taken`: why not, where it lives.
fn take_over(run_dir: &Path, id: &str, taken: io::Error) -> io::Result<(PathBuf, File, State)> {
    let directory = run_dir.join(id);
    let Some(before) = State::load(&directory)? else {
        return Err(taken);
    };
    let is_removal = |undo: &Undo| matches!(undo, Undo::RemoveGroup { .. });
    // A command of the dead run goes on in a group that has the name.
    let is_in_use = before.undo.iter().any(is_removal) && is_program_running(&before);
    if before.owner.is_running() || before.boot_id != boot_id()? || is_in_use {
        return Err(taken);
    }
    if let Some(keeper) = before.keeper.filter(|keeper| keeper.is_running())
        && let Some(pid) = Pid::from_raw(keeper.pid)
    {
        // With its end of the work ours, nobody else undoes meanwhile: all that it changes is in the state.
        kill_process(pid, Signal::KILL)?;
        let deadline = Instant::now() + DYING_WAIT;
        while keeper.is_running() && Instant::now() < deadline {
            thread::sleep(DYING_POLL);
        }
    }
    let Some(lock) = claim_directory(run_dir, &directory)? else {
        return Err(taken);
    };
    let Some(mut state) = State::load(&directory)? else {
        return Err(taken);
    };
    for error in carry_out(&mut state, &directory, Due::AtOnce) {
        tracing::warn!("of the run before: {error}");
    }
    let own = first_state_of(std::process::id())?;
    (state.boot_id, state.owner) = (own.boot_id, own.owner);
    (state.keeper, state.program, state.is_over) = (None, None, false);
    state.save(&directory)?;
    // Where clients asked the dead one.
    match fs::remove_file(directory.join(SOCKET_NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok((directory, lock, state))
}

fn first_state_of(pid: u32) -> io::Result<State> {
    let own = ProcessMark::of(pid as i32)
        .ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    Ok(State::new(boot_id()?, own))
}

fn first_state(directory: &Path) -> io::Result<State> {
    let state = first_state_of(std::process::id())?;
    state.save(directory)?;
    Ok(state)
}

/// Holds a group itself, which all run directories have in common, until the file is closed.
pub(super) fn hold(group: &Path) -> Result<Option<File>, ClaimError> {
    match cgroup::hold(group).map_err(|error| ClaimError::Io(io::Error::other(error)))? {
        Hold::Held(file) => Ok(file),
        Hold::Taken { pid } => Err(ClaimError::Held(Holder {
            session: String::new(),
            group: group.to_owned(),
            life: Life::Elsewhere {
                command: pid.map(command_of).unwrap_or_default(),
                pid,
            },
        })),
    }
}

impl Inner {
    /// A poisoned state is still the last one that was saved or about to be.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a group and writes that down; once is enough.
    fn note_claim(&self, group: &GroupMark) -> Result<(), ClaimError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.iter().any(|(known, _)| known == group) {
            return Ok(());
        }
        let lock = hold(&group.path)?;
        let note = |state: &mut State| {
            if !state.groups.contains(group) {
                state.groups.push(group.clone());
            }
        };
        self.change(note).map_err(ClaimError::Io)?;
        held.push((group.clone(), lock));
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut State)) -> io::Result<()> {
        let mut state = self.state();
        let mut next = state.clone();
        change(&mut next);
        if next != *state {
            next.save(&self.directory)?;
            *state = next;
        }
        Ok(())
    }
}

impl JournalSink for Inner {
    fn record(&self, undo: &Undo) -> io::Result<()> {
        self.change(|state| {
            let is_known = state.undo.iter().any(|known| match (known, undo) {
                (Undo::RestoreFile { path: known, .. }, Undo::RestoreFile { path, .. }) => {
                    known == path
                }
                _ => known == undo,
            });
            if !is_known {
                state.undo.push(undo.clone());
            }
        })
    }

    fn forget(&self, undo: &Undo) -> io::Result<()> {
        self.change(|state| state.undo.retain(|known| known != undo))
    }

    fn note_written(&self, file: &Path, values: &[u64]) -> io::Result<()> {
        written::save(&self.directory, file, values)
    }

    fn claim(&self, group: &GroupMark, claim: Claim) -> Result<(), ClaimError> {
        let run_dir = self.directory.parent().unwrap_or(&self.directory);
        let boot_id = boot_id().map_err(ClaimError::Io)?;
        let deadline = Instant::now() + DYING_WAIT;
        loop {
            let scan_lock = lock_in(run_dir, "sessions").map_err(ClaimError::Io)?;
            let holder = find_holder(run_dir, &self.directory, &boot_id, group, claim)
                .map_err(ClaimError::Io)?;
            match holder {
                // Written down while nobody else looks.
                None => return self.note_claim(group),
                Some(holder) if holder.is_running() || Instant::now() > deadline => {
                    return Err(ClaimError::Held(holder));
                }
                Some(_) => {
                    drop(scan_lock);
                    thread::sleep(DYING_POLL);
                }
            }
        }
    }
}
