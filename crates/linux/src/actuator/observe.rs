//! Reading the entries of chosen pages, just before and just after they are advised.
//!
//! **Owns** a small sorted view of the tables that hold the pages ([`Tables`]), the windows of the
//! look-around, and the fallback: a source that sees mappings only is no help for single pages, so
//! presence is then read from `/proc/PID/pagemap` and nothing is known of accesses.
//! **Does not own** verdicts.

use crate::access::{AccessError, AccessSource, Grain, TableRecord, TableShape};
use crate::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, TABLE_ENTRIES, TableNo, TableSpan};
use crate::process::Process;
use strata_lru::bits::{self, Bits};

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
    pub(super) fn of(self, pages: Bits) -> Bits {
        bits::and(pages, bits::run(self.first, self.end))
    }

    /// Whether any bit of its slots is set.
    pub(super) fn has_any(self, pages: Bits) -> bool {
        !bits::is_empty(self.of(pages))
    }

    /// Other entries of the same table.
    pub(super) fn part(self, first: usize, end: usize) -> Slots {
        Slots { first, end, ..self }
    }

    /// Its slots one by one.
    pub(super) fn pages(self) -> impl Iterator<Item = Slots> {
        (self.first..self.end).map(move |index| self.part(index, index + 1))
    }

    /// The addresses of its slots.
    pub(super) fn range(self) -> AddrRange {
        let at = |index| self.table.entry_addr(index);
        AddrRange::new(at(self.first), at(self.end))
    }
}

/// Backed by a page at this moment, accessible or not.
pub(super) fn resident(record: &TableRecord) -> Bits {
    bits::or(record.present, record.protnone)
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
    pub(super) fn accessed(&self) -> impl Iterator<Item = (TableNo, Bits)> {
        let accessed = self.0.iter().map(|record| (record.table, record.accessed));
        accessed.filter(|(_, pages)| !bits::is_empty(*pages))
    }

    /// Addresses of accessed pages around those of `found` (tables with the slots that were found
    /// young, sorted by table), which are not reported themselves.
    pub(super) fn young_neighbours(&self, found: &[(TableNo, Bits)]) -> Vec<u64> {
        let mut young = Vec::new();
        for (table, slots) in found {
            let Some(record) = self
                .get(*table)
                .filter(|record| record.shape == TableShape::Pages)
            else {
                continue;
            };
            let windows = bits::ones(*slots).fold(bits::NONE, |all, index| {
                bits::or(all, window(*table, index).of(record.accessed))
            });
            let around = bits::ones(bits::without(windows, *slots));
            young.extend(around.map(|index| table.entry_addr(index)));
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
            if entry.is_present() {
                bits::insert(&mut record.present, index);
            } else if entry.is_swapped() {
                bits::insert(&mut record.swapped, index);
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

    proptest! {
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
        let mut record = TableRecord::empty(TableNo(3), TableShape::Pages);
        for index in [90, 100, 101, 140, 500] {
            bits::insert(&mut record.accessed, index);
        }
        let addr = |index| TableNo(3).entry_addr(index);
        let found = [(TableNo(3), bits::run(100, 101))];
        let tables = Tables(vec![record]);
        assert_eq!(tables.young_neighbours(&found), [addr(90), addr(101)]);
        assert!(
            tables
                .young_neighbours(&[(TableNo(4), bits::run(1, 2))])
                .is_empty()
        );
        record.shape = TableShape::Huge;
        assert!(Tables(vec![record]).young_neighbours(&found).is_empty());
    }
}
