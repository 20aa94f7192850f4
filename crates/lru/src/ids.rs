//! The engine's small words: indices, sequence numbers, kinds and time.
//!
//! **Owns** the newtypes that keep an index, a count and a point in time apart, and how many generations there can be.
//! **Does not own** any state.

use std::fmt;

/// Index of a folio in the engine's table; reused after the folio is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolioId(pub u32);

impl FolioId {
    /// The index as an array position.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Fewest generations: with only these left nothing may be evicted (rules 1.1).
pub(crate) const MIN_NR_GENS: u64 = 2;

/// Most generations that any engine can be given room for; the kernel has 4 (rules 1.1).
pub(crate) const MAX_NR_GENS: usize = 16;

/// Most tiers (rules 1.1).
pub(crate) const MAX_NR_TIERS: usize = 5;

/// Number of a group (the kernel's memcg id).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupId(pub u16);

/// Number of a space: whose page one is, a program's or a file's. Only compared, never looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SpaceNo(pub u32);

/// Number of a memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NodeId(pub u8);

/// A bit for each memory node there can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSet([u64; 4]);

impl NodeSet {
    pub(crate) const ALL: NodeSet = NodeSet([u64::MAX; 4]);

    fn place(node: NodeId) -> (usize, u64) {
        (usize::from(node.0 / 64), 1 << (node.0 % 64))
    }

    /// Whether a node is in it.
    pub fn contains(self, node: NodeId) -> bool {
        let (word, bit) = Self::place(node);
        self.0[word] & bit != 0
    }

    /// Whether no node is in it.
    pub fn is_empty(self) -> bool {
        self.0 == [0; 4]
    }

    /// The nodes in it, by number.
    pub(crate) fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..=u8::MAX)
            .map(NodeId)
            .filter(move |node| self.contains(*node))
    }

    /// Puts a node in.
    pub fn insert(&mut self, node: NodeId) {
        let (word, bit) = Self::place(node);
        self.0[word] |= bit;
    }

    /// Takes a node out; whether it was in.
    pub(crate) fn remove(&mut self, node: NodeId) -> bool {
        let was_in = self.contains(node);
        let (word, bit) = Self::place(node);
        self.0[word] &= !bit;
        was_in
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

/// A generation's sequence number; larger is younger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GenSeq(pub u64);

/// Milliseconds since an origin the caller chooses; never decreases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TimeMs(pub u64);

impl TimeMs {
    /// Milliseconds from `earlier` to `self`, 0 if `earlier` is later.
    pub fn since(self, earlier: TimeMs) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What backs a folio. Shmem counts as `Anon`, clean `MADV_FREE`d memory as `File`, as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Swap-backed.
    Anon = 0,
    /// File-backed.
    File = 1,
}

impl Kind {
    /// Both kinds, in index order.
    pub const ALL: [Kind; 2] = [Kind::Anon, Kind::File];

    /// The other kind.
    pub fn other(self) -> Kind {
        match self {
            Kind::Anon => Kind::File,
            Kind::File => Kind::Anon,
        }
    }

    /// Position in a `[_; 2]` indexed by kind.
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Anon => "anon",
            Kind::File => "file",
        })
    }
}

/// Size of a folio as a power of two of base pages: 0 is 4 KiB, 9 is 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Order(pub u8);

impl Order {
    /// One base page.
    pub const BASE: Order = Order(0);
    /// A PMD-mapped huge page on x86-64.
    pub const PMD: Order = Order(9);

    /// Base pages in a folio of this order.
    pub fn nr_pages(self) -> u64 {
        1 << self.0
    }
}
