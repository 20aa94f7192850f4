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
use support::residency::{assert_near, resident_bytes, stat, write_file};
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
