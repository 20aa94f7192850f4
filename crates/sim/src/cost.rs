//! What a run would have cost: counts times prices, so that scan cost shows beside misses.
//!
//! | price | default | low to high, ns | of what | where it is from |
//! |---|---|---|---|---|
//! | `hit` | 0 | 0 to 0 | a request that finds its page | what every policy pays alike |
//! | `zero` | 500 | 250 to 1000 | the first touch of an anon page | a page fault and a cleared page |
//! | `read` | 100000 | 60000 to 150000 | a file page read | the device: a 4 KiB random read of a NVMe SSD |
//! | `swap-in` | 5000 | 2200 to 10000 | an anon page that comes back | a fault and zram: 1.7 us (lz4), 2.4 (lzo), 5.7 (zstd) are public figures of a read |
//! | `compress` | 4400 | 3000 to 8000 | an anon page compressed as it is evicted | scan_cost: 4.3 to 4.7 us; lz4 to zstd |
//! | `swap-out` | 1600 | 800 to 3000 | an anon page evicted, besides: its slot, flushing TLBs | scan_cost, zram: 1.2 + 0.4 us, 0.7 + 1.9 under Strata |
//! | `write` | 100000 | 60000 to 150000 | a dirty file page written to be evicted | as `read` |
//! | `scan` | 200 | 100 to 400 | a page visited by eviction, under the list's lock | scan_cost: with `list` 0.8 us of lists a freed page, 2.74 visited for it |
//! | `list` | 100 | 50 to 200 | a page put on a list, under its lock | the same |
//! | `rmap` | 160 | 80 to 320 | a mapping of a page found, to ask or to unmap it | scan_cost: 0.6 us a freed page, 2.74 asked and 1 unmapped for it |
//! | `walk` | 2 | 1 to 3 | a page-table entry seen by a walk | walk_cost: 1.3 to 1.9 |
//! | `table` | 200 | 0 to 400 | a page table visited by a walk | walk_cost: 0 (20,000 sparse tables are no dearer an entry) to 376 (those above 64 pages in 1 TiB) |
//! | `young` | 45 | 20 to 100 | an entry that a walk found accessed: its page lies anywhere | walk_cost: `clear_refs`, which looks at each page, 43 to 49 |
//! | `look` | 20 | 2 to 30 | a page-table entry seen around a victim | as `walk`, but scattered |
//! | `age` | 10000 | 5000 to 20000 | a generation begun | waking the walker, one flush of the TLB |
//! | `slow` | 200 | 100 to 400 | a request that finds its page on a slower node | two cache misses, each 100 ns later |
//! | `hint` | 1000 | 500 to 2000 | a hint fault | a fault that finds its page |
//! | `move` | 3000 | 1500 to 6000 | a page moved between nodes | a copy, its entry changed, a flush of the TLB |
//! | `mappers` | 1 | 1 to 1 | no price: mappings of each mapped page | a trace tells one |
//! | `threads` | 1 | 1 to 1 | no price: threads that make the requests | |
//!
//! `scan_cost` and `walk_cost` are in docs/validation/benchmarks. Where one machine was measured, low and high are half and twice.
//! Nothing is fitted to what a letter claims.
//!
//! An access that makes a page active takes it off a list and puts it on another (`list` twice). One lock guards all lists. Of
//! `threads` that each do the same, with `locked` of all their work under it, all together take `max(work, threads * locked)`: who
//! can't have the lock spins. What is above `work` counts as lists, of reclaim.
//!
//! The sum is a model, not a measurement: it ranks policies by the work they make. Baselines count
//! misses alone (no scan, no swap-out), so compare them with each other.
//!
//! **Owns** the prices, the sum and its parts. **Does not own** the counts (`outcome`).

use std::str::FromStr;

use serde::Serialize;

use crate::{mechanism::layout::NR_TABLE_ENTRIES, outcome::Outcome, ratio::Ratio};

/// The least, the usual and the most that a price may be, in nanoseconds; the module has the table.
type Range = [u64; 3];

/// The usual of a range.
const USUAL: usize = 1;

