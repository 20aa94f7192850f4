//! Bad arguments: each ends in status 2 and one message that says what is wrong, before anything on
//! the machine is changed; and the help names everything there is.

use crate::support;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use support::strata::{Finished, Strata, refused};

/// Runs `strata` with these arguments; it must end at once, by itself.
fn strata(args: &[&str]) -> Finished {
    Strata::new(args).finish()
}

/// `run` with one option changed; the command would say so if it was run.
#[track_caller]
fn run_refused(option: &str, value: &str) -> String {
    let budget = ["--memory", "64M"];
    let mut args = vec!["run"];
    if option != "--memory" {
        args.extend(budget);
    }
    args.extend([option, value, "--", "echo", "it ran"]);
    refused(&args)
}

#[test]
fn every_size_that_makes_no_sense_is_refused_with_the_reason() {
    for (value, why) in [
        ("0", "it is zero"),
        ("0.0G", "it is zero"),
        ("-1", "it is negative"),
        ("-1G", "it is negative"),
        ("", "it is empty"),
        ("G", "no digits"),
        ("lots", "does not start with a number"),
        ("1X", "suffix is unknown"),
        ("1e9", "suffix is unknown"),
        ("60%", "suffix is unknown"),
        ("1.2.3G", "decimal point"),
        ("9999999T", "absurdly large"),
        ("99999999999999999999999999", "absurdly large"),
        ("\u{221e}", "does not start with a number"),
        ("--quiet", "the value is missing"),
    ] {
        let said = run_refused("--memory", value);
        assert!(
            said.contains("--memory") && said.contains(why),
            "{value}: {said}"
        );
    }
}

#[test]
fn a_journal_is_told_how_grave_a_line_is_and_nobody_else() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let stat = file.as_file().metadata().expect("its numbers");
    let journal = format!("{}:{}", stat.dev(), stat.ino());
    for (stream, prefix) in [
        (journal.as_str(), "<3>strata: error: "),
        ("1:2", "strata: error: "),
    ] {
        let stderr = OpenOptions::new().append(true).open(file.path());
        let status = Command::new(env!("CARGO_BIN_EXE_strata"))
            .args(["plan", "there-is-no-such-recording"])
            .env("JOURNAL_STREAM", stream)
            .stderr(stderr.expect("a file"))
            .status();
        assert!(!status.expect("it runs").success());
        let said = fs::read_to_string(file.path()).expect("text");
        assert!(said.starts_with(prefix), "{said}");
        file.as_file().set_len(0).expect("emptied");
    }
}

#[test]
fn a_budget_nothing_could_live_in_is_refused_with_the_least_one() {
    let said = run_refused("--memory", "1");
    assert!(
        said.contains("too small") && said.contains("at least"),
        "{said}"
    );
}

