//! What is parked: one file a target, `/run/strata/parked/<id>`.
//!
//! **Owns** the file and its id, and finding it by id or process. **Does not own** what is done with what it says.
//!
//! **Invariants**
//! - N1: a file is absent or whole.
//! - N2: who parks or wakes a target holds its lock.
//! - N3: a note of another boot, or of processes that have all ended, says nothing any more, and is removed: unless a group
//!   stands still by it.
//! - N4: no two groups have one id.
//! - N5: a second note of an id adds to the first: nobody that was stopped, and no process, is forgotten.

use super::halted::Halted;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::run_dir::trust::{self, Missing};
use strata_linux::run_dir::{self, PARKED_DIR, ProcessMark, boot_id, lock_in, names, run_dir};

/// Raised when an older Strata could misread the file.
const VERSION: u32 = 1;

/// Ids of groups begin so; those of processes are numbers.
const GROUP_PREFIX: &str = "g-";
/// Longest id: with what is put around it, it is a file's name (255 bytes).
const ID_BYTES_MAX: usize = 200;
/// Before the number of a group whose name is too long for an id; of no name.
const CUT: char = '~';

/// The id of a group that the kernel knows by `number`.
pub(super) fn id_of_group(name: &str, number: u64) -> String {
    let mut id = GROUP_PREFIX.to_owned();
    for byte in name.trim_start_matches('/').bytes() {
        match byte {
            b'/' => id.push(':'),
            byte if byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte) => {
                id.push(char::from(byte));
            }
            byte => id.push_str(&format!("%{byte:02x}")),
        }
    }
    if id.len() > ID_BYTES_MAX {
        let number = format!("{CUT}{number}");
        id.truncate(ID_BYTES_MAX - number.len());
        id.push_str(&number);
    }
    id
}

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
    /// What it had in swap before, as a guard takes some of a group before it parks the group, bytes.
    #[serde(default)]
    pub swapped_before_bytes: u64,
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
            swapped_before_bytes: 0,
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

    /// What it held before, in memory and in swap, bytes.
    pub fn held_before_bytes(&self) -> u64 {
        self.resident_before_bytes + self.swapped_before_bytes
    }

    /// Adds what a note before said of the same id: who was stopped is, and what was away comes back after what was used since,
    /// as it counts as older.
    pub(super) fn continues(&mut self, before: Note) {
        if before.held_before_bytes() > self.held_before_bytes() {
            self.resident_before_bytes = before.resident_before_bytes;
            self.swapped_before_bytes = before.swapped_before_bytes;
        }
        self.halted = std::mem::take(&mut self.halted).and(before.halted);
        for old in before.processes {
            let mut known = self.processes.iter_mut();
            match known.find(|noted| noted.mark == old.mark) {
                Some(noted) => noted.used.extend(old.used),
                None if old.mark.is_running() => self.processes.push(old),
                None => {}
            }
        }
    }

    /// Whether the note still says anything: of a process that runs, or of a group that stands still.
    fn is_left(&self) -> bool {
        let runs = self.processes.iter().any(|noted| noted.mark.is_running());
        runs || self.halted.is_standing()
    }

    pub(super) fn save(&self) -> Result<(), NoteError> {
        let path = path_of(&self.id);
        let write = || {
            trust::check_directory(&directory(), Missing::Make)?;
            let draft = draft_of(&self.id);
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
            let Some(text) = run_dir::read(&path)? else {
                return Ok(None);
            };
            let note: Note = serde_json::from_slice(&text)?;
            match note.version == VERSION {
                true => Ok(Some(note)),
                false => Err(io::Error::other(format!("it has version {}", note.version))),
            }
        };
        let note = read().map_err(NoteError::of("reading what is parked from", &path))?;
        let now = boot_id().unwrap_or_default();
        Ok(note.filter(|note| note.boot_id == now && note.is_left()))
    }

    pub(super) fn remove(id: &str) -> Result<(), NoteError> {
        for path in [draft_of(id), path_of(id)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(NoteError::of("removing", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The right to park and wake a target; the directory goes with the last one.
#[derive(Debug)]
pub(super) struct Lock(Option<run_dir::Lock>);

impl Drop for Lock {
    fn drop(&mut self) {
        self.0 = None;
        // It is not empty as long as anything is parked.
        let _left = fs::remove_dir(directory());
    }
}

/// Waits for that right.
pub(super) fn lock(id: &str) -> Result<Lock, NoteError> {
    let held = lock_in(&directory(), id).map_err(NoteError::of("locking", &path_of(id)))?;
    Ok(Lock(Some(held)))
}

/// Whether there is a note of that id; it may say nothing any more.
pub(super) fn is_there(id: &str) -> bool {
    path_of(id).exists()
}

/// All that is parked, by id; in the place of what can't be read stands why. A file that says nothing any more is passed over.
pub fn parked() -> Vec<Result<Note, NoteError>> {
    match ids() {
        Ok(ids) => ids
            .iter()
            .filter_map(|id| Note::load(id).transpose())
            .collect(),
        Err(error) => vec![Err(error)],
    }
}

/// What a process is parked under.
///
/// # Errors
/// It is nothing that can be read, and there is something that can't be.
pub fn find(pid: i32) -> Result<Option<Note>, NoteError> {
    let mut trouble = Ok(None);
    for note in parked() {
        match note {
            Ok(note) if note.running().contains(&pid) => return Ok(Some(note)),
            Ok(_) => {}
            Err(error) => trouble = Err(error),
        }
    }
    trouble
}

/// What any note says was stopped of these processes, under whatever id.
pub(super) fn halted_of(pids: &[i32]) -> Halted {
    let notes = parked().into_iter().flatten();
    notes.fold(Halted::No, |all, note| all.and(note.halted.of(pids)))
}

/// Whether any note says that a group was stopped by this control file.
pub(super) fn is_frozen_by_us(file: &Path) -> bool {
    let ours = Halted::Freezer {
        path: file.to_owned(),
    };
    let mut notes = parked().into_iter().flatten();
    notes.any(|note| note.halted.clone().and(ours.clone()) == note.halted)
}

/// Removes what says nothing any more: notes, and what whoever died at it has left. Returns whether any note is left.
pub(super) fn sweep() -> bool {
    let Ok(found) = names(&directory()) else {
        return true;
    };
    let own = found.iter().filter_map(|name| name.to_str());
    let of_dead = |name: &str| {
        let name = name.strip_prefix('.')?;
        let id = name.strip_suffix(".lock");
        let id = id.or_else(|| name.strip_suffix(".new"))?;
        Some(id.to_owned())
    };
    let mut is_left = false;
    for id in own.map(|name| of_dead(name).unwrap_or_else(|| name.to_owned())) {
        let is_over = || matches!(Note::load(&id), Ok(None));
        // Who is at it may write it anew until the lock is had.
        let lock = is_over().then(|| lock(&id)).and_then(Result::ok);
        let is_removed = lock.is_some() && is_over() && Note::remove(&id).is_ok();
        is_left |= !is_removed;
    }
    is_left
}

/// Ids of all notes, in order.
pub(super) fn ids() -> Result<Vec<String>, NoteError> {
    let found = names(&directory()).map_err(NoteError::of("looking at", &directory()))?;
    let ids = found.into_iter().filter_map(|name| name.into_string().ok());
    Ok(ids.filter(|name| !name.starts_with('.')).collect())
}

fn directory() -> PathBuf {
    run_dir().join(PARKED_DIR)
}

fn path_of(id: &str) -> PathBuf {
    directory().join(id)
}

fn draft_of(id: &str) -> PathBuf {
    directory().join(format!(".{id}.new"))
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
        earlier.swapped_before_bytes = 9;
        let mut now = note(vec![noted(&[(30, 1)])]);
        let signal = Halted::Signal {
            processes: vec![now.processes[0].mark],
        };
        now.halted = signal.clone();
        let halted = signal.and(earlier.halted.clone());
        let mut other = noted(&[]);
        other.mark = ProcessMark::of(std::os::unix::process::parent_id() as i32).expect("runs");
        earlier.processes.push(other.clone());
        other.mark.start_ticks += 1;
        earlier.processes.push(other);
        now.continues(earlier);
        assert_eq!(now.running().len(), 2, "whoever has ended is forgotten");
        assert_eq!(now.held_before_bytes(), 9);
        let first_pages: Vec<u64> = (now.processes[0].used.iter())
            .flat_map(|used| used.ranges().map(|range| range.start / PAGE_BYTES))
            .collect();
        assert_eq!(first_pages, [30, 10]);
        assert_eq!(now.halted, halted);
    }

    #[test]
    fn no_two_groups_have_one_id_and_none_is_too_long_for_a_file() {
        let names = [
            "/a/b", "/a-b", "/a:b", "/a%3ab", "/a%2fb", "/a b", "/a\\xff", "/a~7", "/",
        ];
        let mut ids: Vec<String> = names.iter().map(|name| id_of_group(name, 7)).collect();
        assert_eq!(ids[0], "g-a:b");
        let long = format!("/{}", "x".repeat(255));
        ids.extend([id_of_group(&long, 7), id_of_group(&long, 8)]);
        assert!(
            ids.iter()
                .all(|id| id.len() <= ID_BYTES_MAX && id.is_ascii())
        );
        ids.sort();
        let nr_ids = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), nr_ids, "{ids:?}");
    }

    #[test]
    fn a_later_process_of_the_same_number_is_not_parked() {
        let mut other = noted(&[(1, 1)]);
        other.mark.start_ticks += 1;
        assert!(note(vec![other]).running().is_empty());
        assert_eq!(note(vec![noted(&[])]).running().len(), 1);
    }
}
