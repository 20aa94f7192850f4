//! A parked program that works again by itself: its page faults tell, and the rest of what it used last is read back.
//!
//! A timer that fires touches a few pages, which stay then; that is no reason to read all. A request or a key pressed faults
//! in many at once. Where more than half of what was in swap is in memory again all the same, as swap was taken down or timers
//! have fired for long, the program is parked no more.
//!
//! **Owns** how that is told from a timer. **Does not own** reading (`wake`).

use super::note::{self, Note, NoteError};
use super::wake::{WakeError, Woken, wake_noted};
use std::collections::BTreeMap;
use std::time::Duration;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::process::Process;
use strata_linux::run_dir::ProcessMark;
use strata_linux::swap::SwapWatch;

/// Pages that are read from swap or files between two looks, by which a program is taken to be at work: 512 KiB.
const NR_FAULTS_WORK: u64 = 128;

/// Looks after what is parked.
#[derive(Debug)]
pub struct ParkWatch {
    watched: Vec<Watched>,
    swap: SwapWatch,
    /// Swap was being taken down at the last look.
    is_swap_going: bool,
}

#[derive(Debug)]
struct Watched {
    id: String,
    /// Of the group, if it is one.
    group: Option<String>,
    processes: Vec<ProcessMark>,
    /// At the last look.
    nr_faults: u64,
    /// When it was looked at last how much of it is in swap.
    nr_faults_before: u64,
    /// In swap at the first look.
    swapped_before_bytes: u64,
    /// In swap, as far as is known.
    swapped_bytes: u64,
}

impl ParkWatch {
    /// Time between two looks: two of them are less than 100 ms.
    pub const INTERVAL: Duration = Duration::from_millis(40);

    /// Looks after these.
    pub fn over(notes: &[Note]) -> ParkWatch {
        ParkWatch {
            watched: notes.iter().map(Watched::new).collect(),
            swap: SwapWatch::start(),
            is_swap_going: false,
        }
    }

    /// Looks after all that is parked now. Returns whether there are notes of programs that have all ended.
    pub(super) fn refresh(&mut self) -> bool {
        let ids = note::ids().unwrap_or_default();
        self.watched
            .retain(|watched| ids.contains(&watched.id) && watched.count().is_some());
        let is_new = |id: &&String| self.watched.iter().all(|watched| watched.id != **id);
        let new: Vec<&String> = ids.iter().filter(is_new).collect();
        let mut is_any_over = false;
        for id in new {
            match Note::load(id) {
                Ok(None) => is_any_over = true,
                Ok(Some(note)) if note.resident_after_bytes.is_some() => {
                    self.watched.push(Watched::new(&note));
                }
                // One that is just being parked, or can't be read, is looked at again.
                Ok(Some(_)) | Err(_) => {}
            }
        }
        is_any_over
    }

    /// Removes the notes of programs that are in memory again; one that stands still keeps its note. Returns whose are gone.
    pub(super) fn forget_returned(&mut self) -> Vec<Result<String, NoteError>> {
        let is_going = self.swap.has_shrunk();
        let was_going = std::mem::replace(&mut self.is_swap_going, is_going);
        let mut gone = Vec::new();
        self.watched.retain_mut(|watched| {
            if !(is_going || was_going || watched.has_read_half()) || !watched.has_returned() {
                return true;
            }
            match forget(&watched.id) {
                Ok(true) => {
                    gone.push(Ok(watched.group.as_ref().unwrap_or(&watched.id).clone()));
                    false
                }
                Ok(false) => true,
                Err(error) => {
                    gone.push(Err(error));
                    false
                }
            }
        });
        gone
    }

    /// Groups that are parked, and what they have in swap, bytes.
    pub(super) fn groups(&self) -> BTreeMap<String, u64> {
        let of = |one: &Watched| Some((one.group.clone()?, one.swapped_bytes));
        self.watched.iter().filter_map(of).collect()
    }

    /// Whether nobody is left that is parked.
    pub fn is_over(&self) -> bool {
        self.watched.is_empty()
    }

    /// To be called every [`ParkWatch::INTERVAL`]: what works again by itself is read back. It is looked after no more, nor is what
    /// has ended.
    pub fn look(&mut self) -> Vec<Result<Woken, WakeError>> {
        let mut woken = Vec::new();
        self.watched.retain_mut(|watched| {
            let Some(now) = watched.count() else {
                return false;
            };
            let before = std::mem::replace(&mut watched.nr_faults, now);
            if now.saturating_sub(before) < NR_FAULTS_WORK {
                return note::is_there(&watched.id);
            }
            woken.extend(read_rest(&watched.id).transpose());
            false
        });
        woken
    }
}

impl Watched {
    fn new(note: &Note) -> Watched {
        let mut watched = Watched {
            id: note.id.clone(),
            group: note.group().map(str::to_owned),
            processes: note.processes.iter().map(|noted| noted.mark).collect(),
            nr_faults: 0,
            nr_faults_before: 0,
            swapped_before_bytes: 0,
            swapped_bytes: 0,
        };
        watched.nr_faults = watched.count().unwrap_or(0);
        watched.nr_faults_before = watched.nr_faults;
        watched.swapped_bytes = watched.swapped();
        watched.swapped_before_bytes = watched.swapped_bytes;
        watched
    }

    /// By its page faults it may have half of what it had in swap in memory.
    fn has_read_half(&mut self) -> bool {
        let nr_read = self.nr_faults.saturating_sub(self.nr_faults_before);
        let has_read = nr_read > 0 && nr_read * PAGE_BYTES * 2 >= self.swapped_before_bytes;
        if has_read {
            self.nr_faults_before = self.nr_faults;
        }
        has_read
    }

    /// Less than half of what it had in swap is there still.
    fn has_returned(&mut self) -> bool {
        self.swapped_bytes = self.swapped();
        self.swapped_bytes * 2 < self.swapped_before_bytes
    }

    /// What those that run have in swap, bytes.
    fn swapped(&self) -> u64 {
        let running = self.processes.iter().filter(|mark| mark.is_running());
        let opened = running.filter_map(|mark| Process::open(mark.pid).ok());
        opened.filter_map(|one| one.swapped_bytes().ok()).sum()
    }

    /// Major faults of all that run; `None`: all have ended.
    fn count(&self) -> Option<u64> {
        let stats = self.processes.iter().filter_map(|mark| mark.stat());
        stats.map(|stat| stat.nr_major_faults).reduce(|a, b| a + b)
    }
}

/// Returns whether the note is gone; it stays where the program would stand still for ever without it.
fn forget(id: &str) -> Result<bool, NoteError> {
    let _lock = note::lock(id)?;
    match Note::load(id)? {
        Some(note) if note.halted.is_standing() => return Ok(false),
        Some(_) => Note::remove(id)?,
        None => {}
    }
    Ok(true)
}

/// `None`: somebody else has woken it meanwhile.
fn read_rest(id: &str) -> Result<Option<Woken>, WakeError> {
    let _lock = note::lock(id)?;
    let note = Note::load(id)?;
    note.map(|note| wake_noted(&note, None)).transpose()
}
