//! How much of the time the group's programs run.
//!
//! Pageout interrupts whoever runs: for each page the processors that run the program are made to
//! forget it. While a program waits (for a disk, for its quota, for a request) nobody is interrupted,
//! and a page costs a fraction. So the less a program runs, the more of its pages may be taken one by one.
//!
//! **Owns** the average, the share that follows from it, and what comes back in a second. **Does not own** who does the work
//! (`reclaimer`), nor reading clocks and counts.
//!
//! **Invariants** I1: a program that runs all the time leaves [`Config::pageout_percent_min`], none leaves more than
//! all of a processor.

use crate::sample::{ProgramNo, SHARE_OF_LAST};
use crate::tunables::config;
use std::collections::BTreeMap;
use strata_lru::TimeMs;

config! {
    /// What pageout may take of a processor.
    "cpu.load"

    /// Pageout may take this much of a processor while a program runs all the time on another: one that pulls its pages
    /// back faster than that is served better by the kernel's batches.
    pageout_percent_min: u32 = 25, 1..=100, "percent of a processor";
}

/// What a page costs that pageout takes, walks, pages that were not to be had and flushes included: 30
/// to 35 by `strata_cpu_ms` over `nr_applied_pages` of `strata run --actuator pageout --memory 180M
/// --swap zram:512M -- zipf --size 300M --seconds 10` (`tests/programs`; Linux 6.18, 2-core VM).
const PAGEOUT_PAGE_US: u64 = 35;
/// Pages a second that pageout takes with its share from a program that runs all the time: what a plan takes for chosen one by
/// one.
pub const AUTO_PAGEOUT_PAGES_PER_S: u64 =
    1_000_000 * Config::DEFAULT.pageout_percent_min as u64 / 100 / PAGEOUT_PAGE_US;

/// All of a processor, percent.
const ALL_PERCENT: u32 = 100;
/// A program that runs less than this leaves all of a processor; so does one that does not run, by which nothing can be
/// divided.
const NR_RUNNING_MIN: f64 = 0.01;

/// What was seen so far.
#[derive(Debug, Default)]
pub(super) struct Load {
    config: Config,
    every_ms: u64,
    sampled: Option<TimeMs>,
    cpu_ns: BTreeMap<ProgramNo, u64>,
    /// Processors in use, on average; `None` until two samples were taken.
    nr_running: Option<f64>,
    /// Pages that had come back.
    nr_refaulted_pages: u64,
    /// What comes back in a second, on average.
    refaulted_pages_per_s: f64,
}

impl Load {
    /// Nothing seen yet.
    pub(super) fn new(config: Config, every_ms: u64) -> Load {
        Load {
            config,
            every_ms,
            ..Load::default()
        }
    }

    /// Whether the processor times of the programs are due to be read again.
    pub(super) fn is_due(&self, now: TimeMs) -> bool {
        self.sampled
            .is_none_or(|then| now.since(then) >= self.every_ms)
    }

    /// Takes what each program has used of the processors so far, nanoseconds, and how many pages
    /// have come back.
    pub(super) fn sample(
        &mut self,
        now: TimeMs,
        cpu_ns: BTreeMap<ProgramNo, u64>,
        nr_refaulted_pages: u64,
    ) {
        let used_ns: u64 = cpu_ns
            .iter()
            .filter_map(|(space, used)| Some(used.saturating_sub(*self.cpu_ns.get(space)?)))
            .sum();
        if let Some(then) = self.sampled {
            let passed_ns = now.since(then).max(1) * 1_000_000;
            let refaulted = nr_refaulted_pages.saturating_sub(self.nr_refaulted_pages) as f64;
            let per_s = refaulted * 1e9 / passed_ns as f64;
            let nr_running = used_ns as f64 / passed_ns as f64;
            // After a pause the average knows nothing of now.
            let is_stale = now.since(then) > 2 * self.every_ms;
            let of_last = if is_stale { 1.0 } else { SHARE_OF_LAST };
            self.refaulted_pages_per_s += (per_s - self.refaulted_pages_per_s) * of_last;
            self.nr_running = match self.nr_running.filter(|_| !is_stale) {
                Some(average) => Some(average + (nr_running - average) * SHARE_OF_LAST),
                None if is_stale => None,
                None => Some(nr_running),
            };
        }
        self.sampled = Some(now);
        self.cpu_ns = cpu_ns;
        self.nr_refaulted_pages = nr_refaulted_pages;
    }

