//! Pages that were last used together come back together.
//!
//! A program that enters a phase it was in before, or wakes up, asks for what it used then, page by page, and
//! waits for each. What those pages have in common is when they were last used. So when most of what a program uses
//! has to come back, the rest of what was last used at the same times is wanted as well, and can be read many pages
//! at a time.
//!
//! That a program's phases are told apart by how much of what it uses is new, and known again by the pages they
//! use, is from working set signatures (Dhodapkar and Smith, "Managing Multi-Configuration Hardware via Dynamic
//! Working Set Analysis", ISCA 2002). Here the walk that last found a page used stands for the signature, so that
//! nothing has to be kept for each phase: two bytes a page.
//!
//! ```text
//!   On --a phase--> its pages are asked for --a third was used--> On
//!                                          \--it was not, in 2 s--> Off for 2 s, twice as long each time, then On
//! ```
//!
//! **Owns** which returns count as together, and the judgement whether asking was right. **Does not own** the
//! pages, whether there is room for them, nor the asking.
//!
//! **Invariants** I1: a page whose last use is not known is no evidence and is never asked for. I2: at most one
//! trial is under way, of everything that was asked for since it began.

use super::{Outcome, Strategy, View, Walk};
use crate::backoff::Backoff;
use crate::plan::Action;
use crate::sample::PAGE_BYTES;
use crate::tunables::config;
use std::collections::BTreeMap;
use strata_lru::{HEAT_WALK_MS, TimeMs};

config! {
    /// What counts as a phase that comes back, and when asking for its pages is given up.
    "prefetch"

    /// A phase has come back when this many pages have refaulted that belong to walks of which enough pages refaulted.
    nr_returned_min: u32 = 64, 1..=1 << 20, "pages";
    /// A walk's pages count only if their refaulted share is this part of the refaulted share of all evicted pages.
    share_min: f64 = 0.5, 0.0..=1.0, "part of 1";
    /// Of what a walk found used so much must have come back since the one before. A program that goes on with what it
    /// does finds most of what it uses in memory.
    returned_percent: u64 = 50, 1..=100, "percent of what is used";
    /// For each page that came back so many are asked for.
    nr_asked_each: u64 = 16, 1..=1024, "pages";
    /// Of what was asked for so much must be used for it to have been right.
    used_percent: u64 = 33, 1..=100, "percent of what was asked for";
    /// A trial fails when this time has passed since its last request and too few of its pages were used. A first pause as long
    /// follows, which doubles each time, up to 32 times. What was not used in half of this time has gone again.
    trial_ms: u64 = 2000, 500..=60_000, "ms";
}

/// The number of a walk of a space: it comes again after 65,535 of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WalkNo(u16);

impl WalkNo {
    /// Before the first walk.
    pub const NONE: WalkNo = WalkNo(0);

    /// Numbers there are.
    pub const LIMIT: usize = 1 << u16::BITS;

    /// The walk after this one.
    pub fn next(self) -> WalkNo {
        WalkNo(self.0 % u16::MAX + 1)
    }

    /// Place of the number among all numbers, below [`WalkNo::LIMIT`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// How many walks ago `earlier` was; `None` if that is no walk.
    pub fn since(self, earlier: WalkNo) -> Option<u32> {
        let (now, then) = (i32::from(self.0), i32::from(earlier.0));
        (then != 0).then(|| (now - then).rem_euclid(i32::from(u16::MAX)).unsigned_abs())
    }
}

/// What came back to a space lately, by the walk that had last found it used.
#[derive(Debug, Default)]
pub struct Returns {
    nr_pages: BTreeMap<WalkNo, u32>,
    nr_since_last_walk: u64,
}

/// What is wanted next.
#[derive(Debug, PartialEq, Eq)]
pub struct Phase {
    /// The walks that had last found it used; those first of which most has come back.
    pub walks: Vec<WalkNo>,
    /// At most so many pages.
    pub nr_pages_max: u64,
}

impl Returns {
    /// A walk begins: what the ones before found counts half as much.
    pub fn fade(&mut self) {
        self.nr_since_last_walk = 0;
        self.nr_pages.retain(|_, nr_pages| {
            *nr_pages /= 2;
            *nr_pages > 0
        });
    }

    /// A page came back and was used.
    pub fn note(&mut self, last_use: WalkNo) {
        self.nr_since_last_walk += 1;
        if last_use != WalkNo::NONE {
            *self.nr_pages.entry(last_use).or_default() += 1;
        }
    }

    /// Nothing came back.
    pub fn clear(&mut self) {
        *self = Returns::default();
    }

