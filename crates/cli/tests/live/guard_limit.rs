//! `strata guard` where a limit above the groups that it watches is near.

use crate::support::prelude::*;

use crate::guard::{ACTING, bytes, end, guard_by, of, wait_for};
use crate::guard_cache::{OFTEN_MIB, ONCE_MIB, Reader};

fn set_limit(parent: &TestGroup, limit: &str) {
    let is_v1 = parent.path.join("memory.limit_in_bytes").exists();
    let (name, none) = match is_v1 {
        true => ("memory.limit_in_bytes", "-1"),
        false => ("memory.max", "max"),
    };
    let limit = if limit == "none" { none } else { limit };
    fs::write(parent.path.join(name), limit).expect("limited");
}

/// A parent's limit, such that little room is left.
fn limit(parent: &TestGroup) {
    set_limit(parent, &(parent.usage_bytes() + MIB).to_string());
}

/// A parent, whose groups may be limited.
fn parent(name: &str) -> TestGroup {
    TestGroup::new(name).with_below()
}

/// A program of 64 MiB.
fn start(group: &TestGroup) -> Touch {
    let mut touch = Touch::start(["--size", "64M"]);
    group.take(touch.pid);
    touch.ask("writerange 0 16384");
    touch
}

/// A guard without a promise: nothing goes for being idle.
fn guard(parent: &TestGroup) -> (Live, TempDir) {
    promising("none", "5s", parent)
}

fn promising(promise: &str, min_age: &str, parent: &TestGroup) -> (Live, TempDir) {
    guard_by(&format!(
        "[[rule]]\ncgroup = \"{}/*\"\npromise = \"{promise}\"\nmin_age = \"{min_age}\"\n",
        parent.name()
    ))
}

#[test]
fn near_a_parents_limit_page_cache_read_once_goes_first_then_the_oldest_and_what_is_used_stays() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let parent = parent("guard-limit");
    let (idle, busy) = (parent.below("idle"), parent.below("busy"));
    let (mut sleeper, mut worker) = (start(&idle), start(&busy));
    worker.ask("hammer 1 16384");
    let reader = Reader::start_in(parent.below("reader"), directory.path());
    let (live, _rules) = guard(&parent);
    let told = |status: &Value, which: &str, what: &str| {
        let name = format!("{}/{which}", parent.name());
        bytes(of(status, &name), what)
    };
    let known = wait_for(&live, "ages to be known", |status| {
        told(status, "reader", "idle_cache_bytes") > (ONCE_MIB - 8) * MIB
            && told(status, "idle", "idle_bytes") > 48 * MIB
    });
    let taken = |status: &Value| ["idle", "busy"].map(|which| told(status, which, "taken_bytes"));
    assert_eq!(taken(&known), [0, 0], "{known:#}");
    assert_eq!(bytes(&known, "dropped_cache_bytes"), 0, "{known:#}");
    limit(&parent);
    let mut last = wait_for(&live, "page cache to go", |status| {
        told(status, "reader", "dropped_cache_bytes") > 2 * MIB
    });
    assert_eq!(taken(&last), [0, 0], "{last:#}");
    let left = resident_bytes(&reader.once);
    assert!(left > ONCE_MIB / 2 * MIB, "no more than is missing: {left}");
    // Without page cache that lies idle the programs' memory is next.
    forget(&reader.once);
    for step in 1..=4 {
        last = wait_for(&live, "the oldest to go", |status| {
            // Pages that were on their way out may have made room only after the limit was set: it follows.
            limit(&parent);
            taken(status).iter().sum::<u64>() > step * 2 * MIB
        });
        sleep(Duration::from_secs(1) * patience());
    }
    let [of_idle, of_busy] = taken(&last);
    assert!(
        of_idle >= 9 * (of_idle + of_busy) / 10,
        "{of_idle} {of_busy} {last:#}"
    );
    set_limit(&parent, "none");
    end(live);
    worker.ask("rest");
    for touch in [&mut sleeper, &mut worker] {
        assert_eq!(touch.ask("verify 0 16384"), "0", "pages are as they were");
    }
    drop((sleeper, worker, reader));
    drop((idle, busy));
}

