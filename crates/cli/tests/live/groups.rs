//! Groups as others make and change them: threaded ones, limits above us and above the target, limits that an operator
//! sets during a run, processes that are moved, and processes whose memory stayed behind.

use crate::support::prelude::*;

/// Longer than a run takes to look whether anybody is left in a group.
const SEVERAL_LOOKS: Duration = Duration::from_secs(3);

fn started(mut command: Command, size: &str) -> (Live, i32) {
    command.args(["--size", size, "--seconds", "0"]);
    let live = Live::start_command(command);
    let pid = live.json()["pid"].as_i64().expect("pid") as i32;
    (live, pid)
}

fn is_v1() -> bool {
    memory_mount().is_some_and(|(_, is_v1)| is_v1)
}

fn run_cgroup(group: &TestGroup, memory: &str) -> Strata {
    Strata::new(["run", "--memory", memory, "--cgroup"]).arg(&group.path)
}

/// At the moment it happens; the report at the end has it once more.
fn warned(said: &str) -> String {
    format!("strata: warning: {said}")
}

fn warnings(report: &Path) -> String {
    let report = json_in(report);
    report["warnings"].to_string()
}

#[test]
fn a_group_with_a_threaded_child_is_held_until_its_programs_end() {
    needs!("cap_bpf", "memory_cgroup", "zram");
    if is_v1() {
        skip!("threaded groups are cgroup v2's");
    }
    let _guard = Guard::new();
    let group = TestGroup::new("threaded");
    let before = group.values();
    let threads = group.below("threads");
    fs::write(threads.path.join("cgroup.type"), "threaded").expect("threaded");
    let (program, pid) = idle_in(&group, "60M");
    fs::write(threads.path.join("cgroup.threads"), pid.to_string()).expect("moved");
    fs::read_to_string(threads.path.join("cgroup.procs")).expect_err("it can't be read");

    let mut run = Live::start(&run_cgroup(&group, "40M").args(["--swap", "zram:128M"]));
    wait_until("the budget to hold", || group.usage_bytes() <= 40 * MIB);
    sleep(SEVERAL_LOOKS);
    assert!(run.is_running(), "{}", run.stderr());
    program.signal(Signal::KILL);
    assert_eq!(run.end().code(), Some(0), "{}", run.stderr());
    assert_eq!(group.values(), before);

    let refused = run_cgroup(&threads, "40M").finish();
    assert_eq!(refused.code(), Some(2));
    assert_has(&refused.stderr, "threaded domain");
}

#[test]
fn a_controller_switched_on_for_a_run_is_switched_off_with_the_last_one() {
    needs!("memory_cgroup");
    let (mount, is_v1) = memory_mount().expect("a memory controller");
    if is_v1 {
        skip!("v1 has no subtree control");
    }
    let _guard = Guard::new();
    let read = || fs::read_to_string(mount.join("cgroup.subtree_control")).expect("read");
    let before = read();
    let run = Strata::new(["run", "--memory", "64M", "--policy", "none", "--"]);
    let run = run
        .arg(program("idle"))
        .args(["--size", "1M", "--seconds", "0"]);
    let [first, second] = [Live::start(&run), Live::start(&run)];
    first.json();
    second.json();
    for mut live in [first, second] {
        assert!(read().contains("memory"), "the other still needs it");
        live.signal(Signal::TERM);
        live.end();
    }
    wait_until("it to be as before", || read() == before);
}

/// An operator, or a service manager, removes a group as soon as its last program has ended.
#[test]
fn a_group_that_is_removed_during_a_run_ends_it_like_a_program_that_ends() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let group = TestGroup::new("removed");
    let (program, _) = idle_in(&group, "60M");
    let report = tempfile::NamedTempFile::new().expect("temporary file");
    let mut run = Live::start(
        &run_cgroup(&group, "40M")
            .args(["--swap", "zram:128M", "--actuator", "pageout", "--report"])
            .arg(report.path()),
    );
    wait_until("the budget to hold", || group.usage_bytes() <= 40 * MIB);
    program.signal(Signal::KILL);
    wait_until("the group to be removed", || {
        fs::remove_dir(&group.path).is_ok()
    });
    assert_eq!(run.end().code(), Some(0), "{}", run.stderr());
    let report = json_in(report.path());
    let evicted = report["eviction"]["nr_applied_pages"].as_u64();
    assert!(evicted.is_some_and(|pages| pages > 0), "{report:#}");
    assert!(!group.path.exists(), "it was made anew");
}

