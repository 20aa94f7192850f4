//! Every policy of the engine runs a real program live: it holds the budget, evicts what comes back, and its report adds up.
//!
//! With `--actuator pageout` the policy takes each page itself. Under `auto` the kernel helps where that does not keep up.

use crate::support::prelude::*;

/// Room for 60 % of what the program uses, which is so little that its accessed bits are cleared in one call on any machine.
const BUDGET: &str = "24M";
const SIZE: &str = "40M";
const PAGE_BYTES: u64 = 4096;

/// The report of a run with these options, once enough was done; the program draws its pages by Zipf's law.
fn report_of(options: &[&str], is_enough: impl Fn(&Value) -> bool) -> Value {
    let report = |seconds: u32| {
        let strata = Strata::new(["run", "--quiet", "--memory", BUDGET, "--swap", "zram:128M"])
            .args(options)
            .arg("--")
            .arg(program("zipf"))
            .args(["--size", SIZE, "--theta", "0.99", "--seconds"])
            .arg(seconds.to_string());
        let (finished, report) = strata.finish_with_report();
        finished.expect_success();
        report
    };
    let mut found = report(3);
    // A machine that is slow, or busy, has had no time for enough walks.
    for seconds in [15, 15 * patience()] {
        if !is_enough(&found) {
            found = report(seconds);
        }
    }
    found
}

/// The policy takes pages one by one. Returns the report.
fn evicts_by_itself(options: &[&str], policy: &str) -> Value {
    let options = [&["--actuator", "pageout"], options].concat();
    let report = report_of(&options, |report| {
        let eviction = |name: &str| number_at(report, &format!("/eviction/{name}"));
        eviction("nr_applied_pages") > 4000 && eviction("nr_refaulted_pages") > 1000
    });
    assert_eq!(report["policy"], policy, "{report:#}");
    let eviction = |name: &str| number_at(&report, &format!("/eviction/{name}"));
    let nr_applied = eviction("nr_applied_pages");
    // The program wants 16 MiB more than it may have.
    assert!(nr_applied > 4000, "{report:#}");
    let verdicts = [
        "nr_applied_pages",
        "nr_referenced_pages",
        "nr_busy_pages",
        "nr_shared_pages",
        "nr_dirty_pages",
        "nr_unevictable_pages",
        "nr_gone_pages",
    ];
    let nr_settled: u64 = verdicts.map(eviction).iter().sum();
    assert_eq!(nr_settled, eviction("nr_tried_pages"), "{report:#}");
    let nr_back = eviction("nr_refaulted_pages");
    let nr_gone = nr_applied + eviction("nr_kernel_chosen_pages");
    assert!(nr_back > 1000 && nr_back <= nr_gone, "{report:#}");
    assert!(
        eviction("nr_refaulted_recent_pages") <= nr_back,
        "{report:#}"
    );
    let budget_bytes = number_at(&report, "/usage/budget_bytes");
    assert!(
        number_at(&report, "/usage/mean_bytes") <= budget_bytes,
        "{report:#}"
    );
    assert!(number_at(&report, "/walks/nr_walks") > 1, "{report:#}");
    assert!(report["hints"].is_null(), "nobody is told: {report:#}");
    // What the engine has is what was in memory at the last walk.
    let generations = report["generations"].as_array().expect("a list");
    let bytes = |of: &Value| number_at(of, "/anon_bytes") + number_at(of, "/file_bytes");
    let tracked_bytes: u64 = generations.iter().map(bytes).sum();
    assert!(tracked_bytes > budget_bytes / 2, "{report:#}");
    let limit_bytes = number_at(&report, "/limit/peak_bytes");
    assert!(
        tracked_bytes <= limit_bytes + 512 * PAGE_BYTES,
        "{report:#}"
    );
    report
}

/// How many generations there were at the end.
fn nr_generations(report: &Value) -> usize {
    report["generations"].as_array().expect("a list").len()
}

#[test]
fn every_policy_runs_a_program() {
    live!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    for (policy, nr_kept) in [
        ("mglru", 2..=4),
        ("mglru:v2021", 2..=4),
        ("mglru:v6.1+nr_gens=8+nr_tiers=2", 2..=8),
        ("mglru+distance", 2..=4),
        ("mglru+distance=always", 2..=4),
        ("mglru+distance=series", 2..=4),
        // Inactive and active.
        ("two-list", 2..=2),
    ] {
        let report = evicts_by_itself(&["--policy", policy], policy);
        let nr_generations = nr_generations(&report);
        assert!(nr_kept.contains(&nr_generations), "{policy}: {report:#}");
    }
}

#[test]
fn a_run_under_the_two_lists_holds_its_budget_where_the_kernel_helps() {
    live!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    let nr_gone = |report: &Value| {
        number_at(report, "/eviction/nr_applied_pages")
            + number_at(report, "/eviction/nr_kernel_chosen_pages")
    };
    let report = report_of(&["--policy", "two-list"], |report| nr_gone(report) > 1000);
    let budget_bytes = number_at(&report, "/usage/budget_bytes");
    assert!(
        number_at(&report, "/usage/mean_bytes") <= budget_bytes,
        "{report:#}"
    );
    assert!(nr_gone(&report) > 1000, "{report:#}");
    assert_eq!(nr_generations(&report), 2, "{report:#}");
}
