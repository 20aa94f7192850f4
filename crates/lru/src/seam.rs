//! The seam between deciding and doing: what a policy is told, what it is asked, what it answers.
//!
//! A mechanism (the host on live processes, a simulator on traces) reports events and asks for
//! decisions. A decision is a value ([`EvictBatch`]); the mechanism carries it out, or not (dry
//! run), and answers with a [`Verdict`] for each folio. A batch may be carried out elsewhere and
//! answered later, so isolating and completing are two calls, and events of other folios may come
//! in between.
//!
//! ```text
//!   events                  appeared  accessed  gone
//!   a walk                  begin_walk -> accessed* / appeared* / gone* -> finish_walk (max_seq + 1)
//!   an eviction             isolate -> EvictBatch -> (the mechanism acts) -> complete(verdicts)
//!   a look (peek)           isolate -> to_check -> (the mechanism reads and clears bits) -> young, complete
//! ```
//!
//! **Owns** the vocabulary. **Does not own** the calls ([`Policy`](crate::Policy)), nor any policy.

use crate::{
    group::Protection,
    ids::{FolioId, GenSeq, GroupId, Kind, MAX_NR_TIERS, NodeId, NodeSet, Order},
    swappiness::Swappiness,
};

/// How a folio came to be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Added inside a page fault, by a mapping whose recency counts.
    Fault,
    /// Read through a file descriptor.
    Read,
    /// Read ahead or mapped around a fault; nobody has asked for it yet.
    Prefetch,
}

/// A folio that is in memory now and was not before. An appearance is not an access.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The group that is charged.
    pub group: GroupId,
    /// The memory node it lies on.
    pub node: NodeId,
    /// Anon or file.
    pub kind: Kind,
    /// Size of the folio.
    pub order: Order,
    /// Why it is here.
    pub cause: Cause,
    /// What [`Policy::gone`](crate::Policy::gone) or [`Policy::complete`](crate::Policy::complete) left behind when it was last evicted.
    pub shadow: Option<Shadow>,
    /// Mapped executable from a file.
    pub is_exec: bool,
}

/// The path an access took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessVia {
    /// A walk found the hardware accessed bit set.
    PageTable,
    /// A read or write through a file descriptor.
    FileDescriptor,
}

/// Whether a folio can be dropped without being written first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteState {
    /// Nothing of it has to be written.
    Clean,
    /// A dirty folio of a file, or any folio that is being written.
    Waiting,
}

/// Why a folio is gone although this engine did not ask for it in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneCause {
    /// The kernel reclaimed it, on its own or because it was asked to shrink the group. Leaves a shadow.
    Reclaimed,
    /// Unmapped, freed or truncated by its owner. Leaves nothing.
    Freed,
}

/// What is kept of an evicted folio, so that its return can be judged; 31 bits, the mechanism stores it.
///
/// Holds the kernel's token (oldest generation and accesses counted), the workingset bit, the kind
/// and whose it was; its layout is in `shadow.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shadow(pub(crate) u32);

impl Shadow {
    /// Largest raw value plus one.
    pub const LIMIT: u32 = 1 << 31;

    /// The raw bits, below [`Shadow::LIMIT`].
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// Restores a shadow from [`Shadow::to_bits`]; higher bits are dropped.
    pub fn from_bits_truncate(bits: u32) -> Shadow {
        Shadow(bits & (Self::LIMIT - 1))
    }
}

/// What became of one folio of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// No longer in memory.
    Evicted,
    /// Accessed since the last walk: spared (the look-around, or the bit was set afterwards).
    Referenced,
    /// The kernel refused for now: locked, under writeback, or no swap slot was free.
    Busy,
    /// Mapped by somebody else too; never counted as evicted.
    Shared,
    /// Dirty file page that must be written first.
    Dirty,
    /// Can't be reclaimed at all (locked, pinned, special).
    Unevictable,
    /// Was gone before it was tried: unmapped or reclaimed by the kernel meanwhile.
    Gone,
    /// Not tried: a dry run, or the batch was abandoned.
    NotTried,
}

impl Verdict {
    /// Position in [`ReclaimStats::nr_rejected_pages`], `None` for what left as asked.
    pub(crate) fn rejection_index(self) -> Option<usize> {
        Some(match self {
            Verdict::Evicted => return None,
            Verdict::Referenced => 0,
            Verdict::Busy => 1,
            Verdict::Shared => 2,
            Verdict::Dirty => 3,
            Verdict::Unevictable => 4,
            Verdict::Gone => 5,
            Verdict::NotTried => 6,
        })
    }
}

