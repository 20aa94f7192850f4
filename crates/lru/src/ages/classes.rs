//! What a page in memory is, finer than anonymous or of a file.
//!
//! **Owns** the words, and sums by them. **Does not own** which page is what (`count`).
//!
//! **Invariants** I1: a page is of one class, and the classes of a kind add up to it.

use super::table::NrPages;

/// Number of classes.
pub(super) const NR_CLASSES: usize = 7;

/// What a page is, as far as page tables and their mappers tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageClass {
    /// A page of a file.
    File,
    /// Anonymous, mapped by one process as a small page.
    Anon,
    /// Anonymous, mapped by one process as part of a huge page.
    Huge,
    /// Anonymous and private, but mapped by several processes, as after a fork.
    Common,
    /// Of tmpfs, a memfd or shared memory, and mapped by one process.
    Shmem,
    /// Of tmpfs, a memfd or shared memory, and mapped by several processes.
    CommonShmem,
    /// Anonymous, and locked in memory.
    Locked,
}

counts! {
    /// Pages by class.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ByClass {
        nr_pages: [u64; NR_CLASSES],
    }
}

impl ByClass {
    /// Those of one class.
    pub fn of(&self, class: PageClass) -> u64 {
        self.nr_pages[class as usize]
    }

    /// So many more of a class.
    pub fn add(&mut self, class: PageClass, nr_pages: u64) {
        self.nr_pages[class as usize] += nr_pages;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nr_pages == [0; NR_CLASSES]
    }
}

impl From<ByClass> for NrPages {
    fn from(by_class: ByClass) -> NrPages {
        let file = by_class.of(PageClass::File);
        NrPages {
            anon: by_class.nr_pages.iter().sum::<u64>() - file,
            file,
        }
    }
}
