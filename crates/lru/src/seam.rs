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
//! **Owns** the vocabulary and the [`Policy`] trait. **Does not own** any policy.

use crate::{
    counting::MAX_NR_TIERS,
    group::{GroupTree, Limits, Protection},
    heat::{PastHeat, Ranking},
    ids::{FolioId, GenSeq, GroupId, Kind, NodeId, NodeSet, Order, SpaceNo, TimeMs},
    lru_gen::LruGen,
    memcg_lru::MemcgLru,
    reclaim::GroupRules,
    rules::Aborting,
    tiering::Tiering,
    walk::{AgeingWalks, Scan, WalkStats},
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
    /// Its size.
    pub order: Order,
    /// Why it is here.
    pub cause: Cause,
    /// What [`Policy::gone`] or [`Policy::complete`] left behind when it was last evicted.
    pub shadow: Option<Shadow>,
    /// Mapped executable from a file.
    pub is_exec: bool,
    /// Whose page it is; a policy that goes by heat compares the pages of one space as they are.
    pub space: SpaceNo,
    /// What [`Policy::gone`] or [`Policy::complete`] left behind with the shadow.
    pub heat: PastHeat,
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

/// The kernel's swappiness: 0 never anon, 1..=199 a ratio, 200 anon first, 201 anon only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Swappiness(u8);

impl Swappiness {
    /// The kernel's default.
    pub const DEFAULT: Swappiness = Swappiness(60);
    /// File only.
    pub const FILE_ONLY: Swappiness = Swappiness(0);
    /// Anon only (`max`).
    pub const ANON_ONLY: Swappiness = Swappiness(201);

    /// `None` above 201.
    pub fn try_new(value: u8) -> Option<Swappiness> {
        (value <= 201).then_some(Swappiness(value))
    }

    /// The number, 0..=201.
    pub fn get(self) -> u8 {
        self.0
    }

    /// Whether folios of this kind may be evicted at all.
    pub fn allows(self, kind: Kind) -> bool {
        match kind {
            Kind::Anon => self.0 > 0,
            Kind::File => self.0 <= 200,
        }
    }
}

impl Default for Swappiness {
    fn default() -> Self {
        Self::DEFAULT
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
    /// Who asks.
    pub origin: Origin,
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
            origin: Origin::Background,
            nr_passes_max: u32::MAX,
            one_pass: None,
        }
    }
}

/// Folios taken off their lists to be evicted; give it back through [`Policy::complete`].
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
    /// Filled by [`Policy::complete`]: the shadow of each folio of `folios` that left memory.
    pub shadows: Vec<Option<Shadow>>,
    /// Filled by [`Policy::complete`] of a policy that goes by heat: that of each folio of `folios`
    /// that left memory, to be kept by page. Else empty.
    pub heats: Vec<PastHeat>,
}

impl EvictBatch {
    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.folios.clear();
        self.to_check.clear();
        self.young.clear();
        self.nr_written_pages = 0;
        self.shadows.clear();
        self.heats.clear();
    }

    /// Whether there is nothing to try or to check. A batch that is not empty must be completed,
    /// however the call that filled it ended.
    pub fn is_empty(&self) -> bool {
        self.folios.is_empty() && self.to_check.is_empty()
    }
}

/// How an [`Policy::isolate`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// It has to wait until relaxed scanning did not do.
    PutOff,
    /// It is made.
    Made,
}

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
    /// Came back after either, by kind and by the tier it had; a policy without tiers has the first.
    pub nr_refaulted_pages: [[u64; ReclaimStats::NR_TIERS]; 2],
    /// Of those, recent ones (the working set was cut into), by kind and tier.
    pub nr_refaulted_recent_pages: [[u64; ReclaimStats::NR_TIERS]; 2],
    /// Found young by a walk or a look-around.
    pub nr_young_pages: u64,
    /// Moved to the youngest generation.
    pub nr_promoted_pages: u64,
    /// Spared for their tier.
    pub nr_protected_pages: u64,
    /// Verdicts other than evicted, in the order Referenced, Busy, Shared, Dirty, Unevictable, Gone, NotTried.
    pub nr_rejected_pages: [u64; 7],
    /// Walks that advanced `max_seq` (a number of walks).
    pub nr_ageing_runs: u64,
}

impl ReclaimStats {
    /// Tiers that are told apart.
    pub const NR_TIERS: usize = MAX_NR_TIERS;
}