/// Names of the prices and what they are by default, in the order of the table.
const PRICES: [(&str, Range); 20] = [
    ("hit", [0; 3]),
    ("zero", [250, 500, 1000]),
    ("read", [60_000, 100_000, 150_000]),
    ("swap-in", [2200, 5000, 10_000]),
    ("compress", [3000, 4400, 8000]),
    ("swap-out", [800, 1600, 3000]),
    ("write", [60_000, 100_000, 150_000]),
    ("scan", [100, 200, 400]),
    ("list", [50, 100, 200]),
    ("rmap", [80, 160, 320]),
    ("walk", [1, 2, 3]),
    ("table", [0, 200, 400]),
    ("young", [20, 45, 100]),
    ("look", [2, 20, 30]),
    ("age", [5000, 10_000, 20_000]),
    ("slow", [100, 200, 400]),
    ("hint", [500, 1000, 2000]),
    ("move", [1500, 3000, 6000]),
    ("mappers", [1; 3]),
    ("threads", [1; 3]),
];

/// Parts of what reclaim takes of the processors.
pub(crate) const PARTS: [&str; 6] = ["rmap", "compression", "swap", "lists", "walks", "moves"];

/// What each thing that is counted costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostModel([Range; PRICES.len()]);

impl Default for CostModel {
    fn default() -> Self {
        CostModel(PRICES.map(|(_, range)| range))
    }
}

/// Where the time of a run goes, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// All of it.
    pub total_ns: u64,
    /// Bringing pages in: first touches, reads, swap-ins; hits, what slower nodes and hint faults add, and pages put on lists.
    pub access_ns: u64,
    /// Writing what is evicted.
    pub write_ns: u64,
    /// Finding out what to evict: scans, mappings, walks, looks, ageing; moving pages between nodes, and waiting for a lock.
    pub reclaim_ns: u64,
    /// What reclaim takes of the processors, by part: `reclaim_ns`, and `write_ns` without the device.
    #[serde(skip)]
    pub(crate) parts_ns: [u64; PARTS.len()],
}

/// What the shares of reclaim are, and the time of a run beside that of another: least, usual and most within the ranges of prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Shares of what reclaim takes of the processors; the usual ones add up to 1.
    pub shares: [[Ratio; 3]; PARTS.len()],
    /// All time, of that of the first run with the same memory.
    pub time_of_first: [Ratio; 3],
}

impl Serialize for Profile {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let shares = PARTS.into_iter().zip(self.shares);
        serializer.collect_map(shares.chain([("time_of_first", self.time_of_first)]))
    }
}

/// Why prices can't be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCost {
    /// No such price.
    #[error(
        "no cost is called {0:?}: {meant}use one of {names}",
        meant = strata_trace::did_you_mean(.0, names()),
        names = names().join(", ")
    )]
    Unknown(String),
    /// Not `NAME=NANOSECONDS`.
    #[error("{0:?} is no cost: write NAME=NANOSECONDS, such as read=80000, or NAME=LOW:USUAL:HIGH")]
    Malformed(String),
}

fn names() -> [&'static str; PRICES.len()] {
    PRICES.map(|(name, _)| name)
}

impl FromStr for CostModel {
    type Err = BadCost;

    /// The defaults with some prices changed: `read=80000,scan=100:300:400`. One number leaves no range.
    fn from_str(text: &str) -> Result<CostModel, BadCost> {
        let mut model = CostModel::default();
        for piece in text.split(',').filter(|piece| !piece.is_empty()) {
            let malformed = || BadCost::Malformed(piece.to_owned());
            let (name, ns) = piece.split_once('=').ok_or_else(malformed)?;
            let at = names().iter().position(|one| *one == name);
            let at = at.ok_or_else(|| BadCost::Unknown(name.to_owned()))?;
            let numbers: Result<Vec<u64>, _> = ns.split(':').map(str::parse).collect();
            model.0[at] = match numbers.map_err(|_| malformed())?[..] {
                [ns] => [ns; 3],
                [low, usual, high] if low <= usual && usual <= high => [low, usual, high],
                _ => return Err(malformed()),
            };
        }
        Ok(model)
    }
}