    /// Whether the program has gone on to something else, after a walk that found so many pages used: most of
    /// what it uses had to come back.
    pub fn is_elsewhere(&self, config: &Config, nr_used_pages: u64) -> bool {
        let nr_pages: u32 = self.nr_pages.values().sum();
        nr_pages >= config.nr_returned_min
            && self.nr_since_last_walk * 100 >= nr_used_pages * config.returned_percent
    }

    /// What is wanted next, where so many pages are still out, by the walk that had last found them used.
    pub fn phase(&self, config: &Config, now: WalkNo, out: &[u32]) -> Option<Phase> {
        let nr_out = |walk: WalkNo| out.get(walk.index()).copied().unwrap_or(0);
        let share =
            |nr_back: u32, nr_out: u32| f64::from(nr_back) / f64::from((nr_back + nr_out).max(1));
        let all = share(self.nr_pages.values().sum(), out.iter().sum());
        let back = self
            .nr_pages
            .iter()
            .map(|(walk, nr_back)| (*walk, *nr_back));
        let mut walks: Vec<(WalkNo, u32)> = back
            .filter(|&(walk, nr_back)| {
                // What was last used at the walk before has not been away.
                now.since(walk).is_some_and(|age| age > 1)
                    && share(nr_back, nr_out(walk)) >= all * config.share_min
            })
            .collect();
        let nr_back: u32 = walks.iter().map(|(_, nr_back)| nr_back).sum();
        if nr_back < config.nr_returned_min {
            return None;
        }
        let share = |&(walk, nr_back): &(WalkNo, u32)| share(nr_back, nr_out(walk));
        walks.sort_by(|a, b| share(b).total_cmp(&share(a)));
        Some(Phase {
            walks: walks.into_iter().map(|(walk, _)| walk).collect(),
            nr_pages_max: u64::from(nr_back) * config.nr_asked_each,
        })
    }
}

/// Pages that were asked for, and what became of them.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    begun: TimeMs,
    nr_asked_pages: u64,
    nr_used_pages: u64,
}

/// What is known of asking.
#[derive(Debug)]
pub struct Prefetch {
    config: Config,
    trial: Option<Trial>,
    /// Asked for and not used yet, and since when: they take room, whether the trial is over or not.
    nr_pages_out: u64,
    last_asked: TimeMs,
    off: Backoff,
    /// Whether what is swapped out has to be waited for.
    is_swap_slow: bool,
}

impl Strategy for Prefetch {
    /// While pages come back that programs wait for.
    fn walk_ms(&self, view: &View) -> Option<u64> {
        let is_waited_for = self.is_swap_slow && view.is_coming_back;
        (is_waited_for && may_ask(view) && self.is_on(view.now)).then_some(HEAT_WALK_MS)
    }

    /// No more is asked for than fits beside what the walk found in use and what was asked for lately, below the low mark.
    fn after_walk(&mut self, view: &View, walk: &Walk) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.take_walk(view.now, walk.nr_prefetched_used_pages) {
            actions.push(Action::ForgetPrefetched);
        }
        if self.is_on(view.now) && may_ask(view) {
            let used_bytes = walk.nr_used_pages * PAGE_BYTES;
            let room_bytes = walk.low_bytes.saturating_sub(used_bytes);
            let nr_pages_max = (room_bytes / PAGE_BYTES).saturating_sub(self.nr_pages_out);
            actions.push(Action::Prefetch { nr_pages_max });
        }
        actions
    }

    fn taken_up(&mut self, now: TimeMs, outcome: Outcome) {
        if outcome.is_taken {
            self.ask(now, outcome.nr_pages);
        }
    }
}

/// Nothing is asked for in a dry run, and while the programs have all processors.
fn may_ask(view: &View) -> bool {
    !view.is_dry_run && !view.is_left_to_programs
}

impl Prefetch {
    /// Nothing asked for yet.
    pub fn new(config: Config) -> Prefetch {
        Prefetch {
            config,
            trial: None,
            nr_pages_out: 0,
            last_asked: TimeMs::default(),
            off: Backoff::new(config.trial_ms),
            is_swap_slow: false,
        }
    }

    /// Whether what is swapped out has to be waited for.
    pub fn set_swap_slow(&mut self, is_swap_slow: bool) {
        self.is_swap_slow = is_swap_slow;
    }

    /// Whether pages may be asked for now. A trial takes in what is asked for in its first half.
    fn is_on(&self, now: TimeMs) -> bool {
        !self.off.holds(now)
            && self
                .trial
                .is_none_or(|trial| now.since(trial.begun) < self.config.trial_ms / 2)
    }

