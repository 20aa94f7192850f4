//! Page numbers, dense, in the order in which pages first come up.
//!
//! Pages have neighbours: what follows a page is often the page beside it. So the table that is
//! searched is one of neighbourhoods of 16 pages, and a neighbourhood is one cache line of numbers;
//! a request in the neighbourhood of the one before it searches nothing.
//!
//! **Owns** the table. **Does not own** what is known of a page (`workload`).
//!
//! **Invariants**
//! - I1: at most 5 of 8 slots are taken, so a search ends.
//! - I2: numbers depend on the order of keys alone, never on where they lie.

use strata_trace::PageKey;

/// Slots at the start, a power of two.
const NR_SLOTS_MIN: usize = 1024;

/// Pages of a neighbourhood, as a power of two.
const HOOD_SHIFT: u32 = 4;
const HOOD_PAGES: usize = 1 << HOOD_SHIFT;

/// Numbers plus one by place in the neighbourhood; 0 is a page that has not come up.
type Hood = [u32; HOOD_PAGES];

/// Which neighbourhood: `page >> HOOD_SHIFT` in a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HoodKey {
    pages: u64,
    space: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: HoodKey,
    /// Index of the neighbourhood plus one; 0 is a free slot.
    taken_by: u32,
}

const FREE: Slot = Slot {
    key: HoodKey { pages: 0, space: 0 },
    taken_by: 0,
};

/// From keys to dense numbers.
#[derive(Debug)]
pub(crate) struct Interner {
    slots: Vec<Slot>,
    hoods: Vec<Hood>,
    /// The neighbourhood of the last key.
    last: Slot,
    nr_pages: u32,
}

impl Interner {
    pub(crate) fn new() -> Interner {
        Interner {
            slots: vec![FREE; NR_SLOTS_MIN],
            hoods: Vec::new(),
            last: FREE,
            nr_pages: 0,
        }
    }

    /// The number of a page, and whether it has just been given.
    pub(crate) fn number(&mut self, key: PageKey) -> (u32, bool) {
        let hood = HoodKey {
            pages: key.page >> HOOD_SHIFT,
            space: key.space,
        };
        if self.last.key != hood || self.last.taken_by == 0 {
            self.last = self.hood(hood);
        }
        let place = (key.page % HOOD_PAGES as u64) as usize;
        let number = &mut self.hoods[self.last.taken_by as usize - 1][place];
        if *number != 0 {
            return (*number - 1, false);
        }
        self.nr_pages += 1;
        *number = self.nr_pages;
        (self.nr_pages - 1, true)
    }

    /// Bytes it takes at most while so many more keys come up, a table that grows being there twice
    /// meanwhile.
    pub(crate) fn bytes_with(&self, nr_more: usize) -> u64 {
        let nr_hoods = self.hoods.len() + nr_more;
        let mut nr_slots = self.slots.len();
        if nr_hoods * 8 > nr_slots * 5 {
            nr_slots *= 3;
        }
        (nr_hoods * size_of::<Hood>() + nr_slots * size_of::<Slot>()) as u64
    }

    /// The number of a page that has come up.
    pub(crate) fn known(&self, key: PageKey) -> Option<u32> {
        let slot = &self.slots[self.find(HoodKey {
            pages: key.page >> HOOD_SHIFT,
            space: key.space,
        })];
        let hood = self.hoods.get((slot.taken_by as usize).checked_sub(1)?)?;
        hood[(key.page % HOOD_PAGES as u64) as usize].checked_sub(1)
    }

    /// The taken slot of a neighbourhood, made if there is none.
    fn hood(&mut self, key: HoodKey) -> Slot {
        let at = self.find(key);
        if self.slots[at].taken_by != 0 {
            return self.slots[at];
        }
        self.hoods.push([0; HOOD_PAGES]);
        let slot = Slot {
            key,
            taken_by: self.hoods.len() as u32,
        };
        self.slots[at] = slot;
        if self.hoods.len() * 8 > self.slots.len() * 5 {
            self.grow();
        }
        slot
    }

    /// Where the key is, or the free slot where it belongs.
    fn find(&self, key: HoodKey) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = home(key, self.slots.len());
        loop {
            let slot = &self.slots[at];
            if slot.taken_by == 0 || slot.key == key {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let larger = vec![FREE; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, larger);
        for slot in old.into_iter().filter(|slot| slot.taken_by != 0) {
            let at = self.find(slot.key);
            self.slots[at] = slot;
        }
    }
}

/// The slot where a search begins.
fn home(key: HoodKey, nr_slots: usize) -> usize {
    let mixed = key.pages ^ u64::from(key.space) << 40;
    // Fibonacci hashing: the high bits of a product with 2^64 / phi are well spread.
    let spread = (mixed ^ mixed >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (spread >> (64 - nr_slots.trailing_zeros())) as usize
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
                let known = interner.known(PageKey { space, page });
                prop_assert_eq!(known, model.get(&(space, page)).copied());
                let number = *model.entry((space, page)).or_insert(next);
                prop_assert_eq!(interner.number(PageKey { space, page }), (number, is_new));
            }
        }
    }
}
