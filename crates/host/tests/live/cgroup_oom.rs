//! Groups that run out of memory, and being told before they do.

use crate::groups;
use crate::support;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use groups::{is_readable, make, zram};
use strata_linux::cgroup::{BudgetGroup, Line, Version};
use strata_linux::swap::free_swap_bytes;
use strata_lru::machine::LimitDistances;
use support::{Hog, MIB};

#[test]
fn a_program_at_its_limit_waits_and_goes_on_when_relieved() {
    need_root_and_cgroup!();
    let mut group = make("oom");
    if group.version() == Version::V2 {
        skip!("v2 has no way to switch the OOM killer off");
    }
    group.set_budget_bytes(50 * MIB).expect("set");
    let mut watch = group.watch_oom().expect("watched");
    let stop = AtomicBool::new(false);
    let nr_relieved = AtomicU64::new(0);
    thread::scope(|scope| {
        let _release = Release(&stop, &group);
        // Relieved until the very end: what a program touches last may be what it has to wait for.
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if is_readable(&watch, 50) {
                    assert_eq!(watch.take().expect("read").nr_oom_kills, 0);
                }
                if group.is_under_oom().expect("read") {
                    nr_relieved.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(group.relieve(8 * MIB).expect("raised"), 8 * MIB);
                }
            }
        });
        // Whether another test has swap on or not: the program grows past what reclaim can give it.
        let mut hog = Hog::filled(Some(group.path()), 120);
        assert_eq!(hog.ask("touch").as_deref(), Some("ok"));
        assert!(hog.end().success(), "not killed");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(group.oom_kills().expect("read"), Some(0));
        // What was granted is taken back as usage falls.
        assert_eq!(
            group.settle_limit().expect("settled"),
            LimitDistances::DEFAULT.backstop_bytes(50 * MIB)
        );
    });
    let nr_relieved = nr_relieved.into_inner();
    if free_swap_bytes().expect("read") == 0 {
        assert!(nr_relieved > 0);
    }
    group.remove().expect("removed");
}

/// Lets the programs end, whatever happens here.
struct Release<'a>(&'a AtomicBool, &'a BudgetGroup);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.restore();
    }
}

#[test]
fn two_programs_beyond_the_budget_both_go_on_and_nobody_is_killed() {
    need_root_and_cgroup!();
    let _swap = or_skip!(zram("512M"));
    let mut group = make("two");
    let budget = 120 * MIB;
    group.set_budget_bytes(budget).expect("set");
    let mut watch = group.watch_oom().expect("watched");
    let stop = AtomicBool::new(false);
    let rounds = [AtomicU64::new(0), AtomicU64::new(0)];
    let mut nr_relieved = 0;
    let mut nr_reclaimed_bytes = 0;
    thread::scope(|scope| {
        let _release = Release(&stop, &group);
        for round in &rounds {
            let (stop, group) = (&stop, &group);
            scope.spawn(move || {
                let mut hog = Hog::filled(Some(group.path()), 100);
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(
                        hog.ask("touch").as_deref(),
                        Some("ok"),
                        "alive, its data right"
                    );
                    round.fetch_add(1, Ordering::Relaxed);
                }
                assert!(hog.end().success());
            });
        }
        let end = Instant::now() + Duration::from_secs(5);
        let enough = |round: &AtomicU64| round.load(Ordering::Relaxed) >= 2;
        let bound = end + Duration::from_secs(60);
        while Instant::now() < end || !rounds.iter().all(enough) {
            assert!(Instant::now() < bound, "somebody starves: {rounds:?}");
            if is_readable(&watch, 5) {
                assert_eq!(watch.take().expect("read").nr_oom_kills, 0);
            }
            if group.is_under_oom().expect("read") {
                nr_relieved += 1;
                group.relieve(4 * MIB).expect("raised");
            } else if group.usage_bytes().expect("read") > budget {
                nr_reclaimed_bytes += group.reclaim(2 * MIB).unwrap_or(0);
                group.settle_limit().expect("settled");
            }
        }
    });
    assert!(nr_reclaimed_bytes > 0, "relieved {nr_relieved} times");
    assert_eq!(group.oom_kills().expect("read"), Some(0));
    group.remove().expect("removed");
}

