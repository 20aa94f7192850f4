//! What a walk thought of pages, and what became of them.
//!
//! **Owns** the counts, and what they tell. **Does not own** which pages are taken for warm (`by_heat`), or what follows
//! for a mechanism.
//!
//! **Invariants** I1: of pages that were used so many as there were, at most.

use std::ops::AddAssign;

/// Warm pages must be used so much more often than others, percent.
const ADVANTAGE_PERCENT: u64 = 125;
/// Where fewer of the others are left unused, percent, that tells nothing.
const UNUSED_PERCENT_MIN: u64 = 2;

/// How what the last walk thought of pages compares with what became of them; base pages that were in
/// memory then and now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Foretold {
    /// Taken for warm.
    pub nr_warm_pages: u64,
    /// Warm pages that were used since.
    pub nr_warm_used_pages: u64,
    /// Not taken for warm.
    pub nr_other_pages: u64,
    /// Other pages that were used since.
    pub nr_other_used_pages: u64,
}

impl AddAssign for Foretold {
    fn add_assign(&mut self, other: Foretold) {
        self.nr_warm_pages += other.nr_warm_pages;
        self.nr_warm_used_pages += other.nr_warm_used_pages;
        self.nr_other_pages += other.nr_other_pages;
        self.nr_other_used_pages += other.nr_other_used_pages;
    }
}

impl Foretold {
    /// Whether anything was used.
    pub fn has_uses(&self) -> bool {
        self.nr_warm_used_pages + self.nr_other_used_pages > 0
    }

    /// Whether warm pages were used clearly more often than others.
    pub fn holds(&self) -> bool {
        let warm = u128::from(self.nr_warm_used_pages) * u128::from(self.nr_other_pages.max(1));
        let other = u128::from(self.nr_other_used_pages) * u128::from(self.nr_warm_pages.max(1));
        warm > 0 && warm * 100 >= other * u128::from(ADVANTAGE_PERCENT)
    }

    /// Whether [`Foretold::holds`], or warm pages were clearly less often left unused than others: of a program that
    /// uses most of what it has between two walks others can't be used much more seldom.
    pub fn tells_apart(&self) -> bool {
        let nr_warm_unused_pages = self.nr_warm_pages - self.nr_warm_used_pages;
        let nr_other_unused_pages = self.nr_other_pages - self.nr_other_used_pages;
        let warm = u128::from(nr_warm_unused_pages) * u128::from(self.nr_other_pages.max(1));
        let other = u128::from(nr_other_unused_pages) * u128::from(self.nr_warm_pages.max(1));
        // Nothing may have been taken for warm, and a few pages are chance.
        let is_telling = self.nr_warm_used_pages > 0
            && nr_other_unused_pages * 100 >= self.nr_other_pages * UNUSED_PERCENT_MIN
            && nr_other_unused_pages > 0;
        self.holds() || is_telling && other * 100 >= warm * u128::from(ADVANTAGE_PERCENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of two programs had all it used in memory and used nearly all of it between two walks: heat was taken to tell
    /// nothing there, and only the other one gave pages.
    #[test]
    fn where_most_is_used_the_unused_ones_tell_what_is_cold() {
        let foretold = |nr_warm_used_pages, nr_other_used_pages| Foretold {
            nr_warm_pages: 1000,
            nr_warm_used_pages,
            nr_other_pages: 800,
            nr_other_used_pages,
        };
        let tells_apart =
            |nr_warm_used, nr_other_used| foretold(nr_warm_used, nr_other_used).tells_apart();
        assert!(tells_apart(990, 700) && !foretold(990, 700).holds());
        assert!(tells_apart(700, 200));
        assert!(!tells_apart(500, 400), "all are used alike");
        assert!(!tells_apart(1000, 800), "all are used");
        assert!(!tells_apart(1000, 790), "nearly all are");
        assert!(!tells_apart(200, 400), "other pages are hot now");
        assert!(!Foretold::default().tells_apart());
        let nothing_was_warm = Foretold {
            nr_warm_pages: 0,
            ..foretold(0, 300)
        };
        assert!(!nothing_was_warm.tells_apart());
    }

    fn of(nr_pages: [u64; 4]) -> Foretold {
        let [
            nr_warm_pages,
            nr_warm_used_pages,
            nr_other_pages,
            nr_other_used_pages,
        ] = nr_pages;
        Foretold {
            nr_warm_pages,
            nr_warm_used_pages,
            nr_other_pages,
            nr_other_used_pages,
        }
    }

    #[test]
    fn what_heat_foretells_is_a_matter_of_shares_and_not_of_how_many_pages_there_are() {
        for (nr_warm, nr_other) in (0..3).flat_map(|warm| (0..20).map(move |other| (warm, other))) {
            for (warm_used, other_used) in
                (0..=nr_warm).flat_map(|warm| (0..=nr_other).map(move |other| (warm, other)))
            {
                let nr_pages = [nr_warm, warm_used, nr_other, other_used];
                let (few, many) = (of(nr_pages), of(nr_pages.map(|nr| nr * 1000)));
                assert_eq!(few.holds(), many.holds(), "{few:?}");
                assert_eq!(few.tells_apart(), many.tells_apart(), "{few:?}");
                assert_eq!(few.has_uses(), many.has_uses(), "{few:?}");
            }
        }
    }
}
