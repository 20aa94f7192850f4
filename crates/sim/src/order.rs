//! The order of accesses within the intervals of a recording.
//!
//! A recording says which pages were accessed between two walks, once each, and not in which order.
//! A replay has to take some order, and how much that matters can be told: under an LRU the fewest
//! pages are missed where each interval begins with the pages accessed last, the most where it
//! begins with those accessed longest ago.
//!
//! | name | within an interval |
//! |---|---|
//! | `shuffled`, `shuffled:SEED` | at random, but for what has an order; the same for the same seed (1 by default) |
//! | `address` | by space and address, as recorded |
//! | `best` | those accessed last before, first; new pages at the end |
//! | `worst` | new pages, then those accessed longest ago |
//!
//! Programs fill memory, and go through much of it, in the order of addresses; a random order of that
//! would find in memory what a real run never would. So `shuffled` keeps in the order of addresses,
//! among each other, the pages that come up for the first time (all of the baseline is that) and those
//! in long runs of neighbours, and shuffles everything else around them.
//!
//! **Owns** the orders. **Does not own** what an interval is: requests in a row that have the same
//! time.
//!
//! **Invariants**
//! - I1: no request leaves its interval, none is lost and none is added.
//! - I2: what a shuffle leaves in order is as it was recorded.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::workload::{Request, Workload};

/// So many neighbours, none left out, were gone through in order: accesses at random would have to
/// reach each page six times in the interval for such a run to come about by chance.
const ORDERED_RUN_PAGES: usize = 512;

/// An order of the accesses of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalOrder {
    /// At random, by a seed, but for new pages and long runs of neighbours.
    Shuffled(u64),
    /// By address.
    Address,
    /// The fewest misses under an LRU.
    Best,
    /// The most misses under an LRU.
    Worst,
}

impl Default for IntervalOrder {
    fn default() -> Self {
        IntervalOrder::Shuffled(1)
    }
}

/// A text that names no order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no order: use shuffled, shuffled:SEED, address, best or worst")]
pub struct UnknownOrder(String);

impl FromStr for IntervalOrder {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<IntervalOrder, UnknownOrder> {
        let unknown = || UnknownOrder(text.to_owned());
        match text {
            "shuffled" => Ok(IntervalOrder::default()),
            "address" => Ok(IntervalOrder::Address),
            "best" => Ok(IntervalOrder::Best),
            "worst" => Ok(IntervalOrder::Worst),
            other => {
                let seed = other.strip_prefix("shuffled:").ok_or_else(unknown)?;
                Ok(IntervalOrder::Shuffled(
                    seed.parse().map_err(|_| unknown())?,
                ))
            }
        }
    }
}

impl fmt::Display for IntervalOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntervalOrder::Shuffled(seed) => write!(f, "shuffled:{seed}"),
            IntervalOrder::Address => f.write_str("address"),
            IntervalOrder::Best => f.write_str("best"),
            IntervalOrder::Worst => f.write_str("worst"),
        }
    }
}

impl Workload {
    /// The workload with every interval in another order. A workload without times is one interval.
    #[must_use]
    pub fn in_order(&self, order: IntervalOrder) -> Workload {
        let mut requests = self.requests().to_vec();
        let intervals: Vec<Range<usize>> = self.intervals().collect();
        match order {
            IntervalOrder::Address => {}
            IntervalOrder::Shuffled(seed) => {
                let is_ordered = self.ordered(&intervals);
                let mut random = Random(seed);
                for interval in intervals {
                    let part = &mut requests[interval.clone()];
                    shuffle_around(part, &is_ordered[interval], &mut random);
                }
            }
            IntervalOrder::Best | IntervalOrder::Worst => {
                // Position of the last request of each page plus one; 0 is none so far.
                let mut last = vec![0_u32; self.nr_pages() as usize];
                for interval in intervals {
                    let part = &mut requests[interval.clone()];
                    let when = |request: &Request| last[request.page().index()];
                    match order {
                        IntervalOrder::Best => part.sort_by_key(|one| std::cmp::Reverse(when(one))),
                        _ => part.sort_by_key(when),
                    }
                    for (position, request) in (interval.start as u32 + 1..).zip(part) {
                        last[request.page().index()] = position;
                    }
                }
            }
        }
        self.with_requests(requests)
    }