/// Sums of counts times prices; they saturate.
fn sum(terms: &[(u64, u64)]) -> u64 {
    let products = terms.iter().map(|(count, ns)| count.saturating_mul(*ns));
    products.fold(0, u64::saturating_add)
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
        let [_, _, read, swap_in, ..] = self.usual();
        sum(&[(nr_anon, swap_in), (nr_file, read)])
    }

    /// The estimated cost of a run over `nr_distinct` pages (anon, file); sums saturate.
    pub fn cost(&self, outcome: &Outcome, nr_distinct: [u64; 2]) -> Cost {
        cost_at(self.usual(), outcome, nr_distinct)
    }

    fn usual(&self) -> [u64; PRICES.len()] {
        self.0.map(|range| range[USUAL])
    }

    /// The parts of a run, and its time beside that of `first`: at the usual prices, and the extremes of all combinations of lows
    /// and highs.
    pub(crate) fn profile(&self, run: &Outcome, first: &Outcome, nr_distinct: [u64; 2]) -> Profile {
        let both = |prices| [run, first].map(|of| cost_at(prices, of, nr_distinct));
        let usual = both(self.usual());
        let matters = |at: &usize| {
            let mut prices = self.usual();
            let mut with = |ns| {
                prices[*at] = ns;
                both(prices)
            };
            with(self.0[*at][0]) != with(self.0[*at][2])
        };
        let varied: Vec<usize> = (0..PRICES.len()).filter(matters).collect();
        let mut profile = Profile {
            shares: shares(&usual[0]).map(|share| [share; 3]),
            time_of_first: [Ratio::of(usual[0].total_ns, usual[1].total_ns); 3],
        };
        for choice in 0..1_u32 << varied.len() {
            let mut prices = self.usual();
            for (bit, &at) in varied.iter().enumerate() {
                prices[at] = self.0[at][2 * ((choice >> bit) & 1) as usize];
            }
            let [of, first] = both(prices);
            let found = shares(&of);
            for (range, share) in profile.shares.iter_mut().zip(found) {
                widen(range, share);
            }
            let ratio = Ratio::of(of.total_ns, first.total_ns);
            widen(&mut profile.time_of_first, ratio);
        }
        profile
    }
}

fn widen(range: &mut [Ratio; 3], found: Ratio) {
    range[0] = range[0].min(found);
    range[2] = range[2].max(found);
}

/// Shares in thousandths, rounded so that they add up.
fn shares(cost: &Cost) -> [Ratio; PARTS.len()] {
    let all: u128 = cost.parts_ns.iter().map(|ns| u128::from(*ns)).sum();
    let (mut so_far, mut told) = (0_u128, 0);
    cost.parts_ns.map(|ns| {
        so_far += u128::from(ns);
        let thousandths = ((2000 * so_far + all) / (2 * all).max(1)) as u64;
        let share = Ratio::of(thousandths - told, 1000);
        told = thousandths;
        share
    })
}

