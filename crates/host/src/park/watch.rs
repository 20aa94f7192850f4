//! A parked program that works again by itself: its page faults tell, and the rest of what it used last is read back.
//!
//! A timer that fires touches a few pages, which stay then; that is no reason to read all. A request or a key pressed faults
//! in many at once.
//!
//! **Owns** how that is told from a timer. **Does not own** reading (`wake`).

use super::note::{self, Note};
use super::wake::{WakeError, Woken, wake_noted};
use std::time::Duration;
use strata_linux::run_dir::ProcessMark;

/// Pages that are read from swap or files between two looks, by which a program is taken to be at work: 512 KiB.
const NR_FAULTS_WORK: u64 = 128;

/// Looks after what is parked.
#[derive(Debug)]
pub struct Watch {
    watched: Vec<Watched>,
}

#[derive(Debug)]
struct Watched {
    id: String,
    /// Of the group, if it is one.
    group: Option<String>,
    processes: Vec<ProcessMark>,
    /// At the last look.
    nr_faults: u64,
}

impl Watch {
    /// Time between two looks: two of them are less than 100 ms.
    pub const INTERVAL: Duration = Duration::from_millis(40);

    /// Looks after these.
    pub fn over(notes: &[Note]) -> Watch {
        Watch {
            watched: notes.iter().map(Watched::new).collect(),
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

    /// Groups that are parked.
    pub(super) fn groups(&self) -> impl Iterator<Item = &String> {
        self.watched.iter().filter_map(|one| one.group.as_ref())
    }

    /// Whether nobody is left that is parked.
    pub fn is_over(&self) -> bool {
        self.watched.is_empty()
    }

    /// To be called every [`Watch::INTERVAL`]: what works again by itself is read back. It is looked after no more, nor is what
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
        };
        watched.nr_faults = watched.count().unwrap_or(0);
        watched
    }

    /// Major faults of all that run; `None`: all have ended.
    fn count(&self) -> Option<u64> {
        let stats = self.processes.iter().filter_map(|mark| mark.stat());
        stats.map(|stat| stat.nr_major_faults).reduce(|a, b| a + b)
    }
}

/// `None`: somebody else has woken it meanwhile.
fn read_rest(id: &str) -> Result<Option<Woken>, WakeError> {
    let _lock = note::lock(id)?;
    let note = Note::load(id)?;
    note.map(|note| wake_noted(&note, None)).transpose()
}
