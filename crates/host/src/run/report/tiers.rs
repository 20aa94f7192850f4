//! What became of mapped pages by kind and tier.
//!
//! **Owns** the schema. **Does not own** the counts (the engine), nor those of page cache that nobody has mapped (`cache`).

use strata_lru::{Kind, ReclaimStats};

/// What became of mapped pages of one kind and tier; base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TierReport {
    /// `anon` or `file`.
    pub kind: &'static str,
    /// The kernel's number of the tier.
    pub tier: u64,
    /// Left memory, whoever chose them; in a dry run, were played to.
    pub nr_evicted_pages: u64,
    /// Came back.
    pub nr_refaulted_pages: u64,
    /// Came back although they were evicted only within the last generations.
    pub nr_refaulted_recent_pages: u64,
    /// Were due and spared: for their tier, or for what else the policy goes by.
    pub nr_protected_pages: u64,
}

/// All kinds and tiers, in order.
pub(in crate::run) fn of(stats: &ReclaimStats) -> Vec<TierReport> {
    let tiers = |kind: Kind| (0..ReclaimStats::NR_TIERS).map(move |tier| (kind, tier));
    let all = Kind::ALL.into_iter().flat_map(tiers);
    let report = |(kind, tier): (Kind, usize)| {
        let at = kind.index();
        TierReport {
            kind: match kind {
                Kind::Anon => "anon",
                Kind::File => "file",
            },
            tier: tier as u64,
            nr_evicted_pages: stats.nr_left_pages[at][tier],
            nr_refaulted_pages: stats.nr_refaulted_pages[at][tier],
            nr_refaulted_recent_pages: stats.nr_refaulted_recent_pages[at][tier],
            nr_protected_pages: stats.nr_protected_pages[at][tier],
        }
    };
    all.map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_stands_with_its_kind_and_tier() {
        let mut stats = ReclaimStats::default();
        stats.nr_left_pages[1][3] = 9;
        stats.nr_refaulted_pages[1][3] = 5;
        stats.nr_refaulted_recent_pages[1][3] = 4;
        stats.nr_protected_pages[0][2] = 7;
        let rows = of(&stats);
        assert_eq!(rows.len(), 2 * ReclaimStats::NR_TIERS);
        let expected = [
            TierReport {
                kind: "anon",
                tier: 2,
                nr_protected_pages: 7,
                ..TierReport::default()
            },
            TierReport {
                kind: "file",
                tier: 3,
                nr_evicted_pages: 9,
                nr_refaulted_pages: 5,
                nr_refaulted_recent_pages: 4,
                nr_protected_pages: 0,
            },
        ];
        for row in expected {
            assert!(rows.contains(&row), "{row:?} in {rows:?}");
        }
        let sum: u64 = rows.iter().map(|row| row.nr_evicted_pages).sum();
        assert_eq!(sum, 9, "nothing counts twice");
    }
}
