//! Heat: how often a page was found accessed by the last walks, in two bytes.
//!
//! Generations know when a page was last accessed. Under a skewed load that is not enough: a page
//! that is wanted once in a while looks like one that is wanted all the time, just after it was
//! touched, and the working set is pushed out by what passes through. Heat is the share of the last
//! walks (about [`WALKS_REMEMBERED`] of them, older ones counting less and less) that found the page
//! accessed, and it outlives an eviction: the mechanism keeps it by page, in memory or not.
//!
//! ```text
//!   heat = heat * 15/16 + (accessed ? 1/16 : 0)
//! ```
//!
//! Why 16: on a Zipf load with theta 0.99 and memory for 60 % of it, walks 375,000 accesses apart, a
//! memory of 4, 8, 16 and 32 walks gave 55, 52, 51 and 51 faults per 1000 accesses, LRU 62 and a
//! perfect frequency order 44; after a change of every page's rank each 5,000,000 accesses 60, 61, 64
//! and 66, LRU 64. (`heat_evicts_less_of_what_is_wanted_than_recency` replays the steady case.)
//!
//! In those figures about a quarter of memory came back between two walks (in the test: 51 faults in each 1000 of
//! 24,000 accesses, with room for 4,915 pages). A walk after one that
//! saw less than that come back ([`HEAT_TURNED_OVER_SHARE`]) counts half, with 32 in the place of 16. Walks that left a
//! page out because its owner did not run count whole: who sleeps cools in half the walks.
//!
//! ```text
//!   by_heat   a policy around a policy: what is ranked goes first     forward   its door
//!   told      its door for who ranks when it chooses                  foretold  whether the warm pages were used
//!   folios    what is known of each folio                             owners    of each space, and its walks
//!   scales    how the spaces of a group compare                       spread    the measures for that
//!   past      the heat of what is not in memory                       copy      to play its eviction out
//!   coldest   the cheapest of all folios                              hints     what is offered to who else reclaims
//! ```
//!
//! **Owns** the moving average, the choice of the coldest and the pace both are made for. **Does not
//! own** who walks, or where the heat of absent pages is kept.
//!
//! **Invariants**
//! - I1: a page accessed in every walk is hotter than any other; one accessed in none is the coldest.
//! - I2: integers only; same walks, same heat.

mod by_heat;
mod coldest;
mod copy;
mod folios;
mod foretold;
mod forward;
mod hints;
mod owners;
mod past;
mod ranking;
mod scales;
mod spread;
mod told;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod told_tests;

use crate::{ids::FolioId, ids::Kind, swappiness::Swappiness};
pub use by_heat::ByHeat;
pub use foretold::Foretold;
pub use hints::HintCounts;
pub use owners::WalkStep;
pub use past::PastHeat;
pub use ranking::Ranking;
pub(crate) use spread::{HeatScale, HeatSpread};
pub use told::{HeatPolicy, Outside};

const SHIFT: u32 = 4;
/// Walks that heat remembers: one so many walks ago counts a third of the last one.
pub const WALKS_REMEMBERED: u32 = 1 << SHIFT;
/// Walks in which heat falls by half.
const WALKS_TO_HALF: u32 = 11;

/// Heat is a share of walks, so where the engine evicts these come at even distances, milliseconds. Where
/// others do and heat tells which pages to keep, what counts is how much of memory goes between two.
pub const HEAT_WALK_MS: u64 = 250;
/// Sooner only where everything ranked has been used up.
pub const HEAT_WALK_MS_MIN: u64 = 50;
/// A walk counts half where less than one page in so many was new to the one before it.
const HEAT_TURNED_OVER_SHARE: u64 = 4;
/// Fewest base pages to rank after a walk; else twice as many as have to go between two.
pub const NR_RANKED_PAGES_MIN: u64 = 4096;

/// How often a page was accessed lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Heat(u16);

impl Heat {
    /// Never accessed.
    pub const NONE: Heat = Heat(0);

