//! Bad input and bad luck under `strata run`: one clear error or a clean degradation.

use crate::support;

use std::fs;

use rustix::process::Signal;
use serde_json::Value;
use support::leaks::Guard;
use support::live::{Live, memory_group_of, wait_until};
use support::programs::program;
use support::strata::Strata;

#[test]
fn a_group_that_is_deleted_under_us_is_told_and_the_program_goes_on() {
    needs!("cap_bpf", "memory_cgroup");
    let _guard = Guard::new();
    let mut live = Live::start(
        &Strata::new(["run", "--memory", "64M", "--"])
            .arg(program("signals"))
            .args(["--seconds", "60"]),
    );
    let pid = live.json()["pid"].as_i64().expect("pid") as i32;
    let group = memory_group_of(pid);
    let parent = group.parent().expect("a parent").to_owned();
    fs::write(parent.join("cgroup.procs"), pid.to_string()).expect("moved");
    wait_until("the group to go", || fs::remove_dir(&group).is_ok());
    live.wait_for_stderr("usage can't be read any more");
    live.signal(Signal::USR1);
    assert_eq!(live.json()["signal"], "USR1");
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
}

/// Usage of a tree was read before its members were known, so it stayed 0 and nothing was decided.
#[test]
fn without_a_group_a_dry_run_sees_the_usage_decides_and_changes_nothing() {
    needs!("cap_bpf");
    let _guard = Guard::new();
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report.json");
    let run = Strata::new(["run", "--memory", "32M", "--dry-run", "--report"])
        .arg(&report)
        .arg("--")
        .arg(program("idle"))
        .args(["--size", "64M", "--seconds", "3"])
        .finish();
    assert_eq!(run.code(), Some(0));
    let report: Value =
        serde_json::from_str(&fs::read_to_string(&report).expect("a report")).expect("JSON");
    assert!(
        report["usage"]["peak_bytes"].as_u64() > Some(60 << 20),
        "{report:#}"
    );
    assert!(
        report["eviction"]["nr_not_tried_pages"].as_u64() > Some(0),
        "{report:#}"
    );
    assert_eq!(report["eviction"]["nr_tried_pages"], 0, "{report:#}");
    assert_eq!(report["eviction"]["nr_applied_pages"], 0, "{report:#}");
}

#[test]
fn without_a_group_resident_memory_is_kept_near_the_budget_by_pageout() {
    needs!("cap_bpf", "zram", "process_madvise");
    let _guard = Guard::new();
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report.json");
    let run = Strata::new([
        "run",
        "--memory",
        "48M",
        "--no-cgroup",
        "--swap",
        "zram:256M",
        "--report",
    ])
    .arg(&report)
    .arg("--")
    .arg(program("idle"))
    .args(["--size", "80M", "--seconds", "5"])
    .finish();
    assert_eq!(run.code(), Some(0));
    let report: Value =
        serde_json::from_str(&fs::read_to_string(&report).expect("a report")).expect("JSON");
    assert_eq!(report["usage"]["measured_by"], "rss");
    assert!(
        report["eviction"]["nr_applied_pages"].as_u64() > Some((30 << 20) / 4096),
        "{report:#}"
    );
}
