//! Which folio is at which page: the pages of managed processes, as the engine knows them.
//!
//! ```text
//!   tracker  spaces -> tables                  places the way back, from a folio to its page
//! ```
//!
//! **Owns** the map between pages of processes and folios of the engine, and what walks have found and cost. **Does not
//! own** which folio goes (the engine), when somebody looks (`run`), nor the walks, which tell a tracker what they find
//! (`observe`).
//!
//! **Invariants** I1: one thread owns all of this.

pub(crate) mod places;
pub(crate) mod space;
mod table;
pub(crate) mod tracker;
#[cfg(test)]
mod tracker_tests;

pub use strata_control::trace::Found as WalkFindings;
use strata_linux::access::WalkCost;

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
