//! A visit: what is taken from one group in one pass (`shrink_one`, `shrink_node_memcgs`).
//!
//! ```text
//!   by the tree           below min: passed over    below low: passed over, unless low is ignored
//!   by the memcg LRU      below min: Young          below low: Tail, the second time taken all the same
//!                         too small: Tail, then Young
//!                         walked:    Young; removed: Tail, then Young          else stays
//! ```
//!
//! **Owns** who is passed over, the budget, batches, ageing in between and before a pass (`rounds`), and what the memcg LRU does
//! with the group. **Does not own** which group it is (`order`).

use super::{
    Reclaim,
    goal::{PRIORITY_MAX, Step, Target},
    rounds::{Next, Visit},
    rules::{GroupOrder, ScanBudget, Sparing},
};
use crate::{
    error::PolicyError,
    group::{GroupEvent, ROOT},
    ids::{GroupId, Kind, NodeId, NodeSet, TimeMs},
    memcg_lru::{Move, Segment},
    policy::Policy,
    rules::Aborting,
    seam::{Ageing, EvictBatch, Isolated, OnePass, Origin, ReclaimRequest, RelaxedWalk},
    swappiness::Swappiness,
};

/// With less room in swap, anon is left alone where it can't be moved down instead (the kernel's
/// MIN_LRU_BATCH).
const NR_SWAP_PAGES_MIN: u64 = 64;

/// Whether a group is visited.
enum Admission {
    Visited(Visit),
    PassedOver(Option<Move>),
}

