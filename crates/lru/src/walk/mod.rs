//! Ageing walks: which address spaces and which page tables a walk looks at (rules 2.3 to 2.6).
//!
//! A walk costs what it visits, so most of it is in what it leaves out: spaces that have not run,
//! tables whose own accessed bit is clear, tables that had next to nothing young last time. The
//! mechanism walks; what to visit is asked here. A mechanism that visits everything and reports what
//! it finds needs none of this: [`Policy::finish_walk`](crate::Policy::finish_walk) is enough.
//!
//! ```text
//!   begin_walk --> next_space --Space--> should_scan --yes--> entries --> accessed, scanned
//!                    |  ^  |                 |  ^                             |
//!                    |  |  +--Over--> (stop) |  +-------- next table <--------+
//!                    |  +-- space done ------+ no
//!                    +--End--> finish: a generation is born
//! ```
//!
//! **Owns** the words of a walk ([`AgeingWalks`]), spaces, filters, the density rule, the window of
//! the look-around, the counters of walks. **Does not own** page tables, or what an access changes
//! (`multigen`).
//!
//! **Invariants**
//! - I1: in one iteration each space is handed to at most one walker, and exactly one walker ends it.
//! - I2: what a walk found dense is visited by the next walk of that lruvec.

mod bloom;
mod spaces;

use std::ops::Range;

pub use bloom::TableId;
pub use spaces::SpaceSlot;
pub(crate) use spaces::{Found, Spaces};

use crate::{
    error::PolicyError,
    ids::{FolioId, GroupId, NodeId, TimeMs},
    swappiness::Swappiness,
};
use bloom::TableFilters;
use spaces::Cursor;

/// Entries an eviction looks at around one found young, at most.
pub const NR_LOOK_AROUND_ENTRIES: u64 = 64;

/// A table is dense from one young entry in so many on: those of one cache line of 64 bytes.
const NR_ENTRIES_PER_YOUNG: u64 = 8;

/// Whether the filters and idle marks count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Idle spaces and sparse tables are left out.
    Filtered,
    /// Everything is looked at.
    Forced,
}

/// The accessed bit of the entry that points to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableBit {
    /// The processor has none, or the mechanism can't clear it.
    Unknown,
    /// Nothing below was accessed since it was last cleared.
    Clear,
    /// Something was; the mechanism clears it if it visits the table.
    Set,
}

/// What the visit of a table came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableScan {
    /// The entries of the table were read and the young ones cleared.
    Read {
        /// Entries looked at, absent ones included.
        nr_entries: u32,
        /// Young entries that map a folio of this lruvec.
        nr_young: u32,
    },
    /// Somebody else held it; it was left alone.
    Contended,
}

/// What [`AgeingWalks::next_space`] has for a walker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextSpace {
    /// Visit this one.
    Space(SpaceSlot),
    /// All are taken, and this walker found out first: it ends the walk by [`AgeingWalks::finish`].
    End,
    /// Another walker ended the walk.
    Over,
}

/// How the look-around was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookAroundBy {
    /// The reclaimer has a walk of its own going: neighbours are promoted as by that walk.
    Walker,
    /// The reclaimer has no walk going: neighbours are activated at once, lists and all.
    Reclaimer,
}

/// What eviction saw around a folio that it found young (window: [`look_around_window`]).
#[derive(Clone, Copy, Debug)]
pub struct LookAround<'a> {
    /// The folio found young; its verdict is `Referenced`.
    pub folio: FolioId,
    /// The table that maps it.
    pub table: TableId,
    /// Entries of the window, absent ones and the folio's own included.
    pub nr_entries: u32,
    /// The other folios whose entries were young and are cleared now, in order of address; a folio
    /// mapped by several entries once for each.
    pub young: &'a [FolioId],
    /// With a walk or without.
    pub by: LookAroundBy,
}

/// A walker's place in a walk of one lruvec.
#[derive(Debug)]
pub struct Walk {
    pub(crate) lruvec: usize,
    pub(crate) seq: u64,
    pub(crate) swappiness: Swappiness,
    pub(crate) scan: Scan,
    pub(crate) has_ended: bool,
}

/// Ageing walks with everything that makes them cheap; a policy may have them.
///
/// Each walk is of one group on one node, as in the kernel; folios of other nodes and groups that a
/// table maps are not its business. Spaces handed in are live, or it panics.
pub trait AgeingWalks {
    /// A group has a new address space; the next walk of each node looks at it in any case.
    fn space_added(&mut self, group: GroupId) -> Result<SpaceSlot, PolicyError>;

    /// A space was put on a processor: the next walk does not pass it over.
    fn space_ran(&mut self, space: SpaceSlot);

    /// How many base pages a space maps, by kind. Without being told the engine takes it for large.
    fn space_sized(&mut self, space: SpaceSlot, nr_pages: [u64; 2]);

    /// A space is gone. No walker is in it.
    fn space_gone(&mut self, space: SpaceSlot);

    /// A walker joins the walk of a lruvec, or begins it.
    fn begin_walk(
        &mut self,
        group: GroupId,
        node: NodeId,
        swappiness: Swappiness,
        scan: Scan,
    ) -> Result<Walk, PolicyError>;