#[test]
fn every_other_value_that_makes_no_sense_is_refused_with_the_reason() {
    for (option, value, why) in [
        ("--swap", "", "kind is unknown"),
        ("--swap", "disk:1G", "kind is unknown"),
        ("--swap", "zram", "size is missing"),
        ("--swap", "zram:0", "it is zero"),
        ("--swap", "zram:-1G", "it is negative"),
        ("--swap", "zram:1G,", "algorithm is empty"),
        ("--swap", "file:/nowhere", "size is missing"),
        ("--swap", "file::1G", "path is empty"),
        ("--swappiness", "-1", "0 to 200"),
        ("--swappiness", "201", "0 to 200"),
        ("--swappiness", "256", "0 to 200"),
        ("--swappiness", "60.5", "0 to 200"),
        ("--swappiness", "MAX", "0 to 200"),
        ("--min-ttl", "1", "unit is missing"),
        ("--min-ttl", "-1s", "negative"),
        ("--min-ttl", "1y", "unit is unknown"),
        ("--min-ttl", "9999h", "absurdly long"),
        ("--access", "ptrace", "auto, bpf, smaps"),
        ("--actuator", "kill", "auto, pageout, reclaim"),
        ("--policy", "fifo", "none, mglru, two-list"),
        ("--policy", "mglru:v9", "unknown kernel model"),
        ("--policy", "two-list+nr_gens=8", "no such option"),
        ("--policy", "--quiet", "the value is missing"),
        ("--policy", "mglru+nr_gens=3", "from 4 to 16"),
        ("--policy", "mglru+nr_tiers=0", "from 1 to 5"),
        ("--policy", "two-list:v6.1", "two-list has no models"),
        ("--policy", "strata", "no strata any more; use mglru"),
        ("--metrics", "9464", "an address and a port"),
        ("--metrics", "localhost:9464", "an address and a port"),
        ("--metrics", "127.0.0.1", "an address and a port"),
        ("--metrics", "127.0.0.1:99999", "an address and a port"),
        ("--metrics", "0.0.0.0:9464", "only answered on a loopback"),
        ("--metrics", "192.0.2.1:9464", "only answered on a loopback"),
        ("--metrics", "[::]:9464", "only answered on a loopback"),
        ("--metrics", "--quiet", "the value is missing"),
        ("--metrics-textfile", "/", "it is a directory"),
        ("--metrics-textfile", "/nowhere/at/all.prom", "No such file"),
        ("--metrics-textfile", "/dev/null", "no regular file"),
        ("--trace", "/", "it is a directory"),
        ("--trace", "/nowhere/at/all.jsonl", "No such file"),
        ("--report", "/", "it is a directory"),
        ("--report", "/nowhere/at/all.json", "No such file"),
        ("--report", "", "a value is required"),
        ("--report", "/dev/null/x", "Not a directory"),
    ] {
        let said = run_refused(option, value);
        assert!(said.contains(why), "{option} {value}: {said}");
    }
}

/// What a policy can't have is refused as `strata sim` refuses it.
#[test]
fn options_that_the_policy_does_not_have_are_refused() {
    for (options, why) in [
        (
            &["--policy", "two-list", "--min-ttl", "1s"][..],
            "which keeps no ages",
        ),
        (
            &["--policy", "mglru+min-ttl=9", "--min-ttl", "1s"],
            "say it once",
        ),
    ] {
        let words = [&["run", "--memory", "64M"], options, &["--", "true"]].concat();
        let said = refused(&words);
        assert!(said.contains(why), "{options:?}: {said}");
    }
}

#[test]
fn exactly_one_target_is_asked_for() {
    let budget = ["run", "--memory", "64M"];
    for rest in [
        &[][..],
        &["--"],
        &["--pid", "1", "--cgroup", "/nowhere"],
        &["--pid", "1", "--", "echo", "it ran"],
        &["--cgroup", "/nowhere", "--", "echo", "it ran"],
        &["--", ""],
        &["--user", "nobody", "--pid", "1"],
        &["--user", "nobody", "--cgroup", "/nowhere"],
        &["--no-cgroup", "--cgroup", "/nowhere"],
    ] {
        let args: Vec<&str> = budget.iter().chain(rest).copied().collect();
        let said = refused(&args);
        let names_a_target = ["COMMAND", "command", "--pid", "--cgroup"]
            .iter()
            .any(|name| said.contains(name));
        assert!(names_a_target, "{rest:?}: {said}");
    }
}

#[test]
fn a_pid_that_is_nobodys_is_refused() {
    // Above the largest pid the kernel ever gives out.
    for pid in ["0", "-1", "self", "4194305", "99999999999"] {
        let said = refused(&["run", "--memory", "64M", "--pid", pid]);
        assert!(said.contains("process"), "{pid}: {said}");
        let said = refused(&["lru-gen", "--once", "--pid", pid]);
        assert!(said.contains("process"), "{pid}: {said}");
    }
}

#[test]
fn options_that_exclude_each_other_are_refused_by_name() {
    for other in [["--actuator", "reclaim"], ["--policy", "none"]] {
        let mut args = vec!["run", "--memory", "64M", "--no-cgroup"];
        args.extend(other);
        args.extend(["--", "echo", "it ran"]);
        let said = refused(&args);
        assert!(
            said.contains("--no-cgroup") && said.contains(other[0]),
            "{said}"
        );
    }
}

