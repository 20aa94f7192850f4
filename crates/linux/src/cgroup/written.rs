//! What we wrote last into the control files of a group, so that what somebody else writes is told from it.
//!
//! An operator may set a limit of a group while we hold a budget in it. That value counts from then on: ours
//! stays below it, and at the end it is left as it is, not replaced by what was there before us.
//!
//! **Owns** the last values, file by file, and writing an original value back unless somebody else has written
//! since. **Does not own** which values are written (`limit`, `line`), nor the copy for the keeper
//! (`keeper::written`).
//!
//! **Invariants**
//! - W1: a value is noted before it is written, so a value that is found and was not noted is somebody else's.
//! - W2: what stands in the file stays noted however many writes fail: each look before a write moves it to
//!   the front.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::error::CgroupError;
use super::file::{UNLIMITED, keyed_number, lock, parse_number, read_text, write_back};
use super::identity::GroupMark;

/// Values noted for a file: a dip and the line may try several while another thread's stands.
const NOTED_MAX: usize = 16;

/// The last values of each file, the latest first.
#[derive(Debug, Default)]
pub(super) struct Written(Mutex<BTreeMap<PathBuf, VecDeque<u64>>>);

impl Written {
    /// Notes a value that is about to be written; `keep` stores the noted values where the keeper finds them,
    /// in the order in which they are noted.
    pub(super) fn note(
        &self,
        file: &Path,
        value: u64,
        keep: impl FnOnce(&[u64]) -> io::Result<()>,
    ) -> io::Result<()> {
        let value = normal(value);
        let mut files = lock(&self.0);
        let noted = files.entry(file.to_owned()).or_default();
        if move_to_front(noted, value) {
            return Ok(());
        }
        noted.push_front(value);
        noted.truncate(NOTED_MAX);
        keep(noted.make_contiguous())
    }

    /// Whether `found` is none of ours; nothing is, of a file we have not written to.
    pub(super) fn is_foreign(&self, file: &Path, found: u64) -> bool {
        let mut files = lock(&self.0);
        let noted = files.get_mut(file);
        noted.is_some_and(|noted| !move_to_front(noted, normal(found)))
    }

    /// The values of a file.
    pub(super) fn of(&self, file: &Path) -> Vec<u64> {
        let files = lock(&self.0);
        let noted = files.get(file).into_iter().flatten();
        noted.copied().collect()
    }
}

fn move_to_front(noted: &mut VecDeque<u64>, value: u64) -> bool {
    let at = noted.iter().position(|&known| known == value);
    let known = at.and_then(|at| noted.remove(at));
    noted.extend(known);
    noted.rotate_right(usize::from(known.is_some()));
    known.is_some()
}

/// What became of an original value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// The original value stands there again, or the group is gone.
    Done,
    /// Somebody else has written: left so, and this is what to say about it.
    Left(String),
}

/// Writes an original value back if the file still holds one of `ours` (or if nobody knows what we wrote). A group that
/// is gone needs nothing, one that has another name is found (`mark`: `None` where nobody has marked it, so that its
/// path has to do).
pub fn put_back(
    mark: Option<&GroupMark>,
    path: &Path,
    value: &str,
    ours: &[u64],
) -> Result<PutBack, CgroupError> {
    /// Tries: a group may be renamed once more between the look and the write.
    const TRIES: u32 = 8;
    let mut done = Ok(PutBack::Done);
    for _ in 0..TRIES {
        let Some(here) = located(mark, path)? else {
            return Ok(PutBack::Done);
        };
        done = put_back_at(&here, value, ours, write_back);
        match (&done, mark) {
            (Err(CgroupError::Gone(_)), Some(_)) => {}
            (Err(CgroupError::Gone(_)), None) => return Ok(PutBack::Done),
            _ => break,
        }
    }
    done
}

/// Where `path` is now; `None` if its group is gone.
pub(super) fn located(
    mark: Option<&GroupMark>,
    path: &Path,
) -> Result<Option<PathBuf>, CgroupError> {
    let Some(mark) = mark else {
        return Ok(Some(path.to_owned()));
    };
    mark.locate_inside(path).map_err(|source| CgroupError::Io {
        what: "finding what was renamed or removed,",
        path: path.to_owned(),
        source,
    })
}

