//! A Strata that hangs, that nobody listens to, that is in its own way or that is two: the program is never worse off for it.

use crate::support::prelude::*;

use rustix::fs::{FlockOperation, flock};
use std::os::fd::AsFd;

/// A program in a group of its own.
struct World {
    _program: Live,
    group: TestGroup,
}

impl World {
    fn new(name: &str) -> World {
        let group = TestGroup::new(name);
        let (program, _) = idle_in(&group, "24M");
        World {
            _program: program,
            group,
        }
    }

    fn attach(&self) -> Strata {
        Strata::new(["run", "--memory", "60M", "--cgroup"]).arg(&self.group.path)
    }

    fn is_limited(&self) -> bool {
        is_limited(&self.group.path)
    }
}

/// A group that stops whoever is in it, whatever that is at.
struct Freezer {
    path: PathBuf,
    parent: PathBuf,
}

impl Freezer {
    fn new() -> Freezer {
        let v1 = Path::new("/sys/fs/cgroup/freezer");
        let parent = match v1.exists() {
            true => v1.to_owned(),
            false => memory_mount().expect("a hierarchy").0,
        };
        let path = parent.join(format!("strata-test-freezer-{}", std::process::id()));
        fs::create_dir(&path).expect("a cgroup can be made");
        Freezer { path, parent }
    }

    fn freeze(&self, is_frozen: bool) {
        let (v1, v2) = (
            self.path.join("freezer.state"),
            self.path.join("cgroup.freeze"),
        );
        let written = match (v1.exists(), is_frozen) {
            (true, true) => fs::write(v1, "FROZEN"),
            (true, false) => fs::write(v1, "THAWED"),
            (false, is_frozen) => fs::write(v2, u8::from(is_frozen).to_string()),
        };
        written.expect("can be frozen and thawed");
    }

    fn take(&self, pid: i32) {
        fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("can be moved");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        self.freeze(false);
        let pids = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.split_whitespace() {
            let _ = fs::write(self.parent.join("cgroup.procs"), pid);
        }
        wait_until("the freezer's group to go", || {
            fs::remove_dir(&self.path).is_ok() || !self.path.exists()
        });
    }
}

#[test]
fn the_limits_of_a_strata_that_hangs_are_lifted_and_hold_again_when_it_goes_on() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("hung");
    let before = world.group.values();
    let mut live = Live::start(&world.attach());
    live.wait_until_it_answers();
    assert!(world.is_limited());
    let freezer = Freezer::new();
    freezer.take(live.pid());
    freezer.freeze(true);
    wait_until("the limits to be lifted", || world.group.values() == before);
    freezer.freeze(false);
    wait_until("the limit to hold again", || world.is_limited());
    live.wait_for_stderr("its keeper had lifted the limits meanwhile");
    drop(freezer);
    live.interrupt();
    assert_eq!(world.group.values(), before);
}

/// Fills a pipe, so that whoever writes to it waits.
fn fill(pipe: impl AsFd) {
    let flags = rustix::fs::fcntl_getfl(&pipe).expect("flags");
    let not_waiting = flags | rustix::fs::OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(&pipe, not_waiting).expect("set");
    while rustix::io::write(&pipe, &[b'x'; 4096]).is_ok() {}
    while rustix::io::write(&pipe, b"x").is_ok() {}
    rustix::fs::fcntl_setfl(&pipe, flags).expect("set");
}

#[test]
fn a_run_goes_on_and_ends_while_nobody_reads_its_stderr() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("deaf");
    let before = world.group.values();
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    fill(&writer);
    let mut run = world
        .attach()
        .env("STRATA_LOG", "trace")
        .command()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::from(writer))
        .spawn()
        .expect("starts");
    let pid = run.id().to_string();
    let asks = |what: &'static str| Strata::new(["ctl", "--id", &pid]).arg(what);
    wait_until("the run to answer", || {
        asks("status").finish().code() == Some(0)
    });
    assert!(world.is_limited());
    // It says something at each tick, and answers still.
    for _ in 0..3 {
        asks("status").finish().expect_success();
    }
    send(run.id() as i32, Signal::INT);
    wait_until("the limits to be gone", || world.group.values() == before);
    wait_until("the run to end", || run.try_wait().expect("wait").is_some());
    drop(reader);
}

#[test]
fn a_guard_goes_on_and_ends_while_nobody_reads_what_it_says() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("unread");
    let (out, err) = (
        rustix::pipe::pipe().expect("a pipe"),
        rustix::pipe::pipe().expect("a pipe"),
    );
    fill(&out.1);
    fill(&err.1);
    let mut guard = Strata::new(["guard", "--format", "json", "--min-age", "5s", "--cgroup"])
        .arg(world.group.name())
        .args(["--history", "none", "--promise", "100%/min"])
        .env("STRATA_LOG", "trace")
        .command()
        .stdin(Stdio::null())
        .stdout(Stdio::from(out.1))
        .stderr(Stdio::from(err.1))
        .spawn()
        .expect("starts");
    // Each walk would have been told, had anybody listened.
    wait_until("the third walk", || {
        let asked = Strata::new(["guard", "status", "--format", "json"]).finish();
        asked.code() == Some(0) && asked.json_lines()[0]["nr_walks"].as_u64() >= Some(3)
    });
    send(guard.id() as i32, Signal::INT);
    wait_until("the guard to end", || {
        guard.try_wait().expect("wait").is_some()
    });
    drop((out.0, err.0));
}

