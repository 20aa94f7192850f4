//! `strata park` of what is parked already, what is called alike, and what changes meanwhile; and `strata wake` of all of it.

use crate::support::prelude::*;

use super::park::{assert_whole, idler, list, park_to, parked, woken};
use crate::guard_halt::{FreezerGroup, is_frozen};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn small() -> Touch {
    let mut touch = Touch::start(["--size", "2M"]);
    touch.ask("writerange 0 512");
    touch
}

#[track_caller]
fn goes_on(pids: &[i32]) {
    wait_until("all to go on", || pids.iter().all(|pid| state(*pid) != 'T'));
}

#[test]
fn whoever_was_stopped_by_an_earlier_parking_goes_on_with_a_later_one() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = small();
    touch.ask("fork 1");
    let child = children(touch.pid)[0];
    let both = [touch.pid, child];
    let (pid, child) = (touch.pid.to_string(), child.to_string());
    // Under one id, as a process and as a tree: the second stops the rest.
    parked(&["--pid", &pid, "--freeze"]);
    let told = parked(&["--tree", &pid, "--freeze"]);
    assert_eq!(both.map(state), ['T', 'T'], "{told}");
    woken(&[&pid]);
    goes_on(&both);
    // Let go on by somebody, one of them is stopped again.
    parked(&["--tree", &pid, "--freeze"]);
    send(both[1], Signal::CONT);
    parked(&["--tree", &pid, "--freeze"]);
    woken(&[&pid]);
    goes_on(&both);
    // Under another id: whichever is woken, it goes on.
    parked(&["--tree", &pid]);
    parked(&["--pid", &child, "--freeze"]);
    assert_eq!(list().len(), 2);
    woken(&[&pid]);
    goes_on(&both);
    woken(&["--all"]);
    touch.ask("reap");
    assert_eq!(touch.ask("verify 0 512"), "0");
}

#[test]
fn a_group_that_we_have_frozen_is_ours_under_every_name() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("park-twice");
    let mut touch = small();
    group.take(touch.pid);
    let is_v1 = memory_mount().is_some_and(|(_, is_v1)| is_v1);
    let freezer = is_v1.then(|| FreezerGroup::take("park-twice", touch.pid));
    if matches!(freezer, Some(None)) {
        skip!("there is no freezer");
    }
    let freezer = freezer.flatten();
    let pid = touch.pid.to_string();
    let path = group.path.to_str().expect("text");
    parked(&["--cgroup", path, "--freeze"]);
    let told = parked(&["--pid", &pid, "--freeze"]);
    assert_eq!(told["halted"]["by"], "freezer", "{told}");
    assert!(
        told["notes"].as_array().is_some_and(Vec::is_empty),
        "{told}"
    );
    woken(&[&pid]);
    assert!(!is_frozen(&group.path, freezer.as_ref()));
    woken(&["--all"]);
    assert_eq!(touch.ask("verify 0 512"), "0");
    drop(touch);
    freezer.into_iter().for_each(FreezerGroup::end);
}

#[test]
fn a_group_stays_known_though_those_in_it_have_ended_and_others_have_come() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    if memory_mount().is_some_and(|(_, is_v1)| is_v1) {
        skip!("who is frozen can't be ended on cgroup v1");
    }
    let _guard = Guard::new();
    let group = TestGroup::new("park-others");
    let (first, mut other) = (small(), small());
    group.take(first.pid);
    let path = group.path.to_str().expect("text");
    parked(&["--cgroup", path, "--freeze"]);
    group.take(other.pid);
    drop(first);
    assert_eq!(list().len(), 1);
    woken(&["--all"]);
    assert!(!is_frozen(&group.path, None));
    assert_eq!(other.ask("verify 0 512"), "0");
    drop(other);
}

#[test]
fn a_stopped_program_whose_first_thread_has_ended_is_no_program_that_has_ended() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = small();
    touch.ask("leaderexit");
    wait_until("the first thread to end", || state(touch.pid) == 'Z');
    let pid = touch.pid.to_string();
    let told = parked(&["--pid", &pid, "--freeze"]);
    assert_eq!(told["halted"]["by"], "signal", "{told}");
    assert_eq!(list().len(), 1, "it has not ended");
    woken(&[&pid]);
    // It answers, and so runs.
    assert_eq!(touch.ask("verify 0 512"), "0");
    assert!(list().is_empty());
}

