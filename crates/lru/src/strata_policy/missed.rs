//! Whether what leaves the proven is missed.
//!
//! What a proven page is worth is presumed (`window`). Where accesses are heard of as they happen, a lull tells
//! when that is wrong (`lull`). Those through page tables are found only by looking, and of the proven
//! only what is next to go is looked at: what can be known is whether the ones that went are missed.
//!
//! ```text
//!   leave the proven      p q r s t u v ...            a hundred in a row: their worth is refuted
//!   come back                             q            until one of them is missed after all
//! ```
//!
//! **Owns** that count. **Does not own** shadows (`shadow`) or the presumption (`window`).

use super::window::NR_EVIDENCE_ARRIVALS;

/// What left the proven since one of them came back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Missed {
    /// Whether the last access was heard of as it happened, not found by looking.
    is_heard: bool,
    /// Base pages, none while accesses are heard of.
    nr_left_pages: u64,
}

impl Missed {
    /// Base pages left the proven.
    pub(super) fn note_left(&mut self, nr_pages: u64) {
        if !self.is_heard {
            self.nr_left_pages += nr_pages;
        }
    }

    /// A folio that left the proven not long ago came back.
    pub(super) fn note_returned(&mut self) {
        self.nr_left_pages = 0;
    }

    /// An access was heard of as it happened.
    pub(super) fn note_heard(&mut self) {
        *self = Missed {
            is_heard: true,
            nr_left_pages: 0,
        };
    }

    /// An access was found by looking.
    pub(super) fn note_found(&mut self) {
        self.is_heard = false;
    }

    /// Whether so many left without being missed that what a proven page is worth is refuted.
    pub(super) fn refutes(self) -> bool {
        self.nr_left_pages >= NR_EVIDENCE_ARRIVALS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_that_left_the_proven_and_are_not_missed_refute_them_until_one_is() {
        let mut missed = Missed::default();
        missed.note_left(99);
        assert!(!missed.refutes());
        missed.note_left(1);
        assert!(missed.refutes());
        missed.note_returned();
        assert!(!missed.refutes());
    }

    #[test]
    fn where_accesses_are_heard_of_it_is_left_to_lulls() {
        let mut missed = Missed::default();
        missed.note_left(100);
        missed.note_heard();
        missed.note_left(1000);
        assert!(!missed.refutes());
        missed.note_found();
        missed.note_left(100);
        assert!(missed.refutes());
    }
}
