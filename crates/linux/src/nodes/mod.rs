//! Memory nodes: which there are, how fast they are, and how much of each is free.
//!
//! ```text
//!   Nodes::read           nodes with memory, their tiers and distances: /sys/devices/system/node, memory_tiering
//!     .again              the same after memory went or came
//!     .with_upper         the user says which nodes are the fast ones
//!   Nodes::rooms          free memory and watermarks of each node, now: /proc/zoneinfo
//! ```
//!
//! Nodes are fast where the kernel says so (`memory_tiering`, since Linux 6.1). Where it puts all into one tier, nodes
//! without processors are slower than those with some: so are memory behind CXL and persistent memory.
//!
//! **Owns** reading nodes, tiers, distances, free memory. **Does not own** what goes from one to another.
//!
//! **Invariants**
//! - I1: nodes are numbered from 0 on here, whatever the kernel's numbers are; [`MemoryNode::kernel_id`] is that.
//! - I2: a node without memory is none; where memory is looked at again, a node keeps its number for good.

pub(crate) mod ranges;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use strata_lru::NodeId;
use strata_lru::{NodeConfig, TieringError, Topology};

pub use zones::NodeRoom;

use crate::addr::PAGE_BYTES;
use ranges::{BLOCK_PAGES, Range};

/// Nodes that can be told apart: what four bits hold, less one for "not known".
pub const NODES_MAX: usize = 15;
/// Abstract distances of one tier, as `strata_lru::tiering` counts them.
const TIER_DISTANCE: u32 = 128;
const SYSFS: &str = "/sys";
/// The bit of `kernel.numa_balancing` for tiers.
const NUMA_BALANCING_TIERING: u32 = 2;

/// A node of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNode {
    /// The kernel's number of it.
    pub kernel_id: u32,
    /// Whether processors belong to it.
    pub has_cpu: bool,
    /// 0 for the fastest.
    pub tier: u32,
}

/// All nodes with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    nodes: Vec<MemoryNode>,
    ranges: Vec<Range>,
    topology: Topology,
}

