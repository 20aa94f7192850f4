//! What the options of `run` promise, on a real program: without a cgroup, and without changing
//! anything.

mod support;

use serde_json::Value;
use support::leaks::Guard;
use support::programs::program;
use support::strata::Strata;

const MIB: u64 = 1 << 20;

fn number(report: &Value, path: &str) -> u64 {
    report
        .pointer(path)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no number at {path} in {report:#}"))
}

/// `strata run OPTIONS` of a program that touches 96 MiB and sleeps three seconds: its report.
fn idle_under(options: &[&str]) -> Value {
    let (finished, report) = Strata::new(["run", "--memory", "64M"])
        .args(options)
        .arg("--")
        .arg(program("idle"))
        .args(["--size", "96M", "--seconds", "3"])
        .finish_with_report();
    finished.expect_success();
    report
}

#[test]
fn without_a_cgroup_the_budget_is_held_over_resident_memory() {
    needs!("page_walk", "zram", "process_madvise");
    let _guard = Guard::new();
    let report = idle_under(&["--no-cgroup", "--swap", "zram:192M"]);
    assert_eq!(report["usage"]["measured_by"], "rss");
    assert!(number(&report, "/nr_processes") >= 1, "{report:#}");
    assert!(
        number(&report, "/eviction/nr_applied_pages") > 0,
        "{report:#}"
    );
    // What was touched before the first look is above the budget for a moment.
    assert!(
        number(&report, "/usage/mean_bytes") > 32 * MIB,
        "{report:#}"
    );
    assert!(
        number(&report, "/usage/mean_bytes") < 80 * MIB,
        "{report:#}"
    );
}

#[test]
fn a_dry_run_sees_what_would_go_and_takes_nothing() {
    needs!("page_walk");
    let _guard = Guard::new();
    let report = idle_under(&["--dry-run"]);
    assert_eq!(report["is_dry_run"], true);
    assert!(
        number(&report, "/usage/peak_bytes") > 96 * MIB,
        "{report:#}"
    );
    assert!(number(&report, "/walks/nr_walks") > 0, "{report:#}");
    assert!(
        number(&report, "/eviction/nr_not_tried_pages") > 0,
        "{report:#}"
    );
    assert_eq!(
        number(&report, "/eviction/nr_applied_pages"),
        0,
        "{report:#}"
    );
    assert_eq!(
        number(&report, "/eviction/reclaim_asked_bytes"),
        0,
        "{report:#}"
    );
}
