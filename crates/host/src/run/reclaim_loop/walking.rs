//! What a walk has to know beforehand, and what clearing after one has done.
//!
//! **Owns** these looks. **Does not own** when a walk comes and what follows it (`strata_control`), nor the walk itself
//! (`pages`).

use super::ReclaimLoop;
use crate::run::trace::Report;
use strata_linux::swap;
use strata_lru::{HEAT_WALK_MS, TimeMs};

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
        let is_due = |then| now.since(then) >= HEAT_WALK_MS;
        !self.group.tracker.has_generations() && self.walked_at.is_none_or(is_due)
    }

    /// Before a walk: whether it is to tell which pages the kernel has on its inactive lists.
    pub(super) fn look_for_inactive(&mut self, now: TimeMs) {
        let nr_resident_pages = self.group.nr_resident_pages();
        let busy = self.actuators.busy();
        let wanted_ms = self
            .groups
            .root()
            .telling_walk_ms(now, nr_resident_pages, busy);
        let is_wanted = wanted_ms.is_some();
        let is_told = self.group.walker().want_inactive(is_wanted);
        if is_wanted && !is_told {
            self.groups.root_mut().give_up_marking();
            self.actuators.stop_marking();
            self.recorder
                .note(|tick| tick.sample.is_inactive_hidden = true);
        }
    }

    /// Before a walk: whether what is swapped out has to be waited for.
    pub(super) fn look_for_slow_swap(&mut self) {
        if !self.groups.root().abilities().can_prefetch {
            return;
        }
        let is_slow = swap::is_slow();
        self.groups.root_mut().set_swap_slow(is_slow);
        self.group.tracker.set_swap_slow(is_slow);
        self.recorder
            .note(|tick| tick.sample.is_swap_slow = Some(is_slow));
    }
}
