//! `memory` in the rules of `strata guard`: what a group holds beyond it.

use crate::support::prelude::*;

use crate::guard::{bytes, guard_by, of, wait_for};
use crate::guard_cache::{OFTEN_MIB, ONCE_MIB, Reader};

/// A program of 64 MiB that uses all of it all the time.
fn start(group: &TestGroup) -> Touch {
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    touch.ask("hammerrange 0 16384");
    touch
}

/// A guard with one rule, for this group.
fn guard(group: &TestGroup, memory_mib: u64) -> (Live, TempDir) {
    guard_by(&format!(
        "[[rule]]\ncgroup = \"{}\"\nmemory = \"{memory_mib}M\"\nmin_age = \"5s\"\n",
        group.name()
    ))
}

fn end(mut live: Live, mut touch: Touch) -> String {
    live.interrupt();
    touch.ask("rest");
    assert_eq!(touch.ask("verify 0 16384"), "0", "pages are as they were");
    live.stderr()
}

#[test]
fn a_group_above_its_memory_gives_idle_page_cache_and_keeps_what_its_program_uses() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let group = TestGroup::new("guard-memory-cache");
    let touch = start(&group);
    let reader = Reader::start_in(group, directory.path());
    // DAMON may take some of it meanwhile.
    let least = |mib: u64| (mib - if has_damon_pageout() { mib / 8 } else { 0 }) * MIB;
    wait_until("the files to be read", || {
        resident_bytes(&reader.once) >= least(ONCE_MIB)
            && resident_bytes(&reader.often) >= least(OFTEN_MIB)
    });
    let faults_before = major_faults(touch.pid);
    // More than what is in use, by half of the idle page cache.
    let memory_mib = reader.group.usage_bytes() / MIB - ONCE_MIB / 2;
    let (live, _rules) = guard(&reader.group, memory_mib);
    let name = reader.group.name();
    let last = wait_for(&live, "the group to be within its memory", |status| {
        let is_within = reader.group.usage_bytes() <= memory_mib * MIB;
        is_within && bytes(of(status, &name), "dropped_cache_bytes") > ONCE_MIB / 4 * MIB
    });
    let group = of(&last, &name);
    // But for a few pages of the programs themselves.
    assert!(bytes(group, "away_anon_bytes") < MIB, "{group:#}");
    assert!(major_faults(touch.pid) < faults_before + 64, "{group:#}");
    // DAMON may take what is left.
    assert!(
        bytes(group, "dropped_cache_bytes") < ONCE_MIB / 8 * 7 * MIB,
        "no more than is beyond: {group:#}"
    );
    end(live, touch);
    drop(reader);
}

#[test]
fn what_a_group_above_its_memory_uses_stays_and_that_is_told_once() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("guard-memory-used");
    let touch = start(&group);
    let (live, _rules) = guard(&group, 24);
    let name = group.name();
    let told = wait_for(&live, "the group to be told of", |_| {
        live.stderr().contains("memory = 24 MiB in its rule")
    });
    let later = wait_for(&live, "more walks and the reason", |status| {
        let is_told = of(status, &name)["why_not_more"] == "in_use";
        is_told && bytes(status, "nr_walks") > bytes(&told, "nr_walks") + 3
    });
    let of_group = of(&later, &name);
    assert!(
        bytes(of_group, "resident_bytes") >= 64 * MIB,
        "{of_group:#}"
    );
    assert!(bytes(of_group, "taken_bytes") < MIB, "{of_group:#}");
    let said = end(live, touch);
    assert_eq!(said.matches("in its rule").count(), 1, "{said}");
    drop(group);
}
