//! `strata lru-gen` on live processes.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use strata_lru::GroupView;
use strata_lru::lru_gen::parse_plain;
use support::leaks::Guard;
use support::live::{TestGroup, rss_bytes};
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

/// The kernel's own generations of a group, by `--access kernel`.
fn kernels(group: &Path) -> GroupView {
    let run = Strata::new(["lru-gen", "--access", "kernel", "--cgroup"])
        .arg(group)
        .finish()
        .expect_success();
    let mut views = parse_plain(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stdout));
    assert!(!views.is_empty(), "{}", run.stdout);
    views.swap_remove(0)
}

fn anon(view: &GroupView) -> u64 {
    view.generations.iter().filter_map(|g| g.nr_pages[0]).sum()
}

fn second_youngest_age_ms(view: &GroupView) -> u64 {
    view.generations[view.generations.len() - 2].age_ms
}

#[test]
fn our_generations_of_a_group_are_like_those_the_kernel_keeps_itself() {
    needs!("cap_bpf", "memory_cgroup");
    let enabled = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").unwrap_or_default();
    if enabled.trim().is_empty() || enabled.trim() == "0x0000" {
        skip!("needs a kernel whose multi-gen LRU is on (lru_gen/enabled)");
    }
    let debugfs = Path::new("/sys/kernel/debug/lru_gen");
    if !debugfs.exists() {
        skip!("needs debugfs at /sys/kernel/debug");
    }
    let _guard = Guard::new();
    let group = TestGroup::new("generations");
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    // Both age twice, an interval apart.
    let age = || {
        let view = kernels(&group.path);
        let youngest = view.generations.last().expect("a generation").seq.0;
        let command = format!("+ {} {} {youngest}", view.group.0, view.node.0);
        fs::write(debugfs, command).expect("the kernel walks");
    };
    age();
    let ours = Strata::new(["lru-gen", "--once", "--interval"])
        .arg(format!("{}ms", interval_ms()))
        .arg("--cgroup")
        .arg(&group.path)
        .finish()
        .expect_success();
    age();
    let kernel = kernels(&group.path);
    let ours = parse_plain(&ours.stdout).unwrap_or_else(|e| panic!("{e}: {}", ours.stdout));
    let ours = &ours[0];

    assert_eq!((&ours.path, ours.node), (&kernel.path, kernel.node));
    assert!(
        anon(ours).abs_diff(anon(&kernel)) * 10 <= anon(&kernel) && anon(ours) >= 16_000,
        "ours: {ours:?}\nkernel: {kernel:?}"
    );
    for view in [ours, &kernel] {
        let count = view.generations.len();
        assert!((2..=4).contains(&count), "{view:?}");
        let is_in_order = |pair: &[strata_lru::GenerationView]| {
            pair[1].seq.0 == pair[0].seq.0 + 1 && pair[0].age_ms >= pair[1].age_ms
        };
        assert!(view.generations.windows(2).all(is_in_order), "{view:?}");
    }
    let (age, kernels_age) = (
        second_youngest_age_ms(ours),
        second_youngest_age_ms(&kernel),
    );
    assert!(
        age >= interval_ms() / 2 && kernels_age >= interval_ms() / 2,
        "{age} and {kernels_age} ms"
    );
    let (less, more) = (age.min(kernels_age), age.max(kernels_age));
    assert!(more <= less * 10, "{age} and {kernels_age} ms");
}

#[test]
fn a_kernel_without_generations_is_told_with_what_mends_it() {
    needs!("memory_cgroup");
    let enabled = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").unwrap_or_default();
    if !enabled.trim().is_empty() && enabled.trim() != "0x0000" {
        skip!("this kernel's multi-gen LRU is on");
    }
    let own = std::process::id().to_string();
    let run = Strata::new(["lru-gen", "--access", "kernel", "--pid", &own]).finish();
    assert_eq!(run.code(), Some(1), "{}", run.stderr);
    let is_told = run.stderr.contains("CONFIG_LRU_GEN") || run.stderr.contains("echo y >");
    assert!(is_told && run.stdout.is_empty(), "{}", run.stderr);
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
