//! How fast pages may come up to one node, and how hot they must be (the kernel's `fair.c`).
//!
//! Two brakes. The rate limit counts candidates in windows of a second and refuses once they come to
//! the limit. The threshold is the latency below which a hint fault counts as hot; it adapts once a scan
//! period, so that the candidates come to about as many as the limit lets through:
//!
//! ```text
//!   candidates of the period   > 110 % of the limit    threshold down by an eighth of the default
//!                              <  90 %                 threshold up by as much, to twice the default
//! ```
//!
//! **Owns** both brakes. **Does not own** what a candidate is.
//!
//! **Invariants**
//! - I1: an eighth of the default (at least 1 ms) <= threshold <= twice the default.
//! - I2: in one window no more pass than the limit says and the folio that opens the window.

use crate::ids::TimeMs;

/// A window of the rate limit.
const WINDOW_MS: u64 = 1000;

/// The threshold moves in so many steps from 0 to twice the default.
const NR_THRESHOLD_STEPS: u64 = 16;

/// The brakes' settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Base pages a second.
    pub(super) nr_pages_per_s: u64,
    pub(super) threshold_ms: u64,
    pub(super) adapt_period_ms: u64,
}

/// What the brakes say to a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Admitted,
    /// Accessed too long after its entry was made to fault.
    TooCold,
    RateLimited,
}

/// The brakes on the way to one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Throttle {
    /// 0 stands for the default.
    threshold_ms: u64,
    nr_candidates: u64,
    window_start: TimeMs,
    nr_candidates_at_window: u64,
    period_start: TimeMs,
    nr_candidates_at_period: u64,
}

impl Throttle {
    /// Much is free: nobody is held up, and the threshold starts afresh.
    pub(super) fn reset_threshold(&mut self) {
        self.threshold_ms = 0;
    }

    /// The latency that counts as hot now.
    pub(super) fn threshold_ms(&self, limits: &Limits) -> u64 {
        match self.threshold_ms {
            0 => limits.threshold_ms,
            adapted => adapted,
        }
    }

    /// Judges a mapped page by its latency, then by the rate.
    pub(super) fn admit_mapped(
        &mut self,
        limits: &Limits,
        nr_pages: u64,
        latency_ms: u64,
        now: TimeMs,
    ) -> Admission {
        self.adapt(limits, now);
        if latency_ms >= self.threshold_ms(limits) {
            return Admission::TooCold;
        }
        self.admit(limits, nr_pages, now)
    }

    /// Judges a page that is known to be hot by the rate alone.
    pub(super) fn admit(&mut self, limits: &Limits, nr_pages: u64, now: TimeMs) -> Admission {
        self.nr_candidates += nr_pages;
        if now.since(self.window_start) > WINDOW_MS {
            self.window_start = now;
            // The candidate that opens a window is not counted in it.
            self.nr_candidates_at_window = self.nr_candidates;
        }
        if self.nr_candidates - self.nr_candidates_at_window >= limits.nr_pages_per_s {
            Admission::RateLimited
        } else {
            Admission::Admitted
        }
    }

    fn adapt(&mut self, limits: &Limits, now: TimeMs) {
        let period_ms = limits.adapt_period_ms;
        if now.since(self.period_start) <= period_ms {
            return;
        }
        self.period_start = now;
        // Wide, because the limit may be set to anything.
        let allowed = u128::from(limits.nr_pages_per_s) * u128::from(period_ms) / 1000;
        let nr_candidates = u128::from(self.nr_candidates - self.nr_candidates_at_period);
        let default_ms = limits.threshold_ms;
        let step_ms = (default_ms * 2 / NR_THRESHOLD_STEPS).max(1);
        let threshold_ms = self.threshold_ms(limits);
        self.threshold_ms = if nr_candidates > allowed * 11 / 10 {
            threshold_ms.saturating_sub(step_ms).max(step_ms)
        } else if nr_candidates < allowed * 9 / 10 {
            (threshold_ms + step_ms).min(default_ms * 2)
        } else {
            threshold_ms
        };
        self.nr_candidates_at_period = self.nr_candidates;
    }
}
