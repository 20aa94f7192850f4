//! What is judged as one where whole runs of addresses are taken: huge pages, and pages.
//!
//! **Owns** the arithmetic on ranges and tables. **Does not own** what is asked of the kernel (`pass`).

use strata_lru::Verdict;

use super::observe::{Slots, Tables, resident};
use crate::access::TableShape;
use crate::addr::{AddrRange, TABLE_ENTRIES};
use strata_lru::bits;

/// Ranges that nothing was done to.
pub(super) fn untried(
    ranges: impl IntoIterator<Item = AddrRange>,
) -> impl Iterator<Item = (AddrRange, Verdict)> {
    ranges.into_iter().map(|range| (range, Verdict::NotTried))
}

/// What the kernel maps as one in these ranges: huge pages, whole, and pages.
pub(super) fn units(tables: &Tables, ranges: &[AddrRange]) -> Vec<Slots> {
    let mut units: Vec<Slots> = Vec::new();
    for slots in ranges.iter().copied().flat_map(Slots::of_range) {
        match tables.get(slots.table).map(|record| record.shape) {
            Some(TableShape::Huge) => {
                let whole = slots.part(0, TABLE_ENTRIES);
                if units.last() != Some(&whole) {
                    units.push(whole);
                }
            }
            Some(TableShape::Pages) => units.extend(slots.pages()),
            None => units.push(slots),
        }
    }
    units
}

/// The pages of a target of which some are left, for this reason.
pub(super) fn left_and_gone(
    after: &Tables,
    target: Slots,
    why: Verdict,
) -> Vec<(AddrRange, Verdict)> {
    let left = after.get(target.table);
    let left = left.map_or(bits::NONE, |of| bits::or(resident(of), of.migrating));
    let fared = |page: Slots| match page.has_any(left) {
        true => (page.range(), why),
        false => (page.range(), Verdict::Evicted),
    };
    target.pages().map(fared).collect()
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

    #[test]
    fn overlap_is_by_byte_not_by_touch() {
        let ranges = [AddrRange::of_pages(2, 2), AddrRange::of_pages(8, 1)];
        let hit = |first, nr| overlaps(&ranges, AddrRange::of_pages(first, nr));
        assert!(!hit(0, 2) && hit(0, 3) && hit(3, 1) && !hit(4, 4) && hit(4, 5) && !hit(9, 9));
    }

    #[test]
    fn a_run_is_judged_page_by_page_but_a_huge_page_that_it_touches_as_a_whole() {
        let huge = TableRecord::empty(TableNo(1), TableShape::Huge);
        let small = TableRecord::empty(TableNo(2), TableShape::Pages);
        let tables = Tables(vec![huge, small]);
        let runs = [
            AddrRange::of_pages(500, 20),
            AddrRange::of_pages(600, 100),
            AddrRange::of_pages(1000, 26),
        ];
        let found = units(&tables, &runs).into_iter().map(Slots::range);
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                AddrRange::of_pages(500, 12),
                AddrRange::of_pages(512, 512),
                AddrRange::of_pages(1024, 1),
                AddrRange::of_pages(1025, 1)
            ]
        );
    }

    #[test]
    fn of_a_huge_page_of_which_a_part_is_left_the_rest_is_gone() {
        let mut left = TableRecord::empty(TableNo(1), TableShape::Pages);
        left.present[0] = 0b10;
        let after = Tables(vec![left]);
        let whole = Slots {
            table: TableNo(1),
            first: 0,
            end: TABLE_ENTRIES,
        };
        let parts = left_and_gone(&after, whole, Verdict::Busy);
        let expected = [
            (AddrRange::of_pages(512, 1), Verdict::Evicted),
            (AddrRange::of_pages(513, 1), Verdict::Busy),
            (AddrRange::of_pages(514, 1), Verdict::Evicted),
        ];
        assert_eq!(parts[..3], expected);
    }
}
