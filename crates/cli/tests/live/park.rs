//! `strata park` and `strata wake` on programs that lie idle.

use crate::support::prelude::*;

use crate::guard_halt::{FreezerGroup, is_frozen};

/// Pages of the programs' 64 MiB.
const ALL: &str = "0 16384";

/// A program whose 64 MiB are all written.
pub(super) fn idler() -> Touch {
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask(&format!("writerange {ALL}"));
    touch
}

/// Parks into compressed swap of its own.
fn park(options: &[&str]) -> Strata {
    park_to("zram:1G", options)
}

pub(super) fn park_to(swap: &str, options: &[&str]) -> Strata {
    Strata::new(["park", "--format", "json", "--swap", swap]).args(options)
}

pub(super) fn parked(options: &[&str]) -> Value {
    let done = park(options).finish();
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    done.json()
}

/// Parks until less than this is left in memory. Where the swap of another test is taken down meanwhile, pages that lie in it come
/// back, and go again.
pub(super) fn parked_to(limit_bytes: u64, options: &[&str]) -> Value {
    let told = try_thrice(
        || parked(options),
        |told| number(&told["resident_after_bytes"]) < limit_bytes,
    );
    assert!(
        number(&told["resident_after_bytes"]) < limit_bytes,
        "{told}"
    );
    told
}

fn wake(options: &[&str]) -> Finished {
    Strata::new(["wake", "--format", "json"])
        .args(options)
        .finish()
}

#[track_caller]
pub(super) fn woken(options: &[&str]) -> Value {
    let done = wake(options);
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    done.json_lines().remove(0)
}

pub(super) fn list() -> Vec<Value> {
    let told = Strata::new(["ctl", "parked", "--format", "json"]).finish();
    told.json().as_array().expect("a list").clone()
}

pub(super) fn kept_bytes(parked: &Value, reason: &str) -> u64 {
    let kept = parked["kept"].as_array().expect("a list").iter();
    let mut of_reason = kept.filter(|kept| kept["reason"] == reason);
    of_reason
        .next()
        .map_or(0, |kept| kept["bytes"].as_u64().expect("bytes"))
}

/// The swap that was made to park, while it is in use.
pub(super) fn park_swap() -> Option<String> {
    let device = kept_swap(&run_dir().join("park"))?;
    swap_devices().contains(&device).then_some(device)
}

/// The swap of park goes, at once or when the keeper can: pages of another test's group that is full may lie in it.
#[track_caller]
pub(super) fn assert_swap_goes() {
    wait_until("the swap to go", || park_swap().is_none());
}

fn swapped_bytes(pid: i32) -> u64 {
    proc_bytes(&format!("/proc/{pid}/status"), "VmSwap").unwrap_or(0)
}

#[track_caller]
pub(super) fn assert_whole(touch: &mut Touch) {
    assert_eq!(
        touch.ask(&format!("verify {ALL}")),
        "0",
        "pages as they were"
    );
}

#[test]
fn a_parked_program_leaves_memory_and_comes_back_with_all_that_it_held() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = idler();
    let pid = touch.pid.to_string();
    let told = parked(&["--pid", &pid]);
    assert!(number(&told["resident_before_bytes"]) > 64 * MIB, "{told}");
    assert!(number(&told["resident_after_bytes"]) < 4 * MIB, "{told}");
    assert!(number(&told["net_freed_bytes"]) > 32 * MIB, "{told}");
    assert!(rss_bytes(touch.pid) < 8 * MIB);
    assert_eq!(list()[0]["id"], pid.as_str());
    let seen = Strata::new(["top", "--once", "--format", "json", "--pid", &pid]).finish();
    let seen = seen.expect_success().json();
    assert_eq!(seen["targets"][0]["who"]["is_parked"], true, "{seen:#}");
    // What is touched comes back, and the rest stays away.
    touch.ask("readrange 0 256");
    assert!(swapped_bytes(touch.pid) > 50 * MIB);
    // Parked twice: once more all goes, and what was noted first is known still.
    let again = parked(&["--pid", &pid]);
    assert!(number(&again["resident_after_bytes"]) < 4 * MIB, "{again}");
    assert_eq!(list().len(), 1);
    let back = woken(&["--pid", &pid]);
    assert!(number(&back["read_back_bytes"]) > 60 * MIB, "{back}");
    assert!(rss_bytes(touch.pid) > 60 * MIB);
    assert_whole(&mut touch);
    assert!(list().is_empty());
    assert_swap_goes();
    assert!(!run_dir().join("parked").exists());
    // Woken twice: there is nobody.
    let twice = wake(&[&pid]);
    assert_eq!(twice.code(), Some(2), "{}", twice.stderr);
    assert_has(&twice.stderr, "nothing is parked as");
}

