//! Whether reclaim gets anywhere: arithmetic over usage, attempts and bytes freed.
//!
//! A budget can lie below what the program can't give up: memory that is locked, shared with others,
//! in constant use, the kernel's own (page tables), or anonymous while there is no swap. Each attempt
//! then costs and brings next to nothing, so attempts become rare until something changes.
//!
//! **Owns** that judgement and the pace of attempts while it stands. **Does not own** the attempts
//! nor what the user is told.

use crate::tunables::config;
use strata_lru::TimeMs;

config! {
    /// When reclaim is in vain, and how often it is tried then.
    "stall"

    /// Reclaim is in vain where it has brought next to nothing for so long.
    stall_ms: u64 = 1000, 100..=60_000, "ms";
}

/// Fewer attempts that were answered prove nothing, because Strata itself may have been short of processors: where it is
/// not it makes a hundred in a second.
const ATTEMPTS_MIN: u64 = 8;
/// Less than this, freed by attempts or grown by the program, is next to nothing: a reclaim that gets anywhere frees as much
/// in some milliseconds.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Usage, attempts and bytes freed at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When.
    pub now: TimeMs,
    /// Whether anything should be reclaimed at all.
    pub is_wanted: bool,
    /// Charged now.
    pub usage_bytes: u64,
    /// Attempts answered since the start.
    pub nr_attempts: u64,
    /// Freed since the start.
    pub freed_bytes: u64,
}

/// The state between samples.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    config: Config,
    /// Where reclaim began, or last got somewhere.
    since: Option<Sample>,
    is_stalled: bool,
    tried: Option<TimeMs>,
}

impl Stall {
    /// Nothing tried yet.
    pub(crate) fn new(config: Config) -> Stall {
        Stall {
            config,
            ..Stall::default()
        }
    }

    /// Takes a sample; whether reclaim gets nowhere.
    pub(crate) fn sample(&mut self, sample: Sample) -> bool {
        if !sample.is_wanted {
            self.since = None;
            self.is_stalled = false;
            return false;
        }
        let Some(start) = self.since else {
            self.since = Some(sample);
            return false;
        };
        let freed = sample.freed_bytes.saturating_sub(start.freed_bytes);
        let grown = sample.usage_bytes.saturating_sub(start.usage_bytes);
        if freed.max(grown) >= PROGRESS_BYTES {
            self.since = Some(sample);
            self.is_stalled = false;
        } else if sample.now.since(start.now) >= self.config.stall_ms
            && sample.nr_attempts.saturating_sub(start.nr_attempts) >= ATTEMPTS_MIN
        {
            self.is_stalled = true;
        }
        self.is_stalled
    }

    /// How long the next attempt has to wait; `None`: it may come now, and is counted as made.
    pub(crate) fn pause_ms(&mut self, now: TimeMs) -> Option<u64> {
        if !self.is_stalled {
            return None;
        }
        // As many attempts in that time as prove something.
        let pause_ms = self.config.stall_ms / ATTEMPTS_MIN;
        let waited_ms = self.tried.map_or(pause_ms, |then| now.since(then));
        if waited_ms >= pause_ms {
            self.tried = Some(now);
            return None;
        }
        Some(pause_ms - waited_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn at(now: u64, usage_mib: u64, nr_attempts: u64, freed_bytes: u64) -> Sample {
        Sample {
            now: TimeMs(now),
            is_wanted: usage_mib > 32,
            usage_bytes: usage_mib * MIB,
            nr_attempts,
            freed_bytes,
        }
    }

    #[test]
    fn many_attempts_that_free_nothing_are_a_stall_and_become_rare() {
        let mut stall = Stall::new(Config::DEFAULT);
        assert!(!stall.sample(at(0, 64, 0, 0)));
        assert!(!stall.sample(at(900, 64, 100, 0)));
        assert!(stall.sample(at(1000, 64, 110, 4096)));
        assert_eq!(stall.pause_ms(TimeMs(1000)), None);
        assert_eq!(stall.pause_ms(TimeMs(1005)), Some(120));
        assert_eq!(stall.pause_ms(TimeMs(1125)), None);
    }

    #[test]
    fn what_can_be_taken_again_ends_it() {
        let mut stall = Stall::new(Config::DEFAULT);
        stall.sample(at(0, 64, 0, 0));
        assert!(stall.sample(at(1000, 64, 10, 0)));
        assert!(!stall.sample(at(1300, 60, 11, 4 * MIB)));
        assert_eq!(stall.pause_ms(TimeMs(1300)), None);
    }

    #[test]
    fn growth_brings_new_pages_so_it_is_no_stall() {
        let mut stall = Stall::new(Config::DEFAULT);
        stall.sample(at(0, 64, 0, 0));
        assert!(!stall.sample(at(1000, 66, 100, 0)));
    }

    #[test]
    fn a_machine_that_lets_nobody_try_is_no_stall() {
        let mut stall = Stall::new(Config::DEFAULT);
        stall.sample(at(0, 64, 0, 0));
        assert!(!stall.sample(at(5000, 64, 3, 0)));
    }

    #[test]
    fn where_nothing_is_to_be_reclaimed_there_is_nothing_to_stall() {
        let mut stall = Stall::new(Config::DEFAULT);
        stall.sample(at(0, 31, 0, 0));
        assert!(!stall.sample(at(1000, 31, 100, 0)));
        assert!(!stall.sample(at(2000, 33, 200, 0)), "it begins only now");
    }
}
