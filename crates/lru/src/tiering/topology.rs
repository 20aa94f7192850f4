//! Nodes, tiers, and who lies below whom.
//!
//! A node's abstract distance says how slow it is; nodes whose distances fall into the same chunk of
//! 128 are one tier (the kernel's `memory-tiers.c`). Top tiers are those no slower than the slowest
//! tier with a processor: what lies there is fast enough for somebody. From any other tier pages may
//! come up; from any tier but the lowest they may go down, to the next.
//!
//! ```text
//!   distance  0 .. 127 | 128 .. 255 | ...            smaller is faster
//!   tier          0    |     1      | ...
//!                 demotion -> the next tier that has nodes, its nearest node
//! ```
//!
//! **Owns** the order of nodes. **Does not own** how full they are.
//!
//! **Invariants**
//! - I1: a demotion target's tier is slower than the source's, and no tier lies between the source's
//!   and that of the preferred targets.

use crate::{error::PolicyError, ids::NodeId};

/// Abstract distances that make one tier.
const DISTANCE_CHUNK: u32 = 128;

/// Distance between two nodes of which nothing is said, as firmware tables have it.
const DISTANCE_REMOTE: u8 = 20;

/// Why nodes can't be set up like this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TieringError {
    /// Two nodes of one number.
    #[error("node {} is given twice: number nodes differently", .0.0)]
    NodeTwice(NodeId),
    /// A distance to a node that is not there.
    #[error("no node {}: give distances between nodes of the topology only", .0.0)]
    NoNode(NodeId),
    /// No node has processors.
    #[error("no node has processors: one must, or there is no top tier")]
    NoProcessor,
    /// `hot_threshold_ms` out of bounds.
    #[error("hot_threshold_ms is {0}: choose 1 to 3600000")]
    HotThreshold(u64),
    /// `adapt_period_ms` is 0.
    #[error("adapt_period_ms is 0: choose 1 or more")]
    AdaptPeriod,
    /// The policy has no room for its groups on all nodes.
    #[error("the policy can't hold its groups on every node")]
    Policy(#[from] PolicyError),
}

/// A memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Number of the node.
    pub node: NodeId,
    /// Capacity of the node in base pages.
    pub nr_pages: u64,
    /// How slow it is; 128 more is the next tier.
    pub abstract_distance: u32,
    /// Whether processors belong to it.
    pub has_cpu: bool,
}

/// All nodes, and how far they are from each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<NodeConfig>,
    /// Between `nodes[a]` and `nodes[b]` at `a * nodes.len() + b`.
    distances: Vec<u8>,
    /// For each node those below it: nearest tier first, then nearest node.
    lower: Vec<Vec<NodeId>>,
    /// How many of `lower` are preferred: as near as the nearest of the next tier.
    nr_preferred: Vec<usize>,
}

impl Topology {
    /// Nodes that are equally far from each other. At least one has processors; numbers are unique.
    pub fn try_new(nodes: Vec<NodeConfig>) -> Result<Topology, TieringError> {
        for (at, of) in nodes.iter().enumerate() {
            if nodes[..at].iter().any(|other| other.node == of.node) {
                return Err(TieringError::NodeTwice(of.node));
            }
        }
        if !nodes.iter().any(|of| of.has_cpu) {
            return Err(TieringError::NoProcessor);
        }
        let distances = vec![DISTANCE_REMOTE; nodes.len() * nodes.len()];
        let mut topology = Topology {
            nodes,
            distances,
            lower: Vec::new(),
            nr_preferred: Vec::new(),
        };
        topology.order();
        Ok(topology)
    }

    /// The topology with another distance between two of its nodes, in both directions.
    pub fn with_distance(
        mut self,
        one: NodeId,
        other: NodeId,
        distance: u8,
    ) -> Result<Topology, TieringError> {
        let [a, b] = [one, other].map(|node| self.index(node).ok_or(TieringError::NoNode(node)));
        let (a, b) = (a?, b?);
        let nr_nodes = self.nodes.len();
        self.distances[a * nr_nodes + b] = distance;
        self.distances[b * nr_nodes + a] = distance;
        self.order();
        Ok(self)
    }

    /// Works out who lies below whom.
    fn order(&mut self) {
        self.lower.clear();
        self.nr_preferred.clear();
        for (from, source) in self.nodes.iter().enumerate() {
            let distance = |to: usize| self.distances[from * self.nodes.len() + to];
            let place = |to: &usize| (tier(&self.nodes[*to]), distance(*to), self.nodes[*to].node);
            let is_lower = |to: &usize| tier(&self.nodes[*to]) > tier(source);
            let mut lower: Vec<usize> = (0..self.nodes.len()).filter(is_lower).collect();
            lower.sort_by_key(place);
            let nearest = lower
                .first()
                .map(|to| (tier(&self.nodes[*to]), distance(*to)));
            let is_preferred =
                |to: &&usize| nearest == Some((tier(&self.nodes[**to]), distance(**to)));
            self.nr_preferred
                .push(lower.iter().take_while(is_preferred).count());
            self.lower
                .push(lower.into_iter().map(|to| self.nodes[to].node).collect());
        }
    }

    /// The nodes as they were given.
    pub fn nodes(&self) -> &[NodeConfig] {
        &self.nodes
    }

    /// Position of a node in [`Topology::nodes`].
    pub(super) fn index(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|of| of.node == node)
    }

    /// Whether a node is as fast as a node with processors; a node that is not here counts as such.
    pub fn is_top_tier(&self, node: NodeId) -> bool {
        let with_cpu = self.nodes.iter().filter(|of| of.has_cpu);
        let slowest = with_cpu.map(tier).max();
        self.index(node)
            .is_none_or(|at| Some(tier(&self.nodes[at])) <= slowest)
    }

    /// The fastest node with processors, of several the first by number.
    pub fn fastest_node_with_cpu(&self) -> NodeId {
        let with_cpu = self.nodes.iter().filter(|of| of.has_cpu);
        let fastest = with_cpu.min_by_key(|of| (tier(of), of.node));
        fastest.expect("a topology has a node with processors").node
    }

    /// The nearest nodes of the next lower tier: all that tie.
    pub fn preferred_targets(&self, from: NodeId) -> &[NodeId] {
        match self.index(from) {
            Some(at) => &self.lower[at][..self.nr_preferred[at]],
            None => &[],
        }
    }

    /// All nodes of lower tiers: next tier first, nearest first.
    pub fn lower_nodes(&self, from: NodeId) -> &[NodeId] {
        self.index(from).map_or(&[], |at| &self.lower[at])
    }
}

fn tier(of: &NodeConfig) -> u32 {
    of.abstract_distance / DISTANCE_CHUNK
}
