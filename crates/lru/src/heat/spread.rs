//! How heat is spread over the pages of one owner, and how that of several compares.
//!
//! Heat is a share of walks, so it measures an owner as much as its pages: of two programs that do the
//! same, the one that has to wait for its pages more often looks colder, loses more of them, and waits
//! the more. Two Zipf loads in one budget ended as far apart as 2,486 to 590 thousand operations a second
//! that way. So pages of several owners are compared by where they stand among those of their own, within
//! bounds ([`HeatScale`]): an owner that hardly runs still gives way to one that does.
//!
//! **Owns** both measures. **Does not own** which pages are counted.
//!
//! **Invariants** I1: the only owner is taken as it is.

use super::Heat;

/// How heat is spread over many folios: tells the warm part from the rest in one round over them.
#[derive(Clone, Debug)]
pub(crate) struct HeatSpread {
    nr_pages_by_bucket: Vec<u64>,
    nr_pages: u64,
}

impl HeatSpread {
    /// Heats that differ by less are taken for the same.
    const PER_BUCKET: u16 = 16;

    /// Nothing counted.
    pub(crate) fn new() -> HeatSpread {
        HeatSpread {
            nr_pages_by_bucket: vec![0; usize::from(u16::MAX / Self::PER_BUCKET) + 1],
            nr_pages: 0,
        }
    }

    /// Counts anew.
    pub(crate) fn clear(&mut self) {
        self.nr_pages_by_bucket.fill(0);
        self.nr_pages = 0;
    }

    /// One folio of so many base pages.
    pub(crate) fn count(&mut self, heat: Heat, nr_pages: u64) {
        self.nr_pages_by_bucket[usize::from(heat.0 / Self::PER_BUCKET)] += nr_pages;
        self.nr_pages += nr_pages;
    }

    /// The heat that at most `percent` of the pages exceed: fewer where many are equally hot.
    pub(crate) fn exceeded_by(&self, percent: u32) -> Heat {
        let most = u128::from(self.nr_pages) * u128::from(percent) / 100;
        let mut above: u128 = 0;
        let is_too_many = |nr_pages: &u64| {
            above += u128::from(*nr_pages);
            above > most
        };
        let bucket = self.nr_pages_by_bucket.iter().rposition(is_too_many);
        bucket.map_or(Heat::NONE, |bucket| {
            Heat(bucket as u16 * Self::PER_BUCKET + (Self::PER_BUCKET - 1))
        })
    }
}

impl Default for HeatSpread {
    fn default() -> HeatSpread {
        HeatSpread::new()
    }
}

/// How much hotter, or colder, than they look the pages of one owner are taken for beside those of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeatScale {
    parts: u32,
}

impl HeatScale {
    /// Taken as they are.
    pub(crate) const ONE: HeatScale = HeatScale { parts: 1 << 8 };
    /// At most so many times hotter or colder: how much slower than others a program may be before that is
    /// taken for its nature.
    const MOST: u32 = 4;

    /// For an owner of whose pages so many are hotter than `own` as of all owners' pages are hotter than `all`.
    pub(crate) fn of(own: Heat, all: Heat) -> HeatScale {
        if own == all {
            return HeatScale::ONE;
        }
        let one = HeatScale::ONE.parts;
        let parts = u32::from(all.0) * one / u32::from(own.0.max(1));
        HeatScale {
            parts: parts.clamp(one / HeatScale::MOST, one * HeatScale::MOST),
        }
    }
}

impl Heat {
    /// The heat as it compares with that of other owners' pages.
    #[must_use]
    pub(crate) fn scaled(self, scale: HeatScale) -> Heat {
        let heat = u32::from(self.0) * scale.parts / HeatScale::ONE.parts;
        Heat(heat.min(u32::from(u16::MAX)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_more_than_the_share_that_was_asked_for_is_warm(heats in prop::collection::vec(0u16.., 1..300), percent in 0u32..=100) {
            let mut spread = HeatSpread::new();
            heats.iter().for_each(|heat| spread.count(Heat(*heat), 1));
            let lukewarm = spread.exceeded_by(percent);
            let nr_warm = heats.iter().filter(|heat| Heat(**heat) > lukewarm).count();
            prop_assert!(nr_warm * 100 <= heats.len() * percent as usize);
            // With those that are taken for as hot as the hottest of the rest it would be too many.
            let nr_next = heats.iter().filter(|heat| **heat / HeatSpread::PER_BUCKET >= lukewarm.0 / HeatSpread::PER_BUCKET).count();
            prop_assert!(nr_next * 100 > heats.len() * percent as usize || lukewarm == Heat::NONE);
        }
    }

    proptest! {
        #[test]
        fn scaling_keeps_the_order_of_an_owners_pages(own in 0u16.., all in 0u16.., heats in prop::collection::vec(0u16.., 2)) {
            let scale = HeatScale::of(Heat(own), Heat(all));
            let (a, b) = (Heat(heats[0]), Heat(heats[1]));
            prop_assert!(a > b || a.scaled(scale) <= b.scaled(scale));
            let most = u32::from(heats[0]) * HeatScale::MOST;
            prop_assert!(u32::from(a.scaled(scale).0) <= most);
            prop_assert!(u32::from(a.scaled(scale).0) >= (u32::from(heats[0]) / HeatScale::MOST));
        }
    }

    #[test]
    fn the_only_owner_is_taken_as_it_is() {
        for heat in (0..u16::MAX).step_by(7) {
            let level = Heat(heat);
            assert_eq!(Heat(heat).scaled(HeatScale::of(level, level)), Heat(heat));
        }
    }

    /// At half the speed half as many walks find a page accessed, and it is worth the same.
    #[test]
    fn a_slower_owner_is_measured_by_its_own_pages() {
        let scale = HeatScale::of(Heat(1000), Heat(2000));
        assert_eq!(Heat(1500).scaled(scale), Heat(3000));
        let hardly_runs = HeatScale::of(Heat(10), Heat(2000));
        assert!(Heat(10).scaled(hardly_runs) < Heat(50));
        assert_eq!(Heat::NONE.scaled(hardly_runs), Heat::NONE);
    }
}
