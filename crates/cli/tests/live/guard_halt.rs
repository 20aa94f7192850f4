//! Groups that `strata guard` slows, stops or ends where a host stays short of memory.

use crate::support::prelude::*;

use crate::guard::{Idler, bytes, end, guard, guard_in, of, release, wait_for, write_rules};
use strata_linux::cgroup::{self, Brake, Freezer, GroupReader, HaltError, kill};
use strata_linux::undo::Journal;

/// A group of the v1 freezer that holds certain processes; gone at the end.
pub(crate) struct FreezerGroup(PathBuf);

impl FreezerGroup {
    pub(crate) fn take(name: &str, pid: i32) -> Option<FreezerGroup> {
        let directory = format!("strata-test-{name}-{}", std::process::id());
        let path = PathBuf::from("/sys/fs/cgroup/freezer").join(directory);
        fs::create_dir(&path).ok()?;
        let group = FreezerGroup(path);
        group.take_too(pid).ok()?;
        Some(group)
    }

    /// Has this process in it, too.
    pub(crate) fn take_too(&self, pid: i32) -> std::io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }

    /// Removes it once its processes have ended.
    pub(crate) fn end(self) {
        wait_until("the process to leave", || fs::remove_dir(&self.0).is_ok());
    }
}

impl Drop for FreezerGroup {
    fn drop(&mut self) {
        // What a test that fails has left stopped could not even be ended.
        let _ = fs::write(self.0.join("freezer.state"), "THAWED");
        for _ in 0..20 {
            if fs::remove_dir(&self.0).is_ok() || !self.0.exists() {
                break;
            }
            sleep(Duration::from_millis(50));
        }
    }
}

