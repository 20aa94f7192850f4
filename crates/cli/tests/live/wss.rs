//! `strata wss` on programs whose working set is known.

use crate::support::prelude::*;

/// Anonymous memory of the program beside its region.
const OTHER_BYTES: u64 = 256 << 10;

/// A program's time and the watch's on a slow machine.
fn slow(seconds: f64) -> f64 {
    seconds * f64::from(patience().div_ceil(3))
}

fn arg_s(seconds: f64) -> String {
    format!("{}ms", (seconds * 1000.0) as u64)
}

fn wss(args: &[&str]) -> Value {
    let run = Strata::new(["wss", "--format", "json"]).args(args);
    run.finish().expect_success().json()
}

#[test]
fn what_forked_processes_share_counts_once_and_what_one_of_them_wrote_twice() {
    live!("cap_bpf");
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask("writerange 0 16384");
    touch.ask("fork 3");
    // Sixteen MiB become the parent's own; its children still share them.
    touch.ask("writerange 0 4096");
    let seconds = slow(1.0);
    let report = wss(&[
        "--tree",
        &touch.pid.to_string(),
        "--window",
        &arg_s(seconds),
        "--for",
        &arg_s(2.0 * seconds),
    ]);
    let resident = number(&report["anon_bytes"]);
    let expected = (64 + 16) * MIB;
    // Each process has stacks and written data of its own.
    assert!(
        (expected..expected + 4 * MIB).contains(&resident),
        "{resident} of {expected}: {report:#}"
    );
    assert_eq!(number(&report["unknown_bytes"]), 0, "{report:#}");
}

/// Watches a program that runs in `mode` and holds every window against what it says it did. `Some` says
/// what was told wrongly.
fn beyond_2_percent(mode: &str, backing: &str) -> Result<Option<String>, String> {
    let file = target_dir().join(format!("wss-{mode}-{backing}-{}", std::process::id()));
    // Where the kernel's DAMON samples memory it clears the accessed bits of whole huge pages a few
    // times a second: one that was used just before the walk is found all the same.
    let every = slow(if backing == "huge" { 0.01 } else { 0.1 }).to_string();
    let phase = slow(2.0).to_string();
    let program = WorkingSet::start(&[
        "--mode",
        mode,
        "--backing",
        backing,
        "--size",
        "128M",
        "--hot",
        "32M",
        "--every",
        &every,
        "--phase",
        &phase,
        "--file",
        &file.to_string_lossy(),
    ]);
    // The mapping keeps it.
    let _ = fs::remove_file(&file);
    let program = program?;
    let (short_s, long_s) = (slow(0.5), slow(3.0));
    let report = wss(&[
        "--pid",
        &program.pid.to_string(),
        "--window",
        &format!("{},{}", arg_s(short_s), arg_s(long_s)),
        "--for",
        &arg_s(slow(5.0)),
    ]);
    let end_s = monotonic_s();
    let truth = program.finish();
    let name = match backing {
        "anon" | "huge" => String::new(),
        _ => format!("{} (deleted)", file.display()),
    };
    let mappings = report["mappings"].as_array().expect("a list").iter();
    let mut region = mappings.filter(|of| of["name"] == *name);
    let region = region
        .next()
        .unwrap_or_else(|| panic!("no {name:?}: {report}"));
    for (at, window_s) in [short_s, long_s].into_iter().enumerate() {
        let told = number(&region["windows"][at]["accessed_bytes"]);
        // The last walk was at most so long before; what is used at the edges of a window may be on
        // either side.
        let edge_s = slow(0.11);
        let used = [0.0, edge_s].map(|before_s| {
            [-edge_s, 0.0, edge_s]
                .map(|more_s| truth.used_bytes(end_s - before_s, window_s + more_s))
        });
        let used = used.as_flattened();
        let (least, most) = (
            used.iter().min().expect("some"),
            used.iter().max().expect("some"),
        );
        assert!(*most > 0, "{mode}: the program did nothing");
        // Where the kernel keeps generations, pages of files of a program too large to be cleared at once are unknown.
        let is_bound_only = has_generations() && report["cost"]["nr_left_pieces"] != 0;
        let unknown = match is_bound_only {
            true => number(&region["unknown_bytes"]),
            false => 0,
        };
        if (told + unknown) * 100 < least * 98 || told * 100 > most * 102 + OTHER_BYTES * 100 {
            return Ok(Some(format!(
                "{mode} {backing}, {window_s} s: {told} told, {least} to {most} used: {report}"
            )));
        }
    }
    Ok(None)
}

