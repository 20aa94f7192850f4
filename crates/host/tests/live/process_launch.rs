//! Launching: the program must not notice that Strata stands in front of it.

use crate::process_support;

use std::io::Read;

use process_support::assert_one_passed;
use rustix::process::Signal;
use strata_linux::process::launch::{
    CommandSpec, InheritedSignals, LaunchError, User, WaitStatus, spawn,
};

fn sh(script: &str) -> CommandSpec {
    CommandSpec::new("sh", ["-c", script])
}

#[test]
fn exit_status_and_signals_come_through() {
    let child = spawn(sh("exit 42")).unwrap();
    assert_eq!(child.wait().unwrap(), WaitStatus::Exited(42));
    assert!(child.wait().is_err(), "an end is reported once");
    assert!(child.signal(Signal::TERM).is_err());

    let child = spawn(sh("kill -KILL $$")).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.exit_status(), Some(137));
    assert!(matches!(status, WaitStatus::Signaled { signal: 9, .. }));
}

#[test]
fn what_a_command_used_is_known_once_it_has_ended_with_its_children() {
    let script = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
    let child = spawn(sh(&format!("sh -c '{script}'; exit 3"))).unwrap();
    assert_eq!(child.used(), None, "it runs");
    assert_eq!(child.wait().unwrap(), WaitStatus::Exited(3));
    let used = child.used().expect("it has ended");
    // The loop is a child's of the child; nothing else takes so long.
    assert!(used.user_cpu_us >= 20_000, "{used:?}");
    assert!(used.nr_minor_faults > 50, "{used:?}");

    let killed = spawn(CommandSpec::new("sleep", ["60"])).unwrap();
    killed.signal(Signal::STOP).unwrap();
    killed.wait().unwrap();
    assert_eq!(killed.used(), None, "it is stopped");
    killed.signal(Signal::KILL).unwrap();
    killed.wait().unwrap();
    assert!(
        killed
            .used()
            .is_some_and(|used| used.user_cpu_us < 1_000_000)
    );
}

#[test]
fn both_outputs_can_go_into_one_descriptor() {
    let (mut from, to) = std::io::pipe().unwrap();
    let mut spec = sh("cat; echo out; echo err >&2; echo end");
    spec.output = Some(to.into());
    let child = spawn(spec).unwrap();
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    assert_eq!(
        text, "out\nerr\nend\n",
        "stdin is empty, and nobody else has the pipe"
    );
    assert_eq!(child.wait().unwrap(), WaitStatus::Exited(0));
}

#[test]
fn a_cgroup_that_can_not_be_joined_stops_the_launch() {
    let mut spec = sh("exit 0");
    // Read-only, so that the write fails.
    spec.cgroup_procs = Some(std::fs::File::open("/dev/null").unwrap().into());
    let error = spawn(spec).unwrap_err();
    assert!(matches!(error, LaunchError::Cgroup { .. }), "{error}");
    assert_eq!(error.exit_status(), 125);
}

#[test]
fn the_child_asks_to_join_its_cgroup_before_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let procs = dir.path().join("cgroup.procs");
    let mut spec = CommandSpec::new("cat", [&procs]);
    spec.cgroup_procs = Some(std::fs::File::create(&procs).unwrap().into());
    assert_eq!(spawn(spec).unwrap().wait().unwrap(), WaitStatus::Exited(0));
    assert_eq!(std::fs::read_to_string(&procs).unwrap(), "0");
}

#[test]
fn users_are_found_by_name_and_number() {
    let root = User::find("root").unwrap().unwrap();
    assert_eq!((root.uid, root.gid), (0, 0));
    assert_eq!(User::find("0").unwrap().unwrap(), root);
    assert_eq!(User::find("strata-nobody-has-this-name").unwrap(), None);
    assert_eq!(User::find("nul\0").unwrap(), None);
    let unknown = User::find("3999999999").unwrap().unwrap();
    assert_eq!((unknown.uid, unknown.gid), (3_999_999_999, 3_999_999_999));
}

#[test]
fn the_program_gets_the_signal_settings_strata_was_started_with() {
    // The test stands for Strata: started under nohup, it ignores INT itself.
    if std::env::var_os("STRATA_TEST_SIGNALS").is_none() {
        let output = std::process::Command::new("sh")
            .args(["-c", "trap '' HUP; exec \"$0\" --exact \"$1\""])
            .arg(std::env::current_exe().unwrap())
            .arg("process_launch::the_program_gets_the_signal_settings_strata_was_started_with")
            .env("STRATA_TEST_SIGNALS", "1")
            .output()
            .unwrap();
        assert_one_passed(&output);
        return;
    }
    let inherited = InheritedSignals::read().unwrap();
    let out = tempfile::NamedTempFile::new().unwrap();
    let script = format!("grep Sig /proc/self/status > {}", out.path().display());
    let mut spec = sh(&script);
    spec.signals = inherited;
    assert_eq!(spawn(spec).unwrap().wait().unwrap(), WaitStatus::Exited(0));
    // Signals 32 and 33 belong to the C library, which nobody can tell how to treat them.
    let set = |key: &str| {
        let status = std::fs::read_to_string(out.path()).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        u64::from_str_radix(line.unwrap().trim(), 16).unwrap() & !(3 << 31)
    };
    assert_eq!(set("SigIgn:"), 1, "HUP alone");
    assert_eq!(set("SigBlk:"), 0);

    // Without settings nothing is ignored, not even what the test ignores.
    assert_eq!(
        spawn(sh(&script)).unwrap().wait().unwrap(),
        WaitStatus::Exited(0)
    );
    assert_eq!(set("SigIgn:"), 0);
}
