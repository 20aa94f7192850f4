//! Whether programs wait for a processor.
//!
//! Reclaiming ahead pays where a processor is free for it: the kernel's batched reclaim then costs the
//! program nothing. Where every processor has somebody waiting for it, it would only take turns with
//! the program, and taking fewer and better pages pays instead.
//!
//! ```text
//!   /proc/loadavg:  0.20 0.18 0.12 3/80 11206
//!                                  ^ runnable at this moment, ourselves included
//! ```
//!
//! **Owns** the average and the judgement. **Does not own** what follows from it (`governor`).
//!
//! **Invariants** I1: what Strata itself runs is nobody's competition: one runnable thread, the one
//! that reclaims, is not counted, nor is the one that looks, nor the one that touches pages.

use std::fs;
use strata_lru::TimeMs;

/// The average forgets half of what it knows in so many samples, at least [`SAMPLE_MS`] apart.
const SHARE_OF_LAST: f64 = 1.0 / 16.0;
/// See [`SHARE_OF_LAST`].
const SAMPLE_MS: u64 = 10;
/// Waiting for more than half of the time begins a crowd, ...
const MARGIN_BEGINS: f64 = 0.5;
/// ... for less than a fifth ends it.
const MARGIN_ENDS: f64 = 0.2;
/// Strata's own runnable threads while it reclaims: this one and the one that does the work.
const NR_OWN: u32 = 2;

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Crowd {
    nr_processors: f64,
    nr_runnable: f64,
    sampled: Option<TimeMs>,
    is_crowded: bool,
}

impl Crowd {
    /// Nobody waits, as far as is known.
    pub(super) fn new(nr_processors: usize) -> Crowd {
        Crowd {
            nr_processors: nr_processors as f64,
            nr_runnable: 0.0,
            sampled: None,
            is_crowded: false,
        }
    }

    /// Looks, unless that was done a moment ago. `is_touching`: a third thread of ours runs.
    pub(super) fn look(&mut self, now: TimeMs, is_touching: bool) -> bool {
        let is_fresh = self.sampled.is_some_and(|then| now.since(then) < SAMPLE_MS);
        if !is_fresh && let Some(nr_runnable) = read_runnable() {
            self.sampled = Some(now);
            self.sample(nr_runnable.saturating_sub(NR_OWN + u32::from(is_touching)));
        }
        self.is_crowded
    }

    fn sample(&mut self, nr_others: u32) {
        self.nr_runnable += (f64::from(nr_others) - self.nr_runnable) * SHARE_OF_LAST;
        let margin = match self.is_crowded {
            true => MARGIN_ENDS,
            false => MARGIN_BEGINS,
        };
        self.is_crowded = self.nr_runnable > self.nr_processors + margin;
    }
}

fn read_runnable() -> Option<u32> {
    parse_runnable(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_runnable(text: &str) -> Option<u32> {
    let pair = text.split_ascii_whitespace().nth(3)?;
    pair.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(crowd: &mut Crowd, nr_others: u32, nr_samples: u32) -> bool {
        (0..nr_samples).for_each(|_| crowd.sample(nr_others));
        crowd.is_crowded
    }

    #[test]
    fn the_kernels_line_is_understood() {
        assert_eq!(parse_runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(parse_runnable("0.20 0.18 0.12"), None);
        assert!(read_runnable() >= Some(1), "at least this thread runs");
    }

    #[test]
    fn a_program_a_processor_and_strata_are_no_crowd() {
        let mut crowd = Crowd::new(2);
        assert!(!after(&mut crowd, 2, 1000));
    }

    #[test]
    fn two_who_wait_are_a_crowd_until_they_have_gone() {
        let mut crowd = Crowd::new(2);
        assert!(!after(&mut crowd, 4, 5), "a moment is no crowd");
        assert!(after(&mut crowd, 4, 50));
        assert!(after(&mut crowd, 2, 2), "nor is a moment its end");
        assert!(!after(&mut crowd, 1, 50));
    }
}