#[test]
fn the_swap_stays_as_long_as_anything_is_parked_in_it() {
    live!("cap_bpf", "zram", "process_madvise");
    let (mut one, mut other) = (idler(), idler());
    let pids = [one.pid.to_string(), other.pid.to_string()];
    for pid in &pids {
        parked(&["--pid", pid]);
    }
    let both = park_swap();
    assert!(both.is_some());
    let another = park_to("file:/nowhere/swap:1G", &["--pid", &pids[0]]).finish();
    assert_eq!(another.code(), Some(1), "{}", another.stderr);
    assert_has(&another.stderr, "strata wake --all");
    let back = woken(&[&pids[0], "--limit", "16M"]);
    let read = number(&back["read_back_bytes"]);
    assert!((8 * MIB..=16 * MIB).contains(&read), "{back}");
    assert_eq!(back["cut_short_by"], "the limit asked for");
    assert_eq!(park_swap(), both, "both in one");
    assert_eq!(list().len(), 1);
    woken(&["--all"]);
    assert_swap_goes();
    assert_whole(&mut one);
    assert_whole(&mut other);
}

#[test]
fn the_note_of_a_program_that_has_ended_is_nobodys_and_a_watch_over_it_ends() {
    live!("cap_bpf", "zram", "process_madvise");
    let (touch, watched) = (idler(), idler());
    let pids = [&touch, &watched].map(|touch| touch.pid.to_string());
    parked(&["--pid", &pids[0]]);
    let mut live = Live::start(&park(&["--pid", &pids[1], "--watch"]));
    live.json();
    drop((touch, watched));
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    assert!(list().is_empty());
    let nobody = wake(&[&pids[0]]);
    assert_eq!(nobody.code(), Some(2), "{}", nobody.stderr);
    assert_swap_goes();
}

#[test]
fn a_program_parked_with_freeze_is_stopped_until_it_is_woken_unless_somebody_else_has_stopped_it() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = idler();
    touch.ask("lock 0 2048");
    let pid = touch.pid.to_string();
    let told = parked_to(12 * MIB, &["--pid", &pid, "--freeze"]);
    assert_eq!(told["halted"]["by"], "signal", "{told}");
    assert_eq!(kept_bytes(&told, "mlocked"), 8 * MIB, "{told}");
    assert_eq!(state(touch.pid), 'T');
    let back = woken(&[&pid]);
    assert_eq!(back["was_halted"], true);
    wait_until("it to go on", || state(touch.pid) != 'T');
    assert_whole(&mut touch);
    stop(touch.pid);
    let told = parked(&["--pid", &pid, "--freeze"]);
    assert_eq!(told["halted"]["by"], "no", "{told}");
    woken(&[&pid]);
    assert_eq!(state(touch.pid), 'T');
    send(touch.pid, Signal::CONT);
    assert_whole(&mut touch);
}

/// A group of the v1 freezer that holds a process; on v2 each group has a freezer of its own.
fn freezer_group(name: &str, pid: i32) -> Option<FreezerGroup> {
    let is_v1 = memory_mount().is_some_and(|(_, is_v1)| is_v1);
    is_v1.then(|| FreezerGroup::take(name, pid)).flatten()
}

#[test]
fn a_tree_in_two_groups_is_stopped_whole_though_a_freezer_holds_a_part_of_it() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let (one, other) = (TestGroup::new("park-one"), TestGroup::new("park-other"));
    let mut touch = idler();
    touch.ask("fork 1");
    let child = children(touch.pid)[0];
    one.take(touch.pid);
    other.take(child);
    let freezer = freezer_group("park-one", touch.pid);
    let pid = touch.pid.to_string();
    let told = parked(&["--tree", &pid, "--freeze"]);
    assert_eq!(told["halted"]["by"], "signal", "{told}");
    assert!(
        told["notes"][0]
            .as_str()
            .is_some_and(|note| note.contains("SIGSTOP")),
        "{told}"
    );
    assert_eq!([state(touch.pid), state(child)], ['T', 'T']);
    woken(&[&pid]);
    wait_until("both to go on", || {
        state(touch.pid) != 'T' && state(child) != 'T'
    });
    touch.ask("reap");
    assert_whole(&mut touch);
    drop(touch);
    freezer.into_iter().for_each(FreezerGroup::end);
}

