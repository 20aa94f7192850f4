//! Where pages lie: page tables of 512 entries, and a dense slot for each page of the workload.
//!
//! Pages are sorted by space and number, so that the pages of one table are neighbours: a walk reads
//! its bits word by word. Entries that no page of the workload has take no slot, so a sparse trace
//! costs no more than a dense one. A workload that never goes through a page table needs none of
//! this: a page's slot is its number.
//!
//! ```text
//!   table (space, page / 512)   0         1             2
//!   slots                       0 1 2 3   4 5 6 7 8 9   10 11 ...     one a page that comes up
//! ```
//!
//! **Owns** the places. **Does not own** what is in memory (`memory`).
//!
//! **Invariants**
//! - I1: slots of a table are consecutive and ascend with the page number.
//! - I2: tables of a space are consecutive.

use std::ops::Range;

use strata_lru::look_around_window;
use strata_trace::Via;

use crate::workload::{PageId, Workload};

/// Entries of a page table, as a power of two.
const TABLE_ORDER: u32 = 9;

/// Entries of a page table.
pub(crate) const NR_TABLE_ENTRIES: u32 = 1 << TABLE_ORDER;

/// One page table.
#[derive(Clone, Copy, Debug)]
struct Table {
    first_slot: u32,
    space: u32,
    number: u64,
}

/// The places of a workload's pages.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// By page number; empty where slot and number are the same.
    slots: Vec<u32>,
    /// By slot; empty where slot and number are the same.
    pages: Vec<u32>,
    /// By slot: position within its table.
    entries: Vec<u16>,
    tables: Vec<Table>,
    nr_slots: u32,
}

impl Layout {
    /// Sorts a workload's pages into tables, if any is ever accessed through one.
    pub(crate) fn new(workload: &Workload) -> Layout {
        let mut layout = Layout {
            nr_slots: workload.nr_pages(),
            ..Layout::default()
        };
        let is_mapped = |via: Via| via == Via::PageTable;
        if workload.requests().iter().any(|of| is_mapped(of.via())) {
            layout.sort(workload);
        }
        layout
    }

    fn sort(&mut self, workload: &Workload) {
        let place = |page: &u32| {
            let page = workload.page(PageId(*page));
            (page.key.space, page.key.page)
        };
        let mut pages: Vec<u32> = (0..workload.nr_pages()).collect();
        pages.sort_unstable_by_key(place);
        self.slots = vec![0; pages.len()];
        for (slot, page) in (0..).zip(&pages) {
            let (space, number) = place(page);
            self.slots[*page as usize] = slot;
            let table = Table {
                first_slot: slot,
                space,
                number: number >> TABLE_ORDER,
            };
            let is_same = |last: &Table| (last.space, last.number) == (table.space, table.number);
            if !self.tables.last().is_some_and(is_same) {
                self.tables.push(table);
            }
            self.entries
                .push((number % u64::from(NR_TABLE_ENTRIES)) as u16);
        }
        self.pages = pages;
    }

    /// Slots in all, one a page.
    pub(crate) fn nr_slots(&self) -> u32 {
        self.nr_slots
    }

    /// The slot of a page.
    pub(crate) fn slot(&self, page: PageId) -> u32 {
        self.slots.get(page.index()).copied().unwrap_or(page.0)
    }

    /// The page of a slot.
    pub(crate) fn page(&self, slot: u32) -> PageId {
        PageId(self.pages.get(slot as usize).copied().unwrap_or(slot))
    }

    /// The tables of each space.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = Range<u32>> {
        let mut first = 0;
        self.tables
            .chunk_by(|a, b| a.space == b.space)
            .map(move |of_space| {
                let tables = first..first + of_space.len() as u32;
                first = tables.end;
                tables
            })
    }

    /// The slots of a table.
    pub(crate) fn slots_of(&self, table: u32) -> Range<u32> {
        let first = self.tables[table as usize].first_slot;
        let next = self.tables.get(table as usize + 1);
        first..next.map_or(self.nr_slots, |next| next.first_slot)
    }

    /// The table of a slot.
    pub(crate) fn table(&self, slot: u32) -> u32 {
        let after = self
            .tables
            .partition_point(|table| table.first_slot <= slot);
        after as u32 - 1
    }

    /// The slots whose entries are looked at around one (rules 2.6). A mapping is taken to cover
    /// every table it has a page in.
    pub(crate) fn window(&self, slot: u32) -> Range<u32> {
        let entry = u64::from(self.entries[slot as usize]);
        let table = 0..u64::from(NR_TABLE_ENTRIES);
        let window = look_around_window(entry, table.clone(), table);
        let of_table = self.slots_of(self.table(slot));
        let entries = &self.entries[of_table.start as usize..of_table.end as usize];
        let position = |limit| entries.partition_point(|of| u64::from(*of) < limit) as u32;
        of_table.start + position(window.start)..of_table.start + position(window.end)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        ((self.slots.capacity() + self.pages.capacity()) * size_of::<u32>()
            + self.entries.capacity() * size_of::<u16>()
            + self.tables.capacity() * size_of::<Table>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use strata_trace::{Access, PageKey};

    use super::*;

    fn workload(pages: &[(u32, u64)], via: Via) -> Workload {
        let accesses = pages.iter().map(|&(space, page)| Access {
            key: PageKey { space, page },
            via,
            ..Access::default()
        });
        Workload::from_accesses("test", accesses).unwrap()
    }

    #[test]
    fn pages_of_a_table_are_neighbours_whenever_they_come_up() {
        let pages = [(0, 600), (1, 3), (0, 1), (0, 513), (0, 0), (0, 1 << 40)];
        let workload = workload(&pages, Via::PageTable);
        let layout = Layout::new(&workload);
        let slots: Vec<u32> = (0..6).map(|page| layout.slot(PageId(page))).collect();
        assert_eq!(slots, [3, 5, 1, 2, 0, 4]);
        for page in (0..6).map(PageId) {
            assert_eq!(layout.page(layout.slot(page)), page);
        }
        assert_eq!(
            [0, 1, 2, 3].map(|table| layout.slots_of(table)),
            [0..2, 2..4, 4..5, 5..6]
        );
        assert_eq!(layout.spaces().collect::<Vec<_>>(), [0..3, 3..4]);
        assert_eq!(layout.table(5), 3);
    }

    #[test]
    fn a_window_is_64_entries_within_the_table() {
        let every_other: Vec<(u32, u64)> = (0..1024).map(|page| (0, 2 * page)).collect();
        let layout = Layout::new(&workload(&every_other, Via::PageTable));
        // Entries 0..64 are the first 32 slots; the second table begins at slot 256.
        assert_eq!(layout.window(3), 0..32);
        assert_eq!(layout.window(100), 84..116);
        assert_eq!(layout.window(255), 224..256);
        assert_eq!(layout.window(256), 256..288);
    }

    #[test]
    fn descriptors_need_no_tables() {
        let layout = Layout::new(&workload(&[(0, 9), (0, 4)], Via::FileDescriptor));
        assert_eq!((layout.slot(PageId(1)), layout.page(1)), (1, PageId(1)));
        assert_eq!(layout.spaces().count(), 0);
    }
}
