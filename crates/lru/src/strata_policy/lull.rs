//! Lulls: how long only pages have been accessed that were accessed since the lull began.
//!
//! What a proven page is worth is presumed (`window`): accesses in proportion to time. After a change of
//! phase that is wrong, and nothing else says so: the proven are not asked for, and what is in their
//! place on trial leaves before its second access. A lull says so. While pages from before it are in
//! memory, and accesses enough were heard of that they should have had a hundred of them, their worth is
//! refuted until one of them is accessed.
//!
//! ```text
//!   accesses    a b c a b c | x y x z y x x z        each to a page accessed since |, the lull's beginning
//!                           | ----- lull ---->       a, b, c are in memory, and not asked for
//! ```
//!
//! Only accesses that are not a page's first count: in a scan there are none, and nothing is refuted.
//!
//! **Owns** when a lull began and what was heard since. **Does not own** the presumption (`window`).

use super::window::{NR_EVIDENCE_ARRIVALS, WORTH_OF_PROVEN};

/// The lull that lasts; it may have begun just now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lull {
    /// The lruvec's count of accesses when it began.
    since: u64,
    /// Accesses heard of since, less those that were a page's first.
    nr_accesses_again: u64,
}

impl Lull {
    /// A folio in memory was accessed, `age` accesses after its last one.
    pub(super) fn note_accessed(&mut self, age: u64, nr_accesses: u64) {
        if age > nr_accesses.saturating_sub(self.since) {
            self.begin(nr_accesses);
        } else {
            self.nr_accesses_again += 1;
        }
    }

    /// A folio came back.
    pub(super) fn note_returned(&mut self) {
        self.nr_accesses_again += 1;
    }

    /// Ends a lull that began before anything in memory was accessed last: nothing could have ended it.
    pub(super) fn fit(&mut self, coldest_age: u64, nr_accesses: u64) {
        if nr_accesses.saturating_sub(self.since) >= coldest_age {
            self.begin(nr_accesses);
        }
    }

    /// Whether so many proven pages, the coldest of which was accessed so long ago, should have been
    /// asked for by now.
    pub(super) fn refutes(self, nr_proven_pages: u64, coldest_age: u64) -> bool {
        let (worth, of) = WORTH_OF_PROVEN;
        let presumed = u128::from(self.nr_accesses_again) * u128::from(nr_proven_pages * worth);
        presumed > u128::from(NR_EVIDENCE_ARRIVALS * of) * u128::from(coldest_age.max(1))
    }

    fn begin(&mut self, nr_accesses: u64) {
        *self = Lull {
            since: nr_accesses,
            nr_accesses_again: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proven_are_refuted_once_a_hundred_accesses_that_were_presumed_went_to_others() {
        let mut lull = Lull::default();
        lull.fit(50, 1000);
        // Half an access for each of 100 pages in 1000: a hundred accesses are presumed in 2000.
        for at in 1001..=3000 {
            assert!(!lull.refutes(100, 1000));
            lull.note_accessed(1, at);
        }
        lull.note_returned();
        assert!(lull.refutes(100, 1000));
    }

    #[test]
    fn an_access_to_a_page_from_before_a_lull_ends_it() {
        let mut lull = Lull::default();
        lull.fit(50, 1000);
        for at in 1001..=9000 {
            lull.note_accessed(1, at);
        }
        assert!(lull.refutes(100, 1000));
        lull.note_accessed(8002, 9001);
        assert!(!lull.refutes(100, 1000));
    }

    #[test]
    fn a_lull_longer_than_anything_in_memory_has_waited_says_nothing() {
        let mut lull = Lull::default();
        for at in 1..=9000 {
            lull.note_accessed(1, at);
        }
        lull.fit(9001, 9000);
        assert!(lull.refutes(100, 1000));
        lull.fit(9000, 9000);
        assert!(!lull.refutes(100, 1000));
    }
}
