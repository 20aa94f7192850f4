//! `strata files --drop-cold` on files that are renamed, replaced, cut or hard to reach while they are watched: what is said
//! to be dropped is gone, what is not is there, and every content is what it was.

use crate::support;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::{sleep, spawn};
use std::time::Duration;

use serde_json::Value;
use strata_linux::access::census::Census;
use support::leaks::Guard;
use support::live::TestGroup;
use support::residency::{
    MIB, assert_near, forget, in_group, read_file, resident_bytes, run, write_file,
};
use support::strata::{Strata, patience};

const FILE_MIB: u64 = 4;

/// A file of noise that was read once.
fn cold(group: &TestGroup, directory: &Path, name: &str) -> PathBuf {
    let path = directory.join(name);
    write_file(group, &path, FILE_MIB);
    forget(&path);
    read_file(group, &path, 1);
    path
}

fn length() -> Duration {
    Duration::from_secs(u64::from(4 * patience().div_ceil(3)))
}

/// Drops what is cold of a group, while something happens in the middle of the watch.
fn drop_cold(group: &TestGroup, meanwhile: impl FnOnce() + Send + 'static) -> Value {
    let half = length() / 2;
    let other = spawn(move || {
        // Strata takes a while to start.
        sleep(half);
        meanwhile();
    });
    let strata = Strata::new(["files", "--whole", "--format", "json", "--drop-cold"])
        .arg(format!("{}s", length().as_secs()))
        .arg("--cgroup")
        .arg(&group.path);
    let done = strata.finish().expect_success();
    other.join().expect("it happens");
    let report = done.json();
    report["dropped"].clone()
}

macro_rules! open_census {
    () => {
        if let Err(error) = Census::open() {
            skip!("{error}");
        }
    };
}

#[test]
fn files_that_are_renamed_replaced_or_cut_meanwhile_keep_their_content() {
    open_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("drop-moved");
    let file = |name| cold(&group, directory.path(), name);
    let (renamed, replaced, cut, removed) =
        (file("old"), file("replaced"), file("cut"), file("removed"));
    let renamed_content = fs::read(&renamed).expect("read");
    let cut_content = fs::read(&cut).expect("read");
    for path in [&renamed, &cut] {
        forget(path);
        read_file(&group, path, 1);
    }
    let new = directory.path().join("new");
    let other = directory.path().join("other");
    fs::write(&other, vec![7; MIB as usize]).expect("written");
    let dropped = drop_cold(&group, {
        let (renamed, new) = (renamed.clone(), new.clone());
        let (other, replaced, cut) = (other.clone(), replaced.clone(), cut.clone());
        move || {
            fs::rename(&renamed, &new).expect("renamed");
            fs::rename(&other, &replaced).expect("replaced");
            let file = File::options().write(true).open(&cut).expect("a file");
            file.set_len(MIB).expect("cut");
            fs::remove_file(&removed).expect("removed");
        }
    });
    // The new name is found, and what was cut off is not missed.
    assert_eq!(resident_bytes(&new), 0, "{dropped}");
    assert_eq!(fs::read(&new).expect("read"), renamed_content);
    assert_eq!(fs::read(&replaced).expect("read"), vec![7; MIB as usize]);
    assert_eq!(fs::read(&cut).expect("read"), cut_content[..MIB as usize]);
}

#[test]
fn a_sparse_file_of_a_tebibyte_and_one_with_two_names_are_dropped() {
    open_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("drop-odd");
    let sparse = directory.path().join("sparse");
    let mut options = File::options();
    let options = options.create_new(true).read(true).write(true);
    let file = options.open(&sparse).expect("a file");
    let last = (1 << 40) - MIB;
    if file.set_len(1 << 40).is_err() {
        skip!("this file system has no file of 1 TiB");
    }
    file.write_all_at(&vec![9; MIB as usize], last)
        .expect("written");
    file.sync_all().expect("written back");
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
    let mut tail = in_group(&group, "tail");
    tail.args(["-c", "1048576"]).arg(&sparse);
    tail.stdout(std::process::Stdio::null());
    run(tail);
    let linked = cold(&group, directory.path(), "linked");
    fs::hard_link(&linked, directory.path().join("second name")).expect("linked");
    let dropped = drop_cold(&group, || {});
    assert_near(
        "dropped",
        dropped["dropped_bytes"].as_u64().expect("bytes"),
        FILE_MIB * MIB + MIB,
    );
    assert_eq!(resident_bytes(&linked), 0, "{dropped}");
    let mut content = vec![0; MIB as usize];
    file.read_exact_at(&mut content, last).expect("read");
    assert_eq!(content, vec![9; MIB as usize]);
}
