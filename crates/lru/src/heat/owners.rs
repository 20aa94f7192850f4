//! Whose folios these are: the spaces of a group, what walks of each were like, and what they foretold.
//!
//! ```text
//!   begin_walk --> WalkStep: how the heat of what is away cools --> end_walk --+
//!   left_out (it has not run) -------------------------------------------------+--> take_due: for all its folios
//! ```
//!
//! **Owns** the numbers of spaces, and what is due for their folios. **Does not own** the folios (`folios`).
//!
//! **Invariants**
//! - I1: a number is given anew when its space has ended and none of its folios is left.
//! - I2: a walk counts once it has ended; one that failed half-way counts not at all.

use std::collections::BTreeMap;

use super::{Foretold, HEAT_TURNED_OVER_SHARE, Heat, HeatScale, folios::Marks};
use crate::ids::{GroupId, SpaceNo};

/// Number of a space of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnerNo(u16);

impl OwnerNo {
    /// Nobody.
    pub(super) const NONE: OwnerNo = OwnerNo(u16::MAX);
    /// All spaces that can't be told apart any more share it.
    const LAST: u16 = u16::MAX - 1;

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What one walk of a space makes of the heat of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalkStep {
    /// Walks before it that left the space out.
    nr_idle_walks: u32,
    /// Whether the walk counts half.
    is_short: bool,
}

impl WalkStep {
    /// Of a walk that counts whole, after one that did not leave the space out.
    pub(super) const WHOLE: WalkStep = WalkStep {
        nr_idle_walks: 0,
        is_short: false,
    };

    /// The heat after the walk.
    pub(super) fn next(self, heat: Heat, is_accessed: bool) -> Heat {
        let heat = heat.after_idle_walks(self.nr_idle_walks);
        match self.is_short {
            true => heat.after_short_walk(is_accessed),
            false => heat.after_walk(is_accessed),
        }
    }

    /// Cools pages that are not in memory. Whether any has heat left.
    pub fn cool(self, heats: &mut [Heat]) -> bool {
        self.apply(heats, std::iter::repeat(false));
        heats.iter().any(|heat| *heat > Heat::NONE)
    }

    /// Cools folios in memory, and counts what was seen as accessed.
    pub(super) fn take_in(self, heats: &mut [Heat], marks: &[Marks]) {
        self.apply(heats, marks.iter().map(|of| of.has(Marks::SEEN)));
    }

    /// What is the same for all is decided outside the loop: it goes over all memory at every walk.
    fn apply(self, heats: &mut [Heat], are_accessed: impl Iterator<Item = bool>) {
        if self.nr_idle_walks > 0 {
            let awake = heats.iter_mut();
            awake.for_each(|heat| *heat = heat.after_idle_walks(self.nr_idle_walks));
        }
        let pages = heats.iter_mut().zip(are_accessed);
        match self.is_short {
            true => pages.for_each(|(heat, is)| *heat = heat.after_short_walk(is)),
            false => pages.for_each(|(heat, is)| *heat = heat.after_walk(is)),
        }
    }
}

/// What is due for the folios of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A walk came by.
    Walked(WalkStep),
    /// A walk left the space out.
    LeftOut,
}

/// What is known of a space.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) group: GroupId,
    pub(super) space: SpaceNo,
    nr_folios: u32,
    has_ended: bool,
    /// Walks of the group since the last one of this space.
    pub(super) nr_idle_walks: u32,
    /// Whether the next walk counts half.
    is_next_short: bool,
    /// The walk that has begun and not ended.
    walk: Option<WalkStep>,
    due: Option<Due>,
    /// What the walk before the last one foretold of what that found.
    pub(super) foretold: Foretold,
    /// What was foretold of the last walk that found anything used, if nothing was forgotten since.
    pub(super) last_foretold: Option<Foretold>,
}

impl Owner {
    fn new(group: GroupId, space: SpaceNo) -> Owner {
        Owner {
            group,
            space,
            nr_folios: 0,
            has_ended: false,
            nr_idle_walks: 0,
            is_next_short: false,
            walk: None,
            due: None,
            foretold: Foretold::default(),
            last_foretold: None,
        }
    }

