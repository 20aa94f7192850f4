//! Which folio is at which page: the pages of managed processes, as the engine knows them.
//!
//! ```text
//!   members  who belongs to the group          walk   reads every space once, and clears
//!   tracker  spaces -> tables                  places the way back, from a folio to its page
//! ```
//!
//! **Owns** the map between pages of processes and folios of the engine, and what walks have found and cost. **Does not
//! own** which folio goes (the engine), when somebody looks (`run`, `observe`), nor reading and clearing (`access`).
//!
//! **Invariants** I1: one thread owns all of this.

pub(crate) mod members;
pub(crate) mod places;
pub(crate) mod space;
mod table;
pub(crate) mod tracker;
#[cfg(test)]
mod tracker_tests;
pub(crate) mod walk;

use strata_linux::access::WalkCost;
use strata_lru::Kind;

/// What one walk of one space found; base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkFindings {
    /// Present and reclaimable, by kind (anon, file).
    pub nr_resident_pages: [u64; 2],
    /// Accessed since the last walk, by kind.
    pub nr_young_pages: [u64; 2],
    /// New since the last walk.
    pub nr_appeared_pages: u64,
    /// New pages that are back after an eviction.
    pub nr_refaulted_pages: u64,
    /// Gone since the last walk, taken by the kernel.
    pub nr_reclaimed_pages: u64,
    /// Gone since the last walk, given back by the program.
    pub nr_freed_pages: u64,
    /// Present but locked, hugetlb or special.
    pub nr_unreclaimable_pages: u64,
    /// Present but not managed, because the folio table is full.
    pub nr_untracked_pages: u64,
}

impl WalkFindings {
    /// Adds another space's findings.
    pub fn add(&mut self, other: &WalkFindings) {
        for kind in Kind::ALL {
            self.nr_resident_pages[kind.index()] += other.nr_resident_pages[kind.index()];
            self.nr_young_pages[kind.index()] += other.nr_young_pages[kind.index()];
        }
        self.nr_appeared_pages += other.nr_appeared_pages;
        self.nr_refaulted_pages += other.nr_refaulted_pages;
        self.nr_reclaimed_pages += other.nr_reclaimed_pages;
        self.nr_freed_pages += other.nr_freed_pages;
        self.nr_unreclaimable_pages += other.nr_unreclaimable_pages;
        self.nr_untracked_pages += other.nr_untracked_pages;
    }
}

/// What looking cost.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct WalkReport {
    /// Walks of the group.
    pub nr_walks: u64,
    /// Spaces walked in all.
    pub nr_spaces: u64,
    /// Spaces skipped because they had not run.
    pub nr_spaces_skipped: u64,
    /// Reading tables, in all.
    pub cost: WalkCost,
    /// Clearing accessed bits, in all; pauses between its calls included.
    pub clear_ns: u64,
    /// Pieces of tables that kept their accessed bits, because they can't be cleared without holding a program up.
    pub nr_left_pieces: u64,
    /// What the last walk found.
    pub last: WalkFindings,
    /// Page-table entries visited for each page that left memory.
    pub entries_per_freed_page: Option<f64>,
}