/// Why nodes can't be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodesError {
    /// The kernel does not say.
    #[error("reading the memory nodes failed: {0}")]
    Io(#[from] io::Error),
    /// There are too many.
    #[error("{nr_nodes} memory nodes: no more than {NODES_MAX} can be told apart")]
    TooMany {
        /// How many have memory.
        nr_nodes: usize,
    },
    /// A node was named that is not there.
    #[error("no memory node {node} here: the nodes with memory are {there}")]
    NoNode {
        /// The one named.
        node: u32,
        /// Those with memory.
        there: String,
    },
    /// All nodes were called fast.
    #[error("all memory nodes ({there}) are called upper: leave out those with slower memory")]
    NoneIsLower {
        /// Those with memory.
        there: String,
    },
    /// No fast node has a processor.
    #[error(transparent)]
    Topology(#[from] TieringError),
}

impl Nodes {
    /// Reads which there are.
    ///
    /// # Errors
    /// [`NodesError`].
    pub fn read() -> Result<Nodes, NodesError> {
        Nodes::read_from(Path::new(SYSFS), &fs::read_to_string("/proc/zoneinfo")?)
    }

    /// As they are by now. Each keeps its place, also one whose memory has gone offline; others come behind.
    ///
    /// # Errors
    /// [`NodesError`].
    pub fn again(&self) -> Result<Nodes, NodesError> {
        self.followed_by(Nodes::read()?, Path::new(SYSFS))
    }

    pub(crate) fn followed_by(&self, now: Nodes, sysfs: &Path) -> Result<Nodes, NodesError> {
        let mut nodes = self.nodes.clone();
        for node in now.nodes {
            match nodes.iter_mut().find(|of| of.kernel_id == node.kernel_id) {
                Some(known) => *known = node,
                None => nodes.push(node),
            }
        }
        if nodes.len() > NODES_MAX {
            let nr_nodes = nodes.len();
            return Err(NodesError::TooMany { nr_nodes });
        }
        Ok(Nodes {
            topology: topology_of(&nodes, &now.ranges, sysfs)?,
            nodes,
            ranges: now.ranges,
        })
    }

    /// Reads what [`Nodes::read`] reads, where `sysfs` is mounted elsewhere.
    pub(crate) fn read_from(sysfs: &Path, zoneinfo: &str) -> Result<Nodes, NodesError> {
        let ranges = ranges::parse(zoneinfo);
        let with_memory: BTreeSet<u32> = ranges.iter().filter_map(|range| range.node).collect();
        if with_memory.len() > NODES_MAX {
            return Err(NodesError::TooMany {
                nr_nodes: with_memory.len(),
            });
        }
        let of_sysfs = |path: &str| list_of(&sysfs.join(path));
        let with_cpu =
            of_sysfs("devices/system/node/has_cpu").unwrap_or_else(|| with_memory.clone());
        let tiers = kernel_tiers(&sysfs.join("devices/virtual/memory_tiering"));
        let place = |id: u32| {
            let tier = tiers.iter().find(|(_, nodes)| nodes.contains(&id));
            (tier.map_or(0, |(tier, _)| *tier), !with_cpu.contains(&id))
        };
        let places: BTreeSet<(u32, bool)> = with_memory.iter().map(|id| place(*id)).collect();
        let nodes = with_memory.iter().map(|id| MemoryNode {
            kernel_id: *id,
            has_cpu: with_cpu.contains(id),
            tier: places.iter().take_while(|of| **of < place(*id)).count() as u32,
        });
        let nodes: Vec<MemoryNode> = nodes.collect();
        let topology = topology_of(&nodes, &ranges, sysfs)?;
        Ok(Nodes {
            nodes,
            ranges,
            topology,
        })
    }

    /// These nodes, by the kernel's numbers, are the fast ones, whatever the kernel says; all others are slower.
    ///
    /// # Errors
    /// A node that is not there, or no other is left.
    pub fn with_upper(mut self, upper: &BTreeSet<u32>) -> Result<Nodes, NodesError> {
        let ids: Vec<String> = self
            .nodes
            .iter()
            .map(|node| node.kernel_id.to_string())
            .collect();
        let there = ids.join(", ");
        let known: BTreeSet<u32> = self.nodes.iter().map(|node| node.kernel_id).collect();
        if let Some(node) = upper.difference(&known).next() {
            return Err(NodesError::NoNode { node: *node, there });
        }
        if upper.len() == self.nodes.len() {
            return Err(NodesError::NoneIsLower { there });
        }
        for node in &mut self.nodes {
            let is_upper = upper.contains(&node.kernel_id);
            node.tier = u32::from(!is_upper);
            // A slower node counts as such even where processors are near it.
            node.has_cpu = is_upper;
        }
        self.topology = topology_of(&self.nodes, &self.ranges, Path::new(SYSFS))?;
        Ok(self)
    }

    /// The nodes; [`NodeId`]s are places in this.
    pub fn nodes(&self) -> &[MemoryNode] {
        &self.nodes
    }

    /// Which are below which.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether memory of a node is as fast as any that a processor is near to.
    pub fn is_upper(&self, node: NodeId) -> bool {
        self.topology.is_top_tier(node)
    }

    /// Whether there is memory that is slower than other.
    pub fn has_tiers(&self) -> bool {
        let with_memory = self.ranges.iter().filter_map(|range| range.node);
        let mut with_memory = with_memory.filter_map(|id| self.position(id));
        with_memory.any(|node| !self.is_upper(node))
    }

    /// Pages of physical memory by node: first, the one after the last, and the node. Where two nodes have pages in the same 2 MiB,
    /// these are left out.
    pub fn page_ranges(&self) -> Vec<(u64, u64, NodeId)> {
        let known = self.ranges.iter().filter_map(|range| {
            let node = self.position(range.node?)?;
            Some((range.first * BLOCK_PAGES, range.end * BLOCK_PAGES, node))
        });
        known.collect()
    }

    /// Free memory of each node and its watermark, in the order of [`Nodes::nodes`].
    ///
    /// # Errors
    /// `/proc/zoneinfo` can't be read.
    pub fn rooms(&self) -> io::Result<Vec<NodeRoom>> {
        let rooms = rooms_by_id()?;
        let of = |node: &MemoryNode| rooms.get(&node.kernel_id).copied().unwrap_or_default();
        Ok(self.nodes.iter().map(of).collect())
    }

    fn position(&self, kernel_id: u32) -> Option<NodeId> {
        let at = self
            .nodes
            .iter()
            .position(|node| node.kernel_id == kernel_id)?;
        Some(NodeId(at as u8))
    }
}

fn rooms_by_id() -> io::Result<BTreeMap<u32, NodeRoom>> {
    Ok(zones::parse(&fs::read_to_string("/proc/zoneinfo")?))
}

/// The kernel stops reclaiming in the background when so much is free, of all nodes.
///
/// # Errors
/// `/proc/zoneinfo` can't be read.
pub fn watermark_bytes() -> io::Result<u64> {
    Ok(rooms_by_id()?.values().map(|of| of.watermark_bytes).sum())
}

/// Who else brings used pages up: the kernel (`numa_balancing`), or DAMON where a scheme of its migrates; in words.
pub fn kernel_promotes() -> Option<String> {
    let balancing = fs::read_to_string("/proc/sys/kernel/numa_balancing").unwrap_or_default();
    let mode: u32 = balancing.trim().parse().unwrap_or(0);
    if mode & NUMA_BALANCING_TIERING != 0 {
        return Some(format!("kernel.numa_balancing is {mode}"));
    }
    let actions = glob::glob("/sys/kernel/mm/damon/admin/kdamonds/*/contexts/*/schemes/*/action");
    let mut actions = actions.into_iter().flatten().flatten();
    let migrates = actions.any(|path| {
        let is_on = path.ancestors().nth(5).map(|kdamond| kdamond.join("state"));
        let is = |path: &Path, what: &str| {
            fs::read_to_string(path).is_ok_and(|text| text.starts_with(what))
        };
        is(&path, "migrate") && is_on.is_some_and(|state| is(&state, "on"))
    });
    migrates.then(|| "a DAMON scheme migrates".to_owned())
}

/// Nodes of a list such as `0,2-3`.
pub fn parse_list(list: &str) -> Option<BTreeSet<u32>> {
    let mut nodes = BTreeSet::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        // The kernel has no more nodes than this.
        if first > last || last >= 1024 {
            return None;
        }
        nodes.extend(first..=last);
    }
    Some(nodes)
}

