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
//! - P3: (v2) a group of ours is below every group that limits us, so that a program we start can't use more
//!   than it could without us.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};

use super::error::{CgroupError, FoundLimit, Occupant};
use super::file::{is_among_groups, read_text, write_text};
use super::held::{Hold, hold};
use super::mounts::Mount;
use super::processes::processes_below;
use crate::undo::{Journal, Undo};
use strata_lru::machine::CgroupVersion as Version;

/// Every group of ours starts like this.
pub(super) const NAME_PREFIX: &str = "strata-";
/// Holds the controllers we switched on in a directory, separated by blanks.
const ENABLED_XATTR: &str = "user.strata.enabled";
/// What a group of ours wants; only the first is needed.
const WANTED_CONTROLLERS: [&str; 2] = ["memory", "pids"];
/// What bounds everything in a group and below, where it holds neither nothing nor `max`.
const LIMIT_FILES: [&str; 8] = [
    "memory.max",
    "memory.high",
    "memory.swap.max",
    "memory.zswap.max",
    "cpu.max",
    "cpuset.cpus",
    "cpuset.mems",
    "io.max",
];
/// How long removal waits for processes that have just ended to leave.
const REMOVE_WAIT: Duration = Duration::from_secs(2);
const REMOVE_POLL: Duration = Duration::from_millis(5);
/// How long another Strata is waited for that switches controllers of the same directory.
const LOCK_WAIT: Duration = Duration::from_secs(1);

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
/// out the memory controller under the rule that only leaves hold processes (v2), as long as no limit is
/// left behind by that.
pub(super) fn make(mount: &Mount, name: &str, journal: &Journal) -> Result<PathBuf, CgroupError> {
    let Some(own) = mount.group_of(None)? else {
        return Err(CgroupError::OutsideMount {
            point: mount.point.clone(),
        });
    };
    let mut why = String::new();
    for parent in own.ancestors() {
        if let (Version::V2, Some(limit)) = (mount.version, limit_left_behind(&own, parent)) {
            return Err(CgroupError::LeavesLimit { own, why, limit });
        }
        let path = parent.join(name);
        let undo = Undo::RemoveGroup { path: path.clone() };
        let recorded = |source| CgroupError::Journal {
            path: path.clone(),
            source,
        };
        journal.record(&undo).map_err(recorded)?;
        match make_below(parent, &path, mount.version) {
            Ok(()) => {
                keep_pids_max(&own, &path);
                return Ok(path);
            }
            Err(error) => why = error.to_string(),
        }
        journal.forget(&undo).map_err(recorded)?;
        if parent == mount.point || mount.version == Version::V1 {
            break;
        }
    }
    Err(CgroupError::NoDelegation { own, why })
}

/// The groups that bound what is in `own`, but would not bound what is in `other`.
fn left_behind<'a>(own: &'a Path, other: &'a Path) -> impl Iterator<Item = &'a Path> {
    own.ancestors()
        .take_while(move |group| !other.starts_with(group))
}

/// A limit on what is in `own` that does not hold in `other`.
pub(super) fn limit_left_behind(own: &Path, other: &Path) -> Option<FoundLimit> {
    let limits = left_behind(own, other).flat_map(|group| {
        LIMIT_FILES.iter().filter_map(move |file| {
            let value = fs::read_to_string(group.join(file)).ok()?;
            let value = value.trim();
            let is_limit = !value.is_empty() && !value.starts_with("max");
            is_limit.then(|| FoundLimit {
                group: group.to_owned(),
                file,
                value: value.to_owned(),
            })
        })
    });
    limits.into_iter().next()
}

/// A limit on the number of tasks is common (systemd sets one for everything it starts) and no reason to
/// refuse: the new group gets the lowest of those it is not below.
pub(super) fn keep_pids_max(own: &Path, path: &Path) {
    let lowest = left_behind(own, path)
        .filter_map(|group| {
            let text = fs::read_to_string(group.join("pids.max")).ok()?;
            text.trim().parse::<u64>().ok()
        })
        .min();
    if let Some(lowest) = lowest
        && let Err(error) = write_text(&path.join("pids.max"), &lowest.to_string())
    {
        tracing::debug!("{error}");
    }
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

/// Keeps two Stratas from switching controllers of the same directory at once. A Strata that acts on the group there holds it for
/// long, so it is not waited for long, and then done without: it only matters when another Strata removes its last group
/// there at that very moment.
fn lock_directory(directory: &Path) -> Result<Option<File>, CgroupError> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match hold(directory)? {
            Hold::Held(file) => return Ok(file),
            Hold::Taken { .. } if Instant::now() < deadline => thread::sleep(REMOVE_POLL),
            Hold::Taken { .. } => {
                tracing::debug!("somebody keeps {} locked", directory.display());
                return Ok(None);
            }
        }
    }
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
            // Nice to have: without `pids` only a limit on tasks is not kept.
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

/// Whether a path can be that of a group that we made.
pub fn may_be_ours(path: &Path) -> bool {
    let is_named_so = path
        .file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(NAME_PREFIX.as_bytes()));
    is_named_so && path.parent().is_some_and(is_among_groups)
}

/// Removes a group made by `make` and takes back what its parent had to hand out. Waits a moment
/// for processes that have just ended. A group that is gone already is no error.
pub fn remove_group(path: &Path) -> Result<(), CgroupError> {
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
            name: {
                let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
                crate::plain::line(comm.unwrap_or_default().trim_end()).into_owned()
            },
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

    /// Made-up groups `a` > `b` > `c` with what their files hold.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(root.path().join("a/b/c")).expect("made");
        for (file, value) in files {
            fs::write(root.path().join(file), value).expect("written");
        }
        root
    }

    #[test]
    fn a_limit_is_left_behind_by_who_is_no_longer_below_it() {
        let root = tree(&[
            ("memory.max", "1\n"),
            ("a/memory.max", "max\n"),
            ("a/cpu.max", "max 100000\n"),
            ("a/cpuset.cpus", "\n"),
            ("a/b/memory.high", "62914560\n"),
            ("a/b/c/memory.max", "max\n"),
        ]);
        let [a, b, c] = ["a", "a/b", "a/b/c"].map(|name| root.path().join(name));
        for inside in [&c, &b] {
            assert_eq!(limit_left_behind(&c, inside), None, "{}", inside.display());
        }
        let left = limit_left_behind(&c, &a).expect("b's");
        assert_eq!((left.group, left.file), (b.clone(), "memory.high"));
        assert_eq!(left.value, "62914560");
        // Beside is outside, however the limit's group is called.
        assert!(limit_left_behind(&b, &a.join("bb")).is_some());
        assert!(limit_left_behind(&b, root.path()).is_some());
        assert_eq!(limit_left_behind(&a, root.path()), None);
    }

    #[test]
    fn of_the_limits_on_tasks_that_are_left_behind_the_lowest_is_kept() {
        let root = tree(&[
            ("a/pids.max", "70\n"),
            ("a/b/pids.max", "50\n"),
            ("a/b/c/pids.max", "max\n"),
        ]);
        let c = root.path().join("a/b/c");
        for (place, expected) in [("new", "50"), ("a/new", "50"), ("a/b/new", "max")] {
            let new = root.path().join(place);
            fs::create_dir(&new).expect("made");
            fs::write(new.join("pids.max"), "max").expect("written");
            keep_pids_max(&c, &new);
            let kept = fs::read_to_string(new.join("pids.max")).expect("read");
            assert!(kept.starts_with(expected), "{place}: {kept}");
        }
    }
}
