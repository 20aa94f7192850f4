//! A phase that comes back is read in at once, from where a return has to be waited for.

use crate::support;

use serde_json::Value;
use support::leaks::Guard;
use support::live::{disk_directory, try_thrice};
use support::programs::program;
use support::strata::Strata;

/// Room for 60 % of what the programs use. They are so small that their accessed bits are cleared in one call on any
/// machine: walks of larger ones are so rare on a slow one that nothing is learned in a few seconds.
const BUDGET: &str = "24M";
const SIZE: &str = "40M";

/// What Strata reports of a workload with so much swap.
fn report_of(swap: &str, name: &str, args: &[&str]) -> Value {
    let strata = Strata::new([
        "run",
        "--quiet",
        "--prefetch",
        "--memory",
        BUDGET,
        "--swap",
        swap,
        "--",
    ])
    .arg(program(name))
    .args(["--size", SIZE])
    .args(args);
    let (finished, report) = strata.finish_with_report();
    finished.expect_success();
    report
}

fn number(report: &Value, pointer: &str) -> u64 {
    let found = report.pointer(pointer).and_then(Value::as_u64);
    found.unwrap_or_else(|| panic!("no {pointer} in {report:#}"))
}

fn nr_recalled(report: &Value) -> u64 {
    number(report, "/eviction/nr_recalled_pages")
}

/// Two halves in turn: each has room, and is out when its turn comes. Without reading ahead the program spent its
/// turns waiting for one page after the other.
#[test]
fn the_half_whose_turn_it_is_comes_back_from_a_swap_file_at_once() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise");
    let _guard = Guard::new();
    let directory = match disk_directory() {
        Ok(directory) => directory,
        Err(why) => skip!("{why}"),
    };
    let swap = format!("file:{}:256M", directory.path().join("swap").display());
    let args = ["--phases", "5", "--phase", "2"];
    // A page that is read ahead is charged when it comes, in a fault of nobody.
    let is_within = |report: &Value| {
        let above_ms = number(report, "/usage/above_budget_ms");
        above_ms * 100 <= number(report, "/usage/observed_ms")
    };
    // A disk that is slow for a second hides where a phase begins.
    let report = try_thrice(
        || report_of(&swap, "sets", &args),
        |report| nr_recalled(report) > 2300 && is_within(report),
    );
    let nr_recalled = nr_recalled(&report);
    let left_ms = number(&report, "/eviction/left_to_programs_ms");
    if nr_recalled <= 2300 && left_ms > 1000 {
        skip!("others wanted every processor for {left_ms} ms: nothing is read ahead meanwhile");
    }
    // A half has 5,120 pages, and comes back three times.
    assert!(nr_recalled > 2300, "{report:#}");
    let nr_used = number(&report, "/eviction/nr_recalled_used_pages");
    assert!(nr_used * 3 > nr_recalled, "{report:#}");
    assert!(is_within(&report), "{report:#}");
}

/// The program has no phases: reading ahead must not bring in many pages that it does not use soon.
#[test]
fn a_program_that_wants_more_than_it_may_have_all_the_time_is_read_little_ahead_that_it_does_not_use()
 {
    needs!("cap_bpf", "memory_cgroup", "process_madvise");
    let _guard = Guard::new();
    let directory = match disk_directory() {
        Ok(directory) => directory,
        Err(why) => skip!("{why}"),
    };
    let swap = format!("file:{}:256M", directory.path().join("swap").display());
    let report = report_of(&swap, "zipf", &["--theta", "0.99", "--seconds", "5"]);
    let nr_refaulted = number(&report, "/eviction/nr_refaulted_pages");
    let nr_used = number(&report, "/eviction/nr_recalled_used_pages");
    let nr_wasted = nr_recalled(&report).saturating_sub(nr_used);
    assert!(
        nr_refaulted > 0 && nr_wasted * 10 <= nr_refaulted,
        "{report:#}"
    );
}

/// It would take as long as the program takes.
#[test]
fn nothing_is_read_ahead_from_zram() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise", "zram");
    let _guard = Guard::new();
    let report = report_of("zram:256M", "sets", &["--phases", "4", "--phase", "1"]);
    assert_eq!(nr_recalled(&report), 0, "{report:#}");
}
