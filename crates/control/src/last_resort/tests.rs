//! Who is slowed, stopped and ended, and when; by looks a second apart, and by random ones.

use super::*;
use proptest::prelude::*;

const WANTED: u64 = 1000;
const AMPLE: u64 = 1500;

fn group(number: u16, when_short: WhenShort, priority: i32) -> Exposed {
    Exposed {
        group: GroupId(number),
        when_short,
        priority,
        came: 0,
        used_lately_bytes: 0,
        resident_bytes: 100,
        steady_growth_bytes_per_s: 0,
        is_held: false,
    }
}

fn moment(at_s: u64, available_bytes: u64) -> Moment {
    Moment {
        at: Duration::from_secs(at_s),
        available_bytes,
        wanted_bytes: WANTED,
        ample_bytes: AMPLE,
        is_exhausted: true,
        waiting_percent: None,
    }
}

/// Steps by second while the host is short, and what they do holds.
fn steps(mut groups: Vec<Exposed>, seconds: u64) -> Vec<(u64, Step)> {
    let mut resort = LastResort::default();
    let mut told = Vec::new();
    for at_s in 0..seconds {
        let step = resort.look(moment(at_s, WANTED - 1), &groups);
        match step {
            Some(Step::Slow(id) | Step::Freeze(id) | Step::Queue(id)) => {
                let held = groups.iter_mut().find(|group| group.group == id);
                held.expect("one of them").is_held = true;
            }
            Some(Step::Kill(id)) => groups.retain(|group| group.group != id),
            Some(Step::GoOn(_)) | None => {}
        }
        told.extend(step.map(|step| (at_s, step)));
    }
    told
}

/// One of those of whom the newest is frozen.
fn came(number: u16, came: u64) -> Exposed {
    Exposed {
        came,
        ..group(number, WhenShort::FreezeNewest, 0)
    }
}

#[test]
fn the_lowest_priority_freezes_first_then_the_idle_before_the_busy_then_the_newest() {
    let busy = Exposed {
        used_lately_bytes: 50,
        ..group(1, WhenShort::Freeze, 0)
    };
    let idle = Exposed {
        used_lately_bytes: 10,
        ..group(2, WhenShort::Freeze, 0)
    };
    let newest = Exposed {
        used_lately_bytes: 99,
        ..came(5, 4)
    };
    let high = group(3, WhenShort::Freeze, 5);
    let none = group(4, WhenShort::None, -9);
    let told = steps(vec![high, busy, idle, came(6, 2), newest, none], 60);
    let frozen = [(5, 2), (10, 1), (15, 5), (20, 6), (25, 3)];
    assert_eq!(
        told,
        frozen.map(|(at_s, number)| (at_s, Step::Freeze(GroupId(number))))
    );
}

#[test]
fn where_tasks_wait_for_memory_a_fifth_of_the_time_somebody_is_frozen_though_idle_memory_goes() {
    let still = |at_s, waiting_percent| Moment {
        is_exhausted: false,
        waiting_percent,
        ..moment(at_s, WANTED - 1)
    };
    let first_step = |waiting_percent| {
        let mut resort = LastResort::default();
        (0..30).find(|at_s| {
            let step = resort.look(still(*at_s, waiting_percent), &[came(1, 0), came(2, 1)]);
            assert!(step.is_none_or(|step| step == Step::Freeze(GroupId(2))));
            step.is_some()
        })
    };
    assert_eq!(first_step(Some(21.0)), Some(2));
    assert_eq!(first_step(Some(20.0)), None);
    assert_eq!(first_step(None), None);
    let mut resort = LastResort::default();
    for at_s in 0..30 {
        let ample = Moment {
            available_bytes: WANTED,
            ..still(at_s, Some(90.0))
        };
        assert_eq!(
            resort.look(ample, &[came(1, 0)]),
            None,
            "below limits of their own"
        );
    }
}

