//! Choosing pages by heat: the coldest to go, the warmest to be kept.
//!
//! Spaces are compared by what is lukewarm in each (`strata_lru::HeatScale`): a program that others have
//! slowed down would else be slowed down further.
//!
//! **Owns** the ranking between two walks. **Does not own** heat (`strata_lru::Heat`), nor how many pages
//! are wanted.

use super::super::activation::Foretold;
use super::{Space, SpaceNo, Tracker};
use crate::actuator::{ColdPages, PageoutRequest, WarmPages};
use crate::addr::{AddrRange, PAGE_BYTES};
use std::collections::BTreeMap;
use std::sync::Arc;
use strata_lru::{Cheapest, FolioId, Heat, HeatScale, HeatSpread, Swappiness, TimeMs};

/// What counts as lukewarm where spaces are compared: this share of pages is hotter, percent.
const LUKEWARM_PERCENT: u32 = 60;

/// How hot lukewarm pages are.
struct Levels {
    /// In each space, in their order.
    own: Vec<Heat>,
    all: Heat,
}

impl Levels {
    fn scales(&self) -> impl Iterator<Item = HeatScale> {
        self.own.iter().map(|own| HeatScale::of(*own, self.all))
    }
}

impl Tracker {
    /// Finds the pages whose eviction costs least, to be taken by [`Tracker::isolate_cold`] until the
    /// next walk. Pages that would not go are left out for some walks.
    pub(in super::super) fn rank(&mut self, nr_pages: u64, swappiness: Swappiness) {
        let mut cheapest = Cheapest::new(nr_pages);
        let policy = self.policy.as_ref();
        let nr_pages_of = |folio| policy.order(folio).nr_pages();
        let levels = self.levels(LUKEWARM_PERCENT, |space, count| {
            space.for_each_heat(|folio, heat| count(heat, nr_pages_of(folio)));
        });
        let cost =
            |folio, heat: Heat, scale| heat.scaled(scale).cost(policy.kind(folio), swappiness);
        for (space, scale) in self.spaces.values().zip(levels.scales()) {
            space.for_each_heat(|folio, heat| {
                cheapest.count(cost(folio, heat, scale), nr_pages_of(folio));
            });
        }
        for (space, scale) in self.spaces.values().zip(levels.scales()) {
            space.for_each_heat(|folio, heat| cheapest.offer(folio, cost(folio, heat, scale)));
        }
        self.cold = cheapest.into_folios().into();
    }

    /// Folios ranked and not taken yet.
    pub(in super::super) fn nr_ranked(&self) -> usize {
        self.cold.len()
    }

    /// Takes the coldest of those that were ranked, if any are left; one request a space. What a batch
    /// before this one showed to be in use again is passed over: the look before each batch reads whole
    /// tables, and a third of what was cold at a walk is not any more a quarter of a second later.
    pub(in super::super) fn isolate_cold(
        &mut self,
        nr_pages: u64,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Vec<PageoutRequest> {
        debug_assert!(!self.is_batch_out());
        let (places, spaces) = (&self.places, &self.spaces);
        let is_unused = |folio: &FolioId| {
            let (number, addr) = places.get(*folio);
            spaces
                .get(&number)
                .is_some_and(|space| !space.is_seen(addr))
        };
        let cold = &mut self.cold;
        let ranked = std::iter::from_fn(|| cold.pop_front());
        let mut coldest = ranked.filter(is_unused);
        let batch = &mut self.out.batch;
        self.policy
            .isolate_chosen(&mut coldest, nr_pages, swappiness, now, batch);
        self.send_out()
    }

    /// Takes the warmest base pages for warm from now on, about so many percent of all, and returns those of
    /// them that the kernel may take next ([`Space::take_warm`]).
    pub(in super::super) fn take_warm(&mut self, percent: u32) -> Vec<WarmPages> {
        let levels = self.levels(percent, |space, count| {
            space.for_each_base_heat(|heat| count(heat, 1));
        });
        let mut warm = Vec::new();
        for (space, scale) in self.spaces.values_mut().zip(levels.scales()) {
            let pages = space.take_warm(levels.all, scale);
            if !pages.is_empty() {
                warm.push((Arc::clone(&space.process), pages));
            }
        }
        warm
    }

    /// The coldest of the base pages that the kernel had on its active lists at the last walk, so many at most; by
    /// process and address.
    pub(in super::super) fn coldest_active(
        &self,
        nr_pages: u64,
        swappiness: Swappiness,
    ) -> Vec<ColdPages> {
        let mut cheapest = Cheapest::new(nr_pages);
        let policy = self.policy.as_ref();
        let levels = self.levels(LUKEWARM_PERCENT, |space, count| {
            space.for_each_active_heat(|_, heat| count(heat, 1));
        });
        let cost =
            |folio, heat: Heat, scale| heat.scaled(scale).cost(policy.kind(folio), swappiness);
        for (space, scale) in self.spaces.values().zip(levels.scales()) {
            space.for_each_active_heat(|folio, heat| cheapest.count(cost(folio, heat, scale), 1));
        }
        for (space, scale) in self.spaces.values().zip(levels.scales()) {
            space.for_each_active_heat(|folio, heat| {
                cheapest.offer(folio, cost(folio, heat, scale));
            });
        }
        let mut places: Vec<_> = cheapest
            .into_folios()
            .into_iter()
            .take(usize::try_from(nr_pages).unwrap_or(usize::MAX))
            .map(|folio| self.places.get(folio))
            .collect();
        places.sort_unstable();
        let mut cold: BTreeMap<SpaceNo, Vec<AddrRange>> = BTreeMap::new();
        for (number, addr) in places {
            let page = AddrRange::new(addr, addr + PAGE_BYTES);
            page.append_to(cold.entry(number).or_default());
        }
        cold.into_iter()
            .filter_map(|(number, ranges)| {
                let space = self.spaces.get(&number)?;
                Some((Arc::clone(&space.process), ranges))
            })
            .collect()
    }

    /// Takes nothing for warm any more.
    pub(in super::super) fn forget_warm(&mut self) {
        self.spaces.values_mut().for_each(Space::forget_warm);
    }

    /// What so many percent of the pages exceed in each space and in all of them; `each` counts those of
    /// one space.
    fn levels(&self, percent: u32, each: impl Fn(&Space, &mut dyn FnMut(Heat, u64))) -> Levels {
        let (mut all, mut own) = (HeatSpread::new(), HeatSpread::new());
        let mut levels = Vec::with_capacity(self.spaces.len());
        for space in self.spaces.values() {
            own.clear();
            each(space, &mut |heat, nr_pages| {
                own.count(heat, nr_pages);
                all.count(heat, nr_pages);
            });
            levels.push(own.exceeded_by(percent));
        }
        Levels {
            own: levels,
            all: all.exceeded_by(percent),
        }
    }

    /// How well the pages were chosen that the walk before the last one took for warm.
    pub(in super::super) fn foretold(&self) -> Foretold {
        let mut sum = Foretold::default();
        self.spaces.values().for_each(|space| sum += space.foretold);
        sum
    }
}
