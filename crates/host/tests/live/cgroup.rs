//! Groups on the machine we run on, whichever version it mounts.

use crate::groups;
use crate::support;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use groups::{make, zram};
use strata_linux::cgroup::{
    BudgetGroup, CgroupError, Manager, Offered, ReclaimError, Version, mounted_version,
};
use strata_linux::undo::Journal;
use strata_lru::machine::LimitDistances;
use support::{Hog, MIB, fresh_id};

#[test]
fn a_group_is_made_limited_read_and_removed() {
    need_root_and_cgroup!();
    let mut group = make("life");
    let path = group.path().to_owned();
    assert!(path.is_dir());
    assert!(!group.is_attached());
    assert_eq!(group.limit_bytes().expect("read"), None);

    group.set_limit_bytes(Some(64 * MIB + 5)).expect("limited");
    assert_eq!(group.limit_bytes().expect("read"), Some(64 * MIB));
    let mut hog = Hog::filled(Some(&path), 20);
    assert_eq!(group.processes().expect("read"), [hog.pid()]);
    let usage = group.usage_bytes().expect("read");
    assert!((20 * MIB..40 * MIB).contains(&usage), "{usage}");
    let stats = group.stats().expect("read");
    assert!(stats.anon_bytes.expect("offered") >= 19 * MIB);
    assert!(stats.nr_pgfault.expect("offered") > 0);
    assert_eq!(stats.nr_oom_kills, Some(0));
    assert_eq!(hog.ask("touch").as_deref(), Some("ok"));

    let refused = group.set_limit_bytes(Some(10 * MIB));
    assert!(
        matches!(refused, Err(CgroupError::LimitBelowUsage { .. })),
        "{refused:?}"
    );
    let inhabited = group.remove().expect_err("somebody is in it");
    assert!(
        inhabited.to_string().contains(&hog.pid().to_string()),
        "{inhabited}"
    );
    assert!(inhabited.to_string().contains("strata-host"), "{inhabited}");
    assert!(hog.end().success(), "nobody was killed");
    group.remove().expect("removed");
    group.remove().expect("a second time is no error");
    assert!(!path.exists());
    assert!(matches!(group.usage_bytes(), Err(CgroupError::Gone(_))));
}

#[test]
fn a_child_joins_through_an_inherited_descriptor() {
    need_root_and_cgroup!();
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut group = make("join");
    let join = group.join_file().expect("opened");
    // The shell writes 0 for itself, then becomes the program.
    let mut child = Command::new("sh")
        .args(["-c", "echo 0 >&1; exec cat >/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::from(join))
        .spawn()
        .expect("sh runs");
    let pid = child.id() as i32;
    support::wait_until("it is in the group", || {
        group.processes().expect("read") == [pid]
    });
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"x")
        .expect("written");
    assert!(child.wait().expect("waited").success());
    group.remove().expect("removed");
}

#[test]
fn reclaim_frees_what_was_asked_and_the_data_survives() {
    need_root_and_cgroup!();
    let mut swap = or_skip!(zram("256M"));
    let mut group = make("reclaim");
    let mut hog = Hog::filled(Some(group.path()), 100);
    let before = group.usage_bytes().expect("read");
    // Well above its budget: the limit waits above usage, and reclaim goes down towards the budget.
    let budget = 60 * MIB;
    group.set_budget_bytes(budget).expect("set");
    let limit = group.limit_bytes().expect("read").expect("limited");
    assert!(limit >= before, "usage is not cut into");
    let mut freed = 0;
    // On a busy machine a call may run out of time before it has all.
    support::wait_until("20 MiB are freed", || {
        freed += group.reclaim(20 * MIB - freed).unwrap_or(0);
        freed >= 18 * MIB
    });
    assert!(freed <= 25 * MIB && freed <= before - group.usage_bytes().expect("read") + MIB);
    assert_eq!(group.limit_bytes().expect("read"), Some(limit), "undone");
    assert!(swap.used_bytes().expect("read") >= 15 * MIB);
    let zram = swap.zram_stats().expect("read").expect("zram");
    assert!(zram.memory_bytes > 0 && zram.memory_bytes < zram.original_bytes);
    assert!(swap.memory_bytes().expect("read") > 0);

    support::wait_until("it is within its budget", || {
        let _ = group.reclaim(4 * MIB);
        group.usage_bytes().expect("read") <= budget
    });
    assert_eq!(
        group.settle_limit().expect("settled"),
        LimitDistances::DEFAULT.backstop_bytes(budget)
    );
    assert_eq!(
        hog.ask("touch").as_deref(),
        Some("ok"),
        "every page is right"
    );
    assert_eq!(group.oom_kills().expect("read"), Some(0));
    assert!(group.stats().expect("read").swap_bytes.expect("offered") > 0);
    assert!(hog.end().success());
    group.remove().expect("removed");
    crate::guard::down(&mut swap);
}

#[test]
fn a_dip_stays_within_one_step_of_the_budget_and_is_always_undone() {
    need_root_and_cgroup!();
    let _swap = or_skip!(zram("256M"));
    let mut group = make("dip");
    if group.version() == Version::V2 {
        // v2 has no dip: the limit must not move at all. The same checks hold.
        assert!(group.path().join("memory.reclaim").exists());
    }
    let budget = 80 * MIB;
    group.set_budget_bytes(budget).expect("set");
    let limit = LimitDistances::DEFAULT.backstop_bytes(budget);
    // Above the budget, below the limit.
    let mut hog = Hog::filled(Some(group.path()), 84);
    let stop = AtomicBool::new(false);
    let lowest = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let now = group.limit_bytes().expect("read").unwrap_or(u64::MAX);
                lowest.fetch_min(now, Ordering::Relaxed);
            }
        });
        // Asking for far more than is allowed, while the program pulls its pages back.
        let mut nr_reclaims = 0;
        for _ in 0..20 {
            hog.send("touch");
            nr_reclaims += usize::from(group.reclaim(50 * MIB).is_ok());
            assert_eq!(group.limit_bytes().expect("read"), Some(limit));
            assert_eq!(hog.answer().as_deref(), Some("ok"));
        }
        assert!(nr_reclaims > 0);
        stop.store(true, Ordering::Relaxed);
    });
    let lowest = lowest.load(Ordering::Relaxed);
    match group.version() {
        Version::V1 => {
            let floor = budget - LimitDistances::DEFAULT.line_distance_bytes(budget);
            assert!(lowest >= floor, "{lowest} < {floor}");
            support::wait_until("it is at its floor", || {
                matches!(group.reclaim(50 * MIB), Err(ReclaimError::AtFloor(_)))
            });
            let usage = group.usage_bytes().expect("read");
            let slack = MIB; // pages the kernel keeps charged in each core's stock
            assert!(usage + slack >= floor, "{usage} < {floor}");
        }
        Version::V2 => assert_eq!(lowest, limit),
    }
    assert!(hog.end().success());
    group.remove().expect("removed");
}