    /// Bytes that [`Workload::in_order`] takes at most, the workload that comes of it among them.
    pub fn reorder_bytes(&self) -> u64 {
        // An interval of its own and three copies of a request, one with a mark; a mark; a number a page.
        let of_request = size_of::<Range<usize>>() + size_of::<(Request, bool)>() + 5;
        self.memory_bytes()
            + u64::from(self.nr_requests()) * of_request as u64
            + u64::from(self.nr_pages()) * size_of::<u32>() as u64
    }

    /// By request: whether it belongs to what was done in the order of addresses, as the module says.
    fn ordered(&self, intervals: &[Range<usize>]) -> Vec<bool> {
        let requests = self.requests();
        // Pages are numbered as they come up.
        let mut nr_known = 0;
        let is_new = |request: &Request| {
            let is_new = request.page().0 == nr_known;
            nr_known += u32::from(is_new);
            is_new
        };
        let mut is_ordered: Vec<bool> = requests.iter().map(is_new).collect();
        let key = |request: &Request| self.page(request.page()).key;
        let are_neighbours = |a: &Request, b: &Request| {
            let (a, b) = (key(a), key(b));
            a.space == b.space && a.page.checked_add(1) == Some(b.page)
        };
        for interval in intervals {
            let mut start = interval.start;
            for run in requests[interval.clone()].chunk_by(are_neighbours) {
                let end = start + run.len();
                if run.len() >= ORDERED_RUN_PAGES {
                    is_ordered[start..end].fill(true);
                }
                start = end;
            }
        }
        is_ordered
    }

    /// Requests in a row that have the same time.
    pub fn intervals(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let nr_requests = self.requests().len();
        let mut start = 0;
        std::iter::from_fn(move || {
            if start == nr_requests {
                return None;
            }
            let time = self.time_us(start as u32);
            let end = (start..nr_requests)
                .find(|position| self.time_us(*position as u32) != time)
                .unwrap_or(nr_requests);
            let interval = start..end;
            start = end;
            Some(interval)
        })
    }
}

/// Shuffles all, then puts those that are ordered back into their order, in the places they came to.
fn shuffle_around(requests: &mut [Request], is_ordered: &[bool], random: &mut Random) {
    let mut mixed: Vec<(Request, bool)> = requests
        .iter()
        .copied()
        .zip(is_ordered.iter().copied())
        .collect();
    let in_order: Vec<Request> = mixed
        .iter()
        .filter(|(_, is_ordered)| *is_ordered)
        .map(|(request, _)| *request)
        .collect();
    shuffle(&mut mixed, random);
    let mut in_order = in_order.into_iter();
    for (to, (request, is_ordered)) in requests.iter_mut().zip(mixed) {
        let ordered = is_ordered.then(|| in_order.next()).flatten();
        *to = ordered.unwrap_or(request);
    }
}

