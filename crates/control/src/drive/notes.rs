//! What a tick notes for the trace of what it read and decided.
//!
//! **Owns** these notes. **Does not own** what is decided (`control`), nor the trace.

use crate::control::Control;
use crate::cpu::CpuSample;
use crate::plan::Plan;
use crate::sample::{FreeSwap, ProgramNo, Sample, Threads};
use crate::trace::{
    CacheAsk, EngineSample, ProgramCpu, ProgramThreads, Reclaimer, Recorder, Runnable, Share,
};
use std::collections::BTreeMap;
use strata_lru::ReclaimStats;

/// What of a sample is noted once its plan is made.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    is_sharing: bool,
    free_swap: Option<FreeSwap>,
    freed_bytes: u64,
    nr_attempts: u64,
}

impl Seen {
    /// Of this sample; notes what was read of the processors.
    pub fn of(control: &Control, recorder: &Recorder, sample: &Sample) -> Seen {
        if control.allowance().is_capped() {
            recorder.note(|tick| tick.sample.own_cpu_ns = Some(sample.own_cpu_ns));
        }
        if let Some(cpu) = &sample.cpu {
            note_cpu(control, recorder, cpu);
        }
        if sample.cache.is_some() {
            recorder.note(|tick| tick.sample.cache.clone_from(&sample.cache));
        }
        Seen {
            is_sharing: sample.cpu.is_some(),
            free_swap: sample.free_swap,
            freed_bytes: sample.freed_bytes,
            nr_attempts: sample.nr_attempts,
        }
    }

    /// Notes who has the processors, who reclaims, with how much, and whether that gets anywhere.
    /// `stats`: the engine's counters; `is_batch_out`: pages that were sent have not come back.
    pub fn note(
        self,
        control: &Control,
        recorder: &Recorder,
        plan: &Plan,
        stats: &ReclaimStats,
        is_batch_out: bool,
    ) {
        recorder.note(|tick| {
            if let Some(free_swap) = self.free_swap {
                tick.sample.free_swap = Some(free_swap);
                tick.plan.swappiness = Some(control.swappiness().get());
            }
            if self.is_sharing {
                let cpu = control.cpu();
                for of in tick.sample.threads.iter_mut().flatten() {
                    let busy = cpu.busy_threads().iter();
                    let threads = busy.filter(|(number, _)| number.0 == of.program);
                    of.nr_busy_threads = threads.count() as u64;
                }
                let wanted = cpu.wanted();
                tick.plan.share = Some(Share {
                    processors: control.cpu_state(),
                    wanted_processors: wanted.all,
                    wanted_threads: wanted.nr_threads,
                    refaulted_pages_per_s: cpu.refaulted_pages_per_s(),
                    pageout_percent_max: control.pageout_percent_max(),
                });
            }
            let actions = plan.actions.iter();
            tick.plan.cache = actions.filter_map(|of| CacheAsk::of(*of)).collect();
            let asked = plan.decision.asked;
            tick.plan.reclaimer = Some(Reclaimer {
                who: control.reclaimer(),
                pageout_pages: asked.pageout_pages,
                reclaim_bytes: asked.kernel_bytes,
                wait_ms: asked.wait_ms,
            });
            tick.sample.engine = Some(EngineSample {
                nr_attempts: self.nr_attempts,
                freed_bytes: self.freed_bytes,
                nr_isolated_pages: stats.nr_isolated_pages,
                nr_evicted_pages: stats.nr_evicted_pages.iter().sum(),
                nr_kernel_evicted_pages: stats.nr_kernel_evicted_pages.iter().sum(),
                is_batch_out,
            });
            tick.plan.is_stalled = plan.decision.is_stalled;
            tick.plan.stall_pause_ms = plan.decision.stall_pause_ms;
        });
    }
}

fn note_cpu(control: &Control, recorder: &Recorder, cpu: &CpuSample) {
    recorder.note(|tick| {
        let sample = &mut tick.sample;
        let before = control.cpu().threads();
        let threads = cpu.threads.as_ref();
        sample.threads = threads.map(|threads| wanted_since(threads, before));
        sample.runnable = cpu.runnable.map(|runnable| Runnable {
            nr_threads: runnable.nr_threads,
            nr_own_threads: runnable.nr_own_threads,
        });
        sample.cpu = cpu.clocks.as_ref().map(|clocks| {
            let programs = clocks.cpu_ns.iter().map(|(number, cpu_ns)| ProgramCpu {
                program: number.0,
                cpu_ns: *cpu_ns,
            });
            programs.collect()
        });
    });
}

/// What the threads of each program wanted since the look before; who of them was busy is not told.
fn wanted_since(
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
    use crate::control::tests::{MIB, with};
    use crate::cpu::Clocks;
    use crate::sample::Actuator;
    use strata_lru::TimeMs;

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
        assert_eq!(wanted_since(&at(0), &BTreeMap::new()), [of(None)]);
        assert_eq!(wanted_since(&at(50), &at(0)), [of(Some(55_000_000))]);
    }

    #[test]
    fn who_has_the_processors_is_noted_with_the_busy_threads_of_each_program() {
        let mut control = with(320 * MIB, Actuator::Auto);
        let recorder = Recorder::recording();
        // A thread of program 3 wants a processor all the time, and the one of program 4 never.
        for ms in (0..1000).step_by(100) {
            let threads = |wanted_ms: u64| Threads {
                wanted_ns: BTreeMap::from([(1, wanted_ms * 1_000_000)]),
                processors: (0..2).collect(),
            };
            let programs = [(ProgramNo(3), threads(ms)), (ProgramNo(4), threads(0))];
            let cpu = CpuSample {
                threads: Some(programs.into()),
                clocks: Some(Clocks {
                    cpu_ns: BTreeMap::from([(ProgramNo(3), ms * 1_000_000)]),
                    nr_refaulted_pages: 0,
                }),
                ..CpuSample::default()
            };
            let sample = Sample {
                now: TimeMs(ms),
                usage_bytes: 319 * MIB,
                cpu: Some(cpu),
                ..Sample::default()
            };
            recorder.take();
            let seen = Seen::of(&control, &recorder, &sample);
            let plan = control.tick(sample);
            seen.note(&control, &recorder, &plan, &ReclaimStats::default(), false);
        }
        let tick = recorder.take().expect("it records");
        let threads = tick.sample.threads.into_iter().flatten();
        let busy = threads.map(|of| (of.program, of.wanted_ns, of.nr_busy_threads));
        let busy: Vec<_> = busy.collect();
        assert_eq!(busy, [(3, Some(100_000_000), 1), (4, Some(0), 0)]);
        let used = ProgramCpu {
            program: 3,
            cpu_ns: 900_000_000,
        };
        assert_eq!(tick.sample.cpu, Some(vec![used]));
        assert!(tick.plan.share.is_some_and(|of| of.wanted_threads > 0.5));
    }
}
