//! What happens when usage comes near the budget, before anything has to go.

use crate::support::prelude::*;

/// Until Strata looks no oftener than once a second; times patience.
const SETTLED: Duration = Duration::from_secs(3);

/// Less than is between two looks of a loop that nothing wakes.
const A_MOMENT: Duration = Duration::from_millis(250);

/// Strata at a program of so much memory that does what the test says, with as much for a budget; its report after
/// `during`.
fn report_of(
    name: &str,
    size: &str,
    options: &[&str],
    during: impl FnOnce(&mut Touch, &TestGroup),
) -> Value {
    let group = TestGroup::new(name);
    let mut touch = Touch::start(["--size", size]);
    group.take(touch.pid);
    let report = tempfile::NamedTempFile::new().expect("temporary file");
    let pid = touch.pid.to_string();
    let mut live = Live::start(
        &Strata::new(["run", "--memory", size, "--report"])
            .arg(report.path())
            .args(options)
            .args(["--pid", &pid]),
    );
    live.wait_until_it_answers();
    sleep(SETTLED * patience() + A_MOMENT);
    during(&mut touch, &group);
    live.interrupt();
    json_in(report.path())
}

/// An idle loop looks once a second, and a program had filled its memory by then: all of it bore accessed bits
/// that only filling had set, and the kernel looked at three pages for each that went, at five with a swap file. Looked at page
/// by page, so that walks come once a second.
#[test]
fn a_program_that_fills_its_memory_at_once_is_looked_at_before_any_has_to_go() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise");
    if !memory_mount().expect("a memory controller").1 {
        skip!("cgroup v2 has no event that tells of growth");
    }
    let _guard = Guard::new();
    let filled = || {
        report_of("near", "64M", &["--policy", "mglru"], |touch, _| {
            for round in 0..3 {
                // 93 % of the budget, a little more each time: where usage has not changed there is nothing to see.
                touch.ask(&format!("writerange 0 {}", 15200 + 50 * round));
                sleep(A_MOMENT);
                touch.ask("advise dontneed 0 16384");
                sleep(Duration::from_secs(1) * patience() + A_MOMENT);
            }
            touch.ask("writerange 0 15350");
            sleep(A_MOMENT);
        })
    };
    // By chance an ordinary look comes at such a moment one time in four, and at all four one time in 256.
    let is_seen = |report: &Value| report["walks"]["nr_walks"].as_u64() >= Some(4);
    let report = try_thrice(filled, is_seen);
    assert!(is_seen(&report), "{report:#}");
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    let found = number("/walks/last/nr_resident_pages/0");
    assert!(found >= Some(10_000), "{report:#}");
    assert_eq!(number("/eviction/nr_tried_pages"), Some(0), "{report:#}");
}

#[test]
fn usage_that_moves_to_and_fro_near_the_budget_does_not_keep_strata_awake() {
    live!("cap_bpf", "memory_cgroup", "process_madvise");
    let mut took = Duration::ZERO;
    let report = report_of("fro", "64M", &[], |touch, _| {
        let begun = Instant::now();
        touch.ask("writerange 0 13500");
        for _ in 0..500 {
            // 57 MiB are 90 %.
            touch.ask("writerange 13500 1500");
            touch.ask("advise dontneed 13500 1500");
        }
        took = begun.elapsed();
    });
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    let nr_looks = number("/usage/nr_samples").expect("a number");
    // One each 5 ms, as where there is work to do, and those before and after.
    let most = took.as_millis() as u64 / 5 + 20 + 5 * u64::from(patience());
    assert!(nr_looks <= most, "{nr_looks} in {took:?}");
    assert_eq!(number("/eviction/nr_tried_pages"), Some(0), "{report:#}");
}

/// Whether anything can't go was looked at near the budget only, so the limit came down before that, to where what
/// locks a little more meets it.
#[test]
fn next_to_what_is_locked_the_limit_keeps_its_distance() {
    needs!("cap_bpf", "memory_cgroup", "process_madvise");
    if !memory_mount().expect("a memory controller").1 {
        skip!("cgroup v2 has memory.high for that, where tasks are slowed down and nothing fails");
    }
    let _guard = Guard::new();
    let mut limits = Vec::new();
    let report = report_of("pinch", "128M", &[], |touch, group| {
        let mut limit = || {
            let text = fs::read_to_string(group.path.join("memory.limit_in_bytes"));
            let bytes: u64 = text.expect("a limit").trim().parse().expect("a number");
            limits.push(bytes);
        };
        limit();
        // 116 MiB, 91 % of the budget.
        touch.ask("writerange 0 29696");
        touch.ask("lock 0 29696");
        sleep(Duration::from_millis(2500) * patience());
        limit();
    });
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    let (budget, backstop) = (128 << 20, number("/limit/backstop_bytes").expect("bytes"));
    assert!(limits[0] < budget, "nothing is locked yet: {limits:?}");
    assert_eq!(limits[1], backstop, "{report:#}");
    assert_eq!(number("/limit/nr_raises"), Some(0), "{report:#}");
}
