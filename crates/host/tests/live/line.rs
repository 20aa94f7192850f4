//! Holding the line just below a budget, whichever version of cgroups the machine mounts.

use crate::groups;
use crate::support;

use std::fs;

use groups::{make, zram};
use strata_linux::cgroup::{BudgetGroup, Line, Version, mounted_version};
use strata_linux::swap::free_swap_bytes;
use strata_linux::undo::Journal;
use strata_lru::machine::LimitDistances;
use support::{Hog, MIB};

const BUDGET: u64 = 60 * MIB;

/// What the line is held with: bytes, `None` where there is no limit.
fn line_bytes(group: &BudgetGroup) -> Option<u64> {
    let file = match group.version() {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.high",
    };
    let text = fs::read_to_string(group.path().join(file)).expect("read");
    text.trim().parse().ok()
}

#[test]
fn the_line_comes_down_with_usage_and_goes_when_released() {
    need_root_and_cgroup!();
    let _swap = or_skip!(zram("256M"));
    let mut group = make("line");
    let mut hog = Hog::filled(Some(group.path()), 100);
    let before = line_bytes(&group);
    group.set_budget_bytes(BUDGET).expect("set");
    let mut last = u64::MAX;
    support::wait_until("the line is held", || {
        let line = group.hold_line().expect("moved");
        let at = line_bytes(&group).unwrap_or(u64::MAX);
        assert!(at <= last, "it never goes up by itself");
        last = at;
        line == Line::Held
    });
    let step = LimitDistances::DEFAULT.line_distance_bytes(BUDGET);
    assert!(
        (BUDGET - step - 4096..=BUDGET - step).contains(&last),
        "{last}"
    );
    support::wait_until("usage is within the budget", || {
        group.usage_bytes().expect("read") <= BUDGET
    });
    if group.version() == Version::V2 {
        support::wait_until("the limit stands at the backstop", || {
            group.hold_line().expect("held");
            group.limit_bytes().expect("read")
                == Some(LimitDistances::DEFAULT.backstop_bytes(BUDGET))
        });
    }
    let again = hog.ask("touch");
    assert_eq!(again.as_deref(), Some("ok"), "every page is right");
    assert_eq!(group.oom_kills().expect("read"), Some(0));

    group.release_line().expect("released");
    let released = match group.version() {
        Version::V1 => Some(LimitDistances::DEFAULT.backstop_bytes(BUDGET)),
        Version::V2 => None,
    };
    assert_eq!(line_bytes(&group), released);
    group.hold_line().expect("held again");
    group.restore().expect("put back");
    assert_eq!(line_bytes(&group), before, "as it was found");
    assert!(hog.end().success());
    group.remove().expect("removed");
}

#[test]
fn the_line_of_an_attached_group_goes_back_to_what_was_there() {
    need_root_and_cgroup!();
    let _swap = or_skip!(zram("256M"));
    let mut made = make("found");
    let file = made.path().join(match made.version() {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.high",
    });
    let found = 90 * MIB;
    fs::write(&file, found.to_string()).expect("set by somebody else");
    let hog = Hog::filled(Some(made.path()), 80);
    let attached = BudgetGroup::attach(made.path(), &Journal::none()).expect("attached");
    attached.set_budget_bytes(BUDGET).expect("set");
    support::wait_until("the line is held", || {
        attached.hold_line().expect("moved") == Line::Held
    });
    assert!(line_bytes(&attached) < Some(BUDGET));
    attached.release_line().expect("released");
    assert!(line_bytes(&attached) <= Some(found), "never above it");
    attached.hold_line().expect("held again");
    attached.restore().expect("detached");
    assert_eq!(line_bytes(&made), Some(found));
    assert!(hog.end().success());
    made.remove().expect("removed");
}

#[test]
fn a_line_that_nothing_comes_down_to_is_given_up_rather_than_make_tasks_sleep() {
    need_root_and_cgroup!();
    if mounted_version().expect("mounted") == Version::V1 {
        skip!("v1 has no memory.high: nobody sleeps at a line there");
    }
    if free_swap_bytes().expect("read") > 0 {
        skip!("this machine has swap, so anonymous memory can be reclaimed");
    }
    let mut group = make("vain");
    let hog = Hog::filled(Some(group.path()), 100);
    group.set_budget_bytes(BUDGET).expect("set");
    support::wait_until("the line is tried", || {
        group.hold_line().expect("moved");
        line_bytes(&group).is_some()
    });
    support::wait_until("it is given up", || {
        group.hold_line().expect("moved") == Line::Resting
    });
    assert_eq!(line_bytes(&group), None);
    assert_eq!(group.hold_line().expect("asked"), Line::Resting, "for now");
    assert!(hog.end().success(), "nobody was killed");
    group.remove().expect("removed");
}
