//! How often the kernel's counts of the group are brought up to date, which reading `memory.stat` does.
//!
//! The kernel decides by counters that are up to two seconds old whether to deactivate pages, and then deactivates
//! all or none. Reading `memory.stat` updates the counters. Programs that reclaim in their own faults do better with
//! rare readings, so the interval grows while enough pages are inactive and `list_balance` does not decide.
//!
//! **Owns** the pace. **Does not own** the reading.
//!
//! **Invariants** I1: a reading that finds little, or nothing that can be known, halves the time.

use crate::sample::GroupStats;
use crate::tunables::config;

config! {
    /// How often the kernel's counts of the group are brought up to date.
    "stat_pace"

    /// The counts are read this often where something is at stake or nothing is known.
    every_ms_min: u64 = 20, 1..=100, "ms";
    /// The counts are read at least this often, however much is on the inactive lists.
    every_ms_max: u64 = 300, 100..=10_000, "ms";
    /// Enough is inactive when it is more than this part of what is on the lists.
    inactive_share: u64 = 4, 1..=64, "1/n of the lists";
    /// The time between two readings grows by this part of itself after a reading that found enough inactive.
    longer_share: u64 = 4, 1..=16, "1/n of the time";
}

/// The pace so far.
#[derive(Debug)]
pub(crate) struct StatPace {
    config: Config,
    every_ms: u64,
}

impl StatPace {
    /// Nothing known yet.
    pub(crate) fn new(config: Config) -> StatPace {
        StatPace {
            config,
            every_ms: config.every_ms_min,
        }
    }

    /// The next reading is due as soon as it ever is.
    pub(crate) fn begin_anew(&mut self) {
        self.every_ms = self.config.every_ms_min;
    }

    /// The next reading is due so long after the last one.
    pub(crate) fn every_ms(&self) -> u64 {
        self.every_ms
    }

    /// Takes a reading in. `is_left`: the programs reclaim for themselves, inactive pages can go, and most of
    /// usage is on the lists.
    pub(crate) fn after(&mut self, stats: &GroupStats, is_left: bool) {
        let Config {
            every_ms_min,
            every_ms_max,
            inactive_share,
            longer_share,
        } = self.config;
        let lists = [stats.lru_anon_bytes, stats.lru_file_bytes];
        let on_lists_bytes: u64 = lists.into_iter().flatten().sum();
        let is_enough = stats
            .inactive_bytes
            .is_some_and(|inactive| inactive > on_lists_bytes / inactive_share);
        self.every_ms = match (is_left, is_enough) {
            (false, _) => every_ms_min,
            (true, true) => (self.every_ms + self.every_ms / longer_share).min(every_ms_max),
            (true, false) => (self.every_ms / 2).max(every_ms_min),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(inactive: u64, active: u64) -> GroupStats {
        GroupStats {
            lru_anon_bytes: Some(inactive + active),
            inactive_bytes: Some(inactive),
            ..GroupStats::default()
        }
    }

    #[test]
    fn counts_may_grow_old_while_much_is_inactive_and_programs_reclaim_for_themselves() {
        let mut pace = StatPace::new(Config::DEFAULT);
        (0..100).for_each(|_| pace.after(&stats(90, 90), true));
        assert_eq!(pace.every_ms(), Config::DEFAULT.every_ms_max);
        pace.after(&stats(40, 140), true);
        assert_eq!(pace.every_ms(), Config::DEFAULT.every_ms_max / 2);
        pace.after(&stats(90, 90), false);
        assert_eq!(pace.every_ms(), Config::DEFAULT.every_ms_min);
    }

    #[test]
    fn where_little_is_inactive_or_nothing_is_known_they_stay_fresh() {
        let mut pace = StatPace::new(Config::DEFAULT);
        for _ in 0..100 {
            pace.after(&stats(10, 170), true);
            assert_eq!(pace.every_ms(), Config::DEFAULT.every_ms_min);
            pace.after(&GroupStats::default(), true);
            assert_eq!(pace.every_ms(), Config::DEFAULT.every_ms_min);
        }
    }
}
