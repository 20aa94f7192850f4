//! `auto` near the budget: who has the processors, what pageout may take of one, and where our threads run.
//!
//! **Owns** reading what is due, and handing it on. **Does not own** averages and judgements
//! (`strata_control::cpu`, `reclaimer`, `affinity`), nor the throttle.

use super::ReclaimLoop;
use crate::run::gauge::Gauge;
use crate::run::trace::Runnable as RunnableThreads;
use crate::run::trace::{Counters, ProgramCpu, ProgramThreads, Recorder, Share, StatReader};
use crate::sense;
use std::collections::BTreeMap;
use strata_control::cpu::{Clocks, CpuSample, CpuState, Runnable, Threads};
use strata_control::{Processors, ProgramNo};
use strata_lru::TimeMs;

impl ReclaimLoop {
    /// Looks who runs, and gives pageout its share.
    pub(super) fn share_processors(&mut self, now: TimeMs, gauge: &Gauge, usage_bytes: u64) {
        if !self.control.is_sharing(usage_bytes) {
            self.control.relax(now);
            self.move_threads(None);
            return;
        }
        let (sample, is_new) = self.read_processors(now);
        let can_mark_all = self.can_mark_all();
        let taken = self.control.take_cpu(now, sample, can_mark_all);
        if is_new {
            self.note_busy_threads();
            let busy = (taken.state == CpuState::Free).then(|| self.busy_processors());
            self.move_threads(busy);
        }
        if taken.is_newly_left {
            self.group.tracker.forget_warm();
        }
        // What comes back is told by the same file that brings the kernel's counts up to date.
        if taken.state != CpuState::Saturated && self.control.cpu_due(now).clocks {
            let clocks = self.read_clocks(gauge);
            self.control.take_clocks(now, clocks, can_mark_all);
        }
        let pageout_percent_max = self.control.pageout_percent_max(taken.state);
        self.actuators.set_pageout_percent_max(pageout_percent_max);
        let cpu = self.control.cpu();
        let wanted = cpu.wanted();
        let share = Share {
            room: taken.state.into(),
            wanted_processors: wanted.all,
            wanted_most_processors: wanted.most,
            wanted_threads: wanted.nr_threads,
            refaulted_pages_per_s: cpu.refaulted_pages_per_s(),
            pageout_percent_max,
        };
        self.recorder.note(|tick| tick.plan.share = Some(share));
    }

    /// Nobody looks for a while, and the threads that reclaim may run anywhere.
    pub(super) fn leave_processors(&mut self, now: TimeMs) {
        self.control.rest(now);
        self.move_threads(None);
    }

    /// Threads and who is runnable, as far as that is due; whether threads were read.
    fn read_processors(&mut self, now: TimeMs) -> (CpuSample, bool) {
        let due = self.control.cpu_due(now);
        let mut sample = CpuSample::default();
        if due.threads {
            let threads = sense::cpu::threads(self.group.programs());
            let noted = note_threads(&threads, self.control.cpu().threads());
            self.recorder.note(|tick| tick.sample.threads = Some(noted));
            sample.threads = Some(threads);
        }
        if let Some(nr_threads) = due.runnable.then(sense::cpu::nr_runnable).flatten() {
            // This thread is one of them.
            let nr_own_threads = 1 + self.actuators.nr_busy();
            self.recorder.note(|tick| {
                tick.sample.runnable = Some(RunnableThreads {
                    nr_threads,
                    nr_own_threads,
                });
            });
            sample.runnable = Some(Runnable {
                nr_threads,
                nr_own_threads,
            });
        }
        (sample, due.threads)
    }

    /// Notes how many of each program's threads were busy.
    fn note_busy_threads(&self) {
        self.recorder.note(|tick| {
            let busy = self.control.cpu().busy_threads();
            for of in tick.sample.threads.iter_mut().flatten() {
                let threads = busy.iter().filter(|(number, _)| number.0 == of.program);
                of.nr_busy_threads = threads.count() as u64;
            }
        });
    }

