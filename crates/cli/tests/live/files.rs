//! `strata files`: names, groups and sizes of files of which it is known what is in memory; estimates; missing rights.

use crate::support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use strata_linux::access::census::{Census, FileName, FileNames, Question};
use support::leaks::Guard;
use support::live::{TestGroup, try_thrice, wait_until};
use support::residency::{
    MIB, assert_near, forget, in_group, is_near, parts_of, read_file, resident_bytes, row, run,
    stat, write_file,
};
use support::strata::{Strata, assert_has, binary, finish, patience};

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
    done.finish().expect_success().json()
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().expect("a path")
}

#[test]
fn files_are_told_by_name_open_or_not_deleted_or_not() {
    needs_census!();
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
    assert_has(&table, &format!("{} (deleted)\n", deleted.display()));
}

#[test]
fn an_estimate_is_made_within_its_time_and_its_processor() {
    needs_census!();
    let started = std::time::Instant::now();
    let report = Strata::new(["files", "--within", "1s", "--format", "json"])
        .finish()
        .expect_success()
        .json();
    let share = report["sampled_share"].as_f64().expect("a share");
    assert!(share > 0.0 && share <= 1.0, "{share}");
    assert!(started.elapsed() < Duration::from_secs(10) * patience());
    assert!(
        report["files"]
            .as_array()
            .is_some_and(|files| files.len() <= 30)
    );
    // A whole census is cheap on what tests run on, so nothing else is made without being asked for.
    let whole = Strata::new(["files", "--format", "json"]).finish();
    let report = whole.expect_success().json();
    assert_eq!(report["sampled_share"], 1.0, "{report}");
}

#[test]
fn without_root_the_census_says_what_it_needs() {
    needs_census!();
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
    assert_has(&told, "CAP_BPF");
    assert_has(&told, "run as root");
    assert!(!told.contains("smaps"), "{told}");
}

/// What the program says of a file's content.
fn checksum(path: &Path) -> Vec<u8> {
    let output = Command::new("sha256sum").arg(path).output();
    output.expect("sha256sum (coreutils)").stdout
}

#[test]
fn what_is_cold_is_dropped_and_what_is_used_dirty_or_of_another_group_stays() {
    needs_census!();
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
    let deleted_content = fs::read(&deleted).expect("read");
    forget(&deleted);
    read_file(&group, &deleted, 1);
    let holder = Holder::start(&deleted);
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
    assert_eq!(bytes(&dry, "dropped_bytes"), 0, "{dry}");
    assert_near("held", held, 8 << 20);
    let reader = std::thread::spawn({
        let used = used.clone();
        move || {
            for _ in 0..8 {
                sleep(Duration::from_millis(400));
                let _ = fs::read(&used);
            }
        }
    });
    let dropped = drop_cold(&[]);
    reader.join().expect("it reads");
    assert_near("dropped", bytes(&dropped, "dropped_bytes"), 2 * held);
    assert_eq!(resident_bytes(&cold), 0, "{dropped}");
    assert!(bytes(&dropped, "tried_bytes") <= 16 << 20, "{dropped}");
    // The machine may take a few pages of its own accord.
    assert_near("stays, as it is used", resident_bytes(&used), 8 << 20);
    assert_near(
        "stays, as it is others'",
        resident_bytes(&of_other),
        8 << 20,
    );
    assert_eq!([&cold, &used, &of_other].map(|path| checksum(path)), sums);
    let still_open = format!("/proc/{}/fd/0", holder.0.id());
    assert!(fs::read(still_open).expect("read") == deleted_content);
}

#[test]
fn of_a_file_that_two_groups_read_only_what_is_charged_to_the_one_is_dropped() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let (group, other) = (TestGroup::new("drop-half"), TestGroup::new("drop-rest"));
    let path = canonical(directory.path()).join("halves");
    write_file(&group, &path, 16);
    let sum = checksum(&path);
    forget(&path);
    // The kernel may read ahead to the end of the file.
    for (group, skip) in [(&other, "skip=8"), (&group, "skip=0")] {
        let mut dd = in_group(group, "dd");
        dd.arg(format!("if={}", path.display()));
        dd.args(["of=/dev/null", "bs=1M", "count=8", skip]);
        run(dd);
    }
    let of_other = stat(&other, "file", "cache");
    let group = group.path.display().to_string();
    let report = files(&["--drop-cold", "1s", "--cgroup", &group]);
    let dropped = report["dropped"]["dropped_bytes"].as_u64().expect("bytes");
    assert_near("dropped", dropped, 8 * MIB);
    assert_near("stays", resident_bytes(&path), 8 * MIB);
    assert_near("is still charged", stat(&other, "file", "cache"), of_other);
    assert_eq!(checksum(&path), sum);
}

