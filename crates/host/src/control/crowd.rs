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
//!   programs want nearly all processors, and are most of those who want any -> Filled
//!   more are runnable than there are processors, no program wants several   -> Crowded
//!   else                                                                    -> Free
//! ```
//!
//! Where several of the group's threads and others wait for processors together, that is `Free` too: reclaim
//! ahead, at our priority, then takes its time from the others as well.
//!
//! **Owns** the average and the judgement. **Does not own** how much programs want (`demand`), nor what follows
//! from it (`governor`).
//!
//! **Invariants** I1: what Strata itself runs is nobody's competition: of the runnable threads those of ours
//! that may be at work are not counted.

use super::demand::Wanted;
use super::trace::{Recorder, Runnable};
use std::fs;
use strata_lru::TimeMs;

/// The average forgets half of what it knows in so many samples, at least [`SAMPLE_MS`] apart.
const SHARE_OF_LAST: f64 = 1.0 / 16.0;
/// See [`SHARE_OF_LAST`].
const SAMPLE_MS: u64 = 10;
/// Samples until there is a judgement. Up to [`SHARE_OF_LAST`] they all count the same, or nobody would be known
/// to wait for as long again.
const NR_SAMPLES_MIN: u32 = 8;
/// Waiting for more than half of the time begins a crowd, ...
const MARGIN_BEGINS: f64 = 0.5;
/// ... for less than a fifth ends it.
const MARGIN_ENDS: f64 = 0.2;
/// A program that wants more processors than this runs on several at once. Beside a busy loop on each of two
/// processors pageout serves one zipf thread as well as reclaim ahead (fewer faults), two threads at 0.8 of it.
const NR_SEVERAL: f64 = 1.5;
/// ... and goes on to while it wants more than this.
const NR_SEVERAL_ENDS: f64 = 1.2;
/// Programs fill the processors when they want this share of them, ...
const FILLED_BEGINS: f64 = 0.9;
/// ... until they want less than this. Two zipf threads on two want 1.8 to 2.1 of them, memcached with its
/// client beside it 1.0 to 1.6.
const FILLED_ENDS: f64 = 0.75;
/// So much of the processors must really be asked for: what a quota holds back wants a processor and is
/// not runnable.
const RUNNABLE_SHARE: f64 = 0.75;
/// Others may be so many of those who want a processor, as a share of them all, to begin ...
const OTHERS_BEGIN: f64 = 0.25;
/// ... and to go on.
const OTHERS_END: f64 = 0.4;

/// Who has the processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Room {
    /// One is free, or others compete for them with a program that runs on several, or the kernel is told which
    /// pages are warm.
    #[default]
    Free,
    /// Others compete for them with programs that run on one each.
    Crowded,
    /// The group's programs have all of them.
    Filled,
}

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Crowd {
    nr_processors: f64,
    nr_runnable: f64,
    nr_samples: u32,
    sampled: Option<TimeMs>,
    room: Room,
}

impl Crowd {
    /// Nobody waits, as far as is known.
    pub(super) fn new(nr_processors: usize) -> Crowd {
        Crowd {
            nr_processors: nr_processors as f64,
            nr_runnable: 0.0,
            nr_samples: 0,
            sampled: None,
            room: Room::Free,
        }
    }

    /// Looks, unless that was done a moment ago. `nr_own`: threads of ours that may run, this one included.
    pub(super) fn look(
        &mut self,
        now: TimeMs,
        nr_own: u32,
        wanted: Wanted,
        recorder: &Recorder,
    ) -> Room {
        let is_fresh = self.sampled.is_some_and(|then| now.since(then) < SAMPLE_MS);
        if !is_fresh && let Some(nr_runnable) = read_runnable() {
            self.sampled = Some(now);
            let runnable = Runnable {
                nr_threads: nr_runnable,
                nr_own_threads: nr_own,
            };
            recorder.note(|tick| tick.sample.runnable = Some(runnable));
            self.sample(nr_runnable.saturating_sub(nr_own), wanted);
        }
        self.room()
    }

    /// Who has the processors.
    pub(super) fn room(&self) -> Room {
        self.room
    }

    /// Takes a sample in.
    pub(super) fn sample(&mut self, nr_others: u32, wanted: Wanted) {
        self.nr_samples = self.nr_samples.saturating_add(1);
        let share_of_last = SHARE_OF_LAST.max(1.0 / f64::from(self.nr_samples));
        self.nr_runnable += (f64::from(nr_others) - self.nr_runnable) * share_of_last;
        if self.nr_samples < NR_SAMPLES_MIN {
            return;
        }
        self.room = if self.is_filled(wanted) {
            Room::Filled
        } else if self.is_crowded() && wanted.most <= self.nr_several() {
            Room::Crowded
        } else {
            Room::Free
        };
    }

    fn nr_several(&self) -> f64 {
        match self.room {
            Room::Crowded => NR_SEVERAL,
            Room::Free | Room::Filled => NR_SEVERAL_ENDS,
        }
    }

