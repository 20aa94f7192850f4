//! Programs that want more than there is: budgets below the floor, no swap, full swap, no end.

use crate::support::prelude::*;

/// What is said where a budget can't be met.
const FLOOR: &str = "is below what the program can't give up";

/// With pageout the pages of the C library, shared with others, were tried again and again (60,000
/// in four seconds), and with the kernel's reclaim nothing was told at all.
#[test]
fn a_budget_below_what_is_locked_is_told_and_does_not_thrash() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    for actuator in ["pageout", "auto", "reclaim"] {
        let group = TestGroup::new("locked");
        let mut touch = Touch::start(["--size", "64M"]);
        group.take(touch.pid);
        touch.ask("writerange 0 16384");
        touch.ask("lock 0 16384");
        let file = tempfile::NamedTempFile::new().expect("file");
        let mut live = Live::start(
            &Strata::new(["run", "--memory", "32M", "--swap", "zram:64M", "--report"])
                .arg(file.path())
                .args(["--actuator", actuator, "--pid", &touch.pid.to_string()]),
        );
        live.wait_for_stderr(FLOOR);
        let faults = major_faults(touch.pid);
        sleep(Duration::from_millis(500));
        assert!(
            major_faults(touch.pid) - faults < 200,
            "{actuator} thrashes"
        );
        assert_eq!(touch.ask("verify 0 16384"), "0");
        live.interrupt();
        assert_eq!(
            live.stderr().matches(FLOOR).count(),
            1,
            "once; the JSON has it as well"
        );
        let report = json_in(file.path());
        // The last half second of it at four attempts a second, and a second before that.
        let tried = report["eviction"]["nr_tried_pages"].as_u64();
        assert!(tried < Some(200_000), "{actuator}: {report:#}");
    }
}

/// Locked a little at a time: what locks in a few milliseconds is faster than any relief on cgroup v1.
#[test]
fn a_command_that_locks_more_than_its_budget_goes_on_and_the_floor_is_told() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let mut live = Live::start(
        &Strata::new(["run", "--memory", "32M", "--swap", "zram:64M", "--"])
            .arg(program("touch"))
            .args(["--size", "56M"]),
    );
    assert!(live.line().starts_with("ready"));
    let ask = |live: &mut Live, command: String| {
        writeln!(live.stdin(), "{command}").expect("it listens");
        live.line()
    };
    for chunk in 0..28 {
        let range = format!("{} 512", chunk * 512);
        assert_eq!(ask(&mut live, format!("writerange {range}")), "ok");
        assert_eq!(ask(&mut live, format!("lock {range}")), "ok");
        sleep(Duration::from_millis(20) * patience());
    }
    live.wait_for_stderr(FLOOR);
    assert_eq!(ask(&mut live, "verify 0 14336".to_owned()), "ok 0");
    writeln!(live.stdin(), "exit 7").expect("it listens");
    assert_eq!(live.end().code(), Some(7), "{}", live.stderr());
}

/// The limit gives way to be kind, but not without end, and not for pages that can't go: with
/// `--swappiness 0` and room in swap it once rose as far as the program grew.
#[test]
fn a_kill_for_want_of_memory_is_named_and_swap_is_named_as_the_remedy() {
    live!("cap_bpf", "memory_cgroup", "zram");
    for options in [
        &["--swap", "zram:16M", "--swappiness", "60"][..],
        &["--swap", "zram:256M", "--swappiness", "0"],
        &[],
    ] {
        if !options.ends_with(&["0"]) && !swap_devices().is_empty() {
            eprintln!("not tried with {options:?}: others' swap would be filled first");
            continue;
        }
        let (run, report) = Strata::new(["run", "--memory", "48M"])
            .args(options)
            .arg("--")
            .arg(program("grow"))
            .args(["--size", "400M"])
            .finish_with_report();
        assert_eq!(run.code(), Some(128 + 9), "{options:?}: {}", run.stderr);
        assert_eq!(report["ending"]["is_oom_kill"], true, "{report:#}");
        assert_has(&run.stderr, "out of memory");
        let peak = report["usage"]["peak_bytes"].as_u64().expect("peak");
        assert!(peak <= 128 * MIB, "{options:?}: {} MiB", peak / MIB);
        if options.is_empty() {
            assert_has(&report["warnings"].to_string(), "no free swap");
        }
    }
}

