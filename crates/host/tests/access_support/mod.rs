//! What the live tests of access sources share: a program to watch, and what a walk saw of it.
#![allow(dead_code, unused_macros, reason = "a test binary uses a part of it")]

pub(crate) use crate::support::programs;

use std::collections::BTreeMap;
use std::fs;

use strata_linux::access::{
    AccessSource, Bits512, ClearIntent, Cleared, Clearer, Grain, TableRecord, TableShape, WalkCost,
    YoungPiece,
};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TableSpan, covering_spans};
use strata_linux::process::Process;

use programs::Touch;

/// Opens the BPF source, or ends the test it stands in with the reason why that can't be.
#[macro_export]
macro_rules! open_bpf {
    () => {
        $crate::or_skip!(strata_linux::access::BpfSource::open())
    };
}

/// What is known of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Page {
    Old,
    Young,
    Swapped,
    Special,
    ProtNone,
    Other,
}

/// What one walk saw of a `touch` region, by page number of the region.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) pages: BTreeMap<u64, Page>,
    pub(crate) nr_huge: u64,
    pub(crate) nr_dirty: u64,
    pub(crate) cost: WalkCost,
}

impl Seen {
    /// Pages in this state, sorted.
    pub(crate) fn all(&self, state: Page) -> Vec<u64> {
        let found = self.pages.iter().filter(|(_, page)| **page == state);
        found.map(|(number, _)| *number).collect()
    }
}

pub(crate) fn spans_of(touch: &Touch) -> Vec<TableSpan> {
    covering_spans([region_of(touch)])
}

pub(crate) fn region_of(touch: &Touch) -> AddrRange {
    AddrRange::new(touch.address, touch.page_address(touch.nr_pages))
}

pub(crate) fn process_of(touch: &Touch) -> Process {
    Process::open(touch.pid).expect("touch runs")
}

pub(crate) fn bit(bits: &Bits512, index: u64) -> bool {
    bits.0[index as usize / 64] >> (index % 64) & 1 == 1
}

pub(crate) fn ones(bits: &Bits512) -> u64 {
    bits.0.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Walks the region of `touch`, and holds every record to what the seam promises.
pub(crate) fn walk(source: &mut dyn AccessSource, touch: &Touch) -> Seen {
    let mut seen = Seen::default();
    let mut last_table = None;
    let region = region_of(touch);
    let cost = source.read(&process_of(touch), &spans_of(touch), &mut |record| {
        assert!(last_table < Some(record.table), "tables come by address");
        last_table = Some(record.table);
        check(record);
        seen.nr_huge += u64::from(record.shape == TableShape::Huge);
        for index in 0..512 {
            let addr = record.table.entry_addr(index as usize);
            let Some(page) = state(record, index).filter(|_| region.contains(addr)) else {
                continue;
            };
            seen.nr_dirty += u64::from(bit(&record.dirty, index));
            seen.pages.insert((addr - region.start) / PAGE_BYTES, page);
        }
    });
    seen.cost = cost.expect("walk");
    seen
}

fn state(record: &TableRecord, index: u64) -> Option<Page> {
    let states = [
        (&record.accessed, Page::Young),
        (&record.present, Page::Old),
        (&record.swapped, Page::Swapped),
        (&record.special, Page::Special),
        (&record.protnone, Page::ProtNone),
        (&record.migrating, Page::Other),
    ];
    states
        .iter()
        .find(|(bits, _)| bit(bits, index))
        .map(|(_, page)| *page)
}

/// The promises of `TableRecord`: disjoint states, accessed and dirty only of what is present,
/// something in it at all.
pub(crate) fn check(record: &TableRecord) {
    let states = [
        &record.present,
        &record.swapped,
        &record.special,
        &record.protnone,
        &record.migrating,
    ];
    let mut union = Bits512::default();
    for bits in states {
        for (sum, word) in union.0.iter_mut().zip(bits.0) {
            assert_eq!(*sum & word, 0, "states overlap: {record:?}");
            *sum |= word;
        }
    }
    assert!(ones(&union) > 0, "an empty table was reported");
    for word in 0..8 {
        let present = record.present.0[word];
        assert_eq!(record.accessed.0[word] & !present, 0);
        assert_eq!(record.dirty.0[word] & !present, 0);
        let protnone = record.protnone.0[word];
        assert_eq!(record.protnone_accessed.0[word] & !protnone, 0);
        assert_eq!(record.protnone_dirty.0[word] & !protnone, 0);
        assert_eq!(record.inactive.0[word] & !present, 0);
    }
    if record.shape == TableShape::Huge {
        assert!(
            [0, 512].contains(&ones(&record.present)),
            "half a huge page"
        );
    }
}

/// Clears by `clear_refs` the region's accessed bits, and what processors remember of them: a translation that was
/// kept is used without setting the bit again, and those of 1 GiB in huge pages can all be kept (13 of
/// 170 once were).
pub(crate) fn clear(touch: &mut Touch) {
    // Whatever its size: it is the walk that is tested here.
    let directory = process_of(touch).space_dir().expect("it runs");
    fs::write(directory.join("clear_refs"), "1").expect("its accessed bits can be cleared");
    touch.ask("flush");
}

/// Clears the ranges of a program that has so many pages in memory.
pub(crate) fn clear_ranges(
    touch: &Touch,
    ranges: &[AddrRange],
    nr_pages: u64,
    intent: ClearIntent,
) -> Cleared {
    Clearer::new(Grain::Page)
        .clear_all(
            &process_of(touch),
            &YoungPiece::of_ranges(ranges),
            [nr_pages, 0],
            intent,
        )
        .expect("its accessed bits can be cleared")
}

/// Asserts that at most 1 % of `truth` is missing from `seen`, and at most 1 % more is there. Both
/// sorted.
#[track_caller]
pub(crate) fn assert_within_1_percent(seen: &[u64], truth: &[u64]) {
    let (missing, spurious) = difference(seen, truth);
    assert!(
        missing.max(spurious) * 100 <= truth.len(),
        "of {}: {missing} missing, {spurious} beside",
        truth.len()
    );
}

/// How many of `truth` are missing from `seen`, and how many more are there. Both sorted.
pub(crate) fn difference(seen: &[u64], truth: &[u64]) -> (usize, usize) {
    let beside = |of: &[u64], all: &[u64]| {
        let is_beside = |page: &&u64| all.binary_search(page).is_err();
        of.iter().filter(is_beside).count()
    };
    (beside(truth, seen), beside(seen, truth))
}
