//! Virtual time, and who has the processors.
//!
//! Every thread of a program wants a processor whenever a request is there to be made, but while it waits for a device.
//! Strata's threads run at the same priority, so of a processor that one of them wants as well the programs have half.
//! Requests come in the order of the trace; where several threads run side by side each takes the time that it takes, and
//! all of them together so much less.
//!
//! ```text
//!   a request of c ns:  time goes on by  c / (threads x share)      share = min(1, processors left / threads)
//! ```
//!
//! **Owns** the clock and what the programs have used of the processors. **Does not own** when Strata's threads work.
//!
//! **Invariants** I1: time never goes back. I2: together the programs never run on more processors than there are.

use std::collections::BTreeMap;

use strata_control::{
    ProgramNo,
    cpu::{Clocks, Runnable, Threads},
};
use strata_lru::TimeMs;
use strata_trace::Via;

use crate::workload::Workload;

/// Of a processor that one of Strata's threads wants as well a program gets so much, in hundredths.
const LEFT_PERCENT: u64 = 50;
/// Parts of a nanosecond that are kept.
const SCALE: u64 = 1 << 16;

/// A space of the trace, as a program.
#[derive(Clone, Copy, Debug)]
struct Program {
    number: ProgramNo,
    /// Requests at which it begins and ends.
    first: u32,
    last: u32,
    wanted_ns: u64,
    cpu_ns: u64,
}

/// The clock.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    now_ns: u64,
    /// What is left of a nanosecond, in parts of [`SCALE`].
    rest: u64,
    nr_processors: u64,
    threads_per_program: u64,
    programs: Vec<Program>,
    nr_active: u64,
    /// When the number of active programs changes: positions, in order.
    changes: Vec<u32>,
    next_change: usize,
}

