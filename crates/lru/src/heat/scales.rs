//! How the spaces of a group compare: by what each uses, in memory or not.
//!
//! Spaces are compared by the coldest pages that each uses: the hottest are in use at every walk, however
//! slow their program is. What a space uses counts whether or not it is in memory: a space of which little
//! is left would keep little otherwise.
//!
//! **Owns** the count of what is away, and the scales. **Does not own** the heat of what is in memory.
//!
//! **Invariants** I1: what is counted as away has some heat, or was accessed since the last walk.

use std::collections::BTreeMap;

use super::{Heat, HeatScale, HeatSpread, PastHeat};
use crate::ids::SpaceNo;

/// This share of what a space uses is hotter than the level it is compared by, percent.
const COMPARED_PERCENT: u32 = 80;

/// A heat, and whether the page was accessed since the last walk.
type Remaining = (Heat, bool);

/// The used pages of a group that are not in memory; base pages by space and heat.
///
/// A page that is freed while it is away stays counted until it is cold: nobody says whose it was.
#[derive(Clone, Debug, Default)]
pub(super) struct Away {
    spaces: BTreeMap<SpaceNo, BTreeMap<Remaining, u64>>,
}

impl Away {
    /// A page left.
    pub(super) fn left(&mut self, space: SpaceNo, past: PastHeat, nr_pages: u64) {
        let remaining = (past.heat, past.is_seen);
        if remaining != (Heat::NONE, false) {
            let of_space = self.spaces.entry(space).or_default();
            *of_space.entry(remaining).or_default() += nr_pages;
        }
    }

    /// A page came back with what was left of its heat.
    pub(super) fn came_back(&mut self, space: SpaceNo, remaining: Remaining, nr_pages: u64) {
        let Some(of_space) = self.spaces.get_mut(&space) else {
            return;
        };
        // It may have left another group, or been counted no longer.
        if let Some(nr_left) = of_space.get_mut(&remaining) {
            *nr_left = nr_left.saturating_sub(nr_pages);
            if *nr_left == 0 {
                of_space.remove(&remaining);
            }
        }
    }

    /// A walk has been by, and found none of them.
    pub(super) fn cool(&mut self) {
        self.spaces.retain(|_, of_space| {
            let mut cooler = BTreeMap::new();
            for ((heat, is_seen), nr_pages) in std::mem::take(of_space) {
                let heat = heat.after_walk(is_seen);
                if heat > Heat::NONE {
                    *cooler.entry((heat, false)).or_default() += nr_pages;
                }
            }
            *of_space = cooler;
            !of_space.is_empty()
        });
    }

    /// Visits all of them: space, heat and base pages.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SpaceNo, Heat, u64)> {
        let of_spaces = self.spaces.iter();
        of_spaces.flat_map(|(space, of_space)| {
            let pages = of_space.iter();
            pages.map(|((heat, _), nr_pages)| (*space, *heat, *nr_pages))
        })
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let entries: usize = self.spaces.values().map(BTreeMap::len).sum();
        (entries * size_of::<(Remaining, u64)>()) as u64
    }
}

/// What makes the heat of each space comparable with that of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Scales {
    by_space: BTreeMap<SpaceNo, HeatScale>,
}

impl Scales {
    /// Of all pages, with their heat and base pages. A space whose pages are all cold is taken as it is.
    pub(super) fn of(pages: impl Iterator<Item = (SpaceNo, Heat, u64)>) -> Scales {
        let mut spreads: BTreeMap<SpaceNo, HeatSpread> = BTreeMap::new();
        let mut all = HeatSpread::new();
        for (space, heat, nr_pages) in pages.filter(|(_, heat, _)| *heat > Heat::NONE) {
            spreads.entry(space).or_default().count(heat, nr_pages);
            all.count(heat, nr_pages);
        }
        if spreads.len() < 2 {
            return Scales::default();
        }
        let all = all.exceeded_by(COMPARED_PERCENT);
        let scale = |own: HeatSpread| HeatScale::of(own.exceeded_by(COMPARED_PERCENT), all);
        Scales {
            by_space: spreads
                .into_iter()
                .map(|(space, own)| (space, scale(own)))
                .collect(),
        }
    }

    pub(super) fn get(&self, space: SpaceNo) -> HeatScale {
        let scale = self.by_space.get(&space);
        scale.copied().unwrap_or(HeatScale::ONE)
    }
}
