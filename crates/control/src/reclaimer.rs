//! Who reclaims: pageout, the kernel at our request, or the programs in their own faults.
//!
//! ```text
//!   a processor is free:  Pageout --above the urgent mark for 50 ms--> Kernel
//!                            ^                                            |
//!                            |<---- below the high mark after 0.5 to 16 s |
//!                            |<---- the kernel found nothing -------------|
//!   none is free:         Programs  (the turn of the other two changes meanwhile as above)
//! ```
//!
//! Where no processor is free, whoever reclaims ahead takes its time from the programs or from their neighbours: then programs
//! reclaim in their own faults, if usage is held at the line, `min_ttl` is off and it is no dry run.
//!
//! **Owns** whose turn it is. **Does not own** how much is to go (`pressure`), who has the processors (`cpu`), nor what a
//! user has asked for instead (`control`).
//!
//! **Invariants** I1: every change is made in [`Turns::transition`]. I2: the kernel keeps its turn for as long as
//! [`Config::hold_ms`] at least, unless it finds nothing or no processor is free any more.

use crate::backoff::TIMES_MAX;
use crate::plan::Reclaimer;
use crate::sample::CpuState;
use crate::tunables::config;
use crate::watermarks::Watermarks;
use strata_lru::TimeMs;

config! {
    /// When the kernel takes over from pageout, and for how long.
    "reclaimer"

    /// The kernel reclaims for at least so long before pageout is tried again.
    /// The time doubles, up to 32 times, whenever pageout did not keep up for as long as the kernel had it: each trial costs the
    /// program some reclaim of its own.
    hold_ms: u64 = 500, 50..=2000, "ms";
    /// Pageout does not keep up if usage, once above the urgent mark, is not back at the high mark within this time.
    urgent_persists_ms: u64 = 50, 0..=5000, "ms";
}

/// What changes whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Whether a processor is free.
    Cpu(CpuState),
    /// The kernel was asked and found nothing. Its turn comes again when usage has been above the urgent mark for a while.
    KernelFoundNothing,
    /// Usage, bytes.
    Usage(u64),
}

/// Whose turn it is, and since when.
#[derive(Debug)]
pub struct Turns {
    config: Config,
    cpu: CpuState,
    /// When the kernel took over, if its turn has come.
    kernel_since: Option<TimeMs>,
    /// When pageout last took over again.
    pageout_since: Option<TimeMs>,
    /// How long the kernel keeps at it.
    hold_ms: u64,
    /// When usage passed the urgent mark, until it is back at the high one.
    above_since: Option<TimeMs>,
}

impl Turns {
    /// Begins with pageout's turn.
    pub fn new(config: Config) -> Turns {
        Turns {
            config,
            cpu: CpuState::Free,
            kernel_since: None,
            pageout_since: None,
            hold_ms: config.hold_ms,
            above_since: None,
        }
    }

    /// Whose turn it is.
    pub fn reclaimer(&self) -> Reclaimer {
        match self.cpu {
            CpuState::Taken => Reclaimer::Programs,
            CpuState::Free if self.kernel_since.is_some() => Reclaimer::Kernel,
            CpuState::Free => Reclaimer::Pageout,
        }
    }

    /// Takes in what has happened.
    pub fn transition(&mut self, now: TimeMs, marks: &Watermarks, event: Event) {
        match (event, self.kernel_since) {
            (Event::Cpu(cpu), _) => self.cpu = cpu,
            (Event::KernelFoundNothing, _) => {
                (self.kernel_since, self.above_since) = (None, None);
            }
            (Event::Usage(bytes), since) if bytes <= marks.high_bytes => {
                self.above_since = None;
                let is_over = since.is_some_and(|then| now.since(then) >= self.hold_ms);
                if is_over {
                    (self.kernel_since, self.pageout_since) = (None, Some(now));
                }
            }
            (Event::Usage(_), Some(_)) => {}
            (Event::Usage(bytes), None) if bytes > marks.urgent_bytes => {
                let since = *self.above_since.get_or_insert(now);
                if now.since(since) >= self.config.urgent_persists_ms {
                    self.pageout_has_failed(now);
                    self.kernel_since = Some(now);
                }
            }
            (Event::Usage(_), None) => {}
        }
    }

