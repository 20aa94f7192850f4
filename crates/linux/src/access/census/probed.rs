//! Page cache whose count of reads was reset: what is known of it, and what that tells of the rest.
//!
//! **Owns** the arithmetic. **Does not own** the sample (`bpf/census_watch.h`) nor resetting (`page_cache::CountReset`).
//!
//! **Invariants** I1: an estimate says how far it may be off, and there is none from few folios.

use super::NR_AGES;
use super::estimate::NR_ERRORS;
use crate::addr::PAGE_BYTES;

/// From so many folios on, shares of samples are spread as the interval supposes.
const NR_FOLIOS_MIN: f64 = 30.0;

strata_lru::counts! {
    /// Pages that nobody has mapped and whose count of reads was full at the first census of a watch and could be reset, as long as they
    /// were neither mapped nor written since. Of a random sample of them it was reset.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Probed {
        /// Pages of the sample, where looked at.
        pub nr_pages: u64,
        /// Sum of the squares of the sizes of their folios, pages.
        pub(super) nr_squares: u64,
        /// Pages of the sample that were not read within each age of the watch.
        pub nr_idle_pages: [u64; NR_AGES],
        /// All that is not in the sample, and of which it is not known when it was read within each age.
        pub unprobed_bytes: [u64; NR_AGES],
    }
}

/// A figure and its interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct IdleEstimate {
    /// Not read.
    pub idle_bytes: u64,
    /// Half of the interval that holds the true figure 95 times of 100, if all of memory is looked at.
    pub error_bytes: u64,
}

impl Probed {
    /// How much of the rest was not read within this one of the ages; `None`: the sample has too few folios, or there is no rest.
    pub fn idle_of_rest(&self, age: usize) -> Option<IdleEstimate> {
        let of = |figures: &[u64; NR_AGES]| figures.get(age).map(|figure| *figure as f64);
        let pages = self.nr_pages as f64;
        // Pages of one folio are read together.
        let nr_folios = pages * pages / (self.nr_squares as f64).max(1.0);
        let rest_bytes = of(&self.unprobed_bytes)?;
        if nr_folios < NR_FOLIOS_MIN || rest_bytes == 0.0 {
            return None;
        }
        let share = of(&self.nr_idle_pages)? / pages;
        // Agresti and Coull: an interval that is not empty where all or none were read.
        let more = NR_ERRORS * NR_ERRORS;
        let middle = (share * nr_folios + more / 2.0) / (nr_folios + more);
        let half = NR_ERRORS * (middle * (1.0 - middle) / (nr_folios + more)).sqrt();
        let error = half + (middle - share).abs();
        let whole_pages = |share: f64| (share * rest_bytes) as u64 / PAGE_BYTES * PAGE_BYTES;
        Some(IdleEstimate {
            idle_bytes: whole_pages(share),
            error_bytes: whole_pages(error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn probed(nr_folios: u64, folio_pages: u64, nr_idle_folios: u64, rest_mib: u64) -> Probed {
        Probed {
            nr_pages: nr_folios * folio_pages,
            nr_squares: nr_folios * folio_pages * folio_pages,
            nr_idle_pages: [nr_idle_folios * folio_pages; NR_AGES],
            unprobed_bytes: [rest_mib * MIB; NR_AGES],
        }
    }

    #[test]
    fn a_sample_tells_of_the_rest_and_how_far_it_may_be_off() {
        let found = probed(1000, 1, 250, 400).idle_of_rest(0).expect("enough");
        assert_eq!(found.idle_bytes, 100 * MIB);
        assert!(
            (10 * MIB..12 * MIB).contains(&found.error_bytes),
            "{found:?}"
        );
    }

    #[test]
    fn large_folios_tell_no_more_than_as_many_small_ones() {
        let small = probed(1000, 1, 250, 1).idle_of_rest(0).expect("enough");
        let large = probed(1000, 512, 250, 1).idle_of_rest(0).expect("enough");
        assert_eq!(small, large);
        assert_eq!(
            probed(29, 512, 10, 1).idle_of_rest(0),
            None,
            "too few folios"
        );
        assert_eq!(probed(1000, 1, 250, 0).idle_of_rest(0), None, "no rest");
    }

    #[test]
    fn where_none_was_read_some_may_have_been_all_the_same() {
        let found = probed(100, 1, 100, 100).idle_of_rest(3).expect("enough");
        assert_eq!(found.idle_bytes, 100 * MIB);
        assert!(found.error_bytes > 3 * MIB, "{found:?}");
        assert_eq!(found.error_bytes % PAGE_BYTES, 0);
    }
}
