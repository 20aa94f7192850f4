//! What Strata may take of the processors, and what it has taken.
//!
//! ```text
//!   CPU clocks of all of Strata's threads --> the last second  --> spent: the programs reclaim for themselves
//!                                        \-> one walk with all that follows it --> how far apart walks come
//! ```
//!
//! A user may cap it (`--cpu`). Where no processor is free, whatever Strata takes is taken from somebody: then walks, with
//! all that follows them, are kept to a small share, whether or not there is a cap.
//!
//! **Owns** the sums, and what follows for the next action. **Does not own** reading clocks, nor what is done instead.
//!
//! **Invariants** I1: between two samples no more is planned than is left of the cap, or one action.

use crate::sample::PAGE_BYTES;
use crate::tunables::config;
use std::collections::VecDeque;
use strata_lru::TimeMs;

config! {
    /// What Strata may take of a processor beside its programs.
    "cpu.allowance"

    /// Where no processor is free, walks and what follows them take at most this.
    beside_percent: u64 = 4, 1..=100, "percent of a processor";
    /// With a cap the kernel is asked for no more at once than takes so long.
    action_ms_max: u64 = 5, 1..=100, "ms";
}

/// What a page costs that the kernel is asked to reclaim (`docs/develop/steered.md`): a cap pays for so many; nanoseconds.
const RECLAIM_PAGE_NS: u64 = 10_000;
/// A cap holds over windows of this length, milliseconds.
const WINDOW_MS: u64 = 1000;
/// One percent of a processor for a millisecond, nanoseconds.
const PERCENT_MS_NS: u64 = 10_000;

/// What was taken so far.
#[derive(Debug, Default)]
pub struct Allowance {
    config: Config,
    /// Percent of one processor; `None`: no cap.
    cap_percent: Option<u32>,
    /// CPU time of Strata since it began, at the ticks of the last window; nanoseconds.
    samples: VecDeque<(TimeMs, u64)>,
    is_spent: bool,
    /// The most that was taken in a window, nanoseconds.
    worst_window_ns: u64,
    /// CPU time of Strata when the last walk began, nanoseconds.
    at_walk_ns: Option<u64>,
    /// What the walk before took, with all until the next one, nanoseconds.
    cycle_ns: u64,
}

impl Allowance {
    /// Nothing taken yet.
    pub(crate) fn new(cap_percent: Option<u32>, config: Config) -> Allowance {
        Allowance {
            config,
            cap_percent,
            ..Allowance::default()
        }
    }

    /// Takes in what Strata has taken of the processors since it began, nanoseconds.
    pub(crate) fn sample(&mut self, now: TimeMs, cpu_ns: u64) {
        self.samples.push_back((now, cpu_ns));
        // One sample before the window stays, so that all of the window counts.
        while let [_, (second, _), _, ..] = self.samples.make_contiguous()
            && now.since(*second) >= WINDOW_MS
        {
            self.samples.pop_front();
        }
        let used_ns = self.used_ns();
        self.worst_window_ns = self.worst_window_ns.max(used_ns);
        self.is_spent = match (self.cap_ns(), self.is_spent) {
            (None, _) => false,
            // What is left would soon be spent again.
            (Some(cap_ns), true) => used_ns > cap_ns / 2,
            (Some(cap_ns), false) => used_ns >= cap_ns,
        };
    }

    /// A walk begins.
    pub(crate) fn begin_walk(&mut self) {
        let Some((_, now_ns)) = self.samples.back() else {
            return;
        };
        let before_ns = self.at_walk_ns.replace(*now_ns);
        self.cycle_ns = before_ns.map_or(0, |then| now_ns.saturating_sub(then));
    }

    /// What was done since the last walk says nothing of what walks cost from now on, as where reclaim ahead was part of it.
    pub(crate) fn forget_walk(&mut self) {
        (self.at_walk_ns, self.cycle_ns) = (None, 0);
    }

    /// Whether the cap of this window is spent.
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// The most that Strata took in one window, percent of a processor.
    pub fn worst_window_percent(&self) -> f64 {
        self.worst_window_ns as f64 / (WINDOW_MS * PERCENT_MS_NS) as f64
    }

    /// Whether half of the cap pays for reclaiming ahead of programs that have so many pages back in a second. What it does
    /// not pay for throughout is better left to the programs: they reclaim at a lower cost.
    pub(crate) fn affords_reclaim(&self, pages_per_s: f64) -> bool {
        let needed_ns = pages_per_s * RECLAIM_PAGE_NS as f64;
        self.cap_ns()
            .is_none_or(|cap_ns| needed_ns <= (cap_ns / 2) as f64)
    }

    /// Whether what is left of the cap pays for a walk with all that follows it, by what the last one cost.
    pub(crate) fn affords_walk(&self) -> bool {
        self.cap_ns().is_none_or(|cap_ns| {
            // A walk that costs more than the cap would never come.
            self.used_ns() + self.cycle_ns.min(cap_ns) <= cap_ns
        })
    }

