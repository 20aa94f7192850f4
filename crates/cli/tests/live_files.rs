//! `strata files`: names, groups and sizes of files of which it is known what is in memory; estimates; missing rights.

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use strata_host::access::census::Census;
use support::leaks::Guard;
use support::live::TestGroup;
use support::residency::{assert_near, forget, read_file, resident_bytes, stat, write_file};
use support::strata::{Strata, binary};

macro_rules! open_census {
    () => {
        if let Err(error) = Census::open() {
            skip!("{error}");
        }
    };
}

/// Holds a file open.
struct Holder(Child);

impl Holder {
    fn start(path: &Path) -> Holder {
        let mut sleep = Command::new("sleep");
        let child = sleep
            .arg("600")
            .stdin(File::open(path).expect("a file"))
            .spawn();
        Holder(child.expect("sleep starts"))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn files(args: &[&str]) -> Value {
    let done = Strata::new(["files", "--whole", "--top", "0", "--format", "json"]).args(args);
    let done = done.finish().expect_success();
    serde_json::from_str(&done.stdout).unwrap_or_else(|error| panic!("{error}: {}", done.stdout))
}

fn row<'a>(report: &'a Value, path: &Path) -> &'a Value {
    let rows = report["files"].as_array().expect("files");
    let found = rows
        .iter()
        .find(|row| row["path"] == path.display().to_string());
    found.unwrap_or_else(|| panic!("no {} in {report:#}", path.display()))
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().expect("a path")
}

#[test]
fn files_are_told_by_name_open_or_not_deleted_or_not() {
    open_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("census-names");
    let directory = canonical(directory.path());
    let [open, closed, deleted] =
        ["open", "closed with blank", "deleted"].map(|name| directory.join(name));
    for path in [&open, &closed, &deleted] {
        write_file(&group, path, 4);
    }
    let held = resident_bytes(&deleted);
    let _holders = [Holder::start(&open), Holder::start(&deleted)];
    fs::remove_file(&deleted).expect("removed");
    let report = files(&["--cgroup", &group.path.display().to_string()]);
    let name = group
        .path
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    for (path, is_open, is_deleted) in [
        (&open, true, false),
        (&closed, false, false),
        (&deleted, true, true),
    ] {
        let row = row(&report, path);
        assert_eq!(row["is_open"], is_open, "{row}");
        assert_eq!(row["is_deleted"], is_deleted, "{row}");
        assert!(
            row["group"]
                .as_str()
                .is_some_and(|group| group.ends_with(&name)),
            "{row}"
        );
        assert_near("cached", row["cached_bytes"].as_u64().expect("bytes"), held);
    }
    let total = report["total_bytes"].as_u64().expect("bytes");
    assert_near("all of the group", total, stat(&group, "file", "cache"));
    let under = files(&["--under", &directory.display().to_string()]);
    row(&under, &closed);
    let rows = under["files"].as_array().expect("files");
    let is_below = |row: &Value| {
        row["path"]
            .as_str()
            .is_some_and(|path| Path::new(path).starts_with(&directory))
    };
    assert!(rows.iter().all(is_below), "{under:#}");
    let table = Strata::new(["files", "--whole", "--top", "0", "--cgroup"]).arg(&group.path);
    let table = table.finish().expect_success().stdout;
    assert!(
        table.contains(&format!("{} (deleted)\n", deleted.display())),
        "{table}"
    );
}

#[test]
fn an_estimate_is_made_within_its_time_and_its_processor() {
    open_census!();
    let started = std::time::Instant::now();
    let estimate = Strata::new(["files", "--within", "1s", "--format", "json"])
        .finish()
        .expect_success();
    let report: Value = serde_json::from_str(&estimate.stdout).expect("JSON");
    let share = report["sampled_share"].as_f64().expect("a share");
    assert!(share > 0.0 && share <= 1.0, "{share}");
    assert!(started.elapsed() < Duration::from_secs(10) * support::strata::patience());
    assert!(
        report["files"]
            .as_array()
            .is_some_and(|files| files.len() <= 30)
    );
}

#[test]
fn without_root_the_census_says_what_it_needs() {
    open_census!();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    // The binary may lie where others may not look: it is opened before root is given up.
    let mut copy = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
    let mut bytes = Vec::new();
    File::open(binary())
        .expect("strata")
        .read_to_end(&mut bytes)
        .expect("read");
    copy.write_all(&bytes).expect("written");
    let path = copy.into_temp_path();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).expect("mode");
    let output = command
        .arg(&path)
        .args(["files", "--whole"])
        .output()
        .expect("setpriv (util-linux)");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("CAP_BPF") && told.contains("run as root"),
        "{told}"
    );
    assert!(!told.contains("smaps"), "{told}");
}

