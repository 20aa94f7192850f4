//! Rounds: ageing before a pass instead of within it, and leaving it out where it may be (rules 5.2).
//!
//! Ageing walks and swapping cost the most, and with several groups chances are that one of them has
//! cold page cache to drop. So the first pass of a reclaim only looks for that:
//!
//! ```text
//!   flags at the start            need ageing: no     need swapping: no
//!   a pass begins, need ageing?   no  -> assume it is needed, skip it this time;
//!                                        swap only if the last pass said so
//!                                 yes -> age all groups; no swapping
//!   a group needs no ageing       -> need ageing: no (6.1: if it gave 64 pages without)
//!   a group met its budget, 64 pages or more and no anon -> need swapping: no
//!   a batch of anon while swapping is avoided -> on to the next group
//! ```
//!
//! Kernels 6.1 and 6.2 have what concerns ageing, not what concerns swapping.
//!
//! Ageing thus runs only after a whole pass in which no group had anything cold, and swapping is
//! avoided on the first pass, on passes that age, and after passes that did well without. With a
//! single group to choose from there is nothing to prefer (a kernel does not count its groups): all goes
//! as without this, which is that in the background every pass ages first, and direct reclaim ages within its visits.
//!
//! Source: the 2022 series, version 10, patch 9 of 14 ("optimize multiple memcgs"), and what was merged
//! of it.
//!
//! **Owns** the flags, and what is noted of a visit. **Does not own** the visits they steer (`visit`).

use super::goal::Goal;
use crate::{
    group::Protection,
    ids::{GroupId, NodeId, NodeSet},
    swappiness::Swappiness,
};

/// What is being done with one group.
#[derive(Debug, Default)]
pub(super) struct Visit {
    pub(super) group: GroupId,
    pub(super) node: Option<NodeId>,
    pub(super) swappiness: Swappiness,
    /// The nodes that anon may be taken from; `None` for all.
    pub(super) anon_nodes: Option<NodeSet>,
    /// What may be taken at all, when the visit began.
    pub(super) nr_pages: u64,
    pub(super) budget_pages: u64,
    pub(super) nr_scanned_pages: u64,
    pub(super) nr_freed_pages: u64,
    /// Freed and scanned when it was last noticed that something was freed.
    pub(super) gained: (u64, u64),
    /// Anon was among what was tried.
    pub(super) has_anon: bool,
    /// No walk was needed to find something.
    pub(super) is_aged: bool,
    /// When it was last asked, a walk was needed, or preferred.
    pub(super) is_due: bool,
    pub(super) protection: Protection,
    pub(super) has_tried: bool,
    pub(super) has_walked: bool,
    /// Nothing more is taken, whatever the budget.
    pub(super) is_over: bool,
}

impl Visit {
    /// Whether as much as there is was looked at since anything was freed. A policy that hands out what it
    /// has as long as there is something would go on for ever where nothing can go.
    pub(super) fn is_in_vain(&mut self) -> bool {
        if self.gained.0 != self.nr_freed_pages {
            self.gained = (self.nr_freed_pages, self.nr_scanned_pages);
        }
        self.nr_scanned_pages - self.gained.1 > self.nr_pages
    }
}

/// What comes next in a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Evict,
    Walk,
    Over,
}

/// What passes tell each other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// Ageing is before passes, never within visits.
    pub(super) is_on: bool,
    /// There are several groups to choose from, and the origin is one that is spared.
    pub(super) is_sparing: bool,
    pub(super) spares_swapping: bool,
    /// At the most relaxed priority a group is taken from although a walk is preferred.
    pub(super) scans_relaxed: bool,
    pub(super) needs_ageing: bool,
    pub(super) needs_swapping: bool,
    pub(super) avoids_swapping: bool,
    /// The groups are being aged; the last one looked at.
    pub(super) ageing_at: Option<GroupId>,
}

impl Rounds {
    /// Whether a visit that gave anon is to end.
    pub(super) fn ends_visit(&self, visit: &Visit) -> bool {
        let is_balanced = visit.swappiness.get() < 200;
        self.is_sparing && self.avoids_swapping && is_balanced && visit.has_anon
    }

    /// A visit is over. A group that needs no walk has cold pages, unless it has next to none: else
    /// a handful of pages would keep all other groups from being aged, and so from giving anything.
    pub(super) fn visited(&mut self, visit: &Visit) {
        let is_worth_it = visit.nr_pages >= Goal::NR_BATCH_PAGES;
        let is_enough = visit.nr_freed_pages >= Goal::NR_BATCH_PAGES;
        let has_cold = match self.spares_swapping {
            true => visit.is_aged && is_worth_it,
            false => !visit.is_due && is_enough,
        };
        if self.is_sparing && has_cold {
            self.needs_ageing = false;
        }
        let has_met_budget = visit.nr_scanned_pages >= visit.budget_pages;
        if self.is_sparing && has_met_budget && is_enough && !visit.has_anon {
            self.needs_swapping = false;
        }
    }
}