#[test]
fn who_comes_while_one_waits_waits_behind_it_until_memory_is_ample_unless_its_priority_is_higher() {
    let mut resort = LastResort::default();
    let first = came(1, 1);
    let held = |of: Exposed| Exposed {
        is_held: true,
        ..of
    };
    let frozen = (0..6).find_map(|at_s| resort.look(moment(at_s, 0), &[first]));
    assert_eq!(frozen, Some(Step::Freeze(first.group)));
    let first = held(first);
    let (before, newcomer) = (came(2, 0), came(3, 6));
    let high = Exposed {
        priority: 1,
        ..came(4, 6)
    };
    let other = Exposed {
        came: 7,
        ..group(5, WhenShort::Freeze, 0)
    };
    let going = |at_s, available_bytes| Moment {
        is_exhausted: false,
        ..moment(at_s, available_bytes)
    };
    let all = [first, before, newcomer, high, other];
    assert_eq!(resort.look(going(6, AMPLE), &all[..2]), None);
    let queued = Some(Step::Queue(newcomer.group));
    assert_eq!(resort.look(going(7, AMPLE - 1), &all), queued);
    let all = [first, before, held(newcomer), high, other];
    assert_eq!(resort.look(going(8, 0), &all), None);
    // Nobody waits behind nobody, nor behind who was frozen as it was idle.
    let goes = [came(1, 1), before, newcomer];
    assert_eq!(resort.look(going(9, 0), &goes), None);
    let idle = held(group(1, WhenShort::Freeze, 0));
    assert_eq!(resort.look(going(9, 0), &[idle, newcomer]), None);
    // Who came while memory was ample stays.
    assert_eq!(resort.look(going(10, AMPLE), &[first, newcomer]), None);
    assert_eq!(resort.look(going(11, 0), &[first, newcomer]), None);
}

#[test]
fn newcomers_that_wait_do_not_hold_up_what_is_done_with_others() {
    let mut resort = LastResort::default();
    let (first, second) = (came(1, 1), came(2, 0));
    let held = |of: Exposed| Exposed {
        is_held: true,
        ..of
    };
    let mut groups = vec![first, second];
    let mut told = Vec::new();
    for at_s in 0..16 {
        if at_s > 5 {
            groups.push(came(10 + at_s as u16, at_s));
        }
        let step = resort.look(moment(at_s, 0), &groups);
        for group in &mut groups {
            if step == Some(Step::Queue(group.group)) || step == Some(Step::Freeze(group.group)) {
                *group = held(*group);
            }
        }
        told.extend(step.filter(|step| matches!(step, Step::Freeze(_))));
    }
    assert_eq!(told.first(), Some(&Step::Freeze(first.group)));
    assert!(groups.iter().filter(|of| of.came > 5).all(|of| of.is_held));
}

#[test]
fn where_tasks_wait_for_memory_nobody_is_slowed_or_killed_and_nobody_frozen_while_one_is_slowed() {
    let still = |at_s| Moment {
        is_exhausted: false,
        waiting_percent: Some(90.0),
        ..moment(at_s, 0)
    };
    let slowed = Exposed {
        is_held: true,
        ..group(3, WhenShort::Slow, 0)
    };
    let groups = [group(1, WhenShort::Slow, 0), group(2, WhenShort::Kill, 0)];
    let mut resort = LastResort::default();
    for at_s in 0..30 {
        assert_eq!(resort.look(still(at_s), &groups), None);
        assert_eq!(resort.look(still(at_s), &[slowed, came(4, 1)]), None);
    }
}

#[test]
fn who_goes_on_in_vain_makes_the_next_wait_twice_as_long() {
    let mut resort = LastResort::default();
    let mut group = came(1, 1);
    let mut went_on_at = Vec::new();
    let mut ample_at = 10;
    for at_s in 0..210 {
        // Whoever goes on makes the host short after 5 s, until it stops.
        let is_short = !group.is_held && at_s >= ample_at;
        let available_bytes = if is_short { 0 } else { AMPLE };
        match resort.look(moment(at_s, available_bytes), &[group]) {
            Some(Step::Freeze(_)) => group.is_held = true,
            Some(Step::GoOn(_)) => {
                (group.is_held, ample_at) = (false, at_s + 5);
                went_on_at.push(at_s);
            }
            _ => {}
        }
    }
    let waits: Vec<u64> = went_on_at.windows(2).map(|two| two[1] - two[0]).collect();
    // 5 s until it is short, 5 s until it is frozen, a second later memory is ample.
    assert_eq!(waits, [31, 51, 91], "{went_on_at:?}");
}