fn list_of(path: &Path) -> Option<BTreeSet<u32>> {
    parse_list(&fs::read_to_string(path).ok()?)
}

/// The kernel's tiers: their numbers, which are smaller the faster they are, and their nodes.
fn kernel_tiers(directory: &Path) -> Vec<(u32, BTreeSet<u32>)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let tiers = entries.filter_map(|entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix("memory_tier")?.parse().ok()?;
        Some((number, list_of(&entry.path().join("nodelist"))?))
    });
    tiers.collect()
}

fn topology_of(
    nodes: &[MemoryNode],
    ranges: &[Range],
    sysfs: &Path,
) -> Result<Topology, TieringError> {
    let nr_blocks = |node: &MemoryNode| -> u64 {
        let own = ranges
            .iter()
            .filter(|range| range.node == Some(node.kernel_id));
        own.map(Range::nr_blocks).sum()
    };
    let config = |(at, node): (usize, &MemoryNode)| NodeConfig {
        node: NodeId(at as u8),
        nr_pages: nr_blocks(node) * BLOCK_PAGES,
        abstract_distance: node.tier * TIER_DISTANCE,
        has_cpu: node.has_cpu,
    };
    let mut topology = Topology::try_new(nodes.iter().enumerate().map(config).collect())?;
    for (at, node) in nodes.iter().enumerate() {
        let path = format!("devices/system/node/node{}/distance", node.kernel_id);
        let told = fs::read_to_string(sysfs.join(path)).unwrap_or_default();
        // Distances are told to all nodes that are online, in order of their numbers: with memory or without.
        let online = list_of(&sysfs.join("devices/system/node/online")).unwrap_or_default();
        let told = told.split_ascii_whitespace().map(str::parse::<u8>);
        for (to, distance) in online.into_iter().zip(told) {
            let to = nodes.iter().position(|other| other.kernel_id == to);
            if let (Some(to), Ok(distance)) = (to.filter(|to| *to > at), distance) {
                topology = topology.with_distance(NodeId(at as u8), NodeId(to as u8), distance)?;
            }
        }
    }
    Ok(topology)
}

/// So many bytes of a node are so many pages.
impl NodeRoom {
    /// What may be put there before the kernel begins to reclaim, pages.
    pub fn room_pages(&self) -> u64 {
        self.free_bytes.saturating_sub(self.watermark_bytes) / PAGE_BYTES
    }
}

#[cfg(test)]
mod tests;