    /// Pages that come back in a second, on average.
    pub(super) fn refaulted_pages_per_s(&self) -> f64 {
        self.refaulted_pages_per_s
    }

    /// What pageout may take of a processor, percent.
    pub(super) fn pageout_percent_max(&self) -> u32 {
        let nr_running = self.nr_running.unwrap_or(1.0);
        let percent_min = self.config.pageout_percent_min;
        let percent = f64::from(percent_min) / nr_running.max(NR_RUNNING_MIN);
        (percent as u32).clamp(percent_min, ALL_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY_MS: u64 = 50;

    /// Samples of programs that use so many percent of a processor each.
    fn percent_max(programs: &[u64], nr_samples: u64) -> u32 {
        let mut load = Load::new(Config::DEFAULT, EVERY_MS);
        for sample in 0..nr_samples {
            let used = |percent: &u64| sample * EVERY_MS * percent * 10_000;
            let numbered = programs.iter().enumerate();
            let cpu_ns = numbered.map(|(no, percent)| (ProgramNo(no as u32), used(percent)));
            load.sample(TimeMs(sample * EVERY_MS), cpu_ns.collect(), 0);
        }
        load.pageout_percent_max()
    }

    #[test]
    fn the_less_a_program_runs_the_more_pageout_may_take() {
        assert_eq!(percent_max(&[100], 20), Config::DEFAULT.pageout_percent_min);
        assert_eq!(percent_max(&[50], 20), 50);
        assert_eq!(percent_max(&[25], 20), 100);
        assert_eq!(percent_max(&[0], 20), 100);
    }

    #[test]
    fn programs_count_together_and_never_leave_less_than_the_least() {
        assert_eq!(percent_max(&[25, 25], 20), 50);
        assert_eq!(
            percent_max(&[100, 100, 100], 20),
            Config::DEFAULT.pageout_percent_min
        );
    }

    #[test]
    fn who_is_not_known_yet_is_taken_to_run_all_the_time() {
        assert_eq!(percent_max(&[10], 1), Config::DEFAULT.pageout_percent_min);
        assert_eq!(percent_max(&[], 0), Config::DEFAULT.pageout_percent_min);
    }

    #[test]
    fn after_a_pause_it_begins_anew() {
        let mut load = Load::new(Config::DEFAULT, EVERY_MS);
        let mut sample = |ms: u64, used_ms: u64| {
            let cpu_ns = BTreeMap::from([(ProgramNo(0), used_ms * 1_000_000)]);
            load.sample(TimeMs(ms), cpu_ns, 0);
            load.pageout_percent_max()
        };
        sample(0, 0);
        assert_eq!(sample(50, 5), 100);
        // It ran all the time while nobody looked; what it does now is not known.
        assert_eq!(sample(10_000, 9_955), Config::DEFAULT.pageout_percent_min);
        assert_eq!(sample(10_050, 9_980), 50);
    }

    #[test]
    fn a_program_that_has_just_come_is_counted_from_its_second_sample_on() {
        let mut load = Load::new(Config::DEFAULT, EVERY_MS);
        load.sample(TimeMs(0), BTreeMap::new(), 0);
        let long_lived = |ns| BTreeMap::from([(ProgramNo(3), ns)]);
        load.sample(TimeMs(50), long_lived(7_000_000_000), 0);
        assert_eq!(load.pageout_percent_max(), 100);
        load.sample(TimeMs(100), long_lived(7_050_000_000), 0);
        assert_eq!(
            load.pageout_percent_max(),
            100,
            "a quarter of the last sample counts"
        );
    }

    #[test]
    fn the_average_follows_a_program_that_begins_to_run_all_the_time() {
        let mut load = Load::new(Config::DEFAULT, EVERY_MS);
        let mut used_ns = 0;
        let mut sample = |no: u64, percent: u64| {
            used_ns += EVERY_MS * percent * 10_000;
            let cpu_ns = BTreeMap::from([(ProgramNo(0), used_ns)]);
            load.sample(TimeMs(no * EVERY_MS), cpu_ns, 0);
            load.pageout_percent_max()
        };
        assert_eq!((0..20).map(|no| sample(no, 50)).last(), Some(50));
        let most: Vec<u32> = (20..40).map(|no| sample(no, 100)).collect();
        assert!(most.is_sorted_by(|a, b| a >= b), "{most:?}");
        assert!(most[0] < 50 && most[0] > most[19], "{most:?}");
    }
}
