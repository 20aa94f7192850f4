//! Owners that die, keepers that clean up after them, and starts that clean up after both.

use crate::support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use strata_host::keeper::{Outcome, Session, recover_in};
use strata_linux::cgroup::{BudgetGroup, Manager, Version, mounted_version};
use strata_linux::run_dir::ProcessMark;
use strata_linux::swap::{SwapDevice, SwapSpec, swap_areas};
use strata_linux::undo::Undo;
use support::{Hog, MIB, PROBE, fresh_id, wait_until};

/// A process that holds a session, and what it told about it.
struct Owner {
    child: Child,
    id: String,
    keeper: i32,
    group: PathBuf,
    swap: PathBuf,
}

impl Owner {
    fn start(run_dir: &Path, swap: &str) -> Owner {
        Owner::start_with(run_dir, swap, &[])
    }

    fn start_with(run_dir: &Path, swap: &str, environment: &[(&str, &str)]) -> Owner {
        let id = fresh_id("keeper");
        let mut child = Command::new(PROBE)
            .args(["owner", &id, swap])
            .env("STRATA_RUN_DIR", run_dir)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the probe runs");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says what it made");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [keeper, group, swap] = words[..] else {
            panic!("the owner said {line:?}");
        };
        Owner {
            child,
            id,
            keeper: keeper.parse().expect("a pid"),
            group: group.into(),
            swap: swap.into(),
        }
    }

    fn die(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("waited");
    }

    fn has_limit(&self) -> bool {
        BudgetGroup::attach(&self.group, &strata_linux::undo::Journal::none())
            .expect("there")
            .limit_bytes()
            .expect("read")
            .is_some()
    }

    fn is_swapped_to(&self) -> bool {
        swap_areas()
            .expect("read")
            .iter()
            .any(|area| area.path == self.swap)
    }
}

/// A run directory of the test's own. A test that fails half-way has what it left undone here.
struct RunDir(tempfile::TempDir);

