//! Reclaim on tiers: a node that is full or nearly, and what goes down instead of out.
//!
//! ```text
//!   node_for       the fastest node with room, or room made there
//!   reclaim_node   a node: of its only group, or of all as the engine says
//!   room_below     young: back   above the lowest node: down   else: out
//! ```
//!
//! A limit counts a group's pages on all nodes, so moving one down is no relief: reclaim for a limit
//! moves pages down while there is room for them, and goes on until enough of them are out.
//!
//! **Owns** room on nodes, and which pages go down. **Does not own** which pages are handed out (the policy), limits, or a
//! batch (`mechanism::reclaim`).

use strata_lru::{Goal, Isolated, NodeId, Origin, Policy, ReclaimRequest};

use super::{
    super::{
        Machine,
        memory::Place,
        reclaim::{NR_RETRIES_MAX, Need, PRIORITY_RELAXED, Purpose},
    },
    setup::Start,
};
use crate::simulate::SimError;

/// Passes without anything freed before a node is given up for this time.
const NR_VAIN_PASSES_MAX: u32 = 64;

impl<P: Policy + ?Sized> Machine<'_, P> {
    /// Where a page is to lie that comes in: the fastest node with a free page, made by reclaim if need be. What was never in
    /// memory may begin on the slowest.
    pub(crate) fn node_for(&mut self, slot: u32) -> Result<NodeId, SimError> {
        let is_new = self.memory.place(slot) == Place::Absent(None);
        let slowest = NodeId(self.tiers.nr_nodes() - 1);
        if is_new && self.tiers.start == Start::Slow && self.nr_free_of(slowest) > 0 {
            return Ok(slowest);
        }
        // A reclaim of several groups may come to nothing and only make the next one worth trying.
        for _ in 0..=NR_RETRIES_MAX {
            for node in (0..self.tiers.nr_nodes()).map(NodeId) {
                if self.nr_free_of(node) == 0 {
                    let nr_wanted = self.tiers.nr_batch_pages(node);
                    self.reclaim_node(node, Origin::Direct, nr_wanted)?;
                }
                if self.nr_free_of(node) > 0 {
                    return Ok(node);
                }
            }
        }
        Err(self.out_of_memory(Need::Memory)?)
    }

    /// Frees pages of a node until so many are free, or nothing more comes.
    pub(crate) fn reclaim_node(
        &mut self,
        node: NodeId,
        origin: Origin,
        nr_wanted: u64,
    ) -> Result<(), SimError> {
        let Some(group) = self.groups.only() else {
            let nr_pages = nr_wanted.saturating_sub(self.nr_free_of(node));
            let goal = Goal::of_node(node, 0, origin);
            return self.reclaim_groups(goal, nr_pages).map(|_nr_freed| ());
        };
        let mut nr_in_vain = 0;
        while self.nr_free_of(node) < nr_wanted && nr_in_vain < NR_VAIN_PASSES_MAX {
            let request = ReclaimRequest {
                node: Some(node),
                swappiness: self.setup.swappiness,
                priority: PRIORITY_RELAXED,
                ..ReclaimRequest::new(group, nr_wanted)
            };
            let nr_free = self.nr_free_of(node);
            let end = self.policy.isolate(request, self.now, &mut self.batch)?;
            self.try_batch(Purpose::memory(origin))?;
            match end {
                Isolated::Pages(_) | Isolated::Again => {}
                Isolated::NeedsAgeing => self.walk(group, Some(node), self.setup.swappiness)?,
                Isolated::Thrashing | Isolated::Empty => break,
            }
            nr_in_vain += u32::from(self.nr_free_of(node) == nr_free);
        }
        Ok(())
    }

    /// Takes a page on a node below for one that has to go, if there is one or can be.
    pub(in crate::mechanism) fn room_below(
        &mut self,
        slot: u32,
        purpose: Purpose,
    ) -> Result<Option<NodeId>, SimError> {
        let from = self.tiers.node(slot);
        let Some(below) = self.tiering().demotion_target(from, &|_| true) else {
            return Ok(None);
        };
        if self.nr_free_of(below) == 0 && !purpose.is_limit {
            let nr_wanted = self.tiers.nr_batch_pages(below);
            self.reclaim_node(below, Origin::Direct, nr_wanted)?;
        }
        if self.nr_free_of(below) > 0 {
            self.tiers.take(below);
            return Ok(Some(below));
        }
        self.tiering().demotion_failed(1);
        Ok(None)
    }
}