/// A busy machine holds up a walk or the program in the middle of a round now and then; it does not do
/// that each time.
fn is_within_2_percent(mode: &str, backing: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    while wrong.len() < 3 {
        match beyond_2_percent(mode, backing)? {
            None => return Ok(()),
            Some(what) => wrong.push(what),
        }
    }
    panic!("three times: {wrong:#?}");
}

/// Watches programs of these modes and backings side by side.
fn all_are_within_2_percent(programs: &[(&str, &str)]) -> Result<(), String> {
    thread::scope(|scope| {
        let watches: Vec<_> = programs
            .iter()
            .map(|(mode, backing)| scope.spawn(move || is_within_2_percent(mode, backing)))
            .collect();
        watches
            .into_iter()
            .try_for_each(|watch| watch.join().expect("no watch panics"))
    })
}

fn every_mode_is_within_2_percent(backing: &str) -> Result<(), String> {
    let modes = ["steady", "growing", "phased", "random", "strided"];
    all_are_within_2_percent(&modes.map(|mode| (mode, backing)))
}

#[test]
fn the_working_set_of_small_pages_is_found_within_2_percent() {
    live!("cap_bpf");
    every_mode_is_within_2_percent("anon").expect("runs everywhere");
}

#[test]
fn the_working_set_of_huge_pages_is_found_within_2_percent() {
    live!("cap_bpf");
    if let Err(why) = every_mode_is_within_2_percent("huge") {
        skip!("{why}");
    }
}

#[test]
fn the_working_set_of_mapped_files_is_found_within_2_percent() {
    live!("cap_bpf");
    let programs = [
        ("random", "shared"),
        ("receding", "private"),
        ("steady", "shared"),
    ];
    all_are_within_2_percent(&programs).expect("runs everywhere");
}

#[test]
fn what_is_not_touched_is_idle_for_as_long_as_it_was_watched() {
    live!("cap_bpf");
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask("writerange 0 16384");
    let watch = Strata::new([
        "wss", "--window", "500ms", "--for", "5s", "--format", "json",
    ])
    .args(["--pid", &touch.pid.to_string()]);
    let report = thread::scope(|scope| {
        let watch = scope.spawn(move || watch.finish().expect_success());
        // In the middle of the watch a quarter is used once.
        sleep(Duration::from_millis(2500));
        touch.ask("readrange 0 4096");
        watch.join().expect("no panic")
    });
    let report = report.json();
    let resident = number(&report["resident_bytes"]);
    assert!(
        resident.abs_diff(rss_bytes(touch.pid)) <= resident / 50,
        "{report}"
    );
    let idle = |at_least_s: u64| {
        let bounds = report["idle"].as_array().expect("a list").iter();
        let mut found = bounds.filter(|bound| bound["at_least_seconds"] == at_least_s);
        found.next().map(|bound| number(&bound["bytes"]))
    };
    let is_about = |bytes: u64, mib: u64| bytes.abs_diff(mib * MIB) <= 2 * MIB;
    assert!(idle(1).is_some_and(|bytes| is_about(bytes, 64)), "{report}");
    assert!(idle(4).is_some_and(|bytes| is_about(bytes, 48)), "{report}");
    // Nobody can know after five seconds.
    assert_eq!(idle(8), None, "{report}");
    let mappings = report["mappings"].as_array().expect("a list");
    assert!(number(&mappings[0]["resident_bytes"]) >= 64 * MIB && mappings[0]["class"] == "anon");
    let sum: u64 = mappings
        .iter()
        .map(|of| number(&of["resident_bytes"]))
        .sum();
    assert_eq!(sum, resident);
}

