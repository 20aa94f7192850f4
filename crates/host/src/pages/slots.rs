//! One slot for each page of a 2 MiB table: the folio that is there, or the shadow and the heat of the one that
//! was, and which walk last found the page used.
//!
//! **Owns** the storage: a sorted list while few pages of the table are used, an array of 512 after
//! that, so that a dense table costs 6 bytes a page, 8 where pages are away that have some heat, and one lonely page
//! does not cost 2 KiB.
//! **Does not own** which slots are in use: the table's bitmaps say that, and what a slot means.
//!
//! **Invariants** I1: a slot reads back what was last written to it; a slot never written reads 0,
//! is cold and was never used.

use strata_control::prefetch::WalkNo;
use strata_linux::access::Bits512;
use strata_linux::addr::TABLE_ENTRIES;
use strata_linux::bits;
use strata_lru::{Heat, WalkStep};

/// Above this many used slots the array is smaller or quicker than the list.
const SPARSE_SLOTS_MAX: usize = 128;

/// A used slot of a sparse table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    index: u16,
    past: Heat,
    last_use: WalkNo,
    value: u32,
}

/// All slots of a dense table, indexed by entry.
#[derive(Debug)]
pub(crate) struct Array {
    values: [u32; TABLE_ENTRIES],
    last_uses: [WalkNo; TABLE_ENTRIES],
    /// Of pages that are away; `None` while nothing has any.
    pasts: Option<Box<[Heat; TABLE_ENTRIES]>>,
}

impl Array {
    /// No slot in use, and every page away and as hot as this.
    fn as_hot_as(heat: Heat) -> Array {
        Array {
            values: [0; TABLE_ENTRIES],
            last_uses: [WalkNo::NONE; TABLE_ENTRIES],
            pasts: (heat > Heat::NONE).then(|| Box::new([heat; TABLE_ENTRIES])),
        }
    }
}

impl Array {
    fn set_past(&mut self, index: usize, heat: Heat) {
        match &mut self.pasts {
            Some(pasts) => pasts[index] = heat,
            None if heat == Heat::NONE => {}
            None => {
                let mut pasts = Box::new([Heat::NONE; TABLE_ENTRIES]);
                pasts[index] = heat;
                self.pasts = Some(pasts);
            }
        }
    }
}

/// The slots of one table.
#[derive(Debug)]
pub(crate) enum Slots {
    /// Sorted by index.
    Sparse(Vec<Slot>),
    /// Of every entry.
    Dense(Box<Array>),
}

impl Slots {
    /// No slot in use.
    pub(crate) fn new() -> Slots {
        Slots::Sparse(Vec::new())
    }

    /// No slot in use, and every page away and as hot as this.
    pub(crate) fn as_hot_as(heat: Heat) -> Slots {
        Slots::Dense(Box::new(Array::as_hot_as(heat)))
    }

    /// The value at `index`, 0 if never set.
    pub(crate) fn get(&self, index: usize) -> u32 {
        match self {
            Slots::Dense(array) => array.values[index],
            Slots::Sparse(list) => find(list, index).map_or(0, |at| list[at].value),
        }
    }

    /// How hot the page at `index` is that is not in memory.
    pub(crate) fn past(&self, index: usize) -> Heat {
        match self {
            Slots::Dense(array) => array
                .pasts
                .as_ref()
                .map_or(Heat::NONE, |pasts| pasts[index]),
            Slots::Sparse(list) => find(list, index).map_or(Heat::NONE, |at| list[at].past),
        }
    }

    /// The page at `index`, which had a slot, left with this heat; or came back, and has none here.
    pub(crate) fn set_past(&mut self, index: usize, heat: Heat) {
        match self {
            Slots::Dense(array) => array.set_past(index, heat),
            Slots::Sparse(list) => {
                if let Some(at) = find(list, index) {
                    list[at].past = heat;
                }
            }
        }
    }

    /// A walk found none of the pages that are not in memory.
    pub(crate) fn cool(&mut self, step: WalkStep) {
        match self {
            Slots::Dense(array) => {
                if let Some(pasts) = &mut array.pasts
                    && !step.cool(&mut pasts[..])
                {
                    array.pasts = None;
                }
            }
            Slots::Sparse(list) => list.iter_mut().for_each(|slot| {
                step.cool(std::slice::from_mut(&mut slot.past));
            }),
        }
    }

    /// The walk that last found the page at `index` used.
    pub(crate) fn last_use(&self, index: usize) -> WalkNo {
        match self {
            Slots::Dense(array) => array.last_uses[index],
            Slots::Sparse(list) => find(list, index).map_or(WalkNo::NONE, |at| list[at].last_use),
        }
    }

