//! How much may be written to swap now, where a rate bounds that: a disk wears, and others wait for it.
//!
//! ```text
//!   room_pages(at)      how many pages may go at `at`
//!   spend(pages)        so many are on their way
//!   refund(pages)       so many of them did not go
//! ```
//!
//! A bucket that fills at the rate and holds two seconds of it. What is spent beyond it is paid back before more goes, so
//! over any time the rate holds, but for one step.
//!
//! **Owns** the bucket. **Does not own** which swap is bounded, nor who writes (the host).
//!
//! **Invariants** I1: from one moment to another no more is spent than the rate times the time between them, two seconds
//! of it, and the last step.

use crate::PAGE_BYTES;
use std::time::Duration;

/// What is saved up at most: a look that comes a second late loses nothing, and no burst is longer.
const SAVED_S: f64 = 2.0;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct SwapWrites {
    bytes_per_s: u64,
    left_bytes: f64,
    filled_at: Option<Duration>,
}

impl SwapWrites {
    /// So many bytes a second; a second of it is there from the start.
    pub fn new(bytes_per_s: u64) -> SwapWrites {
        SwapWrites {
            bytes_per_s,
            left_bytes: bytes_per_s as f64,
            filled_at: None,
        }
    }

    /// Pages that may go at `at`, on a clock that does not go back.
    pub fn room_pages(&mut self, at: Duration) -> u64 {
        let rate = self.bytes_per_s as f64;
        let last = self.filled_at.replace(at).unwrap_or(at);
        let come = at.saturating_sub(last).as_secs_f64() * rate;
        self.left_bytes = (self.left_bytes + come).min(rate * SAVED_S);
        (self.left_bytes.max(0.0) / PAGE_BYTES as f64) as u64
    }

    /// So many pages are on their way, which may be more than there was room for.
    pub fn spend(&mut self, nr_pages: u64) {
        self.left_bytes -= (nr_pages * PAGE_BYTES) as f64;
    }

    /// So many pages that were on their way did not go.
    pub fn refund(&mut self, nr_pages: u64) {
        self.left_bytes += (nr_pages * PAGE_BYTES) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: u64 = 10 << 20;
    const RATE_PAGES: u64 = RATE / PAGE_BYTES;

    #[test]
    fn the_rate_holds_and_two_seconds_of_it_are_saved_at_most() {
        let at = Duration::from_secs;
        let mut writes = SwapWrites::new(RATE);
        assert_eq!(writes.room_pages(at(5)), RATE_PAGES, "from the start");
        writes.spend(RATE_PAGES);
        assert_eq!(writes.room_pages(at(5)), 0);
        assert_eq!(writes.room_pages(at(6)), RATE_PAGES);
        assert_eq!(writes.room_pages(at(600)), 2 * RATE_PAGES);
    }

    #[test]
    fn what_goes_beyond_the_room_is_paid_back_before_more_goes() {
        let at = Duration::from_secs;
        let mut writes = SwapWrites::new(RATE);
        writes.room_pages(at(0));
        writes.spend(3 * RATE_PAGES);
        assert_eq!(writes.room_pages(at(2)), 0);
        assert_eq!(writes.room_pages(at(3)), RATE_PAGES);
        writes.spend(RATE_PAGES);
        writes.refund(RATE_PAGES / 2);
        assert_eq!(writes.room_pages(at(3)), RATE_PAGES / 2, "what did not go");
    }

    proptest! {
        #[test]
        fn no_time_sees_more_than_the_rate_and_two_seconds_of_it(
            steps in proptest::collection::vec((0u64..5_000, 0u64..100_000), 1..50),
        ) {
            let mut writes = SwapWrites::new(RATE);
            let (mut at, mut spent) = (Duration::ZERO, 0);
            for (passed_ms, wanted) in steps {
                at += Duration::from_millis(passed_ms);
                let step = wanted.min(writes.room_pages(at));
                writes.spend(step);
                spent += step;
                let allowed = RATE_PAGES as f64 * (at.as_secs_f64() + SAVED_S);
                prop_assert!(spent as f64 <= allowed);
            }
        }
    }
}
