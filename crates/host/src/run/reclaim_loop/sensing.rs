//! The sample of a tick: what is due is read, and noted for the trace. And where the threads that reclaim run.
//!
//! **Owns** putting a sample together. **Does not own** what is due, averages and judgements (`strata_control`), the readings
//! (`sense`), nor the throttle.

use super::{Look, ReclaimLoop};
use crate::run::gauge::Gauge;
use crate::run::trace::Runnable as RunnableThreads;
use crate::run::trace::{Counters, ProgramCpu, ProgramThreads, Share, StatReader};
use crate::sense;
use crate::sense::readings::Readings;
use std::collections::BTreeMap;
use strata_control::cpu::{Clocks, CpuSample, Runnable, Threads};
use strata_control::{ActuatorReport, FreeSwap, Processors, ProgramNo, Sample};
use strata_lru::TimeMs;

impl ReclaimLoop {
    /// Reads what is due. `reports`: what became of the last plans.
    pub(super) fn sense(
        &mut self,
        look: Look,
        gauge: &Gauge,
        readings: &mut Readings,
        reports: Vec<ActuatorReport>,
    ) -> Sample {
        let Look {
            now,
            usage_bytes,
            is_line_held,
        } = look;
        let due = self.groups.root().due(now, usage_bytes);
        let cpu = due.is_sharing.then(|| CpuSample {
            threads: due.cpu.threads.then(|| self.read_threads()),
            runnable: due.cpu.runnable.then(|| self.read_runnable()).flatten(),
            clocks: due.cpu.clocks.then(|| self.read_clocks(gauge, readings)),
        });
        Sample {
            now,
            usage_bytes,
            is_line_held,
            reports,
            nr_attempts: self.nr_attempts,
            freed_bytes: self.freed_bytes(),
            cpu,
            can_mark_all: due.is_sharing && self.can_mark_all(),
            free_swap: due.free_swap.then(|| readings.free_swap()),
            going_bytes: 0,
        }
    }

    /// Notes what was made of who has the processors, and of free swap.
    pub(super) fn note_share(&self, is_sharing: bool, free_swap: Option<FreeSwap>) {
        let control = self.groups.root();
        self.recorder.note(|tick| {
            if let Some(free_swap) = free_swap {
                tick.sample.free_swap = Some(free_swap);
                tick.plan.swappiness = Some(control.swappiness().get());
            }
            if !is_sharing {
                return;
            }
            let cpu = control.cpu();
            for of in tick.sample.threads.iter_mut().flatten() {
                let busy = cpu.busy_threads().iter();
                let threads = busy.filter(|(number, _)| number.0 == of.program);
                of.nr_busy_threads = threads.count() as u64;
            }
            let wanted = cpu.wanted();
            tick.plan.share = Some(Share {
                room: control.cpu_state().into(),
                wanted_processors: wanted.all,
                wanted_most_processors: wanted.most,
                wanted_threads: wanted.nr_threads,
                refaulted_pages_per_s: cpu.refaulted_pages_per_s(),
                pageout_percent_max: control.pageout_percent_max(),
            });
        });
    }

    /// Nobody looks for a while, and the threads that reclaim may run anywhere.
    pub(super) fn leave_processors(&mut self, now: TimeMs) {
        for action in self.groups.root_mut().rest(now) {
            self.carry_out(now, action);
        }
    }

    /// Keeps the threads that reclaim off the processors that busy threads of the programs run on.
    pub(super) fn avoid_busy_threads(&mut self) {
        let busy = self.groups.root().cpu().busy_threads().iter();
        let busy = busy.filter_map(|(number, tid)| {
            let space = self.group.tracker.spaces().get(number)?;
            Some((space.process.as_ref(), *tid))
        });
        let taken = sense::cpu::processors_of(busy);
        self.recorder
            .note(|tick| tick.sample.busy_processors = Some(taken.numbers().unwrap_or_default()));
        if let Some(to) = self.groups.root_mut().avoid(taken) {
            self.actuators.confine_reclaim();
            self.run_on(to);
        }
    }

    /// Has the threads that reclaim run there.
    pub(super) fn run_on(&mut self, to: Processors) {
        if let Err(error) = self.actuators.run_on(&to) {
            tracing::debug!("our threads can't be moved: {error}");
            if let Some(own) = self.groups.root_mut().widen()
                && self.actuators.run_on(&own).is_err()
            {
                tracing::debug!("nor back to where they were");
            }
            self.groups.root_mut().give_up_moving();
        }
        let numbers = self.groups.root().processors().numbers();
        self.recorder
            .note(|tick| tick.plan.reclaim_on = Some(numbers.unwrap_or_default()));
    }

    fn read_threads(&self) -> BTreeMap<ProgramNo, Threads> {
        let threads = sense::cpu::threads(self.group.programs());
        let noted = note_threads(&threads, self.groups.root().cpu().threads());
        self.recorder.note(|tick| tick.sample.threads = Some(noted));
        threads
    }

    /// Threads that are runnable; `None` where that is not told.
    fn read_runnable(&self) -> Option<Runnable> {
        let nr_threads = sense::cpu::nr_runnable()?;
        // This thread is one of them.
        let nr_own_threads = 1 + self.actuators.nr_busy();
        self.recorder.note(|tick| {
            tick.sample.runnable = Some(RunnableThreads {
                nr_threads,
                nr_own_threads,
            });
        });
        Some(Runnable {
            nr_threads,
            nr_own_threads,
        })
    }

    /// What the programs have used of the processors, and what has come back; 0 where that is not told.
    fn read_clocks(&self, gauge: &Gauge, readings: &mut Readings) -> Clocks {
        let cpu_ns = sense::cpu::clocks(self.group.programs());
        self.recorder.note(|tick| {
            let cpu = cpu_ns.iter().map(|(number, cpu_ns)| ProgramCpu {
                program: number.0,
                cpu_ns: *cpu_ns,
            });
            tick.sample.cpu = Some(cpu.collect());
        });
        let stats = gauge.group().map(|group| readings.counters(group));
        if let Some(stats) = stats {
            let counters = stats.map_or(Counters::Failed, Counters::Fresh);
            self.recorder.note_counters(StatReader::Refaults, counters);
        }
        let stats = stats.flatten();
        let kinds = stats.map(|stats| [stats.nr_refault_anon_pages, stats.nr_refault_file_pages]);
        Clocks {
            cpu_ns,
            nr_refaulted_pages: kinds.into_iter().flatten().flatten().sum(),
        }
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
