//! Choosing the pages that are wanted next because they were last used with those that come back.
//!
//! **Owns** putting the spaces together. **Does not own** how pages are found (`space::together`).

use super::{Space, SpaceNo, Tracker};
use std::collections::BTreeSet;
use strata_control::prefetch;
use strata_linux::actuator::RecallPages;
use strata_linux::addr::AddrRange;

impl Tracker {
    /// At most so many pages of all spaces but these ([`Space::recall`]).
    pub(crate) fn recall(
        &mut self,
        config: &prefetch::Config,
        nr_pages_max: u64,
        but: &BTreeSet<SpaceNo>,
    ) -> Vec<RecallPages> {
        let mut nr_pages_left = nr_pages_max;
        let mut found = Vec::new();
        for (number, space) in &mut self.spaces {
            if but.contains(number) {
                continue;
            }
            let Some(pages) = space.recall(config, number.0, nr_pages_left) else {
                continue;
            };
            nr_pages_left = nr_pages_left.saturating_sub(pages.nr_wanted_pages());
            found.push(pages);
        }
        found
    }

    /// Whether what is swapped out has to be waited for, from the next walk on.
    pub(crate) fn set_swap_slow(&mut self, is_swap_slow: bool) {
        for space in self.spaces.values_mut() {
            space.is_swap_slow = is_swap_slow;
        }
    }

    /// Notes that these pages of a space were not asked for after all.
    pub(crate) fn leave(&mut self, number: u32, pages: &[AddrRange]) {
        if let Some(space) = self.spaces.get_mut(&SpaceNo(number)) {
            space.leave(pages);
        }
    }

    /// Of the pages that were asked for, how many were found used for the first time since the last call.
    pub(crate) fn take_recalled_used(&mut self) -> u64 {
        self.spaces
            .values_mut()
            .map(Space::take_recalled_used)
            .sum()
    }

    /// Whatever was asked for may be again.
    pub(crate) fn forget_recalled(&mut self) {
        self.spaces.values_mut().for_each(Space::forget_recalled);
    }
}