#[test]
fn a_watch_tells_what_was_read_meanwhile_and_what_lay_idle() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("files-watch");
    let directory = canonical(directory.path());
    let [idle, read] = ["idle", "read"].map(|name| directory.join(name));
    for path in [&idle, &read] {
        write_file(&group, path, 8);
    }
    let length = Duration::from_secs(u64::from(4 * patience().div_ceil(3)));
    let watched = || {
        for path in [&idle, &read] {
            forget(path);
            read_file(&group, path, 1);
        }
        let reader = std::thread::spawn({
            let read = read.clone();
            move || {
                // Strata takes a while to start, and may take longer where others want the processors.
                sleep(length / 2);
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
        report
    };
    let bytes =
        |report: &Value, path: &Path, name: &str| row(report, path)[name].as_u64().expect("bytes");
    let report = try_thrice(watched, |report| {
        is_near(bytes(report, &read, "read_bytes"), 8 << 20)
            && is_near(bytes(report, &idle, "idle_bytes"), 8 << 20)
    });
    assert_near("idle", bytes(&report, &idle, "idle_bytes"), 8 << 20);
    assert_near("read", bytes(&report, &idle, "read_bytes"), 0);
    assert_near("idle", bytes(&report, &read, "idle_bytes"), 0);
    assert_near("read", bytes(&report, &read, "read_bytes"), 8 << 20);
    let seconds = report["watched"]["seconds"].as_f64().expect("seconds");
    assert!(seconds >= length.as_secs_f64(), "{report:#}");
}

#[test]
fn what_was_read_often_before_goes_only_where_counts_of_reads_are_reset() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("files-reset");
    let path = canonical(directory.path()).join("often");
    let length = format!("{}s", 3 * patience().div_ceil(3));
    let cgroup = group.path.display().to_string();
    let drop_cold = |resets: &[&str]| {
        let mut args = vec!["--drop-cold", &length, "--cgroup", &cgroup];
        args.extend(resets);
        let report = files(&args);
        let idle_bytes = report["dropped"]["idle_bytes"].as_u64().expect("bytes");
        (idle_bytes, resident_bytes(&path))
    };
    // Idle and left, without resets and with them.
    let dropped = || {
        write_file(&group, &path, 8);
        forget(&path);
        read_file(&group, &path, 8);
        let sum = checksum(&path);
        let found = [drop_cold(&[]), drop_cold(&["--reset-counts", "100%"])];
        (sum, found)
    };
    let (sum, [(idle, left), (idle_with_resets, left_with_resets)]) =
        try_thrice(dropped, |(_, found)| {
            is_near(found[0].1, 8 * MIB) && is_near(found[1].0, 8 * MIB)
        });
    assert_near("idle, without resets", idle, 0);
    assert_near("left, without resets", left, 8 * MIB);
    assert_near("idle, with resets", idle_with_resets, 8 * MIB);
    assert_near("left, with resets", left_with_resets, 0);
    assert_eq!(checksum(&path), sum, "it is as it was");
}

#[test]
fn a_file_of_two_names_is_counted_once_and_told_by_one_that_it_still_has() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("files-linked");
    let directory = canonical(directory.path());
    let names = ["one", "other"].map(|name| directory.join(name));
    write_file(&group, &names[0], 4);
    fs::hard_link(&names[0], &names[1]).expect("linked");
    let under = || files(&["--under", &directory.display().to_string()]);
    let report = under();
    assert_eq!(report["nr_files"], 1, "{report:#}");
    let told = PathBuf::from(report["files"][0]["path"].as_str().expect("a path"));
    assert!(names.contains(&told), "{report:#}");
    let cached = report["files"][0]["cached_bytes"].as_u64().expect("bytes");
    assert_near("cached", cached, 4 << 20);
    // Who has it open by a name keeps that name in the kernel's memory when it is removed; what came last stands first there.
    for (opened, left) in [(1, 0), (0, 1)] {
        let _holder = Holder::start(&names[opened]);
        fs::remove_file(&names[opened]).expect("removed");
        let report = under();
        let row = row(&report, &names[left]);
        assert_eq!(
            (&report["nr_files"], &row["is_open"]),
            (&1.into(), &true.into())
        );
        assert_eq!(row["is_deleted"], false, "{row}");
        fs::hard_link(&names[left], &names[opened]).expect("linked");
    }
}

/// A file of its own with the number of one that is gone; `None`: the file system gives it to others.
fn file_numbered(directory: &Path, number: u64) -> Option<PathBuf> {
    let mut paths = (0..256).map(|at| directory.join(format!("new-{at}")));
    paths.find(|path| {
        let file = File::create_new(path).expect("a file");
        file.metadata().expect("its number").ino() == number
    })
}

