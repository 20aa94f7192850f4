//! Which huge pages to split, because cold pages hide in them.
//!
//! A huge page has one accessed bit: one hot base page makes all 512 look hot, and under a budget
//! most of memory may end up in huge pages that are never cold while everything else comes and goes.
//! How much of one is in use can't be seen from outside, so some are split to find out:
//!
//! ```text
//!   Waiting --pages go, huge pages hold a part worth having--> Trial (a few are split)
//!      ^                                                         | some walks later
//!      |<---- most of their pages in use, or still huge ---------|
//!      |                                                         v half of them or more not in use
//!      |<---- the same, or no huge page left --------------- Splitting (twice as many each walk)
//! ```
//!
//! Half is what counts under a budget; where nobody is short it is an eighth ([`Worth`]).
//!
//! MEMTIS (SOSP 2023) splits by the skew that hardware samples show; the kernel (`deferred_split`,
//! since 6.12) splits what holds pages of zeroes. Here the accessed bits of the split ones tell.
//!
//! **Owns** the decision. **Does not own** the pages, which `At` only names, nor the splitting.
//!
//! **Invariants**
//! - S1: nothing is split while no pages go.
//! - S2: at most [`Config::nr_tried`] are split before it is known that it pays.
//! - S3: uses are counted over [`Worth::counted_ms`] or more: walks may follow each other at once, and in no
//!   time nothing is used.

use crate::backoff::TIMES_MAX;
use crate::tunables::config;
use std::collections::VecDeque;
use strata_lru::TimeMs;

/// Walks that count what is used are at least so far apart, milliseconds.
pub const COUNTED_WALK_MS: u64 = 250;
/// Base pages of a huge page.
const NR_PARTS: usize = 512;
/// So many huge pages are split at a walk at most: each takes the kernel about a tenth of a millisecond, and so all of them
/// a twentieth of the time between two walks.
const NR_AT_ONCE_MAX: usize = 128;
/// The parts in use have shown themselves after so many walks: those of a file have to be mapped again, and with each
/// the kernel maps 15 neighbours, which look accessed at the first walk.
const NR_TRIAL_WALKS: u32 = 2;

config! {
    /// How many huge pages are split, and how often that is tried.
    "split_huge"

    /// So many huge pages are split to see what is in them.
    nr_tried: usize = 4, 1..=64, "huge pages";
    /// Huge pages are worth a trial when they hold this part of memory.
    share_min: u64 = 8, 1..=512, "1/n of the pages";
    /// After what came to nothing it is tried again after so many walks, twice as many each time, up to 32 times: what is split
    /// stays split, and huge pages in use all over should not be worn down by trials.
    nr_wait_walks: u32 = 64, 1..=4096, "walks";
}

/// When splitting is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worth {
    /// Uses are counted over so long at least, milliseconds.
    pub counted_ms: u64,
    /// At most one of so many base pages is in use.
    pub nr_parts_per_used: u64,
}

impl Worth {
    /// Where pages have to go.
    pub const UNDER_BUDGET: Worth = Worth {
        counted_ms: COUNTED_WALK_MS,
        nr_parts_per_used: 2,
    };

    /// Where nobody is short: what is not used for this age is idle, and a program gives up its huge pages only where seven
    /// eighths of them go.
    pub const fn of_idle(age_ms: u64) -> Worth {
        Worth {
            counted_ms: age_ms,
            nr_parts_per_used: 8,
        }
    }
}

/// What the last walk showed.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a, At> {
    /// Whether pages of this group had to go since the walk before.
    pub are_pages_going: bool,
    /// Base pages in memory.
    pub nr_resident_pages: u64,
    /// The huge pages there are, sorted.
    pub huge: &'a [At],
}

strata_lru::named! {
    /// Why huge pages that are in use stay whole.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum StaysWhole {
        /// Some are split to see what is in them, or all are, some at each walk.
        NotYet = "not split yet",
        /// Too much was used of the ones that were split.
        InUse = "too much of each is in use",
        /// The ones that were to be split are huge still, or gone.
        Unknown = "how much of each is in use is not known",
    }
}

#[derive(Debug)]
enum State {
    Waiting { nr_walks: u32 },
    Trial,
    Splitting { nr_at_once: usize },
}