impl Reclaim {
    /// Begins the visit of the next group; `false` if the pass is over.
    pub(super) fn begin_next_visit<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
    ) -> Result<bool, PolicyError> {
        loop {
            let Some(mut pass) = self.pass.take() else {
                return Ok(false);
            };
            let by = self.due_move.take();
            if pass.order.ends_when_met() && self.is_met() {
                if let (Some(by), Some(group)) = (by, self.last_group) {
                    self.rotate(policy, group, by);
                }
                self.pass = Some(pass);
                return Ok(false);
            }
            let next = pass.order.next(policy, by);
            self.pass = Some(pass);
            let Some(group) = next else { return Ok(false) };
            self.last_group = Some(group);
            match self.admit(policy, group)? {
                Admission::Visited(visit) => {
                    self.visit = Some(visit);
                    return Ok(true);
                }
                Admission::PassedOver(by) => self.due_move = by,
            }
        }
    }

    fn admit<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        group: GroupId,
    ) -> Result<Admission, PolicyError> {
        let (node, within) = match self.goal.target {
            Target::Node(node) => (Some(node), None),
            Target::Group(top) => (None, Some(top)),
        };
        if policy.groups().usage_pages(group).is_err() {
            return Ok(Admission::PassedOver(None));
        }
        let swappiness = self.swappiness_of(policy, group)?;
        let anon_nodes = self.anon_nodes(policy, group)?;
        let nr_pages = nr_takeable_pages(policy, group, node, swappiness, anon_nodes)?;
        let protection = policy.groups().protection(group, within);
        let is_below_low = protection.is_below_low();
        let rules = policy.group_rules();
        if self.is_by_bins() {
            let segment = self.segment(policy, group);
            let is_small = self.share(policy, group, nr_pages) == 0;
            if rules.is_size_first && is_small {
                return Ok(Admission::PassedOver(Some(put_off(segment))));
            }
            if protection.is_below_min() {
                return Ok(Admission::PassedOver(Some(Move::Young)));
            }
            if is_below_low && segment != Some(Segment::Tail) {
                return Ok(Admission::PassedOver(Some(Move::Tail)));
            }
        } else {
            if protection.is_below_min() {
                return Ok(Admission::PassedOver(None));
            }
            if is_below_low && !self.is_low_ignored {
                self.has_skipped_low = true;
                return Ok(Admission::PassedOver(None));
            }
        }
        if is_below_low {
            policy.groups_mut().count(group, GroupEvent::Low);
        }
        let budget_pages = match rules.budget {
            ScanBudget::Policys => u64::MAX,
            ScanBudget::ByPriority => self.share(policy, group, nr_pages),
            ScanBudget::ExposedByPriority => {
                let nr_pages = protection.exposed(nr_pages, self.is_low_ignored);
                self.share(policy, group, nr_pages)
            }
        };
        Ok(Admission::Visited(Visit {
            group,
            node,
            swappiness,
            anon_nodes,
            nr_pages,
            budget_pages,
            protection,
            ..Visit::default()
        }))
    }

    /// The part of a group that a pass looks at; all of it once the group has been removed.
    fn share<P: Policy + ?Sized>(&self, policy: &P, group: GroupId, nr_pages: u64) -> u64 {
        match policy.groups().is_online(group) {
            true => nr_pages >> self.priority,
            false => nr_pages,
        }
    }

    /// The goal's swappiness, or file only for a group whose anon can neither be swapped nor moved
    /// down to a slower node.
    pub(super) fn swappiness_of<P: Policy + ?Sized>(
        &self,
        policy: &P,
        group: GroupId,
    ) -> Result<Swappiness, PolicyError> {
        let may_go = match (self.anon_nodes(policy, group)?, self.goal.target) {
            (None, _) => true,
            (Some(nodes), Target::Node(node)) => nodes.contains(node),
            (Some(nodes), Target::Group(_)) => !nodes.is_empty(),
        };
        Ok(match may_go {
            true => self.goal.swappiness,
            false => Swappiness::FILE_ONLY,
        })
    }

    /// The nodes that a group's anon may be taken from; `None`, which is all, where it has room in swap.
    fn anon_nodes<P: Policy + ?Sized>(
        &self,
        policy: &P,
        group: GroupId,
    ) -> Result<Option<NodeSet>, PolicyError> {
        let has_room = policy.groups().swap_room_pages(group)? >= NR_SWAP_PAGES_MIN;
        Ok((!has_room).then(|| policy.demoting_nodes()))
    }

    /// Takes the visit one step on.
    pub(super) fn go_on<P: Policy + ?Sized>(
        &mut self,
        visit: &mut Visit,
        policy: &mut P,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Next, PolicyError> {
        let rules = policy.group_rules();
        let is_policys = rules.budget == ScanBudget::Policys;
        let aborting = policy.aborting();
        let is_global = matches!(self.goal.target, Target::Node(_));
        let does_abort = aborting != Aborting::AfterWalk || is_global;
        loop {
            let is_there = policy.groups().usage_pages(visit.group).is_ok();
            let is_enough = visit.has_tried && does_abort && self.is_met();
            if !is_there || is_enough || visit.is_over || self.rounds.ends_visit(visit) {
                return Ok(Next::Over);
            }
            if !is_policys && !visit.has_walked {
                let ageing = policy.ageing(visit.group, visit.swappiness)?;
                visit.is_due = ageing != Ageing::NotDue;
                let may_scan = !self.rounds.is_on || self.rounds.scans_relaxed;
                match ageing {
                    Ageing::NotDue => visit.is_aged = true,
                    Ageing::Preferred if self.priority == PRIORITY_MAX && may_scan => {}
                    due => return Ok(self.walk(visit, policy, due)),
                }
            }
            if is_policys && visit.is_in_vain() {
                return Ok(Next::Over);
            }
            let may_evict = !visit.has_walked || aborting != Aborting::AfterWalk;
            if !may_evict || visit.nr_scanned_pages >= visit.budget_pages {
                return Ok(Next::Over);
            }
            let nr_pages = match is_policys {
                true => self
                    .goal
                    .nr_pages
                    .saturating_sub(self.nr_freed_pages)
                    .max(1),
                false => self.goal.nr_batch_pages,
            };
            let request = ReclaimRequest {
                node: visit.node,
                swappiness: visit.swappiness,
                priority: self.priority,
                // What one pass gave is tried before the next.
                nr_passes_max: 1,
                one_pass: Some(OnePass {
                    protection: visit.protection,
                    is_low_ignored: self.is_low_ignored,
                    nr_short_pages: self.goal.nr_short_pages,
                    anon_nodes: visit.anon_nodes,
                }),
                ..ReclaimRequest::new(visit.group, nr_pages)
            };
            let nr_scanned_before = policy.stats(visit.group)?.nr_scanned_pages;
            let end = policy.isolate(request, now, batch)?;
            let nr_scanned_after = policy.stats(visit.group)?.nr_scanned_pages;
            let nr_scanned_pages = nr_scanned_after - nr_scanned_before;
            visit.nr_scanned_pages += nr_scanned_pages;
            self.nr_scanned_pages += nr_scanned_pages;
            let ends_after_batch = is_global && aborting == Aborting::WhenMetOrWalked;
            visit.is_over = visit.has_walked && ends_after_batch;
            if !batch.is_empty() {
                visit.has_tried = true;
                let mut kinds = batch.folios.iter().map(|folio| policy.kind(*folio));
                visit.has_anon |= kinds.any(|kind| kind == Kind::Anon);
                return Ok(Next::Evict);
            }
            match end {
                Isolated::Again if nr_scanned_pages > 0 => {}
                Isolated::NeedsAgeing if !visit.has_walked => {
                    let due = policy.ageing(visit.group, visit.swappiness)?;
                    return Ok(self.walk(visit, policy, due));
                }
                Isolated::Thrashing => {
                    self.has_met_young = true;
                    return Ok(Next::Over);
                }
                _ => return Ok(Next::Over),
            }
        }
    }

    /// A group has to be walked: now, or not in this visit.
    fn walk<P: Policy + ?Sized>(&self, visit: &mut Visit, policy: &P, due: Ageing) -> Next {
        let is_made = due == Ageing::Due && policy.relaxed_walk() == RelaxedWalk::Made;
        let is_put_off = self.priority == PRIORITY_MAX && !is_made;
        if is_put_off || self.rounds.is_on {
            return Next::Over;
        }
        visit.has_walked = true;
        Next::Walk
    }

    pub(super) fn end_visit<P: Policy + ?Sized>(
        &mut self,
        visit: &Visit,
        policy: &mut P,
    ) -> Result<(), PolicyError> {
        self.rounds.visited(visit);
        let group = visit.group;
        let is_online = policy.groups().is_online(group);
        if !self.is_by_bins() {
            if visit.has_walked && is_online {
                self.rotate(policy, group, Move::Young);
            }
            return Ok(());
        }
        if visit.has_walked && is_online {
            self.due_move = Some(Move::Young);
        } else if !policy.group_rules().is_size_first && policy.groups().usage_pages(group).is_ok()
        {
            let (node, swappiness) = (visit.node, visit.swappiness);
            let nr_pages = nr_takeable_pages(policy, group, node, swappiness, visit.anon_nodes)?;
            let is_small = self.share(policy, group, nr_pages) == 0;
            // One that was walked and is removed is put off like one that is too small.
            let is_put_off = is_small || visit.has_walked;
            self.due_move = is_put_off.then(|| put_off(self.segment(policy, group)));
        }
        Ok(())
    }

    pub(super) fn is_by_bins(&self) -> bool {
        self.pass
            .as_ref()
            .is_some_and(|pass| pass.order.is_by_bins())
    }

    fn segment<P: Policy + ?Sized>(&self, policy: &mut P, group: GroupId) -> Option<Segment> {
        let Target::Node(node) = self.goal.target else {
            return None;
        };
        policy.memcg_lru(node)?.segment(group)
    }

    /// Moves a group in the memcg LRUs of the nodes that are reclaimed.
    fn rotate<P: Policy + ?Sized>(&self, policy: &mut P, group: GroupId, by: Move) {
        match self.goal.target {
            Target::Node(node) => {
                if let Some(lru) = policy.memcg_lru(node) {
                    lru.rotate(group, by);
                }
            }
            Target::Group(_) => {
                for node in 0..=u8::MAX {
                    let Some(lru) = policy.memcg_lru(NodeId(node)) else {
                        break;
                    };
                    lru.rotate(group, by);
                }
            }
        }
    }
}

/// Base pages of a group that may be taken, anon from some nodes only if `anon_nodes` says so.
fn nr_takeable_pages<P: Policy + ?Sized>(
    policy: &P,
    group: GroupId,
    node: Option<NodeId>,
    swappiness: Swappiness,
    anon_nodes: Option<NodeSet>,
) -> Result<u64, PolicyError> {
    let (None, Some(nodes)) = (node, anon_nodes) else {
        return policy.nr_evictable_pages(group, node, swappiness);
    };
    let mut nr_pages = policy.nr_evictable_pages(group, None, Swappiness::FILE_ONLY)?;
    for node in nodes.iter() {
        let of_node = |swappiness| policy.nr_evictable_pages(group, Some(node), swappiness);
        nr_pages += of_node(swappiness)?;
        nr_pages -= of_node(Swappiness::FILE_ONLY)?;
    }
    Ok(nr_pages)
}

/// A group that has nothing to give now is put off, the second time for longer.
fn put_off(segment: Option<Segment>) -> Move {
    match segment {
        Some(Segment::Tail) => Move::Young,
        _ => Move::Tail,
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
