//! `strata lru-gen` on live processes.

mod support;

use std::process::{Command, Stdio};

use strata_lru::GroupView;
use strata_lru::lru_gen::parse_plain;
use support::leaks::Guard;
use support::live::rss_bytes;
use support::programs::{Touch, program};
use support::strata::{Strata, patience};

const PAGE: u64 = 4096;

/// Between the two walks.
fn interval_ms() -> u64 {
    300 * u64::from(patience().div_ceil(3))
}

fn once(pid: i32, more: &[&str]) -> GroupView {
    let run = Strata::new(["lru-gen", "--once", "--interval"])
        .arg(format!("{}ms", interval_ms()))
        .arg("--pid")
        .arg(pid.to_string())
        .args(more)
        .finish()
        .expect_success();
    let views = parse_plain(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stdout));
    assert_eq!(views.len(), 1, "{}", run.stdout);
    views.into_iter().next().expect("one")
}

fn pages(view: &GroupView) -> u64 {
    view.generations
        .iter()
        .flat_map(|g| g.nr_pages)
        .flatten()
        .sum()
}

#[test]
fn the_generations_add_up_to_what_is_resident() {
    needs!("cap_bpf");
    let _guard = Guard::new();
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask("writerange 0 16384");
    let view = once(touch.pid, &[]);
    let (sum, resident) = (pages(&view), rss_bytes(touch.pid) / PAGE);
    assert!(
        sum.abs_diff(resident) * 50 <= resident,
        "{sum} of {resident} pages: {view:?}"
    );
    let ages: Vec<u64> = view.generations.iter().map(|g| g.age_ms).collect();
    assert!(
        ages.is_sorted_by(|older, younger| older >= younger),
        "{ages:?}"
    );
    assert!(ages.first() >= Some(&interval_ms()), "{ages:?}");
}

#[test]
fn pages_in_use_stay_young_and_the_others_do_not() {
    needs!("cap_bpf");
    let _guard = Guard::new();
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask("writerange 0 16384");
    // A bit is set again only after the processor has dropped its translation, which an emulated one
    // does not do by itself: the program makes it forget them.
    touch.ask("hammer 7 8000");
    let view = once(touch.pid, &[]);
    let youngest = &view.generations[view.generations.len() - 2..];
    let young: u64 = youngest.iter().filter_map(|g| g.nr_pages[0]).sum();
    assert!(
        (7600..12000).contains(&young),
        "{young} young pages: {view:?}"
    );
}

#[test]
fn without_bpf_a_process_is_still_watched() {
    let _guard = Guard::new();
    let mut touch = Touch::start(["--size", "16M"]);
    touch.ask("writerange 0 4096");
    let view = once(touch.pid, &["--access", "smaps"]);
    assert!(pages(&view) >= 4000, "{view:?}");
}

#[test]
fn a_process_that_cannot_be_watched_is_one_clear_error() {
    let _guard = Guard::new();
    let mut gone = Command::new(program("status"))
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    gone.wait().expect("wait");
    for (pid, why) in [(gone.id(), "does not exist"), (2, "kernel thread")] {
        let run = Strata::new(["lru-gen", "--once", "--pid", &pid.to_string()]).finish();
        assert_eq!(run.code(), Some(2), "{}", run.stderr);
        // Where pid 2 is hidden or absent (a container), it does not exist.
        let is_told = run.stderr.contains(why) || run.stderr.contains("does not exist");
        assert!(is_told && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
}