impl std::ops::AddAssign for ReclaimStats {
    fn add_assign(&mut self, other: ReclaimStats) {
        fn add<const N: usize>(to: &mut [u64; N], more: [u64; N]) {
            to.iter_mut().zip(more).for_each(|(to, more)| *to += more);
        }
        // Destructured, so that a new counter can't be forgotten here.
        let ReclaimStats {
            nr_scanned_pages,
            nr_isolated_pages,
            nr_evicted_pages,
            nr_kernel_evicted_pages,
            nr_refaulted_pages,
            nr_refaulted_recent_pages,
            nr_young_pages,
            nr_promoted_pages,
            nr_protected_pages,
            nr_rejected_pages,
            nr_ageing_runs,
        } = other;
        self.nr_scanned_pages += nr_scanned_pages;
        self.nr_isolated_pages += nr_isolated_pages;
        add(&mut self.nr_evicted_pages, nr_evicted_pages);
        add(&mut self.nr_kernel_evicted_pages, nr_kernel_evicted_pages);
        for kind in Kind::ALL.map(Kind::index) {
            let all = &mut self.nr_refaulted_pages[kind];
            add(all, nr_refaulted_pages[kind]);
            let recent = &mut self.nr_refaulted_recent_pages[kind];
            add(recent, nr_refaulted_recent_pages[kind]);
        }
        self.nr_young_pages += nr_young_pages;
        self.nr_promoted_pages += nr_promoted_pages;
        self.nr_protected_pages += nr_protected_pages;
        add(&mut self.nr_rejected_pages, nr_rejected_pages);
        self.nr_ageing_runs += nr_ageing_runs;
    }
}

/// Sums over tiers.
#[cfg(test)]
pub(crate) fn by_kind(by_tier: [[u64; ReclaimStats::NR_TIERS]; 2]) -> [u64; 2] {
    by_tier.map(|tiers| tiers.iter().sum())
}

/// One generation as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationView {
    /// Its number.
    pub seq: GenSeq,
    /// Milliseconds since it was born.
    pub age_ms: u64,
    /// Base pages by kind; `None` where the kind's window has moved past it.
    pub nr_pages: [Option<u64>; 2],
}

/// One group on one node as people see it, oldest generation first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The group.
    pub group: GroupId,
    /// Its path, as printed in the `lru_gen` text.
    pub path: String,
    /// The node.
    pub node: NodeId,
    /// Oldest first.
    pub generations: Vec<GenerationView>,
}

/// What a policy can't do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The folio table is at its largest.
    #[error("the folio table is full ({0} folios)")]
    TableFull(u32),
    /// No such group.
    #[error("no group {}", .0.0)]
    NoGroup(GroupId),
    /// All group numbers are taken.
    #[error("no more than {0} groups")]
    TooManyGroups(u16),
    /// All numbers for a group on a node are taken.
    #[error("no more than {0} groups times nodes")]
    TooManyLruvecs(u32),
    /// The group was removed: it can neither be charged nor have children nor be removed again.
    #[error("group {} has been removed", .0.0)]
    GroupOffline(GroupId),
    /// Something is still in the group.
    #[error("group {} still has groups or address spaces in it: remove or move them first", .0.0)]
    GroupBusy(GroupId),
    /// A group too far below the top.
    #[error("a group may lie at most {0} levels deep")]
    GroupTooDeep(usize),
    /// A folio larger than the table can describe.
    #[error("a folio of order {} is too large: the largest order is {}", .order.0, .largest.0)]
    OrderTooLarge {
        /// The order asked for.
        order: Order,
        /// The largest there is.
        largest: Order,
    },
}

/// A reclaim policy: [`MultiGen`](crate::MultiGen), or the classic two lists ([`TwoList`](crate::TwoList))
/// behind the same door.
///
/// The mechanism promises: a folio is reported `appeared` once before anything else is said of it,
/// and nothing is said of it after it is gone; folios of a batch are completed once. The policy
/// promises: it never hands out a folio twice, and forgets a folio only when told it is gone.
/// A folio that `gone` names while it is isolated stays in the batch and is completed with
/// [`Verdict::Gone`]; its id is not reused before.
pub trait Policy: std::fmt::Debug + Send {
    /// Its name on the command line.
    fn name(&self) -> &'static str;

    /// Makes a group whose generations are born `now`.
    fn add_group(&mut self, path: &str, now: TimeMs) -> Result<GroupId, PolicyError>;

    /// Makes a group below another one: what it uses counts for both.
    fn add_child_group(
        &mut self,
        parent: GroupId,
        path: &str,
        now: TimeMs,
    ) -> Result<GroupId, PolicyError>;

    /// Removes a group that has no children. What is charged to it stays, unprotected, until it
    /// has been reclaimed or freed; then the group's number may be given to another.
    fn remove_group(&mut self, group: GroupId) -> Result<(), PolicyError>;

