//! `strata guard -- COMMAND`: a guard that starts a program and looks after that alone.

use crate::support::prelude::*;

use super::guard::{ACTING, Idler, bytes, wait_for};

/// A guard that starts a command.
fn guard(options: &[&str], command: &[&str]) -> Strata {
    Strata::new([
        "guard",
        "--format",
        "json",
        "--min-age",
        "5s",
        "--cpu",
        "50%",
    ])
    .args(["--history", "none"])
    .args(options)
    .arg("--")
    .args(command)
}

#[test]
fn a_command_alone_gives_back_what_it_does_not_use_and_its_status_is_the_guards() {
    live!("cap_bpf", "memory_cgroup", "zram");
    // A neighbour that has more idle memory is left alone.
    let neighbour = Idler::start("neighbour");
    let used_bytes = neighbour.group.usage_bytes();
    let touch = program("touch");
    let touch = touch.to_str().expect("text");
    let script = format!("exec {touch} --size 64M > /dev/null");
    let mut live = Live::start(&guard(&ACTING[..4], &["sh", "-c", &script]));
    writeln!(live.stdin(), "writerange 0 16384").expect("obeyed");
    let told = wait_for(&live, "half of it to go", |status| {
        bytes(status, "away_bytes") >= 32 * MIB
    });
    let groups = told["groups"].as_array().expect("groups");
    let names: Vec<&str> = groups
        .iter()
        .filter_map(|of| of["group"].as_str())
        .collect();
    assert!(
        names.len() == 1 && names[0].contains("/strata-"),
        "{names:?}"
    );
    assert!(neighbour.group.usage_bytes() + 4 * MIB >= used_bytes);
    writeln!(live.stdin(), "exit 7").expect("obeyed");
    assert_eq!(live.end().code(), Some(7), "{}", live.stderr());
    assert_undone(&run_dir(), &live.stderr());
    neighbour.end();
}

#[test]
fn signals_reach_the_command_and_what_can_not_be_started_leaves_nothing() {
    live!("cap_bpf", "memory_cgroup");
    let promise = ["--promise", "1%/min"];
    let script = "trap 'exit 9' HUP; echo started; while :; do sleep 0.1; done";
    let mut live = Live::start(&guard(&promise, &["sh", "-c", script]));
    while live.line() != "started" {}
    let group = memory_group_of(children(live.pid())[0]);
    live.signal(Signal::HUP);
    assert_eq!(live.end().code(), Some(9), "{}", live.stderr());
    assert!(!group.exists(), "{} is gone", group.display());
    assert_eq!(
        guard(&promise, &["/nonexistent"]).finish().code(),
        Some(127)
    );
}

#[test]
fn a_command_outlives_its_guard_in_its_group_which_the_next_guard_after_its_end_removes() {
    live!("cap_bpf", "memory_cgroup");
    let promise = ["--promise", "1%/min"];
    let mut live = Live::start(&guard(&promise, &["sh", "-c", "echo $$; exec sleep 600"]));
    let pid: i32 = live.line().parse().expect("a pid");
    let group = memory_group_of(pid);
    live.signal(Signal::KILL);
    live.end();
    assert_eq!(memory_group_of(pid), group, "the command goes on");
    let next = || guard(&promise, &["true"]).finish().expect_success();
    next();
    assert!(group.exists(), "somebody is in it");
    send(pid, Signal::KILL);
    next();
    assert!(!group.exists(), "{} is gone", group.display());
}
