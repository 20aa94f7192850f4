//! Files and groups of which it is known what is in memory, by sources other than the census: `fincore` (`mincore`) and
//! `memory.stat`.
//!
//! **Owns** making files in a group and reading those sources. **Does not own** any expectation but how near is near.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use strata_linux::access::census::{FilePart, Sums, Taken};

pub(crate) use super::live::MIB;
use super::live::{TestGroup, wait_until};

/// Ends the test it stands in, with the reason, where no census of physical memory can be taken.
#[macro_export]
macro_rules! needs_census {
    () => {
        if let Err(error) = strata_linux::access::census::Census::open() {
            $crate::skip!("{error}");
        }
    };
}

/// A directory for files on a disk, or ends the test it stands in with the reason why there is none.
#[macro_export]
macro_rules! open_disk {
    () => {
        match $crate::support::residency::disk() {
            Ok(directory) => directory,
            Err(reason) => $crate::skip!("{reason}"),
        }
    };
}

/// Whether the machine pages out what is idle by itself: page cache then goes that no test has touched.
pub(crate) fn has_damon_pageout() -> bool {
    let actions =
        "cat /sys/kernel/mm/damon/admin/kdamonds/*/contexts/*/schemes/*/action 2>/dev/null";
    let told = Command::new("sh").args(["-c", actions]).output();
    told.is_ok_and(|told| String::from_utf8_lossy(&told.stdout).contains("pageout"))
}

/// Within 1 % or 1 MiB, whichever is more.
pub(crate) fn is_near(found: u64, truth: u64) -> bool {
    found.abs_diff(truth) <= MIB.max(truth / 100)
}

/// Fails if the census is not near the truth.
#[track_caller]
pub(crate) fn assert_near(what: &str, found: u64, truth: u64) {
    assert!(
        is_near(found, truth),
        "{what}: {found} bytes by the census, in truth {truth}"
    );
}

/// Runs a command in a group: what it reads, writes and fills is charged there.
pub(crate) fn in_group(group: &TestGroup, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("sh");
    let join = format!(
        "echo $$ >{}/cgroup.procs && exec \"$0\" \"$@\"",
        group.path.display()
    );
    command.args(["-c", &join]).arg(program);
    command
}

/// Runs a command, which has to succeed.
pub(crate) fn run(mut command: Command) {
    let status = command.stderr(Stdio::null()).status().expect("it starts");
    assert!(status.success(), "{command:?}: {status}");
}

/// Writes a file of noise.
pub(crate) fn write_file(group: &TestGroup, path: &Path, mib: u64) {
    let mut dd = in_group(group, "dd");
    dd.args(["if=/dev/urandom", "bs=1M", &format!("count={mib}")]);
    run({
        dd.arg(format!("of={}", path.display()));
        dd
    });
}

/// Reads a file from its beginning to its end, so many times.
pub(crate) fn read_file(group: &TestGroup, path: &Path, nr_times: usize) {
    for _ in 0..nr_times {
        let mut dd = in_group(group, "dd");
        dd.args([&format!("if={}", path.display()), "of=/dev/null", "bs=64k"]);
        run(dd);
    }
}

/// What `mincore` says is in memory of a file.
pub(crate) fn resident_bytes(path: &Path) -> u64 {
    let output = Command::new("fincore")
        .args(["-b", "-n", "-r", "-o", "RES"])
        .arg(path)
        .output();
    let output = output.expect("fincore (util-linux)");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("{output:?}"))
}

/// A line of a group's `memory.stat`, by its name on v2 and on v1, bytes.
pub(crate) fn stat(group: &TestGroup, v2: &str, v1: &str) -> u64 {
    let text = fs::read_to_string(group.path.join("memory.stat")).expect("memory.stat");
    let is_v1 = group.path.join("memory.limit_in_bytes").exists();
    let name = if is_v1 { v1 } else { v2 };
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// Where files on a disk can be made: a census finds a file by its device, which overlayfs hides.
pub(crate) fn disk() -> Result<tempfile::TempDir, String> {
    match std::env::var_os("STRATA_TEST_DISK") {
        Some(disk) => Ok(tempfile::tempdir_in(disk).expect("directory")),
        None => super::live::disk_directory(),
    }
}

/// Writes a file back and has the kernel forget what is in memory of it. What was just used may be held by a batch of the
/// kernel's for a moment.
pub(crate) fn forget(path: &Path) {
    wait_until("the kernel forgets the file", || {
        File::open(path)
            .and_then(|file| file.sync_all())
            .expect("written back");
        let mut dd = Command::new("dd");
        dd.arg(format!("of={}", path.display()));
        dd.args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0"]);
        run(dd);
        resident_bytes(path) == 0
    });
}

/// What a census found of a file, by group.
pub(crate) fn parts_of(taken: &Taken, path: &Path) -> Vec<FilePart> {
    let inode = fs::metadata(path).expect("a file").ino();
    let device = fs::metadata(path).expect("a file").dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let is_it = |part: &&FilePart| {
        let found = &part.file;
        (found.inode, found.device.major, found.device.minor) == (inode, major, minor)
    };
    taken.files.iter().filter(is_it).copied().collect()
}

/// All together.
pub(crate) fn sum<'a>(parts: impl IntoIterator<Item = &'a Sums>) -> Sums {
    let all = parts.into_iter().copied().reduce(|mut all, sums| {
        all += sums;
        all
    });
    all.unwrap_or_default()
}

/// What a census found of a file.
pub(crate) fn file_sums(taken: &Taken, path: &Path) -> Sums {
    sum(parts_of(taken, path).iter().map(|part| &part.sums))
}

/// What a report of `strata files` says of one file.
#[track_caller]
pub(crate) fn row<'a>(report: &'a Value, path: &Path) -> &'a Value {
    let rows = report["files"].as_array().expect("files");
    let found = rows
        .iter()
        .find(|row| row["path"] == path.display().to_string());
    found.unwrap_or_else(|| panic!("no {} in {report:#}", path.display()))
}
