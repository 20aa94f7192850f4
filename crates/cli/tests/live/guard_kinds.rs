//! Kinds of idle memory that `strata guard` takes, and groups that come and go.

use crate::guard::{ACTING, Idler, MIB, bytes, end, guard, of, wait_for};
use crate::support;

use support::live::{Live, TestGroup, proc_bytes};
use support::programs::Touch;

/// Walks within which what is idle goes: six make its age, and a few more steps follow.
const NR_WALKS_MAX: u64 = 60;

#[test]
fn idle_huge_pages_go_by_the_exact_hand_and_come_back_as_they_were() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("guard-huge");
    let mut touch = Touch::start(["--size", "64M", "--thp"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    let smaps = format!("/proc/{}/smaps_rollup", touch.pid);
    let huge_bytes = proc_bytes(&smaps, "AnonHugePages").unwrap_or(0);
    if huge_bytes < 56 * MIB {
        skip!("the kernel gave {} MiB of huge pages", huge_bytes / MIB);
    }
    let live = guard_by_hand();
    let name = group.name();
    let last = wait_for(&live, "nine tenths to go", |status| {
        assert!(bytes(status, "nr_walks") < NR_WALKS_MAX, "{status:#}");
        bytes(of(status, &name), "away_bytes") >= 64 * MIB * 9 / 10
    });
    assert!(
        bytes(of(&last, &name), "resident_bytes") < 16 * MIB,
        "{last:#}"
    );
    assert_eq!(touch.ask("verify 0 16384"), "0", "pages are as they were");
    end(live);
    drop((touch, group));
}

fn guard_by_hand() -> Live {
    let options: Vec<&str> = ACTING.into_iter().chain(["--hand", "exact"]).collect();
    Live::start(&guard(&options))
}

#[test]
fn a_group_made_anew_under_its_name_inherits_nothing() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let first = Idler::start("anew");
    let name = first.name();
    let live = guard_by_hand();
    let before = wait_for(&live, "much to go", |status| {
        bytes(of(status, &name), "taken_bytes") > 32 * MIB
    });
    first.end();
    let second = Idler::start("anew");
    let after = wait_for(&live, "the new group to be seen", |status| {
        let group = of(status, &name);
        bytes(status, "nr_walks") > bytes(&before, "nr_walks") + 1
            && bytes(group, "resident_bytes") > 60 * MIB
    });
    let group = of(&after, &name);
    assert!(bytes(group, "taken_bytes") < 32 * MIB, "{group:#}");
    assert!(bytes(group, "came_back_bytes") < MIB, "{group:#}");
    end(live);
    second.end();
}
