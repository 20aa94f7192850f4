//! What is in memory: a word and four bits for each page.
//!
//! | a page's place | means |
//! |---|---|
//! | top bit set, not all bits | in memory; the low bits are its folio |
//! | top bit clear | evicted; the low bits are its shadow |
//! | all bits set | was never in memory, or left nothing behind |
//!
//! **Owns** places and the bits of page-table entries. **Does not own** when they change (`mod`,
//! `reclaim`, `walk`).
//!
//! **Invariants**
//! - I1: an accessed bit is set only where a page is mapped, and only what is in memory is mapped.
//! - I2: `slot_of[folio]` is the slot whose place names that folio.

use strata_lru::{FolioId, Shadow};

use super::{bits::Bits, layout::Layout};

const IS_FOLIO: u32 = 1 << 31;
const NOTHING: u32 = u32::MAX;

const _: () = assert!(
    Shadow::LIMIT == IS_FOLIO,
    "a shadow leaves the top bit free"
);

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In memory.
    Resident(FolioId),
    /// Not in memory, with what its last stay left behind.
    Absent(Option<Shadow>),
}

/// Places and bits by slot.
#[derive(Debug)]
pub(crate) struct Memory {
    places: Vec<u32>,
    /// By folio.
    slot_of: Vec<u32>,
    /// A page-table entry leads to it.
    pub(crate) mapped: Bits,
    /// The entry's accessed bit.
    pub(crate) accessed: Bits,
    /// Differs from what is in the file; of anon: was written since it was last swapped.
    pub(crate) dirty: Bits,
    /// Handed out by the policy to be tried, not answered yet.
    pub(crate) isolated: Bits,
}

impl Memory {
    /// All absent.
    pub(crate) fn new(layout: &Layout) -> Memory {
        let len = layout.nr_slots();
        Memory {
            places: vec![NOTHING; len as usize],
            slot_of: Vec::new(),
            mapped: Bits::new(len),
            accessed: Bits::new(len),
            dirty: Bits::new(len),
            isolated: Bits::new(len),
        }
    }

    pub(crate) fn place(&self, slot: u32) -> Place {
        match self.places[slot as usize] {
            NOTHING => Place::Absent(None),
            word if word & IS_FOLIO == 0 => Place::Absent(Some(Shadow::from_bits_truncate(word))),
            word => Place::Resident(FolioId(word & !IS_FOLIO)),
        }
    }

    /// The folio at a slot, if any.
    pub(crate) fn folio(&self, slot: u32) -> Option<FolioId> {
        let word = self.places[slot as usize];
        (word & IS_FOLIO != 0 && word != NOTHING).then_some(FolioId(word & !IS_FOLIO))
    }

    /// The slot of a folio.
    pub(crate) fn slot(&self, folio: FolioId) -> u32 {
        self.slot_of[folio.index()]
    }

    /// A page is in memory now.
    pub(crate) fn enter(&mut self, slot: u32, folio: FolioId) {
        self.places[slot as usize] = IS_FOLIO | folio.0;
        if self.slot_of.len() <= folio.index() {
            self.slot_of.resize(folio.index() + 1, 0);
        }
        self.slot_of[folio.index()] = slot;
    }

    /// A page is not in memory any more, and left this behind.
    pub(crate) fn leave(&mut self, slot: u32, shadow: Option<Shadow>) {
        self.places[slot as usize] = shadow.map_or(NOTHING, Shadow::to_bits);
        self.mapped.clear(slot);
        self.accessed.clear(slot);
        self.dirty.clear(slot);
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let words = self.places.capacity() + self.slot_of.capacity();
        let bits = [&self.mapped, &self.accessed, &self.dirty, &self.isolated];
        (words * size_of::<u32>()) as u64 + bits.map(Bits::memory_bytes).iter().sum::<u64>()
    }
}
