//! Reclaim from many groups: who is asked, how hard, and when it is enough (rules 5).
//!
//! A mechanism that has one group asks it by [`Policy::isolate`] and needs none of this. With several
//! it makes a [`Reclaim`] and does what that says, step by step, until it is done:
//!
//! ```text
//!   Reclaim::new(goal) -> next --Walk----> the mechanism walks the group, ends the walk  -> next ...
//!                              --Evict---> it tries the batch, completes it, says freed  -> next ...
//!                              --Done----> the outcome
//! ```
//!
//! A reclaim is a series of passes, each more desperate than the last. A pass visits one group after
//! another, and a visit is a series of batches:
//!
//! ```text
//!   pass    priority 12, 11, ... 0      of a node: by the memcg LRU, or the tree
//!                                       of a group: it and all below it, on from the last time
//!   visit   one group                   skipped below min, and below low unless nothing else is left
//!   batch   up to 64 pages
//! ```
//!
//! ```
//! use strata_lru::*;
//!
//! let mut lru = MultiGen::new(Config::default())?;
//! let parent = lru.add_group("/a", TimeMs(0))?;
//! let group = lru.add_child_group(parent, "/a/b", TimeMs(0))?;
//! lru.set_limits(parent, Limits { max_pages: 100, ..Limits::NONE })?;
//! let (mut batch, now) = (EvictBatch::default(), TimeMs(0));
//! for _ in 0..500 {
//!     // Room for the page first; a limit may be hit at every level.
//!     while let Some(excess) = lru.groups().over_max(group, 1)? {
//!         let mut reclaim = Reclaim::new(Goal::over_max(excess));
//!         loop {
//!             match reclaim.next(&mut lru, now, &mut batch)? {
//!                 Step::Evict { .. } => {
//!                     let verdicts = vec![Verdict::Evicted; batch.folios.len()];
//!                     lru.complete(&mut batch, &verdicts);
//!                     reclaim.freed(verdicts.len() as u64);
//!                 }
//!                 Step::Walk { group, swappiness, .. } => lru.finish_walk(group, swappiness, now)?,
//!                 Step::Done(outcome) => {
//!                     assert_eq!(outcome.end, End::Met);
//!                     break;
//!                 }
//!             }
//!         }
//!     }
//!     let (node, kind, cause) = (NodeId(0), Kind::File, Cause::Read);
//!     let (order, shadow, is_exec) = (Order::BASE, None, false);
//!     lru.appeared(Arrival { group, node, kind, order, cause, shadow, is_exec })?;
//! }
//! assert!(lru.groups().usage_pages(parent)? <= 100);
//! assert!(lru.groups().events(parent)?.nr_max > 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where it differs from the kernel: pressure on a group visits all its nodes at once, not node by
//! node; protection is never stale; reclaim in the background also overrides low when nothing else
//! is left.
//!
//! **Owns** goals, passes, visits, and the order of groups. **Does not own** what is taken from a
//! group (the policies), the tree or the memcg LRU (their modules), or the watermarks that begin a
//! reclaim (the mechanism).
//!
//! **Invariants**
//! - I1: nothing of a group below its effective min is ever isolated.
//! - I2: nothing of a group below its effective low is isolated before a pass over all others has
//!   come to nothing (by the tree), or they have had their turn (by the memcg LRU); each time a
//!   group is taken from all the same is an event.
//! - I3: a reclaim ends: passes are numbered down, visits bounded, and a group is walked at most
//!   once a visit.

mod goal;
mod order;
mod rounds;
mod rules;
mod visit;

#[cfg(test)]
mod tests;

pub use goal::{End, Goal, Outcome, Step, Target};
pub use rules::{GroupOrder, GroupRules, ScanBudget, Sparing, UnknownOrder};

use crate::{
    error::PolicyError,
    ids::{GroupId, Kind, NodeId, TimeMs},
    memcg_lru::Move,
    policy::Policy,
    seam::{EvictBatch, Origin},
};
use goal::PRIORITY_MAX;
use order::GroupWalk;
use rounds::{Next, Rounds, Visit};

/// The most desperate priority of reclaim in the background.
const PRIORITY_BACKGROUND_MIN: u8 = 1;

/// One pass over groups.
#[derive(Debug)]
struct Pass {
    order: GroupWalk,
    nr_freed_pages_before: u64,
    nr_scanned_pages_before: u64,
}

