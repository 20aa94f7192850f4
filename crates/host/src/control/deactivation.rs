//! When the kernel is to let go of active pages, and which, while programs reclaim in their own faults.
//!
//! The classic LRU moves pages from its active list to the inactive one while its counts say that the inactive
//! one is the shorter. The counts are as old as two seconds. So it moves either everything, in the order in which
//! it came, or nothing: programs then find on the active list what they want most, and fault a tenth less,
//! until nothing is left to take. And it takes a page that comes back for active at once if not more has gone since
//! than is active, by the same counts.
//!
//! Both is best with counts of the moment when all was inactive. So the counts are brought up to date then
//! and are let grow old; pages that are to leave the active list are named, the coldest first, when little is
//! left on the inactive one. The kernel brings its counts up to date by itself all the same, every two seconds; it then
//! begins to move everything, which is seen, and ended as soon as it has.
//!
//! ```text
//!   Held --the inactive list grows by itself--> Kernel's --all is inactive: counts up to date--> Held
//!     \--inactive < 20 %: a walk, and the coldest active pages are named, up to 45 %--> Held
//!     \--inactive < 8 %: counts up to date, the kernel moves--> Kernel's
//! ```
//!
//! **Owns** these decisions. **Does not own** looking at the lists (`access::lists`), the counts (`relief`), which
//! pages are cold (`tracker`), nor naming them (`actuator`).
//!
//! **Invariants** I1: never [`Reading::NotYet`] while next to nothing is inactive.

use crate::access::KernelLists;
use strata_lru::TimeMs;

/// Below this share of the lists inactive pages are running out, percent.
const LOW_PERCENT: u64 = 20;
/// So much is to be inactive then.
const HIGH_PERCENT: u64 = 45;
/// The kernel would find nothing to take soon, percent.
const LEAST_PERCENT: u64 = 8;
/// The kernel moves pages by itself when so many more are inactive than there were, percent of the lists.
const RISE_PERCENT: u64 = 4;
/// All is inactive, percent.
const ALL_PERCENT: u64 = 97;
/// It has had long enough to move everything: a slow program makes it slow.
const KERNEL_MS_MAX: u64 = 1000;
/// Where the lists have become shorter by this, something may be locked, percent.
const SHORTER_PERCENT: u64 = 6;

/// When the kernel's counts are to be read, which brings them up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Reading {
    /// As `counts` says.
    #[default]
    Paced,
    /// Not now.
    NotYet,
    /// Now.
    Due,
}

/// What is remembered from look to look.
#[derive(Debug, Default)]
pub(super) struct Deactivation {
    lists: KernelLists,
    /// The fewest inactive pages since the last reading, or since pages were last named.
    nr_inactive_least: Option<u64>,
    /// On the lists at the last reading; `None` before the first.
    nr_pages_read: Option<u64>,
    /// Since when the kernel moves pages.
    kernel_since: Option<TimeMs>,
}

impl Deactivation {
    /// Takes a look at the lists in. `is_naming`: pages are being named.
    pub(super) fn look(&mut self, now: TimeMs, lists: KernelLists, is_naming: bool) -> Reading {
        self.lists = lists;
        let (inactive, all) = (lists.nr_inactive_pages, lists.nr_pages());
        let is_share = |nr_pages: u64, percent: u64| nr_pages * 100 >= all * percent;
        let Some(nr_pages_read) = self.nr_pages_read else {
            return Reading::Due;
        };
        let is_running_out = !is_share(inactive, LEAST_PERCENT);
        if is_naming {
            self.nr_inactive_least = None;
            return match is_running_out {
                true => Reading::Due,
                false => Reading::NotYet,
            };
        }
        let least = self
            .nr_inactive_least
            .map_or(inactive, |of| of.min(inactive));
        self.nr_inactive_least = Some(least);
        if self.kernel_since.is_none() && is_share(inactive - least, RISE_PERCENT) {
            self.kernel_since = Some(now);
        }
        let is_due = match self.kernel_since {
            Some(since) => is_share(inactive, ALL_PERCENT) || now.since(since) >= KERNEL_MS_MAX,
            None => {
                let is_shorter = all * 100 < nr_pages_read * (100 - SHORTER_PERCENT);
                is_running_out || is_shorter
            }
        };
        match is_due {
            true => Reading::Due,
            false => Reading::NotYet,
        }
    }