#[test]
fn a_process_in_a_threaded_group_is_managed_in_its_domain_and_keeps_its_swap_when_strata_is_killed()
{
    needs!("cap_bpf", "memory_cgroup", "zram");
    if is_v1() {
        skip!("threaded groups are cgroup v2's");
    }
    let _guard = Guard::new();
    let group = TestGroup::new("threaded-pid");
    let before = group.values();
    let threads = group.below("threads");
    fs::write(threads.path.join("cgroup.type"), "threaded").expect("threaded");
    let (program, pid) = idle_in(&group, "60M");
    fs::write(threads.path.join("cgroup.threads"), pid.to_string()).expect("moved");

    let swap_before = swap_devices();
    let mut run = Live::start(
        &Strata::new([
            "run",
            "--memory",
            "40M",
            "--swap",
            "zram:128M",
            "--policy",
            "mglru",
        ])
        .args(["--pid", &pid.to_string()]),
    );
    wait_until("the budget to hold", || group.usage_bytes() <= 40 * MIB);
    assert_ne!(group.values(), before, "its domain is limited");
    run.signal(Signal::KILL);
    run.end();
    wait_until("the limits to go", || group.values() == before);
    sleep(SEVERAL_LOOKS);
    let has_swap = swap_devices() != swap_before;
    assert!(has_swap, "the program's pages were read back by force");
    program.signal(Signal::KILL);
    wait_until("the swap to go", || swap_devices() == swap_before);
}

#[test]
fn a_program_is_never_started_out_of_reach_of_a_limit_that_strata_is_under() {
    needs!("cap_bpf", "memory_cgroup");
    if is_v1() {
        skip!("on cgroup v1 a group is always made below our own");
    }
    let _guard = Guard::new();
    let outer = TestGroup::new("outer");
    fs::write(outer.path.join("memory.max"), "62914560").expect("limited");
    let inner = outer.below("inner");
    let (occupant, pid) = idle_in(&outer, "1M");
    let run_in = |group: &TestGroup| {
        let mut command = in_group(group, binary());
        command.args(["run", "--memory", "100M", "--swap", "existing"]);
        command.arg("--").arg(program("idle"));
        command
    };
    for group in [&inner, &outer] {
        let mut refused = Live::start_command(run_in(group));
        assert_eq!(refused.end().code(), Some(125), "{}", refused.stderr());
        let said = refused.stderr();
        let limit = format!("memory.max (62914560) of {}", outer.path.display());
        assert_has(&said, &limit);
        assert_has(&said, "--no-cgroup");
        assert!(!said.contains("{\"program\""), "nothing was started");
    }

    // What it says to do helps.
    let main = outer.below("main");
    main.take(pid);
    let (run, pid) = started(run_in(&inner), "1M");
    let place = memory_group_of(pid);
    assert!(
        place.starts_with(&outer.path) && !place.starts_with(&inner.path),
        "{}",
        place.display()
    );
    run.signal(Signal::TERM);
    let mut run = run;
    run.end();
    drop(occupant);
}

