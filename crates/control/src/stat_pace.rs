//! How often the kernel's counts of the group are brought up to date, which reading `memory.stat` does.
//!
//! By its counts of the lists the kernel decides whether pages have to come from the active list to the
//! inactive one. It brings them up to date every two seconds, and with memory that turns over in one it then
//! deactivates everything, and later nothing until the inactive list has run out: it finds nothing to free,
//! and kills, or lets tasks wait. Up to date all the time the two are kept equally long, which is safe. But
//! where programs reclaim in their own faults long turns cost less: two zipf threads on two processors do 2 %
//! more with counts of every 100 ms than of every 20, and 3 % more again with those of every 300. With those of
//! every second they do as much as with 300 ms, and now and then the limit has to give way.
//!
//! So there the time between two readings grows as long as they find enough on the inactive lists, where
//! `list_balance` can't do better.
//!
//! **Owns** the pace. **Does not own** the reading.
//!
//! **Invariants** I1: a reading that finds little, or nothing that can be known, halves the time.

use crate::sample::GroupStats;

/// Where something is at stake, or nothing is known.
const EVERY_MS_MIN: u64 = 20;
/// At most, where much is on the inactive lists.
const EVERY_MS_MAX: u64 = 300;
/// Of what is on the lists so much should be inactive: one in so many pages.
const INACTIVE_SHARE: u64 = 4;

/// The pace so far.
#[derive(Debug)]
pub(crate) struct StatPace {
    every_ms: u64,
}

impl Default for StatPace {
    fn default() -> StatPace {
        StatPace {
            every_ms: EVERY_MS_MIN,
        }
    }
}

impl StatPace {
    /// The next reading is due so long after the last one.
    pub(crate) fn every_ms(&self) -> u64 {
        self.every_ms
    }

    /// Takes a reading in. `is_left`: the programs reclaim for themselves, inactive pages can go, and most of
    /// usage is on the lists.
    pub(crate) fn after(&mut self, stats: &GroupStats, is_left: bool) {
        let lists = [stats.lru_anon_bytes, stats.lru_file_bytes];
        let on_lists_bytes: u64 = lists.into_iter().flatten().sum();
        let is_enough = stats
            .inactive_bytes
            .is_some_and(|inactive| inactive > on_lists_bytes / INACTIVE_SHARE);
        self.every_ms = match (is_left, is_enough) {
            (false, _) => EVERY_MS_MIN,
            (true, true) => (self.every_ms + self.every_ms / 4).min(EVERY_MS_MAX),
            (true, false) => (self.every_ms / 2).max(EVERY_MS_MIN),
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
        let mut pace = StatPace::default();
        (0..100).for_each(|_| pace.after(&stats(90, 90), true));
        assert_eq!(pace.every_ms(), EVERY_MS_MAX);
        pace.after(&stats(40, 140), true);
        assert_eq!(pace.every_ms(), EVERY_MS_MAX / 2);
        pace.after(&stats(90, 90), false);
        assert_eq!(pace.every_ms(), EVERY_MS_MIN);
    }

    #[test]
    fn where_little_is_inactive_or_nothing_is_known_they_stay_fresh() {
        let mut pace = StatPace::default();
        for _ in 0..100 {
            pace.after(&stats(10, 170), true);
            assert_eq!(pace.every_ms(), EVERY_MS_MIN);
            pace.after(&GroupStats::default(), true);
            assert_eq!(pace.every_ms(), EVERY_MS_MIN);
        }
    }
}
