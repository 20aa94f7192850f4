//! What is done beside reclaim, carried out: which pages those are, and what became of it.
//!
//! **Owns** turning quantities into pages, by the engine's order. **Does not own** what is to be done
//! (`strata_control`), which pages are warm, cold or belong together (`pages`), nor the threads (`actuators`).

use super::ReclaimLoop;
use crate::pages::space::Space;
use crate::run::trace::{ColdAsk, RecallAsk, TouchAsk};
use strata_control::Action;
use strata_control::list_balance::Reading;
use strata_control::strategy::{Outcome, Walk};
use strata_lru::TimeMs;

impl ReclaimLoop {
    /// Whether warm pages of every program can be marked.
    pub(super) fn can_mark_all(&self) -> bool {
        let spaces = self.group.tracker.spaces().values();
        let can_mark_all = self
            .actuators
            .can_mark_all(spaces.map(|space| space.process.pid()));
        if self.actuators.abilities().can_mark && !self.groups.root().is_dry_run() {
            self.recorder
                .note(|tick| tick.sample.can_touch_all = Some(can_mark_all));
        }
        can_mark_all
    }

    /// After a walk: has the kernel told what is warm and what is cold.
    pub(super) fn tell(&mut self, now: TimeMs) {
        let nr_resident_pages = self.group.nr_resident_pages();
        let busy = self.actuators.busy();
        let wanted_ms = self
            .groups
            .root()
            .telling_walk_ms(now, nr_resident_pages, busy);
        let pace_ms = self.group.pace_ms();
        let walk = Walk {
            pace_ms,
            foretold: self.group.tracker.foretold(),
            ..Walk::default()
        };
        let actions = self
            .groups
            .root_mut()
            .tell(now, walk, nr_resident_pages, busy);
        let is_too_slow = wanted_ms.is_some() && actions.first() == Some(&Action::ForgetForecast);
        let mut ask = TouchAsk {
            wanted_ms: wanted_ms.unwrap_or(0),
            pace_ms,
            is_too_slow,
            ..TouchAsk::default()
        };
        for action in actions {
            if let Some(outcome) = self.carry_out(now, action) {
                (ask.nr_pages, ask.is_taken) = (Some(outcome.nr_pages), outcome.is_taken);
            }
        }
        if wanted_ms.is_some() {
            self.recorder.note(|tick| tick.plan.touches.push(ask));
        }
    }

    /// After a walk: judges what was read ahead, and has read in what is wanted next.
    pub(super) fn prefetch(&mut self, now: TimeMs) {
        let busy = self.actuators.busy();
        if !self.groups.root().abilities().can_prefetch || busy.prefetching {
            return;
        }
        let nr_used_pages = self.group.tracker.take_recalled_used();
        self.actuators.note_prefetched_used(nr_used_pages);
        let walk = Walk {
            nr_used_pages: self.group.tracker.findings().nr_young_pages.iter().sum(),
            nr_prefetched_used_pages: nr_used_pages,
            ..Walk::default()
        };
        let nr_resident_pages = self.group.nr_resident_pages();
        let actions = self
            .groups
            .root_mut()
            .prefetch(now, walk, nr_resident_pages, busy);
        let mut ask = RecallAsk {
            nr_used_pages,
            ..RecallAsk::default()
        };
        for action in actions {
            if let (Action::Prefetch { nr_pages_max }, Some(outcome)) =
                (action, self.carry_out(now, action))
            {
                ask.nr_pages_max = Some(nr_pages_max);
                (ask.nr_pages, ask.is_taken) = (outcome.nr_pages, outcome.is_taken);
            }
        }
        self.recorder.note(|tick| tick.plan.recalls.push(ask));
    }

    /// Carries an action out; what became of it, where the caller is to note that.
    pub(super) fn carry_out(&mut self, now: TimeMs, action: Action) -> Option<Outcome> {
        let swappiness = self.groups.root().swappiness();
        let tracker = &mut self.group.tracker;
        let outcome = match action {
            Action::ForgetForecast => {
                tracker.forget_warm();
                return None;
            }
            Action::Forecast { percent } => {
                tracker.take_warm(percent);
                return None;
            }
            Action::ForgetPrefetched => {
                tracker.forget_recalled();
                return None;
            }
            Action::LimitPageout { percent_max } => {
                self.actuators.set_pageout_percent_max(percent_max);
                return None;
            }
            Action::LimitPrefetch { usage_bytes_max } => {
                self.actuators.allow_prefetch(usage_bytes_max);
                return None;
            }
            Action::AvoidBusyThreads => {
                self.avoid_busy_threads();
                return None;
            }
            Action::RunAnywhere => {
                self.run_on(self.groups.root().processors());
                return None;
            }
            // A tick does these itself.
            Action::PageOut { .. } | Action::Reclaim { .. } => return None,
            Action::MarkAccessed { percent } => self.actuators.mark(tracker.take_warm(percent)),
            Action::Deactivate { nr_pages } => {
                let cold = tracker.coldest_active(nr_pages, swappiness);
                self.actuators.deactivate(cold)
            }
            Action::Prefetch { nr_pages_max } => {
                let spaces = tracker.spaces();
                let unreadable = self
                    .actuators
                    .unreadable(|space| spaces.contains_key(space));
                let pages = tracker.recall(&self.config.prefetch, nr_pages_max, unreadable);
                self.actuators.prefetch(pages)
            }
        };
        self.groups.root_mut().taken_up(now, action, outcome);
        if let Action::Deactivate { nr_pages } = action {
            let ask = ColdAsk {
                nr_wanted_pages: nr_pages,
                nr_pages: outcome.nr_pages,
                nr_programs: outcome.nr_programs,
                is_taken: outcome.is_taken,
            };
            self.recorder.note(|tick| tick.plan.cold.push(ask));
            return None;
        }
        Some(outcome)
    }

    /// Looks how long the kernel's lists are, and tells whether its counts are to be read.
    pub(in super::super) fn look_at_lists(&mut self, now: TimeMs, usage_bytes: u64) -> Reading {
        if !self.groups.root().abilities().can_deactivate {
            return Reading::Paced;
        }
        let resident = |space: &&Space| space.findings.nr_resident_pages.iter().sum::<u64>();
        let largest = self.group.tracker.spaces().values().max_by_key(resident);
        let largest = largest.filter(|_| self.groups.root().is_looking_at_lists(now));
        let found = largest
            .zip(self.actuators.lists())
            .and_then(|(space, lists)| {
                let lists = lists.read(&space.process);
                lists.unwrap_or_else(|error| {
                    tracing::debug!(%error, "the kernel's lists can't be looked at");
                    None
                })
            });
        let is_deactivating = self.actuators.busy().deactivating;
        let (may_deactivate, reading) =
            self.groups
                .root_mut()
                .take_lists(now, found, usage_bytes, is_deactivating);
        self.actuators.allow_deactivation(may_deactivate);
        self.recorder.note_limit(|sample, plan| {
            sample.lists = found.map(Into::into);
            sample.is_naming = is_deactivating;
            plan.may_name = may_deactivate;
        });
        reading
    }

    /// The kernel's counts have been brought up to date.
    pub(in super::super) fn note_reading(&mut self) {
        self.groups.root_mut().note_reading();
    }

    /// No page is deactivated any more for now.
    pub(super) fn stop_deactivating(&mut self, now: TimeMs) {
        self.actuators.allow_deactivation(false);
        self.groups.root_mut().stop_looking_at_lists(now);
    }
}
