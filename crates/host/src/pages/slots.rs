//! One slot for each page of a 2 MiB table: the folio that is there, or the shadow of the one that
//! was, how hot the page is, and which walk last found it used.
//!
//! **Owns** the storage: a sorted list while few pages of the table are used, an array of 512 after
//! that, so that a dense table costs 8 bytes a page and one lonely page does not cost 2 KiB.
//! **Does not own** which slots are in use: the table's bitmaps say that, and what a slot means.
//!
//! **Invariants** I1: a slot reads back what was last written to it; a slot never written reads 0,
//! is cold and was never used.

use crate::access::Bits512;
use crate::addr::TABLE_ENTRIES;
use crate::bits;
use strata_control::prefetch::WalkNo;
use strata_lru::Heat;

/// Above this many used slots the array is smaller or quicker than the list.
const SPARSE_SLOTS_MAX: usize = 128;

/// A used slot of a sparse table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    index: u16,
    heat: Heat,
    last_use: WalkNo,
    value: u32,
}

/// All slots of a dense table, indexed by entry.
#[derive(Debug)]
pub(crate) struct Array {
    values: [u32; TABLE_ENTRIES],
    heats: [Heat; TABLE_ENTRIES],
    last_uses: [WalkNo; TABLE_ENTRIES],
}

impl Array {
    /// No slot in use, and every page as hot as this.
    fn as_hot_as(heat: Heat) -> Array {
        Array {
            values: [0; TABLE_ENTRIES],
            heats: [heat; TABLE_ENTRIES],
            last_uses: [WalkNo::NONE; TABLE_ENTRIES],
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

    /// No slot in use, and every page as hot as this.
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

    /// How hot the page at `index` is.
    pub(crate) fn heat(&self, index: usize) -> Heat {
        match self {
            Slots::Dense(array) => array.heats[index],
            Slots::Sparse(list) => find(list, index).map_or(Heat::NONE, |at| list[at].heat),
        }
    }

    /// The walk that last found the page at `index` used.
    pub(crate) fn last_use(&self, index: usize) -> WalkNo {
        match self {
            Slots::Dense(array) => array.last_uses[index],
            Slots::Sparse(list) => find(list, index).map_or(WalkNo::NONE, |at| list[at].last_use),
        }
    }

    /// This walk found these pages used.
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

    /// A walk found these accessed and no others, after so many walks that left the table out.
    /// A short walk counts half.
    pub(crate) fn warm(&mut self, accessed: Bits512, nr_idle_walks: u32, is_short: bool) {
        let next = |heat: Heat, is_accessed: bool| {
            let heat = heat.after_idle_walks(nr_idle_walks);
            match is_short {
                true => heat.after_short_walk(is_accessed),
                false => heat.after_walk(is_accessed),
            }
        };
        match self {
            Slots::Dense(array) => {
                for (heats, word) in array.heats.chunks_exact_mut(64).zip(accessed.0) {
                    for (bit, heat) in heats.iter_mut().enumerate() {
                        *heat = next(*heat, word >> bit & 1 == 1);
                    }
                }
            }
            Slots::Sparse(list) => {
                for slot in list {
                    slot.heat = next(slot.heat, bits::has(accessed, usize::from(slot.index)));
                }
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
                            heat: Heat::NONE,
                            last_use: WalkNo::NONE,
                            value,
                        };
                        list.insert(at, slot);
                    }
                    Err(_) => {
                        let mut array = Box::new(Array::as_hot_as(Heat::NONE));
                        for slot in list.iter() {
                            array.values[usize::from(slot.index)] = slot.value;
                            array.heats[usize::from(slot.index)] = slot.heat;
                            array.last_uses[usize::from(slot.index)] = slot.last_use;
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
            Slots::Dense(_) => size_of::<Array>(),
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

    proptest! {
        #[test]
        fn a_page_has_the_same_heat_in_a_list_and_in_an_array(
            walks in prop::collection::vec((any::<bool>(), 0u32..40, any::<bool>()), 1..40), when in 0usize..40,
        ) {
            let mut slots = Slots::new();
            slots.set(77, 1);
            let mut heat = Heat::NONE;
            for (n, (is_accessed, nr_idle_walks, is_short)) in walks.into_iter().enumerate() {
                if n == when {
                    (0..400).for_each(|index| slots.set(index, 1));
                    prop_assert!(matches!(slots, Slots::Dense(_)));
                }
                let accessed = bits::run(77, 77 + usize::from(is_accessed));
                slots.warm(accessed, nr_idle_walks, is_short);
                heat = heat.after_idle_walks(nr_idle_walks);
                heat = match is_short {
                    true => heat.after_short_walk(is_accessed),
                    false => heat.after_walk(is_accessed),
                };
                prop_assert_eq!(slots.heat(77), heat);
            }
            prop_assert_eq!(slots.heat(500), Heat::NONE);
        }
    }

    #[test]
    fn a_lonely_page_costs_little() {
        let mut slots = Slots::new();
        slots.set(300, 7);
        assert!(slots.memory_bytes() <= 64);
    }
}