fn put_back_at(
    path: &Path,
    value: &str,
    ours: &[u64],
    write: impl Fn(&Path, &str) -> Result<(), CgroupError>,
) -> Result<PutBack, CgroupError> {
    let found = match ours.is_empty() {
        true => None,
        // Unreadable: the write says why.
        false => read_text(path).ok().and_then(|text| value_of(&text)),
    };
    match found {
        Some(found) if Some(found) == value_of(value) => return Ok(PutBack::Done),
        Some(found) if !ours.contains(&found) => {
            return Ok(PutBack::Left(format!(
                "{} was set to {} by somebody else meanwhile: it is left so (before: {value})",
                path.display(),
                text_of(found)
            )));
        }
        _ => {}
    }
    write(path, value).map(|()| PutBack::Done)
}

/// The number in a control file: `u64::MAX` for no limit, the switch of `memory.oom_control`.
pub(super) fn value_of(text: &str) -> Option<u64> {
    let switch = keyed_number(text, "oom_kill_disable");
    let number = || match text.trim() {
        "-1" => Some(u64::MAX),
        number => parse_number(number),
    };
    switch.or_else(number).map(normal)
}

fn normal(value: u64) -> u64 {
    if value < UNLIMITED { value } else { u64::MAX }
}

fn text_of(value: u64) -> String {
    match value {
        u64::MAX => "max".to_owned(),
        number => number.to_string(),
    }
}

/// What to say when somebody else's limit is found during the run.
pub(super) fn told(file: &Path, found: u64) -> String {
    format!(
        "{} was set to {} by somebody else: Strata keeps at or below it and leaves it at the end",
        file.display(),
        text_of(normal(found))
    )
}

#[cfg(test)]
mod tests {
    use super::super::file::write_text;
    use super::*;
    use std::fs;

    const FILE: &str = "/g/memory.max";

    fn note(written: &Written, value: u64) {
        let noted = written.note(Path::new(FILE), value, |_| Ok(()));
        noted.expect("kept");
    }

    #[test]
    fn what_was_not_noted_is_somebody_elses() {
        let written = Written::default();
        let is_foreign = |value| written.is_foreign(Path::new(FILE), value);
        assert!(!is_foreign(1), "nothing of ours is there yet");
        note(&written, 4096);
        note(&written, 8192);
        assert!(!is_foreign(4096) && !is_foreign(8192) && is_foreign(1));
        note(&written, u64::MAX);
        assert!(
            !is_foreign(i64::MAX as u64 - 4095),
            "v1's word for no limit"
        );
    }

    #[test]
    fn what_stands_stays_noted_however_many_writes_fail() {
        let written = Written::default();
        note(&written, 7);
        for failed in 100..200 {
            assert!(!written.is_foreign(Path::new(FILE), 7), "{failed}");
            note(&written, failed);
        }
        assert!(written.of(Path::new(FILE)).contains(&7));
        assert!(written.is_foreign(Path::new(FILE), 100), "long ago");
    }

    #[test]
    fn the_keepers_copy_has_the_same_values_and_is_written_for_new_ones_only() {
        let written = Written::default();
        let mut copies: Vec<Vec<u64>> = Vec::new();
        for value in [1, 2, 1, 1, 2, 3] {
            let kept = written.note(Path::new(FILE), value, |values| {
                copies.push(values.to_vec());
                Ok(())
            });
            kept.expect("kept");
        }
        assert_eq!(copies, [vec![1], vec![2, 1], vec![3, 2, 1]]);
    }

    #[test]
    fn an_original_is_put_back_only_over_a_value_of_ours() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("memory.max");
        let try_with = |found: &str, original: &str, ours: &[u64]| {
            fs::write(&path, found).expect("written");
            // A plain file stands for a control file.
            let done = put_back_at(&path, original, ours, write_text).expect("put back");
            // A write to a control file replaces its value; to a plain file it leaves the rest.
            let text = fs::read_to_string(&path).expect("read");
            (done == PutBack::Done, text.starts_with(original))
        };
        assert_eq!(try_with("100\n", "900", &[200, 100]), (true, true));
        assert_eq!(try_with("300\n", "900", &[200, 100]), (false, false));
        assert_eq!(try_with("300\n", "900", &[]), (true, true), "not known");
        assert_eq!(try_with("max\n", "900", &[100]), (false, false));
        assert_eq!(try_with("900\n", "900", &[100]), (true, true));
        let switch = "oom_kill_disable 0\nunder_oom 0\n";
        assert_eq!(try_with(switch, "1", &[1]), (false, false));
        let Ok(PutBack::Left(said)) = put_back_at(&path, "1", &[1], write_text) else {
            panic!("left as it is");
        };
        assert!(said.contains("set to 0 by somebody else"), "{said}");
        let gone = put_back(None, &directory.path().join("g/memory.max"), "1", &[1]);
        assert_eq!(gone.expect("nothing to do"), PutBack::Done);
    }
}
