//! What the walk of one table is told as, for the figures of the full `lru_gen` text.
//!
//! A walk of ours reads every table, where the kernel asks a filter first. So that the figures say the same,
//! what counts is what the kernel's walk would count: entries of mappings that can be reclaimed, empty ones
//! included, and a huge page as one entry and no table.
//!
//! **Owns** what of a record is an entry, and a young one. **Does not own** the figures (the engine).

use crate::pages::places::SpaceSlot;
use strata_linux::access::{TableRecord, TableShape};
use strata_lru::TableId;
use strata_lru::bits::{self, Bits};
use strata_lru::lru_gen::Walked;

/// Bits of an address above a table: 57 less 21.
const TABLE_BITS: u32 = 36;

/// What was read of a table; `None` where nothing that can be reclaimed is mapped, or there is no table
/// any more. `covered` are the entries of mappings that can be reclaimed.
pub(crate) fn walked(space: SpaceSlot, record: &TableRecord, covered: Bits) -> Option<Walked> {
    let held = [
        record.present,
        record.swapped,
        record.special,
        record.protnone,
        record.migrating,
    ];
    let is_there = held.into_iter().any(|entries| !bits::is_empty(entries));
    if !is_there || bits::is_empty(covered) {
        return None;
    }
    let young = bits::and(bits::and(record.accessed, record.present), covered);
    let count = |entries| u32::try_from(bits::count(entries)).unwrap_or(u32::MAX);
    Some(match record.shape {
        TableShape::Huge => Walked::HugePage {
            is_young: !bits::is_empty(young),
        },
        TableShape::Pages => Walked::Table {
            table: TableId(u64::from(space.0) << TABLE_BITS | record.table.0),
            nr_entries: count(covered),
            nr_young: count(young),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_linux::addr::TableNo;

    const SPACE: SpaceSlot = SpaceSlot(3);

    fn record(shape: TableShape, present: Bits, accessed: Bits) -> TableRecord {
        TableRecord {
            present,
            accessed,
            ..TableRecord::empty(TableNo(7), shape)
        }
    }

    #[test]
    fn entries_of_mappings_that_can_be_reclaimed_are_counted_empty_ones_included() {
        let read = record(TableShape::Pages, bits::run(0, 100), bits::run(90, 100));
        let walked = walked(SPACE, &read, bits::run(0, 95));
        let table = TableId(3 << 36 | 7);
        let expected = Walked::Table {
            table,
            nr_entries: 95,
            nr_young: 5,
        };
        assert_eq!(walked, Some(expected));
    }

    #[test]
    fn a_huge_page_is_one_entry_and_no_table() {
        let all = bits::run(0, 512);
        for (accessed, is_young) in [(all, true), (bits::NONE, false)] {
            let read = record(TableShape::Huge, all, accessed);
            let told = walked(SPACE, &read, bits::run(0, 1));
            assert_eq!(told, Some(Walked::HugePage { is_young }));
        }
    }

    #[test]
    fn a_table_that_is_gone_or_can_not_be_reclaimed_is_not_told() {
        let gone = TableRecord::empty(TableNo(7), TableShape::Pages);
        assert_eq!(walked(SPACE, &gone, bits::run(0, 512)), None);
        let locked = record(TableShape::Pages, bits::run(0, 9), bits::run(0, 9));
        assert_eq!(walked(SPACE, &locked, bits::NONE), None);
    }
}
