//! `strata run` beside a stream of files: page cache that was read once is dropped, and every content is what it was.

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
