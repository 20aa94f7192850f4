//! What a walk has to know beforehand, and what clearing after one has done.
//!
//! **Owns** these looks. **Does not own** when a walk comes and what follows it (`strata_control`), nor the walk itself
//! (`pages`).

use super::ReclaimLoop;
use crate::run::trace::Report;
use strata_control::split_huge::COUNTED_WALK_MS;
use strata_lru::TimeMs;

impl ReclaimLoop {
    /// Takes in what the clearing thread has done.
    pub(super) fn hear_of_clearing(&mut self) {
        self.group.walker().rest();
        for took in self.group.walker().take_cleared() {
            self.recorder.note_report(|| Report::Clear {
                wall_ns: took.wall_ns,
                held_ns: took.all_held_ns(),
                nr_left_pieces: took.nr_left_pieces,
            });
        }
    }

    /// Whether a walk is due for a policy that asks for none: it learns what is new, and what was used, from walks alone.
    pub(super) fn is_lists_walk_due(&mut self, now: TimeMs) -> bool {
        let is_due = |then| now.since(then) >= COUNTED_WALK_MS;
        !self.group.tracker.has_generations() && self.walked_at.is_none_or(is_due)
    }
}
