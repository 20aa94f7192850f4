//! Stopping and going on: a stopped program is still watched, a shell gets its terminal back, and no limit is in
//! force while Strata sleeps.

use crate::support::prelude::*;

const CTRL_C: u8 = 3;
const CTRL_Z: u8 = 26;
const CTRL_BACKSLASH: u8 = 28;

/// (v1) Whether tasks that meet the limit wait instead of being killed.
fn is_oom_killer_off(group: &Path) -> bool {
    let text = fs::read_to_string(group.join("memory.oom_control")).unwrap_or_default();
    text.contains("oom_kill_disable 1")
}

/// Whether the terminal's keys are for the process group of this process.
fn has_terminal(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    // state, parent, group, session, terminal, group that has it
    let fields: Vec<&str> = fields.split_whitespace().collect();
    fields.len() > 5 && fields[2] == fields[5]
}

/// Stops the program, lets it go on by itself, and ends it: all of that alone.
fn stop_and_continue(live: &mut Live, pid: i32, meanwhile: impl FnOnce()) {
    for signal in [Signal::STOP, Signal::TSTP] {
        send(pid, signal);
        wait_until("the program to stop", || state(pid) == 'T');
        send(pid, Signal::CONT);
        assert_eq!(live.json()["signal"], "CONT");
    }
    send(pid, Signal::STOP);
    wait_until("the program to stop", || state(pid) == 'T');
    meanwhile();
    assert_ne!(state(live.pid()), 'T', "Strata is awake");
    send(pid, Signal::CONT);
    assert_eq!(live.json()["signal"], "CONT");
    send(pid, Signal::TERM);
    assert_eq!(live.json()["signal"], "TERM");
    assert_eq!(live.end().code(), Some(0), "its end is reported");
}

#[test]
fn a_program_stopped_and_continued_alone_is_answered_for_and_its_end_reported() {
    live!("cap_bpf", "memory_cgroup");
    let run_dir = tempfile::tempdir().expect("directory");
    let run = Strata::new(["run", "--memory", "64M", "--quiet"]);
    let (mut live, pid) = start_signals(run.env("STRATA_RUN_DIR", run_dir.path()));
    stop_and_continue(&mut live, pid, || {
        let status = Strata::new(["ctl", "--format", "json", "status"])
            .env("STRATA_RUN_DIR", run_dir.path())
            .finish()
            .expect_success()
            .json();
        assert_eq!(status["pid"], pid);
    });
}

#[test]
fn a_recorded_program_stopped_and_continued_alone_is_recorded_to_its_end() {
    live!("cap_bpf");
    let directory = tempfile::tempdir().expect("directory");
    let record = Strata::new(["record", "--quiet", "-o"]).arg(directory.path().join("r.strata"));
    let (mut live, pid) = start_signals(record);
    stop_and_continue(&mut live, pid, || {});
}

/// Stopped itself it would neither give way at its limit nor report the end.
#[test]
fn a_strata_that_somebody_stops_is_told_to_go_on_while_its_limit_is_on() {
    live!("cap_bpf", "memory_cgroup");
    let (mut live, pid) = start_signals(Strata::new(["run", "--memory", "64M", "--quiet"]));
    for _ in 0..3 {
        stop(live.pid());
        wait_until("Strata to go on", || state(live.pid()) != 'T');
        assert_ne!(state(pid), 'T', "the program was never stopped");
    }
    send(pid, Signal::TERM);
    assert_eq!(live.json()["signal"], "TERM", "CONT was for Strata alone");
    assert_eq!(live.end().code(), Some(0), "its end is reported");
    let told = live.stderr();
    assert_has(&told, "its keeper had it go on");
}

/// Sends each to Strata, and hears of it from the program.
fn pass_on(live: &mut Live, signals: &[(Signal, &str)]) {
    for (signal, name) in signals {
        live.signal(*signal);
        assert_eq!(live.json()["signal"], *name, "each comes once");
    }
}

#[test]
fn signals_sent_to_strata_alone_reach_the_program_and_stop_and_continue_it() {
    live!("cap_bpf", "memory_cgroup");
    let signals = [
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::HUP, "HUP"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    let directory = tempfile::tempdir().expect("directory");
    let record = Strata::new(["record", "--quiet", "-o"]).arg(directory.path().join("r.strata"));
    let (mut live, _) = start_signals(record);
    pass_on(&mut live, &signals[..2]);
    pass_on(&mut live, &[(Signal::TERM, "TERM")]);
    assert_eq!(live.end().code(), Some(0));

    let (mut live, pid) = start_signals(Strata::new(["run", "--memory", "64M", "--quiet"]));
    pass_on(&mut live, &signals);
    // Stopped the other way round, too: TSTP sent to Strata is the program's.
    live.signal(Signal::TSTP);
    wait_until("the program to stop", || state(pid) == 'T');
    assert_ne!(state(live.pid()), 'T', "Strata is awake");
    pass_on(&mut live, &[(Signal::CONT, "CONT"), (Signal::TERM, "TERM")]);
    assert_eq!(live.end().code(), Some(0), "TERM ended it in its own way");
}

/// `strata` as the foreground job of a shell.
struct Shell {
    live: Live,
    strata: i32,
}

impl Shell {
    fn start(args: &[&str]) -> Shell {
        let mut command = Command::new(program("jobshell"));
        command.arg(binary()).args(args);
        let live = Live::start_command(command);
        let strata = live.json()["started"].as_i64().expect("pid") as i32;
        Shell { live, strata }
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.live.stdin(), "{command}").expect("the shell listens");
    }

    fn key(&mut self, key: u8) {
        self.tell(&format!("key {key}"));
    }

    /// What the shell sees its job do next.
    #[track_caller]
    fn expect(&self, what: &str) -> i64 {
        let told = self.live.json();
        told[what]
            .as_i64()
            .unwrap_or_else(|| panic!("{what}, not {told}; {}", self.live.stderr()))
    }
}

