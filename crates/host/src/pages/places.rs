//! From a folio back to its page: which space and address.
//!
//! **Owns** 64 bits a folio, among them one that says its batch is on its way.
//! **Does not own** the way there (`table`).
//!
//! ```text
//!   high  bit 15       in flight: isolated, a verdict is to come
//!         bits 0..13   upper bits of the page number (57-bit addresses)
//!   low                the others
//!   space              the number of the space
//! ```

use strata_linux::addr::PAGE_BYTES;
use strata_lru::FolioId;

const IN_FLIGHT: u16 = 1 << 15;
const ADDRESS_BITS: u32 = 57;
const _: () = assert!((1_u64 << ADDRESS_BITS) / PAGE_BYTES <= (IN_FLIGHT as u64) << u32::BITS);

/// Grows by this many folios at a time, because doubling would cost more than it saves.
const GROW_FOLIOS: usize = 1 << 16;

/// Number of a space among those of one tracker, which is used again.
pub(crate) use strata_lru::SpaceSlot;

/// So many fit into the number.
pub(crate) const NR_SPACES_MAX: u32 = 65_000;

/// Where every folio lies.
#[derive(Debug, Default)]
pub(crate) struct Places {
    lows: Vec<u32>,
    highs: Vec<u16>,
    spaces: Vec<u16>,
}

impl Places {
    /// Notes that `folio` lies at `addr` of a space.
    pub(crate) fn put(&mut self, folio: FolioId, space: SpaceSlot, addr: u64) {
        let index = folio.index();
        if index >= self.lows.len() {
            let len = (index / GROW_FOLIOS + 1) * GROW_FOLIOS;
            self.lows.reserve_exact(len - self.lows.len());
            self.lows.resize(len, 0);
            self.highs.reserve_exact(len - self.highs.len());
            self.highs.resize(len, 0);
            self.spaces.reserve_exact(len - self.spaces.len());
            self.spaces.resize(len, 0);
        }
        let page = addr / PAGE_BYTES;
        self.lows[index] = page as u32;
        self.highs[index] = (page >> u32::BITS) as u16;
        self.spaces[index] = space.0 as u16;
    }

    /// The space of a folio.
    pub(crate) fn space(&self, folio: FolioId) -> SpaceSlot {
        SpaceSlot(self.spaces[folio.index()].into())
    }

    /// The address of a folio.
    pub(crate) fn addr(&self, folio: FolioId) -> u64 {
        let high = self.highs[folio.index()] & !IN_FLIGHT;
        let page = u64::from(high) << u32::BITS | u64::from(self.lows[folio.index()]);
        page * PAGE_BYTES
    }

    /// Whether a verdict on the folio is to come.
    pub(crate) fn is_in_flight(&self, folio: FolioId) -> bool {
        self.highs[folio.index()] & IN_FLIGHT != 0
    }

    /// Marks the folio as on its way, or not any more.
    pub(crate) fn set_in_flight(&mut self, folio: FolioId, in_flight: bool) {
        let high = &mut self.highs[folio.index()];
        *high = if in_flight {
            *high | IN_FLIGHT
        } else {
            *high & !IN_FLIGHT
        };
    }

    /// Heap bytes in use.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let halves = self.highs.capacity() + self.spaces.capacity();
        (self.lows.capacity() * size_of::<u32>() + halves * size_of::<u16>()) as u64
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
        places.put(folio, SpaceSlot(NR_SPACES_MAX - 1), addr);
        places.set_in_flight(folio, true);
        assert_eq!(places.addr(folio), addr);
        assert_eq!(places.space(folio), SpaceSlot(NR_SPACES_MAX - 1));
        assert!(places.is_in_flight(folio));
        places.set_in_flight(folio, false);
        assert!(!places.is_in_flight(folio));
    }
}
