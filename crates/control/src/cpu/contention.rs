//! Whether a processor is free for reclaim, and if not, who has them.
//!
//! Reclaiming ahead pays where a processor is free for it: the kernel's batched reclaim then costs the
//! program nothing. Where threads wait for every processor, the kernel's reclaim takes time from the program. That still
//! pays if warm pages are marked. Otherwise pageout pays, since it takes fewer and better pages, unless a program runs on
//! several processors, all of which each pageout interrupts. Programs that fill all processors best reclaim for themselves.
//!
//! ```text
//!   /proc/loadavg:  0.20 0.18 0.12 3/80 11206
//!                                  ^ runnable at this moment, ourselves included
//!
//!   programs want nearly all processors, and are most of those who want any -> Saturated
//!   more are runnable than there are processors, no program wants several   -> Contended
//!   else                                                                    -> Free
//! ```
//!
//! Where several of the group's threads and others wait for processors together, that is [`CpuState::Free`] too: reclaim
//! ahead, at our priority, then takes its time from the others as well.
//!
//! **Owns** the average and the judgement. **Does not own** how much programs want (`demand`), nor what follows
//! from it (`reclaimer`), nor reading the file.
//!
//! **Invariants** I1: what Strata itself runs is nobody's competition: of the runnable threads those of ours
//! that may be at work are not counted.

use crate::sample::{CpuState, Wanted};
use crate::tunables::config;
use strata_lru::TimeMs;

