//! One tick of the control loop on a played kernel: what `strata run` does with what it has read.
//!
//! ```text
//!   threads, processors, usage -> sample -> Control::tick -> plan -> drive -> mechanism -> pages, threads
//! ```
//!
//! **Owns** what comes before a plan, and the times of a tick. **Does not own** the decisions and the order in which a plan
//! is carried out (`strata_control`), what acts (`mechanism`), the pages (`pages`), the threads (`threads`), nor limits
//! (`limit`).
//!
//! **Invariants** I1: a tick never waits for a thread.

use strata_control::{
    ActuatorReport, PAGE_BYTES, Sample,
    cpu::{CpuDue, CpuSample},
    drive,
    limit::Standing,
    trace::Note,
};
use strata_lru::{TimeMs, Verdict};

use super::{
    limit::counters,
    prices,
    threads::{Freed, Reclaimed},
    world::World,
};
use crate::{mechanism::PlaysKernel, simulate::SimError};

/// What a tick came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticked {
    pub(super) wait_ms: u64,
    pub(super) standing: Standing,
    /// What it took of a processor, nanoseconds.
    pub(super) work_ns: u64,
}

impl<P: PlaysKernel> World<'_, P> {
    /// Takes in answers, decides, has it carried out, and walks if that is due.
    pub(super) fn tick(&mut self, at_ns: u64) -> Result<Ticked, SimError> {
        let now = TimeMs(at_ns / 1_000_000);
        (self.looped.at_ns, self.looped.walked_ns) = (at_ns, 0);
        let sample = self.sense(now)?;
        let usage_bytes = sample.usage_bytes;
        let plan = drive::decide(&mut self.control, &self.recorder, sample);
        self.count_reclaimer(at_ns, usage_bytes);
        let ticked = drive::carry_out(self, now, usage_bytes, plan)?;
        Ok(Ticked {
            wait_ms: ticked.wait_ms,
            standing: ticked.standing,
            work_ns: prices::TICK_NS + self.looped.walked_ns,
        })
    }

    /// All that a tick reads.
    fn sense(&mut self, now: TimeMs) -> Result<Sample, SimError> {
        let reports = self.hear();
        let usage_bytes = self.usage_bytes();
        let due = self.control.due(now, usage_bytes);
        let paged_out = self.pages.stats()?.nr_evicted_pages;
        let freed_pages = paged_out.iter().sum::<u64>() + self.looped.kernel_freed_pages;
        let cpu = match due.is_sharing {
            true => Some(self.sense_cpu(due.cpu)?),
            false => None,
        };
        Ok(Sample {
            now,
            usage_bytes,
            is_line_held: self.limit.is_line_held(),
            reports,
            nr_attempts: self.looped.nr_attempts,
            freed_bytes: (freed_pages + self.cache.nr_dropped_pages()) * PAGE_BYTES,
            cpu,
            free_swap: due.free_swap.then(|| self.free_swap()),
            cache: self.cache.take_look(),
            own_cpu_ns: self.own_cpu_ns(),
        })
    }

    fn sense_cpu(&mut self, due: CpuDue) -> Result<CpuSample, SimError> {
        let clocks = match due.clocks {
            true => {
                let stats = counters(&self.machine)?;
                let kinds = [stats.nr_refault_anon_pages, stats.nr_refault_file_pages];
                Some(self.timeline.clocks(kinds.into_iter().flatten().sum()))
            }
            false => None,
        };
        Ok(CpuSample {
            threads: due.threads.then(|| self.timeline.threads()),
            runnable: (due.runnable).then(|| self.timeline.runnable(self.nr_own_at_work)),
            clocks,
        })
    }

    /// What the threads have done since the last tick.
    pub(super) fn hear(&mut self) -> Vec<ActuatorReport> {
        let mut reports = Vec::new();
        self.hear_clearer();
        self.looped.nr_attempts += self.cache.take_attempts();
        if let Some(paged_out) = self.pageout.take_answer() {
            self.looped.nr_attempts += 1;
            self.pages
                .note_accessed(&self.pageout.neighbours, &self.pageout.accessed);
            self.pages.settle(&paged_out.verdicts);
            self.recorder.note(|| {
                let verdicts = paged_out.verdicts.iter();
                let evicted = verdicts.filter(|(_, verdict)| *verdict == Verdict::Evicted);
                Note::PagedOut {
                    nr_tried_pages: paged_out.nr_tried_pages,
                    nr_evicted_pages: evicted.count() as u64,
                    wall_ns: paged_out.wall_ns,
                    cpu_ns: paged_out.cpu_ns,
                }
            });
        }
        if let Some(reclaimed) = self.kernel.answer.take() {
            self.kernel.is_busy = false;
            let Reclaimed { freed, .. } = reclaimed;
            let (_, asked_bytes) = self.looped.asked_bytes;
            let mut freed_bytes = None;
            reports.push(match freed {
                Freed::Pages(pages) => {
                    self.looped.kernel_freed_pages += pages;
                    freed_bytes = Some(pages * PAGE_BYTES);
                    ActuatorReport::KernelFreed
                }
                Freed::Outpaced => ActuatorReport::KernelOutpaced,
                Freed::AtFloor => ActuatorReport::KernelAtFloor,
                Freed::Nothing => ActuatorReport::KernelFoundNothing,
            });
            self.looped.nr_attempts +=
                u64::from(!matches!(freed, Freed::Outpaced | Freed::AtFloor));
            self.recorder.note(|| Note::Reclaimed {
                asked_bytes,
                freed_bytes,
                wall_ns: reclaimed.wall_ns,
                cpu_ns: reclaimed.cpu_ns,
            });
        }
        reports
    }

    /// What was cleared: nothing is decided by it.
    fn hear_clearer(&mut self) {
        if let Some((wall_ns, held_ns)) = self.clearer.answer.take() {
            self.recorder.note(|| Note::Cleared {
                wall_ns,
                held_ns,
                nr_left_pieces: 0,
            });
        }
    }
}
