//! Two sessions never act on one group, nor on one within the other: whoever comes second is refused and
//! told who holds it, and whoever ends leaves what was there before.

use crate::support::prelude::*;

/// A group with a program in it, below a group of its own, as a service below its slice.
struct World {
    _program: Live,
    pid: i32,
    inner: TestGroup,
    outer: TestGroup,
}

impl World {
    fn new(name: &str) -> World {
        let outer = TestGroup::new(name).with_below();
        let inner = outer.below("service");
        let (program, pid) = idle_in(&inner, "24M");
        World {
            _program: program,
            pid,
            inner,
            outer,
        }
    }

    /// Everything that Strata may change.
    fn values(&self) -> [Vec<(&'static str, Option<String>)>; 2] {
        [self.outer.values(), self.inner.values()]
    }
}

fn attach(memory: &str, group: &Path) -> Strata {
    Strata::new(["run", "--memory", memory, "--cgroup"]).arg(group)
}

/// Starts a Strata that has nothing to do but recover what others left.
fn recover() {
    let run = Strata::new(["run", "--memory", "64M", "--", "true"]).finish();
    run.expect_success();
}

fn wait_for_limit(group: &Path) {
    wait_until("the limit to stand", || is_limited(group));
}

/// One session on the group, which has set its limit and all else.
fn holder_of(group: &Path) -> Live {
    let live = Live::start(&attach("60M", group));
    live.wait_until_it_answers();
    assert!(is_limited(group));
    live
}

#[track_caller]
fn expect_refused(run: &Finished, holder: i32) {
    assert_eq!(run.code(), Some(125), "{}{}", run.stdout, run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    for part in [
        "can't have a budget of its own now".to_owned(),
        format!("session {holder} (pid {holder}: "),
        " run --memory ".to_owned(),
    ] {
        assert!(run.stderr.contains(&part), "no {part:?}: {}", run.stderr);
    }
}

fn state_of(session: i32) -> Option<Value> {
    let path = run_dir().join(session.to_string()).join("state.json");
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Whether the session has changed more than one value.
fn acts(live: &Live) -> bool {
    let state = state_of(live.pid());
    let nr_steps = state.and_then(|state| Some(state["undo"].as_array()?.len()));
    nr_steps > Some(1)
}

/// Leaves Strata stopped: it would start another keeper at once.
fn kill_keeper_unnoticed(live: &Live) {
    stop(live.pid());
    send(keepers_of(live.pid())[0], Signal::KILL);
}

#[test]
fn a_held_group_is_refused_to_a_second_session_but_not_to_who_only_watches_and_left_as_it_was() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("two");
    let before = world.values();
    let mut holder = holder_of(&world.inner.path);
    let held = world.values();
    let pid = world.pid.to_string();
    for second in [
        attach("80M", &world.inner.path),
        // The group it lies in ...
        attach("80M", &world.outer.path),
        // ... and the same group by its program.
        Strata::new(["run", "--memory", "80M", "--pid", &pid]),
    ] {
        expect_refused(&second.finish(), holder.pid());
        assert_eq!(world.values(), held, "the second session changed something");
    }
    // Another run directory does not make it free.
    let run_dir = tempfile::tempdir().expect("a directory");
    let second = attach("80M", &world.inner.path).env("STRATA_RUN_DIR", run_dir.path());
    let refused = second.finish();
    assert_eq!(refused.code(), Some(125), "{}", refused.stderr);
    for part in ["STRATA_RUN_DIR", &format!("process {}", holder.pid())] {
        assert_has(&refused.stderr, part);
    }
    let mut dry = Live::start(&attach("80M", &world.inner.path).arg("--dry-run"));
    dry.wait_until_it_answers();
    dry.interrupt();
    assert_eq!(world.values(), held, "another changed something");
    holder.interrupt();
    assert_eq!(world.values(), before);
    // It is free again, and so is the group that it lies in, which then holds what is in it.
    let mut holder = holder_of(&world.outer.path);
    expect_refused(&attach("80M", &world.inner.path).finish(), holder.pid());
    holder.interrupt();
    assert_eq!(world.values(), before);
}

#[test]
fn the_group_of_a_command_is_refused_to_a_second_session() {
    live!("cap_bpf", "memory_cgroup");
    let run = Strata::new(["run", "--memory", "60M", "--"]).arg(program("idle"));
    let mut live = Live::start(&run);
    let pid = live.json()["pid"].as_i64().expect("a pid").to_string();
    let state = state_of(live.pid()).expect("a state");
    let made = state["undo"].as_array().expect("steps").iter();
    let mut made = made.filter(|step| step["undo"] == "remove_group");
    let group = made.next().expect("a group of its own")["path"]
        .as_str()
        .expect("a path")
        .to_owned();
    assert!(is_limited(Path::new(&group)));
    for second in [
        Strata::new(["run", "--memory", "80M", "--pid", &pid]),
        attach("80M", Path::new(&group)),
    ] {
        expect_refused(&second.finish(), live.pid());
    }
    assert!(is_limited(Path::new(&group)));
    live.signal(Signal::TERM);
    assert_eq!(live.end().code(), Some(143), "{}", live.stderr());
}

#[test]
fn of_several_that_start_at_once_one_has_the_group_and_the_others_are_refused() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("race");
    let before = world.values();
    let mut all: Vec<Live> = ["60M", "70M", "80M", "90M"]
        .iter()
        .map(|memory| Live::start(&attach(memory, &world.inner.path)))
        .collect();
    wait_until("all but one to be refused", || {
        all.iter_mut()
            .map(|live| u32::from(live.is_running()))
            .sum::<u32>()
            <= 1
    });
    wait_for_limit(&world.inner.path);
    let (mut running, refused): (Vec<Live>, Vec<Live>) =
        all.into_iter().partition(|live| state(live.pid()) != 'X');
    let mut winner = running.pop().expect("one has it");
    for mut live in refused {
        assert_eq!(live.end().code(), Some(125), "{}", live.stderr());
        let named = format!("session {0} (pid {0}: ", winner.pid());
        assert!(live.stderr().contains(&named), "{}", live.stderr());
    }
    winner.interrupt();
    assert_eq!(world.values(), before);
}

#[test]
fn who_comes_when_a_session_was_just_killed_finds_what_was_there_before_it() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("heir");
    let before = world.values();
    let holder = holder_of(&world.inner.path);
    // With nobody left to put things back, the next start does it ...
    kill_keeper_unnoticed(&holder);
    holder.signal(Signal::KILL);
    wait_until("it to be gone", || matches!(state(holder.pid()), 'X' | 'Z'));
    assert!(is_limited(&world.inner.path), "who lifted the limit?");
    let heir = Live::start(&attach("80M", &world.inner.path));
    wait_until("the heir to act", || acts(&heir));
    // ... and with a keeper, whoever comes at once waits for it.
    heir.signal(Signal::KILL);
    let mut last = Live::start(&attach("90M", &world.inner.path));
    wait_until("the last to act", || acts(&last));
    last.interrupt();
    assert_eq!(world.values(), before);
    drop(world);
    recover();
}