config! {
    /// From where on the processors are contended, or filled by the programs themselves.
    "cpu.contention"

    /// The newest sample has this weight in the average of runnable threads.
    share_of_last: f64 = 1.0 / 16.0, 0.001..=1.0, "part of 1";
    /// Runnable threads are counted this often at most.
    sample_ms: u64 = 10, 1..=1000, "ms";
    /// There is no judgement before so many samples. The first ones all count the same, or nobody would be known to wait for
    /// as long again.
    nr_samples_min: u32 = 8, 1..=1000, "samples";
    /// Contention begins when so many more threads than processors are runnable: one that waits for half of the time.
    margin_begins: f64 = 0.5, 0.35..=4.0, "threads";
    /// Contention ends when fewer threads than this wait for a processor.
    margin_ends: f64 = 0.2, 0.0..=0.35, "threads";
    /// While processors are contended a program runs on several at once when it wants more than this. Beside a busy loop
    /// on each of two processors pageout serves one zipf thread as well as reclaim ahead (fewer faults), two threads at 0.8
    /// of it.
    nr_several: f64 = 1.5, 1.35..=4.0, "processors";
    /// While processors are not contended a program runs on several at once when it wants more than this.
    nr_several_ends: f64 = 1.2, 1.0..=1.35, "processors";
    /// Programs begin to fill the processors when they want this part of them.
    saturated_begins: f64 = 0.9, 0.8..=1.0, "part of 1";
    /// Programs fill the processors until they want less than this part of them. Two zipf threads on two want 1.8 to 2.1
    /// processors, memcached with its client beside it 1.0 to 1.6.
    saturated_ends: f64 = 0.75, 0.1..=0.8, "part of 1";
    /// Programs fill the processors only where threads for this part of them are runnable: what a quota holds back wants
    /// a processor and is not runnable.
    runnable_share: f64 = 0.75, 0.0..=1.0, "part of 1";
    /// Programs begin to fill the processors only where others are at most this part of those who want one.
    others_begin: f64 = 0.25, 0.0..=0.3, "part of 1";
    /// Programs fill the processors until others are more than this part of those who want one.
    others_end: f64 = 0.4, 0.3..=1.0, "part of 1";
}

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
    /// Nobody waits, as far as is known.
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
        self.sampled
            .is_none_or(|then| now.since(then) >= self.config.sample_ms)
    }

    /// Who has the processors.
    pub(super) fn state(&self) -> CpuState {
        self.state
    }

    /// Takes a sample in. `nr_others`: runnable threads but those of Strata that may be at work.
    pub(super) fn sample(&mut self, now: TimeMs, nr_others: u32, wanted: Wanted) {
        self.sampled = Some(now);
        self.nr_samples = self.nr_samples.saturating_add(1);
        let share_of_all = 1.0 / f64::from(self.nr_samples);
        let share_of_last = self.config.share_of_last.max(share_of_all);
        self.nr_runnable += (f64::from(nr_others) - self.nr_runnable) * share_of_last;
        if self.nr_samples < self.config.nr_samples_min {
            return;
        }
        self.state = if self.is_saturated(wanted) {
            CpuState::Saturated
        } else if self.is_contended() && wanted.most <= self.nr_several() {
            CpuState::Contended
        } else {
            CpuState::Free
        };
    }

    fn nr_several(&self) -> f64 {
        match self.state {
            CpuState::Contended => self.config.nr_several,
            CpuState::Free | CpuState::Saturated => self.config.nr_several_ends,
        }
    }

    fn is_saturated(&self, wanted: Wanted) -> bool {
        let config = &self.config;
        let (share, others_max) = match self.state {
            CpuState::Saturated => (config.saturated_ends, config.others_end),
            CpuState::Free | CpuState::Contended => (config.saturated_begins, config.others_begin),
        };
        wanted.all >= self.nr_processors * share
            && self.nr_runnable >= self.nr_processors * config.runnable_share
            && self.nr_runnable - wanted.nr_threads <= self.nr_runnable * others_max
    }

    fn is_contended(&self) -> bool {
        let margin = match self.state {
            CpuState::Contended => self.config.margin_ends,
            CpuState::Free | CpuState::Saturated => self.config.margin_begins,
        };
        self.nr_runnable > self.nr_processors + margin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One program with so many threads that always want one of two processors.
    fn threads(nr_threads: u32) -> Wanted {
        let all = f64::from(nr_threads.min(2));
        Wanted {
            all,
            most: all,
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
    fn a_program_a_processor_and_strata_are_no_contention() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(after(&mut contention, 2, threads(1), 1000), CpuState::Free);
    }

    #[test]
    fn two_who_wait_contend_until_they_have_gone() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(
            after(&mut contention, 4, threads(1), 5),
            CpuState::Free,
            "a moment is no contention"
        );
        assert_eq!(
            after(&mut contention, 4, threads(1), 3),
            CpuState::Contended
        );
        assert_eq!(
            after(&mut contention, 4, threads(1), 50),
            CpuState::Contended
        );
        assert_eq!(
            after(&mut contention, 2, threads(1), 2),
            CpuState::Contended,
            "nor is a moment its end"
        );
        assert_eq!(after(&mut contention, 1, threads(1), 50), CpuState::Free);
    }

    /// Its own threads were taken for others that wait: four of them on two processors lost their pages one by one,
    /// each with an interrupt on the other processor, at half the speed of the kernel's limit alone.
    #[test]
    fn threads_of_one_program_do_not_contend_but_fill_the_processors() {
        for nr_threads in [2, 3, 4, 16] {
            let mut contention = Contention::new(2, Config::DEFAULT);
            let state = after(&mut contention, nr_threads, threads(nr_threads), 100);
            assert_eq!(state, CpuState::Saturated, "{nr_threads}");
        }
    }

    #[test]
    fn a_program_that_may_use_one_processor_only_does_not_fill_two() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        let pinned = Wanted {
            all: 1.0,
            most: 1.0,
            nr_threads: 2.0,
        };
        assert_eq!(after(&mut contention, 2, pinned, 1000), CpuState::Free);
    }

    #[test]
    fn what_a_quota_holds_back_fills_nothing() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(after(&mut contention, 1, threads(2), 1000), CpuState::Free);
    }

    #[test]
    fn threads_that_share_the_processors_with_others_neither_fill_them_nor_contend() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(after(&mut contention, 4, threads(2), 1000), CpuState::Free);
        assert_eq!(
            after(&mut contention, 4, threads(1), 100),
            CpuState::Contended
        );
        assert_eq!(after(&mut contention, 3, threads(2), 1000), CpuState::Free);
    }

    #[test]
    fn it_ends_when_others_come_or_threads_go_but_not_at_once() {
        let mut contention = Contention::new(2, Config::DEFAULT);
        let mut fill = |nr_others, nr_threads, nr_samples| {
            assert_eq!(
                after(&mut contention, 2, threads(2), 100),
                CpuState::Saturated
            );
            after(&mut contention, nr_others, threads(nr_threads), nr_samples)
        };
        assert_eq!(fill(3, 2, 1000), CpuState::Saturated, "a third of all");
        assert_eq!(fill(5, 2, 3), CpuState::Saturated, "a moment");
        assert_eq!(fill(4, 2, 1000), CpuState::Free);
        assert_eq!(fill(2, 1, 1), CpuState::Free);
    }

    #[test]
    fn a_program_between_one_and_two_processors_stays_what_it_was() {
        let between = Wanted {
            all: 1.4,
            most: 1.4,
            nr_threads: 1.4,
        };
        let mut contention = Contention::new(2, Config::DEFAULT);
        assert_eq!(
            after(&mut contention, 4, threads(1), 100),
            CpuState::Contended
        );
        assert_eq!(after(&mut contention, 4, between, 100), CpuState::Contended);
        assert_eq!(after(&mut contention, 4, threads(2), 100), CpuState::Free);
        assert_eq!(after(&mut contention, 4, between, 100), CpuState::Free);
    }
}