    /// Changes what a group may use. Nothing is reclaimed by that alone.
    fn set_limits(&mut self, group: GroupId, limits: Limits) -> Result<(), PolicyError>;

    /// The groups: usage, limits, protection, events.
    fn groups(&self) -> &GroupTree;

    /// The same, for [`Reclaim`](crate::Reclaim), which counts events and remembers its place there.
    fn groups_mut(&mut self) -> &mut GroupTree;

    /// The memcg LRU of a node, if this policy has one and the node has been used.
    fn memcg_lru(&mut self, _node: NodeId) -> Option<&mut MemcgLru> {
        None
    }

    /// A group is above its soft limit (cgroup v1): the next to be reclaimed under global pressure.
    fn soft_limit_exceeded(&mut self, _group: GroupId) {}

    /// How reclaim from several groups goes.
    fn group_rules(&self) -> GroupRules {
        GroupRules::CLASSIC
    }

    /// Base pages that a group has in swap will not come back: they were freed, or they came back
    /// for another group. Anon is charged to its group's swap from its eviction until it returns
    /// with its shadow, or until this is said; more than the group has there counts as all of it.
    fn swap_freed(&mut self, group: GroupId, nr_pages: u64) -> Result<(), PolicyError>;

    /// Base pages of a group that this swappiness allows to evict, on one node or on all.
    fn nr_evictable_pages(
        &self,
        group: GroupId,
        node: Option<NodeId>,
        swappiness: Swappiness,
    ) -> Result<u64, PolicyError>;

    /// A folio is in memory. With a shadow this is a refault.
    fn appeared(&mut self, arrival: Arrival) -> Result<FolioId, PolicyError>;

    /// A folio was accessed. For [`AccessVia::PageTable`] changes flags only, never a list.
    fn accessed(&mut self, folio: FolioId, via: AccessVia);

    /// The accessed bits of these were found set and cleared, but by no walk: beside one that was to go.
    /// Said besides [`AgeingWalks::looked_around`]; a policy that counts walks counts them at the next one.
    fn note_young(&mut self, folios: &[FolioId]) {
        let _ = folios;
    }

    /// A hint that a folio is not needed soon (`MADV_COLD`, `POSIX_FADV_DONTNEED`): what was counted
    /// is forgotten, and it enters anew as if nobody waited for it. A policy may ignore it.
    fn deactivate(&mut self, folio: FolioId) {
        let _ = folio;
    }

    /// A folio became dirty (of a file) or began to be written, or is clean again. A mechanism that
    /// can't tell never calls this; a policy that does not care ignores it.
    fn set_write_state(&mut self, folio: FolioId, state: WriteState) {
        let (_, _) = (folio, state);
    }

    /// A folio left memory outside any batch; its shadow and its heat are to be kept for its return.
    fn gone(&mut self, folio: FolioId, cause: GoneCause) -> Option<(Shadow, PastHeat)>;

    /// Whether a walk is due; never, where accessed bits are only read at the end of a list. A policy
    /// may want one before memory is full: whoever can, asks at each arrival.
    fn ageing(&self, group: GroupId, _swappiness: Swappiness) -> Result<Ageing, PolicyError> {
        self.groups().get(group).map(|_| Ageing::NotDue)
    }

    /// What becomes of a walk that is due while scanning is relaxed.
    fn relaxed_walk(&self) -> RelaxedWalk {
        RelaxedWalk::PutOff
    }

    /// How much of a group's tables its walks have to visit: what the filters let through, or all, as
    /// where each walk counts for each page.
    fn walk_scan(&self) -> Scan {
        Scan::Filtered
    }

    /// Who of a group goes before its lists are looked at. A mechanism that is told [`Ranking::Due`]
    /// walks before it asks for more; [`Policy::isolate`] would answer [`Isolated::NeedsAgeing`].
    fn ranking(&self, group: GroupId, _now: TimeMs) -> Result<Ranking, PolicyError> {
        self.groups().get(group).map(|_| Ranking::None)
    }

    /// Ends a walk of the group: everything young was reported, a new generation is born `now`.
    fn finish_walk(
        &mut self,
        group: GroupId,
        _swappiness: Swappiness,
        _now: TimeMs,
    ) -> Result<(), PolicyError> {
        self.groups().get(group).map(|_| ())
    }

    /// When a reclaim of this policy stops scanning at one priority before its budget is used up.
    fn aborting(&self) -> Aborting {
        Aborting::WhenMet
    }