    /// A heat as it is now: walks that left the space out cool its pages at the next one only.
    pub(super) fn now(&self, heat: Heat) -> Heat {
        heat.after_idle_walks(self.nr_idle_walks)
    }

    /// Whether the program has not ended.
    pub(super) fn is_there(&self) -> bool {
        !self.has_ended
    }

    /// Whether heat tells which of its pages are cold. Who has used nothing has none that are wanted.
    pub(super) fn is_told_apart(&self) -> bool {
        !self.foretold.has_uses() || self.last_foretold.is_some_and(|of| of.tells_apart())
    }
}

/// How the heat of an owner's folios compares with that of others now.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    nr_idle_walks: u32,
    scale: HeatScale,
    /// Whether heat is as it is kept.
    is_plain: bool,
}

impl View {
    #[inline]
    pub(super) fn heat(&self, kept: Heat) -> Heat {
        match self.is_plain {
            true => kept,
            false => kept.after_idle_walks(self.nr_idle_walks).scaled(self.scale),
        }
    }

    /// The least heat, as it is kept, that exceeds this one; `None` if none does.
    pub(super) fn least_above(&self, limit: Heat) -> Option<Heat> {
        let (mut least, mut above) = (0, u32::from(u16::MAX) + 1);
        while least < above {
            let middle = (least + above) / 2;
            match self.heat(Heat(middle as u16)) > limit {
                true => above = middle,
                false => least = middle + 1,
            }
        }
        u16::try_from(least).ok().map(Heat)
    }
}

/// All spaces that have, or had, folios.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    all: Vec<Owner>,
    numbers: BTreeMap<(GroupId, SpaceNo), OwnerNo>,
    free: Vec<OwnerNo>,
    /// The one asked for last.
    last: Option<((GroupId, SpaceNo), OwnerNo)>,
    is_any_due: bool,
}

impl Owners {
    /// The number of a space, which is new if it was never asked for.
    pub(super) fn number(&mut self, group: GroupId, space: SpaceNo) -> OwnerNo {
        let key = (group, space);
        if let Some((_, number)) = self.last.filter(|(last, _)| *last == key) {
            return number;
        }
        let number = match self.numbers.get(&key) {
            Some(number) => *number,
            None => self.give(key),
        };
        self.last = Some((key, number));
        number
    }

    fn give(&mut self, key: (GroupId, SpaceNo)) -> OwnerNo {
        let owner = Owner::new(key.0, key.1);
        let number = match self.free.pop() {
            Some(number) => {
                self.all[number.index()] = owner;
                number
            }
            None => {
                let next = u16::try_from(self.all.len()).unwrap_or(OwnerNo::LAST);
                let number = OwnerNo(next.min(OwnerNo::LAST));
                if self.all.len() <= number.index() {
                    self.all.push(owner);
                }
                number
            }
        };
        self.numbers.insert(key, number);
        number
    }

    pub(super) fn get(&self, number: OwnerNo) -> &Owner {
        &self.all[number.index()]
    }

    /// A space, if anything was ever said of it.
    pub(super) fn find(&self, group: GroupId, space: SpaceNo) -> Option<&Owner> {
        let number = self.numbers.get(&(group, space))?;
        Some(self.get(*number))
    }

    /// By number.
    pub(super) fn all(&self) -> &[Owner] {
        &self.all
    }

    /// How the owners of a group compare; `None` of others, and of those that have ended.
    pub(super) fn views(&self, group: GroupId, scales: &[HeatScale]) -> Vec<Option<View>> {
        let scaled = self.all.iter().zip(scales);
        let view = |(of, scale): (&Owner, &HeatScale)| {
            (of.group == group && of.is_there()).then(|| View {
                nr_idle_walks: of.nr_idle_walks,
                scale: *scale,
                is_plain: of.nr_idle_walks == 0 && *scale == HeatScale::ONE,
            })
        };
        scaled.map(view).collect()
    }

    pub(super) fn of_group_mut(&mut self, group: GroupId) -> impl Iterator<Item = &mut Owner> {
        self.all.iter_mut().filter(move |of| of.group == group)
    }

    /// A folio of a space came.
    pub(super) fn came(&mut self, number: OwnerNo) {
        self.all[number.index()].nr_folios += 1;
    }