#[test]
fn without_swap_a_group_of_anonymous_memory_says_that_nothing_can_go() {
    need_root_and_cgroup!();
    let mut group = make("noswap");
    // Other tests may have swap on: the group must not use it.
    match group.version() {
        Version::V1 => assert_eq!(group.set_swappiness(0).expect("set"), Offered::Yes),
        Version::V2 => fs::write(group.path().join("memory.swap.max"), "0").expect("set"),
    }
    let hog = Hog::filled(Some(group.path()), 40);
    group.set_budget_bytes(20 * MIB).expect("set");
    match group.reclaim(10 * MIB) {
        Err(ReclaimError::SwapFull(_)) => assert_eq!(group.version(), Version::V1),
        Err(ReclaimError::NothingReclaimable(_)) => {}
        // A few file pages of the program itself.
        Ok(freed) => assert!(freed < 5 * MIB, "{freed}"),
        Err(other) => panic!("{other}"),
    }
    assert!(hog.end().success(), "not killed");
    group.remove().expect("removed");
}

#[test]
fn an_attached_group_gets_every_value_back_and_stays() {
    need_root_and_cgroup!();
    let mut made = make("attach");
    made.set_limit_bytes(Some(200 * MIB)).expect("limited");
    let before = snapshot(made.path());

    let mut group = BudgetGroup::attach(made.path(), &Journal::none()).expect("attached");
    assert!(group.is_attached());
    group.set_limit_bytes(Some(400 * MIB)).expect("set");
    assert_eq!(
        group.limit_bytes().expect("read"),
        Some(200 * MIB),
        "never above what was there"
    );
    group.set_budget_bytes(100 * MIB).expect("set");
    assert_eq!(
        group.limit_bytes().expect("read"),
        Some(LimitDistances::DEFAULT.backstop_bytes(100 * MIB))
    );
    group.set_swappiness(10).expect("set");
    let watch = group.watch_oom().expect("watched");
    assert_ne!(snapshot(made.path()), before);
    drop(watch);
    group.remove().expect("detached");
    assert_eq!(snapshot(made.path()), before);
    assert!(made.path().is_dir(), "an attached group is never removed");

    let relative = made.name();
    let again = BudgetGroup::attach(Path::new(&relative), &Journal::none());
    assert_eq!(again.expect("by its name").path(), made.path());
    made.remove().expect("removed");
}

/// Every setting of a group, and none of its counters.
fn snapshot(group: &Path) -> Vec<(String, String)> {
    [
        "memory.limit_in_bytes",
        "memory.swappiness",
        "memory.oom_control",
        "memory.max",
        "memory.high",
        "pids.max",
        "cgroup.subtree_control",
    ]
    .iter()
    .filter_map(|name| {
        Some((
            String::from(*name),
            fs::read_to_string(group.join(name)).ok()?,
        ))
    })
    .collect()
}