/// Who asks for memory back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Somebody ahead of the need (the kernel's kswapd): nobody waits.
    #[default]
    Background,
    /// The one who needs the memory and waits for it (direct reclaim, a limit that was hit).
    Direct,
}

/// Asks for folios to evict from one group.
#[derive(Clone, Copy, Debug)]
pub struct ReclaimRequest {
    /// The group to take from.
    pub group: GroupId,
    /// The node to take from; `None` takes from all nodes of the group.
    pub node: Option<NodeId>,
    /// Base pages to isolate; the last folio may overshoot, or a huge page could never go. 0 is
    /// answered with [`Isolated::Empty`].
    pub nr_pages: u64,
    /// Balance of the kinds.
    pub swappiness: Swappiness,
    /// The kernel's scan priority: 12 is relaxed, 0 desperate.
    pub priority: u8,
    /// Passes after which the batch is handed out although it holds less than was asked for. A
    /// kernel tries what one pass gave before it goes on.
    pub nr_passes_max: u32,
    /// Set when this is one visit of a [`Reclaim`](crate::Reclaim), which decides by itself when to
    /// press harder; a request that stands alone presses as hard as it must.
    pub one_pass: Option<OnePass>,
}

/// What a visit of one group in one pass has to respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnePass {
    /// What the group is protected with.
    pub protection: Protection,
    /// Whether only `min` protects, as nothing else is left.
    pub is_low_ignored: bool,
    /// Base pages that the node lacks up to its high watermark; `None` where reclaim is not global or
    /// the mechanism has no watermarks.
    pub nr_short_pages: Option<u64>,
    /// The nodes that anon may be taken from, as it can be moved down from there although the group
    /// has no room in swap; `None` where it has, and anon may be taken from every node.
    pub anon_nodes: Option<NodeSet>,
}

impl OnePass {
    /// The balance of the kinds on one node, of that on all.
    pub(crate) fn swappiness_on(&self, node: NodeId, of_all: Swappiness) -> Swappiness {
        match self.anon_nodes {
            Some(nodes) if !nodes.contains(node) => Swappiness::FILE_ONLY,
            _ => of_all,
        }
    }
}

impl ReclaimRequest {
    /// Asks ahead of the need for base pages from all nodes of a group, at relaxed priority and the
    /// kernel's default swappiness.
    pub fn new(group: GroupId, nr_pages: u64) -> ReclaimRequest {
        ReclaimRequest {
            group,
            node: None,
            nr_pages,
            swappiness: Swappiness::DEFAULT,
            priority: 12,
            nr_passes_max: u32::MAX,
            one_pass: None,
        }
    }
}

/// Folios taken off their lists to be evicted; give it back through [`Policy::complete`](crate::Policy::complete).
///
/// Reused between calls, so that the hot path allocates nothing.
#[derive(Debug, Default)]
pub struct EvictBatch {
    /// The isolated folios, oldest first.
    pub folios: Vec<FolioId>,
    /// Isolated only to have their accessed bits read and cleared, not to be evicted: what
    /// `TwoList` deactivates. Always empty under `MultiGen`.
    pub to_check: Vec<FolioId>,
    /// Filled by the mechanism: whether `to_check[i]` was found accessed. Left empty by a mechanism
    /// that can't look, which stands for "not accessed".
    pub young: Vec<bool>,
    /// Filled by the mechanism: base pages of `folios` that had to be written to be evicted
    /// (swapped out). `TwoList` charges it to the kind that caused it.
    pub nr_written_pages: u64,
    /// Filled by [`Policy::complete`](crate::Policy::complete): the shadow of each folio of `folios` that left memory.
    pub shadows: Vec<Option<Shadow>>,
}

impl EvictBatch {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.folios.clear();
        self.to_check.clear();
        self.young.clear();
        self.nr_written_pages = 0;
        self.shadows.clear();
    }

    /// Whether there is nothing to try or to check. A batch that is not empty must be completed,
    /// however the call that filled it ended.
    pub fn is_empty(&self) -> bool {
        self.folios.is_empty() && self.to_check.is_empty()
    }
}