    /// How far apart walks come at least by what they and what follows them cost, milliseconds.
    pub(crate) fn walk_pause_ms(&self, is_processor_free: bool) -> u64 {
        let beside_percent = (!is_processor_free).then_some(self.config.beside_percent);
        let cap_percent = self.cap_percent.map(u64::from);
        let percent = match (cap_percent, beside_percent) {
            (Some(a), Some(b)) => a.min(b),
            (Some(percent), None) | (None, Some(percent)) => percent,
            (None, None) => return 0,
        };
        self.cycle_ns / PERCENT_MS_NS / percent
    }

    /// Of so many bytes, those that the kernel may be asked to reclaim now.
    pub(crate) fn affordable_bytes(&self, bytes: u64) -> u64 {
        let Some(cap_ns) = self.cap_ns() else {
            return bytes;
        };
        let left_ns = match self.is_spent {
            true => 0,
            false => cap_ns
                .saturating_sub(self.used_ns())
                .min(self.config.action_ms_max * 1_000_000),
        };
        bytes.min(left_ns / RECLAIM_PAGE_NS * PAGE_BYTES)
    }

    fn cap_ns(&self) -> Option<u64> {
        let percent = u64::from(self.cap_percent?);
        Some(percent * WINDOW_MS * PERCENT_MS_NS)
    }

    fn used_ns(&self) -> u64 {
        match (self.samples.front(), self.samples.back()) {
            (Some((_, first)), Some((_, last))) => last.saturating_sub(*first),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(cap_percent: Option<u32>) -> Allowance {
        Allowance::new(cap_percent, Config::DEFAULT)
    }

    #[test]
    fn a_cap_is_spent_once_that_much_was_taken_in_a_second_and_has_to_be_half_free_again() {
        let mut of = allowance(Some(10));
        let mut spent = Vec::new();
        // A third of a processor for 400 ms, then nothing.
        for ms in (0..2000).step_by(20) {
            of.sample(TimeMs(ms), ms.min(400) * 333_000);
            spent.push(of.is_spent());
        }
        let at = |ms: usize| spent[ms / 20];
        assert!(!at(280) && at(320) && at(400));
        assert!(at(1200) && !at(1280), "less than 50 ms in the last second");
        assert!((13.0..14.0).contains(&of.worst_window_percent()));
    }

    #[test]
    fn without_a_cap_nothing_is_ever_spent_and_everything_affordable() {
        let mut of = allowance(None);
        of.sample(TimeMs(0), 0);
        of.sample(TimeMs(900), 1_800_000_000);
        assert!(!of.is_spent());
        assert_eq!(of.affordable_bytes(1 << 30), 1 << 30);
        assert_eq!(of.walk_pause_ms(true), 0);
    }

    #[test]
    fn no_more_is_asked_for_than_five_milliseconds_or_what_is_left_pay_for() {
        let mut of = allowance(Some(10));
        of.sample(TimeMs(0), 0);
        assert_eq!(of.affordable_bytes(1 << 30), 500 * PAGE_BYTES);
        of.sample(TimeMs(100), 99_000_000);
        assert_eq!(of.affordable_bytes(1 << 30), 100 * PAGE_BYTES);
        assert_eq!(of.affordable_bytes(PAGE_BYTES), PAGE_BYTES);
        of.sample(TimeMs(200), 101_000_000);
        assert_eq!(of.affordable_bytes(1 << 30), 0);
    }

    #[test]
    fn half_of_a_cap_has_to_pay_for_reclaim_ahead() {
        let of = allowance(Some(10));
        assert!(of.affords_reclaim(5000.0) && !of.affords_reclaim(5001.0));
        assert!(allowance(None).affords_reclaim(1e9));
    }

    #[test]
    fn beside_others_walks_come_so_seldom_that_they_take_a_small_share() {
        let mut of = allowance(None);
        for (ms, cpu_ms) in [(0, 0), (100, 8)] {
            of.sample(TimeMs(ms), cpu_ms * 1_000_000);
            of.begin_walk();
        }
        assert_eq!(of.walk_pause_ms(true), 0, "a processor is free");
        assert_eq!(of.walk_pause_ms(false), 200, "8 ms are 4 % of 200 ms");
        let mut of = allowance(Some(2));
        for (ms, cpu_ms) in [(0, 0), (100, 8)] {
            of.sample(TimeMs(ms), cpu_ms * 1_000_000);
            of.begin_walk();
        }
        assert_eq!(of.walk_pause_ms(true), 400);
        assert!(of.affords_walk(), "8 ms are taken, 8 more may be");
        of.sample(TimeMs(200), 13_000_000);
        assert!(!of.affords_walk());
        assert_eq!(of.walk_pause_ms(false), 400);
    }
}
