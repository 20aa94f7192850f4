//! What the engine asks of the pages of one space to choose by heat.
//!
//! **Owns** visiting pages, in the order of addresses. **Does not own** heat, which pages are warm or cold, or whether
//! a forecast holds (`strata_lru::HeatPolicy`).
//!
//! **Invariants** I1: where a page lies on the kernel's lists is told of pages that the last walk came by.

use super::Space;
use strata_linux::addr::TABLE_ENTRIES;
use strata_linux::bits;
use strata_lru::{FolioId, Heat};

impl Space {
    /// Visits the pages that were evicted and are not back, with the heat that is kept of each, and base pages.
    pub(crate) fn for_each_away(&self, visit: &mut dyn FnMut(Heat, u64)) {
        for table in self.tables.values() {
            let nr_pages = match table.is_huge {
                true => TABLE_ENTRIES as u64,
                false => 1,
            };
            bits::ones(table.shadowed).for_each(|index| visit(table.past(index), nr_pages));
        }
    }

    /// Visits what is in memory in the order of addresses, some folios at a time.
    pub(crate) fn for_each_folio(&self, visit: &mut dyn FnMut(&[FolioId])) {
        for table in self.tables.values() {
            table.visit(table.tracked, visit);
        }
    }

    /// Visits base pages that the kernel had on its active lists at the last walk, in the order of addresses.
    pub(crate) fn for_each_active(&self, mut visit: impl FnMut(&[FolioId])) {
        let seen = self
            .tables
            .values()
            .filter(|table| !table.is_huge && table.epoch == self.epoch);
        for table in seen {
            table.visit(bits::without(table.tracked, table.inactive), &mut visit);
        }
    }

    /// Addresses of base pages that the kernel had on its inactive lists at the last walk, and that are wanted.
    pub(crate) fn inactive_pages(&self, is_wanted: impl Fn(FolioId) -> bool) -> Vec<u64> {
        let mut found = Vec::new();
        // The walk may have failed before it came to some.
        let seen = self
            .tables
            .iter()
            .filter(|(_, table)| !table.is_huge && table.epoch == self.epoch);
        for (no, table) in seen {
            let inactive = bits::ones(bits::and(table.tracked, table.inactive));
            let wanted = inactive.filter(|index| is_wanted(table.folio(*index)));
            found.extend(wanted.map(|index| no.entry_addr(index)));
        }
        found
    }
}