    /// Notes that so many more pages are being asked for.
    fn ask(&mut self, now: TimeMs, nr_pages: u64) {
        debug_assert!(self.is_on(now));
        let trial = self.trial.get_or_insert_with(|| Trial {
            begun: now,
            ..Trial::default()
        });
        self.last_asked = now;
        trial.nr_asked_pages += nr_pages;
        self.nr_pages_out += nr_pages;
    }

    /// Notes that so many pages were not asked for after all.
    pub fn leave(&mut self, nr_pages: u64) {
        self.nr_pages_out = self.nr_pages_out.saturating_sub(nr_pages);
        if let Some(trial) = &mut self.trial {
            trial.nr_asked_pages = trial.nr_asked_pages.saturating_sub(nr_pages);
        }
    }

    /// A walk found so many of them used that were not used before, while none are being asked for. Returns whether
    /// the others may be asked for again.
    fn take_walk(&mut self, now: TimeMs, nr_used_pages: u64) -> bool {
        self.judge(now, nr_used_pages);
        self.nr_pages_out = self.nr_pages_out.saturating_sub(nr_used_pages);
        let is_over =
            self.nr_pages_out > 0 && now.since(self.last_asked) >= self.config.trial_ms / 2;
        if is_over {
            self.nr_pages_out = 0;
        }
        is_over
    }

