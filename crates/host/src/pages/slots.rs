//! One slot for each page of a 2 MiB table: the folio that is there, or the shadow of the one that was.
//!
//! **Owns** the storage: a sorted list while few pages of the table are used, an array of 512 after
//! that, so that a dense table costs 4 bytes a page and one lonely page does not cost 2 KiB.
//! **Does not own** which slots are in use: the table's bitmaps say that, and what a slot means.
//!
//! **Invariants** I1: a slot reads back what was last written to it; a slot never written reads 0.

use strata_linux::addr::TABLE_ENTRIES;

/// Above this many used slots the array is smaller or quicker than the list.
const SPARSE_SLOTS_MAX: usize = 128;

/// A used slot of a sparse table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    index: u16,
    value: u32,
}

/// The slots of one table.
#[derive(Debug)]
pub(crate) enum Slots {
    /// Sorted by index.
    Sparse(Vec<Slot>),
    /// Of every entry, by index.
    Dense(Box<[u32; TABLE_ENTRIES]>),
}

impl Slots {
    /// No slot in use.
    pub(crate) fn new() -> Slots {
        Slots::Sparse(Vec::new())
    }

    /// The value at `index`, 0 if never set.
    pub(crate) fn get(&self, index: usize) -> u32 {
        match self {
            Slots::Dense(values) => values[index],
            Slots::Sparse(list) => find(list, index).map_or(0, |at| list[at].value),
        }
    }

    /// Stores `value` at `index`.
    pub(crate) fn set(&mut self, index: usize, value: u32) {
        match self {
            Slots::Dense(values) => values[index] = value,
            Slots::Sparse(list) => match find(list, index) {
                Ok(at) => list[at].value = value,
                Err(at) if list.len() < SPARSE_SLOTS_MAX => {
                    let index = u16::try_from(index).expect("an entry index is below 512");
                    list.insert(at, Slot { index, value });
                }
                Err(_) => {
                    let mut values = Box::new([0; TABLE_ENTRIES]);
                    for slot in list.iter() {
                        values[usize::from(slot.index)] = slot.value;
                    }
                    values[index] = value;
                    *self = Slots::Dense(values);
                }
            },
        }
    }

    /// Heap bytes in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (match self {
            Slots::Sparse(list) => list.capacity() * size_of::<Slot>(),
            Slots::Dense(values) => size_of_val(&**values),
        }) as u64
    }
}

/// Where the slot is in the list, or where it would be.
fn find(list: &[Slot], index: usize) -> Result<usize, usize> {
    list.binary_search_by_key(&index, |slot| usize::from(slot.index))
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

    #[test]
    fn a_lonely_page_costs_little() {
        let mut slots = Slots::new();
        slots.set(300, 7);
        assert!(slots.memory_bytes() <= 64);
    }
}