    /// The nodes whose folios reclaim may move down to a slower one. From there anon can be taken even
    /// without swap.
    fn demoting_nodes(&self) -> NodeSet {
        NodeSet::default()
    }

    /// Whether a group has anything on a node that is older than what the policy promises to keep.
    /// Reclaim of a node asks it of all groups before each pass, and ends when none has. A policy that
    /// promises nothing of the kind, or keeps a promise group by group, says yes.
    fn is_reclaimable(
        &self,
        group: GroupId,
        _node: NodeId,
        _swappiness: Swappiness,
        _priority: u8,
        _now: TimeMs,
    ) -> Result<bool, PolicyError> {
        self.groups().get(group).map(|_| true)
    }

    /// Takes folios off their lists into `batch`, which is cleared first.
    fn isolate(
        &mut self,
        request: ReclaimRequest,
        now: TimeMs,
        batch: &mut EvictBatch,
    ) -> Result<Isolated, PolicyError>;

    /// The folios of a kind that [`Policy::isolate`] would take next, in order. Nothing changes by asking.
    ///
    /// It is exactly what comes of asking again and again for one page of that kind alone (of all nodes,
    /// at relaxed priority, as [`ReclaimRequest::new`]), each completed as [`Verdict::Evicted`] before the
    /// next is asked for, until the answer is none of [`Isolated::Pages`] and [`Isolated::Again`], as long as nothing
    /// is accessed, arrives, leaves or is written meanwhile, no walk is made and it is `now` all the time. So
    /// - what eviction would sort to another generation, spare for its tier or its count, deactivate or give
    ///   a second chance is left out until its turn comes there, and what would be taken after the next
    ///   walk is not in it: the order ends where [`Isolated::NeedsAgeing`] would be the answer;
    /// - it ends where all that is left is younger than `min_ttl`;
    /// - what is isolated already is not in it;
    /// - what `to_check` names is taken for not accessed;
    /// - nodes come one after another, as `isolate` goes through them.
    ///
    /// With larger batches tiers are judged less often, and eviction hears later of what has left; both
    /// kinds at once are balanced by swappiness and what either cost. There it is the order of each kind in
    /// general, and may differ by who is spared.
    fn eviction_order(
        &self,
        group: GroupId,
        kind: Kind,
        now: TimeMs,
    ) -> Result<Box<dyn Iterator<Item = FolioId> + '_>, PolicyError>;

    /// Takes folios that the mechanism chose off their lists into `batch` (cleared first), in this
    /// order, until it holds `nr_pages_max` base pages; returns how many it holds. What is isolated
    /// already, not in memory, or may not be evicted is passed over. A policy that knows no order
    /// but its own takes none.
    fn isolate_chosen(
        &mut self,
        _folios: &mut dyn Iterator<Item = FolioId>,
        _nr_pages_max: u64,
        _swappiness: Swappiness,
        _now: TimeMs,
        batch: &mut EvictBatch,
    ) -> u64 {
        batch.clear();
        0
    }

    /// Learns what became of a batch; `verdicts[i]` is of `batch.folios[i]`, `batch.young[i]` of
    /// `batch.to_check[i]`. Evicted and gone folios are forgotten (`batch.shadows` is filled), the
    /// others are put back.
    fn complete(&mut self, batch: &mut EvictBatch, verdicts: &[Verdict]);

    /// Kind of a live folio.
    fn kind(&self, folio: FolioId) -> Kind;

    /// Size of a live folio.
    fn order(&self, folio: FolioId) -> Order;

    /// Sizes and ages of the group's generations (active and inactive count as two for `TwoList`).
    fn view(&self, group: GroupId, now: TimeMs) -> Result<Vec<GroupView>, PolicyError>;

    /// The group's counters.
    fn stats(&self, group: GroupId) -> Result<ReclaimStats, PolicyError>;

    /// The walks that leave idle spaces and sparse tables out, if this policy has them.
    fn walks(&mut self) -> Option<&mut dyn AgeingWalks> {
        None
    }

    /// The group's counters of walks.
    fn walk_stats(&self, _group: GroupId) -> Result<WalkStats, PolicyError> {
        Ok(WalkStats::default())
    }

    /// The kernel's `lru_gen` commands and full text, if this policy has generations.
    fn lru_gen(&mut self) -> Option<&mut dyn LruGen> {
        None
    }

    /// Moving pages between fast and slow nodes, if this policy was made to.
    fn tiering(&mut self) -> Option<&mut dyn Tiering> {
        None
    }

    /// Bytes of memory the policy itself uses.
    fn memory_bytes(&self) -> u64;

    /// Recounts everything; the error says what does not add up.
    fn validate(&self) -> Result<(), String>;
}