#[test]
fn while_a_keeper_is_stopped_its_group_is_refused_and_the_keeper_is_named() {
    live!("cap_bpf", "memory_cgroup");
    let world = World::new("stopped");
    let before = world.values();
    let holder = holder_of(&world.inner.path);
    let keeper = keepers_of(holder.pid())[0];
    // One may have the other go on before it stops itself.
    wait_until("both to stop", || {
        send(holder.pid(), Signal::STOP);
        send(keeper, Signal::STOP);
        (state(keeper), state(holder.pid())) == ('T', 'T')
    });
    holder.signal(Signal::KILL);
    let second = attach("80M", &world.inner.path).finish();
    send(keeper, Signal::CONT);
    assert_eq!(second.code(), Some(125), "{}", second.stderr);
    let advice = format!("kill -CONT {keeper}");
    assert!(second.stderr.contains(&advice), "{}", second.stderr);
    wait_until("the keeper to put everything back", || {
        world.values() == before
    });
    holder_of(&world.inner.path).interrupt();
    assert_eq!(world.values(), before);
}

/// A group of cgroup v1 under a new name; `None` where groups can't be renamed.
fn renamed(world: &mut World) -> Option<PathBuf> {
    let to = world.outer.path.join("renamed");
    let (_, is_v1) = memory_mount().expect("a memory controller");
    if !is_v1 {
        return None;
    }
    fs::rename(&world.inner.path, &to).expect("v1 can rename");
    world.inner.path.clone_from(&to);
    Some(to)
}

#[test]
fn a_group_that_is_renamed_is_still_managed_and_left_as_it_was() {
    live!("cap_bpf", "memory_cgroup");
    let mut world = World::new("moved");
    let before = world.values();
    let mut holder = holder_of(&world.inner.path);
    if renamed(&mut world).is_none() {
        skip!("cgroup v2 can't rename groups");
    }
    sleep(Duration::from_millis(2500));
    assert!(holder.is_running(), "{}", holder.stderr());
    assert!(is_limited(&world.inner.path));
    expect_refused(&attach("80M", &world.inner.path).finish(), holder.pid());
    holder.interrupt();
    assert_eq!(world.values(), before);
}

#[test]
fn a_renamed_group_is_put_right_by_the_keeper_and_by_the_next_start() {
    live!("cap_bpf", "memory_cgroup");
    let mut world = World::new("moved-on");
    let before = world.values();
    let holder = holder_of(&world.inner.path);
    if renamed(&mut world).is_none() {
        skip!("cgroup v2 can't rename groups");
    }
    holder.signal(Signal::KILL);
    wait_until("the keeper to find it", || world.values() == before);

    let holder = holder_of(&world.inner.path);
    kill_keeper_unnoticed(&holder);
    fs::rename(&world.inner.path, world.outer.path.join("again")).expect("v1 can rename");
    world.inner.path = world.outer.path.join("again");
    // Another group where it was: nothing may be written there.
    let decoy = world.outer.below("renamed");
    let untouched = decoy.values();
    holder.signal(Signal::KILL);
    wait_until("it to be gone", || matches!(state(holder.pid()), 'X' | 'Z'));
    assert!(is_limited(&world.inner.path), "who lifted the limit?");
    recover();
    assert_eq!(world.values(), before);
    assert_eq!(decoy.values(), untouched);
    drop((decoy, world));
    recover();
}