    /// A folio of a space left.
    pub(super) fn left(&mut self, number: OwnerNo) {
        self.all[number.index()].nr_folios -= 1;
        self.free_if_empty(number);
    }

    /// A space has ended.
    pub(super) fn ended(&mut self, group: GroupId, space: SpaceNo) {
        self.last = None;
        if let Some(number) = self.numbers.remove(&(group, space))
            && number.0 < OwnerNo::LAST
        {
            self.all[number.index()].has_ended = true;
            self.free_if_empty(number);
        }
    }

    fn free_if_empty(&mut self, number: OwnerNo) {
        let owner = &mut self.all[number.index()];
        if owner.has_ended && owner.nr_folios == 0 {
            // What was due for its folios is due for nobody.
            *owner = Owner {
                has_ended: true,
                ..Owner::new(owner.group, owner.space)
            };
            self.free.push(number);
        }
    }

    /// Whether something is due for a space.
    pub(super) fn is_due(&self, number: OwnerNo) -> bool {
        self.get(number).due.is_some() && number.0 < OwnerNo::LAST
    }

    /// A walk of a space begins.
    pub(super) fn begin_walk(&mut self, number: OwnerNo) -> WalkStep {
        let owner = &mut self.all[number.index()];
        let step = WalkStep {
            nr_idle_walks: owner.nr_idle_walks,
            is_short: owner.is_next_short,
        };
        owner.walk = Some(step);
        owner.foretold = Foretold::default();
        step
    }

    /// The walk of a space has ended; of `nr_resident_pages` so many were new.
    pub(super) fn end_walk(&mut self, number: OwnerNo, nr_new_pages: u64, nr_resident_pages: u64) {
        let owner = &mut self.all[number.index()];
        if let Some(step) = owner.walk.take() {
            owner.due = Some(Due::Walked(step));
            owner.nr_idle_walks = 0;
            // What happens until a walk ends is not known before it does, so this one tells of the next.
            owner.is_next_short = nr_new_pages * HEAT_TURNED_OVER_SHARE < nr_resident_pages;
            self.is_any_due = true;
        }
    }

    /// A walk of the group has left a space out.
    pub(super) fn left_out(&mut self, number: OwnerNo) {
        let owner = &mut self.all[number.index()];
        owner.foretold = Foretold::default();
        owner.nr_idle_walks = owner.nr_idle_walks.saturating_add(1);
        owner.due = Some(Due::LeftOut);
        self.is_any_due = true;
    }

    /// A walk that counts whole came by all spaces of a group.
    pub(super) fn walked_all(&mut self, group: GroupId) {
        for owner in self.of_group_mut(group) {
            owner.due = Some(Due::Walked(WalkStep::WHOLE));
        }
        self.is_any_due = true;
    }

    /// What is due for the folios of each, by number; `None` if nothing is for anybody.
    pub(super) fn take_due(&mut self) -> Option<Vec<Option<Due>>> {
        let is_any_due = std::mem::take(&mut self.is_any_due);
        is_any_due.then(|| self.all.iter_mut().map(|of| of.due.take()).collect())
    }

    /// What is due for the folios of one.
    pub(super) fn due(&self, number: OwnerNo) -> Option<Due> {
        self.get(number).due
    }

    /// What the walk of a space found of what was foretold.
    pub(super) fn foretold(&mut self, number: usize, foretold: Foretold) {
        self.all[number].foretold = foretold;
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        let numbers = self.numbers.len() * size_of::<((GroupId, SpaceNo), OwnerNo)>();
        let all = self.all.capacity() * size_of::<Owner>();
        (all + numbers + self.free.capacity() * size_of::<OwnerNo>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_exceeds_a_limit_is_told_by_the_heat_that_is_kept(
            kept in any::<u16>(), limit in any::<u16>(), own in any::<u16>(), all in any::<u16>(), nr_idle_walks in 0u32..100,
        ) {
            let scale = HeatScale::of(Heat(own), Heat(all));
            let view = View { nr_idle_walks, scale, is_plain: false };
            let exceeds = view.heat(Heat(kept)) > Heat(limit);
            let least = view.least_above(Heat(limit));
            prop_assert_eq!(least.is_some_and(|least| Heat(kept) >= least), exceeds);
        }
    }
}