/// A reclaim under way.
#[derive(Debug)]
pub struct Reclaim {
    goal: Goal,
    priority: u8,
    first_priority: u8,
    is_begun: bool,
    /// A partial walk of a subtree found nothing: the next one is whole.
    is_whole: bool,
    is_low_ignored: bool,
    has_skipped_low: bool,
    is_last_pass_done: bool,
    has_met_young: bool,
    nr_freed_pages: u64,
    nr_scanned_pages: u64,
    rounds: Rounds,
    pass: Option<Pass>,
    visit: Option<Visit>,
    /// The group visited or passed over last, and what the memcg LRU is to do with it.
    last_group: Option<GroupId>,
    due_move: Option<Move>,
}

impl Reclaim {
    /// Begins at the most relaxed priority.
    pub fn new(goal: Goal) -> Reclaim {
        Reclaim {
            goal,
            priority: PRIORITY_MAX,
            first_priority: PRIORITY_MAX,
            is_begun: false,
            is_whole: false,
            is_low_ignored: false,
            has_skipped_low: false,
            is_last_pass_done: false,
            has_met_young: false,
            nr_freed_pages: 0,
            nr_scanned_pages: 0,
            rounds: Rounds::default(),
            pass: None,
            visit: None,
            last_group: None,
            due_move: None,
        }
    }

    /// So many base pages of the last batch left memory, or moved to a lower node.
    pub fn freed(&mut self, nr_pages: u64) {
        self.nr_freed_pages += nr_pages;
        if let Some(visit) = &mut self.visit {
            visit.nr_freed_pages += nr_pages;
        }
    }

    fn is_met(&self) -> bool {
        self.nr_freed_pages >= self.goal.nr_pages
    }

    /// What to do next; `batch` is filled for [`Step::Evict`] and must have been completed since.
    pub fn next<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Step, PolicyError> {
        if !self.is_begun {
            self.begin(policy, now)?;
        }
        loop {
            if self.pass.is_none() {
                if self.is_met() || !self.may_go_on() || self.is_all_young(policy, now)? {
                    return Ok(Step::Done(self.outcome()));
                }
                self.begin_pass(policy)?;
            }
            if let Some(step) = self.walk_before_pass(policy)? {
                return Ok(step);
            }
            if let Some(mut visit) = self.visit.take() {
                let next = self.go_on(&mut visit, policy, now, batch)?;
                match next {
                    Next::Evict => {
                        let group = visit.group;
                        self.visit = Some(visit);
                        return Ok(Step::Evict { group });
                    }
                    Next::Walk => {
                        let (group, node, swappiness) = (visit.group, visit.node, visit.swappiness);
                        self.visit = Some(visit);
                        return Ok(Step::Walk {
                            group,
                            node,
                            swappiness,
                        });
                    }
                    Next::Over => self.end_visit(&visit, policy)?,
                }
            }
            if !self.begin_next_visit(policy)? {
                self.end_pass();
            }
        }
    }

    fn begin<P: Policy + ?Sized>(
        &mut self,
        policy: &mut P,
        now: TimeMs,
    ) -> Result<(), PolicyError> {
        self.is_begun = true;
        if let Target::Group(group) = self.goal.target {
            policy.groups().usage_pages(group)?;
            if let Some(event) = self.goal.event {
                policy.groups_mut().count(group, event);
            }
        }
        if let (Target::Node(node), true) =
            (self.goal.target, policy.group_rules().has_initial_priority)
        {
            let nr_pages = self.nr_inactive_pages(policy, node, now)?;
            self.first_priority = initial_priority(nr_pages, self.goal.nr_pages);
            self.priority = self.first_priority;
        }
        Ok(())
    }

    /// Base pages of a node outside the two youngest generations, of the kinds that may be taken.
    fn nr_inactive_pages<P: Policy + ?Sized>(
        &self,
        policy: &P,
        node: NodeId,
        now: TimeMs,
    ) -> Result<u64, PolicyError> {
        let mut nr_pages = 0;
        for group in policy.groups().ids() {
            let views = policy.view(group, now)?;
            for view in views.iter().filter(|view| view.node == node) {
                let nr_old = view.generations.len().saturating_sub(2);
                for generation in &view.generations[..nr_old] {
                    let kinds = Kind::ALL.into_iter();
                    let allowed = kinds.filter(|kind| self.goal.swappiness.allows(*kind));
                    let sizes = allowed.map(|kind| generation.nr_pages[kind.index()].unwrap_or(0));
                    nr_pages += sizes.sum::<u64>();
                }
            }
        }
        Ok(nr_pages)
    }

