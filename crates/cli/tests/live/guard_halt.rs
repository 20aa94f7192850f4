//! Groups that `strata guard` stops or ends where a host stays short of memory.

use crate::guard::{Idler, MIB, bytes, end, of, wait_for};
use crate::support;

use std::path::{Path, PathBuf};

use strata_linux::cgroup::{Freezer, GroupReader, HaltError, kill};
use strata_linux::undo::Journal;
use support::leaks::Guard;
use support::live::{Live, memory_mount, wait_until};
use support::strata::Strata;

/// A group of the v1 freezer that holds one process; gone at the end.
struct FreezerGroup(PathBuf);

impl FreezerGroup {
    fn take(name: &str, pid: i32) -> Option<FreezerGroup> {
        let directory = format!("strata-test-{name}-{}", std::process::id());
        let path = PathBuf::from("/sys/fs/cgroup/freezer").join(directory);
        std::fs::create_dir(&path).ok()?;
        let group = FreezerGroup(path);
        std::fs::write(group.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(group)
    }

    /// Removes it once its process has ended.
    fn end(self) {
        wait_until("the process to leave", || {
            std::fs::remove_dir(&self.0).is_ok()
        });
    }
}

/// Whether the file says that the processes of a group are stopped.
fn is_frozen(group: &Path, freezer: Option<&FreezerGroup>) -> bool {
    match freezer {
        Some(FreezerGroup(path)) => {
            let state = std::fs::read_to_string(path.join("freezer.state"));
            state.expect("read").trim() == "FROZEN"
        }
        None => {
            let events = std::fs::read_to_string(group.join("cgroup.events"));
            events.expect("read").contains("frozen 1")
        }
    }
}

#[test]
fn a_group_is_stopped_where_a_freezer_holds_just_its_processes_and_goes_on() {
    needs!("memory_cgroup");
    let is_v1 = memory_mount().is_some_and(|(_, is_v1)| is_v1);
    let _guard = Guard::new();
    let idler = Idler::start("halt");
    let group = GroupReader::open(&idler.group.path).expect("a group");
    let mut freezer_group = None;
    if is_v1 {
        let error = Freezer::of(&group).expect_err("it is in no group of the freezer");
        assert!(matches!(error, HaltError::NoFreezer { .. }), "{error}");
        freezer_group = FreezerGroup::take("halt", idler.touch.pid);
        if freezer_group.is_none() {
            idler.end();
            skip!("there is no freezer");
        }
    }
    let is_frozen = || is_frozen(&idler.group.path, freezer_group.as_ref());
    let freezer = Freezer::of(&group).expect("a freezer");
    assert!(!is_frozen());
    freezer.freeze(&Journal::none()).expect("frozen");
    wait_until("the program to stop", is_frozen);
    let error = Freezer::of(&group).expect_err("frozen already");
    assert!(matches!(error, HaltError::Taken(_)), "{error}");
    freezer.thaw(&Journal::none()).expect("goes on");
    wait_until("the program to go on", || !is_frozen());
    idler.end();
    freezer_group.into_iter().for_each(FreezerGroup::end);
}

#[test]
fn a_group_is_ended_where_it_is_asked_for_and_no_other() {
    needs!("memory_cgroup");
    let _guard = Guard::new();
    let (ended, spared) = (Idler::start("ended"), Idler::start("spared"));
    let group = GroupReader::open(&ended.group.path).expect("a group");
    let own = i32::try_from(std::process::id()).expect("a pid");
    let of_own = GroupReader::of_process(own).expect("readable");
    if let Some(own) = of_own {
        let error = kill(&own).expect_err("this process is in it");
        assert!(matches!(error, HaltError::Vital(_)), "{error}");
    }
    assert_eq!(kill(&group).expect("ended"), 1);
    wait_until("the program to end", || {
        let left = group.own_processes();
        left.is_ok_and(|left| left.is_empty())
    });
    drop(ended);
    spared.end();
}

#[test]
fn a_group_is_frozen_while_the_host_stays_short_and_goes_on_when_the_guard_ends() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    if std::env::var_os("STRATA_TEST_DISK").is_none() {
        skip!("drops page cache of the whole machine, which is done in a guest only");
    }
    let _guard = Guard::new();
    let idler = Idler::start("frozen");
    let is_v1 = memory_mount().is_some_and(|(_, is_v1)| is_v1);
    let freezer_group = is_v1.then(|| FreezerGroup::take("frozen", idler.touch.pid));
    let freezer_group = freezer_group.flatten();
    if is_v1 && freezer_group.is_none() {
        idler.end();
        skip!("there is no freezer");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("guard.toml");
    let text = format!(
        "swap = \"zram:1G\"\ncpu = \"50%\"\nhistory = \"none\"\n[host]\nfree = \"100%\"\n\
         [[rule]]\ncgroup = \"{}\"\npromise = \"none\"\nmin_age = \"5s\"\nwhen_short = \"freeze\"\n",
        idler.name()
    );
    std::fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("text");
    let live = Live::start(
        &Strata::new(["guard", "--release", "--format", "json"]).args(["--config", path]),
    );
    let name = idler.name();
    wait_for(&live, "the group to be frozen", |status| {
        of(status, &name)["is_frozen"] == true
    });
    assert!(is_frozen(&idler.group.path, freezer_group.as_ref()));
    wait_for(&live, "all that it holds to go", |status| {
        bytes(of(status, &name), "away_bytes") > 56 * MIB
    });
    end(live);
    assert!(!is_frozen(&idler.group.path, freezer_group.as_ref()));
    idler.end();
    freezer_group.into_iter().for_each(FreezerGroup::end);
}
