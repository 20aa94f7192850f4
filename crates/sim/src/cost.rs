//! What a run would have cost: counts times constants, so that scan cost shows beside misses.
//!
//! | constant | default, ns | of what | where it is from |
//! |---|---|---|---|
//! | `hit` | 0 | a request that finds its page | what every policy pays alike |
//! | `zero` | 500 | the first touch of an anon page | a page fault and a cleared page |
//! | `read` | 100000 | a file page read | a 4 KiB random read of a NVMe SSD |
//! | `swap-in` | 5000 | an anon page that comes back | a fault and decompressing from zram |
//! | `swap-out` | 10000 | an anon page evicted | compressing to zram, flushing TLBs |
//! | `write` | 100000 | a dirty file page written to be evicted | a 4 KiB write to a NVMe SSD |
//! | `scan` | 200 | a page visited by eviction | list and flag work, one cache miss or two |
//! | `walk` | 2 | a page-table entry seen by a walk | `walk_cost` of docs/validation/benchmarks.md |
//! | `look` | 20 | a page-table entry seen around a victim | as `walk`, but scattered |
//! | `age` | 10000 | a generation begun | waking the walker, one flush of the TLB |
//! | `slow` | 200 | a request that finds its page on a slower node | two cache misses, each 100 ns later |
//! | `hint` | 1000 | a hint fault | a fault that finds its page |
//! | `move` | 3000 | a page moved between nodes | a copy, its entry changed, a flush of the TLB |
//!
//! The sum is a model, not a measurement: it ranks policies by the work they make. Baselines count
//! misses alone (no scan, no swap-out), so compare them with each other.
//!
//! **Owns** the constants and the sum. **Does not own** the counts (`outcome`).

use std::str::FromStr;

use serde::Serialize;

use crate::outcome::Outcome;

/// Nanoseconds for each thing that is counted; the module has the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostModel([u64; NAMES.len()]);

/// Names of the constants, in the order of the table.
const NAMES: [&str; 13] = [
    "hit", "zero", "read", "swap-in", "swap-out", "write", "scan", "walk", "look", "age", "slow",
    "hint", "move",
];

impl Default for CostModel {
    fn default() -> Self {
        CostModel([
            0, 500, 100_000, 5000, 10_000, 100_000, 200, 2, 20, 10_000, 200, 1000, 3000,
        ])
    }
}

/// Where the time of a run goes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// All of it.
    pub total_ns: u64,
    /// Bringing pages in: first touches, reads, swap-ins; hits, and what slower nodes and hint faults add.
    pub access_ns: u64,
    /// Writing what is evicted.
    pub write_ns: u64,
    /// Finding out what to evict: scans, walks, looks, ageing; and moving pages between nodes.
    pub reclaim_ns: u64,
}

impl Cost {
    fn of(access_ns: u64, write_ns: u64, reclaim_ns: u64) -> Cost {
        let sum = access_ns.saturating_add(write_ns);
        Cost {
            total_ns: sum.saturating_add(reclaim_ns),
            access_ns,
            write_ns,
            reclaim_ns,
        }
    }
}

/// Why constants can't be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCost {
    /// No such constant.
    #[error(
        "no cost is called {0:?}: {meant}use one of {names}",
        meant = strata_trace::did_you_mean(.0, NAMES),
        names = NAMES.join(", ")
    )]
    Unknown(String),
    /// Not `NAME=NANOSECONDS`.
    #[error("{0:?} is no cost: write NAME=NANOSECONDS, such as read=80000")]
    Malformed(String),
}

impl FromStr for CostModel {
    type Err = BadCost;

    /// The defaults with some constants changed: `read=80000,scan=300`.
    fn from_str(text: &str) -> Result<CostModel, BadCost> {
        let mut model = CostModel::default();
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let malformed = || BadCost::Malformed(piece.to_owned());
            let (name, ns) = piece.split_once('=').ok_or_else(malformed)?;
            let at = NAMES.iter().position(|one| *one == name);
            let at = at.ok_or_else(|| BadCost::Unknown(name.to_owned()))?;
            model.0[at] = ns.parse().map_err(|_| malformed())?;
        }
        Ok(model)
    }
}

impl CostModel {
    /// What the misses of a run that were not first touches cost, in nanoseconds: an anon page that
    /// comes back is swapped in, a file page is read again. `nr_distinct` pages are (anon, file).
    pub fn refault_ns(&self, outcome: &Outcome, nr_distinct: [u64; 2]) -> u64 {
        let nr_file_misses = outcome.nr_misses - outcome.nr_anon_misses;
        let nr_anon = outcome.nr_anon_misses.saturating_sub(nr_distinct[0]);
        let nr_file = nr_file_misses.saturating_sub(nr_distinct[1]);
        self.refaults_ns(nr_anon, nr_file)
    }

    /// What so many anon pages that are swapped in and file pages that are read again cost, in nanoseconds.
    pub fn refaults_ns(&self, nr_anon: u64, nr_file: u64) -> u64 {
        let [_, _, read, swap_in, ..] = self.0;
        let anon_ns = nr_anon.saturating_mul(swap_in);
        anon_ns.saturating_add(nr_file.saturating_mul(read))
    }

