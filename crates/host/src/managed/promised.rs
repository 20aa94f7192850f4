//! What is promised of a group: that little comes back, or that little time is lost.
//!
//! ```text
//!   0.2%/min        of its footprint at most that share comes back within a minute
//!   slowdown 1%     its tasks wait for memory for at most that share of a minute
//! ```
//!
//! A promise by time is kept by what tasks wait (`waits`). How fast memory goes follows from how many pages could come back
//! within that time, one after the other, but never more than a small share of the group: what a fault costs beside its read
//! is not measured.
//!
//! **Owns** both, and what they are to whoever keeps them. **Does not own** how they are kept
//! (`strata_control::promise`).

use std::fmt;
use std::time::Duration;
use strata_control::promise::Promise;

/// What a page takes to be read back where nobody has measured that: a disk's millisecond.
const READ_ASSUMED: Duration = Duration::from_millis(1);
/// No promise by time lets more of a group come back within a minute: 5 %. From compressed swap a gigabyte could be read in a
/// second, and the group would wait for as many faults.
const SHARE_MAX: f64 = 0.05;
/// What is promised is promised for a minute.
const MINUTE: Duration = Duration::from_secs(60);

/// What is promised of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Promised {
    /// At most this share of its footprint comes back within a minute: 0.002 for 0.2 %.
    ComesBack(f64),
    /// Its tasks wait for memory for at most this share of the time: 0.01 for 1 %.
    Slowdown(f64),
}

impl fmt::Display for Promised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As it was written: shares are no whole numbers, and percentages mostly are short ones.
        let percent = |share: f64| (share * 1e8).round() / 1e6;
        match self {
            Promised::ComesBack(share) => write!(f, "{}%/min", percent(*share)),
            Promised::Slowdown(share) => write!(f, "slowdown {}%", percent(*share)),
        }
    }
}

/// What that is for a group of so many pages, of which each takes so long to be read back. The rest is as in `none`, by
/// which nothing may come back.
pub(super) fn promise_of(
    promised: Option<Promised>,
    none: Promise,
    nr_footprint_pages: u64,
    read: Option<Duration>,
) -> Promise {
    match promised {
        None => none,
        Some(Promised::ComesBack(share_per_min)) => Promise {
            share_per_min,
            ..none
        },
        Some(Promised::Slowdown(stall_share)) => {
            let read = read.unwrap_or(READ_ASSUMED).max(Duration::from_nanos(1));
            let nr_pages = MINUTE.as_secs_f64() * stall_share / read.as_secs_f64();
            let of_group = nr_pages / nr_footprint_pages.max(1) as f64;
            Promise {
                share_per_min: of_group.min(SHARE_MAX),
                stall_share,
                ..none
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_told_as_it_is_written() {
        for (promised, text) in [
            (Promised::ComesBack(0.002), "0.2%/min"),
            (Promised::ComesBack(1.0), "100%/min"),
            (Promised::Slowdown(0.01), "slowdown 1%"),
            (Promised::Slowdown(0.0005), "slowdown 0.05%"),
        ] {
            assert_eq!(promised.to_string(), text);
        }
    }

    #[test]
    fn a_promise_by_time_lets_as_many_pages_come_back_as_can_be_read_within_it() {
        let none = Promise {
            share_per_min: 0.0,
            min_age: MINUTE,
            stall_share: 0.5,
        };
        let of = |nr_pages, read| promise_of(Some(Promised::Slowdown(0.01)), none, nr_pages, read);
        let read = Some(Duration::from_micros(100));
        // 0.6 s of a minute, 6,000 reads.
        let promise = of(600_000, read);
        assert!((promise.share_per_min - 0.01).abs() < 1e-9, "{promise:?}");
        assert_eq!(promise.stall_share, 0.01);
        assert_eq!(
            of(600, read).share_per_min,
            SHARE_MAX,
            "however fast swap is"
        );
        let slow = of(600_000, None);
        assert!((slow.share_per_min - 0.001).abs() < 1e-9, "{slow:?}");
    }
}
