//! Whether a processor is free for Strata.
//!
//! Reclaim ahead of the limit pays where a processor is free for it: it costs the program nothing then. Where none is
//! free, Strata's threads take their time from the program or from its neighbours, and programs best reclaim in their own
//! faults: each pays for its own reclaim.
//!
//! ```text
//!   /proc/loadavg:  0.20 0.18 0.12 3/80 11206
//!                                  ^ runnable at this moment, Strata included
//!
//!   wanted = runnable threads of others + processors that the group's programs want
//!   wanted > processors - 0.2 -> Taken; wanted < processors - 0.5 -> Free; between: as before
//! ```
//!
//! **Owns** the average and the judgement. **Does not own** how much programs want (`demand`), nor what follows
//! from it (`reclaimer`), nor reading the file.
//!
//! **Invariants** I1: what Strata itself runs takes no processor from itself: of the runnable threads those of Strata
//! that may be at work are not counted.

use crate::sample::{CpuState, Wanted};
use crate::tunables::config;
use strata_lru::TimeMs;

config! {
    /// From where on no processor is free.
    "cpu.contention"

    /// No processor is free when less than this is left of all. Two zipf threads want 1.8 to 2.1 of two processors.
    free_begins: f64 = 0.2, 0.0..=0.35, "processors";
    /// A processor is free again when more than this is left. A memcached with its client beside it wants 1.0 to 1.6 of two
    /// processors.
    free_ends: f64 = 0.5, 0.35..=1.0, "processors";
}

/// Runnable threads are counted this often at most.
const SAMPLE_MS: u64 = 10;
/// The average of runnable threads counts about so many samples, 160 ms: a moment says nothing, and a neighbour that has come is
/// noticed soon. There is no judgement before half of them.
const NR_SAMPLES: u32 = 16;

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Contention {
    config: Config,
    nr_processors: f64,
    nr_runnable: f64,
    nr_samples: u32,
    sampled: Option<TimeMs>,
    state: CpuState,
}

impl Contention {
    /// All processors are free, as far as is known.
    pub(super) fn new(nr_processors: usize, config: Config) -> Contention {
        Contention {
            config,
            nr_processors: nr_processors as f64,
            nr_runnable: 0.0,
            nr_samples: 0,
            sampled: None,
            state: CpuState::Free,
        }
    }

    /// Whether the number of runnable threads is due to be read again.
    pub(super) fn is_due(&self, now: TimeMs) -> bool {
        self.sampled.is_none_or(|then| now.since(then) >= SAMPLE_MS)
    }

    /// Whether a processor is free.
    pub(super) fn state(&self) -> CpuState {
        self.state
    }

    /// Takes a sample in. `nr_others`: runnable threads but those of Strata that may be at work.
    pub(super) fn sample(&mut self, now: TimeMs, nr_others: u32, wanted: Wanted) {
        self.sampled = Some(now);
        self.nr_samples = self.nr_samples.saturating_add(1);
        // The first ones all count the same.
        let share_of_last = 1.0 / f64::from(self.nr_samples.min(NR_SAMPLES));
        self.nr_runnable += (f64::from(nr_others) - self.nr_runnable) * share_of_last;
        if self.nr_samples < NR_SAMPLES / 2 {
            return;
        }
        let left = match self.state {
            CpuState::Free => self.config.free_begins,
            CpuState::Taken => self.config.free_ends,
        };
        self.state = match self.nr_processors - self.nr_wanted(wanted) < left {
            true => CpuState::Taken,
            false => CpuState::Free,
        };
    }

    /// Processors that the group's programs and others want together.
    fn nr_wanted(&self, wanted: Wanted) -> f64 {
        let nr_others = (self.nr_runnable - wanted.nr_threads).max(0.0);
        // What a quota holds back wants a processor and is not runnable.
        nr_others + wanted.all.min(self.nr_runnable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads of one program that each always want one of two processors.
    fn threads(nr_threads: u32) -> Wanted {
        Wanted {
            all: f64::from(nr_threads.min(2)),
            nr_threads: f64::from(nr_threads),
        }
    }

    fn after(
        contention: &mut Contention,
        nr_others: u32,
        wanted: Wanted,
        nr_samples: u32,
    ) -> CpuState {
        (0..nr_samples).for_each(|_| contention.sample(TimeMs(0), nr_others, wanted));
        contention.state
    }

    #[test]
    fn a_program_a_processor_and_strata_leave_one_free() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(after(&mut contention, 1, threads(1), 1000), CpuState::Free);
        let mut contention = Contention::new(200, Config::DEFAULT);
        assert_eq!(after(&mut contention, 199, threads(1), 99), CpuState::Free);
        assert_eq!(after(&mut contention, 200, threads(1), 99), CpuState::Taken);
    }

    #[test]
    fn one_busy_neighbour_takes_the_second_of_two_processors_until_it_has_gone() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(
            after(&mut contention, 2, threads(1), 7),
            CpuState::Free,
            "a moment says nothing"
        );
        assert_eq!(after(&mut contention, 2, threads(1), 1), CpuState::Taken);
        assert_eq!(after(&mut contention, 2, threads(1), 50), CpuState::Taken);
        assert_eq!(
            after(&mut contention, 1, threads(1), 2),
            CpuState::Taken,
            "nor is a moment its end"
        );
        assert_eq!(after(&mut contention, 1, threads(1), 50), CpuState::Free);
    }

    #[test]
    fn threads_of_one_program_take_all_processors() {
        for nr_threads in [2, 3, 4, 16] {
            let mut contention = Contention::new(2, Config::DEFAULT);
            let state = after(&mut contention, nr_threads, threads(nr_threads), 100);
            assert_eq!(state, CpuState::Taken, "{nr_threads}");
        }
    }

    #[test]
    fn a_program_that_may_use_one_processor_only_does_not_take_two() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        let pinned = Wanted {
            all: 1.0,
            nr_threads: 2.0,
        };
        assert_eq!(after(&mut contention, 2, pinned, 1000), CpuState::Free);
    }

    #[test]
    fn what_a_quota_holds_back_takes_nothing() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(after(&mut contention, 1, threads(2), 1000), CpuState::Free);
    }

    #[test]
    fn between_the_bounds_it_stays_what_it_was() {
        let between = Wanted {
            all: 1.65,
            nr_threads: 1.65,
        };
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(after(&mut contention, 2, between, 1000), CpuState::Taken);
        let mut contention = Contention::new(2, Config::DEFAULT);
        let mut alternate = |nr_samples| {
            for sample in 0..nr_samples {
                // 1.65 on average.
                let nr_others = 1 + u32::from(sample % 20 < 13);
                contention.sample(TimeMs(0), nr_others, between);
            }
            contention.state
        };
        assert_eq!(alternate(8), CpuState::Taken);
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(after(&mut contention, 1, threads(1), 100), CpuState::Free);
        let rarely = Wanted {
            all: 1.6,
            nr_threads: 1.6,
        };
        for sample in 0..1000 {
            let nr_others = 1 + u32::from(sample % 5 < 3);
            contention.sample(TimeMs(0), nr_others, rarely);
            assert_eq!(contention.state, CpuState::Free, "{sample}");
        }
    }
}
