//! Every policy of the engine runs a real program live: it holds the budget, evicts what comes back, and its report adds up.
//!
//! With `--actuator pageout` the policy takes each page itself. Under `auto` the kernel takes them, told by the policy's
//! order which to spare; that is tried where the kernel keeps the two classic lists.

use crate::support;

use serde_json::Value;
use support::leaks::Guard;
use support::live::has_generations;
use support::programs::program;
use support::strata::Strata;

/// Room for 60 % of what the program uses, which is so little that its accessed bits are cleared in one call on any machine.
const BUDGET: &str = "24M";
const SIZE: &str = "40M";
const PAGE_BYTES: u64 = 4096;
/// Rounds until hints held: on a machine that others load, walks may be too far apart for hints.
const ROUNDS_MAX: usize = 4;

/// The report of a run with these options; the program draws its pages by Zipf's law.
fn report_of(options: &[&str]) -> Value {
    report_of_load(options, &[])
}

fn report_of_load(options: &[&str], load: &[&str]) -> Value {
    let strata = Strata::new(["run", "--quiet", "--memory", BUDGET, "--swap", "zram:128M"])
        .args(options)
        .arg("--")
        .arg(program("zipf"))
        .args(["--size", SIZE, "--theta", "0.99", "--seconds", "3"])
        .args(load);
    let (finished, report) = strata.finish_with_report();
    finished.expect_success();
    report
}

fn number(report: &Value, pointer: &str) -> u64 {
    let found = report.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

fn share(report: &Value, pointer: &str) -> f64 {
    let found = report.pointer(pointer).and_then(Value::as_f64);
    let share = found.unwrap_or_else(|| panic!("no {pointer} in {report:#}"));
    assert!((0.0..=1.0).contains(&share), "{pointer}: {report:#}");
    share
}

/// The policy takes pages one by one. Returns the report.
fn evicts_by_itself(options: &[&str], policy: &str) -> Value {
    let report = report_of(&[&["--actuator", "pageout"], options].concat());
    assert_eq!(report["policy"], policy, "{report:#}");
    let eviction = |name: &str| number(&report, &format!("/eviction/{name}"));
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
    let budget_bytes = number(&report, "/usage/budget_bytes");
    assert!(
        number(&report, "/usage/mean_bytes") <= budget_bytes,
        "{report:#}"
    );
    assert!(number(&report, "/walks/nr_walks") > 1, "{report:#}");
    assert!(report["hints"].is_null(), "nobody is told: {report:#}");
    // What the engine has is what was in memory at the last walk.
    let generations = report["generations"].as_array().expect("a list");
    let bytes = |of: &Value| number(of, "/anon_bytes") + number(of, "/file_bytes");
    let tracked_bytes: u64 = generations.iter().map(bytes).sum();
    assert!(tracked_bytes > budget_bytes / 2, "{report:#}");
    let limit_bytes = number(&report, "/limit/peak_bytes");
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
fn the_generations_with_heat_and_without_run_a_program() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    let _guard = Guard::new();
    for policy in ["mglru+heat", "mglru"] {
        let report = evicts_by_itself(&["--policy", policy], policy);
        assert!((2..=4).contains(&nr_generations(&report)), "{report:#}");
    }
}

#[test]
fn the_generations_of_another_kernel_run_a_program() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    let _guard = Guard::new();
    let options = [
        "--policy",
        "mglru",
        "--model",
        "v6.1",
        "--nr-gens",
        "8",
        "--nr-tiers",
        "2",
    ];
    let report = evicts_by_itself(&options, "mglru:v6.1+nr_gens=8+nr_tiers=2");
    assert!((2..=8).contains(&nr_generations(&report)), "{report:#}");
}

#[test]
fn the_generations_by_refault_distance_run_a_program() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    let _guard = Guard::new();
    for policy in ["mglru+distance", "mglru+distance=always"] {
        evicts_by_itself(&["--policy", policy], policy);
    }
}

#[test]
fn the_two_lists_run_a_program() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    let _guard = Guard::new();
    let report = evicts_by_itself(&["--policy", "two-list"], "two-list");
    assert_eq!(
        nr_generations(&report),
        2,
        "inactive and active: {report:#}"
    );
}

#[test]
fn the_policy_of_our_own_runs_a_program() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    let _guard = Guard::new();
    let report = evicts_by_itself(&["--policy", "strata"], "strata");
    assert_eq!(
        nr_generations(&report),
        2,
        "on trial and proven: {report:#}"
    );
}

/// Runs under `auto` until the kernel was told what to spare and took pages; `None` if it never was.
fn hinted(policy: &str) -> Option<Value> {
    // Pages of a program that never sleeps come and go faster than walks may come on a slow machine.
    let load = ["--theta", "1.2", "--work-percent", "25", "--seconds", "5"];
    let reports = (0..ROUNDS_MAX).map(|_| report_of_load(&["--policy", policy], &load));
    let mut hinted = reports.filter(|report| {
        assert_eq!(report["hints"]["lever"], "activation", "{report:#}");
        number(report, "/hints/nr_compared_pages/anon") > 1000
    });
    hinted.next()
}

/// The order of heat, that of generations, and that of our own policy foretell what this program uses; that of the two
/// lists does not always, and then the kernel is told nothing for a while. Looked at on the classic LRU only, where two touches make a
/// page active.
#[test]
fn the_kernel_is_told_by_each_policys_order_what_to_spare() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    if has_generations() {
        skip!(
            "the kernel keeps generations (lru_gen/enabled), and walks are rare in an emulated guest"
        );
    }
    let _guard = Guard::new();
    for policy in ["mglru+heat", "mglru", "mglru+distance", "strata"] {
        let Some(report) = hinted(policy) else {
            skip!("walks were too far apart for hints in {ROUNDS_MAX} runs of {policy}");
        };
        let of = |name: &str| share(&report, &format!("/hints/{name}/anon"));
        let (agreement, chance) = (of("agreement"), of("chance"));
        assert!(agreement > chance, "{policy}: {report:#}");
        assert!(of("obedience") > 0.0, "{policy}: {report:#}");
        assert!(
            number(&report, "/eviction/nr_activated_pages") > 0,
            "{report:#}"
        );
        let touches = report["hints"]["nr_touches_per_freed_page"].as_f64();
        assert!(touches.is_some_and(|nr| nr > 0.0), "{policy}: {report:#}");
    }
}

#[test]
fn a_run_under_the_two_lists_holds_its_budget_whether_the_kernel_is_told_or_not() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    let _guard = Guard::new();
    let report = report_of(&["--policy", "two-list"]);
    let budget_bytes = number(&report, "/usage/budget_bytes");
    assert!(
        number(&report, "/usage/mean_bytes") <= budget_bytes,
        "{report:#}"
    );
    let eviction = |name: &str| number(&report, &format!("/eviction/{name}"));
    let nr_gone = eviction("nr_applied_pages") + eviction("nr_kernel_chosen_pages");
    if nr_gone <= 1000 && eviction("left_to_programs_ms") > 1000 {
        skip!("others want the processors as well, so walks that notice what went are rare");
    }
    assert!(nr_gone > 1000, "{report:#}");
    assert_eq!(nr_generations(&report), 2, "{report:#}");
}
