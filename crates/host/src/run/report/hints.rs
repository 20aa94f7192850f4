//! How the kernel's choice followed what it was told to spare.
//!
//! **Owns** the ratios. **Does not own** the counts (`strata_lru::HintCounts`, `actuators`).
//!
//! **Invariants** I1: a share of nothing is `None`.

use strata_control::Lever;
use strata_lru::{HintCounts, Kind};

/// One value for each kind of page.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ByKind<T> {
    /// Anonymous and shared memory.
    pub anon: T,
    /// Mapped file pages.
    pub file: T,
}

/// What became of hints: the kernel reclaimed, and was told which pages to spare.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct HintsReport {
    /// How pages are made to be spared.
    pub lever: Lever,
    /// Reads of pages that were to be spared, for each page that left memory by the kernel's choice.
    pub nr_touches_per_freed_page: Option<f64>,
    /// Base pages that left by the kernel's choice while hints held: what `obedience` is a share of.
    pub nr_gone_pages: ByKind<u64>,
    /// Share of `nr_gone_pages` that had been offered: left untouched.
    pub obedience: ByKind<Option<f64>>,
    /// Base pages that left between two hints of which the engine's order was kept: what `agreement` is a share of.
    pub nr_compared_pages: ByKind<u64>,
    /// Share of `nr_compared_pages` that was among the first of the engine's order, of as many as went.
    pub agreement: ByKind<Option<f64>>,
    /// What `agreement` would be if pages went by chance.
    pub chance: ByKind<Option<f64>>,
}

impl HintsReport {
    /// From what was counted, by kind; so many pages were touched, and so many have left by the kernel's choice.
    pub(in crate::run) fn new(
        lever: Lever,
        counts: [HintCounts; 2],
        nr_touched_pages: u64,
        nr_kernel_chosen_pages: u64,
    ) -> HintsReport {
        let nr_touches = nr_touched_pages as f64 * lever.nr_touches() as f64;
        HintsReport {
            lever,
            nr_touches_per_freed_page: share(nr_touches, nr_kernel_chosen_pages),
            nr_gone_pages: by_kind(counts, |of| of.nr_gone_pages),
            obedience: by_kind(counts, |of| {
                share(of.nr_gone_offered_pages as f64, of.nr_gone_pages)
            }),
            nr_compared_pages: by_kind(counts, |of| of.nr_compared_pages),
            agreement: by_kind(counts, |of| {
                share(of.nr_agreed_pages as f64, of.nr_compared_pages)
            }),
            chance: by_kind(counts, |of| {
                share(of.nr_agreed_by_chance_pages, of.nr_compared_pages)
            }),
        }
    }
}

fn by_kind<T>(counts: [HintCounts; 2], of: impl Fn(&HintCounts) -> T) -> ByKind<T> {
    ByKind {
        anon: of(&counts[Kind::Anon.index()]),
        file: of(&counts[Kind::File.index()]),
    }
}

fn share(part: f64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_counted_and_of_nothing_there_is_none() {
        let anon = HintCounts {
            nr_gone_pages: 200,
            nr_gone_offered_pages: 190,
            nr_compared_pages: 100,
            nr_agreed_pages: 40,
            nr_agreed_by_chance_pages: 5.0,
        };
        let counts = [anon, HintCounts::default()];
        let report = HintsReport::new(Lever::Activation, counts, 600, 400);
        assert_eq!(report.nr_touches_per_freed_page, Some(3.0), "two a page");
        let shares = [report.obedience, report.agreement, report.chance];
        assert_eq!(
            shares.map(|of| of.anon),
            [Some(0.95), Some(0.4), Some(0.05)]
        );
        assert_eq!(shares.map(|of| of.file), [None; 3]);
        assert_eq!(report.nr_gone_pages.anon, 200);
        assert_eq!(report.nr_compared_pages.anon, 100);
        let none = HintsReport::new(Lever::Activation, [HintCounts::default(); 2], 1, 0);
        assert_eq!(none.nr_touches_per_freed_page, None);
    }

    #[test]
    fn a_lever_is_told_by_its_name() {
        let lever = serde_json::to_value(Lever::Activation).unwrap();
        assert_eq!(lever, "activation");
    }
}
