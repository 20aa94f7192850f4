//! Proof that a live test left nothing behind, and the lock that has one run at a time unless the runner knows them apart.
//!
//! **Owns** the comparison of cgroups, swap devices, state directories and child processes before and
//! after a test. **Does not own** any clean-up: a leak fails the test that made it.
//!
//! `scripts/live-tests.sh` runs several beside each other. Each has a group id of its own, which the kernel gives every
//! cgroup and file that the test and its children make, and a run directory of its own (`STRATA_RUN_DIR`).
//! `STRATA_TEST_BESIDE` says so: then only what is the test's own counts. Whose a zram device is can't be told: the runner
//! looks at the whole machine at the end.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::strata::patience;

/// How long the keeper may take to undo what a killed Strata left, seconds.
const CLEANUP_LIMIT_S: u64 = 15;
/// The same beside other tests; the keeper looks each half minute.
const BESIDE_LIMIT_S: u64 = 100;

/// Taken at the start of a live test; when it goes out of scope everything must be as it was.
#[derive(Debug)]
pub(crate) struct Guard {
    before: BTreeSet<String>,
    _one_at_a_time: File,
}

impl Guard {
    /// Waits until no other live test runs but those beside this one, and remembers how things are.
    pub(crate) fn new() -> Guard {
        let path = std::env::temp_dir().join("strata-live-tests.lock");
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let lock = lock.expect("lock file");
        let operation = match is_beside_others() {
            true => FlockOperation::LockShared,
            false => FlockOperation::LockExclusive,
        };
        flock(&lock, operation).expect("flock");
        Guard {
            before: traces(),
            _one_at_a_time: lock,
        }
    }

    /// What is there now and was not before.
    pub(crate) fn leaks(&self) -> Vec<String> {
        traces().difference(&self.before).cloned().collect()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A test that has failed already says more than what it could not clean up.
        if thread::panicking() {
            return;
        }
        gone_in_time(|| self.leaks());
    }
}

/// Nothing is left in the directory of a Strata that has ended, at once; soon, where it told that swap stays in use.
#[track_caller]
pub(crate) fn assert_undone(directory: &Path, told: &str) {
    let left = || {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let directories = entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir());
        directories.map(|path| path.display().to_string()).collect()
    };
    match told.contains("stays in use") {
        true => gone_in_time(left),
        false => assert_eq!(left(), Vec::<String>::new(), "left behind"),
    }
}

/// The keeper has its time; beside other tests, swap stays as long as one of their full groups has pages in it.
#[track_caller]
fn gone_in_time(left: impl Fn() -> Vec<String>) {
    let limit_s = if is_beside_others() {
        BESIDE_LIMIT_S
    } else {
        CLEANUP_LIMIT_S
    };
    let deadline = Instant::now() + Duration::from_secs(limit_s) * patience();
    while !left().is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left(), Vec::<String>::new(), "left behind");
}

/// Whether other tests run beside this one, which then knows its own by its group id.
fn is_beside_others() -> bool {
    std::env::var_os("STRATA_TEST_BESIDE").is_some()
}

/// Where runs of this test keep their state.
pub(crate) fn run_dir() -> PathBuf {
    std::env::var_os("STRATA_RUN_DIR").map_or_else(|| PathBuf::from("/run/strata"), PathBuf::from)
}

/// Everything a run of Strata may create on the machine, or for this test, as one line each.
fn traces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut groups = Vec::new();
    for root in [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/unified",
    ] {
        cgroups(Path::new(root), 0, &mut groups);
    }
    let own = rustix::process::getegid().as_raw();
    let is_ours =
        |path: &Path| !is_beside_others() || fs::metadata(path).is_ok_and(|made| made.gid() == own);
    groups.retain(|path| is_ours(path));
    found.extend(
        groups
            .iter()
            .map(|path| format!("cgroup {}", path.display())),
    );
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    for line in swaps.lines().skip(1) {
        let name = line.split_whitespace().next().unwrap_or(line);
        if is_ours(Path::new(name)) {
            found.insert(format!("swap {name}"));
        }
    }
    for entry in fs::read_dir(run_dir()).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.insert(format!("state {}", entry.path().display()));
        }
    }
    for pid in children() {
        found.insert(format!("child process {pid}"));
    }
    found
}

fn cgroups(directory: &Path, depth: u32, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && entry.file_name().to_string_lossy().contains("strata") {
            found.push(path);
        } else if is_directory && depth < 3 {
            cgroups(&path, depth + 1, found);
        }
    }
}

/// Children of this test process, by any of its threads.
fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let text: Vec<String> = lists.collect();
    text.iter()
        .flat_map(|list| list.split_whitespace())
        .filter_map(|p| p.parse().ok())
        .collect()
}