impl RunDir {
    fn new() -> RunDir {
        RunDir(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        for _ in 0..100 {
            let is_over = recover_in(self.path()).is_ok_and(|found| found.is_empty());
            if is_over && sessions(self.path()).is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn sessions(run_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run_dir).expect("read").flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

impl Drop for Owner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_alive(pid: i32) -> bool {
    ProcessMark::of(pid).is_some_and(ProcessMark::is_running)
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("sent");
}

fn is_there(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).expect("a pid")).is_ok()
}

fn status_number(pid: i32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Everything in it is removed by whoever should have; the test fails otherwise.
fn assert_empty(run_dir: &Path) {
    assert_eq!(sessions(run_dir), Vec::<PathBuf>::new());
}

const SWAP: &str = "zram:128M";

fn has_zram() -> bool {
    Path::new("/sys/class/zram-control").exists()
}

#[test]
fn a_killed_owner_leaves_no_limit_at_once_and_nothing_when_the_program_ends() {
    need_root_and_cgroup!();
    if !has_zram() {
        skip!("no zram");
    }
    let run = RunDir::new();
    let mut owner = Owner::start(run.path(), SWAP);
    let mut hog = Hog::filled(Some(&owner.group), 40);
    assert!(owner.has_limit() && owner.is_swapped_to());

    // The keeper holds no stdin, stdout or stderr of ours, and shrugs off what a terminal sends.
    for signal in [Signal::INT, Signal::QUIT, Signal::HUP, Signal::TERM] {
        send(owner.keeper, signal);
    }
    let held: Vec<_> = fs::read_dir(format!("/proc/{}/fd", owner.keeper))
        .expect("it lives")
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    for target in &held {
        let is_known = target.starts_with("pipe:")
            || target == "/dev/null"
            || target.ends_with("/lock")
            || target.starts_with("/memfd:strata-heartbeat");
        assert!(is_known, "the keeper holds {target}");
    }
    assert_eq!(
        held.iter()
            .filter(|target| target.starts_with("pipe:"))
            .count(),
        1
    );
    let anon_kib = status_number(owner.keeper, "RssAnon:").expect("running");
    let rss_kib = status_number(owner.keeper, "VmRSS:").expect("running");
    eprintln!("keeper: {rss_kib} KiB resident, of these {anon_kib} KiB its own");
    assert!(anon_kib < 1024, "{anon_kib} KiB");

    owner.die();
    wait_until("the limit is gone", || !owner.has_limit());
    if mounted_version().expect("mounted") == Version::V1 {
        let control = owner.group.join("memory.oom_control");
        wait_until("the OOM killer is back", || {
            fs::read_to_string(&control)
                .expect("read")
                .contains("oom_kill_disable 0")
        });
    }
    assert!(owner.is_swapped_to(), "the program still needs it");
    assert!(is_alive(owner.keeper) && is_alive(hog.pid()));
    assert_eq!(
        hog.ask("touch").as_deref(),
        Some("ok"),
        "the program goes on"
    );

    assert!(
        recover_in(run.path()).expect("looked").is_empty(),
        "the keeper holds it"
    );
    assert!(hog.end().success());
    wait_until("all is gone", || {
        !owner.group.exists() && !owner.is_swapped_to() && !run.path().join(&owner.id).exists()
    });
    wait_until("the keeper is gone", || {
        !is_there(owner.keeper) || !is_alive(owner.keeper)
    });
    assert_empty(run.path());
}

#[test]
fn a_keeper_whose_directory_somebody_removed_ends_when_all_is_undone() {
    need_root_and_cgroup!();
    let run = RunDir::new();
    let mut owner = Owner::start(run.path(), "existing");
    let hog = Hog::filled(Some(&owner.group), 4);
    owner.die();
    wait_until("the limit is gone", || !owner.has_limit());
    fs::remove_dir_all(run.path().join(&owner.id)).expect("removed");
    assert!(hog.end().success());
    wait_until("the keeper is gone", || {
        !is_there(owner.keeper) || !is_alive(owner.keeper)
    });
    assert!(!owner.group.exists());
}

#[test]
fn an_orderly_end_does_not_wait_for_ever_for_a_keeper_that_hears_nothing() {
    need_root_and_cgroup!();
    let run = RunDir::new();
    let deaf = [("STRATA_PROBE_DEAF_KEEPER", "1")];
    let mut owner = Owner::start_with(run.path(), "existing", &deaf);
    let mut stdin = owner.child.stdin.take().expect("piped");
    stdin.write_all(b"end\n").expect("it reads");
    wait_until("the owner has ended", || {
        owner.child.try_wait().expect("waited").is_some()
    });
    assert!(!is_there(owner.keeper), "it was killed and waited for");
    assert!(!owner.group.exists());
    assert_empty(run.path());
}

#[test]
fn a_limit_that_somebody_else_set_after_both_were_killed_is_left_by_the_next_start() {
    need_root_and_cgroup!();
    let run = RunDir::new();
    let mut owner = Owner::start(run.path(), "existing");
    let hog = Hog::filled(Some(&owner.group), 20);
    send(owner.keeper, Signal::KILL);
    owner.die();
    wait_until("both are gone", || !is_alive(owner.keeper));
    assert!(owner.has_limit(), "nobody has undone it yet");
    let limit = owner.group.join(match mounted_version().expect("mounted") {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    });
    fs::write(&limit, "314572800").expect("an operator's");
    let found = recover_in(run.path()).expect("looked");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].outcome, Outcome::ProgramRunning);
    let text = fs::read_to_string(&limit).expect("read");
    assert_eq!(text.trim(), "314572800");
    assert!(hog.end().success());
    recover_in(run.path()).expect("looked");
    assert!(!owner.group.exists());
    assert_empty(run.path());
}

#[test]
fn a_directory_without_a_state_is_removed_and_one_that_can_not_be_read_is_left() {
    let run = RunDir::new();
    for (id, state) in [
        ("half", None),
        ("garbled", Some("{\"version\": 1")),
        ("newer", Some("{}")),
    ] {
        fs::create_dir(run.path().join(id)).expect("made");
        fs::write(run.path().join(id).join("state.json.new"), "{").expect("written");
        if let Some(state) = state {
            fs::write(run.path().join(id).join("state.json"), state).expect("written");
        }
    }
    let found = recover_in(run.path()).expect("looked");
    let of = |id: &str| {
        let found = found.iter().find(|found| found.id == id).expect("found");
        found.outcome.clone()
    };
    assert_eq!(of("half"), Outcome::Cleaned);
    assert!(!run.path().join("half").exists());
    for id in ["garbled", "newer"] {
        assert!(matches!(of(id), Outcome::Left(_)), "{id}");
        assert!(run.path().join(id).join("state.json").exists());
        fs::remove_dir_all(run.path().join(id)).expect("removed");
    }
}

#[test]
fn a_session_in_use_is_not_recovered_and_its_name_is_taken() {
    let run = RunDir::new();
    let session = Session::create_in(run.path(), "one").expect("made");
    assert!(recover_in(run.path()).expect("looked").is_empty());
    let error = Session::create_in(run.path(), "one").expect_err("taken");
    assert!(error.to_string().contains("STRATA_RUN_DIR"), "{error}");
    assert!(session.finish(None).is_empty());
    assert_empty(run.path());
}

#[test]
fn after_a_reboot_nothing_of_another_boot_is_touched() {
    let run = RunDir::new();
    // A file that looks like a control file of a group we limited before the reboot.
    let control = run.path().join("memory.max");
    fs::write(&control, "100").expect("written");
    let session = Session::create_in(run.path(), "old").expect("made");
    session
        .journal()
        .record(&Undo::RestoreFile {
            path: control.clone(),
            value: "max".to_owned(),
        })
        .expect("recorded");
    let state = session.directory().join("state.json");
    drop(session);
    let text = fs::read_to_string(&state).expect("read");
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    fs::write(&state, text.replace(boot_id.trim(), "another-boot")).expect("written");
    let found = recover_in(run.path()).expect("looked");
    assert_eq!(found[0].outcome, Outcome::Cleaned);
    assert_eq!(fs::read_to_string(&control).expect("read"), "100");
}

#[test]
fn a_crash_between_the_record_and_the_change_leaves_nothing_to_do() {
    need_root_and_cgroup!();
    let run = RunDir::new();
    let session = Session::create_in(run.path(), "early").expect("made");
    let mut group =
        BudgetGroup::create(&fresh_id("early"), Manager::ByHand, &session.journal()).expect("made");
    let path = group.path().to_owned();
    group.set_budget_bytes(20 * MIB).expect("set");
    let state = fs::read_to_string(session.directory().join("state.json")).expect("read");
    assert!(
        state.contains("remove_group") && state.contains("restore_file"),
        "{state}"
    );
    group.remove().expect("removed");
    let now = fs::read_to_string(session.directory().join("state.json")).expect("read");
    assert!(
        !now.contains("remove_group"),
        "what was undone is forgotten"
    );
    // As if the changes had never been made.
    fs::write(session.directory().join("state.json"), state).expect("written");
    drop(group);
    drop(session);
    let found = recover_in(run.path()).expect("looked");
    assert_eq!(found[0].outcome, Outcome::Cleaned);
    assert!(!path.exists());
}

#[test]
fn undoing_everything_twice_does_it_once() {
    need_root_and_cgroup!();
    if !has_zram() {
        skip!("no zram");
    }
    let run = RunDir::new();
    let session = Session::create_in(run.path(), "twice").expect("made");
    let spec: SwapSpec = "zram:64M".parse().expect("a spec");
    let swap = SwapDevice::create(&spec, &session.journal()).expect("made");
    let device = swap.path().expect("ours").to_owned();
    let group =
        BudgetGroup::create(&fresh_id("twice"), Manager::ByHand, &session.journal()).expect("made");
    group.set_budget_bytes(20 * MIB).expect("set");
    for _ in 0..2 {
        assert!(session.put_limits_back().is_empty());
        assert_eq!(group.limit_bytes().expect("read"), None);
        // As by a thread that was in the middle of it.
        group.set_budget_bytes(20 * MIB).expect("set");
    }
    assert!(group.path().exists());
    for _ in 0..2 {
        let errors = session.undo_all();
        assert!(errors.is_empty(), "{errors:?}");
        assert!(!group.path().exists());
        assert!(
            swap_areas()
                .expect("read")
                .iter()
                .all(|area| area.path != device)
        );
    }
    assert!(session.finish(None).is_empty());
}
