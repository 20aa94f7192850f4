//! How much has to go, and when to look again: arithmetic over usage.
//!
//! **Owns** how fast usage grows, whether reclaim is under way, and the pace of the loop. **Does not own** the marks
//! (`watermarks`), who reclaims (`reclaimer`), nor a clock.
//!
//! **Invariants** I1: reclaim starts at the high mark and stops at the low one; both are lowered by expected growth, at
//! most by their distance as often as `ahead_marks_max` says. I2: while usage is below the marks and unchanged, the wait doubles up to its maximum.

use crate::tunables::config;
use crate::watermarks::Watermarks;
use strata_lru::TimeMs;

config! {
    /// How far reclaim gets ahead of growth, and how often usage is looked at.
    "pressure"

    /// Reclaim gets ahead of growth by what the program can allocate in this time, in which the loop reacts.
    reaction_ms: u64 = 10, 1..=100, "ms";
    /// Reclaim gets ahead of growth by at most so many times the distance of two marks: what is ahead is memory that stays unused.
    ahead_marks_max: u64 = 1, 1..=4, "marks";
    /// Growth is measured over so long at least, so that a burst is not taken for lasting growth; 0: from look to look, because a
    /// budget may be used up within milliseconds.
    growth_window_ms: u64 = 0, 0..=10_000, "ms";
    /// Growth this fast is assumed possible at any time when the next look is chosen.
    growth_assumed_bytes_per_ms: u64 = 256 << 10, 4 << 10..=16 << 20, "bytes per ms";
    /// The loop looks at usage this often while something has to go.
    wait_ms_min: u64 = 5, 1..=20, "ms";
    /// The loop looks at usage at least this often, however long nothing has changed.
    wait_ms_max: u64 = 1000, 100..=10_000, "ms";
}

/// Who works while something has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Strata, or the kernel because Strata asks it to.
    Ours,
    /// The programs, in their own faults, as long as usage is within the budget.
    Theirs,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Bytes that have to go; 0: nothing has to, or others see to it.
    pub excess_bytes: u64,
    /// Look again after this, unless woken.
    pub wait_ms: u64,
}

/// The state between samples.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    config: Config,
    /// The wait while something has to go and the programs see to it in their own faults.
    left_ms: u64,
    last_bytes: Option<u64>,
    /// From where growth is told.
    grown_from: Option<(TimeMs, u64)>,
    growth_bytes_per_ms: u64,
    is_reclaiming: bool,
    is_unchanged: bool,
    wait_ms: u64,
}

impl Pressure {
    /// Nothing seen yet. While something has to go and the programs see to it in their own faults usage is looked at each
    /// `left_ms`.
    pub(crate) fn new(config: Config, left_ms: u64) -> Pressure {
        Pressure {
            config,
            left_ms,
            wait_ms: config.wait_ms_min,
            ..Pressure::default()
        }
    }

    /// Takes a sample of usage.
    pub(crate) fn sample(&mut self, now: TimeMs, usage_bytes: u64, marks: &Watermarks) {
        self.is_unchanged = self.last_bytes == Some(usage_bytes);
        self.last_bytes = Some(usage_bytes);
        self.learn_growth(now, usage_bytes);
        let ahead = self.ahead_bytes(marks);
        if usage_bytes > self.begin_bytes(marks) {
            self.is_reclaiming = true;
        } else if usage_bytes <= marks.low_bytes.saturating_sub(ahead) {
            self.is_reclaiming = false;
        }
    }

    /// What has to go by the last sample, whoever sees to it.
    pub(crate) fn excess_bytes(&self, marks: &Watermarks) -> u64 {
        let usage_bytes = self.last_bytes.unwrap_or(0);
        match self.is_reclaiming {
            true => {
                usage_bytes.saturating_sub(marks.low_bytes.saturating_sub(self.ahead_bytes(marks)))
            }
            false => 0,
        }
    }

    /// Usage above which reclaim begins, as fast as usage grows.
    pub(crate) fn begin_bytes(&self, marks: &Watermarks) -> u64 {
        marks.high_bytes.saturating_sub(self.ahead_bytes(marks))
    }

