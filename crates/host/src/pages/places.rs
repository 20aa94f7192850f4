//! From a folio back to its page: which space, which address.
//!
//! **Owns** one 64-bit word a folio, and the bit that says its batch is on its way.
//! **Does not own** the way there (`table`).
//!
//! ```text
//!   bit 63       in flight: isolated, a verdict is to come
//!   bits 45..63  space number (18 bits)
//!   bits 0..45   page number (57-bit addresses)
//! ```

use crate::addr::PAGE_BYTES;
use strata_lru::FolioId;

const PAGE_BITS: u32 = 45;
const SPACE_BITS: u32 = 18;
const IN_FLIGHT: u64 = 1 << 63;
const _: () = assert!(PAGE_BITS + SPACE_BITS == 63);

/// Grows by this many folios at a time, because doubling would cost more than it saves.
const GROW_FOLIOS: usize = 1 << 16;

/// Number of a space among those of one tracker.
pub(crate) use strata_control::ProgramNo as SpaceNo;

/// More spaces than this can't be told apart in a place.
pub(crate) const NR_SPACES_MAX: u32 = 1 << SPACE_BITS;

/// Where every folio lies.
#[derive(Debug, Default)]
pub(crate) struct Places {
    words: Vec<u64>,
}

impl Places {
    /// Notes that `folio` lies at `addr` of `space`.
    pub(crate) fn put(&mut self, folio: FolioId, space: SpaceNo, addr: u64) {
        let index = folio.index();
        if index >= self.words.len() {
            let len = (index / GROW_FOLIOS + 1) * GROW_FOLIOS;
            self.words.reserve_exact(len - self.words.len());
            self.words.resize(len, 0);
        }
        self.words[index] = (u64::from(space.0) << PAGE_BITS) | (addr / PAGE_BYTES);
    }

    /// The space and address of a folio.
    pub(crate) fn get(&self, folio: FolioId) -> (SpaceNo, u64) {
        let word = self.words[folio.index()] & !IN_FLIGHT;
        let page = word & ((1 << PAGE_BITS) - 1);
        (SpaceNo((word >> PAGE_BITS) as u32), page * PAGE_BYTES)
    }

    /// Whether a verdict on the folio is to come.
    pub(crate) fn is_in_flight(&self, folio: FolioId) -> bool {
        self.words[folio.index()] & IN_FLIGHT != 0
    }

    /// Marks the folio as on its way, or not any more.
    pub(crate) fn set_in_flight(&mut self, folio: FolioId, in_flight: bool) {
        let word = &mut self.words[folio.index()];
        *word = if in_flight {
            *word | IN_FLIGHT
        } else {
            *word & !IN_FLIGHT
        };
    }

    /// Heap bytes in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.words.capacity() * size_of::<u64>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_address_of_five_levels_comes_back() {
        let mut places = Places::default();
        let folio = FolioId(70_000);
        let addr = (1 << 57) - PAGE_BYTES;
        let space = SpaceNo(NR_SPACES_MAX - 1);
        places.put(folio, space, addr);
        places.set_in_flight(folio, true);
        assert_eq!(places.get(folio), (space, addr));
        assert!(places.is_in_flight(folio));
        places.set_in_flight(folio, false);
        assert!(!places.is_in_flight(folio));
    }
}
