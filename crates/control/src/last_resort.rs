//! What is done with whole groups where a host stays short of memory after all that is idle went, or as one group grows faster than that.
//!
//! ```text
//!   short for 5 s in a row, and nothing idle is left  -> one group is slowed: of the lowest priority, the one that grows
//!                                                        without a pause, else the largest
//!   as much, and nobody is left to slow               -> one group is frozen: of the lowest priority, the one that grows
//!                                                        without a pause, else the one that was idle longest, else of those
//!                                                        whose rule says so the newest; what it holds can go then
//!   as much, and nobody is left to freeze             -> one group is killed: of the lowest priority, the one that grows
//!                                                        without a pause, else the largest; one in 10 s at most
//!   short for 2 s in a row, and tasks wait for memory
//!   for a fifth of the time, though idle memory goes  -> the same: what goes is in use, and comes back
//!   short for 10 s in a row, though idle memory goes  -> the same with groups that grow without a pause, and with no other
//!   short, and one is frozen that was the newest      -> who came after that is frozen at once: it waits its turn
//!   half as much again as is to be free, for 10 s     -> one goes on as before: of the highest priority, the one that came
//!                                                        first; after it one in 5 s, as long as there is so much
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
/// While tasks of the host wait for memory for more of the time, percent, what is taken is in use: most hosts are below 1, and reclaim of
/// idle memory that gets ahead of growth leaves them below 10.
const STANDS_STILL_PERCENT: f64 = 20.0;
/// As much where the host stands still: that share is one of the last ten seconds already.
const STOOD_STILL_FOR: Duration = Duration::from_secs(2);
/// Half as much again as is to be free, for so long in a row: what goes on does not make the host short at once.
const AMPLE_FOR: Duration = Duration::from_secs(10);
/// From one that goes on to the next: what the first takes shows by then.
const GO_ON_EVERY: Duration = Duration::from_secs(5);
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
    /// It is stopped as long as those that came before it need all memory.
    FreezeNewest,
    /// It is ended.
    Kill,
}

/// The host at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// On a clock that does not go back.
    pub at: Duration,
    /// What is available.
    pub available_bytes: u64,
    /// What is to be.
    pub wanted_bytes: u64,
    /// Whether nothing idle is left to take.
    pub is_exhausted: bool,
    /// Share of the last ten seconds in which some task waited for memory; `None`: the kernel does not tell.
    pub waiting_percent: Option<f64>,
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
    /// When it was seen first.
    pub came_at: Duration,
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
    /// This one, which was slowed or stopped, goes on as before.
    GoOn(GroupId),
    /// This one ends.
    Kill(GroupId),
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastResort {
    short_since: Option<Duration>,
    exhausted_since: Option<Duration>,
    still_since: Option<Duration>,
    ample_since: Option<Duration>,
    /// Who came later waits behind those who are frozen: since the first of them was, or one went on.
    queue_since: Option<Duration>,
    killed_at: Option<Duration>,
}

impl WhenShort {
    /// Whether it says that a group is stopped.
    pub fn freezes(self) -> bool {
        matches!(self, WhenShort::Freeze | WhenShort::FreezeNewest)
    }
}

impl LastResort {
    /// What is to be done now; to be asked about once a second.
    pub fn look(&mut self, now: Moment, groups: &[Exposed]) -> Option<Step> {
        let is_short = now.available_bytes < now.wanted_bytes;
        let is_still = is_short && now.waiting_percent > Some(STANDS_STILL_PERCENT);
        let is_ample = now.available_bytes >= ample_bytes(now.wanted_bytes);
        let since = |since: Option<Duration>, is_so: bool| is_so.then(|| since.unwrap_or(now.at));
        self.short_since = since(self.short_since, is_short);
        self.exhausted_since = since(self.exhausted_since, is_short && now.is_exhausted);
        self.still_since = since(self.still_since, is_still);
        let waits = |group: &Exposed| group.when_short == WhenShort::FreezeNewest;
        let first_held = (groups.iter().filter(|group| group.is_held))
            .min_by_key(|group| (Reverse(group.priority), group.came_at));
        let held = groups.iter().filter(|group| group.is_held);
        let first_waits = (held.filter(|group| waits(group))).max_by_key(|group| group.priority);
        if !is_ample {
            self.ample_since = None;
        }
        if is_ample && let Some(first) = first_held {
            let since = *self.ample_since.get_or_insert(now.at);
            let may_go_on = has_passed(since, AMPLE_FOR, now.at);
            if may_go_on {
                self.ample_since = Some(now.at + GO_ON_EVERY - AMPLE_FOR);
                self.queue_since = self.queue_since.map(|_| now.at);
            }
            return may_go_on.then_some(Step::GoOn(first.group));
        }
        let is_long = |since: Option<Duration>, time| {
            since.is_some_and(|since| has_passed(since, time, now.at))
        };
        let is_exhausted =
            is_long(self.exhausted_since, SHORT_FOR) || is_long(self.still_since, STOOD_STILL_FOR);
        let is_outgrown = is_long(self.short_since, OUTGROWN_FOR);
        let waits_its_turn = |group: &Exposed| {
            let is_no_higher = first_waits.is_some_and(|first| group.priority <= first.priority);
            let is_behind = self.queue_since.is_some_and(|since| group.came_at > since);
            is_short && is_no_higher && waits(group) && is_behind
        };
        let is_meant = |group: &&Exposed| {
            is_exhausted
                || is_outgrown && group.steady_growth_bytes_per_s > 0
                || waits_its_turn(group)
        };
        let groups: Vec<Exposed> = groups.iter().filter(is_meant).copied().collect();
        let step = self.step(now.at, &groups)?;
        self.short_since = Some(now.at);
        self.exhausted_since = self.exhausted_since.map(|_| now.at);
        self.still_since = self.still_since.map(|_| now.at);
        match step {
            Step::Freeze(_) if first_waits.is_none() => self.queue_since = Some(now.at),
            Step::Kill(_) => self.killed_at = Some(now.at),
            Step::Freeze(_) | Step::Slow(_) | Step::GoOn(_) => {}
        }
        Some(step)
    }