#[test]
fn a_limit_that_somebody_else_sets_during_a_run_is_left_as_it_is_and_told() {
    live!("cap_bpf", "memory_cgroup");
    let (limit, other) = match is_v1() {
        true => ("memory.limit_in_bytes", "memory.oom_control"),
        false => ("memory.max", "memory.high"),
    };
    for is_killed in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        let report = directory.path().join("report.json");
        let group = TestGroup::new("operator");
        let read = |name: &str| {
            let text = fs::read_to_string(group.path.join(name)).expect("read");
            text.lines().next().unwrap_or_default().to_owned()
        };
        let (limit_before, other_before) = (read(limit), read(other));
        let (_program, _) = idle_in(&group, "30M");
        let run = run_cgroup(&group, "60M").args(["--swap", "existing", "--report"]);
        let mut run = Live::start(&run.arg(&report));
        wait_until("ours to stand", || {
            read(limit) != limit_before && read(other) != other_before
        });
        sleep(Duration::from_secs(1));
        fs::write(group.path.join(limit), "314572800").expect("an operator's");
        run.signal(match is_killed {
            true => Signal::KILL,
            false => Signal::INT,
        });
        run.end();
        wait_until("the other value to be put back", || {
            read(other) == other_before
        });
        assert_eq!(read(limit), "314572800", "killed: {is_killed}");
        if !is_killed {
            let warnings = warnings(&report);
            let told = format!("{limit} was set to 314572800 by somebody else");
            assert!(warnings.contains(&told), "{warnings}");
        }
    }
}

#[test]
fn a_limit_that_somebody_else_sets_is_kept_below_while_the_run_goes_on() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let limit = match is_v1() {
        true => "memory.limit_in_bytes",
        false => "memory.max",
    };
    let group = TestGroup::new("lowered");
    let limit_bytes = || -> u64 {
        let text = fs::read_to_string(group.path.join(limit)).expect("read");
        text.trim().parse().unwrap_or(u64::MAX)
    };
    let (_program, _) = idle_in(&group, "30M");
    let mut run = Live::start(&run_cgroup(&group, "100M").args(["--swap", "zram:128M"]));
    wait_until("ours to stand", || limit_bytes() <= 108 * MIB);
    sleep(Duration::from_secs(1));
    fs::write(group.path.join(limit), (50 * MIB).to_string()).expect("an operator's");
    // A new budget has the limit written anew.
    let id = run.pid().to_string();
    let asked = Strata::new(["ctl", "--id", &id, "set-budget", "90M"]).finish();
    assert_eq!(asked.code(), Some(0), "{}", asked.stderr);
    run.wait_for_stderr("was set to 52428800 by somebody else");
    assert_eq!(limit_bytes(), 50 * MIB);
    run.interrupt();
    assert_eq!(limit_bytes(), 50 * MIB);
}

#[test]
fn memory_that_stayed_charged_to_the_group_a_process_came_from_is_told() {
    live!("cap_bpf", "memory_cgroup");
    const TOLD: &str = "are charged to another cgroup";
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report.json");
    let reported = |group: &TestGroup| {
        let run = run_cgroup(group, "50M").args(["--swap", "existing", "--report"]);
        Live::start(&run.arg(&report))
    };

    let group = TestGroup::new("moved");
    let (_program, pid) = started(Command::new(program("idle")), "40M");
    group.take(pid);
    let mut run = reported(&group);
    run.wait_for_stderr(TOLD);
    run.interrupt();
    let warnings_of_moved = warnings(&report);
    assert!(warnings_of_moved.contains(TOLD) && warnings_of_moved.contains(&pid.to_string()));

    let home = TestGroup::new("home");
    let (_program, _) = idle_in(&home, "40M");
    let mut run = reported(&home);
    sleep(SEVERAL_LOOKS);
    run.interrupt();
    assert!(!warnings(&report).contains(TOLD), "{}", warnings(&report));
}

#[test]
fn a_process_that_is_moved_to_another_group_during_a_run_is_told_and_one_that_ends_is_not() {
    live!("cap_bpf", "memory_cgroup");
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report.json");
    let (group, other) = (TestGroup::new("left"), TestGroup::new("entered"));
    let (ending, pid_of_ending) = idle_in(&group, "10M");
    let (_first, first) = idle_in(&group, "10M");
    let (_second, second) = idle_in(&group, "10M");
    let to = format!("to {}", other.name());
    let told = |pid: i32| format!("process {pid} (idle) was moved from /");

    let run = run_cgroup(&group, "60M").args(["--swap", "existing", "--report"]);
    let mut run = Live::start(&run.arg(&report));
    run.wait_until_it_answers();
    ending.signal(Signal::KILL);
    sleep(SEVERAL_LOOKS);
    other.take(first);
    run.wait_for_stderr(&told(first));
    sleep(SEVERAL_LOOKS);
    assert!(run.is_running(), "{}", run.stderr());
    // The last one: the group is deserted, and the run over.
    other.take(second);
    assert_eq!(run.end().code(), Some(0), "{}", run.stderr());
    let (said, warnings) = (run.stderr(), warnings(&report));
    for pid in [first, second] {
        assert_eq!(said.matches(&warned(&told(pid))).count(), 1, "{said}");
        assert_has(&warnings, &told(pid));
        assert_has(&warnings, &to);
    }
    let of_ended = format!("process {pid_of_ending} ");
    assert!(!warnings.contains(&of_ended), "{warnings}");
}