#[test]
fn what_is_not_a_group_is_refused_with_its_reason() {
    need_root_and_cgroup!();
    for path in ["/no/such/group", "/", "../../proc", "/etc"] {
        let error = BudgetGroup::attach(Path::new(path), &Journal::none()).expect_err(path);
        assert!(
            matches!(error, CgroupError::NotAGroup { .. }),
            "{path}: {error}"
        );
    }
    let error = BudgetGroup::create("a/b", Manager::ByHand, &Journal::none()).expect_err("a name");
    assert!(matches!(error, CgroupError::BadName(_)), "{error}");
}

#[test]
fn a_scope_is_made_where_systemd_manages_the_tree_and_refused_elsewhere() {
    need_root_and_cgroup!();
    let made = BudgetGroup::create(&fresh_id("scope"), Manager::Systemd, &Journal::none());
    let has_systemd = Path::new("/run/systemd/system").is_dir();
    let is_v2 = mounted_version().expect("mounted") == Version::V2;
    match made {
        Ok(mut group) => {
            assert!(has_systemd && is_v2);
            group.set_budget_bytes(64 * MIB).expect("set");
            let scope = group.path().parent().expect("a parent").to_owned();
            assert!(scope.display().to_string().ends_with(".scope"));
            let hog = Hog::filled(Some(group.path()), 10);
            assert_eq!(group.processes().expect("read"), [hog.pid()]);
            assert!(hog.end().success());
            group.remove().expect("removed");
            support::wait_until("systemd removes the scope", || !scope.exists());
        }
        Err(error) => {
            assert!(matches!(error, CgroupError::Systemd { .. }), "{error}");
            assert!(!(has_systemd && is_v2), "{error}");
        }
    }
}

#[test]
fn a_process_alone_in_its_group_is_found_there_and_company_is_noticed() {
    need_root_and_cgroup!();
    let mut group = make("alone");
    let one = Hog::filled(Some(group.path()), 1);
    let found = BudgetGroup::of_process(one.pid(), &Journal::none()).expect("looked");
    assert_eq!(found.expect("alone").path(), group.path());
    let two = Hog::filled(Some(group.path()), 1);
    assert!(
        BudgetGroup::of_process(one.pid(), &Journal::none())
            .expect("looked")
            .is_none()
    );
    assert!(one.end().success() && two.end().success());
    group.remove().expect("removed");
}

#[test]
fn swappiness_is_taken_or_declined() {
    need_root_and_cgroup!();
    let mut group = make("swappiness");
    let offered = group.set_swappiness(10).expect("asked");
    match group.version() {
        Version::V1 => {
            assert_eq!(offered, Offered::Yes);
            let file = group.path().join("memory.swappiness");
            assert_eq!(fs::read_to_string(file).expect("read").trim(), "10");
        }
        Version::V2 => {
            let _ = group.reclaim(MIB);
        }
    }
    group.remove().expect("removed");
}

#[test]
fn a_group_deleted_under_us_is_gone_and_nothing_worse() {
    need_root_and_cgroup!();
    let mut group = make("deleted");
    group.set_budget_bytes(50 * MIB).expect("set");
    fs::remove_dir(group.path()).expect("removed by somebody else");
    assert!(matches!(group.usage_bytes(), Err(CgroupError::Gone(_))));
    assert!(matches!(group.stats(), Err(CgroupError::Gone(_))));
    assert!(matches!(
        group.set_limit_bytes(None),
        Err(CgroupError::Gone(_))
    ));
    assert!(matches!(
        group.reclaim(MIB),
        Err(ReclaimError::Group(CgroupError::Gone(_)))
    ));
    group.restore().expect("nothing to put back");
    group.remove().expect("nothing to remove");
}

#[test]
fn a_controller_switched_on_for_a_group_is_switched_off_with_the_last_one() {
    need_root_and_cgroup!();
    if mounted_version().expect("mounted") == Version::V1 {
        skip!("v1 has no subtree control");
    }
    // Which directory it will be is known only when there is a group; what others have switched on
    // there is on before the first and after the last.
    let mut probe = make("probe");
    let parent = probe.path().parent().expect("a parent").to_owned();
    probe.remove().expect("removed");
    let read = || {
        let text = fs::read_to_string(parent.join("cgroup.subtree_control")).expect("read");
        let mut names: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        names.sort();
        names
    };
    let has = |name: &str| read().iter().any(|on| on == name);
    let before = read();
    let mut one = make("first");
    let mut two = make("second");
    // A guest hands out memory at boot, and pids only while a group of ours is there.
    assert!(has("memory") && has("pids"), "{:?}", read());
    one.remove().expect("removed");
    assert!(has("pids"), "the other still needs it");
    assert!(two.path().join("memory.max").exists());
    two.remove().expect("removed");
    assert_eq!(read(), before);
}
