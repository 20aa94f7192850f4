//! What is done beside reclaim: the strategies that need walks, how far apart walks are to be for them, and what follows one.
//!
//! ```text
//!   a walk ends --> mark_accessed, list_balance (once clearing is over) --> what the kernel is told
//!               \-> prefetch                                            --> what is read in
//! ```
//!
//! **Owns** which of them a run has and the order in which they are asked. **Does not own** any of their decisions.
//!
//! **Invariants** I1: `mark_accessed` sets the pace of walks for hints during the kernel's turn. While the programs reclaim
//! in their own faults `list_balance` does under the classic LRU, and `mark_accessed` under MGLRU.

use crate::plan::Action;
use crate::sample::{KernelLists, Lever, Reading};
use crate::strategy::list_balance::{self, ListBalance};
use crate::strategy::mark_accessed::{self, MarkAccessed};
use crate::strategy::prefetch::{self, Prefetch};
use crate::strategy::{Outcome, Strategy, View, Walk};
use strata_lru::TimeMs;

/// What a run can do beside reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// What touching a warm page does; `None`: pages can't be touched, or that does nothing.
    pub lever: Option<Lever>,
    /// The kernel's lists can be looked at, and pages be moved to the inactive ones.
    pub can_deactivate: bool,
    /// Pages can be read in ahead.
    pub can_prefetch: bool,
}

/// The strategies; `None` where a run can't do it.
#[derive(Debug)]
pub(crate) struct Steering {
    mark_accessed: Option<MarkAccessed>,
    /// While the kernel's lists are looked at.
    list_balance: Option<ListBalance>,
    list_balance_config: list_balance::Config,
    can_deactivate: bool,
    prefetch: Option<Prefetch>,
}

impl Steering {
    /// Nothing done yet.
    pub(crate) fn new(
        abilities: Abilities,
        mark_accessed: mark_accessed::Config,
        list_balance: list_balance::Config,
        prefetch: prefetch::Config,
    ) -> Steering {
        let has_prefetch = abilities.can_prefetch;
        Steering {
            mark_accessed: (abilities.lever).map(|lever| MarkAccessed::new(mark_accessed, lever)),
            list_balance: None,
            list_balance_config: list_balance,
            can_deactivate: abilities.can_deactivate,
            prefetch: has_prefetch.then(|| Prefetch::new(prefetch)),
        }
    }

    /// What the run can still do.
    pub(crate) fn abilities(&self) -> Abilities {
        Abilities {
            lever: self.mark_accessed.as_ref().map(MarkAccessed::lever),
            can_deactivate: self.can_deactivate,
            can_prefetch: self.prefetch.is_some(),
        }
    }

    /// The kernel's lists can't be told apart after all: nothing is marked any more.
    pub(crate) fn give_up_marking(&mut self) {
        self.mark_accessed = None;
    }

    /// Whether heat is believed to foretell what is used next.
    pub(crate) fn is_heat_believed(&self, now: TimeMs) -> bool {
        let mark_accessed = self.mark_accessed.as_ref();
        mark_accessed.is_some_and(|of| of.is_on(now))
    }

    /// How far apart walks are to be for what the kernel is told; `None` while it is told nothing.
    pub(crate) fn telling_walk_ms(&self, view: &View) -> Option<u64> {
        match view.is_left_to_programs && self.can_deactivate {
            true => self.list_balance.as_ref()?.walk_ms(view),
            false => self.mark_accessed.as_ref()?.walk_ms(view),
        }
    }

    /// How far apart walks are to be at most for reading ahead.
    pub(crate) fn prefetch_walk_ms(&self, view: &View) -> Option<u64> {
        self.prefetch.as_ref()?.walk_ms(view)
    }