    /// The heat after one more walk.
    #[must_use]
    pub fn after_walk(self, is_accessed: bool) -> Heat {
        self.after(is_accessed, SHIFT)
    }

    /// The heat after a walk that counts half, because little has happened since the last.
    #[must_use]
    pub fn after_short_walk(self, is_accessed: bool) -> Heat {
        self.after(is_accessed, SHIFT + 1)
    }

    fn after(self, is_accessed: bool, shift: u32) -> Heat {
        let earned = (u16::MAX >> shift) * u16::from(is_accessed);
        Heat(self.0 - (self.0 >> shift) - u16::from(self.0 != 0 && self.0 >> shift == 0) + earned)
    }

    /// The heat after so many walks that left the page out because its owner did not run.
    #[must_use]
    pub fn after_idle_walks(self, nr_walks: u32) -> Heat {
        Heat(self.0.checked_shr(nr_walks / WALKS_TO_HALF).unwrap_or(0))
    }

    /// What is to be thought of a part of a huge page that was split: somebody used the whole, which
    /// says little of each part. From always used it becomes as if two of the last walks had found it
    /// used: not colder than what nobody uses, and soon colder than its hot neighbour.
    #[must_use]
    pub fn of_a_part(self) -> Heat {
        Heat(self.0 / 8)
    }

    /// What it would cost to have it back, by how soon that is to be expected and by what
    /// `swappiness` says of the kinds' reads.
    pub(crate) fn cost(self, kind: Kind, swappiness: Swappiness) -> Cost {
        let weight = match kind {
            Kind::Anon => 200 - u32::from(swappiness.get().min(200)),
            Kind::File => u32::from(swappiness.get().min(200)),
        };
        // No kind is free: without this the cold pages of the other would never be looked at.
        Cost(u32::from(self.0) * (weight + 1))
    }
}

/// What an eviction is expected to cost; comparable, no unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cost(u32);

impl Cost {
    const BUCKETS: usize = 1 << 12;
    const MAX: u32 = u16::MAX as u32 * 201;

    fn bucket(self) -> usize {
        (u64::from(self.0) * (Self::BUCKETS as u64 - 1) / u64::from(Self::MAX)) as usize
    }
}

/// Finds the cheapest folios of many in two rounds over them, holding no more than are wanted.
#[derive(Debug)]
pub(crate) struct Cheapest {
    nr_pages_by_bucket: Vec<u64>,
    nr_pages_wanted: u64,
    last_bucket: Option<usize>,
    chosen: Vec<(Cost, FolioId)>,
}

impl Cheapest {
    /// To find about `nr_pages_wanted` base pages.
    pub(crate) fn new(nr_pages_wanted: u64) -> Cheapest {
        Cheapest {
            nr_pages_by_bucket: vec![0; Cost::BUCKETS],
            nr_pages_wanted,
            last_bucket: None,
            chosen: Vec::new(),
        }
    }

    /// First round: every folio.
    pub(crate) fn count(&mut self, cost: Cost, nr_pages: u64) {
        self.nr_pages_by_bucket[cost.bucket()] += nr_pages;
    }

    /// Second round: the same folios again.
    pub(crate) fn offer(&mut self, folio: FolioId, cost: Cost) {
        let last_bucket = match self.last_bucket {
            Some(bucket) => bucket,
            None => {
                let mut left = self.nr_pages_wanted;
                let is_enough = |nr_pages: &u64| {
                    left = left.saturating_sub(*nr_pages);
                    left == 0
                };
                let bucket = self.nr_pages_by_bucket.iter().position(is_enough);
                *self.last_bucket.insert(bucket.unwrap_or(Cost::BUCKETS - 1))
            }
        };
        if cost.bucket() <= last_bucket {
            self.chosen.push((cost, folio));
        }
    }

