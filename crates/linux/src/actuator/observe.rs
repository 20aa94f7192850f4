//! Reading the entries of chosen pages, just before and just after they are advised.
//!
//! **Owns** a small sorted view of the tables that hold the pages ([`Tables`]), the windows of the
//! look-around, and the fallback: a source that sees mappings only is no help for single pages, so
//! presence is then read from `/proc/PID/pagemap` and nothing is known of accesses.
//! **Does not own** verdicts.

use crate::access::{AccessError, AccessSource, Bits512, Grain, TableRecord, TableShape};
use crate::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, TABLE_ENTRIES, TableNo, TableSpan};
use crate::process::Process;

/// Pages of a look-around window, as in the kernel (reference 2.6).
const WINDOW_PAGES: usize = 64;

/// Entries `first..end` of one table that a target covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    pub(super) table: TableNo,
    pub(super) first: usize,
    pub(super) end: usize,
}

impl Slots {
    /// The slots of a range, one part for each table it touches.
    pub(super) fn of_range(range: AddrRange) -> impl Iterator<Item = Slots> {
        let tables = range.start / TABLE_BYTES..range.end.div_ceil(TABLE_BYTES);
        tables.map(move |number| {
            let table = TableNo(number);
            let start = range.start.max(table.start());
            let end = range.end.min(table.start() + TABLE_BYTES);
            Slots {
                table,
                first: ((start - table.start()) / PAGE_BYTES) as usize,
                end: ((end - table.start()).div_ceil(PAGE_BYTES)) as usize,
            }
        })
    }

    /// The bits of its slots, others clear.
    pub(super) fn of(self, bits: &Bits512) -> Bits512 {
        Bits512(std::array::from_fn(|word| {
            let low = self.first.clamp(word * 64, word * 64 + 64) - word * 64;
            let high = self.end.clamp(word * 64, word * 64 + 64) - word * 64;
            if low < high {
                bits.0[word] & (u64::MAX >> (64 - (high - low))) << low
            } else {
                0
            }
        }))
    }
}

/// Whether any bit is set.
pub(super) fn any(bits: Bits512) -> bool {
    bits.0 != [0; 8]
}

