//! Who reclaims where others want all processors, or where Strata's own share of them is spent.

use crate::support;

use std::time::Duration;

use support::leaks::Guard;
use support::programs::{BusyLoops, program};
use support::strata::{Strata, patience};

/// Reclaim ahead took its time from the loops, which kept a quarter to a half of their progress.
#[test]
fn beside_busy_loops_a_program_reclaims_for_itself() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
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
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
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

/// How far each program comes says nothing of the decision: whoever is ahead uses its pages more often.
#[test]
fn two_programs_that_fill_all_processors_reclaim_for_themselves() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    if std::thread::available_parallelism().map_or(1, usize::from) != 2 {
        skip!("two programs do not fill these processors");
    }
    let _guard = Guard::new();
    let (run, report) = Strata::new(["run", "--memory", "24M", "--swap", "zram:256M", "--"])
        .args(["sh", "-c"])
        .arg(
            "\"$0\" --after 2 --size 20M --theta 1.2 --seconds 6 & \"$0\" --after 2 --size 20M --theta 1.2 --seed 2 --seconds 6; wait $!",
        )
        .arg(program("zipf"))
        .time_limit(Duration::from_secs(80))
        .finish_with_report();
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let left_ms = report["eviction"]["left_to_programs_ms"].as_u64();
    assert!(left_ms > Some(1000), "{report:#}");
    let ends = run.stdout.lines().filter(|line| line.contains("program"));
    let nr_ends = ends.filter(|line| line.contains("\"ops\"")).count();
    assert_eq!(nr_ends, 2, "both come to their end: {}", run.stdout);
}
