//! What is done with whole groups where a host stays short of memory after all that is idle went, or as one group grows faster than that.
//!
//! ```text
//!   short for 5 s in a row, and nothing idle is left  -> one group is slowed: of the lowest priority, the one that grows
//!                                                        without a pause, else the largest
//!   as much, and nobody is left to slow               -> one group is frozen: of the lowest priority, the one that grows
//!                                                        without a pause, else the one that was idle longest; what it
//!                                                        holds can go then
//!   as much, and nobody is left to freeze             -> one group is killed: of the lowest priority, the one that grows
//!                                                        without a pause, else the largest; one in 10 s at most
//!   short for 10 s in a row, though idle memory goes  -> the same with groups that grow without a pause, and with no other
//!   half as much again as is to be free, for 10 s     -> all that were slowed or frozen go on as before
//! ```
//!
//! Each step starts the time anew: what it frees is seen before the next. A group that grows without bound leaves idle memory behind, of
//! which swap gets full, so nobody waits until none is left.
//!
//! **Owns** that decision. **Does not own** what counts as short, who may be slowed, nor how (the host).
//!
//! **Invariants**
//! - I1: nobody is slowed, frozen or killed whose rule does not say so.
//! - I2: one group at a time.
//! - I3: the same looks give the same decisions.

use std::cmp::Reverse;
use std::time::Duration;
use strata_lru::GroupId;

/// Short for so long in a row: what is reclaimed shows by then.
const SHORT_FOR: Duration = Duration::from_secs(5);
/// As much where idle memory goes: reclaim that gets ahead of what grows shows by then.
const OUTGROWN_FOR: Duration = Duration::from_secs(10);
/// Half as much again as is to be free, for so long in a row: what goes on does not make the host short at once.
const AMPLE_FOR: Duration = Duration::from_secs(10);
/// From one end of a group to the next: what it held is free by then.
const KILL_EVERY: Duration = Duration::from_secs(10);

/// What may be done with a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenShort {
    /// Nothing: it waits for the kernel's reclaim.
    #[default]
    None,
    /// It grows more slowly, until there is memory again.
    Slow,
    /// It is stopped, until there is memory again.
    Freeze,
    /// It is ended.
    Kill,
}

/// The host at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// On a clock that does not go back.
    pub at: Duration,
    /// What is available.
    pub available_bytes: u64,
    /// What is to be.
    pub wanted_bytes: u64,
    /// Whether nothing idle is left to take.
    pub is_exhausted: bool,
}

/// A group of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposed {
    /// Who it is.
    pub group: GroupId,
    /// What may be done with it.
    pub when_short: WhenShort,
    /// Those of a higher one survive longer.
    pub priority: i32,
    /// How much of it was used lately.
    pub used_lately_bytes: u64,
    /// What it holds.
    pub resident_bytes: u64,
    /// How fast it grows without a pause.
    pub steady_growth_bytes_per_s: u64,
    /// The group is slowed or frozen now.
    pub is_held: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This one is slowed.
    Slow(GroupId),
    /// This one stops.
    Freeze(GroupId),
    /// All that were slowed or stopped go on as before.
    GoOn,
    /// This one ends.
    Kill(GroupId),
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastResort {
    short_since: Option<Duration>,
    exhausted_since: Option<Duration>,
    ample_since: Option<Duration>,
    killed_at: Option<Duration>,
}

