//! Who goes while nothing has come back: the least recently used, on trial or proven.
//!
//! The two lists are there to choose better than by the order of last use. Until something that left comes
//! back, nothing says that this order is wrong, and any other would have had something else leave.
//!
//! ```text
//!   nothing has left           memory fills, and the oldest are taken for proven
//!   left, nothing came back    who was not accessed for longest goes, on whichever list
//!   something came back        what is proven is filled up with the oldest once more; then the lists
//!                              go by their own rules (`eviction`), for good
//! ```
//!
//! Only a scan says something before: when a tenth of memory (two walks of what is mapped), and a hundred
//! pages, came in a row and nothing was accessed again, who is on trial goes, until something is. A phase
//! that begins is no scan: what comes in it is used.
//!
//! An access changes no list, so lists are not in the order of last use. Both are sorted when somebody has
//! to go first, and once more when all that is on them came or was accessed since:
//!
//! ```text
//!   sorted at |     young end  [ n m | a b* c d* e ]  old end     * accessed since
//!   e goes, then d is passed on to the young end, then c goes ...
//! ```
//!
//! What was not accessed since the lists were sorted is in order, and older than all else: so the order
//! is exact, for as many comparisons an access as memory has binary digits.
//!
//! **Owns** whether anything has come back, and how far the lists are in that order. **Does not own** sorting them
//! (`eviction`), nor the rules after (`arrival`, `eviction`, `window`).

use super::window::{NR_EVIDENCE_ARRIVALS, ZONES_PER_MEMORY};

/// What has come back, and how far the lists are in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recency {
    has_any_returned: bool,
    /// Base pages that arrived since a folio was last accessed again.
    nr_scanned_pages: u64,
    /// The lruvec's count of accesses when its lists were sorted.
    pub(super) sorted_at: u64,
    /// By part: whether all on the list came, or were accessed, since then.
    pub(super) is_used_up: [bool; 2],
}

impl Default for Recency {
    fn default() -> Recency {
        Recency {
            has_any_returned: false,
            nr_scanned_pages: 0,
            sorted_at: 0,
            is_used_up: [true; 2],
        }
    }
}

impl Recency {
    /// A folio came back, however long after it left.
    pub(super) fn note_returned(&mut self) {
        self.has_any_returned = true;
    }

    /// Base pages arrived.
    pub(super) fn note_arrived(&mut self, nr_pages: u64) {
        self.nr_scanned_pages += nr_pages;
    }

    /// A folio was accessed again.
    pub(super) fn note_accessed(&mut self) {
        self.nr_scanned_pages = 0;
    }

    /// Lists are put in order by other rules.
    pub(super) fn note_disordered(&mut self) {
        self.is_used_up = [true; 2];
    }

    /// Whether anything has ever come back.
    pub(super) fn has_any_returned(self) -> bool {
        self.has_any_returned
    }

    /// Whether what arrives, in a memory of so many base pages, is not accessed again.
    pub(super) fn is_scan(self, nr_pages: u64) -> bool {
        self.nr_scanned_pages >= NR_EVIDENCE_ARRIVALS.max(2 * nr_pages / ZONES_PER_MEMORY)
    }
}
