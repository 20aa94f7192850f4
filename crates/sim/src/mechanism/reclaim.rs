//! Direct reclaim of a full group: from relaxed to desperate, until 32 pages are free.
//!
//! ```text
//!   make_room   until there is room for a page: in memory, and below every limit of a tree of groups
//!   reclaim     priority 12, 11, ... 0        until 32 pages are free
//!   shrink      budget = evictable >> priority; ageing due? (mostly not at priority 12) walk, leave
//!   take_batch  isolate up to 64 -> accessed bits -> verdicts -> complete
//! ```
//!
//! On tiers room is made node by node (`tiers::reclaim`); limits, passes over several groups and what becomes of a batch are the
//! same as on one node.
//!
//! **Owns** budgets, verdicts and shadows' way into `memory`. **Does not own** which pages are handed
//! out (the policy), or what moves down (`tiers::reclaim`).

use strata_lru::{
    Aborting, Ageing, Excess, FolioId, Goal, GroupId, Isolated, Kind, Limits, NodeId, Origin,
    Outcome as Fate, Policy, Reclaim, ReclaimRequest, RelaxedWalk, Step, Swappiness, Target,
    Verdict,
};

use super::{
    Machine,
    tiers::{FAST, Tiers},
    walk::PageTables,
};
use crate::simulate::SimError;

/// The priority of relaxed scanning.
pub(crate) const PRIORITY_RELAXED: u8 = 12;

/// Reclaims in vain before memory or a group is out of it (the kernel's `MAX_RECLAIM_RETRIES`).
pub(crate) const NR_RETRIES_MAX: u32 = 16;

/// Pages in a batch, for each page reclaim wants (64 for 32).
const BATCH_PER_WANTED: u32 = 2;

/// What a page that comes in lacks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    /// Memory, all of which is one group's.
    Only,
    /// Memory, of whichever group.
    Memory,
    /// Room below a limit.
    Limit(Excess),
}

/// For what pages are taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purpose {
    /// Who asks.
    pub(super) origin: Origin,
    /// For a limit: a page that is moved down is still charged.
    pub(super) is_limit: bool,
    /// Anon pages that may still be swapped out.
    swap_room_pages: u64,
}

impl Purpose {
    /// Memory, whoever's it is; swap has room for all.
    pub(super) fn memory(origin: Origin) -> Purpose {
        Purpose {
            origin,
            is_limit: false,
            swap_room_pages: Limits::MAX,
        }
    }
}

