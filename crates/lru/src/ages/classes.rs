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

/// Pages by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByClass([u64; NR_CLASSES]);

impl ByClass {
    /// Those of one class.
    pub fn of(&self, class: PageClass) -> u64 {
        self.0[class as usize]
    }

    /// So many more of a class.
    pub fn add(&mut self, class: PageClass, nr_pages: u64) {
        self.0[class as usize] += nr_pages;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0 == [0; NR_CLASSES]
    }
}

impl std::ops::AddAssign for ByClass {
    fn add_assign(&mut self, other: ByClass) {
        let pairs = self.0.iter_mut().zip(other.0);
        pairs.for_each(|(sum, more)| *sum += more);
    }
}

impl std::iter::Sum for ByClass {
    fn sum<I: Iterator<Item = ByClass>>(parts: I) -> ByClass {
        parts.fold(ByClass::default(), |mut sum, part| {
            sum += part;
            sum
        })
    }
}

impl From<ByClass> for NrPages {
    fn from(by_class: ByClass) -> NrPages {
        let file = by_class.of(PageClass::File);
        NrPages {
            anon: by_class.0.iter().sum::<u64>() - file,
            file,
        }
    }
}
