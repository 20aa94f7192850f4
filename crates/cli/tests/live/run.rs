//! What the options of `run` promise, on a real program: without a cgroup, and without changing
//! anything.

use crate::support::prelude::*;

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
    live!("page_walk", "zram", "process_madvise");
    let report = idle_under(&["--no-cgroup", "--swap", "zram:192M"]);
    assert_eq!(report["usage"]["measured_by"], "rss");
    assert!(number_at(&report, "/nr_processes") >= 1, "{report:#}");
    assert!(
        number_at(&report, "/eviction/nr_applied_pages") > (30 << 20) / 4096,
        "{report:#}"
    );
    // What was touched before the first look is above the budget for a moment.
    assert!(
        number_at(&report, "/usage/mean_bytes") > 32 * MIB,
        "{report:#}"
    );
    assert!(
        number_at(&report, "/usage/mean_bytes") < 80 * MIB,
        "{report:#}"
    );
}

#[test]
fn a_dry_run_sees_what_would_go_and_takes_nothing() {
    live!("page_walk");
    // The swap is only played.
    let report = idle_under(&["--dry-run", "--swap", "zram:96M"]);
    assert_eq!(report["is_dry_run"], true);
    let shares = report["would_evict"]["shares"].as_array().expect("shares");
    let nr_pages = number_at(&report, "/would_evict/nr_pages");
    let of_shares = shares.iter().map(|share| number_at(share, "/nr_pages"));
    assert_eq!(of_shares.sum::<u64>(), nr_pages, "{report:#}");
    assert_eq!(shares[0]["name"], "[anon]", "{report:#}");
    // 96 MiB and what the program is made of are to be brought below 64, each page counted once.
    let would_evict = nr_pages * 4096;
    assert!((32 * MIB..48 * MIB).contains(&would_evict), "{report:#}");
    assert!(
        number_at(&report, "/usage/peak_bytes") > 96 * MIB,
        "{report:#}"
    );
    assert!(number_at(&report, "/walks/nr_walks") > 0, "{report:#}");
    assert!(
        number_at(&report, "/eviction/nr_not_tried_pages") > 0,
        "{report:#}"
    );
    for none in ["nr_tried_pages", "nr_applied_pages", "reclaim_asked_bytes"] {
        assert_eq!(report["eviction"][none], 0, "{none}: {report:#}");
    }
}
