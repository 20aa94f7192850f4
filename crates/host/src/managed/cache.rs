//! What is known of one group's page cache that nobody maps.
//!
//! Of files that no hand reaches page by page the kernel takes an amount. What went by that comes back where the kernel counts that pages
//! of files are read again after it had reclaimed them.
//!
//! **Owns** the sums between two censuses. **Does not own** censuses (`engine::census`), nor how much goes (`caches`).
//!
//! **Invariants** I1: what was asked for counts as gone until it is known what went: no room is given twice.

use super::by_amount::{Fares, USED_SHARE_MAX};
use crate::engine::census::cache::GroupCache;
use crate::observe::ledger::CacheSeen;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use strata_control::oldest::CacheOf;
use strata_control::page_cache::{CacheAges, CacheClass, Idle, NR_CACHE_CLASSES};
use strata_linux::addr::PAGE_BYTES;

/// What the kernel took by amount is remembered for so long.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// What is known of one group's page cache. Sizes in pages.
#[derive(Debug, Default)]
pub(super) struct OfGroup {
    /// As of the last census; `None`: none has looked yet.
    ages: Option<CacheAges>,
    /// Came back since the last look at the promise.
    nr_returned: u64,
    read_again: ReadAgain,
    /// Asked for, and not known yet to have gone.
    nr_going: u64,
    /// Went since the last census, by class, and since the last look at the promise.
    nr_gone: [u64; NR_CACHE_CLASSES],
    nr_gone_since_look: u64,
    /// Was asked for since the last census and stayed.
    nr_stuck: u64,
    /// Dropped in all.
    pub(super) nr_dropped: u64,
    by_amount: ByAmount,
}

/// What the kernel took when it was asked for an amount, pages.
#[derive(Debug, Default)]
struct ByAmount {
    /// When it went and how much of that has not come back, the oldest first; as far as it is remembered.
    away: VecDeque<(Duration, u64)>,
    /// Asked for, and not known yet to have gone.
    nr_going: u64,
    /// Went since the last census.
    nr_new: u64,
    /// Files' pages that were read again after the kernel had reclaimed them, as it counts them, at the last look.
    nr_refaults: u64,
    /// When it was asked last, or answered: a census that began later tells what is left.
    last: Option<Duration>,
    /// How the kernel's choice fares.
    fares: Fares,
}

impl ByAmount {
    fn nr_away(&self) -> u64 {
        let known = self.away.iter().map(|(_, nr_pages)| nr_pages);
        known.sum::<u64>() + self.nr_new
    }

    /// What went since the last look is away, and what the kernel counts to have come back is not; returns how much that is. The kernel is
    /// not asked for a while where that was too much.
    fn look(&mut self, at: Duration, nr_refaults: u64) -> u64 {
        self.last = self.last.filter(|last| *last >= at);
        let nr_away = self.nr_away();
        self.away.push_back((at, std::mem::take(&mut self.nr_new)));
        self.away
            .retain(|(then, nr_pages)| *nr_pages > 0 && at < *then + REMEMBERED);
        let nr_more = nr_refaults.saturating_sub(self.nr_refaults);
        self.nr_refaults = nr_refaults;
        let nr_returned = nr_more.min(self.nr_away());
        let mut nr_left = nr_returned;
        for (_, nr_pages) in self.away.iter_mut().rev() {
            let nr_of_it = nr_left.min(*nr_pages);
            *nr_pages -= nr_of_it;
            nr_left -= nr_of_it;
        }
        if nr_returned as f64 > nr_away as f64 * USED_SHARE_MAX && self.fares.may_take(at) {
            self.fares.rests(at);
        }
        nr_returned
    }
}

/// Pages in memory that were read again since the last look, by the time for which they had not been, milliseconds.
#[derive(Debug, Default)]
pub(super) struct ReadAgain(BTreeMap<u64, u64>);

impl ReadAgain {
    /// Those that had not been read for so long.
    pub(super) fn after(&self, age: Duration) -> u64 {
        self.0
            .range(age.as_millis() as u64..)
            .map(|(_, nr)| nr)
            .sum()
    }
}

impl OfGroup {
    /// In memory, charged to the group and mapped by nobody.
    pub(super) fn cached(&self) -> Option<u64> {
        let ages = self.ages.as_ref()?;
        let nr_cached: u64 = ages.nr_cached_pages.iter().sum();
        Some(nr_cached.saturating_sub(self.gone() + self.by_amount.nr_new))
    }