    fn pageout_has_failed(&mut self, now: TimeMs) {
        let has_just_begun = |then: TimeMs| now.since(then) < self.hold_ms;
        self.hold_ms = match self.pageout_since.is_some_and(has_just_begun) {
            true => (self.hold_ms * 2).min(self.config.hold_ms * TIMES_MAX),
            false => self.config.hold_ms,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watermarks;

    const MIB: u64 = 1 << 20;

    /// A budget of 320 MiB: high at 315, urgent at 316.
    struct Run {
        turns: Turns,
        marks: Watermarks,
    }

    impl Run {
        fn new() -> Run {
            Run {
                turns: Turns::new(Config::DEFAULT),
                marks: Watermarks::new(320 * MIB, &watermarks::Config::DEFAULT),
            }
        }

        fn tell(&mut self, now: u64, event: Event) -> Reclaimer {
            self.turns.transition(TimeMs(now), &self.marks, event);
            self.turns.reclaimer()
        }

        fn at(&mut self, now: u64, usage_mib: u64) -> Reclaimer {
            self.tell(now, Event::Usage(usage_mib * MIB))
        }
    }

    use Reclaimer::{Kernel, Pageout, Programs};

    #[test]
    fn the_kernel_takes_over_while_it_is_urgent() {
        let mut run = Run::new();
        assert_eq!(run.at(0, 319), Pageout);
        assert_eq!(run.at(49, 319), Pageout, "a batch is on its way");
        assert_eq!(run.at(50, 319), Kernel);
        assert_eq!(run.at(549, 314), Kernel, "not for long enough");
        assert_eq!(
            run.at(600, 316),
            Kernel,
            "usage is not back at the high mark"
        );
        assert_eq!(run.at(700, 314), Pageout);
    }

    #[test]
    fn a_moment_above_the_urgent_mark_changes_nothing_and_going_down_begins_anew() {
        let mut run = Run::new();
        for round in 0..20 {
            assert_eq!(run.at(round * 80, 319), Pageout);
            assert_eq!(run.at(round * 80 + 40, 314), Pageout);
        }
        // Between the marks it is not over.
        run.at(2000, 319);
        run.at(2040, 316);
        assert_eq!(run.at(2080, 319), Kernel);
    }

    #[test]
    fn where_the_kernel_finds_nothing_it_is_pageouts_turn_until_it_is_urgent_again() {
        let mut run = Run::new();
        run.at(0, 319);
        assert_eq!(run.at(50, 319), Kernel);
        assert_eq!(run.tell(55, Event::KernelFoundNothing), Pageout);
        assert_eq!(run.at(60, 319), Pageout);
        assert_eq!(run.at(110, 319), Kernel);
    }

    /// How long the kernel has it, turn by turn, where pageout fails at once each time.
    #[test]
    fn pageout_that_fails_again_and_again_is_tried_ever_less_often() {
        let mut run = Run::new();
        let mut turns = Vec::new();
        let mut begun = None;
        for now in (0..60_000).step_by(50) {
            // The kernel keeps usage down, pageout does not.
            let usage_mib = if begun.is_some() { 314 } else { 319 };
            match (run.at(now, usage_mib), begun) {
                (Kernel, None) => begun = Some(now),
                (Pageout, Some(then)) => {
                    turns.push(now - then);
                    begun = None;
                }
                _ => {}
            }
        }
        assert_eq!(turns, [500, 1000, 2000, 4000, 8000, 16_000, 16_000]);
    }

    #[test]
    fn pageout_that_kept_up_for_long_is_given_up_for_the_shortest_time() {
        let mut run = Run::new();
        for _ in 0..3 {
            run.at(0, 319);
            run.at(50, 319);
            run.at(10_000, 314);
        }
        run.at(60_000, 319);
        assert_eq!(run.at(60_050, 319), Kernel);
        assert_eq!(run.at(60_550, 314), Pageout);
    }

    #[test]
    fn where_no_processor_is_free_programs_reclaim_and_afterwards_the_kernel_if_it_was_urgent() {
        let mut run = Run::new();
        run.tell(0, Event::Cpu(CpuState::Taken));
        for now in (0..5000).step_by(20) {
            assert_eq!(run.at(now, 319), Programs);
        }
        assert_eq!(run.tell(5000, Event::Cpu(CpuState::Free)), Kernel);
    }
}