#[test]
fn page_cache_of_a_cgroup_is_told_by_when_it_was_read() {
    needs!("cap_bpf");
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("wss-cache");
    let [idle, read] = ["idle", "read"].map(|name| directory.path().join(name));
    for path in [&idle, &read] {
        write_file(&group, path, 32);
        forget(path);
        read_file(&group, path, 1);
    }
    // There has to be somebody to watch.
    let touch = Touch::start(["--size", "8M"]);
    group.take(touch.pid);
    let length = Duration::from_secs_f64(slow(4.0));
    let reader = thread::spawn({
        let read = read.clone();
        move || {
            // Before the watch begins, programs are loaded and all of memory is looked at: half as long as the watch lasts.
            sleep(length);
            fs::read(&read).map(|bytes| bytes.len())
        }
    });
    let window = arg_s(length.as_secs_f64());
    let target = group.path.display().to_string();
    let report = wss(&[
        "--cgroup",
        &target,
        "--window",
        &window,
        "--interval",
        "500ms",
    ]);
    reader.join().expect("it reads").expect("read");
    let cache = &report["cache"];
    let windows = cache["windows"].as_array().expect("windows");
    let told = windows
        .last()
        .unwrap_or_else(|| panic!("no window: {report:#}"));
    // A machine of which only a part is looked at is told by estimates.
    if cache["sampled_share"] == 1.0 {
        assert_near("read", number(&told["read_bytes"]), 32 * MIB);
        assert_near("not read", number(&told["idle_bytes"]), 32 * MIB);
    }
    assert!(number(&cache["charged_bytes"]) >= 60 * MIB, "{report:#}");
    let of_window = report["windows"][0]["cache_bytes"].as_u64();
    assert_eq!(
        of_window,
        Some(number(&windows[0]["read_bytes"])),
        "{report:#}"
    );
}

#[test]
fn a_target_that_ends_leaves_what_was_learnt_of_it() {
    live!("cap_bpf");
    // Long enough for two walks on a slow processor, too.
    let rounds = (15 * patience().min(5)).to_string();
    let program = WorkingSet::start(&["--size", "32M", "--hot", "16M", "--rounds", &rounds])
        .expect("runs everywhere");
    let run = Strata::new(["wss", "--window", "200ms,30s", "--pid"])
        .arg(program.pid.to_string())
        .finish()
        .expect_success();
    assert!(run.stderr.contains("has ended"), "{}", run.stderr);
    assert!(run.stdout.starts_with("about "), "{}", run.stdout);
    assert!(run.stdout.contains("used within 30 s >="), "{}", run.stdout);
}

#[test]
fn a_group_that_is_removed_leaves_what_was_learnt_of_it() {
    live!("cap_bpf", "memory_cgroup");
    let group = TestGroup::new("wss-removed");
    let touch = Touch::start(["--size", "32M"]);
    group.take(touch.pid);
    let remover = thread::spawn({
        let path = group.path.clone();
        move || {
            // Long enough for two walks on a slow processor, too.
            sleep(Duration::from_secs_f64(slow(6.0)));
            drop(touch);
            wait_until("the group is removed", || fs::remove_dir(&path).is_ok());
        }
    });
    let windows = format!("200ms,{}", arg_s(slow(30.0)));
    let run = Strata::new(["wss", "--window", &windows, "--cgroup"])
        .arg(&group.path)
        .finish()
        .expect_success();
    remover.join().expect("it was removed");
    assert!(run.stderr.contains("has ended"), "{}", run.stderr);
    assert!(run.stdout.starts_with("about "), "{}", run.stdout);
}

#[test]
fn without_bpf_sums_of_mappings_are_told_and_said_to_be_such() {
    let _guard = Guard::new();
    let program = WorkingSet::start(&["--size", "64M", "--hot", "32M"]).expect("runs everywhere");
    let run = Strata::new([
        "wss",
        "--access",
        "smaps",
        "--window",
        "1s",
        "--verbose",
        "--pid",
    ])
    .arg(program.pid.to_string())
    .finish()
    .expect_success();
    assert!(run.stdout.contains("sums of mappings"), "{}", run.stdout);
    assert_has(&run.stderr, "which pages of a mapping");
}
