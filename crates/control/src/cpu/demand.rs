//! How many processors the group's programs want, had or not.
//!
//! What a program gets of the processors says little of what it wants while we take some of them ourselves.
//! So what its threads waited for counts with what they ran.
//!
//! **Owns** the averages. **Does not own** reading threads, nor what follows (`contention`).
//!
//! **Invariants**
//! - I1: neither a program nor all of them together want more processors than they may run on.
//! - I2: looking takes about one hundredth of a processor at most, however many threads there are.

use crate::sample::{Processors, ProgramNo, SHARE_OF_LAST, Threads, Wanted};
use std::collections::BTreeMap;
use strata_lru::TimeMs;

/// What it takes to read one thread, microseconds.
const THREAD_US: u64 = 6;
/// What it takes to look at a process, beside its threads, microseconds.
const PROCESS_US: u64 = 30;
/// Two samples that are further apart than this, and than twice what was due, have a pause between them, before which
/// nothing counts. On a busy machine samples are some hundred milliseconds late, and those before still count.
const PAUSE_MS: u64 = 1000;

fn approach(average: &mut Wanted, last: Wanted) {
    average.all += (last.all - average.all) * SHARE_OF_LAST;
    average.nr_threads += (last.nr_threads - average.nr_threads) * SHARE_OF_LAST;
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Demand {
    every_ms: u64,
    sampled: Option<TimeMs>,
    programs: BTreeMap<ProgramNo, Threads>,
    average: Option<Wanted>,
}

impl Demand {
    /// Nothing seen yet.
    pub(super) fn new(every_ms: u64) -> Demand {
        Demand {
            every_ms,
            ..Demand::default()
        }
    }

    /// Whether the run and wait times of the programs' threads are due to be read again.
    pub(super) fn is_due(&self, now: TimeMs) -> bool {
        self.sampled
            .is_none_or(|then| now.since(then) >= self.pause_ms())
    }

    fn pause_ms(&self) -> u64 {
        let nr_threads: usize = self.programs.values().map(|of| of.wanted_ns.len()).sum();
        let nr_processes = self.programs.len() as u64;
        let look_us = nr_threads as u64 * THREAD_US + nr_processes * PROCESS_US;
        // See I2.
        self.every_ms.max(look_us * 100 / 1000)
    }

    /// Takes in how the programs stand.
    pub(super) fn sample(&mut self, now: TimeMs, programs: BTreeMap<ProgramNo, Threads>) {
        if let Some(then) = self.sampled.filter(|then| now.0 > then.0) {
            let passed_ns = (now.since(then) * 1_000_000) as f64;
            let mut last = Wanted::default();
            let mut allowed = Processors::NONE;
            for (space, threads) in &programs {
                let Some(before) = self.programs.get(space) else {
                    continue;
                };
                let wanted_ns = threads.wanted_since_ns(before);
                let nr_threads = wanted_ns as f64 / passed_ns;
                let wanted = nr_threads.min(f64::from(threads.processors.count()));
                allowed = allowed | threads.processors;
                last.nr_threads += nr_threads;
                last.all += wanted;
            }
            last.all = last.all.min(f64::from(allowed.count()));
            // What was wanted before a pause says nothing of now.
            let pause_ms = PAUSE_MS.max(2 * self.pause_ms());
            match &mut self.average {
                Some(average) if now.since(then) <= pause_ms => approach(average, last),
                average => *average = Some(last),
            }
        }
        self.sampled = Some(now);
        self.programs = programs;
    }

    /// What is wanted; nothing until two samples were taken.
    pub(super) fn wanted(&self) -> Wanted {
        self.average.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_MS: u64 = 50;

    /// Threads that want so many percent of a processor each, since the beginning.
    fn threads(ms: u64, percent: &[u64], nr_processors: usize) -> Threads {
        let wanted = |(tid, percent): (usize, &u64)| (tid as i32 + 1, ms * percent * 10_000);
        Threads {
            wanted_ns: percent.iter().enumerate().map(wanted).collect(),
            processors: (0..nr_processors).collect(),
        }
    }

    /// After samples of programs with these threads.
    fn wanted(programs: &[&[u64]], nr_processors: usize, nr_samples: u64) -> Wanted {
        let mut demand = Demand::new(EVERY_MS);
        for ms in (0..nr_samples).map(|sample| sample * EVERY_MS) {
            let numbered = (0..).map(ProgramNo).zip(programs);
            let programs = numbered.map(|(no, percent)| (no, threads(ms, percent, nr_processors)));
            demand.sample(TimeMs(ms), programs.collect());
        }
        demand.wanted()
    }

    #[test]
    fn what_threads_want_adds_up() {
        let found = Wanted {
            all: 1.75,
            nr_threads: 1.75,
        };
        assert_eq!(wanted(&[&[100, 50], &[25]], 8, 20), found);
        assert_eq!(wanted(&[], 8, 20), Wanted::default());
        assert_eq!(wanted(&[&[100]], 8, 1), Wanted::default(), "one sample");
    }

    #[test]
    fn nobody_wants_more_processors_than_it_may_run_on() {
        let found = Wanted {
            all: 2.0,
            nr_threads: 6.0,
        };
        assert_eq!(wanted(&[&[100; 5], &[100]], 2, 20), found);
        let found = Wanted {
            all: 1.0,
            nr_threads: 2.0,
        };
        assert_eq!(wanted(&[&[100], &[100]], 1, 20), found, "both on one");
    }

    #[test]
    fn a_look_that_is_late_by_less_than_it_was_due_is_no_pause() {
        let mut demand = Demand::new(EVERY_MS);
        // 1,667 busy threads are due after a second, so two seconds are no pause and more are one.
        let program = |ms, percent| {
            let percent = vec![percent; 1662];
            BTreeMap::from([(ProgramNo(0), threads(ms, &percent, 8))])
        };
        for sample in 0..4 {
            let ms = sample * 1000;
            demand.sample(TimeMs(ms), program(ms, 100));
        }
        assert_eq!(demand.wanted().all, 8.0);
        let mut on = Demand::new(EVERY_MS);
        std::mem::swap(&mut on, &mut demand);
        // None of them wants anything any more.
        on.sample(TimeMs(4900), program(3000, 100));
        assert!(on.wanted().all > 4.0, "{:?} is an average", on.wanted());
        on.sample(TimeMs(7000), program(3000, 100));
        assert_eq!(on.wanted().all, 0.0, "what was before the pause is gone");
    }

    #[test]
    fn a_second_thread_is_known_after_five_samples_and_its_end_as_soon() {
        let mut demand = Demand::new(EVERY_MS);
        let mut seen = Vec::new();
        for sample in 0..20 {
            let ms = sample * EVERY_MS;
            let mut program = threads(ms, &[100], 2);
            if (10..16).contains(&sample) {
                program.wanted_ns.insert(7, (ms - 9 * EVERY_MS) * 1_000_000);
            }
            demand.sample(TimeMs(ms), BTreeMap::from([(ProgramNo(0), program)]));
            seen.push(demand.wanted().all);
        }
        assert!(
            seen[9] < 1.01 && seen[12] < 1.75 && seen[14] > 1.75,
            "{seen:?}"
        );
        assert!(seen[19] < 1.4, "{seen:?}");
    }

    #[test]
    fn many_threads_are_looked_at_less_often() {
        let mut demand = Demand::new(EVERY_MS);
        let many = threads(0, &[1; 1000], 64);
        demand.sample(TimeMs(0), BTreeMap::from([(ProgramNo(0), many)]));
        assert!(!demand.is_due(TimeMs(602)) && demand.is_due(TimeMs(603)));
    }

    #[test]
    fn looks_that_come_late_on_a_busy_machine_count_with_those_before() {
        let after_idle_ms = |idle_ms: u64| {
            let mut demand = Demand::new(EVERY_MS);
            let mut look = |ms, ran_ms| {
                let program = threads(ran_ms, &[100], 2);
                demand.sample(TimeMs(ms), BTreeMap::from([(ProgramNo(0), program)]));
                demand.wanted().all
            };
            look(0, 0);
            assert_eq!(look(50, 50), 1.0);
            look(50 + idle_ms, 50)
        };
        assert!(after_idle_ms(500) > 0.6 && after_idle_ms(1000) > 0.6);
        assert_eq!(after_idle_ms(1001), 0.0, "nobody looked");
    }
}
