//! Page numbers, dense, in the order in which pages first come up.
//!
//! An open-addressed table with the keys inside, so that a known page costs one look. Pages whose
//! numbers follow each other share a cache line: block traces come in runs.
//!
//! **Owns** the table. **Does not own** what is known of a page (`workload`).
//!
//! **Invariants**
//! - I1: at most 5 of 8 slots are taken, so a search ends.
//! - I2: numbers depend on the order of keys alone, never on where they lie.

use strata_trace::PageKey;

/// Slots at the start, a power of two.
const NR_SLOTS_MIN: usize = 1024;

/// Neighbouring page numbers that stay together, as a power of two.
const RUN_SHIFT: u32 = 2;

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u64,
    space: u32,
    /// The dense number plus one; 0 is a free slot.
    taken_by: u32,
}

const FREE: Slot = Slot {
    page: 0,
    space: 0,
    taken_by: 0,
};

/// From keys to dense numbers.
#[derive(Debug)]
pub(crate) struct Interner {
    slots: Vec<Slot>,
    nr_pages: u32,
}

impl Interner {
    pub(crate) fn new() -> Interner {
        Interner {
            slots: vec![FREE; NR_SLOTS_MIN],
            nr_pages: 0,
        }
    }

    /// The number of a page, and whether it has just been given.
    pub(crate) fn number(&mut self, key: PageKey) -> (u32, bool) {
        let at = self.find(key);
        let slot = &mut self.slots[at];
        if slot.taken_by != 0 {
            return (slot.taken_by - 1, false);
        }
        let number = self.nr_pages;
        self.nr_pages += 1;
        *slot = Slot {
            page: key.page,
            space: key.space,
            taken_by: self.nr_pages,
        };
        if self.nr_pages as usize * 8 > self.slots.len() * 5 {
            self.grow();
        }
        (number, true)
    }

    /// Where the key is, or the free slot where it belongs.
    fn find(&self, key: PageKey) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = home(key, self.slots.len());
        loop {
            let slot = self.slots[at & mask];
            let is_it = slot.page == key.page && slot.space == key.space;
            if slot.taken_by == 0 || is_it {
                return at & mask;
            }
            at += 1;
        }
    }

    fn grow(&mut self) {
        let larger = vec![FREE; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, larger);
        for slot in old.into_iter().filter(|slot| slot.taken_by != 0) {
            let key = PageKey {
                space: slot.space,
                page: slot.page,
            };
            let at = self.find(key);
            self.slots[at] = slot;
        }
    }
}

/// The slot where a search begins.
fn home(key: PageKey, nr_slots: usize) -> usize {
    let run = (key.page >> RUN_SHIFT) ^ u64::from(key.space) << 40;
    // Fibonacci hashing: the high bits of a product with 2^64 / phi are well spread.
    let spread = (run ^ run >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let nr_runs_bits = nr_slots.trailing_zeros() - RUN_SHIFT;
    let in_run = key.page & ((1 << RUN_SHIFT) - 1);
    ((spread >> (64 - nr_runs_bits)) << RUN_SHIFT | in_run) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn numbers_are_dense_in_order_of_appearance_whatever_the_keys(
            keys in prop::collection::vec(
                (0..3u32, prop_oneof![0..5000u64, any::<u64>(), (0..64u64).prop_map(|k| k << 50)]),
                0..4000,
            )
        ) {
            let (mut interner, mut model) = (Interner::new(), BTreeMap::new());
            for (space, page) in keys {
                let next = model.len() as u32;
                let is_new = !model.contains_key(&(space, page));
                let number = *model.entry((space, page)).or_insert(next);
                prop_assert_eq!(interner.number(PageKey { space, page }), (number, is_new));
            }
        }
    }
}