    /// The cheapest, cheapest first; among equals those offered first. A few more than wanted where
    /// many cost nearly the same.
    pub(crate) fn into_folios(self) -> Vec<FolioId> {
        self.into_folios_by(|_| ())
    }

    /// The cheapest, cheapest first; among equals those with the lowest key first.
    pub(crate) fn into_folios_by<K: Ord>(mut self, key: impl Fn(FolioId) -> K) -> Vec<FolioId> {
        self.chosen
            .sort_by_cached_key(|(cost, folio)| (*cost, key(*folio)));
        self.chosen.into_iter().map(|(_, folio)| folio).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(walks: impl IntoIterator<Item = bool>) -> Heat {
        walks.into_iter().fold(Heat::NONE, Heat::after_walk)
    }

    proptest! {
        #[test]
        fn more_accesses_in_the_same_walks_are_never_colder(walks in prop::collection::vec(any::<bool>(), 1..64), at in 0usize..64) {
            let mut more = walks.clone();
            let at = at % more.len();
            more[at] = true;
            prop_assert!(after(more) >= after(walks));
        }

        #[test]
        fn the_cheapest_are_what_sorting_finds(heats in prop::collection::vec(0u16.., 1..300), wanted in 1u64..200) {
            let cost = |heat: &u16| Heat(*heat).cost(Kind::Anon, Swappiness::DEFAULT);
            let mut cheapest = Cheapest::new(wanted);
            heats.iter().for_each(|heat| cheapest.count(cost(heat), 1));
            for (n, heat) in heats.iter().enumerate() {
                cheapest.offer(FolioId(n as u32), cost(heat));
            }
            let mut sorted: Vec<u32> = (0..heats.len() as u32).collect();
            sorted.sort_by_key(|n| cost(&heats[*n as usize]));
            let found: Vec<u32> = cheapest.into_folios().iter().map(|folio| folio.0).collect();
            prop_assert!(found.len() as u64 >= wanted.min(heats.len() as u64));
            prop_assert_eq!(&found[..], &sorted[..found.len()]);
        }
    }

    #[test]
    fn a_page_in_constant_use_is_hotter_than_one_used_every_other_walk() {
        let always = after([true; 100]);
        let half = after((0..100).map(|walk| walk % 2 == 0));
        let once = after((0..100).map(|walk| walk == 99));
        assert!(always > half && half > once && once > Heat::NONE);
        assert_eq!(after([true; 400]), after([true; 500]), "it settles");
    }

    #[test]
    fn what_is_not_used_any_more_cools_down_to_nothing() {
        let hot = after([true; 100]);
        let mut cooling = hot;
        let mut nr_walks = 0;
        while cooling != Heat::NONE {
            let next = cooling.after_walk(false);
            assert!(next < cooling);
            cooling = next;
            nr_walks += 1;
        }
        assert!((100..200).contains(&nr_walks), "{nr_walks}");
        // A space that does not run cools as one that runs and does not look at the page, roughly.
        let idle = hot.after_idle_walks(WALKS_TO_HALF).0;
        let ran = (0..WALKS_TO_HALF)
            .fold(hot, |heat, _| heat.after_walk(false))
            .0;
        assert!(idle.abs_diff(ran) < hot.0 / 50, "{idle} {ran}");
        assert_eq!(hot.after_idle_walks(u32::MAX), Heat::NONE);
    }

    #[test]
    fn two_short_walks_count_as_one() {
        let (mut whole, mut halves) = (Heat::NONE, Heat::NONE);
        // Used for a while, seldom, and not at all.
        let uses = (0..120).map(|walk| walk < 40 || (walk < 80 && walk % 5 == 0));
        for is_accessed in uses {
            whole = whole.after_walk(is_accessed);
            for _ in 0..2 {
                halves = halves.after_short_walk(is_accessed);
            }
            let apart = whole.0.abs_diff(halves.0);
            assert!(apart < u16::MAX / 100, "{whole:?} {halves:?}");
        }
        let settled = (0..800).fold(Heat::NONE, |heat, _| heat.after_short_walk(true));
        assert!(settled.after_walk(true) >= settled, "one ceiling for both");
    }

    #[test]
    fn a_part_of_a_huge_page_begins_lukewarm() {
        let part = after([true; 400]).of_a_part();
        assert!(after([true; 1]) < part && part < after([true; 4]));
        assert!(part > after([true]).after_walk(false) && part.after_walk(false) < part);
        assert_eq!(Heat::NONE.of_a_part(), Heat::NONE);
    }

    #[test]
    fn swappiness_weighs_the_kinds() {
        let warm = after([true; 3]);
        let cost = |kind, value| warm.cost(kind, Swappiness::try_new(value).unwrap());
        assert!(cost(Kind::File, 60) < cost(Kind::Anon, 60));
        assert!(cost(Kind::File, 140) > cost(Kind::Anon, 140));
        assert_eq!(cost(Kind::File, 100), cost(Kind::Anon, 100));
        assert!(cost(Kind::Anon, 200) > Heat::NONE.cost(Kind::Anon, Swappiness::DEFAULT));
    }

    /// The figures of the module text in small: 2^13 pages, walks 24,000 accesses apart.
    #[test]
    fn heat_evicts_less_of_what_is_wanted_than_recency() {
        const PAGES: usize = 1 << 13;
        let sums: Vec<u64> = (1..=PAGES as u64)
            .scan(0, |sum, rank| {
                *sum += (1 << 40) / rank;
                Some(*sum)
            })
            .collect();
        let mut state = 88_172_645_463_325_252u64;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let at = state % sums[PAGES - 1];
            let rank = sums.partition_point(|sum| *sum <= at);
            (rank * 4801) % PAGES
        };
        let accesses: Vec<usize> = (0..1_500_000).map(|_| draw()).collect();
        let room = PAGES * 6 / 10;
        let by_heat = faults(&accesses, room, true);
        let by_recency = faults(&accesses, room, false);
        assert!(
            by_heat * 100 < by_recency * 90,
            "{by_heat} against {by_recency}"
        );

        fn faults(accesses: &[usize], room: usize, by_heat: bool) -> u64 {
            let mut heats = vec![Heat::NONE; PAGES];
            let mut touched = vec![0usize; PAGES];
            let mut accessed = vec![false; PAGES];
            let mut resident = vec![false; PAGES];
            let (mut nr_resident, mut nr_faults) = (0, 0);
            let mut victims: std::collections::VecDeque<usize> = Default::default();
            for (time, &page) in accesses.iter().enumerate() {
                if !resident[page] {
                    nr_faults += u64::from(time > accesses.len() / 3);
                    while nr_resident >= room {
                        let victim = victims.pop_front().filter(|victim| !accessed[*victim]);
                        if let Some(victim) = victim.filter(|victim| resident[*victim]) {
                            resident[victim] = false;
                            nr_resident -= 1;
                        } else if victims.is_empty() {
                            victims = coldest(&resident, |page| (touched[page], 0));
                            accessed.fill(false);
                        }
                    }
                    resident[page] = true;
                    nr_resident += 1;
                }
                accessed[page] = true;
                touched[page] = time;
                if time % 24_000 == 0 {
                    for page in 0..PAGES {
                        heats[page] = heats[page].after_walk(accessed[page]);
                    }
                    accessed.fill(false);
                    victims = match by_heat {
                        true => coldest(&resident, |page| (usize::from(heats[page].0), page)),
                        false => coldest(&resident, |page| (touched[page], page)),
                    };
                }
            }
            nr_faults
        }

        fn coldest(
            resident: &[bool],
            key: impl Fn(usize) -> (usize, usize),
        ) -> std::collections::VecDeque<usize> {
            let mut pages: Vec<usize> = (0..PAGES).filter(|page| resident[*page]).collect();
            pages.sort_by_key(|page| key(*page));
            pages.into()
        }
    }
}