#[test]
fn near_a_parents_limit_page_cache_that_was_read_once_goes_though_all_is_younger_than_the_least_age()
 {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    needs_census!();
    let directory = open_disk!();
    let _guard = Guard::new();
    let parent = parent("guard-limit-young");
    let idle = parent.below("idle");
    let mut sleeper = start(&idle);
    let reader = Reader::start_in(parent.below("reader"), directory.path());
    wait_until("both files to be read", || {
        resident_bytes(&reader.once) + resident_bytes(&reader.often) == (ONCE_MIB + OFTEN_MIB) * MIB
    });
    limit(&parent);
    let (live, _rules) = promising("none", "10m", &parent);
    let last = wait_for(&live, "page cache to go", |status| {
        bytes(of(status, &reader.group.name()), "dropped_cache_bytes") > 2 * MIB
    });
    assert_eq!(bytes(of(&last, &idle.name()), "taken_bytes"), 0, "{last:#}");
    let often = resident_bytes(&reader.often);
    assert!(often > (OFTEN_MIB - 2) * MIB, "what is read again: {often}");
    set_limit(&parent, "none");
    end(live);
    assert_eq!(sleeper.ask("verify 0 16384"), "0", "pages are as they were");
    drop((sleeper, reader));
    drop(idle);
}

/// How often the group met its limit.
fn nr_met(parent: &TestGroup) -> u64 {
    let read = |name| fs::read_to_string(parent.path.join(name)).ok();
    let of_v1 = read("memory.failcnt");
    let of_v2 = || {
        let events = read("memory.events")?;
        let max = events.lines().find_map(|line| line.strip_prefix("max "));
        max.map(str::to_owned)
    };
    let told = of_v1.or_else(of_v2).expect("it is counted");
    told.trim().parse().expect("a number")
}

#[test]
fn a_program_that_grows_below_a_parents_limit_finds_room_before_it_meets_it() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let parent = parent("guard-limit-growth");
    let (idle, growing) = (parent.below("idle"), parent.below("growing"));
    let mut sleeper = start(&idle);
    let mut grower = Touch::start(["--size", "96M"]);
    growing.take(grower.pid);
    let (live, _rules) = guard(&parent);
    wait_for(&live, "ages to be known", |status| {
        bytes(of(status, &idle.name()), "idle_bytes") > 48 * MIB
    });
    set_limit(&parent, &(parent.usage_bytes() + 64 * MIB).to_string());
    // 32 MiB more than there is room for, of which 12 MiB come a second, three times what is kept free of the limit.
    for quarter in 0..32 {
        let first = quarter * 768;
        grower.ask(&format!("writerange {first} 768"));
        sleep(Duration::from_millis(250) * patience());
    }
    assert_eq!(nr_met(&parent), 0);
    set_limit(&parent, "none");
    end(live);
    assert_eq!(sleeper.ask("verify 0 16384"), "0", "pages are as they were");
    drop((sleeper, grower));
    drop((idle, growing));
}

#[test]
fn near_a_parents_limit_nothing_goes_of_a_program_that_has_used_up_its_promise() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let parent = parent("guard-limit-promise");
    let group = parent.below("returns");
    let mut touch = start(&group);
    let (live, _rules) = promising("1%/min", "5s", &parent);
    let name = group.name();
    let taken = |status: &Value| bytes(of(status, &name), "taken_bytes");
    wait_for(&live, "idle memory to go, as there is no room", |status| {
        limit(&parent);
        taken(status) > 4 * MIB
    });
    // All of it is used again.
    set_limit(&parent, "none");
    touch.ask("readrange 0 16384");
    let is_resting = |status: &Value| of(status, &name)["standing"] == "resting";
    let broken = wait_for(&live, "the promise to be broken", is_resting);
    let before = taken(&broken);
    let idle_again = wait_for(&live, "it to lie idle again", |status| {
        bytes(of(status, &name), "idle_bytes") > 48 * MIB
    });
    let first = bytes(&idle_again, "nr_walks");
    let last = wait_for(&live, "four walks with little room", |status| {
        limit(&parent);
        bytes(status, "nr_walks") > first + 4
    });
    assert!(is_resting(&last), "{last:#}");
    assert_eq!(taken(&last), before, "{last:#}");
    set_limit(&parent, "none");
    end(live);
    assert_eq!(touch.ask("verify 0 16384"), "0", "pages are as they were");
    drop(touch);
    drop(group);
}

#[test]
fn swap_of_a_group_that_has_no_room_for_it_below_its_limit_stays_and_nobody_is_killed() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let group = TestGroup::new("guard-away");
    let mut idle = start(&group);
    let mut live = Live::start(&crate::guard::guard(&ACTING));
    wait_for(&live, "much to go", |status| {
        bytes(of(status, &group.name()), "away_bytes") > 32 * MIB
    });
    limit(&group);
    live.signal(Signal::INT);
    live.end();
    let said = live.stderr();
    assert_has(&said, "stays in use");
    set_limit(&group, "none");
    assert_eq!(
        idle.ask("verify 0 16384"),
        "0",
        "it lives, and pages are as they were"
    );
    let state = run_dir().join("guard");
    wait_until("the keeper to take it down", || !state.exists());
    drop((idle, group));
}
