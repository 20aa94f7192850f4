//! Reclaim on tiers: a node that is full or nearly, and groups that are at their limits.
//!
//! ```text
//!   keep_free, node_with_room   a node: of its only group, or of all as the engine says
//!   make_room_below_limits      a group at max, on all its nodes; what is above high is pressed
//!   carry_out                   young: back   above the lowest node: down   else: out
//! ```
//!
//! A limit counts a group's pages on all nodes, so moving one down is no relief: reclaim for a limit
//! moves pages down while there is room for them, and goes on until enough of them are out.
//!
//! **Owns** whom is reclaimed from and what becomes of each page. **Does not own** which pages are
//! handed out (the policy).

use strata_lru::{
    EvictBatch, Excess, Goal, GroupId, Isolated, Kind, Limits, NodeId, Origin, Outcome as Fate,
    Reclaim, ReclaimRequest, Step, Target, Verdict,
};

use super::{
    super::kind_of,
    machine::{FAST, TierMachine},
};
use crate::simulate::SimError;

/// Passes without anything freed before a node is given up for this time.
const NR_VAIN_PASSES_MAX: u32 = 64;

/// Reclaims in vain before memory or a group is out of it (the kernel's `MAX_RECLAIM_RETRIES`).
const NR_RETRIES_MAX: u32 = 16;

/// Priority of reclaim where there is one group: relaxed.
const PRIORITY: u8 = 12;

/// For what pages are taken.
#[derive(Clone, Copy, Debug)]
struct Purpose {
    /// Who asks.
    origin: Origin,
    /// For a limit: a page that is moved down is still charged.
    is_limit: bool,
    /// Anon pages that may still be swapped out.
    swap_room_pages: u64,
}

