//! Access sources: who can say which pages of a process are present, accessed and dirty.
//!
//! **Owns** the [`AccessSource`] seam and the record every source speaks ([`TableRecord`]): one
//! last-level page table, as bitmaps. **Does not own** what is made of it (`pages`), nor clearing
//! as a side effect of reading: reading never clears, a [`Clearer`] does.

mod bpf;
pub mod census;
mod clear;
mod error;
mod kernel;
mod locate;
mod probe;
mod smaps;
mod smaps_text;
mod ways;

pub use bpf::BpfSource;
pub use clear::{Cleared, Clearer, NrEntries, YoungPiece, clear_pieces, entries_in};
pub use error::AccessError;
pub use kernel::kernel_generations;
pub use probe::parse_release;
pub use smaps::SmapsSource;
pub use strata_lru::machine::ClearIntent;
pub use ways::{Way, Ways, entries_of};

use crate::addr::{AddrRange, TableNo, TableSpan};
use crate::process::{Process, VmFlags};
pub use crate::sys::bpf_census::carried;
pub use crate::sys::bpf_shared::{NODE_BITS, NODE_RANGES_MAX};
use strata_lru::NodeId;
use strata_lru::bits::Bits;

/// What one entry of the middle level (2 MiB) holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableShape {
    /// A table of 512 base pages.
    #[default]
    Pages,
    /// One huge page; all its bits agree.
    Huge,
}

/// One last-level table (2 MiB of address space) of a process at the moment it was read.
///
/// The bitmaps are disjoint where it makes sense: an entry is present, or swapped, or migrating, or
/// nothing. `special` (zero page, PFN map) and `protnone` entries are not in `present`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableRecord {
    /// Number of the table.
    pub table: TableNo,
    /// Base pages or one huge page.
    pub shape: TableShape,
    /// Backed by an ordinary page now.
    pub present: Bits,
    /// Hardware accessed bit, a subset of `present`.
    pub accessed: Bits,
    /// Written since the kernel last cleaned them, a subset of `present`.
    pub dirty: Bits,
    /// Holds a swap entry.
    pub swapped: Bits,
    /// Present, but not a page that reclaim can take (zero page, PFN map).
    pub special: Bits,
    /// In memory, and made inaccessible: by the program (`PROT_NONE`), or by the kernel, which so finds out who uses a page (NUMA
    /// balancing).
    pub protnone: Bits,
    /// Accessed, and written, before that: subsets of `protnone`.
    pub protnone_accessed: Bits,
    /// See `protnone_accessed`.
    pub protnone_dirty: Bits,
    /// Under migration, or another non-swap entry (userfaultfd marker, device, poison).
    pub migrating: Bits,
    /// Known to be on one of the kernel's lists of inactive pages (classic LRU), a subset of `present`.
    /// Empty unless [`AccessSource::see_inactive`] was asked for.
    pub inactive: Bits,
    /// On which memory node each page of `present` is: bit by bit the number that [`AccessSource::see_nodes`] was given, or all
    /// bits where it is on none of these. `None` unless that was asked for.
    pub node: Option<[Bits; NODE_BITS]>,
}

impl TableRecord {
    /// A record with nothing in it.
    pub fn empty(table: TableNo, shape: TableShape) -> TableRecord {
        TableRecord {
            table,
            shape,
            ..TableRecord::default()
        }
    }
}

/// How fine a source sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grain {
    /// Every page on its own.
    Page,
    /// Only how many pages of a mapping; which ones is assumed, lowest addresses first.
    Mapping,
}

/// What a source is and can't see, for reports.
#[derive(Clone, Debug, serde::Serialize)]
pub struct SourceInfo {
    /// `bpf` or `smaps`.
    pub name: &'static str,
    /// How fine the source sees.
    pub grain: Grain,
    /// What the source can't see, one sentence each.
    pub blind_spots: Vec<String>,
}

strata_lru::counts! {
    /// What a walk cost.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
    pub struct WalkCost {
        /// Last-level tables read.
        pub nr_tables: u64,
        /// Page-table entries looked at.
        pub nr_entries: u64,
        /// Runs of the kernel-side program (or files read).
        pub nr_runs: u64,
        /// Wall time, nanoseconds.
        pub wall_ns: u64,
    }
}

/// Somebody who can read accessed bits.
pub trait AccessSource: Send + std::fmt::Debug {
    /// What the source is and can't see.
    fn info(&self) -> SourceInfo;

    /// Reads every table in `spans` (sorted, disjoint) that has anything in it, in address order,
    /// each once. Clears nothing.
    fn read(
        &mut self,
        process: &Process,
        spans: &[TableSpan],
        visit: &mut dyn FnMut(&TableRecord),
    ) -> Result<WalkCost, AccessError>;

    /// Whether reads from now on are to fill [`TableRecord::inactive`], which costs about as much again.
    /// Returns whether they will: not every source can.
    fn see_inactive(&mut self, _is_wanted: bool) -> bool {
        false
    }

    /// From now on reads fill [`TableRecord::node`]: pages of physical memory (the first, the one after the last) are on these
    /// nodes, at most [`NODE_RANGES_MAX`] ranges. Returns whether they will: not every source can.
    fn see_nodes(&mut self, _ranges: &[(u64, u64, NodeId)]) -> bool {
        false
    }

    /// Whether reads can fill [`TableRecord::node`] at all.
    fn tells_nodes(&self) -> bool {
        false
    }

    /// All mappings of the process with the kernel's flags, by address.
    fn vm_flags(&mut self, process: &Process) -> Result<Vec<(AddrRange, VmFlags)>, AccessError>;
}

/// The source of accesses that is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessChoice {
    /// The best that works here.
    #[default]
    Auto,
    /// [`BpfSource`] or an error.
    Bpf,
    /// [`SmapsSource`].
    Smaps,
}

/// Opens a source. `Auto` falls back to `smaps` when BPF can't be used, and says why in
/// the log and in [`SourceInfo`].
pub fn open(choice: AccessChoice) -> Result<Box<dyn AccessSource>, AccessError> {
    match choice {
        AccessChoice::Bpf => Ok(Box::new(BpfSource::open()?)),
        AccessChoice::Smaps => Ok(Box::new(SmapsSource::new())),
        AccessChoice::Auto => match BpfSource::open() {
            Ok(source) => Ok(Box::new(source)),
            Err(error) => {
                tracing::warn!(%error, "watching by smaps instead");
                Ok(Box::new(SmapsSource::instead_of(&error)))
            }
        },
    }
}