#[test]
fn keys_of_the_terminal_reach_the_program_exactly_once() {
    live!("cap_bpf", "memory_cgroup");
    let signals = program("signals");
    let signals = signals.to_str().expect("text");
    let mut shell = Shell::start(&["run", "--memory", "64M", "--quiet", "--", signals]);
    shell.live.wait_for_stderr("pgid");
    for (key, name) in [(CTRL_C, "INT"), (CTRL_BACKSLASH, "QUIT")] {
        shell.key(key);
        shell.live.wait_for_stderr(&format!("\"{name}\""));
    }
    // One that was passed on as well would have come before these.
    for (signal, name) in [(Signal::USR1, "USR1"), (Signal::TERM, "TERM")] {
        send(shell.strata, signal);
        shell.live.wait_for_stderr(&format!("\"{name}\""));
    }
    assert_eq!(shell.expect("exited"), 0);
    let said = shell.live.stderr();
    assert_eq!(said.matches("\"INT\"").count(), 1, "{said}");
    assert_eq!(said.matches("\"QUIT\"").count(), 1, "{said}");
}

#[test]
fn ctrl_z_gives_the_terminal_back_without_a_limit_and_fg_takes_it_again() {
    live!("cap_bpf", "memory_cgroup");
    // It does not read from the terminal, so it goes on when it is continued in the background.
    let idle = program("idle");
    let idle = idle.to_str().expect("text");
    let options = ["--size", "8M", "--seconds", "600"];
    let run = ["run", "--memory", "64M", "--quiet", "--", idle];
    let mut shell = Shell::start(&[&run[..], &options].concat());
    shell.live.wait_for_stderr("pid");
    let said: Value = serde_json::from_str(&shell.live.stderr()).expect("JSON");
    let pid = said["pid"].as_i64().expect("pid") as i32;
    let group = memory_group_of(pid);
    wait_until("a limit", || limit_bytes(&group).is_some());

    shell.key(CTRL_Z);
    shell.expect("stopped");
    assert_eq!((state(pid), state(shell.strata)), ('T', 'T'));
    assert_eq!(limit_bytes(&group), None, "nobody is awake to give way");
    assert!(!is_oom_killer_off(&group));

    // Somebody continues the program behind the shell's back.
    send(pid, Signal::CONT);
    shell.expect("continued");
    wait_until("a limit again", || limit_bytes(&group).is_some());
    assert_ne!(state(pid), 'T');
    shell.tell("fg");
    // Before, the key is the shell's.
    wait_until("the terminal", || has_terminal(shell.strata));
    shell.key(CTRL_Z);
    shell.expect("stopped");
    shell.tell("fg");
    shell.expect("continued");
    wait_until("a limit again", || limit_bytes(&group).is_some());

    // It ends while Strata sleeps.
    shell.key(CTRL_Z);
    shell.expect("stopped");
    send(pid, Signal::KILL);
    shell.expect("continued");
    assert_eq!(shell.expect("exited"), 128 + 9);
}

#[test]
fn ctrl_z_on_an_attached_run_leaves_the_target_without_our_limit() {
    live!("cap_bpf", "memory_cgroup");
    let group = TestGroup::new("stops");
    let target = Touch::start(["--size", "8M"]);
    group.take(target.pid);
    let path = group.path.to_str().expect("text").to_owned();
    let before = group.values();
    let mut shell = Shell::start(&["run", "--memory", "64M", "--quiet", "--cgroup", &path]);
    for _ in 0..2 {
        wait_until("a limit", || limit_bytes(&group.path).is_some());
        shell.key(CTRL_Z);
        shell.expect("stopped");
        assert_eq!(limit_bytes(&group.path), None);
        assert!(!is_oom_killer_off(&group.path));
        shell.tell("fg");
        shell.expect("continued");
    }
    wait_until("a limit again", || limit_bytes(&group.path).is_some());
    shell.key(CTRL_C);
    assert_eq!(shell.expect("exited"), 0);
    assert_eq!(group.values(), before);
}
