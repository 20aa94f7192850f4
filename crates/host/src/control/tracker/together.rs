//! Choosing the pages that are wanted next because they were last used with those that come back.
//!
//! **Owns** putting the spaces together. **Does not own** how pages are found (`space::together`).

use super::{Space, Tracker};
use crate::actuator::RecallPages;

impl Tracker {
    /// At most so many pages of all spaces ([`Space::recall`]).
    pub(in super::super) fn recall(&mut self, nr_pages_max: u64) -> Vec<RecallPages> {
        let mut nr_pages_left = nr_pages_max;
        let mut wanted = Vec::new();
        for space in self.spaces.values_mut() {
            let Some(pages) = space.recall(nr_pages_left) else {
                continue;
            };
            nr_pages_left = nr_pages_left.saturating_sub(pages.nr_wanted_pages());
            wanted.push(pages);
        }
        wanted
    }

    /// Whether what is swapped out has to be waited for, from the next walk on.
    pub(in super::super) fn set_swap_slow(&mut self, is_swap_slow: bool) {
        for space in self.spaces.values_mut() {
            space.is_swap_slow = is_swap_slow;
        }
    }

    /// File pages that had come back when the last walk came by.
    pub(in super::super) fn nr_file_returns(&self) -> u64 {
        self.spaces.values().map(Space::nr_file_returns).sum()
    }

    /// Of the pages that were recalled, how many the last walk found used for the first time.
    pub(in super::super) fn nr_recalled_used_pages(&self) -> u64 {
        self.spaces
            .values()
            .map(Space::nr_recalled_used_pages)
            .sum()
    }

    /// Whatever was recalled may be again.
    pub(in super::super) fn forget_recalled(&mut self) {
        self.spaces.values_mut().for_each(Space::forget_recalled);
    }
}
