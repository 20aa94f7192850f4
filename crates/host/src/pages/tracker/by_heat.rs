//! Choosing pages by heat: the coldest to go, the warmest to be kept.
//!
//! Spaces are compared by the coldest pages that each uses (`strata_lru::HeatScale`): a program that others have
//! slowed down would else be slowed down further.
//!
//! **Owns** the ranking between two walks. **Does not own** heat (`strata_lru::Heat`), nor how many pages
//! are wanted.

use super::{Space, SpaceNo, Tracker};
use crate::actuator::{ColdPages, PageoutRequest, WarmPages};
use crate::addr::{AddrRange, PAGE_BYTES};
use std::collections::BTreeMap;
use std::sync::Arc;
use strata_control::Foretold;
use strata_lru::{Cheapest, FolioId, Heat, HeatScale, HeatSpread, Swappiness, TimeMs};

/// Spaces are compared by their coldest pages among those they use: this share of them is hotter, percent. The hottest
/// ones are in use at every walk, however slow their program is.
const COMPARED_PERCENT: u32 = 80;
/// Of the active pages so many must be those of spaces of which it is known which are cold, percent, before any
/// is named.
const TOLD_PERCENT_MIN: u64 = 90;

impl Tracker {
    /// Finds the pages whose eviction costs least, to be taken by [`Tracker::isolate_cold`] until the
    /// next walk. Pages that would not go are left out for some walks.
    pub(crate) fn rank(&mut self, nr_pages: u64, swappiness: Swappiness) {
        let mut cheapest = Cheapest::new(nr_pages);
        let policy = self.policy.as_ref();
        let nr_pages_of = |folio| policy.order(folio).nr_pages();
        let scales = self.scales();
        let cost =
            |folio, heat: Heat, scale| heat.scaled(scale).cost(policy.kind(folio), swappiness);
        for (space, scale) in self.spaces.values().zip(&scales) {
            space.for_each_heat(|folio, heat| {
                cheapest.count(cost(folio, heat, *scale), nr_pages_of(folio));
            });
        }
        for (space, scale) in self.spaces.values().zip(&scales) {
            space.for_each_heat(|folio, heat| cheapest.offer(folio, cost(folio, heat, *scale)));
        }
        self.cold = cheapest.into_folios().into();
    }

    /// Folios ranked and not taken yet.
    pub(crate) fn nr_ranked(&self) -> usize {
        self.cold.len()
    }

    /// Takes the coldest of those that were ranked, if any are left; one request a space. What a batch
    /// before this one showed to be in use again is passed over: the look before each batch reads whole
    /// tables, and a third of what was cold at a walk is not any more a quarter of a second later.
    pub(crate) fn isolate_cold(
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
    pub(crate) fn take_warm(&mut self, percent: u32) -> Vec<WarmPages> {
        let scales = self.scales();
        let mut spread = HeatSpread::new();
        for (space, scale) in self.spaces.values().zip(&scales) {
            space.for_each_base_heat(|heat| spread.count(heat.scaled(*scale), 1));
        }
        let lukewarm = spread.exceeded_by(percent);
        let mut warm = Vec::new();
        for (space, scale) in self.spaces.values_mut().zip(scales) {
            let pages = space.take_warm(lukewarm, scale);
            if !pages.is_empty() {
                warm.push((Arc::clone(&space.process), pages));
            }
        }
        warm
    }

    /// The coldest of the base pages that the kernel had on its active lists at the last walk, so many at most; by
    /// process and address. None where it is not known of nearly all of them.
    pub(crate) fn coldest_active(&self, nr_pages: u64, swappiness: Swappiness) -> Vec<ColdPages> {
        if !self.is_known_which_are_cold() {
            return Vec::new();
        }
        let mut cheapest = Cheapest::new(nr_pages);
        let policy = self.policy.as_ref();
        let scales = self.scales();
        let told = || {
            let spaces = self.spaces.values().zip(&scales);
            spaces.filter(|(space, _)| space.is_told_apart())
        };
        let cost =
            |folio, heat: Heat, scale| heat.scaled(scale).cost(policy.kind(folio), swappiness);
        for (space, scale) in told() {
            space.for_each_active_heat(|folio, heat| cheapest.count(cost(folio, heat, *scale), 1));
        }
        for (space, scale) in told() {
            space.for_each_active_heat(|folio, heat| {
                cheapest.offer(folio, cost(folio, heat, *scale));
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
    pub(crate) fn forget_warm(&mut self) {
        self.spaces.values_mut().for_each(Space::forget_warm);
    }

    /// Whether it is known of nearly all active pages which are cold. Otherwise some spaces would keep all of theirs,
    /// and the others pay for them.
    fn is_known_which_are_cold(&self) -> bool {
        let (mut nr_told_pages, mut nr_pages) = (0, 0);
        for space in self.spaces.values() {
            let nr_active_pages = space.nr_active_pages();
            nr_pages += nr_active_pages;
            if space.is_told_apart() {
                nr_told_pages += nr_active_pages;
            }
        }
        nr_told_pages * 100 >= nr_pages * TOLD_PERCENT_MIN
    }

    /// What makes the heat of each space comparable with that of others, in their order.
    ///
    /// What a space uses counts, in memory or not. While only what was in memory did, a space of which little was
    /// left kept little: of two Zipf loads that filled both processors one had all it used and 3,500 thousand
    /// operations a second, the other 440.
    fn scales(&self) -> Vec<HeatScale> {
        if self.spaces.len() < 2 {
            return vec![HeatScale::ONE; self.spaces.len()];
        }
        let (mut all, mut own) = (HeatSpread::new(), HeatSpread::new());
        let mut levels = Vec::with_capacity(self.spaces.len());
        for space in self.spaces.values() {
            own.clear();
            space.for_each_used_heat(|heat, nr_pages| {
                own.count(heat, nr_pages);
                all.count(heat, nr_pages);
            });
            levels.push(own.exceeded_by(COMPARED_PERCENT));
        }
        let all = all.exceeded_by(COMPARED_PERCENT);
        let scale = |own| HeatScale::of(own, all);
        levels.into_iter().map(scale).collect()
    }

    /// How well the pages were chosen that the walk before the last one took for warm.
    pub(crate) fn foretold(&self) -> Foretold {
        let mut sum = Foretold::default();
        self.spaces.values().for_each(|space| sum += space.foretold);
        sum
    }
}
