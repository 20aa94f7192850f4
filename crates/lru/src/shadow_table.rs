//! A bounded place for shadows: what a mechanism remembers of pages that left.
//!
//! As in the kernel, shadows of 64 neighbouring pages share a node, and there are at most an eighth as
//! many nodes as pages of memory (rules 4.2). One more drops the node that was written longest ago:
//! its pages come back as if they had never been here.
//!
//! **Owns** the nodes and their bound. **Does not own** what a shadow says ([`Shadow`]).
//!
//! **Invariants**
//! - I1: at most `nr_nodes_max` nodes, none of them empty.
//! - I2: every node has one stamp, and every stamp a node.

use std::collections::BTreeMap;

use crate::seam::Shadow;

/// Pages that share a node.
const NR_SLOTS: u64 = 64;

/// Pages of memory for each node.
const NR_PAGES_PER_NODE: u64 = 8;

const NO_SHADOW: u32 = Shadow::LIMIT;

#[derive(Debug)]
struct Node {
    slots: Box<[u32; NR_SLOTS as usize]>,
    nr_shadows: u32,
    stamp: u64,
}

/// Shadows by page number.
///
/// ```
/// use strata_lru::{Shadow, ShadowTable};
///
/// let mut table = ShadowTable::new(4096);
/// table.insert(7, Shadow::from_bits_truncate(1));
/// assert_eq!(table.take(7), Some(Shadow::from_bits_truncate(1)));
/// assert_eq!(table.take(7), None);
/// ```
#[derive(Debug)]
pub struct ShadowTable {
    nodes: BTreeMap<u64, Node>,
    /// The node written at each stamp, oldest first.
    by_stamp: BTreeMap<u64, u64>,
    nr_nodes_max: u64,
    next_stamp: u64,
    nr_dropped_shadows: u64,
}

impl ShadowTable {
    /// An empty table for a memory of this many base pages.
    pub fn new(nr_memory_pages: u64) -> ShadowTable {
        ShadowTable {
            nodes: BTreeMap::new(),
            by_stamp: BTreeMap::new(),
            nr_nodes_max: (nr_memory_pages / NR_PAGES_PER_NODE).max(1),
            next_stamp: 0,
            nr_dropped_shadows: 0,
        }
    }

    /// Keeps the shadow of a page, instead of an older one.
    pub fn insert(&mut self, page: u64, shadow: Shadow) {
        let number = page / NR_SLOTS;
        let stamp = self.next_stamp;
        self.next_stamp += 1;
        let node = self.nodes.entry(number).or_insert_with(|| Node {
            slots: Box::new([NO_SHADOW; NR_SLOTS as usize]),
            nr_shadows: 0,
            stamp,
        });
        let slot = &mut node.slots[(page % NR_SLOTS) as usize];
        node.nr_shadows += u32::from(*slot == NO_SHADOW);
        *slot = shadow.to_bits();
        self.by_stamp.remove(&node.stamp);
        node.stamp = stamp;
        self.by_stamp.insert(stamp, number);
        if self.nodes.len() as u64 > self.nr_nodes_max
            && let Some((_, oldest)) = self.by_stamp.pop_first()
            && let Some(dropped) = self.nodes.remove(&oldest)
        {
            self.nr_dropped_shadows += u64::from(dropped.nr_shadows);
        }
    }

    /// Takes the shadow of a page that comes back.
    pub fn take(&mut self, page: u64) -> Option<Shadow> {
        let number = page / NR_SLOTS;
        let node = self.nodes.get_mut(&number)?;
        let slot = &mut node.slots[(page % NR_SLOTS) as usize];
        let bits = std::mem::replace(slot, NO_SHADOW);
        if bits == NO_SHADOW {
            return None;
        }
        node.nr_shadows -= 1;
        if node.nr_shadows == 0 {
            self.by_stamp.remove(&node.stamp);
            self.nodes.remove(&number);
        }
        Some(Shadow::from_bits_truncate(bits))
    }

    /// Shadows that were dropped to keep the bound.
    pub fn nr_dropped_shadows(&self) -> u64 {
        self.nr_dropped_shadows
    }

    /// Recounts everything; the error says what does not add up.
    pub fn validate(&self) -> Result<(), String> {
        if self.nodes.len() as u64 > self.nr_nodes_max || self.nodes.len() != self.by_stamp.len() {
            let (nodes, stamps) = (self.nodes.len(), self.by_stamp.len());
            return Err(format!(
                "{nodes} nodes, {stamps} stamps, at most {}",
                self.nr_nodes_max
            ));
        }
        for (number, node) in &self.nodes {
            let used = node.slots.iter().filter(|slot| **slot != NO_SHADOW).count();
            let is_stamped = self.by_stamp.get(&node.stamp) == Some(number);
            if used != node.nr_shadows as usize || used == 0 || !is_stamped {
                return Err(format!(
                    "node {number} holds {used} shadows, counted {}",
                    node.nr_shadows
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shadows_are_kept_up_to_a_bound_and_the_longest_unwritten_node_goes_first(
            ops in proptest::collection::vec((0..512u64, proptest::option::of(0..1000u32)), 1..400),
        ) {
            // Room for four nodes; the model is a list of nodes, the last written last.
            let mut table = ShadowTable::new(32);
            let mut model: Vec<(u64, BTreeMap<u64, u32>)> = Vec::new();
            let mut nr_dropped = 0;
            for (page, bits) in ops {
                let at = model.iter().position(|of| of.0 == page / 64);
                match bits {
                    Some(bits) => {
                        let mut node = at.map_or((page / 64, BTreeMap::new()), |at| model.remove(at));
                        node.1.insert(page, bits);
                        model.push(node);
                        if model.len() > 4 {
                            nr_dropped += model.remove(0).1.len() as u64;
                        }
                        table.insert(page, Shadow::from_bits_truncate(bits));
                    }
                    None => {
                        let expected = at.and_then(|at| model[at].1.remove(&page));
                        model.retain(|of| !of.1.is_empty());
                        prop_assert_eq!(table.take(page).map(Shadow::to_bits), expected);
                    }
                }
                prop_assert_eq!(table.validate(), Ok(()));
                prop_assert_eq!(table.nr_dropped_shadows(), nr_dropped);
            }
        }
    }
}
