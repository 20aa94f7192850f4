//! Direct reclaim of a full group: from relaxed to desperate, until 32 pages are free.
//!
//! ```text
//!   make_room   until there is room for a page: in memory, and below every limit of a tree of groups
//!   reclaim     priority 12, 11, ... 0        until 32 pages are free
//!   shrink      budget = evictable >> priority; ageing due? (mostly not at priority 12) walk, leave
//!   take_batch  isolate up to 64 -> accessed bits -> verdicts -> complete
//! ```
//!
//! **Owns** budgets, verdicts and shadows' way into `memory`. **Does not own** which pages are handed
//! out (the policy).

use strata_lru::{
    Aborting, Ageing, Excess, FolioId, Goal, GroupId, Isolated, Kind, NodeId, Origin, Policy,
    Reclaim, ReclaimRequest, RelaxedWalk, Step, Swappiness, Target, Verdict,
};

use super::{Machine, walk::PageTables};
use crate::simulate::SimError;

/// The priority of relaxed scanning.
const PRIORITY_RELAXED: u8 = 12;

/// Reclaims in vain before the group is out of memory (the kernel's `MAX_RECLAIM_RETRIES`).
const NR_RETRIES_MAX: u32 = 16;

/// Pages in a batch, for each page reclaim wants (64 for 32).
const BATCH_PER_WANTED: u32 = 2;

/// What a page that comes in lacks.
#[derive(Clone, Copy, Debug)]
enum Need {
    /// Memory, all of which is one group's.
    Only,
    /// Memory, of whichever group.
    Memory,
    /// Room below a limit.
    Limit(Excess),
}

/// Who decides how much is scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The mechanism, priority by priority, as for the multi-generational LRU.
    Mechanism,
    /// The policy: it is asked until enough has left.
    Policy,
}

