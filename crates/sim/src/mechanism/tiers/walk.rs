//! Walks on tiers: each node ages by itself, so a walk takes the accessed bits of one node's pages.
//!
//! **Owns** what is visited for a node. **Does not own** tables and spaces (`layout`, the one-node
//! mechanism's `walk`), or what the policy makes of a walk.

use std::ops::Range;

use strata_lru::{
    AccessVia, GroupId, LookAround, LookAroundBy, NextSpace, NodeId, Scan, Swappiness, TableBit,
    TableId, TableScan, Walk,
};

use super::{
    super::{bits::Bits, layout::NR_TABLE_ENTRIES},
    machine::TierMachine,
};
use crate::simulate::SimError;

impl TierMachine<'_> {
    /// Walks a group's page tables for a node, or for each, and begins a generation there.
    pub(super) fn walk(
        &mut self,
        group: GroupId,
        node: Option<NodeId>,
        swappiness: Swappiness,
    ) -> Result<(), SimError> {
        let nodes = match node {
            Some(NodeId(node)) => usize::from(node)..usize::from(node) + 1,
            None => 0..self.nodes.len(),
        };
        nodes
            .into_iter()
            .try_for_each(|node| self.walk_node(group, node, swappiness))
    }

    fn walk_node(
        &mut self,
        group: GroupId,
        node: usize,
        swappiness: Swappiness,
    ) -> Result<(), SimError> {
        let Some(walks) = self.policy.walks() else {
            return Ok(());
        };
        self.spaces.tell(walks, &self.memory);
        let mut walk = walks.begin_walk(group, NodeId(node as u8), swappiness, Scan::Filtered)?;
        while let Some(walks) = self.policy.walks()
            && let NextSpace::Space(id) = walks.next_space(&mut walk)
        {
            for table in self.spaces.tables(id) {
                self.visit_if_worth_it(&walk, table, node);
            }
        }
        if let Some(walks) = self.policy.walks() {
            walks.finish(walk, self.now);
        }
        Ok(())
    }

    /// Asks about a table, and visits it.
    fn visit_if_worth_it(&mut self, walk: &Walk, table: u32, node: usize) {
        let Range { start, end } = self.layout.slots_of(table);
        if self.memory.mapped.is_clear(start, end) {
            return;
        }
        let bit = match self.memory.accessed.is_clear(start, end) {
            true => TableBit::Clear,
            false => TableBit::Set,
        };
        let id = TableId(u64::from(table));
        let Some(walks) = self.policy.walks() else {
            return;
        };
        if !walks.should_scan(walk, id, bit) {
            return;
        }
        let nr_young = self.visit(table, node);
        let scan = TableScan::Read {
            nr_entries: NR_TABLE_ENTRIES,
            nr_young,
        };
        if let Some(walks) = self.policy.walks() {
            walks.scanned(walk, id, scan);
        }
    }

    /// Takes the accessed bits of a node's pages in a table and reports them; how many there were.
    fn visit(&mut self, table: u32, node: usize) -> u32 {
        let young = self.take_young(self.layout.slots_of(table), node, |_| true);
        for slot in &young {
            if let Some(folio) = self.memory.folio(*slot) {
                self.policy.accessed(folio, AccessVia::PageTable);
            }
        }
        young.len() as u32
    }

    /// Looks at the entries around one that was found accessed when its page was to go. Pages of the
    /// same batch keep their bits, as in the one-node mechanism.
    pub(super) fn look_around(&mut self, slot: u32) {
        let (Some(folio), node) = (self.memory.folio(slot), self.node_of[slot as usize]) else {
            return;
        };
        if self.policy.walks().is_none() {
            return;
        }
        let isolated = std::mem::take(&mut self.memory.isolated);
        let window = self.layout.window(slot);
        let around = self.take_young(window, usize::from(node), |slot| !isolated.get(slot));
        self.memory.isolated = isolated;
        let young: Vec<_> = around
            .iter()
            .filter_map(|slot| self.memory.folio(*slot))
            .collect();
        let table = TableId(u64::from(self.layout.table(slot)));
        if let Some(walks) = self.policy.walks() {
            walks.looked_around(LookAround {
                folio,
                table,
                nr_entries: NR_TABLE_ENTRIES.min(strata_lru::NR_LOOK_AROUND_ENTRIES as u32),
                young: &young,
                by: LookAroundBy::Walker,
            });
        }
    }

    /// Clears the accessed bits within `slots` of pages of a node that `takes` names; their slots.
    fn take_young(
        &mut self,
        slots: Range<u32>,
        node: usize,
        takes: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let mut young = Vec::new();
        for word in Bits::words_of(slots.start, slots.end) {
            let mut bits = self
                .memory
                .accessed
                .take_of_word(word, slots.start, slots.end);
            while bits != 0 {
                let slot = word as u32 * u64::BITS + bits.trailing_zeros();
                bits &= bits - 1;
                if usize::from(self.node_of[slot as usize]) == node && takes(slot) {
                    young.push(slot);
                } else {
                    self.memory.accessed.set(slot);
                }
            }
        }
        young
    }
}
