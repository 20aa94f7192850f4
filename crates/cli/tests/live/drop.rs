//! `strata files --drop-cold` on files that are renamed, replaced, cut or hard to reach while they are watched: what is said
//! to be dropped is gone, what is not is there, and every content is what it was.

use crate::cache_trouble::{cold, drop_cold, length};
use crate::support;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::thread::sleep;

use serde_json::Value;
use support::helper::Helper;
use support::leaks::Guard;
use support::live::TestGroup;
use support::residency::{MIB, assert_near, forget, in_group, read_file, resident_bytes, run};

const FILE_MIB: u64 = 4;

/// Drops what is cold of a group, while something happens in the middle of the watch.
fn drop_cold_while(group: &TestGroup, meanwhile: impl FnOnce() + Send + 'static) -> Value {
    let changer = Helper::start(|_| {
        // Strata takes a while to start.
        sleep(length() / 2);
        meanwhile();
    });
    let done = drop_cold(group).finish().expect_success();
    changer.end();
    done.json()["dropped"].clone()
}

#[test]
fn files_that_are_renamed_replaced_or_cut_meanwhile_keep_their_content() {
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("drop-moved");
    let file = |name| cold(&group, directory.path(), name, FILE_MIB);
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
    let dropped = drop_cold_while(&group, {
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
fn a_sparse_file_of_a_tebibyte_one_with_two_names_and_one_that_cant_be_changed_are_dropped() {
    needs_census!();
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
    let linked = cold(&group, directory.path(), "linked", FILE_MIB);
    fs::hard_link(&linked, directory.path().join("second name")).expect("linked");
    let fixed = cold(&group, directory.path(), "fixed", FILE_MIB);
    let chattr = |flag: &str| {
        Command::new("chattr")
            .arg(flag)
            .arg(&fixed)
            .output()
            .expect("chattr (e2fsprogs)")
    };
    let before = [&linked, &fixed].map(|path| fs::read(path).expect("read"));
    for path in [&linked, &fixed] {
        forget(path);
        read_file(&group, path, 1);
    }
    let is_fixed = chattr("+i").status.success();
    let dropped = drop_cold(&group).finish().expect_success();
    let dropped = dropped.json()["dropped"].clone();
    chattr("-i");
    let tried = 2 * FILE_MIB * MIB + MIB;
    assert_near(
        "dropped",
        dropped["dropped_bytes"].as_u64().expect("bytes"),
        tried,
    );
    for path in [&linked, &fixed] {
        assert_eq!(resident_bytes(path), 0, "{dropped}, fixed: {is_fixed}");
    }
    let after = [&linked, &fixed].map(|path| fs::read(path).expect("read"));
    assert!(before == after, "a content has changed");
    let mut content = vec![0; MIB as usize];
    file.read_exact_at(&mut content, last).expect("read");
    assert_eq!(content, vec![9; MIB as usize]);
}
