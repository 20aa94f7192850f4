//! What others can write is not believed, and what others can lock is not waited for: the run directory of
//! a Strata that is root.

use crate::support::prelude::*;

use rustix::fs::{FlockOperation, flock};
use std::fs::Permissions;
use std::os::unix::fs::symlink;

/// `strata run OPTIONS -- true` with its run directory there.
fn run_in(run_dir: &Path, options: &[&str]) -> Finished {
    Strata::new(["run", "--memory", "64M"])
        .args(options)
        .args(["--", "true"])
        .env("STRATA_RUN_DIR", run_dir)
        .finish()
}

/// A state of a session that has died, which would have `value` written to `path`.
fn plant(session: &Path, path: &Path, value: &str) {
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
    let state = json!({
        "version": 1,
        "boot_id": boot_id.trim(),
        "owner": { "pid": 1, "start_ticks": 1 },
        "program": null,
        "group": null,
        "undo": [{ "undo": "restore_file", "path": path, "value": value }],
    });
    fs::create_dir_all(session).expect("made");
    fs::write(session.join("state.json"), state.to_string()).expect("written");
}

#[test]
fn a_run_directory_that_others_can_write_is_refused_and_nothing_in_it_is_done() {
    live!("memory_cgroup");
    let home = tempfile::tempdir().expect("a directory");
    let precious = home.path().join("precious");
    fs::write(&precious, "mine").expect("written");
    let open = home.path().join("open");
    plant(&open.join("1"), &precious, "planted");
    symlink(home.path().join("made"), open.join(".sessions.lock")).expect("a link");
    fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("mode");
    // The directory itself, one below it, and one behind a link in it.
    symlink(home.path(), open.join("away")).expect("a link");
    for run_dir in [open.clone(), open.join("1"), open.join("away/new")] {
        let run = run_in(&run_dir, &[]);
        assert_eq!(run.code(), Some(125), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains("mode 0777"), "{}", run.stderr);
        assert!(run.stderr.contains("STRATA_RUN_DIR"), "{}", run.stderr);
    }
    assert_eq!(fs::read_to_string(&precious).expect("read"), "mine");
    assert!(!home.path().join("made").exists(), "the link was followed");
    assert!(!home.path().join("new").exists());
}

/// Writes a state that was read, changed by `change`.
fn change_state(session: &Path, change: impl FnOnce(&mut Value)) {
    let path = session.join("state.json");
    let mut state = json_in(&path);
    change(&mut state);
    fs::write(&path, state.to_string()).expect("written");
}

#[test]
fn what_a_dead_run_left_goes_and_what_is_of_another_boot_wrong_or_can_not_be_read_has_nothing_done()
{
    live!("memory_cgroup");
    let home = tempfile::tempdir().expect("a directory");
    let run_dir = home.path().join("run");
    // What Strata never changes: a file that is no control file, and a directory that is no group.
    let precious = home.path().join("precious");
    fs::write(&precious, "mine").expect("written");
    let no_group = home.path().join("strata-1");
    fs::create_dir(&no_group).expect("made");
    plant(&run_dir.join("1"), &precious, "planted");
    change_state(&run_dir.join("1"), |state| {
        let steps = state["undo"].as_array_mut().expect("steps");
        steps.push(json!({ "undo": "remove_group", "path": no_group }));
    });
    // A file that looks like a control file of a group that was limited before the reboot.
    let control = home.path().join("memory.max");
    fs::write(&control, "100").expect("written");
    plant(&run_dir.join("old"), &control, "max");
    change_state(&run_dir.join("old"), |state| {
        state["boot_id"] = "another-boot".into();
    });
    for (id, text) in [("garbled", "{\"version\": 1"), ("newer", "{}")] {
        fs::create_dir(run_dir.join(id)).expect("made");
        fs::write(run_dir.join(id).join("state.json"), text).expect("written");
    }
    // As after a SIGKILL before there was a keeper.
    for name in ["41", "42"] {
        fs::create_dir(run_dir.join(name)).expect("made");
    }
    fs::write(run_dir.join("42/lock"), "").expect("written");
    plant(&run_dir.join("43"), Path::new("/nowhere"), "x");
    change_state(&run_dir.join("43"), |state| state["undo"] = json!([]));

    let said = run_in(&run_dir, &[]).expect_success().stderr;
    assert_has(&said, "nothing was done to it");
    assert_eq!(fs::read_to_string(&precious).expect("read"), "mine");
    assert!(no_group.exists());
    assert_eq!(fs::read_to_string(&control).expect("read"), "100");
    for id in ["garbled", "newer"] {
        assert!(run_dir.join(id).join("state.json").exists(), "{said}");
        assert_has(&said, &format!("run/{id}"));
    }
    for id in ["old", "41", "42", "43"] {
        assert!(!run_dir.join(id).exists(), "{id}: {said}");
    }
}

#[test]
fn an_old_lock_that_somebody_keeps_locked_stops_no_start() {
    live!("cap_bpf", "memory_cgroup", "zram");
    let home = tempfile::tempdir().expect("a directory");
    let run_dir = home.path().join("run");
    fs::create_dir(&run_dir).expect("made");
    let held: Vec<File> = [".sessions.lock", ".zram.lock"]
        .iter()
        .map(|name| {
            let path = run_dir.join(name);
            fs::write(&path, "").expect("made");
            fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("mode");
            // As anybody can who may read it.
            let file = File::open(&path).expect("readable");
            flock(&file, FlockOperation::LockExclusive).expect("locked");
            file
        })
        .collect();
    run_in(&run_dir, &["--swap", "zram:32M"]).expect_success();
    let left: Vec<_> = fs::read_dir(&run_dir).expect("there").flatten().collect();
    assert!(left.is_empty(), "locks go with their holders: {left:?}");
    drop(held);
}

#[test]
fn an_empty_run_directory_is_named_as_that() {
    for verb in [
        &["run", "--memory", "64M", "--", "true"][..],
        &["ctl", "status"],
    ] {
        let run = Strata::new(verb).env("STRATA_RUN_DIR", "").finish();
        assert_eq!(run.code(), Some(2), "{}", run.stderr);
        let why = "STRATA_RUN_DIR is set, but empty";
        assert!(run.stderr.contains(why), "{}", run.stderr);
    }
}