    fn judge(&mut self, now: TimeMs, nr_used_pages: u64) {
        let Some(trial) = &mut self.trial else {
            return;
        };
        trial.nr_used_pages += nr_used_pages;
        if trial.nr_used_pages * 100 >= trial.nr_asked_pages * self.config.used_percent {
            self.off.succeeded();
        } else if now.since(self.last_asked) >= self.config.trial_ms {
            self.off.failed(now);
        } else {
            return;
        }
        self.trial = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: WalkNo = WalkNo(1000);

    fn ago(age: u16) -> WalkNo {
        WalkNo(NOW.0 - age)
    }

    /// What came back, and what is out: each a number of pages last used so many walks ago.
    fn phase(back: &[(u16, u32)], out: &[(u16, u32)]) -> Option<(Vec<u16>, u64)> {
        let mut returns = Returns::default();
        for &(age, nr_pages) in back {
            (0..nr_pages).for_each(|_| returns.note(ago(age)));
        }
        let mut nr_out = vec![0; WalkNo::LIMIT];
        for &(age, nr_pages) in out {
            nr_out[ago(age).index()] = nr_pages;
        }
        let phase = returns.phase(&Config::DEFAULT, NOW, &nr_out)?;
        let ages = phase.walks.iter().map(|walk| NOW.0 - walk.0);
        Some((ages.collect(), phase.nr_pages_max))
    }

    #[test]
    fn what_was_last_used_with_what_comes_back_is_wanted_next() {
        let back = [(20, 600), (21, 300), (5, 10)];
        let out = [(20, 3000), (21, 1000), (5, 9000), (40, 500)];
        assert_eq!(
            phase(&back, &out),
            Some((vec![21, 20], 900 * Config::DEFAULT.nr_asked_each))
        );
    }

    #[test]
    fn what_is_still_in_use_and_a_few_that_come_by_chance_tell_nothing() {
        let out = [(1, 5000), (30, 5000)];
        assert_eq!(phase(&[(0, 500), (1, 500), (30, 5)], &out), None);
        assert_eq!(
            phase(&[(30, Config::DEFAULT.nr_returned_min - 1)], &out),
            None
        );
        assert_eq!(phase(&[], &[]), None);
    }

    /// A program that wakes for a moment may have memory that it has not used for days.
    #[test]
    fn a_little_that_comes_back_does_not_bring_all_memory_back() {
        let out = [(30, 10_000_000)];
        let (_, nr_pages_max) = phase(&[(30, 100)], &out).unwrap();
        assert_eq!(nr_pages_max, 1600);
    }

    #[test]
    fn a_program_is_elsewhere_when_most_of_what_it_uses_had_to_come_back() {
        let mut returns = Returns::default();
        (0..1000).for_each(|_| returns.note(ago(30)));
        assert!(
            returns.is_elsewhere(&Config::DEFAULT, 1000)
                && returns.is_elsewhere(&Config::DEFAULT, 2000)
        );
        assert!(!returns.is_elsewhere(&Config::DEFAULT, 2001));
        // The next walk finds it at home; what came back before is evidence of what, not of whether.
        returns.fade();
        assert!(!returns.is_elsewhere(&Config::DEFAULT, 1000));
        let mut few = Returns::default();
        (1..Config::DEFAULT.nr_returned_min).for_each(|_| few.note(ago(30)));
        assert!(!few.is_elsewhere(&Config::DEFAULT, 0));
    }

    #[test]
    fn what_came_back_long_ago_is_forgotten_and_a_page_never_used_tells_nothing() {
        let mut returns = Returns::default();
        (0..500).for_each(|_| returns.note(ago(30)));
        for _ in 0..3 {
            assert!(returns.phase(&Config::DEFAULT, NOW, &[]).is_some());
            returns.fade();
        }
        assert_eq!(returns.phase(&Config::DEFAULT, NOW, &[]), None);
        (0..9).for_each(|_| returns.fade());
        assert!(returns.nr_pages.is_empty());
        (0..500).for_each(|_| returns.note(WalkNo::NONE));
        assert!(returns.nr_pages.is_empty());
    }

    #[test]
    fn what_was_used_lets_more_be_asked_for_and_holds_no_room() {
        let mut recalls = Prefetch::new(Config::DEFAULT);
        recalls.ask(TimeMs(0), 1000);
        assert_eq!(recalls.nr_pages_out, 1000);
        recalls.take_walk(TimeMs(100), 300);
        assert_eq!(recalls.nr_pages_out, 700);
        recalls.ask(TimeMs(200), 500);
        assert_eq!(recalls.nr_pages_out, 1200);
        assert!(
            !recalls.is_on(TimeMs(Config::DEFAULT.trial_ms / 2)),
            "what comes late would be judged too soon"
        );
        assert!(!recalls.take_walk(TimeMs(Config::DEFAULT.trial_ms / 2), 200));
        assert!(
            recalls.is_on(TimeMs(Config::DEFAULT.trial_ms / 2)),
            "a third was used"
        );
        assert_eq!(recalls.nr_pages_out, 1000);
        assert!(recalls.take_walk(TimeMs(Config::DEFAULT.trial_ms / 2 + 200), 0));
        assert_eq!(recalls.nr_pages_out, 0, "the kernel has taken it again");
    }

    #[test]
    fn what_was_not_asked_for_after_all_is_not_judged() {
        let mut recalls = Prefetch::new(Config::DEFAULT);
        recalls.ask(TimeMs(0), 1000);
        recalls.leave(990);
        assert_eq!(recalls.nr_pages_out, 10);
        recalls.take_walk(TimeMs(100), 4);
        assert!(recalls.trial.is_none() && recalls.is_on(TimeMs(100)));
        // All of it: nothing was tried, and nothing is known.
        recalls.ask(TimeMs(200), 1000);
        recalls.leave(1000);
        recalls.take_walk(TimeMs(300), 0);
        assert!(recalls.is_on(TimeMs(300)));
    }

    #[test]
    fn what_was_asked_for_in_vain_is_asked_for_ever_more_seldom() {
        let mut recalls = Prefetch::new(Config::DEFAULT);
        let mut asked = Vec::new();
        for ms in (0..200_000).step_by(100).map(TimeMs) {
            if recalls.is_on(ms) && recalls.nr_pages_out == 0 {
                recalls.ask(ms, 1000);
                asked.push(ms.0 / 1000);
            }
            recalls.take_walk(ms, 5);
        }
        assert_eq!(asked, [0, 4, 10, 20, 38, 72, 138]);
    }

    #[test]
    fn a_few_that_come_back_of_each_of_many_walks_are_evidence_together() {
        let back: Vec<(u16, u32)> = (10..18).map(|age| (age, 8)).collect();
        let (ages, nr_pages_max) = phase(&back, &[]).unwrap();
        assert_eq!((ages.len(), nr_pages_max), (8, 64 * 16));
    }

    #[test]
    fn after_a_trial_that_was_right_the_next_in_vain_costs_the_shortest_pause() {
        let mut recalls = Prefetch::new(Config::DEFAULT);
        recalls.ask(TimeMs(0), 1000);
        recalls.take_walk(TimeMs(2000), 0);
        assert!(!recalls.is_on(TimeMs(3999)) && recalls.is_on(TimeMs(4000)));
        recalls.ask(TimeMs(4000), 1000);
        recalls.take_walk(TimeMs(4100), 400);
        recalls.ask(TimeMs(4200), 1000);
        recalls.take_walk(TimeMs(6200), 0);
        assert!(!recalls.is_on(TimeMs(8199)) && recalls.is_on(TimeMs(8200)));
    }

    proptest! {
        #[test]
        fn ages_add_up_across_the_wrap(start in 1..=u16::MAX, nr_walks in 0u32..65_000) {
            let then = WalkNo(start);
            let now = (0..nr_walks).fold(then, |walk, _| walk.next());
            prop_assert_eq!(now.since(then), Some(nr_walks));
            prop_assert_ne!(now, WalkNo::NONE);
            prop_assert_eq!(now.since(WalkNo::NONE), None);
        }
    }
}