/// Whether the file says that the processes of a group are stopped.
pub(crate) fn is_frozen(group: &Path, freezer: Option<&FreezerGroup>) -> bool {
    match freezer {
        Some(FreezerGroup(path)) => {
            let state = fs::read_to_string(path.join("freezer.state"));
            state.expect("read").trim() == "FROZEN"
        }
        None => {
            let events = fs::read_to_string(group.join("cgroup.events"));
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
fn a_group_is_slowed_by_turns_of_a_freezer_that_holds_just_its_processes() {
    needs!("memory_cgroup");
    if !memory_mount().is_some_and(|(_, is_v1)| is_v1) {
        skip!("cgroup v2 slows by a limit");
    }
    let _guard = Guard::new();
    let idler = Idler::start("turns");
    let group = GroupReader::open(&idler.group.path).expect("a group");
    let error = Brake::to_slow(&group).expect_err("it is in no group of the freezer");
    assert!(matches!(error, HaltError::NoFreezer { .. }), "{error}");
    let Some(freezer_group) = FreezerGroup::take("turns", idler.touch.pid) else {
        idler.end();
        skip!("there is no freezer");
    };
    let is_frozen = || is_frozen(&idler.group.path, Some(&freezer_group));
    let mut brake = Brake::to_slow(&group).expect("a freezer");
    brake.begin().expect("begun");
    for _ in 0..2 {
        assert!(!is_frozen());
        brake.turn(&group).expect("stopped");
        wait_until("the program to stop", is_frozen);
        brake.turn(&group).expect("goes on");
        wait_until("the program to go on", || !is_frozen());
    }
    let others = Freezer::of(&group).expect("a freezer");
    others.freeze(&Journal::none()).expect("frozen");
    brake.turn(&group).expect("left");
    brake.end().expect("left");
    wait_until("somebody else to stop it", is_frozen);
    cgroup::thaw(others.file()).expect("goes on");
    brake.turn(&group).expect("stopped");
    brake.end().expect("goes on");
    wait_until("the program to go on", || !is_frozen());
    idler.end();
    freezer_group.end();
}

#[test]
fn a_group_is_slowed_by_a_limit_above_what_it_uses_and_what_stood_there_is_put_back() {
    needs!("memory_cgroup");
    if memory_mount().is_some_and(|(_, is_v1)| is_v1) {
        skip!("cgroup v1 slows by turns");
    }
    let _guard = Guard::new();
    let idler = Idler::start("high");
    let group = GroupReader::open(&idler.group.path).expect("a group");
    let usage_bytes = || group.usage_bytes().expect("usage");
    let begun = || {
        let mut brake = Brake::to_slow(&group).expect("a limit");
        brake.begin().map(|()| brake)
    };
    assert_eq!(high_bytes(&idler), u64::MAX);
    let before_bytes = usage_bytes();
    let brake = begun().expect("slowed");
    let stands_bytes = high_bytes(&idler);
    assert!(stands_bytes > usage_bytes() && stands_bytes < before_bytes + 8 * MIB);
    assert_eq!(brake.end().expect("put back"), None);
    assert_eq!(high_bytes(&idler), u64::MAX);
    let brake = begun().expect("slowed");
    set_high(&idler, 900 * MIB);
    let told = brake.end().expect("left").expect("told");
    assert_has(&told, "by somebody else");
    assert_eq!(high_bytes(&idler), 900 * MIB);
    let close_bytes = usage_bytes() + MIB;
    set_high(&idler, close_bytes);
    let error = begun().expect_err("a lower limit would be below usage");
    assert!(matches!(error, HaltError::Throttled(_)), "{error}");
    assert_eq!(high_bytes(&idler), close_bytes);
    idler.end();
}

/// `memory.high` of the group of a program.
fn high_bytes(idler: &Idler) -> u64 {
    let text = fs::read_to_string(idler.group.path.join("memory.high"));
    text.expect("read").trim().parse().unwrap_or(u64::MAX)
}

fn set_high(idler: &Idler, bytes: u64) {
    let written = fs::write(idler.group.path.join("memory.high"), bytes.to_string());
    written.expect("written");
}

#[test]
fn a_group_is_ended_where_it_is_asked_for_and_no_other() {
    live!("memory_cgroup");
    let (ended, spared) = (Idler::start("ended"), Idler::start("spared"));
    let group = GroupReader::open(&ended.group.path).expect("a group");
    let own = i32::try_from(std::process::id()).expect("a pid");
    let of_own = GroupReader::of_process(own).expect("readable");
    if let Some(own) = of_own {
        let error = kill(&own, |_| panic!("told")).expect_err("this process is in it");
        assert!(matches!(error, HaltError::Vital(_)), "{error}");
    }
    let mut told = None;
    kill(&group, |nr_processes| told = Some(nr_processes)).expect("ended");
    assert_eq!(told, Some(1));
    wait_until("the program to end", || {
        let left = group.own_processes();
        left.is_ok_and(|left| left.is_empty())
    });
    drop(ended);
    spared.end();
}

/// A program in a group that a guard halts, as the host is short of memory by its rules: all of it would have to be free. The rule holds for
/// groups whose name goes on, too.
struct Short {
    idler: Idler,
    freezer_group: Option<FreezerGroup>,
    rules: TempDir,
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
             [[rule]]\ncgroup = \"/strata-test-guard-{name}*-{}\"\npromise = \"none\"\nmin_age = \"5s\"\nwhen_short = \"{when_short}\"\n",
            std::process::id()
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
fn who_comes_while_the_newest_is_frozen_waits_too_until_the_guard_ends() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let short = match Short::start("newest", "freeze-newest") {
        Ok(short) => short,
        Err(why) => skip!("{why}"),
    };
    let live = short.guard();
    short.wait_until_frozen(&live);
    let (group, touch) = (
        TestGroup::new("guard-newest-late"),
        Touch::start(["--size", "4M"]),
    );
    let is_v1 = short.freezer_group.is_some();
    let freezer_group = is_v1.then(|| FreezerGroup::take("late", touch.pid).expect("a freezer"));
    group.take(touch.pid);
    let late_is_frozen = || is_frozen(&group.path, freezer_group.as_ref());
    wait_until("who came to be stopped", late_is_frozen);
    assert!(short.is_frozen());
    assert_has(&live.stderr(), "others wait for memory");
    end(live);
    assert!(!short.is_frozen() && !late_is_frozen());
    drop((touch, group));
    short.idler.end();
    let freezer_groups = short.freezer_group.into_iter().chain(freezer_group);
    freezer_groups.for_each(FreezerGroup::end);
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
fn a_group_whose_rule_says_slow_grows_no_more_until_the_guard_ends_or_the_next_begins() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let short = match Short::start("slowed", "slow") {
        Ok(short) if short.freezer_group.is_none() => short,
        Ok(short) => {
            short.idler.end();
            short.freezer_group.into_iter().for_each(FreezerGroup::end);
            skip!("cgroup v1 slows by turns");
        }
        Err(why) => skip!("{why}"),
    };
    let name = short.idler.name();
    set_high(&short.idler, 1024 * MIB);
    for is_killed in [false, true] {
        let mut live = short.guard();
        wait_for(&live, "the group to be slowed", |status| {
            of(status, &name)["is_slowed"] == true
        });
        let stands_bytes = high_bytes(&short.idler);
        assert!(stands_bytes < 80 * MIB, "{stands_bytes}");
        if !is_killed {
            let mut grows = Touch::start(["--size", "64M"]);
            short.idler.group.take(grows.pid);
            grows.ask("writerange 0 16384");
            let group = GroupReader::open(&short.idler.group.path).expect("a group");
            let usage_bytes = group.usage_bytes().expect("usage");
            assert!(usage_bytes < stands_bytes + 8 * MIB, "{usage_bytes}");
            // A program that waits may hold up who reads its memory, which is told.
            live.interrupt();
        } else {
            live.signal(Signal::KILL);
            drop(live);
            assert_eq!(high_bytes(&short.idler), stands_bytes, "nobody is there");
            let next = Live::start(&guard(&["--promise", "100%/min"]));
            wait_until("the next guard to put it back", || {
                high_bytes(&short.idler) == 1024 * MIB
            });
            // From its first walk on it ends in order.
            next.json();
            end(next);
        }
        assert_eq!(high_bytes(&short.idler), 1024 * MIB);
    }
    release().expect_success();
    short.idler.end();
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