    /// Part of that which can be dropped and was not read for so long.
    pub(super) fn older_than(&self, age: Duration) -> Option<u64> {
        let older = self.ages.as_ref()?.nr_older_pages(age.as_millis() as u64);
        Some(older.saturating_sub(self.gone() + self.nr_stuck))
    }

    /// What no hand reaches page by page and was not read for so long.
    fn beyond_reach(&self, age: Duration) -> u64 {
        let idle_ms = age.as_millis() as u64;
        let of = |ages: &CacheAges| {
            let of = |class| ages.nr_unreachable_of(class, idle_ms);
            of(CacheClass::File) + of(CacheClass::SmallFile)
        };
        (self.ages.as_ref()).map_or(0, of)
    }

    /// Idle pages that no hand reaches page by page, where the kernel may be asked for a part of them at `at`.
    pub(super) fn to_ask_for(&self, at: Duration, age: Duration) -> u64 {
        let may_ask = self.by_amount.last.is_none() && self.by_amount.fares.may_take(at);
        match may_ask {
            true => self.beyond_reach(age),
            false => 0,
        }
    }

    /// All that was not read for so long and goes, page by page or by amount.
    pub(super) fn idle_for(&self, age: Duration) -> u64 {
        let by_amount = match self.has_by_amount() {
            true => self.beyond_reach(age).saturating_sub(self.by_amount.nr_new),
            false => 0,
        };
        self.older_than(age).unwrap_or(0) + by_amount
    }

    /// The kernel is asked at `at` for so much, and has counted so many pages that were read again.
    pub(super) fn asked_by_amount(&mut self, at: Duration, nr_pages: u64, nr_refaults: u64) {
        self.by_amount.last = Some(at);
        if self.by_amount.away.is_empty() {
            self.by_amount.nr_refaults = nr_refaults;
        }
        self.by_amount.nr_going += nr_pages;
    }

    /// Of so much that the kernel was asked for, so much was freed until `at`; `None`: it could take nothing. What else was freed meanwhile
    /// is not counted. Returns how much went.
    pub(super) fn went_by_amount(
        &mut self,
        at: Duration,
        nr_asked: u64,
        nr_freed: Option<u64>,
    ) -> u64 {
        let (by_amount, nr_gone) = (&mut self.by_amount, nr_freed.unwrap_or(0).min(nr_asked));
        if nr_freed.is_none() {
            by_amount.fares.rests(at);
        }
        by_amount.last = Some(at);
        by_amount.nr_going = by_amount.nr_going.saturating_sub(nr_asked);
        by_amount.nr_new += nr_gone;
        self.nr_gone_since_look += nr_gone;
        self.nr_dropped += nr_gone;
        nr_gone
    }

    /// Whether the kernel's count of what was read again is to be looked at.
    pub(super) fn has_by_amount(&self) -> bool {
        self.by_amount.last.is_some() || !self.by_amount.away.is_empty()
    }

    /// A census that began at `at` follows, and the kernel has counted so many pages that were read again.
    pub(super) fn look_by_amount(&mut self, at: Duration, nr_refaults: u64) {
        self.nr_returned += self.by_amount.look(at, nr_refaults);
    }

    /// Of so many of the pages that are idle, those of files that are in memory only.
    pub(super) fn part_in_memory_only(&self, idle: Idle, nr_pages: u64) -> u64 {
        let of = |ages: &CacheAges| {
            let (mut all, mut in_memory_only) = (0, 0);
            for of in ages
                .ages
                .iter()
                .filter(|of| idle.has(of.age_ms, of.is_once))
            {
                all += of.nr_pages;
                in_memory_only += of.nr_pages * u64::from(of.class == CacheClass::MemoryOnly);
            }
            nr_pages * in_memory_only / all.max(1)
        };
        self.ages.as_ref().map_or(0, of)
    }

    fn gone(&self) -> u64 {
        self.nr_gone.iter().sum()
    }

