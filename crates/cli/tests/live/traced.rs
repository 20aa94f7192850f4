//! `run --trace`: what is written of a real run, and that writing it changes nothing.

use crate::support::prelude::*;

use std::os::unix::fs::symlink;
use strata_control::limit::Answer;
use strata_control::trace::{Note, Turn};
use support::control_trace::{asked_bytes, marks, notes, turns, violations};

fn run(more: &[&str]) -> Strata {
    let strata = Strata::new(["run", "--memory", "72M", "--swap", "zram:256M"]).args(more);
    let zipf = strata.arg("--").arg(program("zipf"));
    zipf.args(["--size", "120M", "--seconds", "3"])
}

/// Each kind of decision, and whether the run of this report has any. On slow processors usage is above the
/// budget for a moment in one run and not in the next: not compared there.
fn kinds(report: &Value) -> Vec<(&'static str, bool)> {
    let some = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64) > Some(0);
    let reclaim = some("/eviction/reclaim_asked_bytes")
        || some("/eviction/nr_applied_pages")
        || some("/eviction/left_to_programs_ms");
    vec![
        ("walks", some("/walks/nr_walks")),
        ("reclaim", reclaim),
        (
            "gone",
            some("/eviction/nr_kernel_chosen_pages") || some("/eviction/nr_applied_pages"),
        ),
        (
            "over budget",
            patience() == 1 && some("/usage/above_budget_ms"),
        ),
        ("raises", some("/limit/nr_raises")),
    ]
}

#[test]
fn the_trace_of_a_run_says_what_its_report_says_and_changes_nothing() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("trace.jsonl");
    fs::write(&path, "what was there before").expect("writable");
    let shown = path.display().to_string();
    let (run_traced, report) = run(&["--trace", &shown]).finish_with_report();
    assert_eq!(run_traced.code(), Some(0), "{}", run_traced.stderr);
    assert!(
        !run_traced.stderr.contains("the trace"),
        "{}",
        run_traced.stderr
    );
    let turns = turns(&fs::read_to_string(&path).expect("a trace"));
    assert_eq!(violations(&turns, true), Vec::<String>::new());
    agree(&turns, &report);
    let run_alone = || {
        let (run_alone, alone) = run(&[]).finish_with_report();
        assert_eq!(run_alone.code(), Some(0), "{}", run_alone.stderr);
        alone
    };
    // A moment without a processor has usage above the budget in one run and not in the next.
    let alone = try_thrice(run_alone, |alone| kinds(&report) == kinds(alone));
    assert_eq!(kinds(&report), kinds(&alone), "{report:#}\n{alone:#}");
}

fn agree(turns: &[Turn], report: &Value) {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64);
    let usage = || {
        turns
            .iter()
            .filter_map(|turn| Some(turn.sample.as_ref()?.usage_bytes))
    };
    assert_eq!(usage().max(), number("/usage/peak_bytes"));
    assert_eq!(Some(usage().count() as u64), number("/usage/nr_samples"));
    let marks = marks(turns);
    assert_eq!(Some(marks.budget_bytes), number("/usage/budget_bytes"));
    assert_eq!(Some(marks.backstop_bytes), number("/limit/backstop_bytes"));
    let asked_bytes = Some(asked_bytes(turns));
    assert_eq!(asked_bytes, number("/eviction/reclaim_asked_bytes"));
    let count = |is: fn(&&Note) -> bool| Some(notes(turns).filter(is).count() as u64);
    let is_raise = |note: &&Note| matches!(note, Note::Step(_, Some(Answer::Raised(1..))));
    assert_eq!(count(is_raise), number("/limit/nr_raises"));
    let is_walk = |note: &&Note| matches!(note, Note::Walk { .. });
    assert_eq!(count(is_walk), number("/walks/nr_walks"));
    let last = turns.last().expect("an end");
    assert_eq!(Some(last.now.0), number("/elapsed_ms"));
    assert!(usage().next_back() > Some(0));
}

#[test]
fn a_trace_that_can_not_be_written_ends_with_one_warning_and_the_run_goes_on() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let (full, report) = run(&["--trace", "/dev/full"]).finish_with_report();
    assert_eq!(full.code(), Some(0), "{}", full.stderr);
    let warnings = report["warnings"].as_array().expect("a list");
    let of_trace = |warning: &&Value| {
        let text = warning.as_str().unwrap_or_default();
        text.contains("/dev/full") && text.contains("No space left")
    };
    assert_eq!(warnings.iter().filter(of_trace).count(), 1, "{report:#}");
    assert!(kinds(&report).contains(&("reclaim", true)), "{report:#}");
}

#[test]
fn a_link_in_the_place_of_the_trace_is_refused_before_anything_is_started() {
    let directory = tempfile::tempdir().expect("a directory");
    let victim = directory.path().join("victim");
    let link = directory.path().join("link");
    fs::write(&victim, "precious").expect("writable");
    symlink(&victim, &link).expect("a link");
    let started = directory.path().join("started");
    let refused = Strata::new(["run", "--memory", "64M", "--trace"])
        .arg(&link)
        .args(["--", "touch"])
        .arg(&started)
        .finish();
    assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("symbolic link"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
    assert!(!started.exists());
}
