//! The sample of a tick: what is due is read. And where the threads that reclaim run.
//!
//! **Owns** putting a sample together. **Does not own** what is due, averages and judgements (`strata_control`), the readings
//! (`sense`), nor the throttle.

use super::{Look, ReclaimLoop};
use crate::run::gauge::Gauge;
use crate::run::overhead;
use crate::sense;
use crate::sense::readings::Readings;
use strata_control::cpu::{Clocks, CpuSample, Runnable};
use strata_control::{ActuatorReport, Sample};

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
        let due = self.control.due(now, usage_bytes);
        let cpu = due.is_sharing.then(|| CpuSample {
            threads: (due.cpu.threads).then(|| sense::cpu::threads(self.group.programs())),
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
            free_swap: due.free_swap.then(|| readings.free_swap()),
            cache: self.actuators.look_at_cache(),
            own_cpu_ns: overhead::cpu_ns() + self.keeper_cpu_ns,
        }
    }

    /// Threads that are runnable; `None` where that is not told.
    fn read_runnable(&self) -> Option<Runnable> {
        let nr_threads = sense::cpu::nr_runnable()?;
        // This thread is one of them.
        let nr_own_threads = 1 + self.actuators.nr_busy();
        Some(Runnable {
            nr_threads,
            nr_own_threads,
        })
    }

    /// What the programs have used of the processors, and what has come back; 0 where that is not told.
    fn read_clocks(&self, gauge: &Gauge, readings: &mut Readings) -> Clocks {
        let cpu_ns = sense::cpu::clocks(self.group.programs());
        let stats = gauge.group().and_then(|group| readings.counters(group));
        let kinds = stats.map(|stats| [stats.nr_refault_anon_pages, stats.nr_refault_file_pages]);
        Clocks {
            cpu_ns,
            nr_refaulted_pages: kinds.into_iter().flatten().flatten().sum(),
        }
    }
}
