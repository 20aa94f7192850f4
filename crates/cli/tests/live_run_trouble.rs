//! Bad input and bad luck under `strata run`: one clear error or a clean degradation.

mod support;

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use support::leaks::Guard;
use support::live::{Live, TestGroup, major_faults, memory_group_of, rss_bytes, wait_until};
use support::programs::{Touch, program};
use support::strata::{Strata, binary, finish, patience};

const MIB: u64 = 1 << 20;

#[test]
fn a_size_that_cannot_be_is_refused_with_one_message() {
    let _guard = Guard::new();
    for size in [
        "0",
        "-1",
        "-1G",
        "lots",
        "",
        "1X",
        "99999999999T",
        "nan",
        "1",
    ] {
        let run = Strata::new(["run", "--memory", size, "--", "true"]).finish();
        assert_eq!(run.code(), Some(2), "{size:?}: {}", run.stderr);
        assert_eq!(
            run.stderr.matches("error:").count(),
            1,
            "{size:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_budget_below_what_is_locked_is_told_and_does_not_thrash() {
    needs!("cap_bpf", "memory_cgroup");
    let _guard = Guard::new();
    let group = TestGroup::new("locked");
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    touch.ask("lock 0 16384");
    let mut live = Live::start(
        &Strata::new([
            "run",
            "--memory",
            "32M",
            "--actuator",
            "pageout",
            "--swap",
            "zram:64M",
        ])
        .args(["--pid", &touch.pid.to_string()]),
    );
    live.wait_for_stderr("below what the program can't give up");
    let faults = major_faults(touch.pid);
    sleep(Duration::from_secs(1) * patience());
    assert!(major_faults(touch.pid) - faults < 200, "it thrashes");
    assert_eq!(touch.ask("verify 0 16384"), "0");
    live.signal(Signal::INT);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
}

#[test]
fn letting_go_of_a_process_puts_every_value_back_and_it_is_never_moved() {
    needs!("cap_bpf", "memory_cgroup");
    let _guard = Guard::new();
    let group = TestGroup::new("attach");
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    let values = group.values();
    let pid = touch.pid.to_string();
    let path = group.path.display().to_string();
    for target in [["--pid", &pid], ["--cgroup", &path]] {
        let mut live = Live::start(
            &Strata::new(["run", "--memory", "40M", "--swap", "zram:128M"]).args(target),
        );
        wait_until("the budget to be met", || group.usage_bytes() <= 40 * MIB);
        assert_eq!(memory_group_of(touch.pid), group.path);
        live.signal(Signal::INT);
        assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
        assert_eq!(group.values(), values, "after {target:?}");
        assert_eq!(touch.ask("verify 0 16384"), "0");
    }
}

#[test]
fn without_a_cgroup_resident_memory_is_held() {
    needs!("cap_bpf");
    let _guard = Guard::new();
    let mut live = Live::start(
        &Strata::new([
            "run",
            "--memory",
            "40M",
            "--no-cgroup",
            "--swap",
            "zram:128M",
            "--",
        ])
        .arg(program("idle"))
        .args(["--size", "64M"]),
    );
    let pid = live.json()["pid"].as_i64().expect("pid") as i32;
    wait_until("resident memory to fall", || rss_bytes(pid) <= 40 * MIB);
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(128 + 15), "{}", live.stderr());
}

#[test]
fn a_group_that_is_deleted_under_us_is_told_and_the_program_goes_on() {
    needs!("cap_bpf", "memory_cgroup");
    let _guard = Guard::new();
    let mut live = Live::start(
        &Strata::new(["run", "--memory", "64M", "--"])
            .arg(program("signals"))
            .args(["--seconds", "60"]),
    );
    let pid = live.json()["pid"].as_i64().expect("pid") as i32;
    let group = memory_group_of(pid);
    let parent = group.parent().expect("a parent").to_owned();
    fs::write(parent.join("cgroup.procs"), pid.to_string()).expect("moved");
    wait_until("the group to go", || fs::remove_dir(&group).is_ok());
    live.wait_for_stderr("usage can't be read any more");
    live.signal(Signal::USR1);
    assert_eq!(live.json()["signal"], "USR1");
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
}

#[test]
fn a_process_that_cannot_be_managed_is_one_clear_error() {
    needs!("memory_cgroup");
    let _guard = Guard::new();
    let mut gone = Command::new(program("status"))
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    gone.wait().expect("wait");
    for (pid, why) in [(gone.id(), "does not exist"), (2, "kernel thread")] {
        let run = Strata::new(["run", "--memory", "64M", "--pid", &pid.to_string()]).finish();
        assert_eq!(run.code(), Some(125), "{}", run.stderr);
        // Where pid 2 is hidden or absent (a container), it does not exist.
        let is_told = run.stderr.contains(why) || run.stderr.contains("does not exist");
        assert!(is_told && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
}

#[test]
fn without_root_there_is_one_clear_error_and_nothing_is_started() {
    let _guard = Guard::new();
    // Nobody may not look into everybody's checkout.
    let directory = tempfile::Builder::new()
        .prefix("shown-")
        .tempdir_in("/tmp")
        .expect("directory");
    let copy = directory.path().join("strata");
    fs::copy(binary(), &copy).expect("copy");
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    fs::set_permissions(directory.path(), mode).expect("mode");
    let child = Command::new("setpriv")
        .args(["--reuid", "nobody", "--clear-groups", "--"])
        .arg(&copy)
        .args(["run", "--memory", "64M", "--", "echo", "started"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(child) = child else {
        skip!("no setpriv here");
    };
    let run = finish(child, b"", Duration::from_secs(20));
    assert_eq!(run.code(), Some(125), "{}", run.stderr);
    assert_eq!(run.stdout, "");
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
}

#[test]
fn sixty_thousand_mappings_and_a_terabyte_of_nothing_are_managed() {
    needs!("cap_bpf", "memory_cgroup");
    let _guard = Guard::new();
    for (name, options) in [
        ("mapstorm", ["--mappings", "60000", "--seconds", "2"]),
        ("sparse", ["--size", "1T", "--seconds", "2"]),
    ] {
        let (run, _) = Strata::new(["run", "--memory", "48M", "--swap", "zram:512M", "--"])
            .arg(program(name))
            .args(options)
            .finish_with_report();
        assert_eq!(run.code(), Some(0), "{name}: {}", run.stderr);
    }
}
