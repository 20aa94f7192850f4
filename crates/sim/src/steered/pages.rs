//! The pages as Strata knows them: Strata's own engine, fed by walks of the played page tables.
//!
//! It is what the host's tracker is on a live group: a page that walks found is a folio of the engine until a walk or
//! pageout finds it gone; then its shadow is kept at its place until it is back. What happens between two
//! walks Strata does not see.
//!
//! **Owns** which of the engine's folios is at which page, what is kept of absent ones, and the one batch that is out.
//! **Does not own** the played kernel (`mechanism`), nor when a walk comes or a page goes (`tick`).
//!
//! **Invariants**
//! - I1: at most one batch is out; of its folios nothing is said until it is settled, but that they were accessed.
//! - I2: [`Pages::validate`]: every page that is tracked has a folio of the engine, and the engine adds up.

use std::ops::Range;

use strata_control::trace::Found;
use strata_lru::{
    AccessVia, Arrival, Cause, Config, EvictBatch, FolioId, GoneCause, GroupId, Isolated, MinTtl,
    MultiGen, NodeId, Order, Policy, ReclaimRequest, ReclaimStats, SpaceNo, Swappiness, TimeMs,
    Verdict,
};

use crate::{
    mechanism::{
        Machine, PRIORITY_RELAXED, PlaysKernel,
        bits::Bits,
        kind_of,
        layout::{Layout, NR_TABLE_ENTRIES},
        memory::{Memory, Place},
    },
    simulate::SimError,
    workload::Workload,
};
use strata_trace::Backing;

/// One address space.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) number: SpaceNo,
    pub(super) tables: Range<u32>,
    slots: Range<u32>,
    /// What its program had used of the processors at the last walk that cleared.
    pub(super) cpu_ns_at_walk: Option<u64>,
    /// What the last walk found.
    pub(super) found: Found,
    /// Entries of the tables that it read.
    pub(super) nr_entries: u64,
}

/// All that Strata knows of the group's pages.
#[derive(Debug)]
pub(super) struct Pages {
    policy: MultiGen,
    group: GroupId,
    /// Folios and shadows by slot, and which are in flight.
    memory: Memory,
    /// Seen accessed since the last walk by somebody other than a walk.
    seen: Bits,
    /// On the inactive lists of the classic LRU at the last walk.
    pub(super) inactive: Bits,
    spaces: Vec<Space>,
    batch: EvictBatch,
    is_batch_out: bool,
}

impl Pages {
    /// Nothing known yet; the engine is what the host runs.
    ///
    /// # Errors
    /// The engine refuses.
    pub(super) fn new(workload: &Workload, layout: &Layout) -> Result<Pages, SimError> {
        let mut policy = MultiGen::new(Config {
            min_ttl: MinTtl::EachByItself,
            ..Config::default()
        })?;
        let group = policy.add_group("/", TimeMs(0))?;
        let spaces = layout.spaces().map(|tables| {
            let slots = layout.slots_of(tables.start).start..layout.slots_of(tables.end - 1).end;
            let first = workload.page(layout.page(slots.start));
            Space {
                number: SpaceNo(first.key.space),
                tables,
                slots,
                cpu_ns_at_walk: None,
                found: Found::default(),
                nr_entries: 0,
            }
        });
        Ok(Pages {
            policy,
            group,
            memory: Memory::new(layout),
            seen: Bits::new(layout.nr_slots()),
            inactive: Bits::new(layout.nr_slots()),
            spaces: spaces.collect(),
            batch: EvictBatch::default(),
            is_batch_out: false,
        })
    }

    pub(super) fn spaces(&self) -> &[Space] {
        &self.spaces
    }

    pub(super) fn space_mut(&mut self, index: usize) -> &mut Space {
        &mut self.spaces[index]
    }

    /// What the last walk found in all spaces.
    pub(super) fn found(&self) -> Found {
        self.spaces.iter().map(|of| of.found).sum()
    }

    /// The engine's counters.
    pub(super) fn stats(&self) -> Result<ReclaimStats, SimError> {
        Ok(self.policy.stats(self.group)?)
    }

    /// A walk leaves a space out, because its program has not run.
    pub(super) fn leave_out(&mut self, index: usize) {
        let space = &mut self.spaces[index];
        for word in Bits::words_of(space.slots.start, space.slots.end) {
            self.seen
                .take_of_word(word, space.slots.start, space.slots.end);
            self.inactive
                .take_of_word(word, space.slots.start, space.slots.end);
        }
    }

    /// Reads the tables of a space and tells the engine what it found. Accessed bits stay as they are; `young` is what
    /// was found set, in the order of slots.
    ///
    /// # Errors
    /// The engine refuses.
    pub(super) fn walk<P: PlaysKernel>(
        &mut self,
        index: usize,
        machine: &Machine<'_, P>,
        young: &mut Vec<u32>,
    ) -> Result<(), SimError> {
        let slots = self.spaces[index].slots.clone();
        let (mut found, mut nr_entries) = (Found::default(), 0);
        for table in self.spaces[index].tables.clone() {
            if !machine.is_unmapped(machine.layout().slots_of(table)) {
                nr_entries += u64::from(NR_TABLE_ENTRIES);
            }
        }
        for slot in slots {
            self.visit(slot, machine, &mut found, young)?;
        }
        let space = &mut self.spaces[index];
        (space.found, space.nr_entries) = (found, nr_entries);
        Ok(())
    }

