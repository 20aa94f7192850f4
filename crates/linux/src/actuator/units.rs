//! What is judged as one where whole runs of addresses are taken: huge pages, and pages.
//!
//! **Owns** the arithmetic on ranges and tables. **Does not own** what is asked of the kernel (`pass`).

use strata_lru::Verdict;

use super::observe::{Slots, Tables, both, resident};
use crate::access::TableShape;
use crate::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES};

/// Ranges that nothing was done to.
pub(super) fn untried(ranges: &[AddrRange]) -> Vec<(AddrRange, Verdict)> {
    let ranges = ranges.iter().copied();
    ranges.map(|range| (range, Verdict::NotTried)).collect()
}

/// What the kernel maps as one in these ranges: huge pages, whole, and pages.
pub(super) fn units(tables: &Tables, ranges: &[AddrRange]) -> Vec<AddrRange> {
    let mut units: Vec<AddrRange> = Vec::new();
    for slots in ranges.iter().copied().flat_map(Slots::of_range) {
        let start = slots.table.start();
        match tables.get(slots.table).map(|record| record.shape) {
            Some(TableShape::Huge) => {
                let whole = AddrRange::new(start, start + TABLE_BYTES);
                if units.last() != Some(&whole) {
                    units.push(whole);
                }
            }
            Some(TableShape::Pages) => units.extend((slots.first..slots.end).map(|index| {
                let addr = slots.table.entry_addr(index);
                AddrRange::new(addr, addr + PAGE_BYTES)
            })),
            None => {
                let at = |index: usize| start + index as u64 * PAGE_BYTES;
                units.push(AddrRange::new(at(slots.first), at(slots.end)));
            }
        }
    }
    units
}

/// The pages of a range of which some are left, for this reason.
pub(super) fn left_and_gone(
    after: &Tables,
    range: AddrRange,
    why: Verdict,
) -> Vec<(AddrRange, Verdict)> {
    let mut parts = Vec::new();
    for slots in Slots::of_range(range) {
        let left = after
            .get(slots.table)
            .map(|of| both(resident(of), of.migrating));
        let left = left.unwrap_or_default();
        for index in slots.first..slots.end {
            let is_left = left.0[index / 64] >> (index % 64) & 1 != 0;
            let addr = slots.table.entry_addr(index);
            let verdict = if is_left { why } else { Verdict::Evicted };
            parts.push((AddrRange::new(addr, addr + PAGE_BYTES), verdict));
        }
    }
    parts
}

/// Joins ranges (sorted by start) that touch or overlap.
pub(super) fn merge(ranges: impl Iterator<Item = AddrRange>) -> Vec<AddrRange> {
    let mut merged: Vec<AddrRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Whether any of the sorted, disjoint `ranges` has a byte in common with `range`.
pub(super) fn overlaps(ranges: &[AddrRange], range: AddrRange) -> bool {
    let next = ranges.partition_point(|other| other.end <= range.start);
    ranges
        .get(next)
        .is_some_and(|other| other.start < range.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::TableRecord;
    use crate::addr::TableNo;

    fn pages(first: u64, nr_pages: u64) -> AddrRange {
        AddrRange::new(first * PAGE_BYTES, (first + nr_pages) * PAGE_BYTES)
    }

    #[test]
    fn neighbours_become_one_range_and_duplicates_none() {
        let ranges = [
            pages(1, 1),
            pages(2, 1),
            pages(2, 1),
            pages(4, 2),
            pages(6, 1),
        ];
        assert_eq!(merge(ranges.into_iter()), [pages(1, 2), pages(4, 3)]);
    }

    #[test]
    fn overlap_is_by_byte_not_by_touch() {
        let ranges = [pages(2, 2), pages(8, 1)];
        let hit = |first, nr| overlaps(&ranges, pages(first, nr));
        assert!(!hit(0, 2) && hit(0, 3) && hit(3, 1) && !hit(4, 4) && hit(4, 5) && !hit(9, 9));
    }

    #[test]
    fn a_run_is_judged_page_by_page_but_a_huge_page_that_it_touches_as_a_whole() {
        let huge = TableRecord::empty(TableNo(1), TableShape::Huge);
        let small = TableRecord::empty(TableNo(2), TableShape::Pages);
        let tables = Tables(vec![huge, small]);
        let runs = [pages(500, 20), pages(600, 100), pages(1000, 26)];
        let found = units(&tables, &runs);
        assert_eq!(
            found,
            [
                pages(500, 12),
                pages(512, 512),
                pages(1024, 1),
                pages(1025, 1)
            ]
        );
    }

    #[test]
    fn of_a_huge_page_of_which_a_part_is_left_the_rest_is_gone() {
        let mut left = TableRecord::empty(TableNo(1), TableShape::Pages);
        left.present.0[0] = 0b10;
        let after = Tables(vec![left]);
        let parts = left_and_gone(&after, pages(512, 512), Verdict::Busy);
        let expected = [
            (pages(512, 1), Verdict::Evicted),
            (pages(513, 1), Verdict::Busy),
            (pages(514, 1), Verdict::Evicted),
        ];
        assert_eq!(parts[..3], expected);
    }
}
