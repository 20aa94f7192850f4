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
//!   one is frozen whose rule says "freeze-newest",    -> who comes meanwhile is frozen at once, behind it, if its priority is no
//!   until there is ample memory                          higher
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
    /// Whether a group by whose rule this may be done can be stopped.
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
mod tests;