    /// The kernel's counts have been read.
    pub(super) fn note_reading(&mut self) {
        self.nr_pages_read = Some(self.lists.nr_pages());
        (self.nr_inactive_least, self.kernel_since) = (None, None);
    }

    /// How many active pages are to be named, if any; base pages.
    pub(super) fn nr_wanted_pages(&self) -> Option<u64> {
        let (inactive, all) = (self.lists.nr_inactive_pages, self.lists.nr_pages());
        let is_held = self.nr_pages_read.is_some() && self.kernel_since.is_none();
        let is_low = is_held && inactive * 100 < all * LOW_PERCENT;
        is_low.then(|| (all * HIGH_PERCENT / 100).saturating_sub(inactive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 46_000;

    fn lists(inactive_percent: u64) -> KernelLists {
        let nr_inactive_pages = ALL * inactive_percent / 100;
        KernelLists {
            nr_inactive_pages,
            nr_active_pages: ALL - nr_inactive_pages,
        }
    }

    /// After a first reading with so much inactive.
    fn held(inactive_percent: u64) -> Deactivation {
        let mut deactivation = Deactivation::default();
        assert_eq!(
            deactivation.look(TimeMs(0), lists(inactive_percent), false),
            Reading::Due
        );
        deactivation.note_reading();
        deactivation
    }

    #[test]
    fn the_counts_are_left_alone_while_the_inactive_list_shrinks() {
        let mut deactivation = held(98);
        for (look, percent) in (20..=97).rev().enumerate() {
            let now = TimeMs(20 * look as u64);
            assert_eq!(
                deactivation.look(now, lists(percent), false),
                Reading::NotYet
            );
            assert_eq!(deactivation.nr_wanted_pages(), None);
        }
    }

    #[test]
    fn when_little_is_inactive_pages_are_named_up_to_nearly_half() {
        let mut deactivation = held(98);
        assert_eq!(
            deactivation.look(TimeMs(900), lists(15), false),
            Reading::NotYet
        );
        assert_eq!(deactivation.nr_wanted_pages(), Some(ALL * 30 / 100));
        // What is named comes there, and that is no sign of the kernel.
        assert_eq!(
            deactivation.look(TimeMs(920), lists(14), true),
            Reading::NotYet
        );
        for now in [940, 960, 980] {
            assert_eq!(
                deactivation.look(TimeMs(now), lists(44), false),
                Reading::NotYet
            );
        }
        assert_eq!(deactivation.nr_wanted_pages(), None);
    }

    #[test]
    fn when_the_kernel_moves_pages_it_is_let_finish() {
        let mut deactivation = held(98);
        assert_eq!(
            deactivation.look(TimeMs(900), lists(30), false),
            Reading::NotYet
        );
        for (now, percent) in [(920, 40), (940, 50), (960, 60), (980, 80), (1000, 96)] {
            assert_eq!(
                deactivation.look(TimeMs(now), lists(percent), false),
                Reading::NotYet
            );
            assert_eq!(deactivation.nr_wanted_pages(), None);
        }
        assert_eq!(
            deactivation.look(TimeMs(1020), lists(98), false),
            Reading::Due
        );
        deactivation.note_reading();
        assert_eq!(
            deactivation.look(TimeMs(1040), lists(96), false),
            Reading::NotYet
        );
    }

    #[test]
    fn the_kernel_is_not_waited_for_without_end() {
        let mut deactivation = held(98);
        deactivation.look(TimeMs(900), lists(15), false);
        deactivation.look(TimeMs(920), lists(20), false);
        let later = TimeMs(920 + KERNEL_MS_MAX);
        assert_eq!(deactivation.look(later, lists(60), false), Reading::Due);
    }

    #[test]
    fn with_next_to_nothing_inactive_the_counts_are_read_again() {
        for is_naming in [false, true] {
            let mut deactivation = held(98);
            assert_eq!(
                deactivation.look(TimeMs(900), lists(5), is_naming),
                Reading::Due
            );
        }
    }

    #[test]
    fn lists_that_are_shorter_by_much_are_read_again() {
        let mut deactivation = held(98);
        let locked = KernelLists {
            nr_inactive_pages: ALL * 60 / 100,
            nr_active_pages: ALL * 30 / 100,
        };
        assert_eq!(deactivation.look(TimeMs(20), locked, false), Reading::Due);
        deactivation.note_reading();
        assert_eq!(
            deactivation.look(TimeMs(40), locked, false),
            Reading::NotYet
        );
    }
}