    fn is_filled(&self, wanted: Wanted) -> bool {
        let (share, others_max) = match self.room {
            Room::Filled => (FILLED_ENDS, OTHERS_END),
            Room::Free | Room::Crowded => (FILLED_BEGINS, OTHERS_BEGIN),
        };
        wanted.all >= self.nr_processors * share
            && self.nr_runnable >= self.nr_processors * RUNNABLE_SHARE
            && self.nr_runnable - wanted.nr_threads <= self.nr_runnable * others_max
    }

    fn is_crowded(&self) -> bool {
        let margin = match self.room {
            Room::Crowded => MARGIN_ENDS,
            Room::Free | Room::Filled => MARGIN_BEGINS,
        };
        self.nr_runnable > self.nr_processors + margin
    }
}

fn read_runnable() -> Option<u32> {
    parse_runnable(&fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_runnable(text: &str) -> Option<u32> {
    let pair = text.split_ascii_whitespace().nth(3)?;
    pair.split_once('/')?.0.parse().ok()
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

    fn after(crowd: &mut Crowd, nr_others: u32, wanted: Wanted, nr_samples: u32) -> Room {
        (0..nr_samples).for_each(|_| crowd.sample(nr_others, wanted));
        crowd.room
    }

    #[test]
    fn the_kernels_line_is_understood() {
        assert_eq!(parse_runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(parse_runnable("0.20 0.18 0.12"), None);
        assert!(read_runnable() >= Some(1), "at least this thread runs");
    }

    #[test]
    fn a_program_a_processor_and_strata_are_no_crowd() {
        let mut crowd = Crowd::new(2);
        assert_eq!(after(&mut crowd, 2, threads(1), 1000), Room::Free);
    }

    #[test]
    fn two_who_wait_are_a_crowd_until_they_have_gone() {
        let mut crowd = Crowd::new(2);
        assert_eq!(
            after(&mut crowd, 4, threads(1), 5),
            Room::Free,
            "a moment is no crowd"
        );
        assert_eq!(after(&mut crowd, 4, threads(1), 3), Room::Crowded);
        assert_eq!(after(&mut crowd, 4, threads(1), 50), Room::Crowded);
        assert_eq!(
            after(&mut crowd, 2, threads(1), 2),
            Room::Crowded,
            "nor is a moment its end"
        );
        assert_eq!(after(&mut crowd, 1, threads(1), 50), Room::Free);
    }

    /// Its own threads were taken for a crowd: four of them on two processors lost their pages one by one,
    /// each with an interrupt on the other processor, at half the speed of the kernel's limit alone.
    #[test]
    fn threads_of_one_program_are_no_crowd_but_fill_the_processors() {
        for nr_threads in [2, 3, 4, 16] {
            let mut crowd = Crowd::new(2);
            let room = after(&mut crowd, nr_threads, threads(nr_threads), 100);
            assert_eq!(room, Room::Filled, "{nr_threads}");
        }
    }

    #[test]
    fn a_program_that_may_use_one_processor_only_does_not_fill_two() {
        let mut crowd = Crowd::new(2);
        let pinned = Wanted {
            all: 1.0,
            most: 1.0,
            nr_threads: 2.0,
        };
        assert_eq!(after(&mut crowd, 2, pinned, 1000), Room::Free);
    }

    #[test]
    fn what_a_quota_holds_back_fills_nothing() {
        let mut crowd = Crowd::new(2);
        assert_eq!(after(&mut crowd, 1, threads(2), 1000), Room::Free);
    }

    #[test]
    fn threads_that_share_the_processors_with_others_neither_fill_them_nor_make_a_crowd() {
        let mut crowd = Crowd::new(2);
        assert_eq!(after(&mut crowd, 4, threads(2), 1000), Room::Free);
        assert_eq!(after(&mut crowd, 4, threads(1), 100), Room::Crowded);
        assert_eq!(after(&mut crowd, 3, threads(2), 1000), Room::Free);
    }

    #[test]
    fn it_ends_when_others_come_or_threads_go_but_not_at_once() {
        let mut crowd = Crowd::new(2);
        let mut fill = |nr_others, nr_threads, nr_samples| {
            assert_eq!(after(&mut crowd, 2, threads(2), 100), Room::Filled);
            after(&mut crowd, nr_others, threads(nr_threads), nr_samples)
        };
        assert_eq!(fill(3, 2, 1000), Room::Filled, "a third of all");
        assert_eq!(fill(5, 2, 3), Room::Filled, "a moment");
        assert_eq!(fill(4, 2, 1000), Room::Free);
        assert_eq!(fill(2, 1, 1), Room::Free);
    }

    #[test]
    fn a_program_between_one_and_two_processors_stays_what_it_was() {
        let between = Wanted {
            all: 1.4,
            most: 1.4,
            nr_threads: 1.4,
        };
        let mut crowd = Crowd::new(2);
        assert_eq!(after(&mut crowd, 4, threads(1), 100), Room::Crowded);
        assert_eq!(after(&mut crowd, 4, between, 100), Room::Crowded);
        assert_eq!(after(&mut crowd, 4, threads(2), 100), Room::Free);
        assert_eq!(after(&mut crowd, 4, between, 100), Room::Free);
    }
}
