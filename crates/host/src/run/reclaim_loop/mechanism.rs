//! The memory and the threads of the group, as the control loop acts on them.
//!
//! **Owns** turning quantities into pages, by the engine's order, and calls of the loop into calls of the threads. **Does
//! not own** the order of a tick (`strata_control::drive`), what is to be done (`strata_control`), which pages are warm,
//! cold or belong together (`pages`), nor the threads (`actuators`).

use super::ReclaimLoop;
use crate::engine::census::cache;
use crate::run::gauge::Gauge;
use std::convert::Infallible;
use strata_control::drive::{Event, Given, Mechanism, View, Visit};
use strata_control::trace::Recorder;
use strata_control::{Action, CacheRequest, Control};
use strata_linux::access::ClearIntent;
use strata_linux::actuator::PageoutRequest;
use strata_lru::{Ageing, TimeMs};

/// Near the budget, while walks pause, members are looked for again after so long.
const MEMBERS_PAUSE_NEAR_MS: u64 = 1000;
/// The kernel's default scan priority.
const RELAXED_PRIORITY: u8 = 12;

/// The loop, and where usage and members are read during this tick.
pub(super) struct Turn<'a> {
    pub(super) of: &'a mut ReclaimLoop,
    pub(super) gauge: &'a Gauge,
}

/// What can't fail has no failure to handle.
pub(super) fn sure<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
        Err(never) => match never {},
    }
}

impl Mechanism for Turn<'_> {
    type Error = Infallible;
    type Batch = Vec<PageoutRequest>;

    fn control(&self) -> &Control {
        &self.of.control
    }

    fn control_mut(&mut self) -> &mut Control {
        &mut self.of.control
    }

    fn recorder(&self) -> &Recorder {
        &self.of.recorder
    }

    fn view(&mut self, now: TimeMs) -> View {
        let rest = self.of.group.observer.rest();
        let swappiness = self.control().swappiness();
        let ageing = self.of.group.tracker.ageing(swappiness);
        let is_due = matches!(ageing, Ok(Ageing::Due));
        View {
            is_batch_out: self.of.group.tracker.is_batch_out(),
            is_all_young: self.control().min_ttl_ms() > 0 && self.of.is_all_young(now),
            is_splitting: self.of.splits.splitter.is_busy(),
            is_ageing_due: is_due || self.of.is_lists_walk_due(now),
            rest_us: u64::try_from(rest.as_micros().max(u128::from(!rest.is_zero())))
                .unwrap_or(u64::MAX),
            is_walking: self.of.group.is_walking(),
        }
    }

    fn hear(&mut self, now: TimeMs, event: Event) {
        match event {
            Event::Attempt => self.of.nr_attempts += 1,
            Event::Thrashing => self.of.actuators.counters.nr_thrashing += 1,
            // A walk of many processes may be followed by a long pause.
            Event::WalkPutOff => {
                self.of
                    .refresh_members_if_due(now, self.gauge, MEMBERS_PAUSE_NEAR_MS);
            }
            Event::WalkEnded => {
                self.of.choose_splits(now);
                self.of.walked_at = Some(now);
                self.of.group.remember(now);
            }
        }
    }

    fn ask_kernel(&mut self, _: TimeMs, bytes: u64) -> bool {
        self.of.actuators.ask_kernel(bytes)
    }

    fn isolate(
        &mut self,
        now: TimeMs,
        nr_pages: u64,
    ) -> Result<Option<Given<Vec<PageoutRequest>>>, Infallible> {
        let swappiness = self.control().swappiness();
        let tracker = &mut self.of.group.tracker;
        let isolated = tracker.isolate(nr_pages, swappiness, RELAXED_PRIORITY, now);
        Ok(isolated
            .inspect_err(|error| self.of.warn(format!("eviction stopped: {error}")))
            .ok()
            .map(|(answer, batch)| Given { answer, batch }))
    }

    fn send(&mut self, _: TimeMs, batch: Vec<PageoutRequest>) {
        self.of.page_out(batch);
    }

    fn visit(
        &mut self,
        now: TimeMs,
        is_thorough: bool,
        intent: ClearIntent,
    ) -> Result<Option<Visit>, Infallible> {
        let visited = self.of.group.visit(now, self.gauge, intent, is_thorough);
        Ok(visited.map(|(visit, troubles)| {
            self.of.heed_members(troubles);
            visit
        }))
    }

    fn age(&mut self, now: TimeMs) -> Result<(), Infallible> {
        if let Some(plan) = self.of.ordered_walk.take() {
            let generations = self.of.group.tracker.generations();
            let finished = generations.and_then(|of| of.finish_planned_walk(&plan, now));
            self.of.orders.walked = Some(finished);
            return Ok(());
        }
        let swappiness = self.control().swappiness();
        if let Err(error) = self.of.group.tracker.finish_walk(swappiness, now) {
            self.of.warn(format!("ageing failed: {error}"));
        }
        Ok(())
    }

    fn apply(&mut self, _: TimeMs, action: Action) {
        let actuators = &mut self.of.actuators;
        match action {
            Action::LimitPageout { percent_max } => {
                actuators.threads.pageout_bound.set(percent_max);
            }
            // A tick takes pages itself.
            _ => {
                if let Some(request) = CacheRequest::of(action) {
                    actuators.ask_cache(cache::Request::Whole(request));
                }
            }
        }
    }
}
