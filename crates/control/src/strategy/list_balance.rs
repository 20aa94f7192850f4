//! When the kernel is to let go of active pages, and which, while programs reclaim in their own faults.
//!
//! The classic LRU moves pages from its active list to the inactive one while the inactive one is the shorter. In groups
//! above 1 GiB it does so while less than a quarter is inactive, above 4 GiB while less than a seventh is.
//! The kernel's counters may be two seconds old, so the kernel deactivates all active pages or none. This strategy
//! has `memory.stat` read when all pages are inactive and lets the counters age, so the kernel deactivates nothing.
//! When few inactive pages are left, Strata deactivates the coldest active pages.
//!
//! ```text
//!   Held --the inactive list grows by itself--> Kernel's --all is inactive: counts up to date--> Held
//!     ^                                          \--the inactive list shrinks again--> Held
//!     \--inactive < 20 %: a walk, and the coldest active pages are named, up to 45 %--> Held
//!     \--inactive < 8 %: counts up to date, the kernel moves--> Kernel's
//! ```
//!
//! **Owns** these decisions. **Does not own** looking at the lists, the counts, which
//! pages are cold, nor naming them.
//!
//! **Invariants** I1: never [`Reading::NotYet`] while next to nothing is inactive.

use super::{Outcome, Strategy, View, Walk};
use crate::backoff::Backoff;
use crate::plan::Action;
pub use crate::sample::{KernelLists, Reading};
use crate::tunables::config;
use strata_lru::{HEAT_WALK_MS, TimeMs};

config! {
    /// When the kernel is to move pages to its inactive lists, and how many are named.
    "list_balance"

    /// Pages are named when less than this part of the lists is inactive: inactive pages are running out.
    low_percent: u64 = 20, 10..=40, "percent of the lists";
    /// Pages are named until this part of the lists is inactive.
    high_percent: u64 = 45, 40..=90, "percent of the lists";
    /// The counts are brought up to date when less than this part of the lists is inactive: the kernel would find nothing to take
    /// soon.
    least_percent: u64 = 8, 0..=10, "percent of the lists";
    /// The kernel moves pages by itself when this part of the lists has become inactive. Something may be locked where the lists
    /// have become shorter by as much: the counts are brought up to date.
    change_percent: u64 = 4, 1..=50, "percent of the lists";
    /// The kernel has moved everything when this part of the lists is inactive.
    all_percent: u64 = 97, 50..=100, "percent of the lists";
    /// The kernel has had long enough to move everything after this: a slow program makes it slow.
    kernel_ms_max: u64 = 1000, 100..=60_000, "ms";
    /// Counts so old are read again in any case.
    old_ms: u64 = 30_000, 1000..=600_000, "ms";
    /// After pages were named in vain there is a first pause of so long; the pause doubles each time, up to 32 times.
    vain_ms: u64 = 1000, 100..=10_000, "ms";
}

/// All of the lists, percent.
const ALL_PERCENT: u64 = 100;

/// What is remembered from look to look.
#[derive(Debug)]
pub struct ListBalance {
    config: Config,
    now: TimeMs,
    lists: KernelLists,
    /// When the counts were last read, and what was on the lists then.
    read: Option<(TimeMs, u64)>,
    /// The fewest inactive pages since then, or since pages were last named.
    nr_inactive_least: Option<u64>,
    /// Since when the kernel moves pages, and the most that were inactive since.
    kernel: Option<(TimeMs, u64)>,
    /// Pages that are being named, and how many were inactive before.
    named: Option<(u64, u64)>,
    vain: Backoff,
}

impl Strategy for ListBalance {
    fn walk_ms(&self, view: &View) -> Option<u64> {
        let is_free = !view.busy.deactivating && view.is_heat_believed;
        let is_wanted = self.nr_wanted_pages().is_some();
        (is_wanted && is_free).then_some(HEAT_WALK_MS)
    }