impl LastResort {
    /// What is to be done now; to be asked about once a second.
    pub fn look(&mut self, now: Moment, groups: &[Exposed]) -> Option<Step> {
        let is_short = now.available_bytes < now.wanted_bytes;
        let is_ample = now.available_bytes >= ample_bytes(now.wanted_bytes);
        let since = |since: Option<Duration>, is_so: bool| is_so.then(|| since.unwrap_or(now.at));
        self.short_since = since(self.short_since, is_short);
        self.exhausted_since = since(self.exhausted_since, is_short && now.is_exhausted);
        if !is_ample {
            self.ample_since = None;
        }
        if is_ample && groups.iter().any(|group| group.is_held) {
            let since = *self.ample_since.get_or_insert(now.at);
            return has_passed(since, AMPLE_FOR, now.at).then_some(Step::GoOn);
        }
        let is_long = |since: Option<Duration>, time| {
            since.is_some_and(|since| has_passed(since, time, now.at))
        };
        let is_exhausted = is_long(self.exhausted_since, SHORT_FOR);
        if !is_exhausted && !is_long(self.short_since, OUTGROWN_FOR) {
            return None;
        }
        let is_meant = |group: &&Exposed| is_exhausted || group.steady_growth_bytes_per_s > 0;
        let groups: Vec<Exposed> = groups.iter().filter(is_meant).copied().collect();
        let step = self.step(now.at, &groups)?;
        self.short_since = Some(now.at);
        self.exhausted_since = self.exhausted_since.map(|_| now.at);
        if matches!(step, Step::Kill(_)) {
            self.killed_at = Some(now.at);
        }
        Some(step)
    }

    fn step(&self, at: Duration, groups: &[Exposed]) -> Option<Step> {
        let of = |when_short| {
            let asked = groups
                .iter()
                .filter(move |group| group.when_short == when_short);
            asked.filter(|group| !group.is_held)
        };
        let largest_first = |group: &&Exposed| {
            let growth = Reverse(group.steady_growth_bytes_per_s);
            (group.priority, growth, Reverse(group.resident_bytes))
        };
        if let Some(group) = of(WhenShort::Slow).min_by_key(largest_first) {
            return Some(Step::Slow(group.group));
        }
        let idle_first = |group: &&Exposed| {
            let growth = Reverse(group.steady_growth_bytes_per_s);
            (group.priority, growth, group.used_lately_bytes)
        };
        if let Some(group) = of(WhenShort::Freeze).min_by_key(idle_first) {
            return Some(Step::Freeze(group.group));
        }
        if self
            .killed_at
            .is_some_and(|last| !has_passed(last, KILL_EVERY, at))
        {
            return None;
        }
        let group = of(WhenShort::Kill).min_by_key(largest_first)?;
        Some(Step::Kill(group.group))
    }
}

/// With so much available what is held goes on: less than where reclaim ends, which is hardly passed.
fn ample_bytes(wanted_bytes: u64) -> u64 {
    wanted_bytes.saturating_add(wanted_bytes / 2)
}

