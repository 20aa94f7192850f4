//! Making and removing a group's directory by hand.
//!
//! **Owns** the search for a parent that can hand out the memory controller, what that takes
//! (`cgroup.subtree_control`), and taking it back. **Does not own** scopes made by systemd.
//!
//! **Invariants**
//! - P1: a controller switched on in a parent is noted on the parent itself (an extended attribute,
//!   written first, gone with the directory or a reboot), so that whoever removes the last of our
//!   groups below it can switch it off, whichever process switched it on.
//! - P2: nobody is killed or moved to make a directory removable.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, XattrFlags, flock, getxattr, removexattr, setxattr};

use super::error::Occupant;
use super::file::{read_text, write_text};
use super::mounts::Mount;
use super::processes::processes_below;
use super::{CgroupError, Version};
use crate::keeper::{Journal, Undo};

/// Every group of ours starts like this.
pub(super) const NAME_PREFIX: &str = "strata-";
/// Holds the controllers we switched on in a directory, separated by blanks.
const ENABLED_XATTR: &str = "user.strata.enabled";
/// What a group of ours wants; only the first is needed.
const WANTED_CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// How long removal waits for processes that have just ended to leave.
const REMOVE_WAIT: Duration = Duration::from_secs(2);
const REMOVE_POLL: Duration = Duration::from_millis(5);

/// The directory name of a group.
pub(super) fn group_name(id: &str) -> Result<String, CgroupError> {
    let is_plain = !id.is_empty()
        && id.len() <= 64
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if is_plain {
        Ok(format!("{NAME_PREFIX}{id}"))
    } else {
        Err(CgroupError::BadName(id.to_owned()))
    }
}

/// Makes the group by hand: a child of our own group (v1), or of the nearest ancestor that can hand
/// out the memory controller under the rule that only leaves hold processes (v2).
pub(super) fn make(mount: &Mount, name: &str, journal: &Journal) -> Result<PathBuf, CgroupError> {
    // Outside our cgroup namespace the mount point is the best parent that can be seen.
    let own = mount.group_of(None)?.unwrap_or_else(|| mount.point.clone());
    let mut why = String::new();
    for parent in own.ancestors() {
        let path = parent.join(name);
        let undo = Undo::RemoveGroup { path: path.clone() };
        let recorded = |source| CgroupError::Journal {
            path: path.clone(),
            source,
        };
        journal.record(&undo).map_err(recorded)?;
        match make_below(parent, &path, mount.version) {
            Ok(()) => return Ok(path),
            Err(error) => why = error.to_string(),
        }
        journal.forget(&undo).map_err(recorded)?;
        if parent == mount.point || mount.version == Version::V1 {
            break;
        }
    }
    Err(CgroupError::NoDelegation { own, why })
}

fn make_below(parent: &Path, path: &Path, version: Version) -> Result<(), CgroupError> {
    let _lock = match version {
        Version::V1 => None,
        Version::V2 => {
            let lock = lock_directory(parent)?;
            enable_controllers(parent)?;
            Some(lock)
        }
    };
    let made = fs::create_dir(path).map_err(|source| CgroupError::io("making", path, source));
    if made.is_err() && version == Version::V2 {
        disable_if_last(parent);
    }
    made
}

/// Keeps two Stratas from switching controllers of the same directory at once.
fn lock_directory(directory: &Path) -> Result<File, CgroupError> {
    let locked = File::open(directory).and_then(|file| {
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    });
    locked.map_err(|source| CgroupError::io("locking", directory, source))
}

