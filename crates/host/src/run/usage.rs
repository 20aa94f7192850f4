//! Usage over time: peak, time-weighted mean, time above the budget.
//!
//! **Owns** the sums. **Does not own** sampling.

use crate::run::report::UsageReport;
use strata_lru::TimeMs;

/// Sums over samples; a sample holds until the next.
#[derive(Debug)]
pub(super) struct UsageMeter {
    /// But for the mean.
    sums: UsageReport,
    last: Option<(TimeMs, u64)>,
    byte_ms: u128,
}

impl UsageMeter {
    /// Nothing seen yet.
    pub(super) fn new(budget_bytes: u64, measured_by: &'static str) -> UsageMeter {
        let sums = UsageReport {
            budget_bytes,
            measured_by,
            ..UsageReport::default()
        };
        UsageMeter {
            sums,
            last: None,
            byte_ms: 0,
        }
    }

    /// From now on another budget is measured against.
    pub(super) fn set_budget(&mut self, now: TimeMs, budget_bytes: u64) {
        self.settle(now);
        self.sums.budget_bytes = budget_bytes;
    }

    /// The last sample.
    pub(super) fn last_bytes(&self) -> Option<u64> {
        self.last.map(|(_, usage)| usage)
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self, now: TimeMs, usage_bytes: u64) {
        self.advance(now);
        self.last = Some((now, usage_bytes));
        self.sums.peak_bytes = self.sums.peak_bytes.max(usage_bytes);
        self.sums.nr_samples += 1;
    }

    fn advance(&mut self, now: TimeMs) {
        if let Some((then, usage)) = self.last {
            let elapsed_ms = now.since(then);
            self.byte_ms += u128::from(usage) * u128::from(elapsed_ms);
            self.sums.observed_ms += elapsed_ms;
            if usage > self.sums.budget_bytes {
                self.sums.above_budget_ms += elapsed_ms;
            }
        }
    }

    /// Counts the last sample up to `now`.
    fn settle(&mut self, now: TimeMs) {
        self.advance(now);
        if let Some(last) = &mut self.last {
            last.0 = now;
        }
    }

    /// The sums up to `now`.
    pub(super) fn report(&mut self, now: TimeMs) -> UsageReport {
        self.settle(now);
        let mean_bytes = match self.sums.observed_ms {
            0 => self.last.map_or(0, |(_, usage)| usage),
            ms => u64::try_from(self.byte_ms / u128::from(ms)).unwrap_or(u64::MAX),
        };
        UsageReport {
            mean_bytes,
            ..self.sums.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_weighted_by_time_and_the_last_sample_holds_to_the_end() {
        let mut meter = UsageMeter::new(100, "rss");
        meter.sample(TimeMs(0), 50);
        meter.sample(TimeMs(10), 150);
        let report = meter.report(TimeMs(40));
        assert_eq!(report.mean_bytes, (50 * 10 + 150 * 30) / 40);
        assert_eq!((report.peak_bytes, report.above_budget_ms), (150, 30));
        assert_eq!(report.nr_samples, 2);
    }

    #[test]
    fn time_above_counts_against_the_budget_that_held_then() {
        let mut meter = UsageMeter::new(100, "rss");
        meter.sample(TimeMs(0), 150);
        meter.set_budget(TimeMs(10), 200);
        meter.set_budget(TimeMs(40), 120);
        let report = meter.report(TimeMs(60));
        assert_eq!((report.above_budget_ms, report.observed_ms), (10 + 20, 60));
        assert_eq!(report.budget_bytes, 120);
    }
}