/// What the program says of a file's content.
fn checksum(path: &Path) -> Vec<u8> {
    let output = Command::new("sha256sum").arg(path).output();
    output.expect("sha256sum (coreutils)").stdout
}

#[test]
fn what_is_cold_is_dropped_and_what_is_used_dirty_or_of_another_group_stays() {
    open_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let (group, other) = (TestGroup::new("drop-cold"), TestGroup::new("drop-other"));
    let directory = canonical(directory.path());
    let [cold, used, of_other, deleted] =
        ["cold", "used", "of-other", "deleted"].map(|name| directory.join(name));
    for (group, path) in [
        (&group, &cold),
        (&group, &used),
        (&other, &of_other),
        (&group, &deleted),
    ] {
        write_file(group, path, 8);
        forget(path);
        read_file(group, path, 1);
    }
    let sums = [&cold, &used, &of_other].map(|path| checksum(path));
    // The checksums read all of them once more.
    for path in [&cold, &of_other] {
        forget(path);
    }
    read_file(&group, &cold, 1);
    read_file(&other, &of_other, 1);
    let _holder = Holder::start(&deleted);
    fs::remove_file(&deleted).expect("removed");
    let drop_cold = |args: &[&str]| {
        let group = group.path.display().to_string();
        let args = [&["--drop-cold", "2s", "--cgroup", &group], args].concat();
        files(&args)["dropped"].clone()
    };
    let bytes = |dropped: &Value, name: &str| dropped[name].as_u64().expect("bytes");
    let dry = drop_cold(&["--dry-run"]);
    let held = resident_bytes(&cold);
    assert_near(
        "would be dropped",
        bytes(&dry, "tried_bytes"),
        2 * held + resident_bytes(&used),
    );
    assert_eq!((bytes(&dry, "dropped_bytes"), held), (0, 8 << 20), "{dry}");
    let reader = std::thread::spawn({
        let used = used.clone();
        move || {
            for _ in 0..8 {
                std::thread::sleep(Duration::from_millis(400));
                let _ = fs::read(&used);
            }
        }
    });
    let dropped = drop_cold(&[]);
    reader.join().expect("it reads");
    assert_near("dropped", bytes(&dropped, "dropped_bytes"), 2 * held);
    assert_eq!(resident_bytes(&cold), 0, "{dropped}");
    assert_eq!(resident_bytes(&used), 8 << 20, "{dropped}");
    assert_eq!(resident_bytes(&of_other), 8 << 20, "{dropped}");
    assert_eq!([&cold, &used, &of_other].map(|path| checksum(path)), sums);
}

#[test]
fn dirty_pages_are_never_dropped() {
    open_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("drop-dirty");
    let path = directory.path().join("dirty");
    write_file(&group, &path, 8);
    let content = fs::read(&path).expect("read");
    let group = group.path.display().to_string();
    let report = files(&["--drop-cold", "1s", "--cgroup", &group]);
    assert!(report["dropped"]["dropped_bytes"].is_u64(), "{report:#}");
    assert_eq!(fs::read(&path).expect("read"), content);
}

#[test]
fn a_watch_tells_what_was_read_meanwhile_and_what_lay_idle() {
    open_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("files-watch");
    let directory = canonical(directory.path());
    let [idle, read] = ["idle", "read"].map(|name| directory.join(name));
    for path in [&idle, &read] {
        write_file(&group, path, 8);
        forget(path);
        read_file(&group, path, 1);
    }
    let length = Duration::from_secs(u64::from(4 * support::strata::patience().div_ceil(3)));
    let reader = std::thread::spawn({
        let read = read.clone();
        move || {
            // Strata takes a while to start.
            std::thread::sleep(length / 2);
            fs::read(&read).map(|bytes| bytes.len())
        }
    });
    let report = files(&[
        "--watch",
        &format!("{}s", length.as_secs()),
        "--cgroup",
        &group.path.display().to_string(),
    ]);
    reader.join().expect("it reads").expect("read");
    let bytes = |path: &Path, name: &str| row(&report, path)[name].as_u64().expect("bytes");
    assert_near("idle", bytes(&idle, "idle_bytes"), 8 << 20);
    assert_near("read", bytes(&idle, "read_bytes"), 0);
    assert_near("idle", bytes(&read, "idle_bytes"), 0);
    assert_near("read", bytes(&read, "read_bytes"), 8 << 20);
    let seconds = report["watched"]["seconds"].as_f64().expect("seconds");
    assert!(seconds >= length.as_secs_f64(), "{report:#}");
}
