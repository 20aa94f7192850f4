//! Proof that a live test left nothing behind, and the lock that lets only one run at a time.
//!
//! **Owns** the comparison of cgroups, swap devices, `/run/strata` and child processes before and
//! after a test. **Does not own** any clean-up: a leak fails the test that made it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::strata::patience;

/// How long the keeper may take to undo what a killed Strata left, seconds.
const CLEANUP_LIMIT_S: u64 = 15;

/// Taken at the start of a live test; when it goes out of scope everything must be as it was.
#[derive(Debug)]
pub(crate) struct Guard {
    before: BTreeSet<String>,
    _one_at_a_time: File,
}

impl Guard {
    /// Waits until no other live test runs, and remembers how things are.
    pub(crate) fn new() -> Guard {
        let path = std::env::temp_dir().join("strata-live-tests.lock");
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let lock = lock.expect("lock file");
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("flock");
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
        let deadline = Instant::now() + Duration::from_secs(CLEANUP_LIMIT_S) * patience();
        while !self.leaks().is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        let leaks = self.leaks();
        assert!(leaks.is_empty(), "left behind: {}", leaks.join(", "));
    }
}

/// Everything a run of Strata may create on the machine, as one line each.
fn traces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for root in [
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/unified",
    ] {
        cgroups(Path::new(root), 0, &mut found);
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    for line in swaps.lines().skip(1) {
        found.insert(format!(
            "swap {}",
            line.split_whitespace().next().unwrap_or(line)
        ));
    }
    for entry in fs::read_dir("/run/strata").into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.insert(format!("state {}", entry.path().display()));
        }
    }
    for pid in children() {
        found.insert(format!("child process {pid}"));
    }
    found
}

fn cgroups(directory: &Path, depth: u32, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && entry.file_name().to_string_lossy().contains("strata") {
            found.insert(format!("cgroup {}", path.display()));
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