#[test]
fn a_program_that_is_moved_out_of_its_own_group_is_told_of_by_the_run_that_goes_on() {
    live!("cap_bpf", "memory_cgroup");
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report.json");
    let other = TestGroup::new("elsewhere");
    let run = |memory| {
        let options = ["run", "--swap", "existing", "--memory", memory, "--report"];
        Strata::new(options).arg(&report)
    };
    let check = |mut run: Live, pid: i32| {
        let told = format!("process {pid} (idle) was moved from /");
        run.wait_for_stderr(&told);
        assert!(run.is_running(), "{}", run.stderr());
        run.signal(Signal::TERM);
        run.end();
        assert!(warnings(&report).contains(&told), "{}", warnings(&report));
    };

    let command = run("60M").arg("--").arg(program("idle"));
    let started = Live::start(&command.args(["--size", "10M", "--seconds", "0"]));
    let pid = started.json()["pid"].as_i64().expect("pid") as i32;
    other.take(pid);
    check(started, pid);

    let home = TestGroup::new("of-pid");
    let (_program, pid) = idle_in(&home, "10M");
    let before = home.values();
    let attached = Live::start(&run("60M").args(["--pid", &pid.to_string()]));
    wait_until("ours to stand", || home.values() != before);
    other.take(pid);
    check(attached, pid);
    assert_eq!(home.values(), before);
}

#[test]
fn a_limit_below_the_budget_is_told_at_the_start_wherever_it_stands() {
    live!("cap_bpf", "memory_cgroup");
    const LESS: &str = "is 62914560 (60 MiB), less than the budget of";
    let directory = tempfile::tempdir().expect("a directory");
    let report = directory.path().join("report.json");
    let outer = TestGroup::new("limited").with_below();
    let inner = outer.below("inner");
    let (_program, pid) = idle_in(&inner, "10M");
    let (names, none) = match is_v1() {
        true => (&["memory.limit_in_bytes"][..], "-1"),
        false => (&["memory.max", "memory.high"][..], "max"),
    };
    let by_group = ["--cgroup".to_owned(), inner.path.display().to_string()];
    let by_pid = ["--no-cgroup", "--pid", &pid.to_string()].map(str::to_owned);
    let said_by = |target: &[String], memory: &str| {
        let run = Strata::new(["run", "--swap", "existing", "--memory", memory]);
        let run = run.arg("--report").arg(&report);
        let target: Vec<&str> = target.iter().map(String::as_str).collect();
        let mut run = Live::start(&run.args(target));
        run.wait_until_it_answers();
        run.interrupt();
        (run.stderr(), warnings(&report))
    };
    for group in [&outer, &inner] {
        for name in names {
            let file = group.path.join(name);
            fs::write(&file, "62914560").expect("limited");
            let told = format!("{} {LESS} 80 MiB", file.display());
            for target in [&by_group[..], &by_pid[..]] {
                let (said, warnings) = said_by(target, "80M");
                let nr_told = said.matches(&warned(&told)).count();
                assert_eq!(nr_told, 1, "{target:?}: {said}");
                assert!(warnings.contains(&told), "{warnings}");
            }
            let (said, _) = said_by(&by_group, "40M");
            assert!(!said.contains(LESS), "{said}");
            fs::write(&file, none).expect("lifted");
        }
    }
}
