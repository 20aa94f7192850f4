//! One 32-bit slot for each page of a 2 MiB table: the folio that is there, or the shadow of the one
//! that was.
//!
//! **Owns** the storage: a sorted list while few pages of the table are used, an array of 512 after
//! that, so that a dense table costs 4 bytes a page and one lonely page does not cost 2 KiB.
//! **Does not own** which slots are in use: the table's bitmaps say that, and what a slot means.
//!
//! **Invariants** I1: a slot reads back what was last written to it; a slot never written reads 0.

use crate::addr::TABLE_ENTRIES;

/// Above this many used slots the array is smaller or quicker than the list.
const SPARSE_SLOTS_MAX: usize = 128;

/// The slots of one table.
#[derive(Debug)]
pub(super) enum Slots {
    /// Sorted by index.
    Sparse(Vec<(u16, u32)>),
    /// Indexed by entry.
    Dense(Box<[u32; TABLE_ENTRIES]>),
}

impl Slots {
    /// No slot in use.
    pub(super) fn new() -> Slots {
        Slots::Sparse(Vec::new())
    }

    /// The value at `index`, 0 if never set.
    pub(super) fn get(&self, index: usize) -> u32 {
        match self {
            Slots::Dense(array) => array[index],
            Slots::Sparse(list) => match list.binary_search_by_key(&index, |e| usize::from(e.0)) {
                Ok(at) => list[at].1,
                Err(_) => 0,
            },
        }
    }

    /// Stores `value` at `index`.
    pub(super) fn set(&mut self, index: usize, value: u32) {
        match self {
            Slots::Dense(array) => array[index] = value,
            Slots::Sparse(list) => match list.binary_search_by_key(&index, |e| usize::from(e.0)) {
                Ok(at) => list[at].1 = value,
                Err(at) if list.len() < SPARSE_SLOTS_MAX => {
                    let index = u16::try_from(index).expect("an entry index is below 512");
                    list.insert(at, (index, value));
                }
                Err(_) => {
                    let mut array = Box::new([0; TABLE_ENTRIES]);
                    for &(at, value) in list.iter() {
                        array[usize::from(at)] = value;
                    }
                    array[index] = value;
                    *self = Slots::Dense(array);
                }
            },
        }
    }

    /// Heap bytes in use.
    pub(super) fn memory_bytes(&self) -> u64 {
        (match self {
            Slots::Sparse(list) => list.capacity() * size_of::<(u16, u32)>(),
            Slots::Dense(_) => TABLE_ENTRIES * size_of::<u32>(),
        }) as u64
    }
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
