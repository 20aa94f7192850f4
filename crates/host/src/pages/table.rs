//! One 2 MiB table of a managed space, page by page: which folio is there, which shadow is left.
//!
//! **Owns** the two bitmaps that give the slots their meaning, and others: pages that somebody saw accessed, that
//! were used, that the kernel may take next, that were asked for.
//! **Does not own** the engine's state.
//!
//! **Invariants** I1: a page is tracked or shadowed, never both. I2: a huge table tracks page 0 only.
//! I3: only shadowed pages are asked for.

use crate::pages::slots::Slots;
use strata_control::prefetch::WalkNo;
use strata_linux::access::Bits512;
use strata_linux::addr::{PAGE_BYTES, TABLE_BYTES, TABLE_ENTRIES};
use strata_linux::bits;
use strata_lru::{FolioId, Heat, Shadow, WalkStep};

/// What is known of the pages of one table.
#[derive(Debug)]
pub(crate) struct Table {
    /// Pages that hold a folio of the engine.
    pub tracked: Bits512,
    /// Pages that held one and were evicted.
    pub shadowed: Bits512,
    /// Pages that were found accessed since the last walk, by somebody other than a walk.
    seen: Bits512,
    /// One folio of order 9 in place of 512 pages.
    pub is_huge: bool,
    /// The walk that reported it last.
    pub epoch: u32,
    /// Entries that walks found accessed since somebody last counted them.
    pub used: Bits512,
    /// Entries whose pages the kernel may take soon, as of the last walk: on its inactive lists (classic LRU), or not accessed
    /// between the last three walks and not spared already (MGLRU).
    pub inactive: Bits512,
    /// Entries that were not accessed between the last two walks.
    pub idle: Bits512,
    /// Entries of files.
    pub of_file: Bits512,
    /// Entries whose absent pages were asked for because they were last used with others that came back.
    pub recalled: Bits512,
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
            inactive: bits::NONE,
            idle: bits::NONE,
            of_file: bits::NONE,
            recalled: bits::NONE,
            slots: Slots::new(),
        }
    }

    /// Notes that the huge page was split, or the pages were collapsed into one; nothing is tracked any more.
    /// Somebody used a huge page, of its parts nothing is known: they begin lukewarm.
    pub(crate) fn change_shape(&mut self, is_huge: bool) {
        debug_assert!(bits::is_empty(self.tracked));
        (self.shadowed, self.recalled) = (bits::NONE, bits::NONE);
        if self.is_huge {
            self.slots = Slots::as_hot_as(self.past(0).of_a_part());
        }
        self.is_huge = is_huge;
    }

    /// The folio at a tracked page.
    pub(crate) fn folio(&self, index: usize) -> FolioId {
        debug_assert!(bits::has(self.tracked, index));
        FolioId(self.slots.get(index))
    }

    /// Visits the folios of these pages, all at a time.
    pub(crate) fn visit(&self, pages: Bits512, visit: &mut dyn FnMut(&[FolioId])) {
        let mut folios = [FolioId(0); TABLE_ENTRIES];
        let mut nr_folios = 0;
        for index in bits::ones(pages) {
            folios[nr_folios] = self.folio(index);
            nr_folios += 1;
        }
        if nr_folios > 0 {
            visit(&folios[..nr_folios]);
        }
    }

    /// The folio at an address of this table, if the page is tracked.
    pub(crate) fn folio_at(&self, addr: u64) -> Option<FolioId> {
        let index = self.index_of(addr);
        bits::has(self.tracked, index).then(|| self.folio(index))
    }

    fn index_of(&self, addr: u64) -> usize {
        match self.is_huge {
            true => 0,
            false => (addr % TABLE_BYTES / PAGE_BYTES) as usize,
        }
    }

    /// The shadow at a page, if one is left.
    pub(crate) fn shadow(&self, index: usize) -> Option<Shadow> {
        bits::has(self.shadowed, index).then(|| Shadow::from_bits_truncate(self.slots.get(index)))
    }

    /// A folio is there now.
    pub(crate) fn track(&mut self, index: usize, folio: FolioId) {
        bits::remove(&mut self.shadowed, index);
        bits::insert(&mut self.tracked, index);
        self.slots.set(index, folio.0);
    }

    /// The folio is gone and left this behind.
    pub(crate) fn untrack(&mut self, index: usize, shadow: Option<Shadow>, past: Heat) {
        self.slots.set_past(index, past);
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
    pub(crate) fn see(&mut self, accessed: Bits512) {
        self.seen = bits::or(self.seen, accessed);
    }

    /// What was seen since the last call.
    pub(crate) fn take_seen(&mut self) -> Bits512 {
        std::mem::replace(&mut self.seen, bits::NONE)
    }

    /// The page is back: the engine knows how hot it is.
    pub(super) fn forget_past(&mut self, index: usize) {
        self.slots.set_past(index, Heat::NONE);
    }

    /// How hot the page is, which is not in memory.
    pub(crate) fn past(&self, index: usize) -> Heat {
        self.slots.past(index)
    }

    /// A walk has come by.
    pub(crate) fn cool(&mut self, step: WalkStep) {
        self.slots.cool(step);
    }

    /// The walk that last found the page used.
    pub(crate) fn last_use(&self, index: usize) -> WalkNo {
        self.slots.last_use(index)
    }

    /// Notes that a walk found these pages used.
    pub(crate) fn used_at(&mut self, walk: WalkNo, used: Bits512) {
        self.slots.used_at(walk, used);
    }

    /// Whether nothing is worth remembering.
    pub(crate) fn is_empty(&self) -> bool {
        bits::is_empty(self.tracked) && bits::is_empty(self.shadowed)
    }

    /// Checks the module's invariants.
    #[cfg(test)]
    pub(crate) fn validate(&self) -> Result<(), String> {
        let both = bits::and(self.tracked, self.shadowed);
        let beside_huge = match self.is_huge {
            true => bits::without(self.tracked, bits::run(0, 1)),
            false => bits::NONE,
        };
        let not_shadowed = bits::without(self.recalled, self.shadowed);
        match [both, beside_huge, not_shadowed].map(bits::is_empty) {
            [true, true, true] => Ok(()),
            _ => Err(format!(
                "tracked and shadowed {both:?}, beside a huge page {beside_huge:?}, asked for and not \
                 shadowed {not_shadowed:?}"
            )),
        }
    }

    /// Heap bytes in use, the table itself included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        size_of::<Table>() as u64 + self.slots.memory_bytes()
    }
}
