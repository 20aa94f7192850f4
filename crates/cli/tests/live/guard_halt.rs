//! Groups that `strata guard` stops or ends where a host stays short of memory.

use crate::guard::{Idler, MIB, bytes, end, guard, guard_in, of, release, wait_for, write_rules};
use crate::support;

use std::path::{Path, PathBuf};

use rustix::process::Signal;

use strata_linux::cgroup::{self, Freezer, GroupReader, HaltError, kill};
use strata_linux::undo::Journal;
use support::leaks::Guard;
use support::live::{Live, memory_mount, wait_until};
use support::strata::assert_has;

/// A group of the v1 freezer that holds certain processes; gone at the end.
pub(crate) struct FreezerGroup(PathBuf);

impl FreezerGroup {
    pub(crate) fn take(name: &str, pid: i32) -> Option<FreezerGroup> {
        let directory = format!("strata-test-{name}-{}", std::process::id());
        let path = PathBuf::from("/sys/fs/cgroup/freezer").join(directory);
        std::fs::create_dir(&path).ok()?;
        let group = FreezerGroup(path);
        group.take_too(pid).ok()?;
        Some(group)
    }

    /// Has this process in it, too.
    pub(crate) fn take_too(&self, pid: i32) -> std::io::Result<()> {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }

    /// Removes it once its processes have ended.
    pub(crate) fn end(self) {
        wait_until("the process to leave", || {
            std::fs::remove_dir(&self.0).is_ok()
        });
    }
}

impl Drop for FreezerGroup {
    fn drop(&mut self) {
        // What a test that fails has left stopped could not even be ended.
        let _ = std::fs::write(self.0.join("freezer.state"), "THAWED");
        for _ in 0..20 {
            if std::fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

/// Whether the file says that the processes of a group are stopped.
pub(crate) fn is_frozen(group: &Path, freezer: Option<&FreezerGroup>) -> bool {
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
    cgroup::thaw(freezer.file()).expect("goes on");
    wait_until("the program to go on", || !is_frozen());
    idler.end();
    freezer_group.into_iter().for_each(FreezerGroup::end);
}

#[test]
fn a_group_is_ended_where_it_is_asked_for_and_no_other() {
    live!("memory_cgroup");
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

/// A program in a group that a guard halts, as the host is short of memory by its rules: all of it would have to be free.
struct Short {
    idler: Idler,
    freezer_group: Option<FreezerGroup>,
    rules: tempfile::TempDir,
}

impl Short {
    /// Starts the program and writes the rules; an error says why that can't be done here.
    fn start(name: &str, when_short: &str) -> Result<Short, &'static str> {
        if std::env::var_os("STRATA_TEST_DISK").is_none() {
            return Err("drops page cache of the whole machine, which is done in a guest only");
        }
        let idler = Idler::start(name);
        let is_v1 = memory_mount().is_some_and(|(_, is_v1)| is_v1);
        let freezer_group = is_v1.then(|| FreezerGroup::take(name, idler.touch.pid));
        let freezer_group = freezer_group.flatten();
        if is_v1 && freezer_group.is_none() {
            idler.end();
            return Err("there is no freezer");
        }
        let rules = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[host]\nfree = \"100%\"\n\
             [[rule]]\ncgroup = \"{}\"\npromise = \"none\"\nmin_age = \"5s\"\nwhen_short = \"{when_short}\"\n",
            idler.name()
        );
        write_rules(rules.path(), &text);
        Ok(Short {
            idler,
            freezer_group,
            rules,
        })
    }

    fn guard(&self) -> Live {
        guard_in(self.rules.path())
    }

    fn is_frozen(&self) -> bool {
        is_frozen(&self.idler.group.path, self.freezer_group.as_ref())
    }

    fn wait_until_frozen(&self, live: &Live) {
        let name = self.idler.name();
        wait_for(live, "the group to be frozen", |status| {
            of(status, &name)["is_frozen"] == true
        });
        // The kernel stops one thread after another.
        wait_until("the program to stop", || self.is_frozen());
    }
}

#[test]
fn a_group_is_frozen_while_the_host_stays_short_and_goes_on_when_the_guard_ends() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let short = match Short::start("frozen", "freeze") {
        Ok(short) => short,
        Err(why) => skip!("{why}"),
    };
    let live = short.guard();
    short.wait_until_frozen(&live);
    let name = short.idler.name();
    wait_for(&live, "all that it holds to go", |status| {
        bytes(of(status, &name), "away_bytes") > 56 * MIB
    });
    end(live);
    assert!(!short.is_frozen());
    short.idler.end();
    short.freezer_group.into_iter().for_each(FreezerGroup::end);
}

#[test]
fn what_a_killed_guard_has_frozen_goes_on_when_the_next_begins_or_its_swap_is_released() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let short = match Short::start("thawed", "freeze") {
        Ok(short) => short,
        Err(why) => skip!("{why}"),
    };
    for is_next_a_guard in [true, false] {
        let live = short.guard();
        short.wait_until_frozen(&live);
        live.signal(Signal::KILL);
        drop(live);
        assert!(short.is_frozen(), "nobody has let it go on");
        if is_next_a_guard {
            let next = Live::start(&guard(&["--promise", "100%/min"]));
            wait_until("the next guard to let it go on", || !short.is_frozen());
            // From its first walk on it ends in order.
            next.json();
            end(next);
        } else {
            release().expect_success();
            assert!(!short.is_frozen());
        }
    }
    release().expect_success();
    short.idler.end();
    short.freezer_group.into_iter().for_each(FreezerGroup::end);
}

#[test]
fn a_group_whose_rule_says_kill_is_ended_where_nothing_else_is_left_and_no_other() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let short = match Short::start("killed", "kill") {
        Ok(short) => short,
        Err(why) => skip!("{why}"),
    };
    let spared = Idler::start("not-killed");
    let live = short.guard();
    live.wait_for_stderr("IS KILLED");
    let path = &short.idler.group.path;
    wait_until("the program to end", || {
        let group = GroupReader::open(path).expect("a group");
        group.own_processes().is_ok_and(|left| left.is_empty())
    });
    assert_has(&live.stderr(), &short.idler.name());
    live.signal(Signal::INT);
    let mut live = live;
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    spared.end();
    short.freezer_group.into_iter().for_each(FreezerGroup::end);
}