#[test]
fn the_one_that_grows_without_a_pause_goes_before_those_that_hold_still() {
    let leaks = |number, when_short| Exposed {
        steady_growth_bytes_per_s: 20 << 20,
        used_lately_bytes: 90,
        ..group(number, when_short, 0)
    };
    let large = Exposed {
        resident_bytes: 500,
        ..group(3, WhenShort::Kill, 0)
    };
    let idle = group(1, WhenShort::Freeze, 0);
    let low = group(5, WhenShort::Freeze, -1);
    let told = steps(vec![idle, leaks(2, WhenShort::Freeze), low], 16);
    let frozen = [5, 2, 1].map(|number| Step::Freeze(GroupId(number)));
    assert_eq!(told.into_iter().map(|of| of.1).collect::<Vec<_>>(), frozen);
    let told = steps(vec![large, leaks(4, WhenShort::Kill)], 6);
    assert_eq!(told, [(5, Step::Kill(GroupId(4)))]);
}

#[test]
fn those_to_slow_come_first_and_of_them_the_one_that_grows_else_the_largest() {
    let large = Exposed {
        resident_bytes: 500,
        ..group(1, WhenShort::Slow, 0)
    };
    let leaks = Exposed {
        steady_growth_bytes_per_s: 20 << 20,
        ..group(2, WhenShort::Slow, 0)
    };
    let low = group(3, WhenShort::Slow, -1);
    let freeze = group(4, WhenShort::Freeze, -9);
    let kill = group(5, WhenShort::Kill, -9);
    let told = steps(vec![kill, freeze, large, leaks, low], 60);
    let slow = |number| Step::Slow(GroupId(number));
    assert_eq!(
        told,
        [
            (5, slow(3)),
            (10, slow(2)),
            (15, slow(1)),
            (20, Step::Freeze(GroupId(4))),
            (25, Step::Kill(GroupId(5)))
        ]
    );
}

#[test]
fn one_is_killed_at_a_time_when_nobody_is_left_to_freeze() {
    let large = Exposed {
        resident_bytes: 500,
        ..group(1, WhenShort::Kill, 0)
    };
    let small = group(2, WhenShort::Kill, 0);
    let high = group(3, WhenShort::Kill, 7);
    let frozen = group(4, WhenShort::Freeze, 9);
    let told = steps(vec![high, small, large, frozen], 60);
    let kill = |number| Step::Kill(GroupId(number));
    assert_eq!(
        told,
        [
            (5, Step::Freeze(GroupId(4))),
            (10, kill(1)),
            (20, kill(2)),
            (30, kill(3))
        ]
    );
}

#[test]
fn the_one_that_grows_without_a_pause_is_held_back_before_swap_is_full_of_what_it_leaves_behind() {
    let leaks = Exposed {
        steady_growth_bytes_per_s: 20 << 20,
        ..group(2, WhenShort::Freeze, 0)
    };
    let holds_still = group(1, WhenShort::Freeze, -1);
    let mut resort = LastResort::default();
    let mut told = Vec::new();
    for at_s in 0..30 {
        let going = Moment {
            is_exhausted: false,
            // At 3 s reclaim was ahead of it.
            ..moment(at_s, WANTED - u64::from(at_s != 3))
        };
        let is_held = !told.is_empty();
        let step = resort.look(going, &[holds_still, Exposed { is_held, ..leaks }]);
        told.extend(step.map(|step| (at_s, step)));
    }
    assert_eq!(told, [(14, Step::Freeze(GroupId(2)))]);
}

#[test]
fn while_idle_memory_goes_or_there_is_enough_nothing_happens() {
    let groups = [group(1, WhenShort::Kill, 0)];
    let mut resort = LastResort::default();
    for at_s in 0..20 {
        // Not five seconds in a row.
        let available = if at_s % 4 == 0 { WANTED } else { 0 };
        assert_eq!(resort.look(moment(at_s, available), &groups), None);
    }
    for at_s in 20..40 {
        let going = Moment {
            is_exhausted: false,
            ..moment(at_s, 0)
        };
        assert_eq!(resort.look(going, &groups), None);
    }
}

#[test]
fn who_is_held_goes_on_one_by_one_after_ten_seconds_of_half_as_much_again() {
    for when_short in [WhenShort::Slow, WhenShort::Freeze] {
        let held = |number, at_s, priority| Exposed {
            is_held: true,
            when_short,
            priority,
            ..came(number, at_s)
        };
        let mut groups = vec![held(1, 3, 0), held(2, 2, 0), held(3, 4, 1), held(4, 1, 0)];
        let mut resort = LastResort::default();
        let mut told = Vec::new();
        for at_s in 0..60 {
            let ample = WANTED * 3 / 2;
            let available = if [5, 24].contains(&at_s) {
                ample - 1
            } else {
                ample
            };
            let step = resort.look(moment(at_s, available), &groups);
            if let Some(Step::GoOn(id)) = step {
                groups.retain(|group| group.group != id);
            }
            told.extend(step.map(|step| (at_s, step)));
        }
        let went_on = [(16, 3), (21, 4), (35, 2), (40, 1)];
        assert_eq!(
            told,
            went_on.map(|(at_s, number)| (at_s, Step::GoOn(GroupId(number))))
        );
    }
}