    /// What the kernel is told after a walk, once nobody else moves pages on its lists.
    pub(crate) fn tell(&mut self, view: &View, walk: &Walk) -> Vec<Action> {
        let Some(mark_accessed) = &mut self.mark_accessed else {
            return Vec::new();
        };
        let mut actions = mark_accessed.after_walk(view, walk);
        let view = View {
            is_heat_believed: mark_accessed.is_on(view.now),
            ..*view
        };
        if view.is_left_to_programs
            && let Some(list_balance) = &mut self.list_balance
        {
            actions.extend(list_balance.after_walk(&view, walk));
        }
        actions
    }

    /// What is read in after a walk.
    pub(crate) fn prefetch(&mut self, view: &View, walk: &Walk) -> Vec<Action> {
        let prefetch = self.prefetch.as_mut().filter(|_| !view.busy.prefetching);
        prefetch.map_or_else(Vec::new, |of| of.after_walk(view, walk))
    }

    /// What became of an action.
    pub(crate) fn taken_up(&mut self, now: TimeMs, action: Action, outcome: Outcome) {
        match action {
            Action::MarkAccessed { .. } => {
                if let Some(of) = &mut self.mark_accessed {
                    of.taken_up(now, outcome);
                }
            }
            Action::Deactivate { .. } => {
                if let Some(of) = &mut self.list_balance {
                    of.taken_up(now, outcome);
                }
            }
            Action::Prefetch { .. } => {
                if let Some(of) = &mut self.prefetch {
                    of.taken_up(now, outcome);
                }
            }
            Action::ForgetForecast
            | Action::Forecast { .. }
            | Action::ForgetPrefetched
            | Action::PageOut { .. }
            | Action::Reclaim { .. }
            | Action::TakeCensus
            | Action::DropReadOnce { .. }
            | Action::DropReadAgain { .. }
            | Action::LookAtNewcomers { .. }
            | Action::DropNewcomers { .. }
            | Action::LimitPageout { .. }
            | Action::LimitPrefetch { .. } => {}
        }
    }

    /// What the last walk foretold says nothing of what comes now. Whether there was anything to forget.
    pub(crate) fn forget_forecast(&mut self) -> bool {
        if let Some(mark_accessed) = &mut self.mark_accessed {
            mark_accessed.interrupt();
        }
        self.mark_accessed.is_some()
    }

    /// Takes a look at the kernel's lists in, where they are to be looked at; says when its counts are to be read.
    /// `None`: the lists are not to be looked at, or not those of this group.
    pub(crate) fn look(
        &mut self,
        now: TimeMs,
        lists: Option<KernelLists>,
        is_deactivating: bool,
    ) -> Reading {
        let Some(lists) = lists else {
            self.list_balance = None;
            return Reading::Paced;
        };
        let config = self.list_balance_config;
        let begin = || ListBalance::new(config);
        let list_balance = self.list_balance.get_or_insert_with(begin);
        list_balance.look(now, lists, is_deactivating)
    }

    /// The kernel's counts have been brought up to date.
    pub(crate) fn note_reading(&mut self) {
        if let Some(list_balance) = &mut self.list_balance {
            list_balance.note_reading();
        }
    }