#[test]
fn a_strata_in_the_group_that_it_is_to_hold_is_refused_with_the_way_out() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("inside");
    let before = world.group.values();
    let below = world.group.path.join("cgroup.procs");
    let mut child = Command::new("sh")
        .args([
            "-c",
            "read go; exec \"$0\" run --memory 60M --cgroup \"$1\"",
        ])
        .arg(binary())
        .arg(&world.group.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    fs::write(below, child.id().to_string()).expect("can be moved");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"go\n").expect("written");
    let ended = child.wait_with_output().expect("ends");
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(125), "{told}");
    assert_has(&told, "Strata itself runs in");
    assert_has(&told, "cgroup.procs");
    assert_eq!(world.group.values(), before, "nothing was changed");
}

#[test]
fn who_may_only_read_a_group_can_not_keep_strata_from_it() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("flocked");
    let readable = fs::read_dir(&world.group.path).expect("there").flatten();
    let readable = readable.filter(|entry| {
        let mode = entry.metadata().map_or(0, |found| found.mode());
        mode & 0o004 != 0
    });
    let paths = readable.map(|entry| entry.path());
    let held: Vec<File> = paths
        .chain([world.group.path.clone()])
        .filter_map(|path| File::open(path).ok())
        .filter(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok())
        .collect();
    assert!(held.len() > 1);
    let mut holder = Live::start(&world.attach());
    holder.wait_until_it_answers();
    holder.interrupt();
}

#[test]
fn a_keeper_is_known_by_its_name_is_small_and_holds_nothing_that_is_not_its_own() {
    live!("cap_bpf", "memory_cgroup");
    let mut live = Live::start(&Strata::new(["run", "--memory", "64M", "--"]).arg(program("idle")));
    live.json();
    let keeper = keepers_of(live.pid())[0];
    let line = fs::read_to_string(format!("/proc/{keeper}/cmdline")).expect("it lives");
    assert!(line.starts_with("strata-keeper\0"), "{line}");
    // What a terminal sends is nothing to it.
    for signal in [Signal::INT, Signal::QUIT, Signal::HUP, Signal::TERM] {
        send(keeper, signal);
    }
    let held = fs::read_dir(format!("/proc/{keeper}/fd")).expect("it lives");
    let held = held
        .flatten()
        .filter_map(|of| fs::read_link(of.path()).ok());
    for target in held.map(|target| target.display().to_string()) {
        let is_known = target.starts_with("pipe:")
            || target == "/dev/null"
            || target.ends_with("/lock")
            || target.starts_with("/memfd:strata-heartbeat");
        assert!(is_known, "the keeper holds {target}");
    }
    let own_bytes = proc_bytes(&format!("/proc/{keeper}/status"), "RssAnon");
    assert!(own_bytes < Some(1 << 20), "{own_bytes:?}");
    assert_ne!(state(live.pid()), 'T');
    live.signal(Signal::TERM);
    live.end();
    assert!(!live.stderr().contains("keeper"), "{}", live.stderr());
}

#[test]
fn a_run_that_was_killed_begins_again_under_its_name_and_takes_over_what_is_left() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let world = World::new("again");
    let before = world.group.values();
    let run_dir = tempfile::tempdir().expect("a directory");
    let name = format!("again-{}", std::process::id());
    let run = || {
        let swap = ["--swap", "zram:16M", "--name", &name];
        Live::start(
            &world
                .attach()
                .args(swap)
                .env("STRATA_RUN_DIR", run_dir.path()),
        )
    };
    let asks = || {
        let ctl = Strata::new(["ctl", "--name", &name, "status"]);
        ctl.env("STRATA_RUN_DIR", run_dir.path()).finish()
    };
    let mut first = run();
    wait_until("the first run to answer", || asks().code() == Some(0));
    first.signal(Signal::KILL);
    first.end();
    let mut second = run();
    wait_until("the second run to answer", || {
        // The keeper of the first has the name until all is undone, which others may hold up.
        if !second.is_running() {
            assert_has(&second.stderr(), "is there already");
            second = run();
        }
        asks().code() == Some(0)
    });
    assert!(world.is_limited());
    second.interrupt();
    assert_eq!(world.group.values(), before);
    let left = fs::read_dir(run_dir.path()).expect("readable").flatten();
    let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).collect();
    assert!(left.is_empty(), "{left:?}");
}
