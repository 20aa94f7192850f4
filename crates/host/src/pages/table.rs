//! One 2 MiB table of a managed space, page by page: which folio is there, which shadow is left.
//!
//! **Owns** the slots, one for each page: a sorted list while few pages are used, an array of 512 after that, so that a dense
//! table costs 4 bytes a page and one lonely page does not cost 2 KiB; the two bitmaps that give the slots their
//! meaning, and two more: pages that somebody saw accessed, and those that were used. **Does not own** the engine's
//! state.
//!
//! **Invariants** I1: a page is tracked or shadowed, never both. I2: a huge table tracks page 0 only.
//! I3: a slot reads back what was last written to it; a slot never written reads 0.

use strata_linux::addr::{PAGE_BYTES, TABLE_BYTES, TABLE_ENTRIES};
use strata_lru::bits::{self, Bits};
use strata_lru::{FolioId, Order, Shadow};

/// Above this many used slots the array is smaller or quicker than the list.
const SPARSE_SLOTS_MAX: usize = 128;

/// A used slot of a sparse table.
#[derive(Clone, Copy, Debug)]
struct Slot {
    index: u16,
    value: u32,
}

/// The slots of one table.
#[derive(Debug)]
enum Slots {
    /// Sorted by index.
    Sparse(Vec<Slot>),
    /// Of every entry, by index.
    Dense(Box<[u32; TABLE_ENTRIES]>),
}

impl Slots {
    /// No slot in use.
    fn new() -> Slots {
        Slots::Sparse(Vec::new())
    }

    /// The value at `index`, 0 if never set.
    fn get(&self, index: usize) -> u32 {
        match self {
            Slots::Dense(values) => values[index],
            Slots::Sparse(list) => find(list, index).map_or(0, |at| list[at].value),
        }
    }

    /// Stores `value` at `index`.
    fn set(&mut self, index: usize, value: u32) {
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
    fn memory_bytes(&self) -> u64 {
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

/// What is known of the pages of one table.
#[derive(Debug)]
pub(crate) struct Table {
    /// Pages that hold a folio of the engine.
    pub tracked: Bits,
    /// Pages that held one and were evicted.
    pub shadowed: Bits,
    /// Pages that were found accessed since the last walk, by somebody other than a walk.
    seen: Bits,
    /// One folio of order 9 in place of 512 pages.
    pub is_huge: bool,
    /// The walk that reported it last.
    pub epoch: u32,
    /// Entries that walks found accessed since somebody last counted them.
    pub used: Bits,
    slots: Slots,
}

impl Table {
    /// Nothing known yet.
    pub(crate) fn new() -> Table {
        Table {
            tracked: bits::NONE,
            shadowed: bits::NONE,
            seen: bits::NONE,
            is_huge: false,
            epoch: 0,
            used: bits::NONE,
            slots: Slots::new(),
        }
    }

    /// Notes that the huge page was split, or the pages were collapsed into one; nothing is tracked any more.
    pub(crate) fn change_shape(&mut self, is_huge: bool) {
        debug_assert!(bits::is_empty(self.tracked));
        self.shadowed = bits::NONE;
        self.is_huge = is_huge;
    }

    /// How much each of its entries maps.
    pub(crate) fn order(&self) -> Order {
        match self.is_huge {
            true => Order::PMD,
            false => Order::BASE,
        }
    }

    /// The folio at a tracked page.
    pub(crate) fn folio(&self, index: usize) -> FolioId {
        debug_assert!(bits::has(&self.tracked, index));
        FolioId(self.slots.get(index))
    }

    /// The folio at an address of this table, if the page is tracked.
    pub(crate) fn folio_at(&self, addr: u64) -> Option<FolioId> {
        let index = self.index_of(addr);
        bits::has(&self.tracked, index).then(|| self.folio(index))
    }

    fn index_of(&self, addr: u64) -> usize {
        match self.is_huge {
            true => 0,
            false => (addr % TABLE_BYTES / PAGE_BYTES) as usize,
        }
    }

    /// The shadow at a page, if one is left.
    pub(crate) fn shadow(&self, index: usize) -> Option<Shadow> {
        bits::has(&self.shadowed, index).then(|| Shadow::from_bits_truncate(self.slots.get(index)))
    }

    /// A folio is there now.
    pub(crate) fn track(&mut self, index: usize, folio: FolioId) {
        bits::remove(&mut self.shadowed, index);
        bits::insert(&mut self.tracked, index);
        self.slots.set(index, folio.0);
    }

    /// The folio is gone and left this behind.
    pub(crate) fn untrack(&mut self, index: usize, shadow: Option<Shadow>) {
        bits::remove(&mut self.tracked, index);
        match shadow {
            Some(shadow) => {
                bits::insert(&mut self.shadowed, index);
                self.slots.set(index, shadow.to_bits());
            }
            None => bits::remove(&mut self.shadowed, index),
        }
    }

    /// Somebody found these accessed; by the next walk the kernel may have cleared the bits. Who looked
    /// before a walk and tells after it has them counted at both.
    pub(crate) fn see(&mut self, accessed: Bits) {
        self.seen = bits::or(self.seen, accessed);
    }

    /// What was seen since the last call.
    pub(crate) fn take_seen(&mut self) -> Bits {
        std::mem::replace(&mut self.seen, bits::NONE)
    }

    /// Whether nothing is worth remembering.
    pub(crate) fn is_empty(&self) -> bool {
        bits::is_empty(self.tracked) && bits::is_empty(self.shadowed)
    }

    /// Heap bytes in use, the table itself included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        size_of::<Table>() as u64 + self.slots.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Table {
        /// Checks the module's invariants.
        pub(crate) fn validate(&self) -> Result<(), String> {
            let both = bits::and(self.tracked, self.shadowed);
            let beside_huge = match self.is_huge {
                true => bits::without(self.tracked, bits::run(0, 1)),
                false => bits::NONE,
            };
            match [both, beside_huge].map(bits::is_empty) {
                [true, true] => Ok(()),
                _ => Err(format!(
                    "tracked and shadowed {both:?}, beside a huge page {beside_huge:?}"
                )),
            }
        }
    }

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
