//! Who reclaims where others want all processors, or where Strata's own share of them is spent.

use crate::support::prelude::*;

/// Reclaim ahead took its time from the loops, which kept a quarter to a half of their progress.
#[test]
fn beside_busy_loops_a_program_reclaims_for_itself() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let seconds = (4 * patience().min(7)).to_string();
    let _loops = BusyLoops::start();
    let (run, report) = Strata::new(["run", "--memory", "24M", "--swap", "zram:256M", "--"])
        .arg(program("zipf"))
        .args(["--size", "40M", "--work-percent", "50"])
        .args(["--seconds", &seconds])
        .time_limit(Duration::from_secs(80))
        .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let number = |name: &str| report["eviction"][name].as_u64().expect("a number");
    let left_ms = number("left_to_programs_ms");
    let elapsed_ms = report["elapsed_ms"].as_u64().expect("a number");
    assert!(left_ms * 2 > elapsed_ms, "{report:#}");
    assert_eq!(number("nr_applied_pages"), 0, "{report:#}");
}

#[test]
fn where_the_cap_of_processor_time_does_not_pay_for_reclaim_the_program_reclaims_and_the_budget_holds()
 {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let seconds = (5 * patience().min(6)).to_string();
    let (run, report) = Strata::new([
        "run",
        "--cpu",
        "10%",
        "--memory",
        "48M",
        "--swap",
        "zram:256M",
        "--",
    ])
    .arg(program("zipf"))
    .args(["--size", "80M", "--seconds", &seconds])
    .time_limit(Duration::from_secs(80))
    .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert_eq!(report["strata_cpu_cap_percent"], 10, "{report:#}");
    let left_ms = report["eviction"]["left_to_programs_ms"]
        .as_u64()
        .expect("a number");
    let elapsed_ms = report["elapsed_ms"].as_u64().expect("a number");
    assert!(left_ms * 2 > elapsed_ms, "{report:#}");
    let above_ms = report["usage"]["above_budget_ms"]
        .as_u64()
        .expect("a number");
    assert!(above_ms * 20 < elapsed_ms, "{report:#}");
}