fn has_passed(since: Duration, time: Duration, at: Duration) -> bool {
    at.saturating_sub(since) >= time
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WANTED: u64 = 1000;

    fn group(number: u16, when_short: WhenShort, priority: i32) -> Exposed {
        Exposed {
            group: GroupId(number),
            when_short,
            priority,
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
            is_exhausted: true,
        }
    }

    /// Steps by second while the host is short, and what they do holds.
    fn steps(mut groups: Vec<Exposed>, seconds: u64) -> Vec<(u64, Step)> {
        let mut resort = LastResort::default();
        let mut told = Vec::new();
        for at_s in 0..seconds {
            let step = resort.look(moment(at_s, WANTED - 1), &groups);
            match step {
                Some(Step::Slow(id) | Step::Freeze(id)) => {
                    let held = groups.iter_mut().find(|group| group.group == id);
                    held.expect("one of them").is_held = true;
                }
                Some(Step::Kill(id)) => groups.retain(|group| group.group != id),
                Some(Step::GoOn) | None => {}
            }
            told.extend(step.map(|step| (at_s, step)));
        }
        told
    }

    #[test]
    fn the_lowest_priority_freezes_first_and_the_idle_before_the_busy() {
        let busy = Exposed {
            used_lately_bytes: 50,
            ..group(1, WhenShort::Freeze, 0)
        };
        let idle = Exposed {
            used_lately_bytes: 10,
            ..group(2, WhenShort::Freeze, 0)
        };
        let high = group(3, WhenShort::Freeze, 5);
        let none = group(4, WhenShort::None, -9);
        let told = steps(vec![high, busy, idle, none], 60);
        let freeze = |number| Step::Freeze(GroupId(number));
        assert_eq!(told, [(5, freeze(2)), (10, freeze(1)), (15, freeze(3))]);
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
    fn the_one_that_grows_without_a_pause_is_held_back_before_swap_is_full_of_what_it_leaves_behind()
     {
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
    fn what_is_held_goes_on_after_ten_seconds_of_half_as_much_again() {
        for when_short in [WhenShort::Slow, WhenShort::Freeze] {
            let held = Exposed {
                is_held: true,
                ..group(1, when_short, 0)
            };
            let mut resort = LastResort::default();
            let mut told = Vec::new();
            for at_s in 0..30 {
                let ample = WANTED * 3 / 2;
                let available = if at_s == 5 { ample - 1 } else { ample };
                let step = resort.look(moment(at_s, available), &[held]);
                told.extend(step.map(|step| (at_s, step)));
            }
            assert_eq!(told.first(), Some(&(16, Step::GoOn)), "{told:?}");
        }
    }

    proptest! {
        #[test]
        fn nobody_is_touched_whose_rule_does_not_say_so_and_kills_are_far_apart(
            looks in proptest::collection::vec((0u64..4, 0u64..3000, any::<bool>()), 1..200),
            rules in proptest::collection::vec((0u8..4, -2i32..3, 0u64..100, 0u64..2), 1..6),
        ) {
            let kinds = [WhenShort::None, WhenShort::Slow, WhenShort::Freeze, WhenShort::Kill];
            let mut groups: Vec<Exposed> = Vec::new();
            for (number, (kind, priority, used, growth)) in rules.iter().enumerate() {
                groups.push(Exposed {
                    used_lately_bytes: *used,
                    steady_growth_bytes_per_s: *growth,
                    ..group(number as u16 + 1, kinds[usize::from(*kind)], *priority)
                });
            }
            let mut resort = LastResort::default();
            let (mut at_s, mut last_kill) = (0, None);
            for (passed_s, available, is_exhausted) in looks {
                at_s += passed_s;
                let now = Moment { is_exhausted, ..moment(at_s, available) };
                let step = resort.look(now, &groups);
                // Nobody else while idle memory goes.
                let grows = |group: &Exposed| group.steady_growth_bytes_per_s > 0;
                let grows_or_exhausted = |group: &Exposed| is_exhausted || grows(group);
                let is_left = |when_short| {
                    let left = groups.iter().filter(|group| grows(group));
                    left.filter(|group| !group.is_held).any(|group| group.when_short == when_short)
                };
                let (to_slow, to_freeze) = (is_left(WhenShort::Slow), is_left(WhenShort::Freeze));
                match step {
                    Some(Step::Slow(id) | Step::Freeze(id)) => {
                        prop_assert!(available < WANTED);
                        let slows = step == Some(Step::Slow(id));
                        prop_assert!(slows || !to_slow, "slow first");
                        let asked = if slows { WhenShort::Slow } else { WhenShort::Freeze };
                        let found = groups.iter_mut().find(|group| group.group == id).expect("one");
                        prop_assert_eq!(found.when_short, asked);
                        prop_assert!(!found.is_held && grows_or_exhausted(found));
                        found.is_held = true;
                    }
                    Some(Step::Kill(id)) => {
                        prop_assert!(available < WANTED);
                        prop_assert!(!to_slow && !to_freeze, "slow and freeze first");
                        let found = groups.iter().find(|group| group.group == id).expect("one");
                        prop_assert!(grows_or_exhausted(found));
                        prop_assert_eq!(found.when_short, WhenShort::Kill);
                        prop_assert!(last_kill.is_none_or(|last| at_s - last >= 10));
                        last_kill = Some(at_s);
                        groups.retain(|group| group.group != id);
                    }
                    Some(Step::GoOn) => {
                        prop_assert!(available >= WANTED * 3 / 2);
                        groups.iter_mut().for_each(|group| group.is_held = false);
                    }
                    None => {}
                }
            }
        }
    }
}
