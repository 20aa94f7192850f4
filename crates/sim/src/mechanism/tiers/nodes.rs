//! The nodes of memory in tiers, and which of them each page lies on.
//!
//! **Owns** what is free on a node, and where pages lie. **Does not own** which pages move (`machine`, `reclaim`).
//!
//! **Invariants** I1: what is free on a node and what lies there are all of its pages, but for those taken for a move that is under
//! way.

use strata_lru::{NodeId, Promotion, TimeMs};

use super::{
    super::bits::Bits,
    setup::{Start, TierSetup},
};
use crate::{outcome::Outcome, workload::Workload};

/// Where new pages go and promoted ones come.
pub(crate) const FAST: NodeId = NodeId(0);

/// A node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) nr_pages: u32,
    /// Pages taken at a time, and kept free.
    pub(crate) nr_batch_pages: u32,
    pub(crate) nr_free: u32,
}

/// What a machine has of tiers: no nodes where memory is not divided.
#[derive(Debug, Default)]
pub(crate) struct Tiers {
    pub(super) nodes: Vec<Node>,
    /// By slot, of what is in memory.
    node_of: Vec<NodeId>,
    /// Mapped, and made to fault at the next access.
    pub(super) hinted: Bits,
    pub(super) scan_period_ms: u64,
    pub(super) start: Start,
    pub(super) swept_at: TimeMs,
    pub(super) promotions: Vec<Promotion>,
    pub(crate) nr_hits: Vec<u64>,
    pub(crate) nr_phases: usize,
    pub(crate) phases: Vec<Outcome>,
}

impl Tiers {
    /// Nothing is in memory.
    pub(super) fn new(tiers: &TierSetup, nodes: Vec<Node>, workload: &Workload) -> Tiers {
        Tiers {
            nr_hits: vec![0; nodes.len()],
            nodes,
            node_of: vec![FAST; workload.nr_pages() as usize],
            hinted: Bits::new(workload.nr_pages()),
            scan_period_ms: tiers.scan_period_ms,
            start: tiers.start,
            nr_phases: tiers.nr_phases.min(workload.requests().len()),
            ..Tiers::default()
        }
    }

    /// Whether memory is divided.
    pub(crate) fn is_any(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Nodes of memory: one if it is not divided.
    pub(crate) fn nr_nodes(&self) -> u8 {
        self.nodes.len().max(1) as u8
    }

    /// A node, if memory is divided.
    pub(crate) fn get(&self, node: NodeId) -> Option<&Node> {
        self.nodes.get(usize::from(node.0))
    }

    /// Pages of a node taken at a time, and kept free.
    pub(crate) fn nr_batch_pages(&self, node: NodeId) -> u64 {
        self.nodes[usize::from(node.0)].nr_batch_pages.into()
    }

    /// The node that a page in memory lies on.
    pub(crate) fn node(&self, slot: u32) -> NodeId {
        self.node_of.get(slot as usize).copied().unwrap_or(FAST)
    }

    /// The request before which the phase ends, of so many.
    pub(crate) fn phase_end(&self, nr_requests: usize) -> usize {
        let nr_ended = self.phases.len() + 1;
        (nr_ended * nr_requests)
            .checked_div(self.nr_phases)
            .unwrap_or(nr_requests)
    }

    /// A page has come to a node.
    pub(crate) fn enter(&mut self, slot: u32, node: NodeId) {
        if self.is_any() {
            self.take(node);
            self.node_of[slot as usize] = node;
        }
    }

    /// A page is not in memory any more.
    pub(crate) fn leave(&mut self, slot: u32) {
        if self.is_any() {
            self.free(self.node(slot));
            self.hinted.clear(slot);
        }
    }

    /// Moves a page to a node where one was taken for it.
    pub(crate) fn moved_down(&mut self, slot: u32, to: NodeId) {
        self.free(self.node(slot));
        self.node_of[slot as usize] = to;
    }

    /// Takes a page of a node.
    pub(super) fn take(&mut self, node: NodeId) {
        self.nodes[usize::from(node.0)].nr_free -= 1;
    }

    /// Gives a page of a node back.
    pub(super) fn free(&mut self, node: NodeId) {
        self.nodes[usize::from(node.0)].nr_free += 1;
    }
}
