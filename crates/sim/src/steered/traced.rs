//! The trace of a steered run: its first and last line, and the end of each tick.
//!
//! The lines are those of `strata run --trace`. What a run on Linux reads of its machine, the header says of the played one.
//!
//! **Owns** what of a run is said there, and lines that were not handed on yet. **Does not own** the format
//! (`strata_control::trace`), nor where lines go ([`Progress::trace`]).
//!
//! **Invariants** I1: without a trace nothing is kept.

use strata_control::trace::{
    End, FORMAT, Header, Line, Members, PolicyName, RunFacts, TargetKind, Totals, VERSION,
    changed_tunables,
};
use strata_control::{PAGE_BYTES, limit::Standing};
use strata_lru::{Swappiness, TimeMs};

use super::{Hierarchy, SteeringCounts, world::World};
use crate::{
    mechanism::PlaysKernel,
    simulate::{Progress, SimError},
};

/// Lines that wait to be handed on, and what the next one depends on.
#[derive(Debug, Default)]
pub(super) struct Traced {
    lines: Vec<Line>,
    /// The next tick comes then, unless something wakes the loop, milliseconds.
    due_ms: u64,
    /// Usage has passed a mark since the last tick.
    pub(super) is_mark_crossed: bool,
    nr_samples: u64,
    peak_bytes: u64,
}

impl<P: PlaysKernel> World<'_, P> {
    /// Says what is run.
    pub(super) fn begin_trace(&mut self) {
        if !self.setup.is_traced {
            return;
        }
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            strata: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: match P::HAS_LISTS {
                true => "two-list".to_owned(),
                false => "mglru".to_owned(),
            },
            page_bytes: PAGE_BYTES,
            nr_processors: self.setup.nr_processors,
            processors: (0..self.setup.nr_processors as usize).collect(),
            seed: None,
            is_multi_gen_on: !P::HAS_LISTS,
            run: RunFacts {
                target: TargetKind::Command,
                measured_by: match self.setup.hierarchy {
                    Hierarchy::V1 => "cgroup_v1".to_owned(),
                    Hierarchy::V2 => "cgroup_v2".to_owned(),
                },
                marks: self.marks,
                policy: PolicyName::default(),
                actuator: self.setup.actuator,
                swappiness: (self.swappiness != Swappiness::DEFAULT).then(|| self.swappiness.get()),
                min_ttl_ms: self.control.min_ttl_ms(),
                is_dry_run: self.control.is_dry_run(),
                access: Some("played".to_owned()),
                has_pageout: self.control.has_pageout(),
                has_reclaim: self.control.has_kernel(),
                cpu_percent_max: None,
                is_exact: false,
                tunables: changed_tunables(&self.config),
            },
        };
        self.traced.lines.push(Line::Header(Box::new(header)));
    }

    /// A tick begins.
    pub(super) fn begin_traced_tick(&mut self, now: TimeMs) {
        let (usage_bytes, due_ms) = (self.usage_bytes(), self.traced.due_ms);
        self.traced.peak_bytes = self.traced.peak_bytes.max(usage_bytes);
        let is_mark_crossed = std::mem::take(&mut self.traced.is_mark_crossed);
        self.recorder.note(|tick| {
            tick.now_ms = now.0;
            tick.is_woken = now.0 < due_ms;
            tick.sample.usage_bytes = Some(usage_bytes);
            tick.sample.is_mark_crossed = is_mark_crossed;
        });
    }

    /// A tick is over.
    pub(super) fn end_traced_tick(&mut self, now: TimeMs, standing: Standing, wait_ms: u64) {
        let Some(mut tick) = self.recorder.take() else {
            return;
        };
        (tick.plan.wait_ms, tick.plan.standing) = (wait_ms, standing);
        self.traced.due_ms = now.0 + wait_ms;
        self.traced.nr_samples += 1;
        self.traced.lines.push(Line::Tick(Box::new(tick)));
    }

    /// Notes who is walked: all programs, all the time.
    pub(super) fn note_members(&self) {
        self.recorder.note(|tick| {
            let spaces = self.pages.spaces().iter();
            tick.sample.members = Some(Members {
                programs: spaces.map(|space| space.number.0).collect(),
                out_of_reach: Vec::new(),
            });
        });
    }

    /// Says what the run came to. What threads are still at counts as not done.
    pub(super) fn end_trace(&mut self, counts: &SteeringCounts) -> Result<(), SimError> {
        if !self.setup.is_traced {
            return Ok(());
        }
        self.hear();
        let stats = self.pages.stats()?;
        let end = End {
            now_ms: counts.time_ns / 1_000_000,
            how: "exited".to_owned(),
            reports: self.recorder.take().map_or(Vec::new(), |tick| tick.reports),
            totals: Totals {
                nr_samples: self.traced.nr_samples,
                peak_bytes: self.traced.peak_bytes,
                reclaim_asked_bytes: self.looped.asked_bytes.0,
                reclaim_freed_bytes: self.looped.kernel_freed_pages * PAGE_BYTES,
                nr_applied_pages: stats.nr_evicted_pages.iter().sum(),
                nr_kernel_chosen_pages: stats.nr_kernel_evicted_pages.iter().sum(),
                nr_walks: counts.nr_walks,
                nr_raises: counts.nr_limit_raises,
            },
        };
        self.traced.lines.push(Line::End(Box::new(end)));
        Ok(())
    }

    /// Hands on what there is.
    pub(super) fn tell_trace(&mut self, progress: &dyn Progress) {
        for line in self.traced.lines.drain(..) {
            progress.trace(&line);
        }
    }
}
