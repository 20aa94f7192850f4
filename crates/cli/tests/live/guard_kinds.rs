//! Kinds of idle memory that `strata guard` takes, and groups that come and go.

use crate::support::prelude::*;

use crate::guard::{ACTING, Idler, bytes, end, guard, of, wait_for};

/// Walks within which what is idle goes: six make its age, and a few more steps follow.
const NR_WALKS_MAX: u64 = 60;

#[test]
fn by_the_exact_hand_idle_huge_pages_go_and_come_back_and_a_group_made_anew_inherits_nothing() {
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
    let (first, name) = (Idler::start("anew"), group.name());
    let name_anew = first.name();
    let options: Vec<&str> = ACTING.into_iter().chain(["--hand", "exact"]).collect();
    let live = Live::start(&guard(&options));
    let last = wait_for(&live, "nine tenths to go", |status| {
        assert!(bytes(status, "nr_walks") < NR_WALKS_MAX, "{status:#}");
        bytes(of(status, &name), "away_bytes") >= 64 * MIB * 9 / 10
            && bytes(of(status, &name_anew), "taken_bytes") > 32 * MIB
    });
    assert!(
        bytes(of(&last, &name), "resident_bytes") < 16 * MIB,
        "{last:#}"
    );
    first.end();
    let second = Idler::start("anew");
    let after = wait_for(&live, "the new group to be seen", |status| {
        bytes(status, "nr_walks") > bytes(&last, "nr_walks") + 1
            && bytes(of(status, &name_anew), "resident_bytes") > 60 * MIB
    });
    let anew = of(&after, &name_anew);
    assert!(bytes(anew, "taken_bytes") < 32 * MIB, "{anew:#}");
    assert!(bytes(anew, "came_back_bytes") < MIB, "{anew:#}");
    assert_eq!(touch.ask("verify 0 16384"), "0", "pages are as they were");
    end(live);
    second.end();
    drop((touch, group));
}