#[test]
fn without_swap_anonymous_memory_stays_and_that_is_told() {
    live!("cap_bpf", "memory_cgroup");
    if !swap_devices().is_empty() {
        skip!("this machine has swap, so anonymous memory can go");
    }
    let (run, report) = Strata::new(["run", "--memory", "40M", "--"])
        .arg(program("checksum"))
        .args(["--size", "64M", "--seconds"])
        .arg((3 * patience()).to_string())
        .finish_with_report();
    if !swap_devices().is_empty() {
        skip!("somebody else has made swap meanwhile");
    }
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert_eq!(run.json_lines()[0]["bad"], 0, "{}", run.stdout);
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains(FLOOR), "{warnings}");
    assert_has(&warnings, "no free swap");
}

/// Anonymous memory below the budget and a mapped file above it: only the file's pages can go.
#[test]
fn without_swap_file_pages_are_still_evicted() {
    live!("cap_bpf", "memory_cgroup", "process_madvise");
    if !swap_devices().is_empty() {
        skip!("this machine has swap, so anonymous memory can go");
    }
    let directory = match disk_directory() {
        Ok(directory) => directory,
        Err(reason) => skip!("{reason}"),
    };
    let (run, report) = Strata::new(["run", "--memory", "40M", "--actuator", "pageout", "--"])
        .arg(program("touch"))
        .args(["--shared", "--size", "64M", "--file"])
        .arg(directory.path().join("file"))
        .stdin(format!(
            "writerange 0 16384\nsleep {}\nverify 0 16384\nexit 7\n",
            2 * patience()
        ))
        .finish_with_report();
    if !swap_devices().is_empty() {
        skip!("somebody else has made swap meanwhile");
    }
    assert_eq!(run.code(), Some(7), "{}", run.stderr);
    assert!(run.stdout.ends_with("ok 0\n"), "{}", run.stdout);
    let eviction = &report["eviction"];
    let went = eviction["nr_applied_pages"].as_u64().expect("pages")
        + eviction["nr_kernel_chosen_pages"].as_u64().expect("pages")
        // No walk sees a page that goes and comes back between two; the kernel counts it.
        + report["kernel"]["nr_refaulted_file_pages"].as_u64().expect("pages");
    assert!(went > 20 * MIB / 4096, "{report:#}");
    assert!(
        eviction["nr_applied_pages"].as_u64() > Some(MIB / 4096),
        "{report:#}"
    );
}

/// The program needs 124 MiB, the limit gives way to 112 MiB, and swap has 16 MiB: it hardly fits.
#[test]
fn full_swap_is_told_and_either_nothing_is_lost_or_the_kill_is_named() {
    live!("cap_bpf", "memory_cgroup", "zram");
    if !swap_devices().is_empty() {
        skip!("this machine has other swap, which would not be full");
    }
    let (run, report) = Strata::new(["run", "--memory", "48M", "--swap", "zram:16M", "--"])
        .arg(program("checksum"))
        .args(["--size", "122M", "--seconds"])
        .arg((3 * patience()).to_string())
        .finish_with_report();
    if !swap_devices().is_empty() {
        skip!("somebody else has made swap meanwhile");
    }
    let warnings = report["warnings"].to_string();
    assert_has(&warnings, "no free swap");
    if run.code() == Some(128 + 9) {
        assert_eq!(report["ending"]["is_oom_kill"], true, "{report:#}");
        assert!(run.stderr.contains("out of memory"), "{}", run.stderr);
    } else {
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
        assert_eq!(run.json_lines()[0]["bad"], 0, "{}", run.stdout);
    }
}

#[test]
fn letting_go_of_a_process_puts_every_value_back_and_it_is_never_moved() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let group = TestGroup::new("attach");
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    let pid = touch.pid.to_string();
    let path = group.path.display().to_string();
    for (target, limit) in [
        (["--pid", &pid], None),
        (["--cgroup", &path], Some(200 * MIB)),
    ] {
        group.limit(limit);
        let values = group.values();
        let mut live = Live::start(
            &Strata::new(["run", "--memory", "40M", "--swap", "zram:128M"]).args(target),
        );
        wait_until("the budget to be met", || group.usage_bytes() <= 40 * MIB);
        assert_ne!(group.values(), values, "it is limited");
        assert_eq!(memory_group_of(touch.pid), group.path);
        live.interrupt();
        assert_eq!(group.values(), values, "after {target:?}");
        assert_eq!(memory_group_of(touch.pid), group.path);
        assert_eq!(touch.ask("verify 0 16384"), "0");
    }
}
