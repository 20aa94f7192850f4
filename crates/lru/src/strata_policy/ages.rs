//! How long the proven folios have gone without an access on average, and what that says of the coldest.
//!
//! The list of the proven is not in the order of their last accesses: the one next to go may have been
//! accessed just now while others, spared for their counts, wait far from the old end. Its age alone
//! would be taken for the coldest's. The mean takes all of them.
//!
//! ```text
//!   accessed evenly          ages spread evenly between 0 and the coldest's, the mean is its half
//!   some more than others    more young ages than old ones, the mean is less than its half
//! ```
//!
//! So the coldest has waited at least twice the mean. It is an overestimate, by no more than twice, while
//! most have waited about as long as each other: when nothing of them is asked for any more, as after a
//! change of phase, or for as long as a loop has not come round. So nobody is proven by it (`arrival`): what
//! is certain is that the coldest has waited as long as the mean.
//!
//! **Owns** the sum. **Does not own** ages (`arrival`), or which folios are on the list (`eviction`).
//!
//! **Invariants**
//! - I1: the sum is that of the ages of the folios on the list of the proven, each below `2^32`.

/// The ages of the folios on a list, summed up. Time is the lruvec's count of accesses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ages {
    /// Of all their ages, at `at`.
    sum: u64,
    nr_folios: u64,
    at: u64,
}

impl Ages {
    /// A folio of that age came to the list.
    pub(super) fn add(&mut self, age: u64, now: u64) {
        self.pass(now);
        self.sum += age;
        self.nr_folios += 1;
    }

    /// A folio of that age left the list.
    pub(super) fn remove(&mut self, age: u64, now: u64) {
        self.renew(age, now);
        self.nr_folios -= 1;
    }

    /// A folio of that age on the list was accessed.
    pub(super) fn renew(&mut self, age: u64, now: u64) {
        self.pass(now);
        // One that waits for 2^32 accesses looks younger than it is.
        self.sum = self.sum.saturating_sub(age);
    }

    /// How long they have waited on average; 0 without folios.
    pub(super) fn mean(mut self, now: u64) -> u64 {
        self.pass(now);
        self.sum.checked_div(self.nr_folios).unwrap_or(0)
    }

    /// What the coldest has waited at least, were ages spread evenly; 0 without folios.
    pub(super) fn coldest_at_least(self, now: u64) -> u64 {
        2 * self.mean(now)
    }

    /// Checks the sum against another, of the same folios counted again.
    pub(super) fn validate(mut self, recounted: Ages, now: u64) -> Result<(), String> {
        self.pass(now);
        if (self.sum, self.nr_folios) == (recounted.sum, recounted.nr_folios) {
            return Ok(());
        }
        Err(format!("ages of the proven: {recounted:?}, kept {self:?}"))
    }

    /// All have become older.
    fn pass(&mut self, now: u64) {
        self.sum += (now - self.at) * self.nr_folios;
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_ages_spread_evenly_the_oldest_is_found() {
        let mut ages = Ages::default();
        for now in 0..=100 {
            ages.add(0, now);
        }
        assert_eq!(ages.coldest_at_least(100), 100);
        assert_eq!(ages.coldest_at_least(150), 200);
    }

    #[test]
    fn an_access_makes_the_mean_younger_and_a_list_without_folios_says_nothing() {
        let mut ages = Ages::default();
        assert_eq!(ages.coldest_at_least(10), 0);
        ages.add(30, 10);
        ages.add(10, 10);
        ages.renew(40, 20);
        assert_eq!(ages.coldest_at_least(20), 20);
        ages.remove(0, 20);
        ages.remove(20, 20);
        assert_eq!(ages.coldest_at_least(99), 0);
    }

    proptest! {
        #[test]
        fn the_coldest_of_folios_accessed_one_more_often_than_the_other_has_waited_at_least_that(
            gaps in proptest::collection::vec(0..1000_u64, 1..50),
        ) {
            // From one to the next older it is never less far than it was before.
            let mut gaps = gaps;
            gaps.sort_unstable();
            let mut age = 0;
            let mut ages = Ages::default();
            ages.add(0, 0);
            for gap in gaps {
                age += gap;
                ages.add(age, 0);
            }
            prop_assert!(ages.coldest_at_least(0) <= age);
        }
    }
}