proptest! {
    #[test]
    fn nobody_is_touched_whose_rule_does_not_say_so_and_kills_are_far_apart(
        looks in proptest::collection::vec((0u64..4, 0u64..3000, any::<bool>(), 0u8..50), 1..200),
        rules in proptest::collection::vec((0u8..5, -2i32..3, 0u64..100, 0u64..2, 0u64..200), 1..6),
    ) {
        let kinds = [WhenShort::None, WhenShort::Slow, WhenShort::Freeze, WhenShort::FreezeNewest, WhenShort::Kill];
        let mut groups: Vec<Exposed> = Vec::new();
        for (number, (kind, priority, used, growth, came)) in rules.iter().enumerate() {
            groups.push(Exposed {
                used_lately_bytes: *used,
                steady_growth_bytes_per_s: *growth,
                came: *came,
                ..group(number as u16 + 1, kinds[usize::from(*kind)], *priority)
            });
        }
        let mut resort = LastResort::default();
        let (mut at_s, mut last_kill) = (0, None);
        for (passed_s, available, is_exhausted, waiting) in looks {
            at_s += passed_s;
            let waiting_percent = Some(f64::from(waiting));
            let now = Moment { is_exhausted, waiting_percent, ..moment(at_s, available) };
            // Who has not come yet is not there.
            let there: Vec<Exposed> = groups.iter().filter(|of| of.came <= at_s).copied().collect();
            let step = resort.look(now, &there);
            // Nobody else while idle memory goes, and work is done.
            let is_still = waiting > 20;
            let grows = |group: &Exposed| group.steady_growth_bytes_per_s > 0;
            let may_be_meant = |group: &Exposed| {
                is_exhausted || grows(group) || is_still && group.when_short.freezes()
            };
            let is_left = |is_meant: fn(WhenShort) -> bool| {
                let left = there.iter().filter(|group| grows(group));
                left.filter(|group| !group.is_held).any(|group| is_meant(group.when_short))
            };
            let slows = |when_short| when_short == WhenShort::Slow;
            let (to_slow, to_freeze) = (is_left(slows), is_left(WhenShort::freezes));
            match step {
                Some(Step::Slow(id) | Step::Freeze(id)) => {
                    prop_assert!(available < WANTED);
                    let slows = step == Some(Step::Slow(id));
                    prop_assert!(slows || is_still || !to_slow, "slow first");
                    let found = groups.iter_mut().find(|group| group.group == id).expect("one");
                    let is_asked = match slows {
                        true => found.when_short == WhenShort::Slow,
                        false => found.when_short.freezes(),
                    };
                    prop_assert!(is_asked);
                    prop_assert!(!found.is_held && may_be_meant(found));
                    found.is_held = true;
                }
                Some(Step::Kill(id)) => {
                    prop_assert!(available < WANTED);
                    prop_assert!(!to_slow && !to_freeze, "slow and freeze first");
                    let found = groups.iter().find(|group| group.group == id).expect("one");
                    prop_assert!(is_exhausted || grows(found));
                    prop_assert_eq!(found.when_short, WhenShort::Kill);
                    prop_assert!(last_kill.is_none_or(|last| at_s - last >= 10));
                    last_kill = Some(at_s);
                    groups.retain(|group| group.group != id);
                }
                Some(Step::Queue(id)) => {
                    prop_assert!(available < AMPLE);
                    let waits = |of: &Exposed| of.when_short == WhenShort::FreezeNewest;
                    prop_assert!(there.iter().any(|of| of.is_held && waits(of)));
                    let found = groups.iter_mut().find(|group| group.group == id).expect("one");
                    prop_assert!(!found.is_held && waits(found));
                    found.is_held = true;
                }
                Some(Step::GoOn(id)) => {
                    prop_assert!(available >= AMPLE);
                    let found = groups.iter_mut().find(|group| group.group == id).expect("one");
                    prop_assert!(found.is_held);
                    found.is_held = false;
                }
                None => {}
            }
        }
    }
}
