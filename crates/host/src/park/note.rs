//! What is parked: one file a target, `/run/strata/parked/<id>`.
//!
//! **Owns** the file, and finding it by id or process. **Does not own** what is done with what it says.
//!
//! **Invariants**
//! - N1: a file is absent or whole.
//! - N2: who parks or wakes a target holds its lock.
//! - N3: a note of another boot, or of processes that have all ended, says nothing any more, and is removed.

use super::halted::Halted;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::run_dir::trust::{self, Missing};
use strata_linux::run_dir::{PARKED_DIR, ProcessMark, boot_id, lock_in, run_dir};

/// Raised when an older Strata could misread the file.
const VERSION: u32 = 1;

/// How often a lock is tried for whose directory goes meanwhile.
const NR_TRIES_MAX: u32 = 8;

/// Ids of groups begin so; those of processes are numbers.
pub(super) const GROUP_PREFIX: &str = "g-";

/// What is parked can't be noted or read.
#[derive(Debug, thiserror::Error)]
#[error("{what} {} failed: {source}", path.display())]
pub struct NoteError {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl NoteError {
    fn of(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> NoteError {
        let path = path.to_owned();
        move |source| NoteError { what, path, source }
    }
}

/// Ranges of one age.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Used {
    /// How long they had not been accessed when they were put away, milliseconds.
    pub idle_ms: u64,
    /// First page and number of pages, by address.
    pub runs: Vec<(u64, u64)>,
}

impl Used {
    /// The addresses.
    pub fn ranges(&self) -> impl Iterator<Item = AddrRange> {
        let range = |(first, nr_pages): &(u64, u64)| {
            AddrRange::new(first * PAGE_BYTES, (first + nr_pages) * PAGE_BYTES)
        };
        self.runs.iter().map(range)
    }
}

/// One process, and what it used last.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Noted {
    pub(super) mark: ProcessMark,
    /// The youngest first.
    pub(super) used: Vec<Used>,
}

/// What is parked under one id.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Note {
    version: u32,
    boot_id: String,
    /// The id, by which it is woken.
    pub id: String,
    /// For people: the command, or the group.
    pub name: String,
    /// When it was parked, seconds since 1970.
    pub parked_at_unix_s: u64,
    /// What it had in memory before, bytes.
    pub resident_before_bytes: u64,
    /// What it had in memory afterwards; `None`: it is still being parked, or that was cut short.
    pub resident_after_bytes: Option<u64>,
    /// What was stopped for it.
    pub halted: Halted,
    pub(super) processes: Vec<Noted>,
}

impl Note {
    /// # Errors
    /// The boot's id can't be read.
    pub(super) fn new(id: &str, name: String, processes: Vec<Noted>) -> Result<Note, NoteError> {
        let since_1970 = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        Ok(Note {
            version: VERSION,
            boot_id: boot_id().map_err(NoteError::of("reading", Path::new("the boot's id")))?,
            id: id.to_owned(),
            name,
            parked_at_unix_s: since_1970.as_secs(),
            resident_before_bytes: 0,
            resident_after_bytes: None,
            halted: Halted::No,
            processes,
        })
    }

    /// Path of the group below the mount, if a group is what is parked: a process may have any name.
    pub fn group(&self) -> Option<&str> {
        self.id.starts_with(GROUP_PREFIX).then_some(&self.name)
    }

    /// The processes that still run.
    pub fn running(&self) -> Vec<i32> {
        let marks = self.processes.iter().map(|noted| noted.mark);
        let running = marks.filter(|mark| mark.is_running());
        running.map(|mark| mark.pid).collect()
    }

    /// What was away is what is to be read back first after a second parking: what a note said before counts as older.
    pub(super) fn continues(&mut self, before: Note) {
        if before.halted != Halted::No && self.halted == Halted::No {
            self.halted = before.halted;
        }
        for old in before.processes {
            let mut known = self.processes.iter_mut();
            if let Some(noted) = known.find(|noted| noted.mark == old.mark) {
                noted.used.extend(old.used);
            }
        }
    }

    pub(super) fn save(&self) -> Result<(), NoteError> {
        let path = path_of(&self.id);
        let write = || {
            trust::check_directory(&directory(), Missing::Make)?;
            let draft = directory().join(format!(".{}.new", self.id));
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = trust::open_file(&draft, &mut options)?;
            file.write_all(&serde_json::to_vec(self)?)?;
            fs::rename(&draft, &path)
        };
        write().map_err(NoteError::of("noting what is parked in", &path))
    }