/// Number of bits set.
pub(super) fn count(bits: Bits512) -> u64 {
    bits.0.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Indices of the bits set.
pub(super) fn indices(bits: Bits512) -> impl Iterator<Item = usize> {
    (0..TABLE_ENTRIES).filter(move |index| bits.0[index / 64] >> (index % 64) & 1 != 0)
}

/// The set bits of `a` that are not in `b`.
pub(super) fn without(a: Bits512, b: Bits512) -> Bits512 {
    Bits512(std::array::from_fn(|word| a.0[word] & !b.0[word]))
}

/// The set bits of both together.
pub(super) fn both(a: Bits512, b: Bits512) -> Bits512 {
    Bits512(std::array::from_fn(|word| a.0[word] | b.0[word]))
}

/// Backed by a page at this moment, accessible or not.
pub(super) fn resident(record: &TableRecord) -> Bits512 {
    both(record.present, record.protnone)
}

/// Tables of one process at one moment, sorted.
#[derive(Debug, Default)]
pub(super) struct Tables(pub(super) Vec<TableRecord>);

impl Tables {
    /// Reads the tables in `spans`.
    pub(super) fn read(
        source: &mut dyn AccessSource,
        grain: Grain,
        process: &Process,
        spans: &[TableSpan],
    ) -> Result<Tables, AccessError> {
        let mut records = Vec::new();
        match grain {
            Grain::Page => {
                source.read(process, spans, &mut |record| records.push(*record))?;
            }
            Grain::Mapping => read_pagemap(process, spans, &mut records)?,
        }
        Ok(Tables(records))
    }

    /// The record of a table, if anything is in it.
    pub(super) fn get(&self, table: TableNo) -> Option<&TableRecord> {
        let index = self
            .0
            .binary_search_by_key(&table, |record| record.table)
            .ok()?;
        Some(&self.0[index])
    }

    /// The accessed pages of each table that has any.
    pub(super) fn accessed(&self) -> impl Iterator<Item = (TableNo, Bits512)> {
        let accessed = self.0.iter().map(|record| (record.table, record.accessed));
        accessed.filter(|(_, pages)| any(*pages))
    }

    /// Addresses of accessed pages around those of `found` (tables with the slots that were found
    /// young, sorted by table), which are not reported themselves.
    pub(super) fn young_neighbours(&self, found: &[(TableNo, Bits512)]) -> Vec<u64> {
        let mut young = Vec::new();
        for (table, slots) in found {
            let Some(record) = self
                .get(*table)
                .filter(|record| record.shape == TableShape::Pages)
            else {
                continue;
            };
            let windows = indices(*slots).fold(Bits512::default(), |all, index| {
                let window = window(*table, index);
                both(all, window.of(&record.accessed))
            });
            young.extend(indices(without(windows, *slots)).map(|index| table.entry_addr(index)));
        }
        young
    }
}

/// The kernel's window around a page within its table: centred, or at the table's edge.
fn window(table: TableNo, index: usize) -> Slots {
    let half = WINDOW_PAGES / 2;
    let first = index.saturating_sub(half).min(TABLE_ENTRIES - WINDOW_PAGES);
    Slots {
        table,
        first,
        end: first + WINDOW_PAGES,
    }
}

fn read_pagemap(
    process: &Process,
    spans: &[TableSpan],
    records: &mut Vec<TableRecord>,
) -> Result<(), AccessError> {
    let mut entries = Vec::new();
    for table in spans
        .iter()
        .flat_map(|span| (span.first.0..span.end.0).map(TableNo))
    {
        let range = AddrRange::new(table.start(), table.start() + TABLE_BYTES);
        process
            .read_pagemap(range, &mut entries)
            .map_err(|source| AccessError::Io {
                what: "reading the page map",
                pid: process.pid(),
                source,
            })?;
        let mut record = TableRecord::empty(table, TableShape::Pages);
        for (index, entry) in entries.iter().enumerate() {
            let bit = 1u64 << (index % 64);
            if entry.is_present() {
                record.present.0[index / 64] |= bit;
            } else if entry.is_swapped() {
                record.swapped.0[index / 64] |= bit;
            }
        }
        records.push(record);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(set: impl IntoIterator<Item = usize>) -> Bits512 {
        let mut bits = Bits512::default();
        for index in set {
            bits.0[index / 64] |= 1 << (index % 64);
        }
        bits
    }

    proptest! {
        #[test]
        fn slots_pick_exactly_their_bits(first in 0usize..512, len in 0usize..512, set in prop::collection::btree_set(0usize..512, 0..64)) {
            let slots = Slots { table: TableNo(0), first, end: (first + len).min(512) };
            let expected: Vec<usize> = set.iter().copied().filter(|i| (slots.first..slots.end).contains(i)).collect();
            prop_assert_eq!(indices(slots.of(&bits(set))).collect::<Vec<_>>(), expected);
        }

        #[test]
        fn a_range_is_covered_by_its_slots_once(start in 0u64..2000, len in 1u64..2000) {
            let range = AddrRange::new(start * PAGE_BYTES, (start + len) * PAGE_BYTES);
            let pages: Vec<u64> = Slots::of_range(range)
                .flat_map(|slots| (slots.first..slots.end).map(move |index| slots.table.entry_addr(index) / PAGE_BYTES))
                .collect();
            prop_assert_eq!(pages, (start..start + len).collect::<Vec<_>>());
        }
    }

    #[test]
    fn windows_are_the_kernels() {
        let at = |index| {
            (
                window(TableNo(0), index).first,
                window(TableNo(0), index).end,
            )
        };
        assert_eq!(at(0), (0, 64));
        assert_eq!(at(31), (0, 64));
        assert_eq!(at(100), (68, 132));
        assert_eq!(at(490), (448, 512));
        assert_eq!(at(511), (448, 512));
    }

    #[test]
    fn neighbours_are_young_near_and_not_the_page_itself() {
        let mut record = TableRecord {
            table: TableNo(3),
            shape: TableShape::Pages,
            present: bits(0..512),
            accessed: bits([90, 100, 101, 140, 500]),
            dirty: bits([]),
            swapped: bits([]),
            special: bits([]),
            protnone: bits([]),
            protnone_accessed: bits([]),
            protnone_dirty: bits([]),
            migrating: bits([]),
            inactive: bits([]),
            node: None,
        };
        let addr = |index| TableNo(3).entry_addr(index);
        let found = [(TableNo(3), bits([100]))];
        let tables = Tables(vec![record]);
        assert_eq!(tables.young_neighbours(&found), [addr(90), addr(101)]);
        assert!(
            tables
                .young_neighbours(&[(TableNo(4), bits([1]))])
                .is_empty()
        );
        record.shape = TableShape::Huge;
        assert!(Tables(vec![record]).young_neighbours(&found).is_empty());
    }
}