#[test]
fn a_group_is_stopped_by_its_freezer_with_all_groups_below_it() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("park-frozen");
    let (one, other) = (group.below("one"), group.below("other"));
    let mut touch = idler();
    touch.ask("fork 1");
    let child = children(touch.pid)[0];
    one.take(touch.pid);
    other.take(child);
    let freezer = freezer_group("park-frozen", touch.pid);
    if let Some(freezer) = &freezer {
        freezer.take_too(child).expect("moved");
    } else if memory_mount().is_some_and(|(_, is_v1)| is_v1) {
        skip!("there is no freezer");
    }
    let pid = touch.pid.to_string();
    let path = group.path.to_str().expect("text");
    // The tree is all of the group, too.
    for target in [["--cgroup", path], ["--tree", &pid]] {
        let told = parked(&[target[0], target[1], "--freeze"]);
        assert_eq!(told["halted"]["by"], "freezer", "{told}");
        assert!(is_frozen(&group.path, freezer.as_ref()));
        woken(&["--all"]);
        assert!(!is_frozen(&group.path, freezer.as_ref()));
    }
    touch.ask("reap");
    assert_whole(&mut touch);
    drop(touch);
    freezer.into_iter().for_each(FreezerGroup::end);
}

#[test]
fn a_program_goes_on_if_strata_is_killed_while_it_parks_it() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = Touch::start(["--size", "512M"]);
    touch.ask("writerange 0 131072");
    let pid = touch.pid.to_string();
    let mut live = Live::start(&park(&["--pid", &pid, "--freeze"]));
    // What it used is noted when it is stopped, before anything goes.
    let note = run_dir().join("parked").join(&pid);
    wait_until("it to be stopped and noted", || {
        state(touch.pid) == 'T' && note.exists()
    });
    live.signal(Signal::KILL);
    live.end();
    wait_until("it to go on", || state(touch.pid) != 'T');
    assert_eq!(list().len(), 1);
    woken(&[&pid]);
    assert_eq!(touch.ask("verify 0 131072"), "0", "pages as they were");
}

#[test]
fn a_group_is_parked_with_what_its_processes_share() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("park");
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask(&format!("writerange {ALL}"));
    touch.ask("fork 3");
    let path = group.path.to_str().expect("text");
    let told = parked_to(8 * MIB, &["--cgroup", path]);
    assert_eq!(number(&told["nr_processes"]), 4, "{told}");
    let forked = children(touch.pid);
    assert_eq!(forked.len(), 3);
    let id = told["id"].as_str().expect("an id");
    woken(&[id]);
    touch.ask("reap");
    assert_whole(&mut touch);
}

#[test]
fn what_was_used_last_can_be_kept() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = idler();
    touch.ask("hammer 1 2048");
    let pid = touch.pid.to_string();
    let told = parked(&["--pid", &pid, "--keep", "working-set", "--look", "500ms"]);
    let kept = kept_bytes(&told, "asked");
    assert!((8 * MIB..12 * MIB).contains(&kept), "{told}");
    touch.ask("rest");
    let told = parked_to(8 * MIB, &["--pid", &pid, "--keep", "4M"]);
    assert!(number(&told["resident_after_bytes"]) >= 4 * MIB, "{told}");
    woken(&[&pid]);
    assert_whole(&mut touch);
}

#[test]
fn a_program_that_works_again_by_itself_is_read_back_within_moments() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = idler();
    let pid = touch.pid.to_string();
    let mut live = Live::start(&park(&["--pid", &pid, "--watch"]));
    live.json();
    // A timer touches little, and it stays parked.
    touch.ask("readrange 0 16");
    assert!(swapped_bytes(touch.pid) > 56 * MIB);
    touch.ask("readrange 4096 1024");
    let back = live.json();
    assert!(number(&back["read_back_bytes"]) > 40 * MIB, "{back}");
    assert_eq!(live.end().code(), Some(0), "{}", live.stderr());
    assert!(list().is_empty());
    assert_whole(&mut touch);
}

#[test]
fn nobody_parks_the_ground_that_strata_stands_on() {
    live!("cap_bpf");
    let own = std::process::id().to_string();
    for target in [["--tree", &own], ["--pid", "1"]] {
        let refused = Strata::new(["park"]).args(target).finish();
        assert_eq!(refused.code(), Some(2), "{}", refused.stderr);
        assert_has(&refused.stderr, "is not parked");
    }
    assert!(!run_dir().join("parked").exists());
}

