//! `strata files --drop-cold` on files of odd shapes.

use crate::support;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use strata_linux::access::census::Census;
use support::leaks::Guard;
use support::live::TestGroup;
use support::residency::{
    MIB, assert_near, forget, in_group, read_file, resident_bytes, run, write_file,
};
use support::strata::{Strata, patience};

const FILE_MIB: u64 = 4;

#[test]
fn a_sparse_file_of_a_tebibyte_and_one_with_two_names_are_dropped() {
    if let Err(error) = Census::open() {
        skip!("{error}");
    }
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
    let linked = directory.path().join("linked");
    write_file(&group, &linked, FILE_MIB);
    forget(&linked);
    read_file(&group, &linked, 1);
    fs::hard_link(&linked, directory.path().join("second name")).expect("linked");
    let length = format!("{}s", 4 * patience().div_ceil(3));
    let strata = Strata::new(["files", "--whole", "--format", "json", "--drop-cold"]);
    let strata = strata.arg(length).arg("--cgroup").arg(&group.path);
    let dropped = strata.finish().expect_success().json()["dropped"].clone();
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
