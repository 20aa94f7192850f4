//! Exponential backoff: what failed is tried again after a pause, twice as long each time.
//!
//! ```text
//!   failed: min, 2 min, 4 min, .. 32 min     succeeded: none, and min the next time
//! ```
//!
//! **Owns** the pause. **Does not own** what is tried, nor what counts as failing.
//!
//! **Invariants**
//! - I1: a pause is never shorter than the least, nor longer than [`TIMES_MAX`] times the least.
//! - I2: the pause after a success, or before any failure, is none.

use strata_lru::TimeMs;

/// The longest pause is so many times the shortest: five doublings.
pub(crate) const TIMES_MAX: u64 = 32;

/// The pauses between trials of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    min_ms: u64,
    length_ms: u64,
    until: Option<TimeMs>,
}

impl Backoff {
    /// Nothing has failed yet. `min_ms` is the first pause.
    pub(crate) const fn new(min_ms: u64) -> Backoff {
        Backoff {
            min_ms,
            length_ms: 0,
            until: None,
        }
    }

    /// Notes that a try failed: a pause begins.
    pub(crate) fn failed(&mut self, now: TimeMs) {
        self.length_ms = (self.length_ms * 2).clamp(self.min_ms, self.max_ms());
        self.until = Some(TimeMs(now.0.saturating_add(self.length_ms)));
    }

    /// Notes that a try succeeded: there is no pause, and the next one is the shortest.
    pub(crate) fn succeeded(&mut self) {
        (self.length_ms, self.until) = (0, None);
    }

    fn max_ms(&self) -> u64 {
        self.min_ms.saturating_mul(TIMES_MAX)
    }

    /// Whether a pause is under way, in which nothing is to be tried.
    pub(crate) fn holds(&self, now: TimeMs) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pause_lies_between_the_least_and_the_most(
            min_ms in 1u64..30,
            has_failed in prop::collection::vec(any::<bool>(), 1..50),
        ) {
            let max_ms = min_ms * TIMES_MAX;
            let mut backoff = Backoff::new(min_ms);
            let mut expected_ms = 0;
            for (step, has_failed) in has_failed.into_iter().enumerate() {
                let now = TimeMs(step as u64 * 10_000);
                match has_failed {
                    true => {
                        backoff.failed(now);
                        expected_ms = if expected_ms == 0 { min_ms } else { (expected_ms * 2).min(max_ms) };
                    }
                    false => {
                        backoff.succeeded();
                        expected_ms = 0;
                    }
                }
                let length_ms = (0..=max_ms).find(|ms| !backoff.holds(TimeMs(now.0 + ms)));
                prop_assert_eq!(length_ms, Some(expected_ms));
            }
        }
    }
}
