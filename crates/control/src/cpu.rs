//! Whether a processor is free, how many the group's programs want, and how much of the time they run.
//!
//! ```text
//!   threads: what each ran and waited for --> demand ----> contention --> Free | Taken
//!   /proc/loadavg: runnable now -------------------------------^
//!   clocks of programs, pages that came back --> load --> what pageout may take
//! ```
//!
//! **Owns** these averages, and when each is due to be read again. **Does not own** reading them, nor what follows
//! (`reclaimer`).
//!
//! **Invariants** I1: what is not read leaves its average as it was. I2: what threads
//! wanted and programs used before a pause says nothing of now: those averages begin anew.

pub mod allowance;
pub mod contention;
pub mod demand;
pub mod load;
pub mod sampling;

pub use crate::sample::{Clocks, CpuDue, CpuSample, CpuState, Runnable, Threads, Wanted};

use crate::tunables::config_of;
use contention::Contention;
use demand::Demand;
use load::Load;
use strata_lru::TimeMs;

config_of! {
    /// By what it is judged whether a processor is free.
    {
        /// How often it is looked at.
        sampling: sampling::Config;
        /// Whether a processor is free.
        contention: contention::Config;
        /// How much of the time the programs run.
        load: load::Config;
        /// What Strata may take.
        allowance: allowance::Config;
    }
}

/// What is known of the processors.
#[derive(Debug)]
pub struct Cpu {
    demand: Demand,
    contention: Contention,
    load: Load,
}

impl Cpu {
    /// Nothing known yet, on a machine with so many processors.
    pub fn new(nr_processors: usize, config: &Config) -> Cpu {
        let every_ms = config.sampling.every_ms;
        Cpu {
            demand: Demand::new(every_ms),
            contention: Contention::new(nr_processors, config.contention),
            load: Load::new(config.load, every_ms),
        }
    }

    /// What is due to be read now.
    pub fn due(&self, now: TimeMs) -> CpuDue {
        CpuDue {
            threads: self.demand.is_due(now),
            runnable: self.contention.is_due(now),
            clocks: self.load.is_due(now),
        }
    }

    /// Takes in what was read.
    pub fn sample(&mut self, now: TimeMs, sample: CpuSample) {
        if let Some(threads) = sample.threads {
            self.demand.sample(now, threads);
        }
        if let Some(runnable) = sample.runnable {
            let nr_others = runnable.nr_threads.saturating_sub(runnable.nr_own_threads);
            self.contention.sample(now, nr_others, self.demand.wanted());
        }
        if let Some(clocks) = sample.clocks {
            self.load
                .sample(now, clocks.cpu_ns, clocks.nr_refaulted_pages);
        }
    }

    /// Whether a processor is free.
    pub fn state(&self) -> CpuState {
        self.contention.state()
    }

    /// What pageout may take of a processor, percent.
    pub fn pageout_percent_max(&self) -> u32 {
        self.load.pageout_percent_max()
    }

    /// Pages that come back in a second, on average.
    pub fn refaulted_pages_per_s(&self) -> f64 {
        self.load.refaulted_pages_per_s()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::ProgramNo;
    use std::collections::BTreeMap;

    #[test]
    fn all_is_due_at_first_and_each_at_its_own_pace_afterwards() {
        let mut cpu = Cpu::new(2, &Config::default());
        let all = CpuDue {
            threads: true,
            runnable: true,
            clocks: true,
        };
        assert_eq!(cpu.due(TimeMs(0)), all);
        cpu.sample(
            TimeMs(0),
            CpuSample {
                threads: Some(BTreeMap::new()),
                runnable: Some(Runnable::default()),
                clocks: Some(Clocks::default()),
            },
        );
        let due: Vec<CpuDue> = [9, 10, 50].map(|ms| cpu.due(TimeMs(ms))).to_vec();
        assert_eq!(due[0], CpuDue::default());
        let nr_due = |of: &CpuDue| {
            [of.threads, of.runnable, of.clocks]
                .map(u32::from)
                .iter()
                .sum()
        };
        let nr_due: Vec<u32> = due.iter().map(nr_due).collect();
        assert_eq!(nr_due, [0, 1, 3]);
    }

    #[test]
    fn what_is_not_read_changes_nothing() {
        let mut cpu = Cpu::new(2, &Config::default());
        let busy = |ms: u64| {
            let threads = Threads {
                wanted_ns: BTreeMap::from([(1, ms * 1_000_000), (2, ms * 1_000_000)]),
                processors: (0..2).collect(),
            };
            CpuSample {
                threads: Some(BTreeMap::from([(ProgramNo(0), threads)])),
                runnable: Some(Runnable {
                    nr_threads: 3,
                    nr_own_threads: 1,
                }),
                clocks: None,
            }
        };
        for ms in (0..2000).step_by(50) {
            cpu.sample(TimeMs(ms), busy(ms));
        }
        assert_eq!(cpu.state(), CpuState::Taken);
        cpu.sample(TimeMs(2050), CpuSample::default());
        assert_eq!(cpu.state(), CpuState::Taken);
        assert!(cpu.demand.wanted().nr_threads > 1.9);
    }
}
