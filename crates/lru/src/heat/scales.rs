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

use super::{
    Heat, HeatScale, HeatSpread, PastHeat,
    owners::{OwnerNo, Owners},
};
use crate::ids::{GroupId, SpaceNo};

/// Share of what a space uses that is hotter than the level it is compared by, percent.
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

    /// Visits those of a space: heat and base pages.
    pub(super) fn of_space(&self, space: SpaceNo) -> impl Iterator<Item = (Heat, u64)> {
        let pages = self.spaces.get(&space).into_iter().flatten();
        pages.map(|((heat, _), nr_pages)| (*heat, *nr_pages))
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let entries: usize = self.spaces.values().map(BTreeMap::len).sum();
        (entries * size_of::<(Remaining, u64)>()) as u64
    }
}

/// Spaces that are measured in one round over all folios: a measure takes 32 KiB.
const NR_MEASURED: usize = 64;

/// What makes the heat of each space of a group comparable with that of others, by number of the owner. `present`
/// visits what is in memory, `away` what of a space is not: heat, and base pages.
///
/// A space whose pages are all cold is taken as it is.
pub(super) fn scales(
    owners: &Owners,
    group: GroupId,
    present: impl Fn(&mut dyn FnMut(OwnerNo, Heat, u64)),
    away: impl Fn(SpaceNo, &mut dyn FnMut(Heat, u64)),
) -> Vec<HeatScale> {
    let mut scales = vec![HeatScale::ONE; owners.all().len()];
    let numbered = owners.all().iter().enumerate();
    let of_group = numbered.filter(|(_, of)| of.group == group && of.is_there());
    let spaces: Vec<(usize, SpaceNo)> = of_group.map(|(number, of)| (number, of.space)).collect();
    if spaces.len() < 2 {
        return scales;
    }
    let mut all = HeatSpread::new();
    let mut levels = Vec::with_capacity(spaces.len());
    let mut own = vec![HeatSpread::new(); spaces.len().min(NR_MEASURED)];
    let mut place = vec![None; owners.all().len()];
    for measured in spaces.chunks(NR_MEASURED) {
        own.iter_mut().for_each(HeatSpread::clear);
        place.fill(None);
        for ((number, _), at) in measured.iter().zip(0..) {
            place[*number] = Some(at);
        }
        let mut count = |at: usize, heat: Heat, nr_pages| {
            if heat > Heat::NONE {
                own[at].count(heat, nr_pages);
                all.count(heat, nr_pages);
            }
        };
        present(&mut |owner, heat, nr_pages| {
            if let Some(at) = place[owner.index()] {
                count(at, heat, nr_pages);
            }
        });
        for ((_, space), at) in measured.iter().zip(0..) {
            away(*space, &mut |heat, nr_pages| count(at, heat, nr_pages));
        }
        let measured = own.iter().take(measured.len());
        levels.extend(measured.map(|own| own.exceeded_by(COMPARED_PERCENT)));
    }
    let all = all.exceeded_by(COMPARED_PERCENT);
    for ((number, _), own) in spaces.into_iter().zip(levels) {
        scales[number] = HeatScale::of(own, all);
    }
    scales
}