impl Timeline {
    /// At the beginning of a workload.
    pub(super) fn new(
        workload: &Workload,
        nr_processors: u32,
        threads_per_program: u32,
    ) -> Timeline {
        let mut spaces: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
        let mapped = |via| via == Via::PageTable;
        let is_mapped = workload.requests().iter().any(|of| mapped(of.via()));
        for (request, position) in workload.requests().iter().zip(0..) {
            // A file that is only read has no program of its own.
            if is_mapped && !mapped(request.via()) {
                continue;
            }
            let space = match is_mapped {
                true => workload.page(request.page()).key.space,
                false => 0,
            };
            let span = spaces.entry(space).or_insert((position, position));
            span.1 = position;
        }
        let programs = spaces.into_iter().map(|(space, (first, last))| Program {
            number: strata_lru::SpaceNo(space),
            first,
            last,
            wanted_ns: 0,
            cpu_ns: 0,
        });
        let programs: Vec<Program> = programs.collect();
        let changes = programs
            .iter()
            .flat_map(|of| [of.first, of.last.saturating_add(1)]);
        let mut changes: Vec<u32> = changes.collect();
        changes.sort_unstable();
        changes.dedup();
        Timeline {
            nr_processors: u64::from(nr_processors.max(1)),
            threads_per_program: u64::from(threads_per_program.max(1)),
            programs,
            changes,
            ..Timeline::default()
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub(super) fn now(&self) -> TimeMs {
        TimeMs(self.now_ns / 1_000_000)
    }

    /// The request at a position is about to be made.
    pub(super) fn reach(&mut self, position: u32) {
        let due = self.changes.get(self.next_change);
        if due.is_some_and(|due| *due <= position) {
            let passed = self.changes[self.next_change..].iter();
            self.next_change += passed.take_while(|due| **due <= position).count();
            let is_active = |of: &&Program| of.first <= position && position <= of.last;
            self.nr_active = self.programs.iter().filter(is_active).count() as u64;
        }
    }

    /// Nothing is asked for before this.
    pub(super) fn sleep_until(&mut self, ns: u64) {
        self.now_ns = self.now_ns.max(ns);
    }

    /// Threads of programs that want a processor.
    pub(super) fn nr_threads(&self) -> u64 {
        self.nr_active.max(1) * self.threads_per_program
    }

    /// Processors that the programs have while so many of Strata's threads work, in hundredths.
    fn left_percent(&self, nr_own: u64) -> u64 {
        let nr_taken = nr_own.min(self.nr_processors);
        (self.nr_processors - nr_taken) * 100 + nr_taken * LEFT_PERCENT
    }

    /// A program takes so long over something, while so many of Strata's threads work.
    pub(super) fn spend(&mut self, ns: u64, nr_own: u64, position: u32) {
        let nr_threads = self.nr_threads();
        let had_percent = (nr_threads * 100).min(self.left_percent(nr_own));
        let passed = ns * SCALE * 100 / had_percent + self.rest;
        let passed_ns = passed / SCALE;
        self.rest = passed % SCALE;
        self.now_ns += passed_ns;
        let is_one = self.programs.len() == 1;
        let wanted_ns = passed_ns * self.threads_per_program;
        let cpu_ns = wanted_ns * had_percent / (nr_threads * 100);
        for program in &mut self.programs {
            if is_one || program.first <= position && position <= program.last {
                program.wanted_ns += wanted_ns;
                program.cpu_ns += cpu_ns;
            }
        }
    }

    /// A program waits so long for a device; others go on meanwhile.
    pub(super) fn wait(&mut self, ns: u64) {
        let passed = ns * SCALE / self.nr_threads() + self.rest;
        self.now_ns += passed / SCALE;
        self.rest = passed % SCALE;
    }

    /// What all programs together have used of the processors so far, nanoseconds.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.programs.iter().map(|of| of.cpu_ns).sum()
    }

    /// What each thread has run or waited a processor for.
    pub(super) fn threads(&self) -> BTreeMap<ProgramNo, Threads> {
        let each = |of: &Program| {
            let nr_threads = self.threads_per_program;
            let wanted_ns = (0..nr_threads).map(|thread| {
                let id = i64::from(of.number.0) * nr_threads as i64 + thread as i64;
                (id as i32, of.wanted_ns / nr_threads)
            });
            let threads = Threads {
                wanted_ns: wanted_ns.collect(),
                processors: (0..self.nr_processors as usize).collect(),
            };
            (of.number, threads)
        };
        self.programs.iter().map(each).collect()
    }

    /// Who is runnable, while so many of Strata's threads work beside the loop.
    pub(super) fn runnable(&self, nr_own: u64) -> Runnable {
        let nr_own_threads = nr_own as u32 + 1;
        Runnable {
            nr_threads: self.nr_threads() as u32 + nr_own_threads,
            nr_own_threads,
        }
    }

    /// What the programs have used, and what has come back.
    pub(super) fn clocks(&self, nr_refaulted_pages: u64) -> Clocks {
        Clocks {
            cpu_ns: self
                .programs
                .iter()
                .map(|of| (of.number, of.cpu_ns))
                .collect(),
            nr_refaulted_pages,
        }
    }

    /// What a program has used of the processors so far, nanoseconds.
    pub(super) fn cpu_ns_of(&self, number: ProgramNo) -> Option<u64> {
        let found = self.programs.iter().find(|of| of.number == number);
        found.map(|of| of.cpu_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_trace::{Access, PageKey};

    fn timeline(spaces: &[u32], nr_processors: u32) -> Timeline {
        let accesses = spaces.iter().map(|space| Access {
            key: PageKey {
                space: *space,
                page: 1,
            },
            via: Via::PageTable,
            ..Access::default()
        });
        let workload = Workload::from_accesses("test", accesses).unwrap();
        let mut timeline = Timeline::new(&workload, nr_processors, 1);
        timeline.reach(0);
        timeline
    }

    #[test]
    fn one_program_beside_a_thread_of_ours_goes_on_as_fast_while_a_processor_is_left() {
        let mut timeline = timeline(&[0], 2);
        timeline.spend(1000, 1, 0);
        assert_eq!(timeline.now_ns(), 1000);
        timeline.spend(1000, 2, 0);
        assert_eq!(
            timeline.now_ns(),
            2000,
            "two of ours leave it half of each processor"
        );
        assert_eq!(timeline.cpu_ns_of(strata_lru::SpaceNo(0)), Some(2000));
        assert_eq!(
            timeline.threads()[&strata_lru::SpaceNo(0)].wanted_ns[&0],
            2000
        );
    }

    #[test]
    fn programs_that_take_turns_in_a_trace_run_side_by_side() {
        let mut two = timeline(&[0, 1, 0, 1], 2);
        two.reach(1);
        two.spend(1000, 0, 1);
        assert_eq!(two.now_ns(), 500);
        let mut on_one = timeline(&[0, 1, 0, 1], 1);
        on_one.reach(1);
        on_one.spend(1000, 0, 1);
        assert_eq!(on_one.now_ns(), 1000);
        let clocks = on_one.clocks(7);
        assert_eq!(
            clocks.cpu_ns.values().sum::<u64>(),
            1000,
            "no more than there is"
        );
    }

    #[test]
    fn who_waits_for_a_device_wants_no_processor() {
        let mut timeline = timeline(&[0], 2);
        timeline.wait(1000);
        assert_eq!((timeline.now_ns(), timeline.cpu_ns()), (1000, 0));
        timeline.spend(500, 0, 0);
        assert_eq!((timeline.now_ns(), timeline.cpu_ns()), (1500, 500));
    }

    #[test]
    fn parts_of_a_nanosecond_are_not_lost() {
        let mut timeline = timeline(&[0, 1, 2, 0, 1, 2], 3);
        timeline.reach(2);
        (0..3000).for_each(|_| timeline.spend(1, 0, 2));
        assert!(
            (999..=1000).contains(&timeline.now_ns()),
            "{}",
            timeline.now_ns()
        );
    }
}
