//! What is done beside reclaim, carried out: which pages those are.
//!
//! **Owns** turning quantities into pages, by the engine's order. **Does not own** what is to be done
//! (`strata_control`), which pages are warm, cold or belong together (`pages`), nor the threads (`actuators`).

use super::ReclaimLoop;
use std::time::Instant;
use strata_control::strategy::Outcome;
use strata_control::{Action, FileNo, Reads};
use strata_lru::TimeMs;

impl ReclaimLoop {
    /// Whether warm pages of every program can be marked.
    pub(super) fn can_mark_all(&self) -> bool {
        let spaces = self.group.tracker.spaces().values();
        self.actuators
            .can_mark_all(spaces.map(|space| space.process.pid()))
    }

    /// Carries an action out; what became of it, if it asks for pages.
    pub(super) fn apply(&mut self, now: TimeMs, action: Action) -> Option<Outcome> {
        let swappiness = self.groups.root().swappiness();
        let tracker = &mut self.group.tracker;
        Some(match action {
            Action::ForgetForecast => {
                tracker.forget_warm();
                return None;
            }
            Action::Forecast { percent } => {
                tracker.take_warm(percent, now);
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
            Action::TakeCensus => {
                self.actuators.take_census();
                return None;
            }
            Action::DropReadOnce { file, bytes } => {
                self.actuators.drop_cache(FileNo(file), Reads::Once, bytes);
                return None;
            }
            Action::DropReadAgain { file, bytes } => {
                self.actuators.drop_cache(FileNo(file), Reads::Again, bytes);
                return None;
            }
            Action::LookAtNewcomers { history_bytes } => {
                self.actuators.look_at_newcomers(history_bytes);
                return None;
            }
            Action::DropNewcomers { bytes } => {
                self.actuators.drop_newcomers(bytes);
                return None;
            }
            // A tick does these itself.
            Action::PageOut { .. } | Action::Reclaim { .. } => return None,
            Action::MarkAccessed { percent } => {
                let began = Instant::now();
                let outcome = self.actuators.mark(tracker.take_warm(percent, now));
                if outcome.is_taken {
                    tracker.hinted(now);
                }
                self.hints_took = began.elapsed();
                outcome
            }
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
        })
    }

    /// No page is deactivated any more for now.
    pub(super) fn stop_deactivating(&mut self, now: TimeMs) {
        self.actuators.allow_deactivation(false);
        self.groups.root_mut().stop_looking_at_lists(now);
    }
}
