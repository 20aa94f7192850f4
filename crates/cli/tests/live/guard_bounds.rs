//! `strata guard` within bounds of time, of writes to swap, and of what the kernel is asked for.

use crate::support::prelude::*;

use crate::guard::{Idler, bytes, end, guard, of, wait_for};
use strata_linux::cgroup::{Amount, GroupReader, reclaim_from};
use strata_linux::swap::swap_areas;

#[test]
fn within_a_promise_by_time_no_more_is_written_to_swap_a_second_than_may_be_and_that_is_told() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    const RATE: u64 = 2 * MIB;
    let _guard = Guard::new();
    let idler = Idler::start("rate");
    let name = idler.name();
    let options = ["--promise", "slowdown 5%", "--swap", "zram:1G", "--release"];
    let live = Live::start(&guard(&options).args(["--swap-writes", "2M/s"]));
    let has_begun = |status: &Value| bytes(of(status, &name), "taken_bytes") > 0;
    let first = wait_for(&live, "something to go", has_begun);
    let begun = Instant::now();
    let first_bytes = bytes(of(&first, &name), "taken_bytes");
    let mut was_told = false;
    let last = wait_for(&live, "more to go", |status| {
        let group = of(status, &name);
        was_told |= group["why_not_more"] == "swap_writes";
        bytes(group, "taken_bytes") >= 20 * MIB
    });
    let went_bytes = bytes(of(&last, &name), "taken_bytes") - first_bytes;
    let allowed_s = went_bytes.saturating_sub(2 * RATE) / RATE;
    let passed = begun.elapsed();
    assert!(passed.as_secs() >= allowed_s, "{passed:?}: {last:#}");
    assert!(was_told, "{last:#}");
    assert_eq!(of(&last, &name)["promise"], "slowdown 5%", "{last:#}");
    end(live);
    idler.end();
}

#[test]
fn a_promise_by_time_that_nobody_can_judge_is_refused_with_what_is_missing() {
    needs!("cap_bpf", "memory_cgroup");
    let is_told = memory_mount().is_none_or(|(_, is_v1)| !is_v1);
    if is_told || !swap_areas().expect("read").is_empty() {
        skip!("there is swap, or the kernel tells how long groups wait");
    }
    let _guard = Guard::new();
    let said = guard(&["--promise", "slowdown 1%"]).finish();
    assert_eq!(said.code(), Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("is there swap?"), "{}", said.stderr);
}

#[test]
fn without_swap_and_where_it_is_nearly_full_anonymous_memory_stays_and_that_is_told() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    if !swap_areas().expect("read").is_empty() {
        skip!("the machine has swap");
    }
    let _guard = Guard::new();
    let idler = Idler::start("no-room");
    let name = idler.name();
    for (options, why, away) in [
        (&["--promise", "100%/min"][..], "no_swap", 0..=0),
        // A tenth of it is left to others.
        (
            &["--promise", "100%/min", "--swap", "zram:16M", "--release"][..],
            "swap_is_full",
            8 * MIB..=16 * MIB,
        ),
    ] {
        let live = Live::start(&guard(options));
        let told = wait_for(&live, why, |status| {
            of(status, &name)["why_not_more"] == why
        });
        let away_bytes = bytes(of(&told, &name), "away_anon_bytes");
        assert!(away.contains(&away_bytes), "{told:#}");
        end(live);
    }
    idler.end();
}

#[test]
fn the_kernel_takes_little_more_than_it_is_asked_for_and_no_limit_changes() {
    live!("memory_cgroup", "zram");
    let swap = OwnSwap::zram("128M");
    let idler = Idler::start("amount");
    let (before, used_bytes) = (idler.group.values(), idler.group.usage_bytes());
    let reader = GroupReader::open(&idler.group.path).expect("a group");
    let amount = Amount {
        bytes: 8 * MIB,
        swappiness: None,
    };
    let freed_bytes = reclaim_from(&reader, amount).expect("anonymous memory and swap");
    let went_bytes = used_bytes - idler.group.usage_bytes();
    // On a busy machine the time is over first.
    assert!(freed_bytes >= MIB, "{freed_bytes}");
    assert!(went_bytes < 40 * MIB, "{went_bytes} of {used_bytes}");
    assert_eq!(idler.group.values(), before);
    idler.end();
    drop(swap);
}
