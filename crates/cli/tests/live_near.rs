//! What happens when usage comes near the budget, before anything has to go.

mod support;

use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use support::leaks::Guard;
use support::live::{Live, TestGroup, memory_mount};
use support::programs::Touch;
use support::strata::{Strata, patience};

/// A quarter of a second more than Strata needs to be there, and to look no oftener than once a second.
const SETTLED: Duration = Duration::from_millis(3250);

/// Strata at a program that does what the test says, with 64 MiB; its report after `during`.
fn report_of(name: &str, during: impl FnOnce(&mut Touch)) -> Value {
    let group = TestGroup::new(name);
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    let report = tempfile::NamedTempFile::new().expect("temporary file");
    let pid = touch.pid.to_string();
    let mut live = Live::start(
        &Strata::new(["run", "--memory", "64M", "--report"])
            .arg(report.path())
            .args(["--pid", &pid]),
    );
    sleep(SETTLED * patience());
    during(&mut touch);
    live.signal(Signal::INT);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    let text = std::fs::read_to_string(report.path()).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

/// An idle loop looks once a second, and a program had filled its memory by then: all of it bore accessed bits
/// that only filling had set, and the kernel looked at three pages for each that went, at five with a swap file.
#[test]
fn a_program_that_fills_its_memory_at_once_is_looked_at_before_any_has_to_go() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise");
    if !memory_mount().expect("a memory controller").1 {
        skip!("cgroup v2 has no event that tells of growth");
    }
    let _guard = Guard::new();
    let report = report_of("near", |touch| {
        // 93 % of the budget.
        touch.ask("writerange 0 15240");
        sleep(Duration::from_millis(250) * patience());
    });
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    assert!(number("/walks/nr_walks") >= Some(1), "{report:#}");
    let found = number("/walks/last/nr_appeared_pages");
    assert!(found >= Some(10_000), "{report:#}");
    assert_eq!(number("/eviction/nr_tried_pages"), Some(0), "{report:#}");
}

#[test]
fn usage_that_moves_to_and_fro_near_the_budget_does_not_keep_strata_awake() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise");
    let _guard = Guard::new();
    let nr_rounds = 500;
    let report = report_of("fro", |touch| {
        touch.ask("writerange 0 13500");
        for _ in 0..nr_rounds {
            // 57 MiB are 90 %.
            touch.ask("writerange 13500 1500");
            touch.ask("advise dontneed 13500 1500");
        }
    });
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    let nr_looks = number("/usage/nr_samples").expect("a number");
    // At most one each 5 ms, were there work to do.
    let observed_ms = number("/usage/observed_ms").expect("a number");
    assert!(nr_looks < nr_rounds / 2, "{nr_looks} in {observed_ms} ms");
    assert_eq!(number("/eviction/nr_tried_pages"), Some(0), "{report:#}");
}
