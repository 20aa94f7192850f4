//! Addresses of a managed process: byte ranges, page numbers and the spans of page-table leaves.
//!
//! **Owns** the arithmetic between bytes, 4 KiB pages and 2 MiB table spans; addresses become page
//! or table numbers at the door and stay so inside. **Does not own** any knowledge of what is mapped.

use std::fmt;

use strata_lru::bits::{self, Bits};
pub use strata_lru::machine::{FILE_PAGES_MAX, PAGE_BYTES};

/// Entries in one page table.
pub const TABLE_ENTRIES: usize = bits::NR_ENTRIES;
/// Bytes mapped by one last-level table.
pub const TABLE_BYTES: u64 = PAGE_BYTES * TABLE_ENTRIES as u64;

/// A half-open range of user addresses, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddrRange {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

impl AddrRange {
    /// Makes a range; an `end` below `start` gives an empty one.
    pub fn new(start: u64, end: u64) -> AddrRange {
        AddrRange {
            start,
            end: end.max(start),
        }
    }

    /// So many pages from the page of this number.
    pub fn of_pages(first_page: u64, nr_pages: u64) -> AddrRange {
        AddrRange::new(
            first_page * PAGE_BYTES,
            (first_page + nr_pages) * PAGE_BYTES,
        )
    }

    /// Length in bytes.
    pub fn len_bytes(self) -> u64 {
        self.end - self.start
    }

    /// Base pages in the range, which it begins and ends with.
    pub fn nr_pages(self) -> u64 {
        self.len_bytes() / PAGE_BYTES
    }

    /// Whether nothing lies in the range.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Whether the byte lies in the range.
    pub fn contains(self, addr: u64) -> bool {
        (self.start..self.end).contains(&addr)
    }

    /// Appends it to ranges sorted by address, or lengthens the last one if it begins where that ends.
    pub fn append_to(self, sorted: &mut Vec<AddrRange>) {
        match sorted.last_mut() {
            Some(last) if last.end == self.start => last.end = self.end,
            _ => sorted.push(self),
        }
    }
}

impl fmt::Display for AddrRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}", self.start, self.end)
    }
}

/// Number of a last-level page table in its address space: the address divided by [`TABLE_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableNo(pub u64);

impl TableNo {
    /// The table that maps the byte.
    pub fn containing(addr: u64) -> TableNo {
        TableNo(addr / TABLE_BYTES)
    }

    /// First byte that the table maps.
    pub fn start(self) -> u64 {
        self.0 * TABLE_BYTES
    }

    /// The entries that a range covers.
    pub fn covered_by(self, range: AddrRange) -> Bits {
        let end = range.end.div_ceil(PAGE_BYTES);
        bits::entries(range.start / PAGE_BYTES, end, self.0)
    }

    /// Address of the table's entry `index`.
    pub fn entry_addr(self, index: usize) -> u64 {
        self.start() + index as u64 * PAGE_BYTES
    }
}

/// A half-open range of table numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableSpan {
    /// First table.
    pub first: TableNo,
    /// One past the last table.
    pub end: TableNo,
}

/// Merges ranges (sorted or not) into the fewest sorted table spans that cover them, so that a table
/// shared by many mappings is read once.
pub fn covering_spans(ranges: impl IntoIterator<Item = AddrRange>) -> Vec<TableSpan> {
    let mut spans: Vec<TableSpan> = ranges
        .into_iter()
        .filter(|range| !range.is_empty())
        .map(|range| TableSpan {
            first: TableNo::containing(range.start),
            end: TableNo(TableNo::containing(range.end - 1).0 + 1),
        })
        .collect();
    spans.sort_unstable();
    let mut merged: Vec<TableSpan> = Vec::with_capacity(spans.len().min(1024));
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.first <= last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}

/// Ranges of whole pages, cut into parts of at most so many pages each, but at least a table's. A range is cut only where
/// a table ends, and so not within a huge page.
pub fn in_parts(ranges: &[AddrRange], nr_pages: u64) -> Vec<Vec<AddrRange>> {
    let mut parts: Vec<Vec<AddrRange>> = Vec::new();
    let mut room_bytes = 0;
    for range in ranges {
        let mut start = range.start;
        while start < range.end {
            let end = match range.end - start <= room_bytes {
                true => range.end,
                false => TableNo::containing(start + room_bytes).start(),
            };
            if end <= start {
                parts.push(Vec::new());
                room_bytes = (nr_pages * PAGE_BYTES).max(TABLE_BYTES);
                continue;
            }
            if let Some(part) = parts.last_mut() {
                part.push(AddrRange::new(start, end));
            }
            room_bytes -= end - start;
            start = end;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_mappings_in_one_table_become_one_span() {
        let ranges = (0..100).map(|i| AddrRange::new(i * 8192, i * 8192 + 4096));
        let spans = covering_spans(ranges);
        assert_eq!(
            spans,
            [TableSpan {
                first: TableNo(0),
                end: TableNo(1)
            }]
        );
    }

    #[test]
    fn parts_hold_every_page_once_and_no_huge_page_is_cut() {
        let pages = AddrRange::of_pages;
        let ranges = [pages(100, 1000), pages(1100, 412), pages(1536, 512)];
        let expected = [
            vec![pages(100, 412)],
            vec![pages(512, 512)],
            vec![pages(1024, 76), pages(1100, 412)],
            vec![pages(1536, 512)],
        ];
        assert_eq!(in_parts(&ranges, 4), expected, "at least a table's");
        let expected = [
            vec![pages(100, 1000)],
            vec![pages(1100, 412), pages(1536, 512)],
        ];
        assert_eq!(in_parts(&ranges, 1024), expected);
        assert!(in_parts(&[], 4).is_empty());
    }

    #[test]
    fn distant_and_empty_ranges_stay_apart() {
        let spans = covering_spans([
            AddrRange::new(TABLE_BYTES * 10, TABLE_BYTES * 10 + 1),
            AddrRange::new(5, 5),
            AddrRange::new(0, TABLE_BYTES + 1),
        ]);
        assert_eq!(
            spans,
            [
                TableSpan {
                    first: TableNo(0),
                    end: TableNo(2)
                },
                TableSpan {
                    first: TableNo(10),
                    end: TableNo(11)
                },
            ]
        );
    }
}