/// What is under way.
#[derive(Debug)]
pub struct SplitHuge<At> {
    config: Config,
    worth: Worth,
    state: State,
    /// The last walk that counted.
    counted: Option<TimeMs>,
    /// How long to wait after the next trial that comes to nothing.
    nr_wait_walks: u32,
    /// Huge pages split lately, and walks until they can be judged; the oldest first.
    split: VecDeque<(u32, Vec<At>)>,
    /// What the last trial came to, if that is nothing.
    failed: Option<StaysWhole>,
}

impl<At: Clone> SplitHuge<At> {
    /// Nothing split yet.
    pub fn new(config: Config, worth: Worth) -> SplitHuge<At> {
        SplitHuge {
            config,
            worth,
            state: State::Waiting { nr_walks: 0 },
            counted: None,
            nr_wait_walks: config.nr_wait_walks,
            split: VecDeque::new(),
            failed: None,
        }
    }

    /// Why huge pages that are in use stay whole; `None`: nothing is known of that.
    pub fn why_whole(&self) -> Option<StaysWhole> {
        match self.state {
            State::Waiting { .. } => self.failed,
            State::Trial | State::Splitting { .. } => Some(StaysWhole::NotYet),
        }
    }

    /// Whether to look at even distances, so that what was split can be judged.
    pub fn is_busy(&self) -> bool {
        !self.split.is_empty()
    }

    /// Takes a walk in and says which to split now. `used` tells how many base pages of what was
    /// split walks found accessed since the last one that counted; `None` where it is still huge, or
    /// gone. The answer is `None` when this walk came too soon to count.
    pub fn after_walk(
        &mut self,
        now: TimeMs,
        facts: Facts<'_, At>,
        used: impl Fn(At) -> Option<u64>,
    ) -> Option<Vec<At>> {
        let is_soon = |then: TimeMs| now.since(then) < self.worth.counted_ms;
        if self.counted.is_some_and(is_soon) {
            return None;
        }
        self.counted = Some(now);
        Some(self.after_counted_walk(facts, used))
    }

    fn after_counted_walk(
        &mut self,
        facts: Facts<'_, At>,
        used: impl Fn(At) -> Option<u64>,
    ) -> Vec<At> {
        let config = self.config;
        match self.judge(used) {
            Some(Ok(())) if matches!(self.state, State::Trial) => {
                self.failed = None;
                self.nr_wait_walks = config.nr_wait_walks;
                self.state = State::Splitting {
                    nr_at_once: config.nr_tried,
                };
            }
            Some(Err(why)) => {
                self.failed = Some(why);
                self.wait(self.nr_wait_walks);
                let nr_max = config.nr_wait_walks * TIMES_MAX as u32;
                self.nr_wait_walks = (self.nr_wait_walks * 2).min(nr_max);
            }
            _ => {}
        }
        match &mut self.state {
            State::Waiting { nr_walks } if *nr_walks > 0 => {
                *nr_walks -= 1;
                Vec::new()
            }
            _ if !facts.are_pages_going => {
                // What paid then need not pay when pages have to go again.
                if matches!(self.state, State::Splitting { .. }) && self.split.is_empty() {
                    self.wait(0);
                }
                Vec::new()
            }
            State::Waiting { .. } => {
                let nr_huge_pages = (facts.huge.len() * NR_PARTS) as u64;
                let is_worth_it = nr_huge_pages * config.share_min >= facts.nr_resident_pages;
                if facts.huge.is_empty() || !is_worth_it {
                    return Vec::new();
                }
                self.state = State::Trial;
                self.split(facts.huge, config.nr_tried)
            }
            State::Trial => Vec::new(),
            State::Splitting { .. } if facts.huge.is_empty() => {
                self.wait(config.nr_wait_walks);
                Vec::new()
            }
            State::Splitting { nr_at_once } => {
                *nr_at_once = (*nr_at_once * 2).min(NR_AT_ONCE_MAX);
                let nr_at_once = *nr_at_once;
                self.split(facts.huge, nr_at_once)
            }
        }
    }

    fn wait(&mut self, nr_walks: u32) {
        self.split.clear();
        self.state = State::Waiting { nr_walks };
    }