    fn step(&self, at: Duration, groups: &[Exposed]) -> Option<Step> {
        let free = || groups.iter().filter(|group| !group.is_held);
        let of = |when_short| free().filter(move |group| group.when_short == when_short);
        let largest_first = |group: &&Exposed| {
            let growth = Reverse(group.steady_growth_bytes_per_s);
            (group.priority, growth, Reverse(group.resident_bytes))
        };
        if let Some(group) = of(WhenShort::Slow).min_by_key(largest_first) {
            return Some(Step::Slow(group.group));
        }
        let idle_or_newest_first = |group: &&Exposed| {
            let growth = Reverse(group.steady_growth_bytes_per_s);
            let came_at = (group.when_short == WhenShort::FreezeNewest).then_some(group.came_at);
            let came = came_at.map(Reverse);
            (group.priority, growth, came, group.used_lately_bytes)
        };
        let to_freeze = free().filter(|group| group.when_short.freezes());
        if let Some(group) = to_freeze.min_by_key(idle_or_newest_first) {
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
            came_at: Duration::ZERO,
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
                Some(Step::Slow(id) | Step::Freeze(id)) => {
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

    /// One to freeze that came so many seconds after the start.
    fn came(number: u16, at_s: u64) -> Exposed {
        Exposed {
            came_at: Duration::from_secs(at_s),
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
    fn where_tasks_wait_for_memory_a_fifth_of_the_time_somebody_is_frozen_though_idle_memory_goes()
    {
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
    fn who_comes_while_somebody_is_frozen_waits_behind_unless_its_priority_is_higher_or_there_is_memory()
     {
        let mut resort = LastResort::default();
        let mut first = came(1, 0);
        assert_eq!(
            (0..6).find_map(|at_s| resort.look(moment(at_s, 0), &[first])),
            Some(Step::Freeze(first.group))
        );
        first.is_held = true;
        let before = came(2, 4);
        let newcomer = came(3, 6);
        let high = Exposed {
            priority: 1,
            ..came(4, 6)
        };
        let slow = Exposed {
            when_short: WhenShort::Slow,
            ..came(5, 6)
        };
        let going = |at_s, available_bytes| Moment {
            is_exhausted: false,
            ..moment(at_s, available_bytes)
        };
        let all = [first, before, newcomer, high, slow];
        assert_eq!(resort.look(going(6, WANTED), &all), None);
        assert_eq!(
            resort.look(going(7, 0), &all),
            Some(Step::Freeze(newcomer.group))
        );
        let all = all.map(|of| Exposed {
            is_held: of.is_held || of.group == newcomer.group,
            ..of
        });
        assert_eq!(resort.look(going(8, 0), &all), None);
        // Nobody waits behind nobody, nor behind who was frozen as it was idle.
        let goes = all.map(|of| Exposed {
            is_held: false,
            ..of
        });
        assert_eq!(resort.look(going(9, 0), &goes), None);
        let idle = all.map(|of| match of.is_held {
            true => Exposed {
                when_short: WhenShort::Freeze,
                ..of
            },
            false => of,
        });
        assert_eq!(resort.look(going(9, 0), &idle), None);
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
            for (number, (kind, priority, used, growth, came_at_s)) in rules.iter().enumerate() {
                groups.push(Exposed {
                    used_lately_bytes: *used,
                    steady_growth_bytes_per_s: *growth,
                    came_at: Duration::from_secs(*came_at_s),
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
                let there: Vec<Exposed> = groups.iter().filter(|of| of.came_at <= now.at).copied().collect();
                let step = resort.look(now, &there);
                // Nobody else while idle memory goes, and work is done, but who comes while others wait.
                let is_full = is_exhausted || waiting > 20;
                let waits = there.iter().any(|of| of.is_held);
                let grows = |group: &Exposed| group.steady_growth_bytes_per_s > 0;
                let grows_or_exhausted = |group: &Exposed| is_full || grows(group);
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
                        prop_assert!(slows || waits || !to_slow, "slow first");
                        let found = groups.iter_mut().find(|group| group.group == id).expect("one");
                        let is_asked = match slows {
                            true => found.when_short == WhenShort::Slow,
                            false => found.when_short.freezes(),
                        };
                        prop_assert!(is_asked);
                        prop_assert!(!found.is_held && (waits && !slows || grows_or_exhausted(found)));
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
                    Some(Step::GoOn(id)) => {
                        prop_assert!(available >= WANTED * 3 / 2);
                        let found = groups.iter_mut().find(|group| group.group == id).expect("one");
                        prop_assert!(found.is_held);
                        found.is_held = false;
                    }
                    None => {}
                }
            }
        }
    }
}