    /// What the last sample asks for.
    pub(crate) fn ask(&mut self, marks: &Watermarks, work: Work) -> Ask {
        let config = self.config;
        let usage_bytes = self.last_bytes.unwrap_or(0);
        let mut excess_bytes = 0;
        let is_theirs = work == Work::Theirs && usage_bytes <= marks.budget_bytes;
        self.wait_ms = if self.is_reclaiming && is_theirs {
            self.left_ms
        } else if self.is_reclaiming {
            excess_bytes = self.excess_bytes(marks);
            config.wait_ms_min
        } else if self.is_unchanged {
            (self.wait_ms * 2).min(config.wait_ms_max)
        } else {
            let headroom = self.begin_bytes(marks).saturating_sub(usage_bytes);
            let assumed = config.growth_assumed_bytes_per_ms;
            let per_ms = self.growth_bytes_per_ms.max(assumed);
            (headroom / per_ms).clamp(config.wait_ms_min, config.wait_ms_max)
        };
        Ask {
            excess_bytes,
            wait_ms: self.wait_ms,
        }
    }

    /// Usage is as low as it can be brought: reclaim ends above the low mark, and starts again at the high one.
    pub(crate) fn settle(&mut self) {
        self.is_reclaiming = false;
    }

    /// Notes that another budget holds: there may be work at once.
    pub(crate) fn hurry(&mut self) {
        self.wait_ms = self.config.wait_ms_min;
    }

    /// Waits longer: nothing can be reclaimed for now.
    pub(crate) fn back_off(&mut self) -> u64 {
        let Config {
            wait_ms_min,
            wait_ms_max,
            ..
        } = self.config;
        self.wait_ms = (self.wait_ms * 2).clamp(wait_ms_min, wait_ms_max);
        self.wait_ms
    }

    /// Whether usage is at the high mark within so long, as fast as it grows.
    pub(crate) fn is_near(&self, marks: &Watermarks, within_ms: u64) -> bool {
        let usage_bytes = self.last_bytes.unwrap_or(0);
        usage_bytes + self.growth_bytes_per_ms * within_ms > marks.high_bytes
    }

    /// Whether pages have to go until usage is at the low mark.
    pub(crate) fn is_reclaiming(&self) -> bool {
        self.is_reclaiming
    }

    fn ahead_bytes(&self, marks: &Watermarks) -> u64 {
        let growth_bytes = self.growth_bytes_per_ms * self.config.reaction_ms;
        growth_bytes.min((marks.high_bytes - marks.low_bytes) * self.config.ahead_marks_max)
    }