    /// # Errors
    /// The file can't be read, or is no note of this version.
    pub(super) fn load(id: &str) -> Result<Option<Note>, NoteError> {
        let path = path_of(id);
        let read = || {
            match trust::check_directory(&directory(), Missing::Refuse) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                checked => checked?,
            }
            let mut file = match trust::open_to_read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            let note: Note = serde_json::from_slice(&text)?;
            match note.version == VERSION {
                true => Ok(Some(note)),
                false => Err(io::Error::other(format!("it has version {}", note.version))),
            }
        };
        let note = read().map_err(NoteError::of("reading what is parked from", &path))?;
        let now = boot_id().unwrap_or_default();
        Ok(note.filter(|note| note.boot_id == now && !note.running().is_empty()))
    }

    pub(super) fn remove(id: &str) -> Result<(), NoteError> {
        let path = path_of(id);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(NoteError::of("removing", &path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// The right to park and wake a target; its file goes with it, and the directory with the last one.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    _held: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever waits for it finds it gone and makes it anew. The directory is not empty as long as anything is parked.
        let _left = fs::remove_file(&self.path).and_then(|()| fs::remove_dir(directory()));
    }
}

/// Waits for that right.
pub(super) fn lock(id: &str) -> Result<Lock, NoteError> {
    let mut locked = lock_in(&directory(), id);
    for _ in 0..NR_TRIES_MAX {
        // The directory went with somebody else's lock.
        match &locked {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                locked = lock_in(&directory(), id);
            }
            _ => break,
        }
    }
    let held = locked.map_err(NoteError::of("locking", &path_of(id)))?;
    Ok(Lock {
        path: directory().join(format!(".{id}.lock")),
        _held: held,
    })
}

/// Whether there is a note of that id; it may say nothing any more.
pub(super) fn is_there(id: &str) -> bool {
    path_of(id).exists()
}

/// All that is parked, by id. A file that says nothing any more is passed over; one that can't be read is told in the log.
pub fn parked() -> Vec<Note> {
    let notes = ids().into_iter().filter_map(|id| match Note::load(&id) {
        Ok(note) => note,
        Err(error) => {
            tracing::warn!("{error}");
            None
        }
    });
    notes.collect()
}

/// What a process is parked under.
pub fn find(pid: i32) -> Option<Note> {
    let notes = parked().into_iter();
    let mut of_process = notes.filter(|note| note.running().contains(&pid));
    of_process.next()
}

/// Removes notes that say nothing any more. Returns whether any other is left.
pub(super) fn sweep() -> bool {
    let mut is_left = false;
    let is_over = |id: &str| matches!(Note::load(id), Ok(None));
    for id in ids() {
        // Who is at it may write it anew until the lock is had.
        let lock = is_over(&id).then(|| lock(&id)).and_then(Result::ok);
        let is_removed = lock.is_some() && is_over(&id) && Note::remove(&id).is_ok();
        is_left |= !is_removed;
    }
    is_left
}

/// Ids of all notes, in order.
pub(super) fn ids() -> Vec<String> {
    let entries = fs::read_dir(directory()).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut ids: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    ids.sort();
    ids
}

fn directory() -> PathBuf {
    run_dir().join(PARKED_DIR)
}

fn path_of(id: &str) -> PathBuf {
    directory().join(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(pages: &[(u64, u64)]) -> Noted {
        Noted {
            mark: ProcessMark::of(std::process::id() as i32).expect("runs"),
            used: vec![Used {
                idle_ms: 5,
                runs: pages.to_vec(),
            }],
        }
    }

    fn note(processes: Vec<Noted>) -> Note {
        Note::new("7", "web".to_owned(), processes).expect("a note")
    }

    #[test]
    fn parked_twice_what_was_used_since_comes_first_and_who_was_stopped_goes_on_all_the_same() {
        let mut earlier = note(vec![noted(&[(10, 5)])]);
        earlier.halted = Halted::Freezer {
            path: PathBuf::from("/cgroup/web/cgroup.freeze"),
        };
        let halted = earlier.halted.clone();
        let mut now = note(vec![noted(&[(30, 1)])]);
        now.continues(earlier);
        let first_pages: Vec<u64> = (now.processes[0].used.iter())
            .flat_map(|used| used.ranges().map(|range| range.start / PAGE_BYTES))
            .collect();
        assert_eq!(first_pages, [30, 10]);
        assert_eq!(now.halted, halted);
    }

    #[test]
    fn a_later_process_of_the_same_number_is_not_parked() {
        let mut other = noted(&[(1, 1)]);
        other.mark.start_ticks += 1;
        assert!(note(vec![other]).running().is_empty());
        assert_eq!(note(vec![noted(&[])]).running().len(), 1);
    }
}
