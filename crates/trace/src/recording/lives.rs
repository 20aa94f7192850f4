//! Pages that were freed and came back.
//!
//! An address that was freed and is filled again holds other data: for a policy it is a page it has
//! never seen. So a page number has the number of times the page was freed above its own 44 bits.
//!
//! **Owns** the counts, modulo 256. **Does not own** what counts as freed.
//!
//! **Invariants**
//! - I1: at most [`NR_TABLES_KEPT_MAX`] tables are kept, whatever a file says; pages of further ones
//!   are taken for the same for ever, and their number is counted.

use std::collections::BTreeMap;

use super::{PAGE_BITS, PageBits, TABLE_PAGES};
use strata_lru::bits;

/// Tables with freed pages: 128 GiB of them, and 32 MiB of counts.
const NR_TABLES_KEPT_MAX: usize = 1 << 16;

/// How often each page was freed.
#[derive(Debug, Default)]
pub(super) struct Lives {
    tables: BTreeMap<(u32, u64), Box<[u8; TABLE_PAGES as usize]>>,
    nr_left_out: u64,
}

impl Lives {
    /// Notes that the pages `gone` of a table were freed.
    pub(super) fn end(&mut self, space: u32, table: u64, gone: PageBits) {
        let key = (space, table);
        if self.tables.len() >= NR_TABLES_KEPT_MAX && !self.tables.contains_key(&key) {
            self.nr_left_out += bits::count(gone);
            return;
        }
        let counts = self
            .tables
            .entry(key)
            .or_insert_with(|| Box::new([0; TABLE_PAGES as usize]));
        for bit in bits::ones(gone) {
            let count = &mut counts[bit];
            *count = count.wrapping_add(1);
        }
    }

    /// Nothing of the space is left, and its number will not come again.
    pub(super) fn forget(&mut self, space: u32) {
        self.tables.retain(|(of, _), _| *of != space);
    }

    /// The page number of a page of the table, its lives above its own bits.
    pub(super) fn page(&self, space: u32, table: u64, bit: usize) -> u64 {
        let page = table * TABLE_PAGES + bit as u64;
        let life = self.tables.get(&(space, table));
        let life = life.map_or(0, |counts| counts[bit]);
        page | u64::from(life) << PAGE_BITS
    }

    /// Freed pages that could not be kept, since this was last asked.
    pub(super) fn take_nr_left_out(&mut self) -> u64 {
        std::mem::take(&mut self.nr_left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_page_comes_back_as_another_until_its_space_ends() {
        let mut lives = Lives::default();
        let first = [1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(lives.page(3, 2, 0), 1024);
        lives.end(3, 2, first);
        assert_eq!(lives.page(3, 2, 0), 1024 | 1 << PAGE_BITS);
        assert_eq!(lives.page(3, 2, 1), 1025);
        assert_eq!(lives.page(4, 2, 0), 1024);
        lives.forget(3);
        assert_eq!(lives.page(3, 2, 0), 1024);
    }

    #[test]
    fn no_more_tables_are_kept_than_the_bound_says() {
        let mut lives = Lives::default();
        for table in 0..NR_TABLES_KEPT_MAX as u64 + 10 {
            lives.end(0, table, [3, 0, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(lives.tables.len(), NR_TABLES_KEPT_MAX);
        assert_eq!(lives.take_nr_left_out(), 20);
    }
}
