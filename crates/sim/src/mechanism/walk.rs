//! Walks: every page table the filters let through, its accessed bits taken and reported.
//!
//! **Owns** the visit. **Does not own** which spaces and tables are worth it (the policy).

use std::ops::Range;

use strata_lru::{
    AccessVia, Ageing, GroupId, NextSpace, NodeId, Policy, PolicyError, Scan, SpaceId, Swappiness,
    TableBit, TableId, TableScan, Walk,
};

use super::{
    Machine,
    bits::Bits,
    layout::{Layout, NR_TABLE_ENTRIES},
    reclaim::Driver,
};
use crate::simulate::SimError;

/// A space of page tables, as the policy knows it.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) id: SpaceId,
    pub(super) tables: Range<u32>,
}

/// Tells the policy of every space that has page tables.
pub(super) fn add_spaces<P: Policy + ?Sized>(
    policy: &mut P,
    group_of: impl Fn(u32) -> GroupId,
    layout: &Layout,
) -> Result<Vec<Space>, PolicyError> {
    let mut spaces = Vec::new();
    if let Some(walks) = policy.walks() {
        for tables in layout.spaces() {
            // A space belongs to who came first, as the program that made it.
            let id = walks.space_added(group_of(layout.slots_of(tables.start).start))?;
            spaces.push(Space { id, tables });
        }
    }
    Ok(spaces)
}

impl<P: Policy> Machine<'_, P> {
    /// Walks the group's page tables and begins a generation.
    pub(super) fn walk(&mut self, group: GroupId, swappiness: Swappiness) -> Result<(), SimError> {
        let Some(walks) = self.policy.walks() else {
            return self.walk_all(group, swappiness);
        };
        // Every process of the group has run since the last walk.
        self.spaces
            .iter()
            .for_each(|space| walks.space_ran(space.id));
        let node = NodeId::default();
        let mut walk = walks.begin_walk(group, node, swappiness, Scan::Filtered)?;
        while let Some(walks) = self.policy.walks()
            && let NextSpace::Space(id) = walks.next_space(&mut walk)
        {
            // Numbers are given in ascending order.
            let position = self.spaces.partition_point(|space| space.id < id);
            for table in self.spaces[position].tables.clone() {
                self.visit_if_worth_it(&walk, table);
            }
        }
        if let Some(walks) = self.policy.walks() {
            walks.finish(walk, self.now);
        }
        Ok(())
    }

    /// Walks ahead of need where the policy wants to. One that leaves budgets to the mechanism is asked by
    /// `shrink`, when memory is full.
    pub(super) fn look_ahead(&mut self, group: GroupId) -> Result<(), SimError> {
        let swappiness = self.setup.swappiness;
        let is_asked = self.driver == Driver::Policy;
        if is_asked && self.policy.ageing(group, swappiness)? == Ageing::Due {
            self.walk(group, swappiness)?;
        }
        Ok(())
    }

    /// Visits all tables of a group with an accessed bit, as the processor's own bits above them say. A
    /// table belongs to whom its first page does.
    pub(super) fn walk_all(
        &mut self,
        group: GroupId,
        swappiness: Swappiness,
    ) -> Result<(), SimError> {
        for table in self.layout.tables() {
            let Range { start, end } = self.layout.slots_of(table);
            let first = self.workload.page(self.layout.page(start));
            let is_own = self.groups.of(first.group) == group;
            if is_own && !self.memory.accessed.is_clear(start, end) {
                self.counts.nr_ptes_walked += u64::from(NR_TABLE_ENTRIES);
                self.visit(table);
            }
        }
        self.policy.finish_walk(group, swappiness, self.now)?;
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
