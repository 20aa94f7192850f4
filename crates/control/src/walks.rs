//! When walks come.
//!
//! **Owns** when the last walk was, what that walk cost, and how far apart walks are. **Does not own** walking, nor the
//! pause after clearing accessed bits, which the host keeps.
//!
//! **Invariants** I1: walks that nobody has ordered take at most one tenth of a processor. I2: [`Walks::pause_ms`] has no
//! walk come below the approach, or where usage has not moved since the last one.

use crate::strategy::split_huge::COUNTED_WALK_MS;
use crate::tunables::config;
use strata_lru::TimeMs;

config! {
    /// How far apart walks are, whatever they are for.
    "walks"

    /// Two walks are at least so far apart while pages have to go one by one.
    pause_ms_min: u64 = 20, 1..=100, "ms";
    /// Interval of walks where the kernel chooses what goes, ahead of the limit or in the programs' own faults: clearing accessed
    /// bits hides accesses from it.
    pause_watch_ms: u64 = 10_000, 1000..=600_000, "ms";
    /// Interval of walks near the budget while usage moves and nothing has to be reclaimed, where pages go one by one.
    pause_approach_ms: u64 = 1000, 100..=10_000, "ms";
}

/// Walks pause for so many times what the last one took of a processor, so that they keep the promise of I1. `--cpu` is how
/// a user has them take less.
const PAUSE_FACTOR: u64 = 10;

/// What walks are for at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purpose {
    /// Whether what was split has to be seen.
    pub is_splitting: bool,
    /// Whether the kernel chooses what goes.
    pub is_by_amount: bool,
    /// Whether pageout is to take pages.
    pub is_pageout_wanted: bool,
    /// Whether the engine wants a new generation.
    pub is_ageing_due: bool,
}

impl Purpose {
    /// How far apart walks are to be; `None`: there is no need of one.
    fn pause_ms(&self, config: &Config) -> Option<u64> {
        let splitting_ms = self.is_splitting.then_some(COUNTED_WALK_MS);
        match (self.is_pageout_wanted, self.is_by_amount) {
            (true, _) if self.is_ageing_due => Some(config.pause_ms_min),
            (true, _) => splitting_ms,
            (false, true) => splitting_ms.or(Some(config.pause_watch_ms)),
            (false, false) => splitting_ms.or(Some(config.pause_approach_ms)),
        }
    }
}

/// What the last walks were.
#[derive(Debug, Default)]
pub struct Walks {
    config: Config,
    last: Option<TimeMs>,
    /// CPU and wall time that it took, nanoseconds.
    took_ns: (u64, u64),
    usage_bytes: u64,
    has_kernel_taken: bool,
}

impl Walks {
    /// None made yet.
    pub fn new(config: Config) -> Walks {
        Walks {
            config,
            ..Walks::default()
        }
    }

    /// How far apart walks are to be now, with so much in use, where they come from `approach_bytes` on; `None`: none is
    /// needed.
    pub fn pause_ms(
        &self,
        purpose: &Purpose,
        usage_bytes: u64,
        approach_bytes: u64,
    ) -> Option<u64> {
        let is_near = usage_bytes >= approach_bytes;
        let pause_ms = purpose.pause_ms(&self.config).filter(|_| is_near)?;
        (usage_bytes != self.usage_bytes).then_some(pause_ms)
    }

    /// Whether walks that are so far apart allow one now.
    pub fn may_look(&self, now: TimeMs, pause_ms: u64) -> bool {
        self.last
            .is_none_or(|then| now.since(then) >= pause_ms.max(self.own_pause_ms()))
    }

    /// How far apart walks come at least, by what the last one cost; milliseconds.
    pub fn own_pause_ms(&self) -> u64 {
        let (cpu_ns, wall_ns) = self.took_ns;
        // Where a walk waits, for a processor or a lock, there is a time without any before the next.
        (cpu_ns * PAUSE_FACTOR).max(wall_ns * 2) / 1_000_000
    }

    /// The kernel may have taken pages of programs that did not run.
    pub fn kernel_took_pages(&mut self) {
        self.has_kernel_taken = true;
    }

    /// Whether programs that did not run are to be looked at, too, by the walk that begins now.
    pub fn is_thorough(&mut self) -> bool {
        std::mem::take(&mut self.has_kernel_taken)
    }

    /// What the walk that has just been made took, nanoseconds of CPU and of wall time.
    pub fn note_cost(&mut self, cpu_ns: u64, wall_ns: u64) {
        self.took_ns = (cpu_ns, wall_ns);
    }

    /// A walk has ended, with so much in use.
    pub fn note_end(&mut self, now: TimeMs, usage_bytes: u64) {
        self.last = Some(now);
        self.usage_bytes = usage_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(change: impl Fn(&mut Purpose)) -> Option<u64> {
        let mut purpose = Purpose::default();
        change(&mut purpose);
        purpose.pause_ms(&Config::DEFAULT)
    }

    #[test]
    fn how_far_apart_walks_are_is_what_whoever_reclaims_needs() {
        assert_eq!(pause(|_| {}), Some(Config::DEFAULT.pause_approach_ms));
        assert_eq!(
            pause(|of| of.is_by_amount = true),
            Some(Config::DEFAULT.pause_watch_ms)
        );
        assert_eq!(pause(|of| of.is_pageout_wanted = true), None);
        let wanted = pause(|of| (of.is_pageout_wanted, of.is_ageing_due) = (true, true));
        assert_eq!(wanted, Some(Config::DEFAULT.pause_ms_min));
    }

    #[test]
    fn what_was_split_is_looked_at_soon_whoever_reclaims() {
        for is_by_amount in [false, true] {
            let split = pause(|of| (of.is_splitting, of.is_by_amount) = (true, is_by_amount));
            assert_eq!(split, Some(COUNTED_WALK_MS));
        }
        let wanted = pause(|of| (of.is_splitting, of.is_pageout_wanted) = (true, true));
        assert_eq!(wanted, Some(COUNTED_WALK_MS));
    }

    #[test]
    fn no_walk_comes_far_from_the_budget_or_where_nothing_has_moved() {
        let mut walks = Walks::new(Config::DEFAULT);
        let purpose = Purpose::default();
        assert_eq!(walks.pause_ms(&purpose, 89, 90), None);
        assert!(walks.pause_ms(&purpose, 90, 90).is_some());
        walks.note_end(TimeMs(0), 90);
        assert_eq!(walks.pause_ms(&purpose, 90, 90), None);
        assert!(walks.pause_ms(&purpose, 91, 90).is_some());
    }

    #[test]
    fn walks_take_a_tenth_of_a_processor_and_half_of_the_time_at_most() {
        let mut walks = Walks::new(Config::DEFAULT);
        assert!(walks.may_look(TimeMs(0), 20));
        walks.note_end(TimeMs(0), 90);
        walks.note_cost(30_000_000, 40_000_000);
        assert!(!walks.may_look(TimeMs(299), 20) && walks.may_look(TimeMs(300), 20));
        assert!(!walks.may_look(TimeMs(999), 1000));
        walks.note_cost(1_000_000, 400_000_000);
        assert!(!walks.may_look(TimeMs(799), 20) && walks.may_look(TimeMs(800), 20));
    }

    #[test]
    fn after_the_kernel_took_pages_one_walk_looks_at_all_programs() {
        let mut walks = Walks::new(Config::DEFAULT);
        assert!(!walks.is_thorough());
        walks.kernel_took_pages();
        assert!(walks.is_thorough() && !walks.is_thorough());
    }
}