impl TierMachine<'_> {
    /// Reclaims until a page can be charged to a group without crossing a limit.
    pub(super) fn make_room_below_limits(&mut self, group: GroupId) -> Result<(), SimError> {
        if !self.groups.is_tree() {
            return Ok(());
        }
        let mut nr_in_vain = 0;
        while let Some(excess) = self.policy.groups().over_max(group, 1)? {
            let nr_freed = self.reclaim_groups(Goal::over_max(excess), excess.nr_pages)?;
            nr_in_vain += u32::from(nr_freed == 0);
            if nr_in_vain > NR_RETRIES_MAX {
                return Err(self.out_of_group_memory(excess)?);
            }
        }
        Ok(())
    }

    fn out_of_group_memory(&self, excess: Excess) -> Result<SimError, SimError> {
        let groups = self.policy.groups();
        Ok(SimError::GroupOutOfMemory {
            path: groups.path(excess.group)?.to_owned(),
            max_pages: groups.limits(excess.group)?.max_pages,
        })
    }

    /// A page came in: what is above `high` is brought down, and the fast node is kept from being full.
    pub(super) fn relieve(&mut self, group: GroupId) -> Result<(), SimError> {
        if self.groups.is_tree()
            && let Some(excess) = self.policy.groups().over_high(group)?
        {
            self.reclaim_groups(Goal::over_high(excess), excess.nr_pages)?;
        }
        match self.setup.background {
            Some(_) => (0..self.nodes.len()).try_for_each(|node| self.keep_free(node)),
            None => self.keep_free(FAST),
        }
    }

    /// The fastest node with a free page, made by reclaim if need be.
    pub(super) fn node_with_room(&mut self) -> Result<usize, SimError> {
        // A reclaim of several groups may come to nothing and only make the next one worth trying.
        for _ in 0..=NR_RETRIES_MAX {
            for node in 0..self.nodes.len() {
                if self.nodes[node].nr_free == 0 {
                    let nr_wanted = self.nodes[node].nr_batch_pages();
                    self.reclaim(node, Origin::Direct, nr_wanted)?;
                }
                if self.nodes[node].nr_free > 0 {
                    return Ok(node);
                }
            }
        }
        Err(SimError::OutOfMemory {
            memory_pages: self.setup.memory_pages,
            swappiness: self.setup.swappiness.get(),
        })
    }

    /// Background reclaim of a node that is nearly full: below its watermark, if one is asked for, up to twice
    /// that; else to a batch.
    pub(super) fn keep_free(&mut self, node: usize) -> Result<(), SimError> {
        let (low, high) = match self.low_pages(node) {
            Some(low) => (low, 2 * low),
            None => {
                let nr_batch = self.nodes[node].nr_batch_pages();
                (nr_batch, nr_batch)
            }
        };
        if self.nodes[node].nr_free < low {
            self.reclaim(node, Origin::Background, high)?;
        }
        Ok(())
    }

    /// A node's share of what the background keeps free of all of memory; less than half of the node.
    fn low_pages(&self, node: usize) -> Option<u32> {
        let of_all = self.setup.background?.pages(self.setup.memory_pages);
        let nr_pages = self.nodes[node].nr_pages;
        let share = u64::from(of_all) * u64::from(nr_pages) / u64::from(self.setup.memory_pages);
        Some((share as u32).clamp(1, (nr_pages / 2).max(1)))
    }

    /// Frees pages of a node until so many are free, or nothing more comes.
    fn reclaim(&mut self, node: usize, origin: Origin, nr_wanted: u32) -> Result<(), SimError> {
        let Some(group) = self.groups.only() else {
            let nr_pages = nr_wanted.saturating_sub(self.nodes[node].nr_free);
            let goal = Goal::of_node(NodeId(node as u8), 0, origin);
            return self
                .reclaim_groups(goal, u64::from(nr_pages))
                .map(|_nr_freed| ());
        };
        let purpose = Purpose {
            origin,
            is_limit: false,
            swap_room_pages: Limits::MAX,
        };
        let mut batch = EvictBatch::default();
        let mut nr_in_vain = 0;
        while self.nodes[node].nr_free < nr_wanted && nr_in_vain < NR_VAIN_PASSES_MAX {
            let request = ReclaimRequest {
                node: Some(NodeId(node as u8)),
                swappiness: self.setup.swappiness,
                priority: PRIORITY,
                ..ReclaimRequest::new(group, u64::from(nr_wanted))
            };
            let nr_free = self.nodes[node].nr_free;
            let end = self.policy.isolate(request, self.now, &mut batch)?;
            self.carry_out(&mut batch, purpose)?;
            match end {
                Isolated::Pages(_) | Isolated::Again => {}
                Isolated::NeedsAgeing => {
                    self.walk(group, Some(NodeId(node as u8)), self.setup.swappiness)?;
                }
                Isolated::Thrashing | Isolated::Empty => break,
            }
            nr_in_vain += u32::from(self.nodes[node].nr_free == nr_free);
        }
        Ok(())
    }

    /// Frees at least so many pages of several groups, as the engine says; the pages freed.
    fn reclaim_groups(&mut self, mut goal: Goal, nr_pages: u64) -> Result<u64, SimError> {
        let node = match goal.target {
            Target::Node(NodeId(node)) => usize::from(node),
            Target::Group(_) => FAST,
        };
        goal.nr_batch_pages = u64::from(self.nodes[node].nr_batch_pages());
        goal.nr_pages = nr_pages.max(1);
        goal.swappiness = self.setup.swappiness;
        if let (Target::Node(_), Some(low)) = (goal.target, self.low_pages(node)) {
            goal.nr_short_pages = (2 * u64::from(low)).checked_sub(self.nodes[node].nr_free.into());
        }
        let mut purpose = Purpose {
            origin: goal.origin,
            is_limit: matches!(goal.target, Target::Group(_)),
            swap_room_pages: Limits::MAX,
        };
        let mut reclaim = Reclaim::new(goal);
        let mut batch = EvictBatch::default();
        loop {
            match reclaim.next(self.policy.as_mut(), self.now, &mut batch)? {
                Step::Evict { group } => {
                    purpose.swap_room_pages = self.policy.groups().swap_room_pages(group)?;
                    reclaim.freed(self.carry_out(&mut batch, purpose)?);
                }
                Step::Walk {
                    group,
                    node,
                    swappiness,
                } => self.walk(group, node, swappiness)?,
                Step::Done(outcome) => return Ok(outcome.nr_freed_pages),
            }
        }
    }

    /// Tries a batch: down, out, or back; how many pages count as freed.
    fn carry_out(&mut self, batch: &mut EvictBatch, mut purpose: Purpose) -> Result<u64, SimError> {
        if batch.is_empty() {
            return Ok(0);
        }
        for folio in &batch.folios {
            self.memory.isolated.set(self.memory.slot(*folio));
        }
        self.counts.looks.tried(batch, &self.memory);
        let mut fates = Vec::with_capacity(batch.folios.len());
        let nr_written = self.counts.nr_written;
        for folio in &batch.folios {
            let slot = self.memory.slot(*folio);
            fates.push(if self.memory.accessed.take(slot) {
                self.spaces.ran(slot);
                self.look_around(*folio, slot);
                Fate::Tried(Verdict::Referenced)
            } else {
                self.below(slot, &mut purpose)?
            });
        }
        batch.nr_written_pages = self.counts.nr_written - nr_written;
        let memory = &mut self.memory;
        let is_young = |folio: &strata_lru::FolioId| memory.accessed.take(memory.slot(*folio));
        batch.young.clear();
        batch.young.extend(batch.to_check.iter().map(is_young));
        self.tiering()
            .complete_outcomes(batch, &fates, purpose.origin);
        let mut nr_freed = 0;
        for (number, (folio, fate)) in batch.folios.iter().zip(&fates).enumerate() {
            let slot = self.memory.slot(*folio);
            self.memory.isolated.clear(slot);
            let from = usize::from(self.node_of[slot as usize]);
            match fate {
                Fate::Tried(Verdict::Evicted) => {
                    self.nodes[from].nr_free += 1;
                    self.hinted.clear(slot);
                    self.counts.looks.looked_up(slot, &self.memory);
                    self.memory.leave(slot, batch.shadows[number]);
                    nr_freed += 1;
                }
                // The page below was taken when it was chosen.
                Fate::Demoted(to) => {
                    self.nodes[from].nr_free += 1;
                    self.node_of[slot as usize] = to.0;
                    nr_freed += u64::from(!purpose.is_limit);
                }
                Fate::Tried(_) => {}
            }
        }
        Ok(nr_freed)
    }

    /// What becomes of a page that goes: down where there is room or can be, else out.
    fn below(&mut self, slot: u32, purpose: &mut Purpose) -> Result<Fate, SimError> {
        let from = NodeId(self.node_of[slot as usize]);
        if let Some(to) = self.tiering().demotion_target(from, &|_| true) {
            let below = usize::from(to.0);
            if self.nodes[below].nr_free == 0 && !purpose.is_limit {
                let nr_wanted = self.nodes[below].nr_batch_pages();
                self.reclaim(below, Origin::Direct, nr_wanted)?;
            }
            if self.nodes[below].nr_free > 0 {
                self.nodes[below].nr_free -= 1;
                return Ok(Fate::Demoted(to));
            }
            self.tiering().demotion_failed(1);
        }
        let is_anon = kind_of(self.backing_of(slot)) == Kind::Anon;
        if is_anon && purpose.swap_room_pages == 0 {
            return Ok(Fate::Tried(Verdict::Busy));
        }
        purpose.swap_room_pages -= u64::from(is_anon);
        self.counts.nr_written += u64::from(self.memory.dirty.get(slot));
        Ok(Fate::Tried(Verdict::Evicted))
    }
}