    fn after_walk(&mut self, view: &View, walk: &Walk) -> Vec<Action> {
        let nr_pages = self.nr_wanted_pages();
        let nr_pages = nr_pages.filter(|_| walk.wanted_ms.is_some() && view.is_heat_believed);
        nr_pages
            .map(|nr_pages| Action::Deactivate { nr_pages })
            .into_iter()
            .collect()
    }

    fn taken_up(&mut self, _: TimeMs, outcome: Outcome) {
        if outcome.nr_pages == 0 && outcome.nr_programs > 0 {
            self.note_vain();
        } else if outcome.is_taken {
            self.note_named(outcome.nr_pages);
        }
    }
}

impl ListBalance {
    /// Nothing seen yet.
    pub fn new(config: Config) -> ListBalance {
        ListBalance {
            config,
            now: TimeMs::default(),
            lists: KernelLists::default(),
            read: None,
            nr_inactive_least: None,
            kernel: None,
            named: None,
            vain: Backoff::new(config.vain_ms),
        }
    }

    /// Takes a look at the lists in. `is_naming`: pages are being named.
    pub fn look(&mut self, now: TimeMs, lists: KernelLists, is_naming: bool) -> Reading {
        (self.now, self.lists) = (now, lists);
        if !is_naming {
            self.judge();
        }
        let is_watching = !is_naming && self.read.is_some();
        match is_watching {
            true => self.watch_kernel(),
            false => self.nr_inactive_least = None,
        }
        match self.is_due() {
            true => Reading::Due,
            false => Reading::NotYet,
        }
    }

    /// The kernel's counts have been read.
    pub fn note_reading(&mut self) {
        self.read = Some((self.now, self.lists.nr_pages()));
        (self.nr_inactive_least, self.kernel) = (None, None);
    }

    /// Notes that so many pages have been chosen and are being named.
    fn note_named(&mut self, nr_pages: u64) {
        self.named = Some((nr_pages, self.lists.nr_inactive_pages));
    }

    /// None could be named, or it changed nothing.
    fn note_vain(&mut self) {
        self.vain.failed(self.now);
    }

    /// How many active pages are to be named, if any; base pages.
    fn nr_wanted_pages(&self) -> Option<u64> {
        let (inactive, all) = (self.lists.nr_inactive_pages, self.lists.nr_pages());
        let is_held = self.read.is_some() && self.kernel.is_none();
        let may_name = !self.vain.holds(self.now);
        let is_low = !self.is_share(inactive, self.config.low_percent);
        let nr_missing = (all * self.config.high_percent / 100).saturating_sub(inactive);
        (is_held && may_name && is_low).then_some(nr_missing)
    }

    fn is_share(&self, nr_pages: u64, percent: u64) -> bool {
        nr_pages * 100 >= self.lists.nr_pages() * percent
    }

    /// Whether what was named has come to the inactive list: pages that others map as well don't.
    fn judge(&mut self) {
        let Some((nr_named, nr_before)) = self.named.take() else {
            return;
        };
        let nr_come = self.lists.nr_inactive_pages.saturating_sub(nr_before);
        match nr_come * 2 < nr_named {
            true => self.note_vain(),
            false => self.vain.succeeded(),
        }
    }

    fn watch_kernel(&mut self) {
        let inactive = self.lists.nr_inactive_pages;
        if let Some((since, most)) = self.kernel {
            let nr_gone = most.saturating_sub(inactive);
            let has_stopped = self.is_share(nr_gone, self.config.change_percent);
            self.kernel = (!has_stopped).then_some((since, most.max(inactive)));
            self.nr_inactive_least = None;
            return;
        }
        let least = self
            .nr_inactive_least
            .map_or(inactive, |of| of.min(inactive));
        self.nr_inactive_least = Some(least);
        if self.is_share(inactive - least, self.config.change_percent) {
            self.kernel = Some((self.now, inactive));
        }
    }