#[test]
fn groups_whose_names_are_alike_long_or_no_text_are_parked_each_for_itself() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let top = TestGroup::new("park-names").with_below();
    let long = "x".repeat(255);
    let names: [&[u8]; 6] = [b"a/b", b"a-b", long.as_bytes(), b"\xff", b"\xfe", b"\\xff"];
    let upper = top.below("a");
    let mut all = Vec::new();
    for name in names {
        let path = top.path.join(OsStr::from_bytes(name));
        fs::create_dir(&path).expect("made");
        let touch = small();
        fs::write(path.join("cgroup.procs"), touch.pid.to_string()).expect("moved");
        all.push((path, touch));
    }
    for (path, _) in &all {
        let done = park_to("zram:1G", &["--look", "5ms", "--cgroup"])
            .arg(path)
            .finish();
        assert_eq!(done.code(), Some(0), "{}", done.stderr);
    }
    let notes = list();
    assert_eq!(notes.len(), all.len(), "{notes:#?}");
    let top = Strata::new(["top", "--once", "--interval", "100ms", "--format", "json"]);
    // Each is found by what it is called.
    for note in &notes {
        let name = note["name"].as_str().expect("a name");
        let seen = top.clone().args(["--cgroup", name]).finish();
        assert_eq!(seen.code(), Some(0), "{name}: {}", seen.stderr);
    }
    let seen = top.finish();
    let seen = seen.expect_success().json();
    let groups = seen["targets"].as_array().expect("a list").iter();
    let mut rows: Vec<&str> = groups.filter_map(|one| one["name"].as_str()).collect();
    rows.retain(|row| row.contains("park-names") && row.contains("\\x"));
    assert_eq!(rows.len(), 3, "{rows:?}");
    Strata::new(["wake", "--all"]).finish().expect_success();
    assert!(list().is_empty());
    for (path, mut touch) in all {
        assert_eq!(touch.ask("verify 0 512"), "0");
        drop(touch);
        wait_until("the group to go", || fs::remove_dir(&path).is_ok());
    }
    drop(upper);
}

#[test]
fn what_is_parked_was_what_it_held_in_swap_too() {
    live!("cap_bpf", "zram", "process_madvise");
    let (mut touch, mut other) = (idler(), small());
    let (pid, kept) = (touch.pid.to_string(), other.pid.to_string());
    // As a guard does: its memory is away before it is parked.
    parked(&["--pid", &kept]);
    parked(&["--pid", &pid]);
    woken(&[&pid, "--limit", "4K"]);
    let told = parked(&["--pid", &pid]);
    assert!(number(&told["resident_before_bytes"]) < 8 * MIB, "{told}");
    assert!(number(&told["swapped_before_bytes"]) > 56 * MIB, "{told}");
    let table = Strata::new(["ctl", "parked"]).finish().stdout;
    let row = table.lines().find(|line| line.starts_with(&pid));
    let was = row.and_then(|row| row.split_whitespace().nth(1));
    let was: f64 = was.and_then(|was| was.parse().ok()).expect("a number");
    assert!((60.0..80.0).contains(&was), "{table}");
    Strata::new(["wake", "--all"]).finish().expect_success();
    assert_whole(&mut touch);
    assert_eq!(other.ask("verify 0 512"), "0");
}

#[test]
fn what_ends_while_it_is_looked_at_is_told_by_its_name() {
    live!("cap_bpf");
    let touch = small();
    let pid = touch.pid.to_string();
    let park = Strata::new(["park", "--pid", &pid, "--look", "2s"]);
    let told = thread::scope(|scope| {
        let told = scope.spawn(|| park.finish());
        sleep(Duration::from_secs(1));
        drop(touch);
        told.join().expect("it ends")
    });
    let named = format!("{pid} (touch)");
    assert!(
        told.code() != Some(0) && told.stderr.contains(&named),
        "{}",
        told.stderr
    );
}

#[test]
fn who_may_not_see_what_is_parked_is_told_that_and_not_that_nothing_is() {
    live!("cap_bpf", "zram", "process_madvise");
    let mut touch = small();
    let pid = touch.pid.to_string();
    parked(&["--pid", &pid]);
    for verb in [
        &["ctl", "parked"][..],
        &["wake", "--all"],
        &["wake", "--pid", &pid],
    ] {
        // A user who may look into the directory, and not read what is in it.
        let told = Command::new(binary())
            .args(verb)
            .uid(65534)
            .gid(65534)
            .output();
        let told = told.expect("it starts");
        let stderr = String::from_utf8_lossy(&told.stderr).into_owned();
        assert_eq!(told.status.code(), Some(1), "{verb:?}: {stderr}");
        let stdout = String::from_utf8_lossy(&told.stdout).into_owned();
        assert!(
            !(stdout + &stderr).contains("nothing is parked"),
            "{verb:?}: {stderr}"
        );
        assert!(stderr.contains("ermission denied"), "{verb:?}: {stderr}");
    }
    assert!(run_dir().join("parked").exists());
    woken(&[&pid]);
    assert_eq!(touch.ask("verify 0 512"), "0");
}