    /// The estimated cost of a run over `nr_distinct` pages (anon, file); sums saturate.
    pub fn cost(&self, outcome: &Outcome, nr_distinct: [u64; 2]) -> Cost {
        let [
            hit,
            zero,
            read,
            swap_in,
            swap_out,
            write,
            scan,
            walk,
            look,
            age,
            slow,
            hint,
            moved,
        ] = self.0;
        let sum = |terms: &[(u64, u64)]| {
            let products = terms.iter().map(|(count, ns)| count.saturating_mul(*ns));
            products.fold(0, u64::saturating_add)
        };
        let nr_anon_refaults = outcome.nr_anon_misses.saturating_sub(nr_distinct[0]);
        let access_ns = sum(&[
            (outcome.nr_accesses - outcome.nr_misses, hit),
            (outcome.nr_anon_misses - nr_anon_refaults, zero),
            (nr_anon_refaults, swap_in),
            (outcome.nr_misses - outcome.nr_anon_misses, read),
        ]);
        let Some(reclaim) = &outcome.reclaim else {
            return Cost::of(access_ns, 0, 0);
        };
        let (nr_slow_hits, nr_hints, nr_moves) = reclaim.tiers.as_ref().map_or((0, 0, 0), |of| {
            let nr_slow_hits = of.nr_hits.iter().skip(1).sum();
            (
                nr_slow_hits,
                of.stats.numa_hint_faults,
                of.stats.pgmigrate_success,
            )
        });
        Cost::of(
            access_ns.saturating_add(sum(&[(nr_slow_hits, slow), (nr_hints, hint)])),
            sum(&[
                (reclaim.nr_stolen[0], swap_out),
                (reclaim.nr_written, write),
            ]),
            sum(&[
                (reclaim.nr_scanned, scan),
                (reclaim.nr_ptes_walked, walk),
                (reclaim.nr_ptes_looked_around, look),
                (reclaim.nr_ageing_runs, age),
                (nr_moves, moved),
            ]),
        )
    }
}

#[cfg(test)]
mod tests {
    use strata_lru::TieringStats;

    use super::*;
    use crate::outcome::{Reclaim, TierCounts};

    fn outcome() -> Outcome {
        Outcome {
            nr_accesses: 100,
            nr_misses: 30,
            nr_anon_misses: 12,
            reclaim: Some(Box::new(Reclaim {
                nr_scanned: 50,
                nr_stolen: [7, 8],
                nr_written: 3,
                nr_ptes_walked: 1000,
                nr_ptes_looked_around: 64,
                nr_ageing_runs: 2,
                ..Reclaim::default()
            })),
            ..Outcome::default()
        }
    }

    #[test]
    fn slower_nodes_hint_faults_and_moves_are_charged() {
        let tiers = TierCounts {
            nr_hits: vec![40, 20, 10],
            stats: TieringStats {
                numa_hint_faults: 5,
                pgmigrate_success: 7,
                ..TieringStats::default()
            },
        };
        let one_node = outcome();
        let mut on_tiers = outcome();
        on_tiers.reclaim.as_mut().unwrap().tiers = Some(tiers);
        let model: CostModel = "slow=1,hint=100,move=10000".parse().unwrap();
        let [before, after] = [one_node, on_tiers].map(|of| model.cost(&of, [10, 5]));
        assert_eq!(after.access_ns - before.access_ns, 30 + 500);
        assert_eq!(after.reclaim_ns - before.reclaim_ns, 70_000);
        assert_eq!(after.write_ns, before.write_ns);
    }

    #[test]
    fn each_count_is_charged_once() {
        let model: CostModel = "hit=1,zero=1000,swap-in=100000,read=10000000,swap-out=1,write=100,scan=1,walk=100,look=1000000,age=1000000000"
            .parse()
            .unwrap();
        // 10 anon pages: 10 first touches, 2 came back.
        let cost = model.cost(&outcome(), [10, 5]);
        assert_eq!(
            cost.access_ns,
            70 + 10 * 1000 + 2 * 100_000 + 18 * 10_000_000
        );
        assert_eq!(cost.write_ns, 7 + 300);
        assert_eq!(
            cost.reclaim_ns,
            50 + 1000 * 100 + 64 * 1_000_000 + 2 * 1_000_000_000
        );
        assert_eq!(
            cost.total_ns,
            cost.access_ns + cost.write_ns + cost.reclaim_ns
        );
    }

    #[test]
    fn refaults_cost_what_brings_their_kind_back() {
        let model: CostModel = "swap-in=10,read=1000".parse().unwrap();
        // 2 of 12 anon misses and 13 of 18 file misses are not first touches.
        assert_eq!(model.refault_ns(&outcome(), [10, 5]), 2 * 10 + 13 * 1000);
        assert_eq!(model.refault_ns(&outcome(), [12, 18]), 0);
    }

    #[test]
    fn a_baseline_pays_for_misses_alone() {
        let baseline = Outcome {
            reclaim: None,
            ..outcome()
        };
        let cost = CostModel::default().cost(&baseline, [12, 18]);
        assert_eq!(cost.total_ns, 12 * 500 + 18 * 100_000);
    }

    #[test]
    fn a_cost_that_is_none_is_refused() {
        assert_eq!(
            "reed=1".parse::<CostModel>(),
            Err(BadCost::Unknown("reed".to_owned()))
        );
        for text in [
            "read",
            "read=",
            "read=-1",
            "read=1.5",
            "read=99999999999999999999",
        ] {
            assert_eq!(
                text.parse::<CostModel>(),
                Err(BadCost::Malformed(text.to_owned()))
            );
        }
    }

    #[test]
    fn the_largest_costs_do_not_overflow() {
        let model: CostModel = format!("read={0},scan={0}", u64::MAX).parse().unwrap();
        assert_eq!(model.cost(&outcome(), [10, 5]).total_ns, u64::MAX);
    }

    #[test]
    fn the_table_names_every_constant_with_its_default() {
        let table = include_str!("cost.rs");
        for (name, ns) in NAMES.iter().zip(CostModel::default().0) {
            assert!(
                table.contains(&format!("//! | `{name}` | {ns} |")),
                "{name}"
            );
        }
    }
}
