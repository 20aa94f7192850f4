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
//!   for a fifth of the time, though idle memory goes  -> one is frozen as above, unless somebody is slowed, who waits by design:
//!                                                        what goes is in use, and comes back
//!   short for 10 s in a row, though idle memory goes  -> the same as above with groups that grow without a pause, and no other
//!   one waits whose rule says "the newest", until     -> who comes meanwhile is frozen at once, behind it, if its priority is no
//!   there is ample memory                                higher
//!   ample memory for 10 s, half way from where the    -> one goes on as before: of the highest priority, the one that came
//!   host is short to where reclaim ends                  first; after it one in 5 s, as long as memory is ample
//! ```
//!
//! Each step starts the time anew: what it frees is seen before the next. A group that grows without bound leaves idle memory behind, of
//! which swap gets full, so nobody waits until none is left. Where one that went on makes the host short within a minute, ample memory has to
//! last twice as long before the next goes on, 160 s at most.
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
/// As much where the host stands still, at first: that share is one of the last ten seconds already.
const STOOD_STILL_FOR: Duration = Duration::from_secs(2);
/// Ample memory for so long in a row: what goes on does not make the host short at once.
const AMPLE_FOR: Duration = Duration::from_secs(10);
/// If it does within so long, it was in vain.
const IN_VAIN_WITHIN: Duration = Duration::from_secs(60);
/// Ample memory has to last up to so many times twice as long then.
const NR_DOUBLINGS_MAX: u32 = 4;
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
    /// With so much who is held back may go on.
    pub ample_bytes: u64,
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
    /// In which order groups were made: of a later one it is larger.
    pub came: u64,
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
    /// This one stops, as others wait already.
    Queue(GroupId),
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
    went_on_at: Option<Duration>,
    /// So many that went on made the host short again.
    nr_in_vain: u32,
    /// Who came later than that waits behind those who wait.
    queues_after: u64,
    killed_at: Option<Duration>,
}

impl WhenShort {
    /// Whether it says that a group is stopped.
    pub fn freezes(self) -> bool {
        matches!(self, WhenShort::Freeze | WhenShort::FreezeNewest)
    }
}

impl LastResort {
    /// What is to be done now; to be asked at each look at the host.
    pub fn look(&mut self, now: Moment, groups: &[Exposed]) -> Option<Step> {
        let is_short = now.available_bytes < now.wanted_bytes;
        let is_still = is_short && now.waiting_percent > Some(STANDS_STILL_PERCENT);
        let since = |since: Option<Duration>, is_so: bool| is_so.then(|| since.unwrap_or(now.at));
        self.short_since = since(self.short_since, is_short);
        self.exhausted_since = since(self.exhausted_since, is_short && now.is_exhausted);
        self.still_since = since(self.still_since, is_still);
        let held = || groups.iter().filter(|group| group.is_held);
        self.ample_since = since(self.ample_since, now.available_bytes >= now.ample_bytes);
        if let Some(since) = self.ample_since
            && held().next().is_some()
        {
            return self.go_on(now.at, since, groups).map(Step::GoOn);
        }
        if let Some(group) = self.who_queues(groups) {
            return Some(Step::Queue(group));
        }
        let is_long = |since: Option<Duration>, time| {
            since.is_some_and(|since| has_passed(since, time, now.at))
        };
        let is_exhausted = is_long(self.exhausted_since, SHORT_FOR);
        let is_outgrown = is_long(self.short_since, OUTGROWN_FOR);
        // Tasks of a group that is slowed wait for memory, too.
        let nobody_is_slowed = held().all(|group| group.when_short != WhenShort::Slow);
        let stands_still = nobody_is_slowed && is_long(self.still_since, STOOD_STILL_FOR);
        let is_meant = |group: &&Exposed| {
            let grows = group.steady_growth_bytes_per_s > 0;
            let freezes = group.when_short.freezes();
            is_exhausted || is_outgrown && grows || stands_still && freezes
        };
        let meant: Vec<Exposed> = groups.iter().filter(is_meant).copied().collect();
        let step = self.step(now.at, &meant)?;
        self.short_since = Some(now.at);
        self.exhausted_since = self.exhausted_since.map(|_| now.at);
        // That share tells of the step no sooner.
        let next = now.at + SHORT_FOR - STOOD_STILL_FOR;
        self.still_since = self.still_since.map(|_| next);
        match step {
            Step::Kill(_) => self.killed_at = Some(now.at),
            _ => match self.went_on_at.take() {
                Some(then) if has_passed(then, IN_VAIN_WITHIN, now.at) => self.nr_in_vain = 0,
                Some(_) => self.nr_in_vain = NR_DOUBLINGS_MAX.min(self.nr_in_vain + 1),
                None => {}
            },
        }
        let nobody_waits = !held().any(|group| group.when_short == WhenShort::FreezeNewest);
        if matches!(step, Step::Freeze(_)) && nobody_waits {
            self.queues_after = groups.iter().map(|group| group.came).max().unwrap_or(0);
        }
        Some(step)
    }

    /// Who goes on, where memory has been ample since then.
    fn go_on(&mut self, at: Duration, since: Duration, groups: &[Exposed]) -> Option<GroupId> {
        let free = groups.iter().filter(|group| !group.is_held);
        // Who is there has what it needs.
        self.queues_after = (free.map(|group| group.came)).fold(self.queues_after, u64::max);
        let lasts = AMPLE_FOR * 2u32.pow(self.nr_in_vain);
        let pause = |last| has_passed(last, GO_ON_EVERY, at);
        if !has_passed(since, lasts, at) || !self.went_on_at.is_none_or(pause) {
            return None;
        }
        let held = groups.iter().filter(|group| group.is_held);
        let first = held.min_by_key(|group| (Reverse(group.priority), group.came))?;
        self.went_on_at = Some(at);
        self.queues_after = self.queues_after.max(first.came);
        Some(first.group)
    }

    /// Who came while others wait for memory, and is no more important.
    fn who_queues(&self, groups: &[Exposed]) -> Option<GroupId> {
        let of_queue = |group: &&Exposed| group.when_short == WhenShort::FreezeNewest;
        let (waiting, free): (Vec<&Exposed>, Vec<&Exposed>) =
            (groups.iter().filter(of_queue)).partition(|group| group.is_held);
        let priority = waiting.iter().map(|group| group.priority).max()?;
        let is_behind =
            |group: &&&Exposed| group.came > self.queues_after && group.priority <= priority;
        free.iter().find(is_behind).map(|group| group.group)
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
            let is_of_queue = group.when_short == WhenShort::FreezeNewest;
            let came = is_of_queue.then_some(Reverse(group.came));
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

fn has_passed(since: Duration, time: Duration, at: Duration) -> bool {
    at.saturating_sub(since) >= time
}

#[cfg(test)]
mod tests {
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
    fn who_comes_while_one_waits_waits_behind_it_until_memory_is_ample_unless_its_priority_is_higher()
     {
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
                if step == Some(Step::Queue(group.group)) || step == Some(Step::Freeze(group.group))
                {
                    *group = held(*group);
                }
            }
            told.extend(step.filter(|step| matches!(step, Step::Freeze(_))));
        }
        assert_eq!(told.first(), Some(&Step::Freeze(first.group)));
        assert!(groups.iter().filter(|of| of.came > 5).all(|of| of.is_held));
    }

    #[test]
    fn where_tasks_wait_for_memory_nobody_is_slowed_or_killed_and_nobody_frozen_while_one_is_slowed()
     {
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
}
