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
//! **Owns** the flags. **Does not own** the visits they steer.

use super::{
    Goal, Reclaim, Step, Target,
    rules::{GroupOrder, Sparing},
    visit::Visit,
};
use crate::{
    error::PolicyError,
    group::ROOT,
    ids::{GroupId, NodeId},
    policy::Policy,
    seam::{Ageing, Origin},
    swappiness::Swappiness,
};

/// What passes tell each other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rounds {
    /// Ageing is before passes, never within visits.
    pub(super) is_on: bool,
    /// There are several groups to choose from, and the origin is one that is spared.
    is_sparing: bool,
    spares_swapping: bool,
    /// At the most relaxed priority a group is taken from although a walk is preferred.
    pub(super) scans_relaxed: bool,
    needs_ageing: bool,
    needs_swapping: bool,
    avoids_swapping: bool,
    /// The groups are being aged; the last one looked at.
    ageing_at: Option<GroupId>,
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

impl Reclaim {
    /// Decides whether the coming pass ages all groups first.
    pub(super) fn begin_round<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
    ) -> Result<(), PolicyError> {
        let (GroupOrder::Rounds(sparing), Target::Node(node)) =
            (policy.group_rules().order, self.goal.target)
        else {
            return Ok(());
        };
        let is_spared = sparing.is_for(self.goal.origin);
        let rounds = &mut self.rounds;
        rounds.is_sparing = is_spared && are_several(policy, node, self.goal.swappiness)?;
        rounds.spares_swapping = sparing.spares_swapping();
        rounds.scans_relaxed = sparing == Sparing::Ageing;
        rounds.is_on = rounds.is_sparing || self.goal.origin == Origin::Background;
        if !rounds.is_on {
            return Ok(());
        }
        let does_age = !rounds.is_sparing || rounds.needs_ageing;
        if rounds.is_sparing {
            rounds.avoids_swapping = rounds.spares_swapping && (does_age || !rounds.needs_swapping);
            rounds.needs_ageing = true;
            rounds.needs_swapping = true;
        }
        rounds.ageing_at = does_age.then_some(ROOT);
        Ok(())
    }

    /// The next group to walk before the pass; `None` when all are as young as they should be.
    pub(super) fn walk_before_pass<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
    ) -> Result<Option<Step>, PolicyError> {
        let Target::Node(node) = self.goal.target else {
            return Ok(None);
        };
        let groups = policy.groups();
        while let Some(last) = self.rounds.ageing_at {
            // The place is lost with the group; the next pass ages the rest.
            let is_there = last == ROOT || groups.is_below(last, ROOT);
            self.rounds.ageing_at = is_there.then(|| groups.next_below(ROOT, last)).flatten();
            let Some(group) = self.rounds.ageing_at else {
                break;
            };
            let swappiness = self.swappiness_of(policy, group)?;
            let is_due = policy.ageing(group, swappiness)? != Ageing::NotDue;
            if is_due && !groups.protection(group, None).is_below_min() {
                return Ok(Some(Step::Walk {
                    group,
                    node: Some(node),
                    swappiness,
                }));
            }
        }
        Ok(None)
    }
}

/// Whether more than one group has pages of a node that may be taken.
fn are_several<P: Policy + ?Sized>(
    policy: &P,
    node: NodeId,
    swappiness: Swappiness,
) -> Result<bool, PolicyError> {
    let mut nr_groups = 0;
    for group in policy.groups().ids() {
        let nr_pages = policy.nr_evictable_pages(group, Some(node), swappiness)?;
        nr_groups += u32::from(nr_pages > 0);
    }
    Ok(nr_groups > 1)
}