#[test]
fn without_swap_files_go_and_the_rest_stays_and_is_told() {
    needs!("cap_bpf", "process_madvise");
    if !swap_devices().is_empty() {
        skip!("the machine has swap");
    }
    let directory = match disk_directory() {
        Ok(directory) => directory,
        Err(why) => skip!("{why}"),
    };
    let _guard = Guard::new();
    let path = directory.path().join("mapped");
    let file = File::create(&path).expect("made");
    file.set_len(64 * MIB).expect("sized");
    let path = path.to_str().expect("text");
    let mut touch = Touch::start(["--size", "64M", "--file", path, "--shared"]);
    touch.ask(&format!("readrange {ALL}"));
    let pid = touch.pid.to_string();
    let options = ["park", "--format", "json", "--pid", &pid];
    let told = Strata::new(options).finish().json();
    assert!(number(&told["resident_after_bytes"]) < 8 * MIB, "{told}");
    assert!(kept_bytes(&told, "no_swap") > 0, "{told}");
    let back = woken(&[&pid]);
    assert!(number(&back["asked_bytes"]) > 60 * MIB, "{back}");
    touch.ask(&format!("readrange {ALL}"));
}

#[test]
fn waking_takes_no_swap_down_that_a_group_has_no_room_for_until_there_is_room() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    // Swap elsewhere does not help.
    let other = OwnSwap::zram("512M");
    let group = TestGroup::new("park-limited");
    let mut touch = Touch::start(["--size", "256M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 65536");
    let pid = touch.pid.to_string();
    parked(&["--pid", &pid]);
    group.limit(Some(16 * MIB));
    let done = wake(&["--all"]);
    assert_eq!(done.code(), Some(0), "{}", done.stderr);
    assert!(done.stderr.contains("stays in use"), "{}", done.stderr);
    assert!(list().is_empty());
    assert_ne!(state(touch.pid), 'X', "killed");
    let device = kept_swap(&run_dir().join("park")).expect("a device");
    assert!(swap_devices().contains(&device));
    // As it is tried by the keeper, so by the next who wakes.
    let again = wake(&["--all"]);
    assert!(again.stderr.contains("stays in use"), "{}", again.stderr);
    group.limit(None);
    wait_until("the keeper to take it down", || {
        !run_dir().join("park").exists()
    });
    assert_eq!(touch.ask("verify 0 65536"), "0", "pages as they were");
    drop(touch);
    drop(group);
    drop(other);
    assert!(!swap_devices().contains(&device));
}

#[test]
fn a_busy_program_near_its_limit_is_not_killed_as_its_swap_stays_whatever_other_swap_there_is() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("park-busy");
    let mut touch = Touch::start(["--size", "80M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 8192");
    let pid = touch.pid.to_string();
    parked(&["--pid", &pid]);
    let other = OwnSwap::zram("512M");
    // Below half of its limit is in swap, and all that is in memory is in use.
    group.limit(Some(72 * MIB));
    touch.ask("writerange 8192 12288");
    touch.ask("hammerrange 8192 12288");
    let done = wake(&["--all"]);
    assert!(done.stderr.contains("stays in use"), "{}", done.stderr);
    group.limit(None);
    wait_until("the keeper to take it down", || {
        !run_dir().join("park").exists()
    });
    touch.ask("rest");
    assert_eq!(touch.ask("verify 0 20480"), "0", "pages as they were");
    drop(touch);
    drop(group);
    drop(other);
}

#[test]
fn a_full_group_whose_pages_lie_in_other_swap_keeps_no_swap_of_park_in_use() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let other = OwnSwap::zram("512M");
    let group = TestGroup::new("park-full");
    let mut full = Touch::start(["--size", "64M"]);
    group.take(full.pid);
    group.limit(Some(32 * MIB));
    full.ask("writerange 0 16384");
    let status = format!("/proc/{}/status", full.pid);
    assert!(proc_bytes(&status, "VmSwap").expect("runs") > 32 * MIB);
    let touch = idler();
    parked(&["--pid", &touch.pid.to_string()]);
    let done = wake(&["--all"]);
    assert!(!done.stderr.contains("stays in use"), "{}", done.stderr);
    assert!(!run_dir().join("park").exists());
    group.limit(None);
    assert_eq!(full.ask("verify 0 16384"), "0", "pages as they were");
    drop((touch, full, group, other));
}