    /// All that is known of it, by class; of this age it is idle. `None`: no census has told yet.
    pub(super) fn seen(&self, idle_at: Duration) -> Option<[CacheSeen; NR_CACHE_CLASSES]> {
        let ages = self.ages.as_ref()?;
        // Where the kernel could not be asked there is nothing that went.
        let goes_by_amount = self.has_by_amount();
        let of = |class| {
            let (number, idle_ms) = (class as usize, idle_at.as_millis() as u64);
            let (nr_new, nr_away) = match class {
                CacheClass::File => (self.by_amount.nr_new, self.by_amount.nr_away()),
                _ => (0, 0),
            };
            let nr_gone = self.nr_gone[number] + nr_new;
            let idle = |idle_ms| match goes_by_amount {
                true => ages.nr_older_of(class, idle_ms) + ages.nr_unreachable_of(class, idle_ms),
                false => ages.nr_older_of(class, idle_ms),
            };
            let nr_unreachable = match goes_by_amount {
                true => 0,
                false => ages.nr_unreachable_of(class, 0),
            };
            CacheSeen {
                cached_bytes: ages.nr_cached_pages[number].saturating_sub(nr_gone) * PAGE_BYTES,
                used_bytes: (idle(0) - idle(idle_ms)) * PAGE_BYTES,
                idle_bytes: idle(idle_ms).saturating_sub(nr_gone) * PAGE_BYTES,
                away_bytes: (ages.nr_away_pages[number] + self.nr_gone[number] + nr_away)
                    * PAGE_BYTES,
                unreachable_bytes: nr_unreachable * PAGE_BYTES,
            }
        };
        Some(
            [
                CacheClass::File,
                CacheClass::SmallFile,
                CacheClass::MemoryOnly,
            ]
            .map(of),
        )
    }

    /// Dropped, and not come back.
    pub(super) fn away(&self) -> u64 {
        let known = self.ages.iter().flat_map(|ages| ages.nr_away_pages);
        known.sum::<u64>() + self.gone() + self.by_amount.nr_away()
    }

