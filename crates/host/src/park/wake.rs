//! `wake`: a parked program goes on, and what it used last is read back before it asks for it.
//!
//! **Owns** the order (thaw, then read, the youngest of all its processes first) and the bounds. **Does not own** reading
//! (`strata_linux::actuator`).
//!
//! **Invariants**
//! - W1: nothing is read for which the machine, a limit of its group, or what the user allows has no room.
//! - W2: the note goes when all is done; a wake that is cut off can be done again.

use super::halted::{GoOnError, Halted};
use super::made_swap;
use super::note::{self, Note, NoteError};
use crate::keeper::{self, KeptSwapError, Outcome};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use strata_linux::actuator::{Wanted, read_back};
use strata_linux::cgroup::GroupReader;
use strata_linux::process::{MachineMemory, Process};

/// Memory of the machine that stays free of what is read back: one part in twenty.
const ROOM_PART: u64 = 20;
/// Threads that read: so that a swap device has several requests at once, and compressed memory more than one processor.
const NR_THREADS_MAX: usize = 4;

/// Why a program is not woken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WakeError {
    /// Nothing of that name.
    #[error("nothing is parked as {0}; strata ctl parked lists what is")]
    Unknown(String),
    /// The note.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// It stays stopped.
    #[error("{id} does not go on: {source}")]
    GoOn {
        /// The id.
        id: String,
        /// Why.
        #[source]
        source: Box<GoOnError>,
    },
}

/// What was read back of one target.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Woken {
    /// The id.
    pub id: String,
    /// The command or the group.
    pub name: String,
    /// Processes of it that still run.
    pub nr_processes: usize,
    /// The program was stopped by `park --freeze`, and runs again.
    pub was_halted: bool,
    /// Read back from swap and mapped.
    pub read_back_bytes: u64,
    /// Of files and shared memory: the kernel was asked to read it.
    pub asked_bytes: u64,
    /// Time until all of that was there, seconds.
    pub seconds: f64,
    /// Why the rest was left to the program: there was no room for it.
    pub cut_short_by: Option<&'static str>,
}

/// Wakes what is parked under an id, and reads back at most so much.
///
/// # Errors
/// [`WakeError`]; nothing is lost.
pub fn wake(id: &str, limit_bytes: Option<u64>) -> Result<Woken, WakeError> {
    let unknown = || WakeError::Unknown(id.to_owned());
    Note::load(id)?.ok_or_else(unknown)?;
    let _lock = note::lock(id)?;
    let note = Note::load(id)?.ok_or_else(unknown)?;
    wake_noted(&note, limit_bytes)
}

/// Lets go on what a park or a guard that died has stopped and not noted.
///
/// # Errors
/// The run directory can't be read.
pub fn recover() -> io::Result<()> {
    for left in keeper::recover()? {
        if let Outcome::Left(why) = left.outcome {
            tracing::warn!("of session {}: {}", left.id, why.join("; "));
        }
    }
    Ok(())
}

/// What was made for what was parked goes where nothing is. Returns the path of the swap that was taken down.
///
/// # Errors
/// It stays, and why.
pub fn tidy() -> Result<Option<PathBuf>, KeptSwapError> {
    match note::sweep() {
        true => Ok(None),
        false => made_swap::release(),
    }
}

/// With the note's lock held.
pub(super) fn wake_noted(note: &Note, limit_bytes: Option<u64>) -> Result<Woken, WakeError> {
    let started = Instant::now();
    // Whoever stopped any of its processes under another id did it for us, too.
    let halted = note.halted.clone().and(note::halted_of(&note.running()));
    halted.go_on().map_err(|source| WakeError::GoOn {
        id: note.id.clone(),
        source: Box::new(source),
    })?;
    let wanted = wanted(note);
    let room = Room::of(note, limit_bytes);
    let nr_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let read = read_back(&wanted, nr_threads.min(NR_THREADS_MAX), &|bytes| {
        room.take(bytes)
    });
    Note::remove(&note.id)?;
    Ok(Woken {
        id: note.id.clone(),
        name: note.name.clone(),
        nr_processes: note.running().len(),
        was_halted: halted != Halted::No,
        read_back_bytes: read.mapped_bytes,
        asked_bytes: read.asked_bytes,
        seconds: started.elapsed().as_secs_f64(),
        cut_short_by: read.is_cut_short.then(|| room.why()),
    })
}

/// What is to be read, the youngest of all processes first.
fn wanted(note: &Note) -> Vec<Wanted> {
    let mut by_age: BTreeMap<(usize, u64), Vec<Wanted>> = BTreeMap::new();
    for noted in note
        .processes
        .iter()
        .filter(|noted| noted.mark.is_running())
    {
        let Ok(process) = Process::open(noted.mark.pid) else {
            continue;
        };
        if process.start_ticks() != noted.mark.start_ticks {
            continue;
        }
        let process = Arc::new(process);
        for (place, used) in noted.used.iter().enumerate() {
            let wanted = used.ranges().map(|range| Wanted {
                process: Arc::clone(&process),
                range,
            });
            // What a parking before the last one noted is older, whatever its age was then.
            let rank = (place, used.idle_ms);
            by_age.entry(rank).or_default().extend(wanted);
        }
    }
    by_age.into_values().flatten().collect()
}

/// How much may be read.
#[derive(Debug)]
struct Room {
    limit_bytes: u64,
    groups_bytes: u64,
    taken_bytes: AtomicU64,
}

impl Room {
    fn of(note: &Note, limit_bytes: Option<u64>) -> Room {
        let groups = note.running().into_iter();
        let groups = groups.filter_map(|pid| GroupReader::of_process(pid).ok().flatten());
        let rooms = groups.filter_map(|group| group.room_bytes());
        Room {
            limit_bytes: limit_bytes.unwrap_or(u64::MAX),
            groups_bytes: rooms.min().unwrap_or(u64::MAX),
            taken_bytes: AtomicU64::new(0),
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let taken_bytes = self.taken_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let is_allowed = taken_bytes <= self.limit_bytes.min(self.groups_bytes);
        is_allowed && free_bytes() >= bytes
    }

    fn why(&self) -> &'static str {
        let taken_bytes = self.taken_bytes.load(Ordering::Relaxed);
        match taken_bytes {
            taken if taken > self.limit_bytes => "the limit asked for",
            taken if taken > self.groups_bytes => "the limit of its group",
            _ => "memory that is free",
        }
    }
}

/// Memory of the machine that may be filled.
fn free_bytes() -> u64 {
    MachineMemory::read().map_or(0, |memory| {
        let kept_bytes = memory.total_bytes / ROOM_PART;
        memory.available_bytes.saturating_sub(kept_bytes)
    })
}