impl<P: Policy + ?Sized> Machine<'_, P> {
    /// Walks the group's page tables for a node, or for each, and begins a generation there.
    pub(super) fn walk(
        &mut self,
        group: GroupId,
        node: Option<NodeId>,
        swappiness: Swappiness,
    ) -> Result<(), SimError> {
        let nodes = match node {
            Some(NodeId(node)) => node..node + 1,
            None => 0..self.tiers.nr_nodes(),
        };
        for node in nodes.map(NodeId) {
            let now = self.now;
            let (tables, tiers) = self.tables();
            let lies_there = |slot: u32| tiers.node(slot) == node;
            tables.walk(group, node, swappiness, now, lies_there)?;
        }
        Ok(())
    }

    /// Its page tables, and which node a page lies on.
    fn tables(&mut self) -> (PageTables<'_, P>, &Tiers) {
        let tables = PageTables {
            policy: &mut *self.policy,
            layout: &self.layout,
            memory: &mut self.memory,
            spaces: &mut self.spaces,
        };
        (tables, &self.tiers)
    }

    /// Reclaims until a page can be charged; on tiers it may have no room on a node even then.
    pub(super) fn make_room(&mut self, group: GroupId) -> Result<(), SimError> {
        let mut nr_in_vain = 0;
        while let Some(need) = self.need(group)? {
            let nr_freed = match need {
                Need::Only => self.reclaim(group)?,
                Need::Memory => {
                    let goal = Goal::of_node(NodeId::default(), 0, Origin::Direct);
                    self.reclaim_groups(goal, 0)?
                }
                Need::Limit(excess) => {
                    self.reclaim_groups(Goal::over_max(excess), excess.nr_pages)?
                }
            };
            if nr_freed == 0 {
                nr_in_vain += 1;
            }
            if nr_in_vain > NR_RETRIES_MAX {
                if !self.kill()? {
                    return Err(self.out_of_memory(need)?);
                }
                nr_in_vain = 0;
            }
        }
        Ok(())
    }

    /// What there has to be more of before a page can be charged to a group.
    fn need(&self, group: GroupId) -> Result<Option<Need>, SimError> {
        let is_tree = self.groups.is_tree();
        if is_tree && let Some(excess) = self.policy.groups().over_max(group, 1)? {
            return Ok(Some(Need::Limit(excess)));
        }
        let need = if is_tree { Need::Memory } else { Need::Only };
        let is_full = !self.tiers.is_any() && self.nr_free_pages() == 0;
        Ok(is_full.then_some(need))
    }

    pub(super) fn nr_free_pages(&self) -> u32 {
        self.limit_pages.saturating_sub(self.nr_used_pages())
    }

    pub(super) fn out_of_memory(&self, need: Need) -> Result<SimError, SimError> {
        Ok(match need {
            Need::Only | Need::Memory => SimError::OutOfMemory {
                memory_pages: self.limit_pages,
                swappiness: self.setup.swappiness.get(),
            },
            Need::Limit(Excess { group, .. }) => SimError::GroupOutOfMemory {
                path: self.policy.groups().path(group)?.to_owned(),
                max_pages: self.policy.groups().limits(group)?.max_pages,
            },
        })
    }

    /// A page was charged: what is above `high` is brought down, and if little memory is free the
    /// background makes some; of tiers it keeps the fast one from being full at least. Both may come to nothing.
    pub(super) fn relieve(&mut self, group: GroupId) -> Result<(), SimError> {
        if self.groups.is_tree()
            && let Some(excess) = self.policy.groups().over_high(group)?
        {
            self.reclaim_groups(Goal::over_high(excess), excess.nr_pages)?;
        }
        match self.setup.background {
            Some(_) => (0..self.tiers.nr_nodes()).try_for_each(|node| self.keep_free(NodeId(node))),
            None if self.tiers.is_any() => self.keep_free(FAST),
            None => Ok(()),
        }
    }

    /// Background reclaim of a node that is nearly full: below its watermark, if one is asked for, up to twice
    /// that; else to a batch.
    pub(super) fn keep_free(&mut self, node: NodeId) -> Result<(), SimError> {
        let (low, high) = match self.low_pages(node) {
            Some(low) => (low, 2 * low),
            None => {
                let nr_batch = self.tiers.nr_batch_pages(node);
                (nr_batch, nr_batch)
            }
        };
        if self.nr_free_of(node) < low {
            self.reclaim_node(node, Origin::Background, high)?;
        }
        Ok(())
    }

    /// What the background keeps free: of all of memory, or a node's share of that, which is less than half of the node.
    fn low_pages(&self, node: NodeId) -> Option<u64> {
        let memory_pages = self.setup.memory_pages;
        let of_all = u64::from(self.setup.background?.pages(memory_pages));
        let Some(node) = self.tiers.get(node) else {
            return Some(of_all);
        };
        let nr_pages = u64::from(node.nr_pages);
        let share = of_all * nr_pages / u64::from(memory_pages);
        Some(share.clamp(1, (nr_pages / 2).max(1)))
    }

    /// Pages that are free on a node, which is all of memory if that is not divided.
    pub(super) fn nr_free_of(&self, node: NodeId) -> u64 {
        match self.tiers.get(node) {
            Some(node) => node.nr_free.into(),
            None => self.nr_free_pages().into(),
        }
    }

    /// Frees at least so many pages of several groups, as the engine says; the pages freed.
    pub(super) fn reclaim_groups(
        &mut self,
        mut goal: Goal,
        nr_pages: u64,
    ) -> Result<u64, SimError> {
        let node = match goal.target {
            Target::Node(node) => node,
            Target::Group(_) => FAST,
        };
        let nr_reclaim = u64::from(self.nr_reclaim_pages);
        let (nr_least, nr_batch) = match self.tiers.is_any() {
            true => (1, self.tiers.nr_batch_pages(node)),
            false => (nr_reclaim, nr_reclaim * u64::from(BATCH_PER_WANTED)),
        };
        goal.nr_pages = nr_pages.max(nr_least);
        goal.nr_batch_pages = nr_batch;
        goal.swappiness = self.setup.swappiness;
        if let (Target::Node(_), Some(low)) = (goal.target, self.low_pages(node)) {
            goal.nr_short_pages = (2 * low).checked_sub(self.nr_free_of(node));
        }
        let mut purpose = Purpose {
            is_limit: matches!(goal.target, Target::Group(_)),
            ..Purpose::memory(goal.origin)
        };
        let mut reclaim = Reclaim::new(goal);
        loop {
            match reclaim.next(&mut *self.policy, self.now, &mut self.batch)? {
                Step::Evict { group } => {
                    purpose.swap_room_pages = self.policy.groups().swap_room_pages(group)?;
                    reclaim.freed(self.try_batch(purpose)?);
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

    /// Whether the policy decides how much is scanned, as one without walks does: it is asked until enough has left.
    fn policy_scans_alone(&mut self) -> bool {
        self.policy.walks().is_none()
    }

    /// Frees some pages of the only group; how many.
    pub(super) fn reclaim(&mut self, group: GroupId) -> Result<u64, SimError> {
        let goal = u64::from(self.nr_reclaim_pages);
        let mut nr_freed = 0;
        match self.policy_scans_alone() {
            true => {
                while nr_freed < goal
                    && let Some(pass) = self.take_batch(group, PRIORITY_RELAXED)?
                {
                    nr_freed += pass.nr_freed;
                }
            }
            false => {
                for priority in (0..=PRIORITY_RELAXED).rev() {
                    nr_freed += self.shrink(group, priority, goal.saturating_sub(nr_freed))?;
                    if nr_freed >= goal {
                        break;
                    }
                }
            }
        }
        Ok(nr_freed)
    }

    /// Scans at one priority; the pages it freed.
    pub(super) fn shrink(
        &mut self,
        group: GroupId,
        priority: u8,
        goal: u64,
    ) -> Result<u64, SimError> {
        let swappiness = self.setup.swappiness;
        let aborting = self.policy.aborting();
        let puts_walk_off = self.policy.relaxed_walk() == RelaxedWalk::PutOff;
        let (mut nr_freed, mut nr_scanned) = (0, 0);
        loop {
            let evictable = Kind::ALL
                .into_iter()
                .filter(|kind| swappiness.allows(*kind));
            let evictable = evictable.map(|kind| u64::from(self.nr_pages[kind.index()]));
            let budget = evictable.sum::<u64>() >> priority;
            match self.policy.ageing(group, swappiness)? {
                Ageing::NotDue => {}
                Ageing::Preferred if priority == PRIORITY_RELAXED => {}
                Ageing::Due if priority == PRIORITY_RELAXED && puts_walk_off => {
                    return Ok(nr_freed);
                }
                Ageing::Preferred | Ageing::Due => {
                    self.walk(group, None, swappiness)?;
                    if aborting == Aborting::AfterWalk {
                        return Ok(nr_freed);
                    }
                }
            }
            if nr_scanned >= budget {
                return Ok(nr_freed);
            }
            let Some(pass) = self.take_batch(group, priority)? else {
                return Ok(nr_freed);
            };
            nr_scanned += pass.nr_scanned;
            nr_freed += pass.nr_freed;
            if nr_scanned >= budget || aborting != Aborting::AfterWalk && nr_freed >= goal {
                return Ok(nr_freed);
            }
        }
    }

    /// Has a batch isolated and tries it; `None` if there was nothing to be had.
    pub(super) fn take_batch(
        &mut self,
        group: GroupId,
        priority: u8,
    ) -> Result<Option<Pass>, SimError> {
        let nr_pages = match self.policy_scans_alone() {
            true => self.nr_reclaim_pages,
            false => self.nr_reclaim_pages * BATCH_PER_WANTED,
        };
        let request = ReclaimRequest {
            swappiness: self.setup.swappiness,
            priority,
            nr_passes_max: 1,
            ..ReclaimRequest::new(group, u64::from(nr_pages))
        };
        let nr_before = self.policy.stats(group)?.nr_scanned_pages;
        let end = self.policy.isolate(request, self.now, &mut self.batch)?;
        let nr_scanned = self.policy.stats(group)?.nr_scanned_pages - nr_before;
        if self.batch.is_empty() {
            // What was sorted away is no scan, but an emptied generation makes it worth going on.
            let pass = Pass {
                nr_scanned: 1,
                nr_freed: 0,
            };
            return Ok((end == Isolated::Again).then_some(pass));
        }
        Ok(Some(Pass {
            nr_scanned,
            nr_freed: self.try_batch(Purpose::memory(Origin::Direct))?,
        }))
    }

    /// Tries what the policy handed out; the pages that left memory, or the node if that is enough.
    pub(super) fn try_batch(&mut self, mut purpose: Purpose) -> Result<u64, SimError> {
        if self.batch.is_empty() {
            return Ok(0);
        }
        // Taken: a page that moves down may have another node reclaimed from before this batch is through.
        let mut batch = std::mem::take(&mut self.batch);
        let mut fates = std::mem::take(&mut self.fates);
        fates.clear();
        for folio in &batch.folios {
            self.memory.isolated.set(self.memory.slot(*folio));
        }
        self.counts.looks.tried(&batch, &self.memory);
        let nr_written = self.counts.nr_written;
        for folio in &batch.folios {
            fates.push(self.fate(*folio, &mut purpose)?);
        }
        batch.nr_written_pages = self.counts.nr_written - nr_written;
        let memory = &mut self.memory;
        let is_young = |folio: &FolioId| memory.accessed.take(memory.slot(*folio));
        batch.young.clear();
        batch.young.extend(batch.to_check.iter().map(is_young));
        match self.policy.tiering() {
            Some(tiering) => tiering.complete_outcomes(&mut batch, &fates, purpose.origin),
            None => {
                self.verdicts.clear();
                self.verdicts
                    .extend(fates.iter().filter_map(|fate| match fate {
                        Fate::Tried(verdict) => Some(*verdict),
                        Fate::Demoted(_) => None,
                    }));
                self.policy.complete(&mut batch, &self.verdicts);
            }
        }
        let mut nr_freed = 0;
        for (number, (folio, fate)) in batch.folios.iter().zip(&fates).enumerate() {
            let slot = self.memory.slot(*folio);
            self.memory.isolated.clear(slot);
            match *fate {
                Fate::Tried(Verdict::Evicted) => {
                    self.nr_pages[self.kind_at(slot).index()] -= 1;
                    self.tiers.leave(slot);
                    self.counts.looks.looked_up(slot, &self.memory);
                    self.memory.leave(slot, batch.shadows[number]);
                    nr_freed += 1;
                }
                Fate::Demoted(to) => {
                    self.tiers.moved_down(slot, to);
                    nr_freed += u64::from(!purpose.is_limit);
                }
                // Reclaim that meets dirty pages wakes the flusher.
                Fate::Tried(Verdict::Dirty) => self.write(slot),
                Fate::Tried(_) => {}
            }
        }
        (self.batch, self.fates) = (batch, fates);
        Ok(nr_freed)
    }

    /// What becomes of a folio that is tried.
    fn fate(&mut self, folio: FolioId, purpose: &mut Purpose) -> Result<Fate, SimError> {
        let slot = self.memory.slot(folio);
        if self.memory.accessed.take(slot) {
            self.spaces.ran(slot);
            let (tables, tiers) = self.tables();
            let node = tiers.node(slot);
            tables.look_around(folio, slot, |of| tiers.node(of) == node);
            return Ok(Fate::Tried(Verdict::Referenced));
        }
        if self.tiers.is_any()
            && let Some(below) = self.room_below(slot, *purpose)?
        {
            return Ok(Fate::Demoted(below));
        }
        let kind = self.kind_at(slot);
        if kind == Kind::Anon {
            // No room in swap: it can't go.
            if purpose.swap_room_pages == 0 {
                return Ok(Fate::Tried(Verdict::Busy));
            }
            purpose.swap_room_pages -= 1;
        }
        if self.memory.dirty.get(slot) {
            if kind == Kind::File && !self.tiers.is_any() {
                return Ok(Fate::Tried(Verdict::Dirty));
            }
            // Swap is compressed memory: written at once, so the page can go. On tiers so is what is of files.
            self.counts.nr_written += 1;
        }
        Ok(Fate::Tried(Verdict::Evicted))
    }
}

/// What one batch came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    nr_scanned: u64,
    nr_freed: u64,
}