    /// Memory that it takes to know all this.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.ages.as_ref().map_or(0, |ages| ages.kept_bytes)
    }

    /// Of the promise's room this is used up since the last look.
    pub(super) fn spent(&self) -> u64 {
        self.nr_going + self.by_amount.nr_going + self.nr_gone_since_look
    }

    /// The promise is looked at: what came back since it was last, and what was read again, by age.
    pub(super) fn look(&mut self) -> (u64, ReadAgain) {
        self.nr_gone_since_look = 0;
        let read_again = std::mem::take(&mut self.read_again);
        (std::mem::take(&mut self.nr_returned), read_again)
    }

    /// So much was asked for.
    pub(super) fn asked(&mut self, nr_pages: u64) {
        self.nr_going += nr_pages;
    }

    /// Of what was asked for this went, by class; returns how much that is.
    pub(super) fn went(&mut self, nr_asked: u64, gone: [u64; NR_CACHE_CLASSES]) -> u64 {
        let nr_gone = gone.iter().sum();
        self.nr_going = self.nr_going.saturating_sub(nr_asked);
        for (sum, nr_gone) in self.nr_gone.iter_mut().zip(gone) {
            *sum += nr_gone;
        }
        self.nr_stuck += nr_asked.saturating_sub(nr_gone);
        self.nr_gone_since_look += nr_gone;
        self.nr_dropped += nr_gone;
        nr_gone
    }

    /// Whether some of it is on its way out.
    pub(super) fn is_going(&self) -> bool {
        self.nr_going > 0
    }

    /// What it has to give promise or not, no more than this; `None`: no census has told yet.
    pub(super) fn to_give(&self, nr_pages_max: u64, with_once: bool) -> Option<CacheOf<'_>> {
        Some(CacheOf {
            ages: self.ages.as_ref()?,
            with_once,
            nr_spent_pages: self.gone() + self.nr_stuck + self.nr_going,
            nr_pages_max,
        })
    }

    /// What a census found.
    pub(super) fn found(&mut self, found: GroupCache) {
        self.nr_returned += found.nr_returned_pages;
        for (age_ms, nr_pages) in &found.ages.read_again {
            *self.read_again.0.entry(*age_ms).or_default() += nr_pages;
        }
        (self.nr_gone, self.nr_stuck) = ([0; NR_CACHE_CLASSES], 0);
        self.ages = Some(found.ages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_control::page_cache::CacheAge;

    fn census(nr_old: u64, nr_away: u64, nr_returned: u64) -> GroupCache {
        GroupCache {
            group: 1,
            ages: CacheAges {
                nr_cached_pages: [1000, 0, 0],
                ages: vec![
                    CacheAge {
                        class: CacheClass::MemoryOnly,
                        age_ms: 60_000,
                        nr_pages: nr_old,
                        is_once: false,
                    },
                    CacheAge {
                        age_ms: 10_000,
                        nr_pages: 100,
                        ..CacheAge::default()
                    },
                ],
                nr_away_pages: [nr_away, 0, 0],
                read_again: BTreeMap::from([(20_000, nr_returned)]),
                kept_bytes: 4096,
                ..CacheAges::default()
            },
            nr_returned_pages: nr_returned,
            ..GroupCache::default()
        }
    }

    #[test]
    fn what_went_is_away_at_once_and_the_next_census_tells_what_came_back() {
        let mut cache = OfGroup::default();
        assert_eq!((cache.cached(), cache.away()), (None, 0));
        cache.found(census(500, 0, 0));
        let minute = Duration::from_secs(60);
        assert_eq!(
            (cache.cached(), cache.older_than(minute)),
            (Some(1000), Some(500))
        );
        let part = |older_than| {
            let with_once = false;
            let idle = Idle {
                older_than,
                with_once,
            };
            cache.part_in_memory_only(idle, 300)
        };
        assert_eq!((part(minute), part(Duration::ZERO)), (300, 250));
        cache.asked(300);
        assert_eq!(cache.spent(), 300, "no room is given twice");
        cache.went(300, [150, 0, 50]);
        assert_eq!(
            (cache.spent(), cache.away(), cache.nr_dropped),
            (200, 200, 200)
        );
        assert_eq!(
            (cache.cached(), cache.older_than(minute)),
            (Some(800), Some(200))
        );
        assert_eq!(cache.look().0, 0);
        assert_eq!(cache.spent(), 0);
        cache.found(census(300, 150, 50));
        let ((nr_returned, read_again), away) = (cache.look(), cache.away());
        assert_eq!((away, nr_returned, cache.look().0), (150, 50, 0));
        let after = |seconds| read_again.after(Duration::from_secs(seconds));
        assert_eq!((after(20), after(21)), (50, 0));
        assert_eq!(cache.look().1.after(Duration::ZERO), 0, "told once");
    }

    #[test]
    fn what_went_by_amount_comes_back_as_the_kernel_counts_and_is_forgotten_after_an_hour() {
        let (at, minute) = (Duration::from_secs, Duration::from_secs(60));
        let beyond_reach = || {
            let mut census = census(0, 0, 0);
            census.ages.unreachable = vec![CacheAge {
                age_ms: 60_000,
                nr_pages: 500,
                ..CacheAge::default()
            }];
            census
        };
        let mut cache = OfGroup::default();
        cache.found(beyond_reach());
        assert_eq!(cache.older_than(minute), Some(0), "no hand reaches it");
        assert_eq!(cache.to_ask_for(at(9), minute), 500);
        let unreachable = |cache: &OfGroup| cache.seen(minute).map(|of| of[0].unreachable_bytes);
        assert_eq!(unreachable(&cache), Some(500 * PAGE_BYTES));
        // The kernel counted some pages before.
        cache.asked_by_amount(at(10), 200, 1000);
        assert_eq!((cache.to_ask_for(at(11), minute), cache.spent()), (0, 200));
        assert!(!cache.is_going(), "other hands go on");
        cache.went_by_amount(at(12), 200, Some(150));
        assert_eq!(
            (cache.spent(), cache.away(), cache.nr_dropped),
            (150, 150, 150)
        );
        assert_eq!(
            (cache.older_than(minute), cache.idle_for(minute)),
            (Some(0), 350)
        );
        cache.look_by_amount(at(11), 1000);
        cache.found(beyond_reach());
        assert_eq!(
            cache.to_ask_for(at(13), minute),
            0,
            "a census that began before"
        );
        cache.look_by_amount(at(13), 1014);
        cache.found(beyond_reach());
        assert_eq!((cache.away(), cache.look().0), (136, 14));
        assert_eq!(cache.to_ask_for(at(14), minute), 500);
        let seen = cache
            .seen(minute)
            .map(|of| (of[0].idle_bytes, of[0].away_bytes));
        assert_eq!(seen, Some((500 * PAGE_BYTES, 136 * PAGE_BYTES)));
        assert_eq!(unreachable(&cache), Some(0), "it goes by amount");
        cache.look_by_amount(at(40), 1028);
        let to_ask_for = |cache: &OfGroup, second| cache.to_ask_for(at(second), minute);
        assert_eq!(to_ask_for(&cache, 41), 0, "more than a tenth came back");
        cache.look_by_amount(at(50), 1060);
        assert_eq!([99, 100].map(|second| to_ask_for(&cache, second)), [0, 500]);
        cache.asked_by_amount(at(100), 200, 1060);
        cache.went_by_amount(at(101), 200, Some(9000));
        assert_eq!(cache.spent(), 200, "no more than was asked for");
        cache.look_by_amount(at(102), 1060);
        cache.look_by_amount(at(4000), 1060);
        assert_eq!(
            (cache.away(), unreachable(&cache)),
            (0, Some(500 * PAGE_BYTES))
        );
    }
}