impl<P: Policy> Machine<'_, P> {
    /// Walks the group's page tables and begins a generation.
    pub(super) fn walk(&mut self, group: GroupId, swappiness: Swappiness) -> Result<(), SimError> {
        let now = self.now;
        let all = |_: u32| true;
        Ok(self
            .tables()
            .walk(group, NodeId::default(), swappiness, now, all)?)
    }

    /// Its page tables.
    fn tables(&mut self) -> PageTables<'_, P> {
        PageTables {
            policy: &mut self.policy,
            layout: &self.layout,
            memory: &mut self.memory,
            spaces: &mut self.spaces,
        }
    }

    /// Reclaims until a page can be charged.
    pub(super) fn make_room(&mut self, group: GroupId) -> Result<(), SimError> {
        let mut nr_in_vain = 0;
        while let Some(need) = self.need(group)? {
            let nr_freed = match need {
                Need::Only => self.reclaim(group)?,
                Need::Memory => {
                    let goal = Goal::of_node(NodeId::default(), 0, Origin::Direct);
                    self.reclaim_groups(goal, 0)?
                }
                Need::Limit(excess) => self.reclaim_groups(Goal::over_max(excess), 0)?,
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
        Ok((self.nr_free_pages() == 0).then_some(need))
    }

    pub(super) fn nr_free_pages(&self) -> u32 {
        let nr_pages = self.nr_pages[0] + self.nr_pages[1];
        self.limit_pages.saturating_sub(nr_pages)
    }

    fn out_of_memory(&self, need: Need) -> Result<SimError, SimError> {
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
    /// background makes some. Both may come to nothing.
    pub(super) fn relieve(&mut self, group: GroupId) -> Result<(), SimError> {
        if !self.groups.is_tree() {
            return Ok(());
        }
        if let Some(excess) = self.policy.groups().over_high(group)? {
            self.reclaim_groups(Goal::over_high(excess), excess.nr_pages)?;
        }
        let Some(low) = self.setup.background else {
            return Ok(());
        };
        let low = low.pages(self.setup.memory_pages);
        let nr_free = self.nr_free_pages();
        if nr_free < low {
            let nr_pages = 2 * u64::from(low) - u64::from(nr_free);
            let goal = Goal::of_node(NodeId::default(), 0, Origin::Background);
            self.reclaim_groups(goal, nr_pages)?;
        }
        Ok(())
    }

    /// Frees at least so many pages of several groups, as the engine says; the pages freed.
    fn reclaim_groups(&mut self, mut goal: Goal, nr_pages: u64) -> Result<u64, SimError> {
        goal.nr_pages = nr_pages.max(u64::from(self.nr_reclaim_pages));
        goal.nr_batch_pages = u64::from(self.nr_reclaim_pages * BATCH_PER_WANTED);
        goal.swappiness = self.setup.swappiness;
        if let (Target::Node(_), Some(low)) = (goal.target, self.setup.background) {
            let high = 2 * u64::from(low.pages(self.setup.memory_pages));
            goal.nr_short_pages = high.checked_sub(u64::from(self.nr_free_pages()));
        }
        let mut reclaim = Reclaim::new(goal);
        loop {
            let mut batch = std::mem::take(&mut self.batch);
            let step = reclaim.next(&mut self.policy, self.now, &mut batch)?;
            self.batch = batch;
            match step {
                Step::Evict { group } => {
                    self.swap_room_pages = self.policy.groups().swap_room_pages(group)?;
                    reclaim.freed(self.try_batch());
                }
                Step::Walk {
                    group, swappiness, ..
                } => self.walk(group, swappiness)?,
                Step::Done(outcome) => return Ok(outcome.nr_freed_pages),
            }
        }
    }

    /// Frees some pages of the only group; how many.
    pub(super) fn reclaim(&mut self, group: GroupId) -> Result<u64, SimError> {
        let goal = u64::from(self.nr_reclaim_pages);
        let mut nr_freed = 0;
        match self.driver {
            Driver::Policy => {
                while nr_freed < goal
                    && let Some(pass) = self.take_batch(group, PRIORITY_RELAXED)?
                {
                    nr_freed += pass.nr_freed;
                }
            }
            Driver::Mechanism => {
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
                    self.walk(group, swappiness)?;
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
        let nr_pages = match self.driver {
            Driver::Mechanism => self.nr_reclaim_pages * BATCH_PER_WANTED,
            Driver::Policy => self.nr_reclaim_pages,
        };
        let request = ReclaimRequest {
            swappiness: self.setup.swappiness,
            priority,
            nr_passes_max: 1,
            ..ReclaimRequest::new(group, u64::from(nr_pages))
        };
        let nr_before = self.policy.stats(group)?.nr_scanned_pages;
        let mut batch = std::mem::take(&mut self.batch);
        let end = self.policy.isolate(request, self.now, &mut batch)?;
        let nr_scanned = self.policy.stats(group)?.nr_scanned_pages - nr_before;
        if batch.is_empty() {
            self.batch = batch;
            // What was sorted away is no scan, but an emptied generation makes it worth going on.
            let pass = Pass {
                nr_scanned: 1,
                nr_freed: 0,
            };
            return Ok((end == Isolated::Again).then_some(pass));
        }
        self.batch = batch;
        Ok(Some(Pass {
            nr_scanned,
            nr_freed: self.try_batch(),
        }))
    }

    /// Tries what the policy handed out; the pages that left memory.
    pub(super) fn try_batch(&mut self) -> u64 {
        let mut batch = std::mem::take(&mut self.batch);
        let mut verdicts = std::mem::take(&mut self.verdicts);
        verdicts.clear();
        for folio in &batch.folios {
            self.memory.isolated.set(self.memory.slot(*folio));
        }
        self.counts.looks.tried(&batch, &self.memory);
        let nr_written = self.counts.nr_written;
        verdicts.extend(batch.folios.iter().map(|folio| self.verdict(*folio)));
        batch.nr_written_pages = self.counts.nr_written - nr_written;
        let memory = &mut self.memory;
        let is_young = |folio: &FolioId| memory.accessed.take(memory.slot(*folio));
        batch.young.clear();
        batch.young.extend(batch.to_check.iter().map(is_young));
        self.policy.complete(&mut batch, &verdicts);
        let mut nr_freed = 0;
        for (number, (folio, verdict)) in batch.folios.iter().zip(&verdicts).enumerate() {
            let slot = self.memory.slot(*folio);
            self.memory.isolated.clear(slot);
            match verdict {
                Verdict::Evicted => {
                    let kind = super::kind_of(self.workload.page(self.layout.page(slot)).backing);
                    self.nr_pages[kind.index()] -= 1;
                    self.counts.looks.looked_up(slot, &self.memory);
                    self.memory.leave(slot, batch.shadows[number]);
                    nr_freed += 1;
                }
                // Reclaim that meets dirty pages wakes the flusher.
                Verdict::Dirty => self.write(slot),
                _ => {}
            }
        }
        (self.batch, self.verdicts) = (batch, verdicts);
        nr_freed
    }

    /// What becomes of a folio that is tried.
    fn verdict(&mut self, folio: FolioId) -> Verdict {
        let slot = self.memory.slot(folio);
        if self.memory.accessed.take(slot) {
            self.spaces.ran(slot);
            self.tables().look_around(folio, slot, |_| true);
            return Verdict::Referenced;
        }
        let kind = super::kind_of(self.workload.page(self.layout.page(slot)).backing);
        if kind == Kind::Anon {
            // No room in swap: it can't go.
            if self.swap_room_pages == 0 {
                return Verdict::Busy;
            }
            self.swap_room_pages -= 1;
        }
        if self.memory.dirty.get(slot) {
            match kind {
                Kind::File => return Verdict::Dirty,
                // Swap is compressed memory: written at once, so the page can go.
                Kind::Anon => self.counts.nr_written += 1,
            }
        }
        Verdict::Evicted
    }
}

/// What one batch came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    nr_scanned: u64,
    nr_freed: u64,
}