/// Fisher and Yates'.
fn shuffle<T>(requests: &mut [T], random: &mut Random) {
    for end in (1..requests.len()).rev() {
        let chosen = random.below(end as u64 + 1);
        requests.swap(end, chosen as usize);
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): any seed is a good one.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `limit`, by Lemire's multiplication; that it is off by 2^-32 matters to nobody.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Baseline, NoProgress, Setup, Simulate};
    use proptest::prelude::*;
    use strata_trace::{Access, PageKey};

    fn workload(requests: impl IntoIterator<Item = (u64, u64)>) -> Workload {
        let access = |(time_us, page)| Access {
            key: PageKey { space: 0, page },
            time_us,
            ..Access::default()
        };
        Workload::from_accesses("w", requests.into_iter().map(access)).unwrap()
    }

    fn keys(workload: &Workload, range: Range<usize>) -> Vec<u64> {
        let requests = workload.requests()[range].iter();
        requests
            .map(|request| workload.page(request.page()).key.page)
            .collect()
    }

    const ORDERS: [IntervalOrder; 5] = [
        IntervalOrder::Shuffled(1),
        IntervalOrder::Shuffled(2),
        IntervalOrder::Address,
        IntervalOrder::Best,
        IntervalOrder::Worst,
    ];

    proptest! {
        #[test]
        fn no_request_leaves_its_interval(
            intervals in prop::collection::vec(prop::collection::vec(0..40u64, 0..30), 0..20),
        ) {
            let requests = intervals.iter().enumerate().flat_map(|(time, pages)| {
                pages.iter().map(move |page| (time as u64 + 1, *page))
            });
            let before = workload(requests);
            for order in ORDERS {
                let after = before.in_order(order);
                prop_assert_eq!(after.nr_pages(), before.nr_pages());
                let mut nr_numbered = 0;
                for request in after.requests() {
                    prop_assert!(request.page().0 <= nr_numbered, "numbers in order of appearance");
                    nr_numbered = nr_numbered.max(request.page().0 + 1);
                }
                for interval in before.intervals() {
                    let [mut was, mut is] =
                        [&before, &after].map(|workload| keys(workload, interval.clone()));
                    was.sort_unstable();
                    is.sort_unstable();
                    prop_assert_eq!(was, is);
                }
            }
        }
    }

    #[test]
    fn an_lru_misses_least_in_the_best_order_and_most_in_the_worst() {
        // All of 100 pages in every interval: anything between a fifth and all is missed.
        let requests = (1..=50).flat_map(|time| (0..100).map(move |page| (time, page)));
        let workload = workload(requests);
        let misses = |order| lru_misses(&workload.in_order(order), 80);
        assert_eq!(misses(IntervalOrder::Best), 100 + 49 * 20);
        assert_eq!(misses(IntervalOrder::Worst), 50 * 100);
        let shuffled = misses(IntervalOrder::default());
        assert!((2000..3500).contains(&shuffled), "{shuffled}");
    }

    fn lru_misses(workload: &Workload, memory_pages: u32) -> u64 {
        let setup = Setup::with_memory(memory_pages);
        let outcome = Baseline::Lru.run(workload, &setup, &NoProgress);
        outcome.unwrap().nr_misses
    }

    #[test]
    fn what_was_filled_at_the_beginning_is_missed_as_in_the_real_run() {
        // 1000 pages are filled, then every tenth of them is used for a while: with half the memory
        // the first half is gone when its turn comes, and the second is gone by then, too.
        let fill = (0..1000).map(|page| (1, page));
        let phases = (0..10).flat_map(|tenth| {
            (0..5).flat_map(move |tick| {
                (0..100).map(move |page| (2 + tenth * 5 + tick, tenth * 100 + page))
            })
        });
        let workload = workload(fill.chain(phases));
        for seed in 1..4 {
            let ordered = workload.in_order(IntervalOrder::Shuffled(seed));
            let nr_misses = lru_misses(&ordered, 500);
            assert_eq!(nr_misses, 2000, "seed {seed}");
        }
    }

    #[test]
    fn a_loop_over_memory_that_is_too_small_finds_nothing() {
        // A fifth of 5000 pages an interval, ten times around.
        let requests = (0..50_000).map(|access| (1 + access / 1000, access % 5000));
        let workload = workload(requests);
        let ordered = workload.in_order(IntervalOrder::default());
        assert_eq!(lru_misses(&ordered, 4900), 50_000);
    }

    #[test]
    fn new_pages_keep_their_order_while_others_are_shuffled_around_them() {
        // The even pages are known, the odd ones are new.
        let known = (0..400).step_by(2).map(|page| (1, page));
        let workload = workload(known.chain((0..400).map(|page| (2, page))));
        let shuffled = keys(&workload.in_order(IntervalOrder::default()), 200..600);
        let [known, new] = [0, 1].map(|odd| {
            let part = shuffled.iter().copied().filter(|page| page % 2 == odd);
            part.collect::<Vec<u64>>()
        });
        assert!(new.is_sorted() && !known.is_sorted(), "{shuffled:?}");
        let nr_new_first = shuffled[..200].iter().filter(|page| *page % 2 == 1).count();
        assert!((60..140).contains(&nr_new_first), "{nr_new_first}");
    }

    #[test]
    fn orders_have_names() {
        for order in ORDERS {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for text in [
            "",
            "random",
            "shuffled:",
            "shuffled:x",
            "shuffled:-1",
            "Best",
        ] {
            assert!(text.parse::<IntervalOrder>().is_err(), "{text}");
        }
    }
}
