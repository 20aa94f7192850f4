//! The order of accesses within the intervals of a recording.
//!
//! A recording says which pages were accessed between two walks, once each, and not in which order.
//! A replay has to take some order, and how much that matters can be told: under an LRU the fewest
//! pages are missed where each interval begins with the pages accessed last, the most where it
//! begins with those accessed longest ago.
//!
//! | name | within an interval |
//! |---|---|
//! | `shuffled`, `shuffled:SEED` | at random, the same for the same seed (1 by default) |
//! | `address` | by space and address, as recorded |
//! | `best` | those accessed last before, first; new pages at the end |
//! | `worst` | new pages, then those accessed longest ago |
//!
//! **Owns** the orders. **Does not own** what an interval is: requests in a row that have the same
//! time.
//!
//! **Invariants**
//! - I1: no request leaves its interval, none is lost and none is added.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::workload::{Request, Workload};

/// An order of the accesses of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalOrder {
    /// At random, by a seed.
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
    /// The same workload with every interval in another order. Without times it is one interval.
    #[must_use]
    pub fn in_order(&self, order: IntervalOrder) -> Workload {
        let mut requests = self.requests().to_vec();
        let intervals: Vec<Range<usize>> = self.intervals().collect();
        match order {
            IntervalOrder::Address => {}
            IntervalOrder::Shuffled(seed) => {
                let mut random = Random(seed);
                for interval in intervals {
                    shuffle(&mut requests[interval], &mut random);
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

/// Fisher and Yates'.
fn shuffle(requests: &mut [Request], random: &mut Random) {
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
        let misses = |order| {
            let ordered = workload.in_order(order);
            let setup = Setup::with_memory(80);
            let outcome = Baseline::Lru.run(&ordered, &setup, &NoProgress).unwrap();
            outcome.nr_misses
        };
        assert_eq!(misses(IntervalOrder::Best), 100 + 49 * 20);
        assert_eq!(misses(IntervalOrder::Worst), 50 * 100);
        let shuffled = misses(IntervalOrder::default());
        assert!((2000..3500).contains(&shuffled), "{shuffled}");
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let workload = workload((0..1000).map(|page| (1, page)));
        let order = |seed| keys(&workload.in_order(IntervalOrder::Shuffled(seed)), 0..1000);
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
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