    fn learn_growth(&mut self, now: TimeMs, usage_bytes: u64) {
        if let Some((then, last)) = self.grown_from {
            let elapsed_ms = now.since(then).max(1);
            if elapsed_ms < self.config.growth_window_ms {
                return;
            }
            let rate = usage_bytes.saturating_sub(last) / elapsed_ms;
            // The fastest growth that was seen is forgotten slowly.
            self.growth_bytes_per_ms = rate.max(self.growth_bytes_per_ms / 2);
        }
        self.grown_from = Some((now, usage_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watermarks;

    const MIB: u64 = 1 << 20;
    const LEFT_MS: u64 = 20;

    /// The asks of a budget of 320 MiB: reclaim begins at 315, ends at 310, and 320 is the promise.
    fn asks(samples: &[(u64, u64)], work: Work) -> Vec<Ask> {
        let marks = Watermarks::new(320 * MIB, &watermarks::Config::DEFAULT);
        let mut pressure = Pressure::new(Config::DEFAULT, LEFT_MS);
        let asks = samples.iter().map(|(now, usage_mib)| {
            pressure.sample(TimeMs(*now), usage_mib * MIB, &marks);
            pressure.ask(&marks, work)
        });
        asks.collect()
    }

    fn excess(samples: &[(u64, u64)], work: Work) -> Vec<u64> {
        let asks = asks(samples, work).into_iter();
        asks.map(|ask| ask.excess_bytes / MIB).collect()
    }

    #[test]
    fn reclaim_begins_at_the_high_mark_and_goes_on_down_to_the_low_one() {
        assert_eq!(excess(&[(0, 315)], Work::Ours), [0]);
        let samples = [(0, 316), (500, 312), (1000, 310), (1500, 312)];
        assert_eq!(excess(&samples, Work::Ours), [6, 2, 0, 0]);
    }

    #[test]
    fn programs_that_reclaim_for_themselves_are_helped_above_the_budget_only() {
        let asks = asks(&[(0, 317), (20, 317), (40, 322)], Work::Theirs);
        assert_eq!(
            asks[..2],
            [Ask {
                excess_bytes: 0,
                wait_ms: LEFT_MS
            }; 2]
        );
        assert!(asks[2].excess_bytes >= 12 * MIB && asks[2].wait_ms == Config::DEFAULT.wait_ms_min);
    }

    #[test]
    fn reclaim_that_has_come_to_its_end_above_the_low_mark_starts_again_at_the_high_one() {
        let marks = Watermarks::new(320 * MIB, &watermarks::Config::DEFAULT);
        let mut pressure = Pressure::new(Config::DEFAULT, LEFT_MS);
        let mut excess_mib = |now: u64, usage_mib: u64, is_at_floor: bool| {
            pressure.sample(TimeMs(now), usage_mib * MIB, &marks);
            let ask = pressure.ask(&marks, Work::Ours);
            if is_at_floor {
                pressure.settle();
            }
            ask.excess_bytes / MIB
        };
        assert_eq!(excess_mib(0, 316, false), 6);
        assert_eq!(excess_mib(5000, 313, true), 3);
        assert_eq!(excess_mib(10_000, 313, false), 0, "as low as it can be");
        assert_eq!(excess_mib(15_000, 316, false), 6);
    }

    #[test]
    fn growth_starts_reclaim_earlier_and_takes_it_further() {
        assert_eq!(excess(&[(0, 200), (200, 312)], Work::Ours), [0, 7]);
        assert_eq!(excess(&[(0, 200), (2000, 312)], Work::Ours), [0, 0]);
    }

    #[test]
    fn what_grows_is_looked_at_before_it_can_be_at_the_high_mark() {
        let asks = asks(&[(0, 100), (1000, 102), (1010, 302)], Work::Ours);
        let waits: Vec<u64> = asks.iter().map(|ask| ask.wait_ms).collect();
        assert_eq!(waits, [860, 851, Config::DEFAULT.wait_ms_min]);
    }

    #[test]
    fn an_idle_program_is_looked_at_ever_more_seldom_down_to_once_a_second() {
        let asks = asks(&[(0, 315); 12], Work::Ours);
        let waits: Vec<u64> = asks.iter().map(|ask| ask.wait_ms).collect();
        assert_eq!(waits[..6], [5, 10, 20, 40, 80, 160]);
        assert_eq!(waits[11], Config::DEFAULT.wait_ms_max);
    }

    #[test]
    fn who_backs_off_waits_twice_as_long_each_time_and_a_new_budget_ends_that() {
        let mut pressure = Pressure::new(Config::DEFAULT, LEFT_MS);
        let waits: Vec<u64> = (0..9).map(|_| pressure.back_off()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        pressure.hurry();
        assert_eq!(pressure.back_off(), 10);
    }

    #[test]
    fn reclaim_gets_ahead_of_growth_by_what_comes_in_ten_milliseconds() {
        // 0.2 MiB a millisecond: reclaim begins at 313, and ends at 308.
        assert_eq!(excess(&[(0, 200), (560, 312)], Work::Ours), [0, 0]);
        assert_eq!(excess(&[(0, 200), (569, 314)], Work::Ours), [0, 6]);
    }

    #[test]
    fn a_budget_that_is_used_up_exactly_is_left_to_programs_that_reclaim_for_themselves() {
        assert_eq!(excess(&[(0, 320)], Work::Theirs), [0]);
        assert_eq!(excess(&[(0, 321)], Work::Theirs), [11]);
    }
}