    /// Notes that a walk found these pages used.
    pub(crate) fn used_at(&mut self, walk: WalkNo, used: Bits512) {
        match self {
            Slots::Dense(array) => {
                bits::ones(used).for_each(|index| array.last_uses[index] = walk);
            }
            Slots::Sparse(list) => {
                let is_used = |slot: &&mut Slot| bits::has(used, usize::from(slot.index));
                list.iter_mut()
                    .filter(is_used)
                    .for_each(|slot| slot.last_use = walk);
            }
        }
    }

    /// Stores `value` at `index`.
    pub(crate) fn set(&mut self, index: usize, value: u32) {
        match self {
            Slots::Dense(array) => array.values[index] = value,
            Slots::Sparse(list) => {
                match list.binary_search_by_key(&index, |slot| usize::from(slot.index)) {
                    Ok(at) => list[at].value = value,
                    Err(at) if list.len() < SPARSE_SLOTS_MAX => {
                        let slot = Slot {
                            index: u16::try_from(index).expect("an entry index is below 512"),
                            past: Heat::NONE,
                            last_use: WalkNo::NONE,
                            value,
                        };
                        list.insert(at, slot);
                    }
                    Err(_) => {
                        let mut array = Box::new(Array::as_hot_as(Heat::NONE));
                        for slot in list.iter() {
                            array.values[usize::from(slot.index)] = slot.value;
                            array.last_uses[usize::from(slot.index)] = slot.last_use;
                            array.set_past(usize::from(slot.index), slot.past);
                        }
                        array.values[index] = value;
                        *self = Slots::Dense(array);
                    }
                }
            }
        }
    }

    /// Heap bytes in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (match self {
            Slots::Sparse(list) => list.capacity() * size_of::<Slot>(),
            Slots::Dense(array) => {
                let pasts = array.pasts.as_deref().map_or(0, size_of_val);
                size_of::<Array>() + pasts
            }
        }) as u64
    }
}

fn find(list: &[Slot], index: usize) -> Option<usize> {
    list.binary_search_by_key(&index, |slot| usize::from(slot.index))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn slots_read_back_what_was_written(
            writes in prop::collection::vec((0..TABLE_ENTRIES, any::<u32>()), 0..800)
        ) {
            let mut slots = Slots::new();
            let mut model = BTreeMap::new();
            for (index, value) in writes {
                slots.set(index, value);
                model.insert(index, value);
            }
            for index in 0..TABLE_ENTRIES {
                prop_assert_eq!(slots.get(index), model.get(&index).copied().unwrap_or(0));
            }
        }
    }

    /// What a walk makes of heat while nothing is known of it yet: it counts whole.
    fn whole_walk() -> WalkStep {
        WalkStep::default()
    }

    proptest! {
        #[test]
        fn a_page_that_is_away_cools_alike_in_a_list_and_in_an_array(nr_uses in 0u32..200, nr_walks in 0usize..300, when in 0usize..300) {
            let mut slots = Slots::new();
            slots.set(77, 1);
            let mut heat = (0..nr_uses).fold(Heat::NONE, |heat, _| heat.after_walk(true));
            slots.set_past(77, heat);
            for walk in 0..nr_walks {
                if walk == when {
                    (0..400).for_each(|index| slots.set(index, 1));
                    prop_assert!(matches!(slots, Slots::Dense(_)));
                }
                slots.cool(whole_walk());
                heat = heat.after_walk(false);
                prop_assert_eq!(slots.past(77), heat);
            }
            prop_assert_eq!(slots.past(500), Heat::NONE);
        }
    }

    #[test]
    fn heat_takes_room_only_while_pages_are_away_that_have_some() {
        let mut slots = Slots::new();
        (0..TABLE_ENTRIES).for_each(|index| slots.set(index, 1));
        let empty_bytes = slots.memory_bytes();
        assert!(empty_bytes <= 6 * TABLE_ENTRIES as u64 + 8);
        slots.set_past(3, Heat::NONE.after_walk(true));
        assert_eq!(slots.memory_bytes(), empty_bytes + 2 * TABLE_ENTRIES as u64);
        slots.set_past(3, Heat::NONE);
        slots.cool(whole_walk());
        assert_eq!(slots.memory_bytes(), empty_bytes);
    }

    #[test]
    fn a_lonely_page_costs_little() {
        let mut slots = Slots::new();
        slots.set(300, 7);
        assert!(slots.memory_bytes() <= 64);
    }
}