#[test]
fn other_verbs_refuse_as_clearly() {
    for (args, why) in [
        (&["lru-gen", "--access", "bpf"][..], "--pid"),
        (&["lru-gen", "--pid", "1", "--id", "1"], "--id"),
        (&["lru-gen", "--pid", "1", "--cgroup", "/"], "--cgroup"),
        (
            &["lru-gen", "--cgroup", "/nowhere/at/all"],
            "/nowhere/at/all",
        ),
        (
            &["lru-gen", "--pid", "1", "--access", "eyes"],
            "auto, bpf, smaps",
        ),
        (
            &["lru-gen", "--pid", "1", "--full", "--format", "json"],
            "--full",
        ),
        (&["lru-gen", "--id", "../x"], "a name in /run/strata"),
        (&["ctl", "--id", "a/b", "status"], "a name in /run/strata"),
        (&["ctl", "dance"], "neither a verb"),
        (&["ctl", "--loudly"], "neither a verb"),
        (&["ctl", "set-budget"], "SIZE"),
        (&["ctl", "set-budget", "-1G"], "it is negative"),
        (&["ctl", "set-budget", "0"], "it is zero"),
        (&["ctl", "evict", "lots"], "does not start with a number"),
        (&["ctl", "dry-run", "maybe"], "on, off"),
        (&["ctl", "status", "twice"], "twice"),
        (&["ctl", "--format", "xml", "status"], "text, json"),
        (
            &["lru-gen", "--pid", "1", "--interval", "0"],
            "at least 10ms",
        ),
        (
            &["lru-gen", "--pid", "1", "--interval", "1"],
            "unit is missing",
        ),
        (&["lru-gen", "--pid", "1", "--format", "xml"], "text, json"),
        (&["idle", "--age", "1ms"], "at least 500ms"),
        (
            &["run", "--priority", "high", "--memory", "64M", "--", "true"],
            "--priority is gone since release 0.2",
        ),
        (
            &["run", "--prefetch", "--memory", "64M", "--", "true"],
            "--prefetch is gone since release 0.2",
        ),
        (&["plan", "--all"], "strata idle since release 0.2"),
        (&["completions"], "SHELL"),
        (&["completions", "cmd.exe"], "bash"),
        (&["doctor", "--format", "xml"], "json"),
        (&["dance"], "dance"),
        (
            &["run", "--memory", "64M", "--dance", "--", "true"],
            "--dance",
        ),
    ] {
        let said = refused(args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn the_help_of_run_names_every_option_with_an_example() {
    let help = strata(&["run", "--help"]).expect_success().stdout;
    for option in [
        "--memory",
        "--swap",
        "--swappiness",
        "--min-ttl",
        "--access",
        "--actuator",
        "--policy",
        "--no-cgroup",
        "--user",
        "--dry-run",
        "--report",
        "--trace",
        "--metrics",
        "--metrics-textfile",
        "--quiet",
        "--pid",
        "--cgroup",
    ] {
        let is_listed = help.lines().any(|line| {
            let line = line.trim_start();
            line.contains(&format!("{option} ")) || line.ends_with(option)
        });
        assert!(is_listed, "{option} in:\n{help}");
    }
    for part in [
        "EXAMPLES",
        "EXIT STATUS",
        "zram:2G",
        "512M",
        "[default: existing]",
    ] {
        assert!(help.contains(part), "{part} in:\n{help}");
    }
}

#[test]
fn the_help_of_lru_gen_warns_that_watching_clears_accessed_bits() {
    let help = strata(&["lru-gen", "--help"]).expect_success().stdout;
    assert!(help.contains("clears the\naccessed bits"), "{help}");
    for option in [
        "--pid",
        "--cgroup",
        "--id",
        "--full",
        "--interval",
        "--once",
        "--access",
        "--format",
    ] {
        assert!(help.contains(option), "{option} in:\n{help}");
    }
}

#[test]
fn a_watch_that_makes_no_sense_is_refused_with_the_reason() {
    for (option, value, why) in [
        ("--window", "0", "at least 10ms"),
        ("--window", "1s,0s", "at least 10ms"),
        ("--window", "9ms", "at least 10ms"),
        ("--window", "", "it is empty"),
        ("--window", "1s,", "it is empty"),
        ("--window", "10", "unit is missing"),
        ("--window", "-1s", "negative"),
        ("--window", "721h", "absurdly long"),
        ("--window", "--for", "the value is missing"),
        ("--for", "0", "at least 10ms"),
        ("--for", "99999999999999999999h", "absurdly long"),
        ("--for", "ever", "does not start with a number"),
        ("--interval", "0s", "at least 10ms"),
        ("--interval", "2s", "longer than the window 1000ms"),
        ("--access", "ptrace", "auto, bpf, smaps"),
        ("--format", "xml", "text, json"),
        ("--html", "/nowhere/at/all.html", "No such file"),
    ] {
        // A pid nobody has: the options come first.
        let said = refused(&["wss", "--pid", "4194305", option, value]);
        assert!(said.contains(why), "{option} {value}: {said}");
    }
    let said = refused(&["wss", "--pid", "1", "--window", "10s", "--for", "5s"]);
    assert!(said.contains("longest window"), "{said}");
}

#[test]
fn who_is_to_be_watched_has_to_be_said_once_and_has_to_exist() {
    for args in [
        &["wss"][..],
        &["wss", "--window", "1s"],
        &["wss", "--pid", "1", "--tree", "1"],
        &["wss", "--pid", "1", "--cgroup", "/nowhere"],
    ] {
        let said = refused(args);
        assert!(said.contains("--pid"), "{args:?}: {said}");
    }
    for target in ["--pid", "--tree"] {
        for pid in ["0", "-1", "self", "4194305", "99999999999"] {
            let said = refused(&["wss", target, pid]);
            assert!(said.contains("process"), "{target} {pid}: {said}");
        }
    }
    let said = refused(&["wss", "--cgroup", "/no/such/group/anywhere"]);
    assert!(said.contains("/no/such/group/anywhere"), "{said}");
    // Where pid 2 is hidden or absent (a container), it does not exist.
    let said = refused(&["wss", "--pid", "2"]);
    assert!(
        said.contains("kernel thread") || said.contains("does not exist"),
        "{said}"
    );
}

#[test]
fn completions_and_manual_pages_name_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = strata(&["completions", shell]).expect_success().stdout;
        assert!(
            script.contains("lru-gen") && script.contains("swappiness"),
            "{shell}"
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    strata(&["man", path]).expect_success();
    for page in [
        "strata.1",
        "strata-run.1",
        "strata-compare.1",
        "strata-lru-gen.1",
        "strata-wss.1",
        "strata-files.1",
        "strata-ctl.1",
        "strata-doctor.1",
    ] {
        let text = fs::read_to_string(directory.path().join(page)).expect(page);
        assert!(text.contains(".TH strata"), "{page}");
    }
}

#[test]
fn every_option_of_top_that_makes_no_sense_is_refused_with_the_reason() {
    for (args, why) in [
        (&["--pid", "0"][..], "from 1 to"),
        (&["--pid", "self"], "from 1 to"),
        (&["--pid", "2147483647"], "no process 2147483647"),
        (&["--tree", "-1"], "from 1 to"),
        (&["--tree", "--once"], "the value is missing"),
        (&["--cgroup", "/nowhere/at/all"], "is not a memory cgroup"),
        (&["--cgroup", ""], "a value is required"),
        (&["--interval", "0"], "at least 100ms"),
        (&["--interval", "50ms"], "at least 100ms"),
        (&["--interval", "1"], "unit is missing"),
        (&["--interval", "2m"], "at most 1m"),
        (&["--for", "1"], "unit is missing"),
        (&["--for", "-1s"], "negative"),
        (&["--format", "yaml"], "table, json, svg"),
        (&["--access", "ptrace"], "auto, bpf, smaps"),
        (&["4242"], "unexpected argument"),
    ] {
        let said = refused(&[&["top", "--once"], args].concat());
        assert!(said.contains(why), "{args:?}: {said}");
    }
    for alone in [&["--format", "json"][..], &["--for", "1s"]] {
        let said = refused(&[&["top"], alone].concat());
        assert!(said.contains("--once"), "{alone:?}: {said}");
    }
}

#[test]
fn top_without_a_terminal_says_what_to_do_instead() {
    let said = refused(&["top"]);
    assert!(
        said.contains("no terminal") && said.contains("top --once"),
        "{said}"
    );
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let command = format!(
        "{} completions bash | head -c 1 >/dev/null; echo ${{PIPESTATUS[0]}}",
        support::strata::binary()
    );
    let output = Command::new("bash")
        .args(["-c", &command])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_report_that_can_not_be_written_stops_the_program_from_starting() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("it-ran");
    let mark = mark.to_str().unwrap();
    refused(&[
        "run",
        "--memory",
        "64M",
        "--report",
        "/nowhere/r.json",
        "--",
        "touch",
        mark,
    ]);
    assert!(!std::path::Path::new(mark).exists());
}

#[test]
fn the_version_is_the_packages_and_names_the_commit_and_what_of_bpf_is_inside() {
    let short = strata(&["-V"]).expect_success().stdout;
    assert_eq!(short, format!("strata {}\n", env!("CARGO_PKG_VERSION")));
    let long = strata(&["--version"]).expect_success().stdout;
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!(lines[0], short.trim_end());
    assert!(lines[1].starts_with("commit "), "{long}");
    for object in ["walk ", "vma ", "census "] {
        assert!(lines[2].contains(object), "{long}");
    }
}

#[test]
fn what_can_not_be_recorded_is_refused_before_anything_is_started() {
    for (args, why) in [
        (&["--", "echo", "it ran"][..], "--output"),
        (&["-o", "x"], "required"),
        (
            &["-o", "x", "--pid", "1", "--cgroup", "/x"],
            "cannot be used with",
        ),
        (
            &["-o", "x", "--every", "1ms", "--", "echo"],
            "at least 10ms",
        ),
        (
            &["-o", "x", "--every", "100", "--", "echo"],
            "unit is missing",
        ),
        (&["-o", "x", "--for", "0", "--", "echo"], "no time at all"),
        (
            &["-o", "x", "--max-size", "10K", "--", "echo"],
            "at least 1M",
        ),
        (
            &["-o", "x", "--max-size", "-1M", "--", "echo"],
            "it is negative",
        ),
        (&["-o", "x", "--", ""], "the command after -- is empty"),
        (
            &["-o", "/nonexistent/x", "--", "echo"],
            "nothing can be written to",
        ),
        (&["-o", "/", "--", "echo"], "nothing can be written to"),
        (&["-o", "/dev/null", "--", "echo"], "is already there"),
    ] {
        let said = refused(&[&["record"], args].concat());
        assert!(said.contains(why), "{args:?}: {said}");
    }
}

#[test]
fn nobody_can_plan_with_what_is_no_recording() {
    for (args, why) in [
        (
            &["gen:loop,pages=3,accesses=7"][..],
            "is a trace but no recording",
        ),
        (&[], "RECORDING"),
        (&["--slowdown", "3", "x"], "a slowdown is a percentage"),
        (&["--slowdown", "0%", "x"], "a slowdown is a percentage"),
        (&["--slowdown", "-1%", "x"], "a slowdown is a percentage"),
        (&["--policy", "best", "x"], "best"),
        (&["--policy", "lru,best", "x"], "best"),
        (&["--held", "all", "x"], "it is strata, or a percentage"),
        (&["--held", "5%", "x"], "it is strata, or a percentage"),
        (&["--memory", "0", "x"], "there has to be some"),
        (&[], "required"),
    ] {
        let said = refused(&[&["plan"], args].concat());
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let said = refused(&["sim", "gen:loop", "--order", "random"]);
    assert!(said.contains("shuffled:SEED"), "{said}");
}