    fn is_due(&self) -> bool {
        let Some((read_at, nr_pages_read)) = self.read else {
            return true;
        };
        let (inactive, all) = (self.lists.nr_inactive_pages, self.lists.nr_pages());
        let config = &self.config;
        let is_running_out = !self.is_share(inactive, config.least_percent);
        let is_shorter = all * 100 < nr_pages_read * (ALL_PERCENT - config.change_percent);
        let has_moved = self.kernel.is_some_and(|(since, _)| {
            let is_over = self.now.since(since) >= config.kernel_ms_max;
            self.is_share(inactive, config.all_percent) || is_over
        });
        let is_old = self.now.since(read_at) >= config.old_ms;
        is_running_out || is_shorter || has_moved || is_old
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
    fn held(inactive_percent: u64) -> ListBalance {
        held_by(Config::DEFAULT, inactive_percent)
    }

    fn held_by(config: Config, inactive_percent: u64) -> ListBalance {
        let mut deactivation = ListBalance::new(config);
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
        let later = TimeMs(920 + Config::DEFAULT.kernel_ms_max);
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
    fn when_the_kernel_stops_half_way_inactive_pages_run_out_as_ever() {
        let mut deactivation = held(98);
        for (now, percent) in [(900, 30), (920, 40), (940, 50), (960, 45), (980, 30)] {
            let reading = deactivation.look(TimeMs(now), lists(percent), false);
            assert_eq!(reading, Reading::NotYet);
        }
        deactivation.look(TimeMs(1000), lists(15), false);
        assert_eq!(deactivation.nr_wanted_pages(), Some(ALL * 30 / 100));
        let reading = deactivation.look(TimeMs(1020), lists(5), false);
        assert_eq!(reading, Reading::Due);
    }

    #[test]
    fn what_is_named_in_vain_is_named_ever_more_seldom() {
        let mut deactivation = held(98);
        let mut nr_named = 0;
        for now in (900..20_900).step_by(20) {
            deactivation.look(TimeMs(now), lists(15), false);
            if let Some(nr_pages) = deactivation.nr_wanted_pages() {
                deactivation.note_named(nr_pages);
                nr_named += 1;
            }
        }
        // At once, after 1 s, 2 s, 4 s and 8 s.
        assert_eq!(nr_named, 5);
        deactivation.note_named(ALL * 30 / 100);
        deactivation.look(TimeMs(21_000), lists(40), false);
        deactivation.look(TimeMs(21_500), lists(15), false);
        assert!(deactivation.nr_wanted_pages().is_some(), "it helped");
    }

    #[test]
    fn counts_are_not_left_alone_for_ever() {
        let mut deactivation = held(98);
        let old_ms = Config::DEFAULT.old_ms;
        let mut look = |now| deactivation.look(TimeMs(now), lists(40), false);
        assert_eq!(
            (look(old_ms - 1), look(old_ms)),
            (Reading::NotYet, Reading::Due)
        );
    }

    #[test]
    fn lists_that_are_shorter_by_much_are_read_again() {
        let mut deactivation = held(98);
        let locked = KernelLists {
            nr_inactive_pages: ALL * 60 / 100,
            nr_active_pages: ALL * 30 / 100,
        };
        assert_eq!(deactivation.look(TimeMs(20), locked, false), Reading::Due);
        assert_eq!(deactivation.look(TimeMs(40), locked, true), Reading::Due);
        deactivation.note_reading();
        assert_eq!(
            deactivation.look(TimeMs(40), locked, false),
            Reading::NotYet
        );
    }

    #[test]
    fn no_program_to_name_pages_of_is_no_attempt_in_vain() {
        let is_named_again = |nr_programs| {
            let mut deactivation = held(98);
            deactivation.look(TimeMs(900), lists(15), false);
            let outcome = Outcome {
                nr_programs,
                ..Outcome::default()
            };
            deactivation.taken_up(TimeMs(900), outcome);
            deactivation.nr_wanted_pages().is_some()
        };
        assert!(is_named_again(0));
        assert!(!is_named_again(1), "it has no cold page");
    }
}