    /// What the programs have used of the processors, and what has come back.
    fn read_clocks(&self, gauge: &Gauge) -> Clocks {
        let cpu_ns = sense::cpu::clocks(self.group.programs());
        self.recorder.note(|tick| {
            let cpu = cpu_ns.iter().map(|(number, cpu_ns)| ProgramCpu {
                program: number.0,
                cpu_ns: *cpu_ns,
            });
            tick.sample.cpu = Some(cpu.collect());
        });
        Clocks {
            cpu_ns,
            nr_refaulted_pages: nr_refaulted_pages(gauge, &self.recorder),
        }
    }

    /// Processors that busy threads of the programs run on.
    fn busy_processors(&self) -> Processors {
        let busy = self.control.cpu().busy_threads().iter();
        let busy = busy.filter_map(|(number, tid)| {
            let space = self.group.tracker.spaces().get(number)?;
            Some((space.process.as_ref(), *tid))
        });
        let taken = sense::cpu::processors_of(busy);
        self.recorder
            .note(|tick| tick.sample.busy_processors = Some(taken.numbers().unwrap_or_default()));
        taken
    }

    /// Has the threads that reclaim leave these processors to the programs, as long as others are left; `None`: they may
    /// run anywhere.
    fn move_threads(&mut self, taken: Option<Processors>) {
        let Some(to) = self.control.move_threads(taken) else {
            return;
        };
        if taken.is_some() {
            self.actuators.confine_reclaim();
        }
        if let Err(error) = self.actuators.run_on(&to) {
            tracing::debug!("our threads can't be moved: {error}");
            if let Some(own) = self.control.move_threads(None)
                && self.actuators.run_on(&own).is_err()
            {
                tracing::debug!("nor back to where they were");
            }
            self.control.give_up_moving();
        }
        let numbers = self.control.processors().numbers().unwrap_or_default();
        self.recorder
            .note(|tick| tick.plan.reclaim_on = Some(numbers));
    }
}

/// What the threads of each program wanted since the look before; who of them was busy is not told.
fn note_threads(
    now: &BTreeMap<ProgramNo, Threads>,
    before: &BTreeMap<ProgramNo, Threads>,
) -> Vec<ProgramThreads> {
    let programs = now.iter().map(|(number, threads)| {
        let before = before.get(number);
        ProgramThreads {
            program: number.0,
            wanted_ns: before.map(|before| threads.wanted_since_ns(before)),
            nr_threads: threads.wanted_ns.len() as u64,
            nr_busy_threads: 0,
            processors: threads.processors.numbers().unwrap_or_default(),
        }
    });
    programs.collect()
}

/// Pages of the group that came back so far; 0 where that is not told.
fn nr_refaulted_pages(gauge: &Gauge, recorder: &Recorder) -> u64 {
    let stats = gauge.group().map(|group| group.stats().ok());
    if let Some(stats) = stats {
        let counters = stats.map_or(Counters::Failed, Counters::Fresh);
        recorder.note_counters(StatReader::Refaults, counters);
    }
    let stats = stats.flatten();
    let kinds = stats.map(|stats| [stats.nr_refault_anon_pages, stats.nr_refault_file_pages]);
    kinds.into_iter().flatten().flatten().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_for_a_trace_is_what_was_wanted_since_the_look_before() {
        let at = |ms: u64| {
            let threads = Threads {
                wanted_ns: BTreeMap::from([(1, ms * 1_000_000), (2, ms * 100_000)]),
                processors: (0..2).collect(),
            };
            BTreeMap::from([(ProgramNo(3), threads)])
        };
        let of = |wanted_ns| ProgramThreads {
            program: 3,
            wanted_ns,
            nr_threads: 2,
            nr_busy_threads: 0,
            processors: vec![0, 1],
        };
        assert_eq!(note_threads(&at(0), &BTreeMap::new()), [of(None)]);
        assert_eq!(note_threads(&at(50), &at(0)), [of(Some(55_000_000))]);
    }
}