    /// Whether splitting pays, by the huge pages that were split [`NR_TRIAL_WALKS`] walks ago; `None` while there are none.
    fn judge(&mut self, used: impl Fn(At) -> Option<u64>) -> Option<Result<(), StaysWhole>> {
        self.split
            .iter_mut()
            .for_each(|(nr_walks, _)| *nr_walks -= 1);
        self.split.front().filter(|(nr_walks, _)| *nr_walks == 0)?;
        let (_, ripe) = self.split.pop_front()?;
        let used: Vec<u64> = ripe.into_iter().filter_map(used).collect();
        let nr_used_pages: u64 = used.iter().sum();
        let nr_pages = (used.len() * NR_PARTS) as u64;
        Some(match nr_used_pages * self.worth.nr_parts_per_used {
            _ if nr_pages == 0 => Err(StaysWhole::Unknown),
            nr_needed if nr_needed <= nr_pages => Ok(()),
            _ => Err(StaysWhole::InUse),
        })
    }

    /// Some at even distances, so that a trial sees all of memory.
    fn split(&mut self, huge: &[At], nr: usize) -> Vec<At> {
        let nr = nr.min(huge.len());
        let chosen: Vec<At> = (0..nr).map(|n| huge[n * huge.len() / nr].clone()).collect();
        if !chosen.is_empty() {
            self.split.push_back((NR_TRIAL_WALKS, chosen.clone()));
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Huge pages by number.
    type Where = u64;

    fn huge(nr: u64) -> Vec<Where> {
        (0..nr).collect()
    }

    fn facts(huge: &[Where], nr_resident_pages: u64) -> Facts<'_, Where> {
        Facts {
            are_pages_going: true,
            nr_resident_pages,
            huge,
        }
    }

    /// Splits until nothing more is asked for; returns how many were split at each walk that split.
    fn run(nr_huge: u64, used: impl Fn(Where) -> Option<u64>, nr_walks: u32) -> Vec<usize> {
        let mut splitter = SplitHuge::new(Config::DEFAULT, Worth::UNDER_BUDGET);
        let mut left = huge(nr_huge);
        let mut sizes = Vec::new();
        for walk in 0..nr_walks {
            let now = TimeMs(u64::from(walk) * COUNTED_WALK_MS);
            let chosen = splitter.after_walk(now, facts(&left, nr_huge * 512), &used);
            let chosen = chosen.expect("it counts");
            left.retain(|at| !chosen.contains(at));
            sizes.extend((!chosen.is_empty()).then_some(chosen.len()));
        }
        sizes
    }

    #[test]
    fn where_few_parts_are_in_use_all_are_split_ever_faster() {
        assert_eq!(run(70, |_| Some(100), 20), [4, 8, 16, 32, 10]);
    }

    #[test]
    fn where_nobody_is_short_huge_pages_are_split_only_where_seven_eighths_go_and_as_seldom_as_idle_is_told()
     {
        let sizes = |nr_used| {
            let mut splitter = SplitHuge::new(Config::DEFAULT, Worth::of_idle(30_000));
            let huge = huge(70);
            let mut sizes = Vec::new();
            for second in 0..=150 {
                let now = TimeMs(second * 1000);
                let chosen = splitter.after_walk(now, facts(&huge, 70 * 512), |_| Some(nr_used));
                let nr_chosen = chosen.map_or(0, |chosen| chosen.len());
                sizes.extend((nr_chosen > 0).then_some((second, nr_chosen)));
            }
            sizes
        };
        assert_eq!(sizes(64), [(0, 4), (60, 8), (90, 16), (120, 32), (150, 64)]);
        assert_eq!(sizes(65), [(0, 4)]);
    }

    #[test]
    fn where_most_parts_are_in_use_it_stays_at_a_trial_that_is_seldom_repeated() {
        assert_eq!(run(70, |_| Some(300), 60), [4]);
        assert_eq!(run(70, |_| Some(300), 100), [4, 4]);
        assert_eq!(run(70, |_| Some(300), 10_000).len(), 9);
    }

    #[test]
    fn why_huge_pages_stay_whole_is_told_while_they_are_split_and_after_that_came_to_nothing() {
        let whys = |used: Option<u64>| {
            let mut splitter = SplitHuge::new(Config::DEFAULT, Worth::UNDER_BUDGET);
            let before = splitter.why_whole();
            let mut after = |nr_walks, huge: &[Where]| {
                for _ in 0..nr_walks {
                    splitter.after_counted_walk(facts(huge, 70 * 512), |_| used);
                }
                splitter.why_whole()
            };
            [
                before,
                after(1, &huge(70)),
                after(3, &huge(70)),
                after(1, &[]),
            ]
        };
        let (not_yet, in_use) = (Some(StaysWhole::NotYet), Some(StaysWhole::InUse));
        let unknown = Some(StaysWhole::Unknown);
        assert_eq!(whys(Some(100)), [None, not_yet, not_yet, None]);
        assert_eq!(whys(Some(300)), [None, not_yet, in_use, in_use]);
        assert_eq!(whys(None), [None, not_yet, unknown, unknown]);
    }

    #[test]
    fn what_can_not_be_split_is_not_tried_again_and_again() {
        assert_eq!(run(70, |_| None, 60), [4]);
    }

    #[test]
    fn it_ends_when_the_parts_turn_out_to_be_in_use_after_all() {
        let mostly_hot = |number: Where| Some(if number.is_multiple_of(250) { 100 } else { 500 });
        assert_eq!(run(1000, mostly_hot, 20), [4, 8, 16]);
    }

    #[test]
    fn nothing_is_split_while_no_pages_go_or_huge_pages_hold_little() {
        let mut splitter = SplitHuge::new(Config::DEFAULT, Worth::UNDER_BUDGET);
        let some = huge(10);
        let idle = Facts {
            are_pages_going: false,
            ..facts(&some, 10 * 512)
        };
        assert!(splitter.after_counted_walk(idle, |_| Some(0)).is_empty());
        let few = facts(&some, 100 * 512);
        assert!(splitter.after_counted_walk(few, |_| Some(0)).is_empty());
        let worth_it = facts(&some, 60 * 512);
        let chosen = splitter.after_counted_walk(worth_it, |_| Some(0));
        assert_eq!(chosen.len(), Config::DEFAULT.nr_tried);
    }

    /// Two commands to age in a row, and all of memory looked unused.
    #[test]
    fn walks_that_follow_each_other_at_once_prove_nothing() {
        let all = huge(100);
        let mut splitter = SplitHuge::new(Config::DEFAULT, Worth::UNDER_BUDGET);
        let mut walk = |ms| splitter.after_walk(TimeMs(ms), facts(&all, 100 * 512), |_| Some(0));
        assert_eq!(
            walk(0).expect("the first counts").len(),
            Config::DEFAULT.nr_tried
        );
        for ms in 1..COUNTED_WALK_MS {
            assert_eq!(walk(ms), None);
        }
        assert_eq!(walk(COUNTED_WALK_MS), Some(Vec::new()));
        assert_eq!(walk(2 * COUNTED_WALK_MS).expect("it counts").len(), 8);
    }

    #[test]
    fn few_are_split_at_once_however_many_there_are() {
        let sizes = run(2000, |_| Some(0), 12);
        assert_eq!(sizes[..6], [4, 8, 16, 32, 64, 128]);
        assert!(
            sizes[6..].iter().all(|nr| *nr == NR_AT_ONCE_MAX),
            "{sizes:?}"
        );
    }

    #[test]
    fn after_a_quiet_time_it_has_to_be_found_out_anew() {
        let all = huge(1000);
        let mut splitter = SplitHuge::new(Config::DEFAULT, Worth::UNDER_BUDGET);
        let going = facts(&all, 1000 * 512);
        let quiet = Facts {
            are_pages_going: false,
            ..going
        };
        let sizes = [going, going, going, quiet, quiet, quiet, going]
            .map(|facts| splitter.after_counted_walk(facts, |_| Some(0)).len());
        assert_eq!(sizes, [4, 0, 8, 0, 0, 0, 4]);
    }

    #[test]
    fn a_trial_looks_all_over_memory() {
        let all = huge(100);
        let mut splitter = SplitHuge::new(Config::DEFAULT, Worth::UNDER_BUDGET);
        let chosen = splitter.after_counted_walk(facts(&all, 100 * 512), |_| None);
        assert_eq!(chosen, [0, 25, 50, 75]);
    }

    #[test]
    fn it_is_busy_from_a_split_until_that_can_be_judged() {
        let all = huge(100);
        let mut splitter = SplitHuge::new(Config::DEFAULT, Worth::UNDER_BUDGET);
        assert!(!splitter.is_busy());
        splitter.after_counted_walk(facts(&all, 100 * 512), |_| Some(512));
        assert!(splitter.is_busy());
        splitter.after_counted_walk(facts(&all, 100 * 512), |_| Some(512));
        assert!(splitter.is_busy(), "one walk is too few");
        splitter.after_counted_walk(facts(&all, 100 * 512), |_| Some(512));
        assert!(!splitter.is_busy(), "most parts are in use");
    }
}