#[test]
fn a_file_that_has_the_number_of_a_deleted_one_is_not_told_by_its_name_nor_the_other_way_round() {
    let mut census = match Census::open() {
        Ok(census) => census,
        Err(error) => skip!("{error}"),
    };
    let take = |census: &mut Census, path: &Path| {
        let question = Question {
            wants_files: true,
            budget: None,
        };
        let taken = census.take(&question).expect("a census");
        parts_of(&taken, path).first().expect("in memory").file
    };
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("files-numbers");
    let directory = canonical(directory.path());
    let path = directory.join("old");
    write_file(&group, &path, 1);
    let old = take(&mut census, &path);
    let holder = Holder::start(&path);
    let names = FileNames::read();
    let is_told = (FileName::Path(path.clone()), true);
    assert_eq!(names.look(&census, &old), is_told);
    drop(holder);
    fs::remove_file(&path).expect("removed");
    let Some(new_path) = file_numbered(&directory, old.inode) else {
        skip!("the number of a deleted file is not given to the next one");
    };
    let mut dd = in_group(&group, "dd");
    dd.args(["if=/dev/urandom", "bs=1M", "count=1", "conv=notrunc"]);
    run({
        dd.arg(format!("of={}", new_path.display()));
        dd
    });
    let new = take(&mut census, &new_path);
    assert_ne!(old.generation, new.generation);
    let is_told = (FileName::Path(new_path.clone()), false);
    assert_eq!(names.look(&census, &new), is_told, "the old one was open");
    let _holder = Holder::start(&new_path);
    let names = FileNames::read();
    assert_eq!(names.look(&census, &new), (is_told.0, true));
    let is_unknown = (FileName::Unknown, false);
    assert_eq!(names.look(&census, &old), is_unknown, "the new one is open");
    assert_eq!(names.path_here(&census, &old), None);
}

/// Whether a process has set up a program in the kernel.
fn has_bpf(pid: u32) -> bool {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter();
    let mut links = entries.flatten().flatten().map(|entry| entry.path());
    let is_bpf = |link: PathBuf| link.to_string_lossy().starts_with("anon_inode:bpf");
    links.any(|link| fs::read_link(link).is_ok_and(is_bpf))
}

#[test]
fn a_file_that_is_only_mapped_is_told_to_be_open_without_the_right_to_follow_links_of_mappings() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("files-mapped");
    let path = canonical(directory.path()).join("sleep");
    let mut cp = in_group(&group, "cp");
    cp.arg("/bin/sleep").arg(&path);
    run(cp);
    let mut sleeper = in_group(&group, &path);
    let mut sleeper = sleeper.arg("1000").spawn().expect("sleep");
    let program = format!("/proc/{}/exe", sleeper.id());
    wait_until("it runs", || {
        fs::read_link(&program).is_ok_and(|at| at == path)
    });
    let mut without = Command::new("setpriv");
    without.args(["--bounding-set", "-sys_admin,-checkpoint_restore"]);
    without.args(["--inh-caps", "-sys_admin,-checkpoint_restore"]);
    without.args([binary(), "files", "--whole", "--format", "json", "--cgroup"]);
    let said = without.arg(&group.path).output().expect("setpriv");
    sleeper.kill().expect("killed");
    sleeper.wait().expect("waited for");
    let told = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{told}");
    let report = serde_json::from_slice(&said.stdout).expect("JSON");
    assert_eq!(row(&report, &path)["is_open"], true, "{report:#}");
}

#[test]
fn a_group_that_is_removed_during_a_watch_is_told_and_nothing_is_dropped() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let path = directory.path().join("cold");
    let length = Duration::from_secs(u64::from(3 * patience().div_ceil(3)));
    for is_made_anew in [false, true] {
        let group = TestGroup::new("files-gone");
        write_file(&group, &path, 4);
        forget(&path);
        read_file(&group, &path, 1);
        let strata = Strata::new(["files", "--whole", "--drop-cold"])
            .arg(format!("{}s", length.as_secs()))
            .arg("--cgroup")
            .arg(&group.path);
        let mut strata = strata.command();
        strata.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = strata.stderr(Stdio::piped()).spawn();
        let child = child.expect("strata starts");
        // It looks for the group before it sets up the census.
        wait_until("the census is set up", || has_bpf(child.id()));
        sleep(length / 2);
        fs::remove_dir(&group.path).expect("removed");
        if is_made_anew {
            fs::create_dir(&group.path).expect("made");
        }
        let done = finish(child, &[], Duration::from_secs(60) * patience());
        assert_eq!(done.code(), Some(1), "{}", done.stderr);
        let told = format!("the cgroup {} was removed", group.path.display());
        assert!(done.stderr.contains(&told), "{}", done.stderr);
        assert_eq!(done.stdout, "");
        assert_near("left", resident_bytes(&path), 4 << 20);
    }
}
