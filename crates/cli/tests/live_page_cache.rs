//! `strata run` beside a stream of files and over files that do not fit: what is not read again is dropped, and every content is
//! what it was.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use strata_host::access::census::Census;
use support::leaks::Guard;
use support::residency::MIB;
use support::strata::{Strata, patience};

/// Reads a file of 24 MiB again and again, and meanwhile streams one of 256 MiB, and writes one of 4 MiB.
const SCRIPT: &str = r#"
cd "$0" || exit 9
head -c 4194304 /dev/urandom >written && cat written | cksum >sum
for i in 1 2 3; do cat hot >/dev/null; done
i=0
while [ $i -lt 64 ]; do
    dd if=stream of=/dev/null bs=4M skip=$i count=1 2>/dev/null
    [ $((i % 16)) = 15 ] && cat hot >/dev/null
    i=$((i + 1))
    sleep "$1"
done
cat written | cksum | cmp - sum
"#;

fn noise(path: &Path, mib: u64) {
    let mut random = fs::File::open("/dev/urandom").expect("noise");
    let mut noise = std::io::Read::take(&mut random, mib * MIB);
    let mut file = fs::File::create(path).expect("a file");
    std::io::copy(&mut noise, &mut file).expect("written");
    file.sync_all().expect("on disk");
}

/// Reads all files of a tree, and again; a pause after each twentieth file.
const LOOP: &str = r#"
cd "$0" || exit 9
for pass in 1 2 3 4 5 6; do
    for part in *; do
        cat "$part"/* >/dev/null
        sleep "$1"
    done
done
"#;

#[test]
fn a_part_of_files_that_are_read_in_a_loop_and_do_not_fit_stays_in_memory() {
    const NR_PARTS: u64 = 15;
    const PART_FILES: u64 = 20;
    const FILE_BYTES: u64 = 560 << 10;
    needs!("cap_bpf", "memory_cgroup");
    if let Err(error) = Census::open() {
        skip!("{error}");
    }
    let directory = open_disk!();
    let _guard = Guard::new();
    noise(&directory.path().join("noise"), 1);
    let noise = fs::read(directory.path().join("noise")).expect("read");
    let tree = directory.path().join("tree");
    let paths: Vec<_> = (0..NR_PARTS * PART_FILES)
        .map(|at| tree.join(format!("{:02}/{at:04}", at / PART_FILES)))
        .collect();
    // Each file has other bytes than the one before it.
    let content = |at: usize| &noise[at * 1331..at * 1331 + FILE_BYTES as usize];
    for (at, path) in paths.iter().enumerate() {
        fs::create_dir_all(path.parent().expect("a part")).expect("made");
        let file = fs::File::create(path).expect("a file");
        std::io::Write::write_all(&mut &file, content(at)).expect("written");
    }
    for path in &paths {
        fs::File::open(path)
            .and_then(|file| file.sync_all())
            .expect("on disk");
        support::residency::forget(path);
    }
    let pause = format!("0.0{}", 4 * patience().min(20));
    let (finished, report) = Strata::new(["run", "--memory", "128M", "--", "sh", "-c", LOOP])
        .arg(&tree)
        .arg(&pause)
        .finish_with_report();
    finished.expect_success();
    let cache = &report["page_cache"];
    let bytes = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report:#}"));
    let (tried, dropped) = (
        bytes(&cache["newcomers"]["tried_bytes"]),
        bytes(&cache["newcomers"]["dropped_bytes"]),
    );
    assert!(dropped >= 16 * MIB && dropped <= tried, "{cache}");
    assert!(bytes(&cache["in_again_bytes"]) >= 32 * MIB, "{cache}");
    // Where no newcomer goes, more than half of what the 6 passes read comes from the disk.
    let read = 6 * NR_PARTS * PART_FILES * FILE_BYTES;
    assert!(bytes(&cache["in_bytes"]) < read / 2, "{read}: {cache}");
    for (at, path) in paths.iter().enumerate() {
        assert!(
            fs::read(path).expect("read") == content(at),
            "{}",
            path.display()
        );
    }
}

fn stream(directory: &Path, options: &[&str]) -> Value {
    let pause = format!("0.0{}", 4 * patience().min(20));
    let strata = Strata::new(["run", "--memory", "128M"])
        .args(options)
        .args(["--", "sh", "-c", SCRIPT])
        .arg(directory)
        .arg(&pause);
    let (finished, report) = strata.finish_with_report();
    finished.expect_success();
    report
}

#[test]
fn what_a_stream_leaves_behind_is_dropped_and_what_is_read_again_is_not() {
    needs!("cap_bpf", "memory_cgroup");
    if let Err(error) = Census::open() {
        skip!("{error}");
    }
    let directory = open_disk!();
    let _guard = Guard::new();
    let [hot, streamed] = ["hot", "stream"].map(|name| directory.path().join(name));
    noise(&hot, 24);
    noise(&streamed, 256);
    let before = [&hot, &streamed].map(|path| fs::read(path).expect("read"));
    for path in [&hot, &streamed] {
        support::residency::forget(path);
    }
    let report = stream(directory.path(), &[]);
    let cache = &report["page_cache"];
    let bytes = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{report:#}"));
    let (tried, dropped) = (
        bytes(&cache["once"]["tried_bytes"]),
        bytes(&cache["once"]["dropped_bytes"]),
    );
    assert!(bytes(&cache["nr_censuses"]) >= 3, "{cache}");
    assert!(dropped >= 16 * MIB && dropped <= tried, "{cache}");
    // The stream never comes back; the hot file would, each time it is read.
    assert!(bytes(&cache["returned_bytes"]) <= dropped / 4, "{cache}");
    assert_eq!(bytes(&cache["again"]["dropped_bytes"]), 0, "{cache}");
    let after = [&hot, &streamed].map(|path| fs::read(path).expect("read"));
    assert!(before == after, "a content has changed");
}

#[test]
fn page_cache_is_left_to_the_kernel_where_that_is_asked_for() {
    needs!("cap_bpf", "memory_cgroup");
    let directory = open_disk!();
    let _guard = Guard::new();
    noise(&directory.path().join("hot"), 1);
    noise(&directory.path().join("stream"), 160);
    let report = stream(directory.path(), &["--keep-page-cache"]);
    assert_eq!(report["page_cache"], Value::Null);
    let report = stream(directory.path(), &["--dry-run"]);
    assert_eq!(report["page_cache"], Value::Null, "nothing is changed");
}
