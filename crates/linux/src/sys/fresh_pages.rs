//! Pages that the kernel has only just given out.

use std::io;

use rustix::mm::{Advice, ProtFlags};

use super::mapping::Mapping;
use crate::addr::PAGE_BYTES;

/// Pages that nobody has used before: what the kernel notes of them is of this use alone.
#[derive(Debug)]
pub(crate) struct FreshPages(Mapping);

impl FreshPages {
    /// Maps so many base pages and writes to each.
    pub(crate) fn new(nr_pages: usize) -> io::Result<FreshPages> {
        let nr_bytes = nr_pages * PAGE_BYTES as usize;
        let mut pages = Mapping::fresh(nr_bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        // Without transparent huge pages it is refused, and not needed.
        let _refused = pages.advise(Advice::LinuxNoHugepage);
        for page in 0..nr_pages {
            pages.write(page * PAGE_BYTES as usize, page as u8 | 1);
        }
        Ok(FreshPages(pages))
    }

    /// Writes to half of each page what compresses badly, as pages of programs do.
    pub(crate) fn scribble(&mut self) {
        let mut word = 0x9E37_79B9_7F4A_7C15_u64;
        for page in (0..self.0.nr_bytes()).step_by(PAGE_BYTES as usize) {
            for nth in 0..PAGE_BYTES as usize / 2 {
                // Xorshift (Marsaglia, 2003).
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                self.0.write(page + nth, word as u8);
            }
        }
    }

    /// Reads from a page, which has the kernel bring it back where it is not there.
    ///
    /// # Panics
    /// There is no such page.
    pub(crate) fn touch(&self, page: usize) {
        self.0.read(page * PAGE_BYTES as usize);
    }

    /// Where the first pages are, at most all.
    pub(crate) fn addresses(&self, nr_pages: usize) -> Vec<u64> {
        let start = self.0.base().addr() as u64;
        let most = self.0.nr_bytes() as u64 / PAGE_BYTES;
        let pages = 0..most.min(nr_pages as u64);
        pages.map(|page| start + page * PAGE_BYTES).collect()
    }
}