    fn visit<P: PlaysKernel>(
        &mut self,
        slot: u32,
        machine: &Machine<'_, P>,
        found: &mut Found,
        young: &mut Vec<u32>,
    ) -> Result<(), SimError> {
        let entry = machine.entry(slot);
        let was_seen = self.seen.take(slot);
        let known = self.memory.folio(slot);
        if !entry.is_present {
            self.inactive.clear(slot);
            if let Some(folio) = known.filter(|_| !self.memory.isolated.get(slot)) {
                let cause = match entry.is_swapped {
                    true => GoneCause::Reclaimed,
                    false => GoneCause::Freed,
                };
                *match entry.is_swapped {
                    true => &mut found.nr_reclaimed_pages,
                    false => &mut found.nr_freed_pages,
                } += 1;
                self.lose(slot, folio, cause);
            } else if known.is_none() && !entry.is_swapped {
                // What was given back leaves no shadow.
                self.memory.leave(slot, None);
            }
            return Ok(());
        }
        match machine.is_inactive(slot) {
            true => self.inactive.set(slot),
            false => self.inactive.clear(slot),
        }
        let folio = match known {
            Some(folio) => folio,
            None => {
                found.nr_appeared_pages += 1;
                let is_back = matches!(self.memory.place(slot), Place::Absent(Some(_)));
                found.nr_refaulted_pages += u64::from(is_back);
                self.appear(slot, machine.backing_at(slot), entry.is_accessed)?
            }
        };
        let kind = machine.kind_at(slot).index();
        found.nr_resident_pages[kind] += 1;
        if entry.is_accessed {
            young.push(slot);
        }
        if entry.is_accessed || was_seen {
            found.nr_young_pages[kind] += 1;
            self.policy.accessed(folio, AccessVia::PageTable);
        }
        Ok(())
    }

    fn appear(
        &mut self,
        slot: u32,
        backing: Backing,
        is_accessed: bool,
    ) -> Result<FolioId, SimError> {
        let shadow = match self.memory.place(slot) {
            Place::Absent(shadow) => shadow,
            Place::Resident(folio) => return Ok(folio),
        };
        let folio = self.policy.appeared(Arrival {
            group: self.group,
            node: NodeId::default(),
            kind: kind_of(backing),
            order: Order::BASE,
            cause: match is_accessed {
                true => Cause::Fault,
                false => Cause::Prefetch,
            },
            shadow,
            is_exec: backing == Backing::Code,
        })?;
        self.memory.enter(slot, folio);
        Ok(folio)
    }

    fn lose(&mut self, slot: u32, folio: FolioId, cause: GoneCause) {
        let shadow = self.policy.gone(folio, cause);
        self.memory.leave(slot, shadow);
    }

    /// Ends a walk: a generation is born.
    ///
    /// # Errors
    /// The engine refuses.
    pub(super) fn finish_walk(
        &mut self,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(), SimError> {
        Ok(self.policy.finish_walk(self.group, swappiness, now)?)
    }

    /// Whether a batch is out.
    pub(super) fn is_batch_out(&self) -> bool {
        self.is_batch_out
    }

    /// Takes what the generations give.
    ///
    /// # Errors
    /// The engine refuses.
    pub(super) fn isolate(
        &mut self,
        nr_pages: u64,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(Isolated, Vec<u32>), SimError> {
        let request = ReclaimRequest {
            swappiness,
            priority: PRIORITY_RELAXED,
            ..ReclaimRequest::new(self.group, nr_pages)
        };
        let answer = self.policy.isolate(request, now, &mut self.batch)?;
        Ok((answer, self.send_out()))
    }

    fn send_out(&mut self) -> Vec<u32> {
        let slots = self
            .batch
            .folios
            .iter()
            .map(|folio| self.memory.slot(*folio));
        let mut slots: Vec<u32> = slots.collect();
        slots
            .iter()
            .for_each(|slot| self.memory.isolated.set(*slot));
        self.is_batch_out = !slots.is_empty();
        slots.sort_unstable();
        slots
    }

    /// Somebody found these accessed, beside what was to go: neighbours of spared pages, and the others of their tables.
    pub(super) fn note_accessed(&mut self, neighbours: &[u32], others: &[u32]) {
        for slot in neighbours {
            if let Some(folio) = self.memory.folio(*slot) {
                self.policy.accessed(folio, AccessVia::PageTable);
            }
        }
        for slot in others {
            self.seen.set(*slot);
        }
    }

    /// The batch is back: what became of each page, by slot in ascending order.
    pub(super) fn settle(&mut self, verdicts: &[(u32, Verdict)]) {
        if !std::mem::take(&mut self.is_batch_out) {
            return;
        }
        let of_slot = |slot: u32| {
            let at = verdicts.binary_search_by_key(&slot, |of| of.0);
            at.map_or(Verdict::NotTried, |at| verdicts[at].1)
        };
        let slots: Vec<u32> = self
            .batch
            .folios
            .iter()
            .map(|of| self.memory.slot(*of))
            .collect();
        let by_folio: Vec<Verdict> = slots.iter().map(|slot| of_slot(*slot)).collect();
        let mut batch = std::mem::take(&mut self.batch);
        self.policy.complete(&mut batch, &by_folio);
        for (position, (slot, verdict)) in slots.into_iter().zip(by_folio).enumerate() {
            self.memory.isolated.clear(slot);
            if matches!(verdict, Verdict::Evicted | Verdict::Gone) {
                let shadow = batch.shadows.get(position).copied().flatten();
                self.memory.leave(slot, shadow);
            }
        }
        batch.clear();
        self.batch = batch;
    }

    /// Recounts.
    #[cfg(test)]
    pub(super) fn validate(&self) -> Result<(), String> {
        self.policy.validate()?;
        for space in &self.spaces {
            for slot in space.slots.clone() {
                if let Some(folio) = self.memory.folio(slot)
                    && self.memory.slot(folio) != slot
                {
                    return Err(format!("{folio:?} lies elsewhere than at {slot}"));
                }
            }
        }
        Ok(())
    }
}
