//! Walks: every page table the filters let through, its accessed bits taken and reported.
//!
//! A space has run if it was accessed since its last walk, or is the one that faults; how much it maps is told
//! then. Who reads through a descriptor is not known, so with such a read all have run. A space that sleeps is passed over, as is by some kernels one that maps little.
//!
//! **Owns** the spaces, and the visit. **Does not own** which spaces and tables are worth it (the policy).

use std::ops::Range;

use strata_lru::{
    AccessVia, AgeingWalks, Cause, GroupId, NextSpace, NodeId, Policy, PolicyError, Scan, SpaceId,
    Swappiness, TableBit, TableId, TableScan, Walk,
};
use strata_trace::Backing;

use super::{
    Machine,
    bits::Bits,
    layout::{Layout, NR_TABLE_ENTRIES},
    memory::Memory,
};
use crate::{simulate::SimError, workload::Workload};

/// A space of page tables, as the policy knows it.
#[derive(Clone, Debug)]
struct Space {
    id: SpaceId,
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
    pub(super) fn tables(&self, id: SpaceId) -> Range<u32> {
        // Numbers are given in ascending order.
        let position = self.spaces.partition_point(|space| space.id < id);
        self.spaces[position].tables.clone()
    }
}

impl<P: Policy> Machine<'_, P> {
    /// Walks the group's page tables and begins a generation.
    pub(super) fn walk(&mut self, group: GroupId, swappiness: Swappiness) -> Result<(), SimError> {
        let Some(walks) = self.policy.walks() else {
            return Ok(());
        };
        self.spaces.tell(walks, &self.memory);
        let node = NodeId::default();
        let mut walk = walks.begin_walk(group, node, swappiness, Scan::Filtered)?;
        while let Some(walks) = self.policy.walks()
            && let NextSpace::Space(id) = walks.next_space(&mut walk)
        {
            for table in self.spaces.tables(id) {
                self.visit_if_worth_it(&walk, table);
            }
        }
        if let Some(walks) = self.policy.walks() {
            walks.finish(walk, self.now);
        }
        Ok(())
    }

    /// Asks about a table, and visits it.
    fn visit_if_worth_it(&mut self, walk: &Walk, table: u32) {
        let Range { start, end } = self.layout.slots_of(table);
        let memory = &self.memory;
        if memory.mapped.is_clear(start, end) {
            return;
        }
        let id = TableId(u64::from(table));
        // The bit above a table is set by the walk of the processor that sets one in it.
        let bit = match memory.accessed.is_clear(start, end) {
            true => TableBit::Clear,
            false => TableBit::Set,
        };
        let Some(walks) = self.policy.walks() else {
            return;
        };
        if !walks.should_scan(walk, id, bit) {
            return;
        }
        let nr_young = self.visit(table);
        let scan = TableScan::Read {
            nr_entries: NR_TABLE_ENTRIES,
            nr_young,
        };
        if let Some(walks) = self.policy.walks() {
            walks.scanned(walk, id, scan);
        }
    }

    /// Takes the accessed bits of a table and reports them; how many there were.
    pub(super) fn visit(&mut self, table: u32) -> u32 {
        let Range { start, end } = self.layout.slots_of(table);
        let mut nr_young = 0;
        for word in Bits::words_of(start, end) {
            let mut bits = self.memory.accessed.take_of_word(word, start, end);
            nr_young += bits.count_ones();
            while bits != 0 {
                let slot = word as u32 * u64::BITS + bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(folio) = self.memory.folio(slot) {
                    self.policy.accessed(folio, AccessVia::PageTable);
                }
            }
        }
        nr_young
    }
}