/// How an [`Policy::isolate`](crate::Policy::isolate) ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Isolated {
    /// The batch holds this many base pages (more than 0).
    Pages(u64),
    /// Scanned, but every folio seen was younger, protected or sorted away, or has to be looked at
    /// first (`to_check`): ask again, after completing the batch if it is not empty.
    Again,
    /// Nothing old enough is left: walk first.
    NeedsAgeing,
    /// Everything left is younger than `min_ttl`: going on would take the working set.
    Thrashing,
    /// Nothing evictable is left under this swappiness.
    Empty,
}

/// Whether a walk is due before more is evicted (rules 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ageing {
    /// Enough generations are left.
    NotDue,
    /// Due as soon as relaxed scanning did not do.
    Preferred,
    /// Nothing can, or should, be evicted before the next walk.
    Due,
}

/// What becomes of a walk that is due while scanning is relaxed, at priority 12 (rules 2.1). One that
/// is only preferred is put off in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelaxedWalk {
    /// The walk has to wait until relaxed scanning did not do.
    PutOff,
    /// The walk is made.
    Made,
}

counts! {
    /// Counters of one group since it was created; base pages unless said otherwise.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ReclaimStats {
        /// Visited by eviction.
        pub nr_scanned_pages: u64,
        /// Handed out in batches (tried).
        pub nr_isolated_pages: u64,
        /// Left memory because a batch asked for it (applied), by kind.
        pub nr_evicted_pages: [u64; 2],
        /// Left memory by the kernel's own choice, by kind.
        pub nr_kernel_evicted_pages: [u64; 2],
        /// Left memory either way, by kind and by the tier it had; a policy without tiers has the first.
        pub nr_left_pages: [[u64; ReclaimStats::NR_TIERS]; 2],
        /// Came back after either, by kind and tier.
        pub nr_refaulted_pages: [[u64; ReclaimStats::NR_TIERS]; 2],
        /// Pages that came back soon (the working set was cut into), by kind and tier.
        pub nr_refaulted_recent_pages: [[u64; ReclaimStats::NR_TIERS]; 2],
        /// Found young by a walk or a look-around.
        pub nr_young_pages: u64,
        /// Moved to the youngest generation by ageing: a walk or a look-around found them young.
        pub nr_promoted_pages: u64,
        /// Made active, or moved to the youngest generation, by eviction or by a read: the kernel's `pgactivate` without refaults.
        pub nr_activated_pages: u64,
        /// Made active by an access through a descriptor (in `nr_activated_pages`, too), which takes them off a list and puts them on another.
        pub nr_activated_by_access_pages: u64,
        /// Due and spared, by kind and tier: for their tier, or for what else the policy goes by.
        pub nr_protected_pages: [[u64; ReclaimStats::NR_TIERS]; 2],
        /// Verdicts other than evicted, in the order Referenced, Busy, Shared, Dirty, Unevictable, Gone, NotTried.
        pub nr_rejected_pages: [u64; 7],
        /// Walks that advanced `max_seq` (a number of walks).
        pub nr_ageing_runs: u64,
    }
}

impl ReclaimStats {
    /// Tiers that are told apart.
    pub const NR_TIERS: usize = MAX_NR_TIERS;
}

/// Sums over tiers.
#[cfg(test)]
pub(crate) fn by_kind(by_tier: [[u64; ReclaimStats::NR_TIERS]; 2]) -> [u64; 2] {
    by_tier.map(|tiers| tiers.iter().sum())
}

/// One generation as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GenerationView {
    /// Number of the generation.
    pub seq: GenSeq,
    /// Milliseconds since it was born.
    pub age_ms: u64,
    /// Base pages by kind; `None` where the kind's window has moved past it.
    #[cfg_attr(feature = "serde", serde(flatten, serialize_with = "pages_by_kind"))]
    pub nr_pages: [Option<u64>; 2],
}

#[cfg(feature = "serde")]
fn pages_by_kind<S: serde::Serializer>(
    [anon, file]: &[Option<u64>; 2],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("nr_anon_pages", anon), ("nr_file_pages", file)])
}

/// One group on one node as people see it, oldest generation first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GroupView {
    /// The group.
    #[cfg_attr(feature = "serde", serde(rename = "memcg"))]
    pub group: GroupId,
    /// Path of the group, as printed in the `lru_gen` text.
    pub path: String,
    /// The node.
    pub node: NodeId,
    /// Oldest first.
    pub generations: Vec<GenerationView>,
}