    /// Whether no group has anything on the node that is older than what the policy keeps. Pressure on a
    /// group is not asked that.
    fn is_all_young<P: Policy + ?Sized>(
        &mut self,
        policy: &P,
        now: TimeMs,
    ) -> Result<bool, PolicyError> {
        let Target::Node(node) = self.goal.target else {
            return Ok(false);
        };
        let mut is_any_young = false;
        for group in policy.groups().ids() {
            let swappiness = self.swappiness_of(policy, group)?;
            let has_old = policy.is_reclaimable(group, node, swappiness, self.priority, now)?;
            if has_old && !policy.groups().protection(group, None).is_below_min() {
                return Ok(false);
            }
            is_any_young |= !has_old;
        }
        self.has_met_young |= is_any_young;
        Ok(is_any_young)
    }

    fn begin_pass<P: Policy + ?Sized>(&mut self, policy: &mut P) -> Result<(), PolicyError> {
        let order = GroupWalk::begin(self.goal.target, self.is_whole, policy);
        self.pass = Some(Pass {
            order,
            nr_freed_pages_before: self.nr_freed_pages,
            nr_scanned_pages_before: self.nr_scanned_pages,
        });
        self.due_move = None;
        self.begin_round(policy)
    }

    /// Ends a pass and becomes more desperate, if that helps.
    fn end_pass(&mut self) {
        let Some(pass) = self.pass.take() else { return };
        self.visit = None;
        let nr_freed_pages = self.nr_freed_pages - pass.nr_freed_pages_before;
        let nr_scanned_pages = self.nr_scanned_pages - pass.nr_scanned_pages_before;
        // In the background there is time for another pass as long as passes look at enough.
        let is_background = self.goal.origin == Origin::Background;
        let was_busy = is_background && nr_scanned_pages >= self.goal.nr_pages;
        if was_busy && nr_freed_pages > 0 {
            return;
        }
        self.is_last_pass_done = self.priority <= self.last_priority();
        self.priority = self.priority.saturating_sub(1);
    }

    fn last_priority(&self) -> u8 {
        match self.goal.origin {
            Origin::Background => PRIORITY_BACKGROUND_MIN,
            Origin::Direct => 0,
        }
    }

    /// Whether there is a pass left; once all was in vain, first a whole one, then one that no
    /// longer spares what is below low.
    fn may_go_on(&mut self) -> bool {
        if !self.is_last_pass_done {
            return true;
        }
        let is_partial = matches!(self.goal.target, Target::Group(_)) && !self.is_whole;
        let has_reserves = self.has_skipped_low && !self.is_low_ignored;
        if self.nr_freed_pages > 0 || !(is_partial || has_reserves) {
            return false;
        }
        self.is_low_ignored |= !is_partial;
        self.is_whole = true;
        self.is_last_pass_done = false;
        self.priority = self.first_priority;
        true
    }

    fn outcome(&self) -> Outcome {
        let end = match self.nr_freed_pages {
            _ if self.is_met() => End::Met,
            0 if self.has_met_young => End::Thrashing,
            0 => End::Exhausted,
            _ => End::Short,
        };
        Outcome {
            nr_freed_pages: self.nr_freed_pages,
            nr_scanned_pages: self.nr_scanned_pages,
            end,
            priority: self.priority,
        }
    }
}

/// The priority at which a pass over so many pages finds about what is wanted; never more desperate
/// than 6, never below relaxed for a small goal.
fn initial_priority(nr_inactive_pages: u64, nr_goal_pages: u64) -> u8 {
    if nr_goal_pages < Goal::NR_BATCH_PAGES {
        return PRIORITY_MAX;
    }
    let last_bit = |n: u64| u64::BITS - n.leading_zeros();
    let priority = last_bit(nr_inactive_pages)
        .saturating_sub(1)
        .saturating_sub(last_bit(nr_goal_pages - 1));
    priority.clamp(6, PRIORITY_MAX.into()) as u8
}
