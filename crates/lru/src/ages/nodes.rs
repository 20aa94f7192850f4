//! On which memory node each page is, how steadily it is used, and what was moved of late.
//!
//! ```text
//!   placed             which node, as the walk found it; after `told`, for the same entries
//!   migrated           pages went up or down by our hand
//!   Query::on          only pages on these nodes, used or moved like this
//!   count_on           pages by age on these nodes
//! ```
//!
//! A page that several walks in a row found accessed is used more steadily than one that the last walk alone found. A
//! page that went up and down within [`Ledger::MOVES_KEPT`] is restless: it would go to and fro for ever.
//!
//! **Memory**: 712 bytes more for each page table, where nodes are told.
//!
//! **Owns** what walks and moves say to the bits (`on_nodes`). **Does not own** ages (`table`), what is fast (`crate::tiering`), nor moving.
//!
//! **Invariants**
//! - I1: a page that is not in memory has no streak and was not moved.
//! - I2: a page whose node was never told is on none, and fits no query that asks for nodes.

use super::on_nodes::{Moved, NODE_BITS, On, OnNodes, either};
use super::places::masks;
use super::table::{self, NrPages, Stamp, Table};
use super::{Counted, Ledger, Run};
use crate::bits::{self, Bits, NONE};
use crate::ids::{NodeId, NodeSet, SpaceNo};
use std::time::Duration;

/// What [`Ledger::migrated`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MovedPages {
    /// Pages that were known to be in memory.
    pub nr_pages: NrPages,
    /// Part of `nr_pages` that had gone the other way of late.
    pub nr_back_pages: u64,
}

impl Table {
    /// Pages that are on these nodes, used and moved as is wanted.
    pub(super) fn fitting(&self, on: &On) -> Bits {
        self.nodes.as_ref().map_or(NONE, |nodes| nodes.fitting(on))
    }

    pub(super) fn nodes_bytes(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| size_of_val(&**nodes))
    }

    /// What is not in memory has neither a streak nor moves.
    pub(super) fn forget_moves(&mut self) {
        let present = self.present;
        if let Some(nodes) = &mut self.nodes {
            nodes.forget(&std::array::from_fn(|word| !present[word]));
        }
    }

    pub(super) fn validate_nodes(&self) -> Result<(), String> {
        let Some(nodes) = &self.nodes else {
            return Ok(());
        };
        let known = nodes.streak.iter().chain(&nodes.up).chain(&nodes.down);
        let known = known.fold(NONE, |all, plane| bits::or(all, *plane));
        match bits::is_empty(bits::without(known, self.present)) {
            true => Ok(()),
            false => Err("a page that is not in memory is used or was moved".to_owned()),
        }
    }
}

impl Ledger {
    /// Moves are remembered for at least so long, if [`Ledger::forget_moves`] is called as often.
    pub const MOVES_KEPT: Duration = Duration::from_secs(600);

    /// On which nodes a walk found pages of a table; to be called after [`Ledger::told`] of the same entries. `node`: bit by
    /// bit the number of the node, all bits set where it is not known.
    pub fn placed(&mut self, space: SpaceNo, table_no: u64, mask: &Bits, node: &[Bits; NODE_BITS]) {
        let accessed = Stamp::accessed(self.walks.current());
        let walk = self.nr_walks;
        let space = self.spaces.get_mut(&space);
        let Some(table) = space.and_then(|space| space.tables.get_mut(&table_no)) else {
            return;
        };
        let mut now_accessed = NONE;
        let stamps = table.stamps();
        bits::ones(bits::and(table.present, *mask)).for_each(|index| {
            if stamps[index] == accessed {
                bits::insert(&mut now_accessed, index);
            }
        });
        table.forget_moves();
        let present = bits::and(table.present, *mask);
        let nodes = table.nodes.get_or_insert_with(OnNodes::new);
        for (plane, told) in nodes.node.iter_mut().zip(node) {
            *plane = bits::or(bits::without(*plane, *mask), bits::and(*told, *mask));
        }
        nodes.walked(&present, &now_accessed, walk);
    }

    /// Pages of these runs are on this node now, by our hand; `is_up`: it is faster than the one they were on.
    pub fn migrated(&mut self, runs: &[Run], to: NodeId, is_up: bool) -> MovedPages {
        let mut sum = MovedPages::default();
        for run in runs {
            let Some(space) = self.spaces.get_mut(&run.space) else {
                continue;
            };
            for (table_no, mask) in masks(run.first_page, run.first_page + run.nr_pages) {
                let Some(table) = space.tables.get_mut(&table_no) else {
                    continue;
                };
                let pages = bits::and(mask, table.present);
                let Some(nodes) = table.nodes.as_mut() else {
                    continue;
                };
                sum.nr_pages += table::by_kind(pages, table.anon);
                let (way, other) = match is_up {
                    true => (&mut nodes.up, &nodes.down),
                    false => (&mut nodes.down, &nodes.up),
                };
                let back = table::by_kind(bits::and(pages, either(other)), table.anon);
                sum.nr_back_pages += back.total();
                way[0] = bits::or(way[0], pages);
                for (bit, plane) in nodes.node.iter_mut().enumerate() {
                    match to.0 >> bit & 1 {
                        0 => *plane = bits::without(*plane, pages),
                        _ => *plane = bits::or(*plane, pages),
                    }
                }
            }
        }
        sum
    }

    /// What was moved before this was last called is forgotten.
    pub fn forget_moves(&mut self) {
        for space in self.spaces.values_mut() {
            let tables = space.tables.values_mut();
            for nodes in tables.filter_map(|table| table.nodes.as_mut()) {
                for moves in [&mut nodes.up, &mut nodes.down] {
                    *moves = [NONE, moves[0]];
                }
            }
        }
    }

    /// [`Ledger::count`] of what is on these nodes. What was taken is on none.
    pub fn count_on(
        &self,
        nodes: NodeSet,
        nr_parts: usize,
        part_of: impl FnMut(SpaceNo, usize) -> Option<usize>,
    ) -> Counted {
        let on = On {
            nodes,
            streak_min: 0,
            moved: Moved::Any,
            is_move: false,
        };
        self.count_where(nr_parts, part_of, Some(&on))
    }
}