fn enable_controllers(parent: &Path) -> Result<(), CgroupError> {
    let control = parent.join("cgroup.subtree_control");
    let enabled = read_text(&control)?;
    let offered = read_text(&parent.join("cgroup.controllers"))?;
    let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
    if !has(&offered, "memory") {
        return Err(CgroupError::NotOffered {
            path: parent.to_owned(),
            file: "memory controller",
            why: "its own parent does not hand it out",
        });
    }
    for name in WANTED_CONTROLLERS {
        if has(&enabled, name) || !has(&offered, name) {
            continue;
        }
        note_enabled(parent, name)?;
        match write_text(&control, &format!("+{name}")) {
            Err(error) if name == "memory" => {
                disable_if_last(parent);
                return Err(error);
            }
            // Nice to have: without `pids` only `set_pids_max` is missing.
            Err(error) => tracing::debug!("{error}"),
            Ok(()) => {}
        }
    }
    Ok(())
}

fn noted(parent: &Path) -> String {
    let mut value = [0; 64];
    let count = getxattr(parent, ENABLED_XATTR, &mut value).unwrap_or(0);
    String::from_utf8_lossy(&value[..count]).into_owned()
}

fn note_enabled(parent: &Path, name: &str) -> Result<(), CgroupError> {
    let note = format!("{} {name}", noted(parent));
    let note = note.trim_start();
    setxattr(parent, ENABLED_XATTR, note.as_bytes(), XattrFlags::empty())
        .map_err(|errno| CgroupError::io("marking", parent, io::Error::from(errno)))
}

/// Switches off what one of us switched on, unless another group of ours still needs it.
fn disable_if_last(parent: &Path) {
    let note = noted(parent);
    if note.is_empty() || has_group_of_ours(parent) {
        return;
    }
    let control = parent.join("cgroup.subtree_control");
    let mut left = Vec::new();
    for name in note.split_whitespace() {
        // Somebody else may have come to rely on it meanwhile; the kernel says EBUSY if so.
        if let Err(error) = write_text(&control, &format!("-{name}")) {
            tracing::warn!("left controller {name} on: {error}");
            left.push(name);
        }
    }
    let noted = if left.is_empty() {
        removexattr(parent, ENABLED_XATTR)
    } else {
        let left = left.join(" ");
        setxattr(parent, ENABLED_XATTR, left.as_bytes(), XattrFlags::empty())
    };
    if let Err(errno) = noted {
        tracing::debug!("{}: {errno}", parent.display());
    }
}

fn has_group_of_ours(parent: &Path) -> bool {
    let Ok(entries) = fs::read_dir(parent) else {
        return true;
    };
    entries.flatten().any(|entry| {
        entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(NAME_PREFIX.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    })
}

/// Removes a group made by [`make`] and takes back what its parent had to hand out. Waits a moment
/// for processes that have just ended. A group that is gone already is no error.
pub(crate) fn remove_group(path: &Path) -> Result<(), CgroupError> {
    let deadline = Instant::now() + REMOVE_WAIT;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => break,
            Err(source) if source.kind() == io::ErrorKind::NotFound => break,
            Err(source) if source.raw_os_error() == Some(libc::EBUSY) => {
                if Instant::now() < deadline {
                    thread::sleep(REMOVE_POLL);
                    continue;
                }
                return Err(CgroupError::StillInhabited {
                    path: path.to_owned(),
                    occupants: occupants(path),
                });
            }
            Err(source) => return Err(CgroupError::io("removing", path, source)),
        }
    }
    if let Some(parent) = path.parent()
        && parent.join("cgroup.subtree_control").exists()
    {
        let _lock = lock_directory(parent)?;
        disable_if_last(parent);
    }
    Ok(())
}

fn occupants(path: &Path) -> Vec<Occupant> {
    let pids = processes_below(path).unwrap_or_default();
    pids.into_iter()
        .map(|pid| Occupant {
            pid,
            name: fs::read_to_string(format!("/proc/{pid}/comm"))
                .unwrap_or_default()
                .trim_end()
                .to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_not_leave_the_directory() {
        for id in ["", "a/b", "../x", "a b", "x\n", &"y".repeat(65)] {
            assert!(group_name(id).is_err(), "{id:?}");
        }
        assert_eq!(group_name("42-a.b_c").expect("plain"), "strata-42-a.b_c");
    }
}
