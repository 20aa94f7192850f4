//! Which group a group is, whatever it is called.
//!
//! A group of cgroup v1 can be renamed, and another one can be made under its old name. Its directory's
//! inode number is its own for as long as the machine runs, so a group is known by that.
//!
//! **Owns** telling groups apart, telling which lies in which, and finding a group that was renamed.
//! **Does not own** who acts on a group (`keeper`).
//!
//! **Invariants**
//! - N1: a group is found by its inode or not at all: nothing is ever done to another group that has
//!   come to be at its path.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::as_text;

/// No machine has so many groups; a bound for the search.
const GROUPS_MAX: usize = 1 << 20;

/// A directory, by what does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DirectoryId {
    device: u64,
    inode: u64,
}

impl DirectoryId {
    fn of(metadata: &Metadata) -> DirectoryId {
        DirectoryId {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// A group that is known again under any name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMark {
    /// Directory of the group when it was marked.
    #[serde(with = "as_text")]
    pub path: PathBuf,
    /// Itself, then the groups it lies in, up to the top of what is mounted. A group never moves to
    /// another parent.
    chain: Vec<DirectoryId>,
}

impl GroupMark {
    /// Marks the group at `path`, which is absolute and without symbolic links.
    pub fn of(path: &Path) -> io::Result<GroupMark> {
        let mut chain: Vec<DirectoryId> = Vec::new();
        for directory in path.ancestors() {
            let id = DirectoryId::of(&fs::metadata(directory)?);
            if chain.first().is_some_and(|own| own.device != id.device) {
                break;
            }
            chain.push(id);
        }
        Ok(GroupMark {
            path: path.to_owned(),
            chain,
        })
    }

    /// Whether the group of this mark is that of `other` or lies below it.
    pub fn is_within(&self, other: &GroupMark) -> bool {
        other
            .chain
            .first()
            .is_some_and(|other| self.chain.contains(other))
    }

    /// Where the group is now; `None` if it is gone.
    ///
    /// # Errors
    /// If that can't be told.
    pub fn locate(&self) -> io::Result<Option<PathBuf>> {
        if self.is_at(&self.path) {
            return Ok(Some(self.path.clone()));
        }
        let is_top = |path: &&Path| {
            let found = fs::metadata(path).map(|found| DirectoryId::of(&found));
            found.is_ok_and(|found| Some(&found) == self.chain.last())
        };
        let Some(top) = self.path.ancestors().find(is_top) else {
            let why = "it is not where it was, and its hierarchy is not mounted there any more";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        };
        let mut to_visit = vec![top.to_owned()];
        let mut nr_visited = 0;
        while let Some(directory) = to_visit.pop() {
            nr_visited += 1;
            if nr_visited > GROUPS_MAX {
                return Err(io::Error::other(
                    "there are too many groups to look through",
                ));
            }
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                // Gone meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    let path = entry.path();
                    if self.is_at(&path) {
                        return Ok(Some(path));
                    }
                    to_visit.push(path);
                }
            }
        }
        Ok(None)
    }

    /// Where a path in the group (or the group's own) is now; `None` if the group is gone.
    pub(crate) fn locate_inside(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        let Ok(inside) = path.strip_prefix(&self.path) else {
            return Ok(Some(path.to_owned()));
        };
        let here = self.locate()?;
        Ok(here.map(|here| match inside.as_os_str().is_empty() {
            true => here,
            false => here.join(inside),
        }))
    }

    fn is_at(&self, path: &Path) -> bool {
        let found = fs::metadata(path).map(|found| DirectoryId::of(&found));
        found.is_ok_and(|found| Some(&found) == self.chain.first())
    }
}

/// Where a group in use is, followed through renames.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) mark: GroupMark,
    last: Mutex<PathBuf>,
}

impl Place {
    pub(super) fn new(mark: GroupMark) -> Place {
        Place {
            last: Mutex::new(mark.path.clone()),
            mark,
        }
    }

    /// Directory of the group now; the last one known if the group is gone.
    pub(super) fn here(&self) -> PathBuf {
        // A poisoned memory of where it was is still that.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.mark.is_at(&last)
            && let Ok(Some(found)) = self.mark.locate()
        {
            tracing::debug!("{} is {} now", last.display(), found.display());
            *last = found;
        }
        last.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories of a file system do as well as those of groups.
    fn tree() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().expect("a directory");
        let top = root.path().canonicalize().expect("there");
        fs::create_dir_all(top.join("a/b/c")).expect("made");
        fs::create_dir_all(top.join("a/d")).expect("made");
        (root, top)
    }

    /// As if the hierarchy were mounted at `top`.
    fn mark(top: &Path, path: &str) -> GroupMark {
        let mut mark = GroupMark::of(&top.join(path)).expect("there");
        mark.chain.truncate(path.split('/').count() + 1);
        mark
    }

    #[test]
    fn a_group_lies_in_itself_and_in_those_above_it_only() {
        let (_root, top) = tree();
        let (a, b, d) = (mark(&top, "a"), mark(&top, "a/b"), mark(&top, "a/d"));
        assert!(b.is_within(&a) && b.is_within(&b));
        assert!(!a.is_within(&b) && !b.is_within(&d) && !d.is_within(&b));
    }

    #[test]
    fn a_renamed_group_is_found_with_what_is_in_it() {
        let (_root, top) = tree();
        let c = mark(&top, "a/b/c");
        fs::rename(top.join("a/b"), top.join("a/x")).expect("renamed");
        fs::rename(top.join("a"), top.join("y")).expect("renamed");
        assert_eq!(c.locate().expect("looked"), Some(top.join("y/x/c")));
        let inside = c.locate_inside(&top.join("a/b/c/memory.max"));
        assert_eq!(inside.expect("looked"), Some(top.join("y/x/c/memory.max")));
        // What is not in it is not moved with it.
        let outside = c.locate_inside(&top.join("a/d/memory.max"));
        assert_eq!(outside.expect("looked"), Some(top.join("a/d/memory.max")));
        assert_eq!(Place::new(c).here(), top.join("y/x/c"));
    }

    #[test]
    fn another_group_at_its_path_is_not_taken_for_it() {
        let (_root, top) = tree();
        let d = mark(&top, "a/d");
        // The new one is made first: a file system may give the number of what is gone to the next.
        fs::create_dir(top.join("a/new")).expect("made");
        fs::remove_dir(top.join("a/d")).expect("removed");
        fs::rename(top.join("a/new"), top.join("a/d")).expect("renamed");
        assert_eq!(d.locate().expect("looked"), None);
    }
}
