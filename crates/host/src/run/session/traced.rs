//! The trace of a run: its first and last line, and the end of each tick.
//!
//! **Owns** what of a run is said there. **Does not own** the trace (`run::trace`).

use super::{ReclaimLoop, RunConfig, Session};
use crate::pages::WalkReport;
use crate::run::config::{SwappinessChoice, Target};
use crate::run::report::{Ending, EvictionReport, LimitReport, UsageReport};
use crate::run::trace::{
    End, FORMAT, Header, Request as Asked, RunFacts, TargetKind, Totals, VERSION, changed_tunables,
};
use strata_linux::access;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::process::processors_of_thread;
use strata_lru::TimeMs;

impl Session<'_> {
    /// Writes the first line.
    pub(super) fn begin_trace(&mut self) {
        let run = self.facts();
        let header = || Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            strata: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
            page_bytes: PAGE_BYTES,
            nr_processors: std::thread::available_parallelism()
                .map_or(1, |number| u32::try_from(number.get()).unwrap_or(u32::MAX)),
            processors: processors_of_thread(0)
                .ok()
                .and_then(|of| of.numbers())
                .unwrap_or_default(),
            seed: None,
            is_multi_gen_on: access::is_multi_gen_on(),
            run,
        };
        let warning = self.trace.write_header(header);
        self.warn_of_trace(warning);
    }

    fn facts(&mut self) -> RunFacts {
        let config = self.config;
        let has = |of: fn(&ReclaimLoop) -> bool| self.managed.as_ref().is_some_and(of);
        RunFacts {
            target: target(config),
            measured_by: self.arena.gauge().name().to_owned(),
            marks: self.marks,
            policy: (&config.policy).into(),
            actuator: config.actuator,
            swappiness: match config.swappiness {
                SwappinessChoice::Auto => None,
                SwappinessChoice::Fixed(swappiness) => Some(swappiness.get()),
            },
            min_ttl_ms: config.min_ttl_ms,
            is_dry_run: config.dry_run,
            has_pageout: has(|of| of.actuators().has_pageout()),
            has_reclaim: has(|of| of.actuators().has_kernel()),
            cpu_percent_max: config.cpu_percent_max,
            is_exact: config.is_exact,
            tunables: changed_tunables(&config.control),
            access: self
                .managed
                .as_mut()
                .map(|managed| managed.source_info().name.to_owned()),
        }
    }

    /// Writes the tick.
    pub(super) fn end_tick(&mut self, is_woken: bool, wait_ms: u64) {
        let is_paused = self.is_paused;
        self.recorder.note(|tick| {
            tick.is_woken = is_woken;
            (tick.plan.wait_ms, tick.plan.is_paused) = (wait_ms, is_paused);
            tick.plan.standing = self.standing;
        });
        let warning = self.trace.end_tick();
        self.warn_of_trace(warning);
    }

    /// Notes what others ask for.
    pub(super) fn note_request(&self, request: Asked) {
        self.recorder.note(|tick| tick.requests.push(request));
    }

    /// Writes the last line.
    pub(super) fn end_trace(
        &mut self,
        now: TimeMs,
        ending: &Ending,
        usage: &UsageReport,
        eviction: &EvictionReport,
        walks: &WalkReport,
        limit: Option<LimitReport>,
    ) {
        let how = match ending {
            Ending::Exited { .. } => "exited",
            Ending::Signaled { .. } => "signaled",
            Ending::Detached => "detached",
            Ending::Gone => "gone",
        };
        let end = |reports| End {
            now_ms: now.0,
            how: how.to_owned(),
            reports,
            totals: Totals {
                nr_samples: usage.nr_samples,
                peak_bytes: usage.peak_bytes,
                reclaim_asked_bytes: eviction.reclaim_asked_bytes,
                reclaim_freed_bytes: eviction.reclaim_freed_bytes,
                nr_applied_pages: eviction.nr_applied_pages,
                nr_kernel_chosen_pages: eviction.nr_kernel_chosen_pages,
                nr_walks: walks.nr_walks,
                nr_raises: limit.map_or(0, |limit| limit.nr_raises),
            },
        };
        let warning = std::mem::take(&mut self.trace).finish(end);
        self.warn_of_trace(warning);
    }

    fn warn_of_trace(&mut self, warning: Option<String>) {
        if let Some(warning) = warning {
            self.warn(warning);
        }
    }
}

fn target(config: &RunConfig) -> TargetKind {
    match config.target {
        Target::Command { .. } => TargetKind::Command,
        Target::Pid(_) => TargetKind::Pid,
        Target::Cgroup(_) => TargetKind::Cgroup,
    }
}