    /// Whether what is swapped out has to be waited for.
    pub(crate) fn set_swap_slow(&mut self, is_swap_slow: bool) {
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.set_swap_slow(is_swap_slow);
        }
    }

    /// Notes that so many pages were not read in after all.
    pub(crate) fn leave_prefetched(&mut self, nr_pages: u64) {
        if let Some(prefetch) = &mut self.prefetch {
            prefetch.leave(nr_pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reclaimer::Reclaimer;
    use strata_lru::Foretold;

    fn view(now: u64, reclaimer: Reclaimer) -> View {
        View {
            now: TimeMs(now),
            is_left_to_programs: reclaimer == Reclaimer::Programs,
            is_kernels_turn: reclaimer == Reclaimer::Kernel,
            is_dry_run: false,
            is_heat_believed: true,
            nr_resident_pages: 80_000,
            refaulted_pages_per_s: 50_000.0,
            is_coming_back: true,
            busy: Default::default(),
        }
    }

    fn walk(wanted_ms: Option<u64>) -> Walk {
        Walk {
            wanted_ms,
            pace_ms: 100,
            foretold: Foretold {
                nr_warm_pages: 1000,
                nr_warm_used_pages: 900,
                nr_other_pages: 1000,
                nr_other_used_pages: 100,
            },
            low_bytes: 100 << 20,
            ..Walk::default()
        }
    }

    fn with(abilities: Abilities) -> Steering {
        Steering::new(
            abilities,
            mark_accessed::Config::DEFAULT,
            list_balance::Config::DEFAULT,
            prefetch::Config::DEFAULT,
        )
    }

    fn all() -> Steering {
        with(Abilities {
            lever: Some(Lever::Activation),
            can_deactivate: true,
            can_prefetch: true,
        })
    }

    /// All is active: the kernel's counts are read, then pages are named.
    fn with_short_inactive_list() -> Steering {
        let mut steering = all();
        let lists = KernelLists {
            nr_inactive_pages: 10_000,
            nr_active_pages: 70_000,
        };
        assert_eq!(steering.look(TimeMs(0), Some(lists), false), Reading::Due);
        steering.note_reading();
        steering.look(TimeMs(20), Some(lists), false);
        steering
    }

    #[test]
    fn while_the_kernel_reclaims_the_warmest_are_marked_after_each_walk() {
        let mut steering = all();
        let view = view(0, Reclaimer::Kernel);
        let wanted_ms = steering.telling_walk_ms(&view);
        assert!(wanted_ms.is_some());
        let actions = steering.tell(&view, &walk(wanted_ms));
        assert!(matches!(actions[..], [Action::MarkAccessed { .. }]));
    }

    #[test]
    fn while_pageout_reclaims_the_kernel_is_told_nothing() {
        let mut steering = with_short_inactive_list();
        let view = view(0, Reclaimer::Pageout);
        let wanted_ms = steering.telling_walk_ms(&view);
        assert_eq!(wanted_ms, None);
        let actions = steering.tell(&view, &walk(wanted_ms));
        assert_eq!(actions, [Action::ForgetForecast]);
    }

    #[test]
    fn while_programs_reclaim_the_coldest_are_deactivated_and_none_marked() {
        let mut steering = with_short_inactive_list();
        let view = view(20, Reclaimer::Programs);
        let wanted_ms = steering.telling_walk_ms(&view);
        let actions = steering.tell(&view, &walk(wanted_ms));
        let [Action::Forecast { .. }, Action::Deactivate { nr_pages }] = actions[..] else {
            panic!("{actions:?}");
        };
        assert_eq!(nr_pages, 26_000, "up to 45 % of 80,000");
        assert_eq!(steering.look(TimeMs(40), None, false), Reading::Paced);
        assert_eq!(steering.telling_walk_ms(&view), None, "nobody looks");
    }

    #[test]
    fn where_walks_come_too_late_nothing_is_marked_and_nothing_deactivated() {
        let slow = Walk {
            pace_ms: 10_000,
            ..walk(Some(200))
        };
        for reclaimer in [Reclaimer::Kernel, Reclaimer::Programs] {
            let mut steering = with_short_inactive_list();
            let actions = steering.tell(&view(20, reclaimer), &slow);
            assert_eq!(actions, [Action::ForgetForecast]);
            assert!(!steering.is_heat_believed(TimeMs(20)));
            assert_eq!(steering.telling_walk_ms(&view(20, Reclaimer::Kernel)), None);
        }
    }

    #[test]
    fn reading_ahead_needs_slow_swap_returns_and_a_thread_at_rest() {
        let mut steering = all();
        let view = view(0, Reclaimer::Kernel);
        assert_eq!(steering.prefetch_walk_ms(&view), None, "swap is fast");
        steering.set_swap_slow(true);
        assert!(steering.prefetch_walk_ms(&view).is_some());
        let quiet = View {
            is_coming_back: false,
            ..view
        };
        assert_eq!(steering.prefetch_walk_ms(&quiet), None);
        let nr_used_pages = (60 << 20) / 4096;
        let walk = Walk {
            nr_used_pages,
            ..walk(None)
        };
        let nr_pages_max = (40 << 20) / 4096;
        let wanted = Action::Prefetch { nr_pages_max };
        assert_eq!(steering.prefetch(&view, &walk), [wanted]);
        let outcome = Outcome {
            nr_programs: 1,
            nr_pages: 1000,
            is_taken: true,
        };
        steering.taken_up(TimeMs(0), wanted, outcome);
        let less = Action::Prefetch {
            nr_pages_max: nr_pages_max - 1000,
        };
        assert_eq!(steering.prefetch(&view, &walk), [less], "those are out");
        steering.leave_prefetched(1000);
        assert_eq!(steering.prefetch(&view, &walk), [wanted]);
        let mut busy = view;
        busy.busy.prefetching = true;
        assert_eq!(steering.prefetch(&busy, &walk), []);
    }

    #[test]
    fn what_a_run_can_not_do_is_never_asked_for() {
        let mut steering = with(Abilities::default());
        steering.set_swap_slow(true);
        for reclaimer in [Reclaimer::Kernel, Reclaimer::Programs, Reclaimer::Pageout] {
            let view = view(0, reclaimer);
            assert_eq!(steering.telling_walk_ms(&view), None);
            assert_eq!(steering.prefetch_walk_ms(&view), None);
            assert_eq!(steering.tell(&view, &walk(Some(200))), []);
            assert_eq!(steering.prefetch(&view, &walk(None)), []);
        }
        assert!(!steering.forget_forecast());
    }

    #[test]
    fn a_thread_that_deactivates_and_heat_that_is_not_believed_put_walks_for_it_off() {
        let steering = with_short_inactive_list();
        let free = view(20, Reclaimer::Programs);
        assert!(steering.telling_walk_ms(&free).is_some());
        let mut busy = free;
        busy.busy.deactivating = true;
        assert_eq!(steering.telling_walk_ms(&busy), None);
        let doubted = View {
            is_heat_believed: false,
            ..free
        };
        assert_eq!(steering.telling_walk_ms(&doubted), None);
    }

    #[test]
    fn pages_that_the_thread_did_not_take_are_wanted_again_and_those_in_vain_are_not() {
        let outcome = |nr_pages, is_taken| Outcome {
            nr_programs: 1,
            nr_pages,
            is_taken,
        };
        let wanted = Action::Deactivate { nr_pages: 26_000 };
        // Nothing has come to the inactive list since, so what was taken is found to be in vain at the next look.
        for (outcome, is_wanted) in [
            (outcome(26_000, false), true),
            (outcome(26_000, true), false),
            (outcome(0, false), false),
        ] {
            let mut steering = with_short_inactive_list();
            steering.taken_up(TimeMs(20), wanted, outcome);
            let lists = KernelLists {
                nr_inactive_pages: 10_000,
                nr_active_pages: 70_000,
            };
            steering.look(TimeMs(40), Some(lists), false);
            let view = view(40, Reclaimer::Programs);
            assert_eq!(steering.telling_walk_ms(&view).is_some(), is_wanted);
        }
    }

    #[test]
    fn nothing_is_read_ahead_in_a_dry_run_or_while_programs_reclaim() {
        let mut steering = all();
        steering.set_swap_slow(true);
        let free = view(0, Reclaimer::Kernel);
        let dry = View {
            is_dry_run: true,
            ..free
        };
        for view in [dry, view(0, Reclaimer::Programs)] {
            assert_eq!(steering.prefetch_walk_ms(&view), None);
            assert_eq!(steering.prefetch(&view, &walk(None)), []);
        }
        assert_eq!(steering.prefetch(&free, &walk(None)).len(), 1);
    }
}