/// What a run costs at these prices.
fn cost_at(prices: [u64; PRICES.len()], outcome: &Outcome, nr_distinct: [u64; 2]) -> Cost {
    let [
        hit,
        zero,
        read,
        swap_in,
        compress,
        swap_out,
        write,
        scan,
        list,
        rmap,
        walk,
        table,
        young,
        look,
        age,
        slow,
        hint,
        moved,
        mappers,
        threads,
    ] = prices;
    let nr_anon_refaults = outcome.nr_anon_misses.saturating_sub(nr_distinct[0]);
    let access_ns = sum(&[
        (outcome.nr_accesses - outcome.nr_misses, hit),
        (outcome.nr_anon_misses - nr_anon_refaults, zero),
        (nr_anon_refaults, swap_in),
        (outcome.nr_misses - outcome.nr_anon_misses, read),
    ]);
    let Some(reclaim) = &outcome.reclaim else {
        return Cost {
            total_ns: access_ns,
            access_ns,
            ..Cost::default()
        };
    };
    let (nr_slow_hits, nr_hints, nr_moves) = reclaim.tiers.as_ref().map_or((0, 0, 0), |of| {
        let nr_slow_hits = of.nr_hits.iter().skip(1).sum();
        (
            nr_slow_hits,
            of.stats.numa_hint_faults,
            of.stats.pgmigrate_success,
        )
    });
    let nr_stolen = reclaim.nr_stolen[0].saturating_add(reclaim.nr_stolen[1]);
    let nr_put_back = reclaim.nr_isolated.saturating_sub(nr_stolen) + reclaim.nr_checked;
    let own_list_ns = sum(&[(outcome.nr_misses + 2 * reclaim.nr_activated_by_access, list)]);
    let list_ns = sum(&[
        (reclaim.nr_scanned + reclaim.nr_checked, scan),
        (nr_put_back, list),
    ]);
    let mut parts_ns = [
        sum(&[(reclaim.nr_rmap_walks.saturating_mul(mappers), rmap)]),
        sum(&[(reclaim.nr_stolen[0], compress)]),
        sum(&[(reclaim.nr_stolen[0], swap_out)]),
        list_ns,
        sum(&[
            (reclaim.nr_ptes_walked, walk),
            (reclaim.nr_ptes_walked / u64::from(NR_TABLE_ENTRIES), table),
            (reclaim.nr_ptes_young, young),
            (reclaim.nr_ptes_looked_around, look),
            (reclaim.nr_ageing_runs, age),
        ]),
        sum(&[(nr_moves, moved)]),
    ];
    let access_ns = sum(&[
        (access_ns, 1),
        (nr_slow_hits, slow),
        (nr_hints, hint),
        (own_list_ns, 1),
    ]);
    let device_ns = sum(&[(reclaim.nr_written, write)]);
    let of_parts = |parts_ns: &[u64]| {
        parts_ns
            .iter()
            .fold(0, |sum: u64, ns| sum.saturating_add(*ns))
    };
    let work_ns = of_parts(&[access_ns, device_ns, of_parts(&parts_ns)]);
    let locked_ns = own_list_ns.saturating_add(list_ns);
    let waited_ns = locked_ns.saturating_mul(threads).saturating_sub(work_ns);
    parts_ns[3] = list_ns.saturating_add(waited_ns);
    let [rmap_ns, compression_ns, swap_ns, rest_ns @ ..] = parts_ns;
    Cost {
        total_ns: work_ns.saturating_add(waited_ns),
        access_ns,
        write_ns: of_parts(&[device_ns, compression_ns, swap_ns]),
        reclaim_ns: rmap_ns.saturating_add(of_parts(&rest_ns)),
        parts_ns,
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
                nr_isolated: 25,
                nr_checked: 4,
                nr_activated_by_access: 6,
                nr_rmap_walks: 30,
                nr_ptes_young: 20,
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
            ..TierCounts::default()
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
        let model: CostModel = "hit=1,zero=1000,swap-in=100000,read=10000000,compress=10,swap-out=1,write=100,scan=1,list=1000,\
             rmap=10000,walk=100,table=7,young=11,look=1000000,age=1000000000"
            .parse()
            .unwrap();
        // 10 anon pages: 10 first touches, 2 came back. 30 pages came in, 6 were made active.
        let cost = model.cost(&outcome(), [10, 5]);
        assert_eq!(
            cost.access_ns,
            70 + 10 * 1000 + 2 * 100_000 + 18 * 10_000_000 + (30 + 2 * 6) * 1000
        );
        assert_eq!(cost.write_ns, 7 * (10 + 1) + 300);
        // 10 of 25 that were taken off did not go, and 4 were looked at.
        let lists_ns = (50 + 4) + (10 + 4) * 1000;
        let walks_ns = 1000 * 100 + 7 + 20 * 11 + 64 * 1_000_000 + 2 * 1_000_000_000;
        assert_eq!(cost.parts_ns, [300_000, 70, 7, lists_ns, walks_ns, 0]);
        assert_eq!(cost.reclaim_ns, 300_000 + lists_ns + walks_ns);
        assert_eq!(
            cost.total_ns,
            cost.access_ns + cost.write_ns + cost.reclaim_ns
        );
    }

    /// By how much a change of what was counted makes the parts, and all of it, dearer at the usual prices.
    fn dearer(change: fn(&mut Reclaim)) -> ([u64; PARTS.len()], u64) {
        let mut more = outcome();
        change(more.reclaim.as_mut().unwrap());
        let [before, after] = [outcome(), more].map(|of| CostModel::default().cost(&of, [10, 5]));
        let mut parts = after.parts_ns;
        let both = parts.iter_mut().zip(before.parts_ns);
        both.for_each(|(after, before)| *after -= before);
        (parts, after.total_ns - before.total_ns)
    }

    #[test]
    fn each_thing_costs_its_own_part() {
        let cases: [(fn(&mut Reclaim), _, _); 8] = [
            (|of| of.nr_rmap_walks += 1, [160, 0, 0, 0, 0, 0], 160),
            (|of| of.nr_ptes_young += 1, [0, 0, 0, 0, 45, 0], 45),
            // A table more.
            (|of| of.nr_ptes_walked += 512, [0, 0, 0, 0, 1224, 0], 1224),
            (|of| of.nr_isolated += 1, [0, 0, 0, 100, 0, 0], 100),
            (|of| of.nr_checked += 1, [0, 0, 0, 300, 0, 0], 300),
            // In the path of whoever reads: no part of reclaim.
            (|of| of.nr_activated_by_access += 1, [0; 6], 200),
            // The device is no processor.
            (|of| of.nr_written += 1, [0; 6], 100_000),
            (
                |of| (of.nr_stolen[0], of.nr_isolated) = (8, 26),
                [0, 4400, 1600, 0, 0, 0],
                6000,
            ),
        ];
        for (number, (change, parts, total)) in cases.into_iter().enumerate() {
            assert_eq!(dearer(change), (parts, total), "case {number}");
        }
    }

    #[test]
    fn more_mappers_cost_more_rmap() {
        let [one, eight] = ["", "mappers=8"].map(|text| {
            let model: CostModel = text.parse().unwrap();
            model.cost(&outcome(), [10, 5])
        });
        assert_eq!(eight.parts_ns[0], 8 * one.parts_ns[0]);
        assert_eq!(eight.parts_ns[1..], one.parts_ns[1..]);
        assert_eq!(eight.total_ns - one.total_ns, 7 * 30 * 160);
    }

    #[test]
    fn threads_wait_for_the_lock_once_it_is_always_held() {
        let of = |threads| {
            let model: CostModel = format!("read=0,write=0,age=0,threads={threads}")
                .parse()
                .unwrap();
            model.cost(&outcome(), [10, 5])
        };
        let alone = of(1);
        let locked_ns = (30 + 2 * 6) * 100 + 54 * 200 + 14 * 100;
        let nr_enough = alone.total_ns / locked_ns;
        assert_eq!(of(nr_enough), alone);
        let many = of(nr_enough + 40);
        assert_eq!(many.total_ns, (nr_enough + 40) * locked_ns);
        let waited_ns = many.total_ns - alone.total_ns;
        assert_eq!(many.parts_ns[3] - alone.parts_ns[3], waited_ns);
        let sum = many.access_ns + many.write_ns + many.reclaim_ns;
        assert_eq!(many.total_ns, sum);
    }

    #[test]
    fn shares_add_up_and_lie_within_what_the_ranges_give() {
        let mut first = outcome();
        first.reclaim.as_mut().unwrap().nr_rmap_walks = 300;
        let profile = CostModel::default().profile(&outcome(), &first, [10, 5]);
        let usual = profile.shares.map(|share| share[USUAL].millionths());
        assert_eq!(usual.iter().sum::<u64>(), 1_000_000);
        let ranges = profile.shares.iter().chain([&profile.time_of_first]);
        for [low, usual, high] in ranges {
            assert!(low <= usual && usual <= high);
        }
        let [rmap, ..] = profile.shares;
        assert!(rmap[0] < rmap[USUAL] && rmap[USUAL] < rmap[2]);
        let fixed: String = PRICES
            .map(|(name, of)| format!("{name}={},", of[USUAL]))
            .concat();
        let fixed: CostModel = fixed.parse().unwrap();
        let [low, usual, high] = fixed.profile(&outcome(), &first, [10, 5]).time_of_first;
        assert!(low == usual && usual == high && usual == profile.time_of_first[USUAL]);
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
            "read=1:2",
            "read=3:2:4",
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
    fn the_table_names_every_price_with_its_range() {
        let table = include_str!("cost.rs");
        for (name, [low, usual, high]) in PRICES {
            assert!(low <= usual && usual <= high, "{name}");
            let line = format!("//! | `{name}` | {usual} | {low} to {high} |");
            assert!(table.contains(&line), "{line}");
        }
    }
}