/// With steps of a fixed size the limit once stood 17 % above a budget for as long as the program
/// went on: each time the program took back as much as the kernel reclaimed.
#[test]
fn a_limit_that_gave_way_comes_down_again_while_the_program_faults_at_full_speed() {
    need_root_and_cgroup!();
    let _swap = or_skip!(zram("512M"));
    let mut group = make("line");
    if group.version() == Version::V2 {
        skip!("on v2 memory.high holds the line and no limit gives way");
    }
    let budget = 80 * MIB;
    group.set_budget_bytes(budget).expect("set");
    let _watch = group.watch_oom().expect("watched");
    group.relieve(30 * MIB).expect("raised");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _release = Release(&stop, &group);
        let (stop, shared) = (&stop, &group);
        scope.spawn(move || {
            let mut hog = Hog::filled(Some(shared.path()), 160);
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(hog.ask("touch").as_deref(), Some("ok"), "its data is right");
            }
            assert!(hog.end().success());
        });
        let bound = Instant::now() + Duration::from_secs(30);
        support::wait_until("usage above the budget", || {
            group.usage_bytes().expect("read") > budget + 20 * MIB
        });
        while group.hold_line().expect("lowered") != Line::Held {
            let limit = group.limit_bytes().expect("read");
            assert!(Instant::now() < bound, "the limit stays at {limit:?}");
            if group.is_under_oom().expect("read") {
                group.relieve(MIB).expect("raised");
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert!(group.limit_bytes().expect("read") < Some(budget));
    });
    assert_eq!(group.oom_kills().expect("read"), Some(0));
    group.remove().expect("removed");
}

/// Once the limit was moved by the descriptor that a dip was writing to: whoever came meanwhile waited for the
/// dip, 50 ms, and the control loop with him, so that a limit above the budget hardly came down.
#[test]
fn a_limit_is_moved_while_a_dip_is_under_way() {
    need_root_and_cgroup!();
    let _swap = or_skip!(zram("512M"));
    let mut group = make("move");
    if group.version() == Version::V2 {
        skip!("on v2 memory.reclaim takes the place of dips");
    }
    group.set_budget_bytes(80 * MIB).expect("set");
    let _watch = group.watch_oom().expect("watched");
    group.relieve(30 * MIB).expect("raised");
    let stop = AtomicBool::new(false);
    // Odd while a dip is under way.
    let dip = AtomicU64::new(0);
    thread::scope(|scope| {
        let _release = Release(&stop, &group);
        let (stop, shared, dip) = (&stop, &group, &dip);
        scope.spawn(move || {
            let mut hog = Hog::filled(Some(shared.path()), 160);
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(hog.ask("touch").as_deref(), Some("ok"), "its data is right");
            }
            assert!(hog.end().success());
        });
        support::wait_until("usage above the budget", || {
            group.usage_bytes().expect("read") > 100 * MIB
        });
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                dip.fetch_add(1, Ordering::SeqCst);
                let _ = shared.reclaim(MIB);
                dip.fetch_add(1, Ordering::SeqCst);
            }
        });
        support::wait_until("five raises during one dip", || {
            let during = dip.load(Ordering::SeqCst);
            let nr_raises = (0..5)
                .take_while(|_| {
                    thread::sleep(Duration::from_millis(1));
                    group.relieve(4096).expect("raised");
                    dip.load(Ordering::SeqCst) == during
                })
                .count();
            during % 2 == 1 && nr_raises == 5
        });
    });
    group.remove().expect("removed");
}

#[test]
fn an_oom_kill_is_noticed_and_counted() {
    need_root_and_cgroup!();
    let mut group = make("kill");
    group.set_limit_bytes(Some(16 * MIB)).expect("set");
    limit_swap(group.path());
    let mut watch = group.watch_oom().expect("watched");
    group.hand_back_oom().expect("handed back");
    let mut hog = Hog::start(Some(group.path()), 64);
    assert_eq!(hog.answer(), None, "killed");
    assert!(is_readable(&watch, 5000));
    let events = watch.take().expect("read");
    assert_eq!(events.nr_oom_kills, 1);
    assert!(!events.is_under_oom);
    assert_eq!(group.oom_kills().expect("read"), Some(1));
    // v2 tells of changes that follow each other quickly later, in one: nothing new, and it ends.
    let is_clear = (0..20).any(|_| {
        let is_told = is_readable(&watch, 50);
        if is_told {
            assert_eq!(watch.take().expect("read").nr_oom_kills, 1);
        }
        !is_told
    });
    assert!(is_clear, "the event was cleared");
    drop(hog);
    let _ = fs::write(group.path().join("memory.memsw.limit_in_bytes"), "-1");
    group.remove().expect("removed");
}

/// Other tests may have swap on; a group of ours must not escape there.
fn limit_swap(group: &Path) {
    let _ = fs::write(group.join("memory.swap.max"), "0");
    let _ = fs::write(
        group.join("memory.memsw.limit_in_bytes"),
        (16 * MIB).to_string(),
    );
}

#[test]
fn crossing_a_threshold_wakes_an_idle_reader() {
    need_root_and_cgroup!();
    let mut group = make("threshold");
    let watch = group.usage_watch(10 * MIB).expect("asked");
    match group.version() {
        Version::V2 => assert!(watch.is_none()),
        Version::V1 => {
            let watch = watch.expect("offered");
            watch.take();
            assert!(!is_readable(&watch, 50));
            let hog = Hog::filled(Some(group.path()), 30);
            assert!(is_readable(&watch, 5000));
            assert!(watch.take());
            assert!(hog.end().success());
        }
    }
    group.remove().expect("removed");
}
