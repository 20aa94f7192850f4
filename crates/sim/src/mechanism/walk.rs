//! Walks: every page table the filters let through, its accessed bits taken and reported.
//!
//! A space has run if it was accessed since its last walk, or is the one that faults; how much it maps is told
//! then. Who reads through a descriptor is not known, so with such a read all have run. A space that sleeps is passed over, as is by some kernels one that maps little.
//!
//! Where memory is in tiers each node ages by itself: a walk takes the accessed bits of one node's pages.
//!
//! **Owns** the spaces, and the visit. **Does not own** which spaces and tables are worth it (the policy).

use std::ops::Range;

use strata_lru::{
    AccessVia, AgeingWalks, Cause, FolioId, GroupId, LookAround, LookAroundBy, NextSpace, NodeId,
    Policy, PolicyError, Scan, SpaceSlot, Swappiness, TableBit, TableId, TableScan, TimeMs, Walk,
};
use strata_trace::Backing;

use super::{
    bits::Bits,
    layout::{Layout, NR_TABLE_ENTRIES},
    memory::Memory,
};
use crate::workload::Workload;

/// A space of page tables, as the policy knows it.
#[derive(Clone, Debug)]
struct Space {
    id: SpaceSlot,
    tables: Range<u32>,
    slots: Range<u32>,
    /// Reclaim has taken an accessed bit of it since its last walk.
    has_run: bool,
}

/// Everything that has page tables.
#[derive(Debug)]
pub(super) struct Spaces {
    /// In the order of their numbers.
    spaces: Vec<Space>,
    /// By slot.
    anon: Bits,
    running: Running,
    /// What was found accessed last.
    young: Vec<FolioId>,
}

/// Who is on a processor while reclaim walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    /// The space that faults.
    One(usize),
    /// Who reads through a descriptor is not known: it may be any.
    Any,
}

impl Spaces {
    /// Tells the policy of every space that has page tables.
    pub(super) fn add<P: Policy + ?Sized>(
        policy: &mut P,
        group_of: impl Fn(u32) -> GroupId,
        layout: &Layout,
        workload: &Workload,
    ) -> Result<Spaces, PolicyError> {
        let mut spaces = Spaces {
            spaces: Vec::new(),
            anon: Bits::new(0),
            running: Running::Any,
            young: Vec::new(),
        };
        let Some(walks) = policy.walks() else {
            return Ok(spaces);
        };
        for tables in layout.spaces() {
            let slots = layout.slots_of(tables.start).start..layout.slots_of(tables.end - 1).end;
            // A space belongs to who came first, as the program that made it.
            let id = walks.space_added(group_of(slots.start))?;
            spaces.spaces.push(Space {
                id,
                tables,
                slots,
                has_run: false,
            });
        }
        if !spaces.spaces.is_empty() {
            spaces.anon = Bits::new(layout.nr_slots());
            let is_anon = |slot: &u32| workload.page(layout.page(*slot)).backing == Backing::Anon;
            let slots = (0..layout.nr_slots()).filter(is_anon);
            slots.for_each(|slot| spaces.anon.set(slot));
        }
        Ok(spaces)
    }

    fn position(&self, slot: u32) -> Option<usize> {
        let is_before = |space: &Space| space.slots.start <= slot;
        self.spaces.partition_point(is_before).checked_sub(1)
    }

    /// Reclaim found a page accessed, and cleared its bit.
    pub(super) fn ran(&mut self, slot: u32) {
        if let Some(at) = self.position(slot) {
            self.spaces[at].has_run = true;
        }
    }

    /// A page is brought in.
    pub(super) fn faults(&mut self, slot: u32, cause: Cause) {
        self.running = match (cause, self.position(slot)) {
            (Cause::Fault, Some(at)) => Running::One(at),
            _ => Running::Any,
        };
    }

    /// Says which spaces have run since their last walk, and how much these map.
    pub(super) fn tell(&mut self, walks: &mut dyn AgeingWalks, memory: &Memory) {
        for (at, space) in self.spaces.iter_mut().enumerate() {
            let Range { start, end } = space.slots;
            let is_on_processor = [Running::One(at), Running::Any].contains(&self.running);
            let was_on_processor = std::mem::take(&mut space.has_run);
            if is_on_processor || was_on_processor || !memory.accessed.is_clear(start, end) {
                walks.space_ran(space.id);
                let nr_pages = memory.mapped.count_by(&self.anon, start, end);
                walks.space_sized(space.id, nr_pages);
            }
        }
    }