    /// The next space for a walker; no two walkers get the same.
    fn next_space(&mut self, walk: &mut Walk) -> NextSpace;

    /// Whether the generation was ended meanwhile: the rest of the space need not be visited.
    fn is_over(&self, walk: &Walk) -> bool;

    /// Whether a table is to be visited. `bit` is of the entry that points to it.
    fn should_scan(&mut self, walk: &Walk, table: TableId, bit: TableBit) -> bool;

    /// A table was visited; what was young in it has been reported as accessed.
    fn scanned(&mut self, walk: &Walk, table: TableId, scan: TableScan);

    /// A walker leaves. The one that got [`NextSpace::End`] makes a generation, born `now`, unless
    /// somebody else has; whether it did.
    fn finish(&mut self, walk: Walk, now: TimeMs) -> bool;

    /// Eviction found a folio young and has read the entries around it.
    fn looked_around(&mut self, around: LookAround<'_>);
}

counts! {
    /// Counters of walks and look-arounds since the group was created.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WalkStats {
        /// Tables asked about.
        pub nr_tables_seen: u64,
        /// Tables left out because the filter did not know them.
        pub nr_tables_filtered: u64,
        /// Tables visited because the filter knew them.
        pub nr_filter_hits: u64,
        /// Visited and dense enough to be visited by the next walk.
        pub nr_tables_dense: u64,
        /// Page-table entries read by walks.
        pub nr_entries_visited: u64,
        /// Entries found young by walks.
        pub nr_entries_young: u64,
        /// Page-table entries read by them.
        pub nr_look_around_entries: u64,
    }
}

/// What differs in walks from kernel to kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WalkRules {
    /// Spaces with fewer evictable base pages are passed over.
    pub(crate) nr_space_pages_min: u64,
    /// Whether a clear bit above a table keeps even a forced scan out.
    pub(crate) does_clear_bit_stop_forced: bool,
    /// Whether a table that could not be read is carried over to the next walk as dense.
    pub(crate) is_contended_dense: bool,
    /// Young entries a look-around begins to count with: 1 counts the one that caused it.
    pub(crate) nr_look_around_young_first: u64,
}

impl WalkRules {
    /// Kernels 6.1 to 6.13.
    pub(crate) const V1: WalkRules = WalkRules {
        nr_space_pages_min: 64,
        does_clear_bit_stop_forced: true,
        is_contended_dense: false,
        nr_look_around_young_first: 0,
    };

    /// Kernels 6.14 to 7.1.
    pub(crate) const V2: WalkRules = WalkRules {
        nr_space_pages_min: 0,
        does_clear_bit_stop_forced: false,
        is_contended_dense: false,
        nr_look_around_young_first: 1,
    };

    /// From 7.2 on.
    pub(crate) const V3: WalkRules = WalkRules {
        is_contended_dense: true,
        ..WalkRules::V2
    };
}

/// Whether a table with so many young entries is worth visiting again (`suitable_to_scan`).
pub(crate) fn is_dense(nr_entries: u64, nr_young: u64) -> bool {
    nr_young * NR_ENTRIES_PER_YOUNG >= nr_entries
}

/// The walks of one lruvec.
#[derive(Debug)]
pub(crate) struct WalkState {
    pub(crate) cursor: Cursor,
    pub(crate) filters: TableFilters,
    pub(crate) stats: WalkStats,
    /// The youngest generation when a walk that asks no filter last put something into one.
    pub(crate) noted_seq: Option<u64>,
}

impl WalkState {
    /// Of a lruvec whose youngest generation is `max_seq`.
    pub(crate) fn new(max_seq: u64) -> WalkState {
        WalkState {
            cursor: Cursor::new(max_seq),
            filters: TableFilters::default(),
            stats: WalkStats::default(),
            noted_seq: None,
        }
    }
}

/// The entries to look at around one found young, as page numbers; `at` lies in both ranges.
///
/// That is what the mapping and the table share, and of that at most
/// [`NR_LOOK_AROUND_ENTRIES`]: the first or the last ones if `at` is within half of them of that
/// edge, else those around it. A window of one page is not worth a look.
///
/// ```
/// use strata_lru::look_around_window;
///
/// assert_eq!(look_around_window(700, 600..10_000, 512..1024), 668..732);
/// assert_eq!(look_around_window(610, 600..10_000, 512..1024), 600..664);
/// assert_eq!(look_around_window(1023, 600..10_000, 512..1024), 960..1024);
/// assert_eq!(look_around_window(610, 600..620, 512..1024), 600..620);
/// ```
pub fn look_around_window(at: u64, mapping: Range<u64>, table: Range<u64>) -> Range<u64> {
    let (start, end) = (mapping.start.max(table.start), mapping.end.min(table.end));
    debug_assert!((start..end).contains(&at), "{at} is not in {start}..{end}");
    let half = NR_LOOK_AROUND_ENTRIES / 2;
    if end - start <= NR_LOOK_AROUND_ENTRIES {
        start..end
    } else if at - start < half {
        start..start + NR_LOOK_AROUND_ENTRIES
    } else if end - at < half {
        end - NR_LOOK_AROUND_ENTRIES..end
    } else {
        at - half..at + half
    }
}

#[cfg(test)]
mod tests;
