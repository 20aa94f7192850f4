//! Whether a processor is free for reclaim, and if not, who has them.
//!
//! Reclaiming ahead pays where a processor is free for it: the kernel's batched reclaim then costs the
//! program nothing. Where every processor has somebody waiting for it, it takes turns with
//! the program. It pays all the same while the kernel is told which pages are warm; where it can't be told, taking fewer
//! and better pages by pageout pays instead, but not from a program that runs on several
//! processors at once, because each page that pageout takes interrupts all of them. Where the programs fill
//! all processors by themselves, whoever reclaims does it at their cost, and they do it best themselves.
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
use strata_lru::TimeMs;

/// The weight of the newest sample in the average; samples are at least [`SAMPLE_MS`] apart.
const SHARE_OF_LAST: f64 = 1.0 / 16.0;
/// See [`SHARE_OF_LAST`].
const SAMPLE_MS: u64 = 10;
/// Samples until there is a judgement. Up to [`SHARE_OF_LAST`] they all count the same, or nobody would be known
/// to wait for as long again.
const NR_SAMPLES_MIN: u32 = 8;
/// Waiting for more than half of the time begins contention, ...
const MARGIN_BEGINS: f64 = 0.5;
/// ... for less than a fifth ends it.
const MARGIN_ENDS: f64 = 0.2;
/// A program that wants more processors than this runs on several at once. Beside a busy loop on each of two
/// processors pageout serves one zipf thread as well as reclaim ahead (fewer faults), two threads at 0.8 of it.
const NR_SEVERAL: f64 = 1.5;
/// ... and goes on to while it wants more than this.
const NR_SEVERAL_ENDS: f64 = 1.2;
/// Programs fill the processors when they want this share of them, ...
const SATURATED_BEGINS: f64 = 0.9;
/// ... until they want less than this. Two zipf threads on two want 1.8 to 2.1 of them, memcached with its
/// client beside it 1.0 to 1.6.
const SATURATED_ENDS: f64 = 0.75;
/// So much of the processors must really be asked for: what a quota holds back wants a processor and is
/// not runnable.
const RUNNABLE_SHARE: f64 = 0.75;
/// Others may be so many of those who want a processor, as a share of them all, to begin ...
const OTHERS_BEGIN: f64 = 0.25;
/// ... and to go on.
const OTHERS_END: f64 = 0.4;

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Contention {
    nr_processors: f64,
    nr_runnable: f64,
    nr_samples: u32,
    sampled: Option<TimeMs>,
    state: CpuState,
}

impl Contention {
    /// Nobody waits, as far as is known.
    pub(super) fn new(nr_processors: usize) -> Contention {
        Contention {
            nr_processors: nr_processors as f64,
            nr_runnable: 0.0,
            nr_samples: 0,
            sampled: None,
            state: CpuState::Free,
        }
    }

    /// Whether it is time to look again.
    pub(super) fn is_due(&self, now: TimeMs) -> bool {
        self.sampled.is_none_or(|then| now.since(then) >= SAMPLE_MS)
    }

    /// Who has the processors.
    pub(super) fn state(&self) -> CpuState {
        self.state
    }

    /// Takes a sample in. `nr_others`: runnable threads but those of Strata that may be at work.
    pub(super) fn sample(&mut self, now: TimeMs, nr_others: u32, wanted: Wanted) {
        self.sampled = Some(now);
        self.nr_samples = self.nr_samples.saturating_add(1);
        let share_of_last = SHARE_OF_LAST.max(1.0 / f64::from(self.nr_samples));
        self.nr_runnable += (f64::from(nr_others) - self.nr_runnable) * share_of_last;
        if self.nr_samples < NR_SAMPLES_MIN {
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
            CpuState::Contended => NR_SEVERAL,
            CpuState::Free | CpuState::Saturated => NR_SEVERAL_ENDS,
        }
    }

    fn is_saturated(&self, wanted: Wanted) -> bool {
        let (share, others_max) = match self.state {
            CpuState::Saturated => (SATURATED_ENDS, OTHERS_END),
            CpuState::Free | CpuState::Contended => (SATURATED_BEGINS, OTHERS_BEGIN),
        };
        wanted.all >= self.nr_processors * share
            && self.nr_runnable >= self.nr_processors * RUNNABLE_SHARE
            && self.nr_runnable - wanted.nr_threads <= self.nr_runnable * others_max
    }

    fn is_contended(&self) -> bool {
        let margin = match self.state {
            CpuState::Contended => MARGIN_ENDS,
            CpuState::Free | CpuState::Saturated => MARGIN_BEGINS,
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
        let mut contention = Contention::new(2);
        assert_eq!(after(&mut contention, 2, threads(1), 1000), CpuState::Free);
    }

    #[test]
    fn two_who_wait_contend_until_they_have_gone() {
        let mut contention = Contention::new(2);
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
            let mut contention = Contention::new(2);
            let state = after(&mut contention, nr_threads, threads(nr_threads), 100);
            assert_eq!(state, CpuState::Saturated, "{nr_threads}");
        }
    }

    #[test]
    fn a_program_that_may_use_one_processor_only_does_not_fill_two() {
        let mut contention = Contention::new(2);
        let pinned = Wanted {
            all: 1.0,
            most: 1.0,
            nr_threads: 2.0,
        };
        assert_eq!(after(&mut contention, 2, pinned, 1000), CpuState::Free);
    }

    #[test]
    fn what_a_quota_holds_back_fills_nothing() {
        let mut contention = Contention::new(2);
        assert_eq!(after(&mut contention, 1, threads(2), 1000), CpuState::Free);
    }

    #[test]
    fn threads_that_share_the_processors_with_others_neither_fill_them_nor_contend() {
        let mut contention = Contention::new(2);
        assert_eq!(after(&mut contention, 4, threads(2), 1000), CpuState::Free);
        assert_eq!(
            after(&mut contention, 4, threads(1), 100),
            CpuState::Contended
        );
        assert_eq!(after(&mut contention, 3, threads(2), 1000), CpuState::Free);
    }

    #[test]
    fn it_ends_when_others_come_or_threads_go_but_not_at_once() {
        let mut contention = Contention::new(2);
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
        let mut contention = Contention::new(2);
        assert_eq!(
            after(&mut contention, 4, threads(1), 100),
            CpuState::Contended
        );
        assert_eq!(after(&mut contention, 4, between, 100), CpuState::Contended);
        assert_eq!(after(&mut contention, 4, threads(2), 100), CpuState::Free);
        assert_eq!(after(&mut contention, 4, between, 100), CpuState::Free);
    }
}