    /// The tables of a space.
    pub(super) fn tables(&self, id: SpaceSlot) -> Range<u32> {
        // Numbers are given in ascending order.
        let position = self.spaces.partition_point(|space| space.id < id);
        self.spaces[position].tables.clone()
    }
}

/// Page tables, and the policy that hears what is found in them.
pub(super) struct PageTables<'a, P: ?Sized> {
    pub(super) policy: &'a mut P,
    pub(super) layout: &'a Layout,
    pub(super) memory: &'a mut Memory,
    pub(super) spaces: &'a mut Spaces,
}

impl<P: Policy + ?Sized> PageTables<'_, P> {
    /// Walks a group's page tables for a node and begins a generation there; `lies_there` says of which slots the pages lie on
    /// it.
    pub(super) fn walk(
        mut self,
        group: GroupId,
        node: NodeId,
        swappiness: Swappiness,
        now: TimeMs,
        lies_there: impl Fn(u32) -> bool,
    ) -> Result<(), PolicyError> {
        let Some(walks) = self.policy.walks() else {
            return Ok(());
        };
        self.spaces.tell(walks, self.memory);
        let mut walk = walks.begin_walk(group, node, swappiness, Scan::Filtered)?;
        while let Some(walks) = self.policy.walks()
            && let NextSpace::Space(id) = walks.next_space(&mut walk)
        {
            for table in self.spaces.tables(id) {
                self.visit_if_worth_it(&walk, table, &lies_there);
            }
        }
        if let Some(walks) = self.policy.walks() {
            walks.finish(walk, now);
        }
        Ok(())
    }

    /// Asks about a table, and visits it.
    fn visit_if_worth_it(&mut self, walk: &Walk, table: u32, lies_there: impl Fn(u32) -> bool) {
        let Range { start, end } = self.layout.slots_of(table);
        if self.memory.mapped.is_clear(start, end) {
            return;
        }
        let id = TableId(u64::from(table));
        // The bit above a table is set by the walk of the processor that sets one in it.
        let bit = match self.memory.accessed.is_clear(start, end) {
            true => TableBit::Clear,
            false => TableBit::Set,
        };
        let Some(walks) = self.policy.walks() else {
            return;
        };
        if !walks.should_scan(walk, id, bit) {
            return;
        }
        self.take_young(start..end, |_, slot| lies_there(slot));
        let young = &self.spaces.young;
        for folio in young {
            self.policy.accessed(*folio, AccessVia::PageTable);
        }
        let scan = TableScan::Read {
            nr_entries: NR_TABLE_ENTRIES,
            nr_young: young.len() as u32,
        };
        if let Some(walks) = self.policy.walks() {
            walks.scanned(walk, id, scan);
        }
    }

    /// Looks at the entries around one that was accessed, and clears those that were too. The other
    /// folios of the batch keep their bits: they are looked at themselves, and kernels have been seen
    /// to spare each of them (docs/validation/fidelity.md).
    pub(super) fn look_around(
        mut self,
        folio: FolioId,
        slot: u32,
        lies_there: impl Fn(u32) -> bool,
    ) {
        if self.policy.walks().is_none() {
            return;
        }
        self.take_young(self.layout.window(slot), |memory, slot| {
            lies_there(slot) && !memory.isolated.get(slot)
        });
        if let Some(walks) = self.policy.walks() {
            walks.looked_around(LookAround {
                folio,
                table: TableId(u64::from(self.layout.table(slot))),
                nr_entries: NR_TABLE_ENTRIES.min(strata_lru::NR_LOOK_AROUND_ENTRIES as u32),
                young: &self.spaces.young,
                by: LookAroundBy::Walker,
            });
        }
    }

    /// Clears the accessed bits of these slots, as far as `takes` says so, and notes whose they were.
    fn take_young(&mut self, slots: Range<u32>, takes: impl Fn(&Memory, u32) -> bool) {
        let Range { start, end } = slots;
        let (memory, young) = (&mut *self.memory, &mut self.spaces.young);
        young.clear();
        for word in Bits::words_of(start, end) {
            let mut bits = memory.accessed.take_of_word(word, start, end);
            while bits != 0 {
                let slot = word as u32 * u64::BITS + bits.trailing_zeros();
                bits &= bits - 1;
                match takes(memory, slot) {
                    true => young.extend(memory.folio(slot)),
                    false => memory.accessed.set(slot),
                }
            }
        }
    }
}
