//! The walk over page tables, by what can't be seen from outside of it: every state of an entry is told apart, mappings have
//! the flags that smaps tells, and what is cleared is what was asked for. That it finds what was accessed is told by `wss`.

use crate::support::prelude::*;

use strata_linux::access::{
    AccessSource, BpfSource, ClearIntent, Clearer, Grain, SmapsSource, TableRecord, TableShape,
    YoungPiece,
};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TableSpan, covering_spans};
use strata_linux::process::{Process, VmFlags};
use strata_lru::bits::{self, Bits};

/// Opens the BPF source, or ends the test it stands in with the reason why that can't be.
#[macro_export]
macro_rules! open_bpf {
    () => {
        match strata_linux::access::BpfSource::open() {
            Ok(source) => source,
            Err(error) => $crate::skip!("{error}"),
        }
    };
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

pub(crate) fn bit(bits: &Bits, index: u64) -> bool {
    bits::has(bits, index as usize)
}

/// What is known of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Old,
    Young,
    Swapped,
    Special,
    ProtNone,
    Other,
}

/// What one walk saw of a `touch` region, by page number of the region.
#[derive(Debug, Default)]
struct Seen {
    pages: BTreeMap<u64, Page>,
    nr_huge: u64,
    nr_dirty: u64,
}

impl Seen {
    /// Pages in this state, sorted.
    fn all(&self, state: Page) -> Vec<u64> {
        let found = self.pages.iter().filter(|(_, page)| **page == state);
        found.map(|(number, _)| *number).collect()
    }
}

/// Walks the region of `touch`, and holds every record to what the seam promises.
fn walk(source: &mut BpfSource, touch: &Touch) -> Seen {
    let mut seen = Seen::default();
    let mut last_table = None;
    let region = region_of(touch);
    let read = source.read(&process_of(touch), &spans_of(touch), &mut |record| {
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
    read.expect("walk");
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
    let found = states.iter().find(|(bits, _)| bit(bits, index));
    found.map(|(_, page)| *page)
}

/// The promises of `TableRecord`: disjoint states, accessed and dirty only of what is present,
/// something in it at all.
fn check(record: &TableRecord) {
    let mut nr_entries = 0;
    for word in 0..8 {
        let [present, swapped, special, protnone, migrating] = [
            &record.present,
            &record.swapped,
            &record.special,
            &record.protnone,
            &record.migrating,
        ]
        .map(|bits| bits[word]);
        let states = [present, swapped, special, protnone, migrating];
        let union = states.iter().fold(0, |all, bits| all | bits);
        let sum: u32 = states.iter().map(|bits| bits.count_ones()).sum();
        assert_eq!(union.count_ones(), sum, "states overlap: {record:?}");
        nr_entries += sum;
        assert_eq!(record.accessed[word] & !present, 0);
        assert_eq!(record.dirty[word] & !present, 0);
        assert_eq!(record.protnone_accessed[word] & !protnone, 0);
        assert_eq!(record.protnone_dirty[word] & !protnone, 0);
        assert_eq!(record.inactive[word] & !present, 0);
        let is_whole = record.shape != TableShape::Huge || [0, u64::MAX].contains(&present);
        assert!(is_whole, "half a huge page");
    }
    assert!(nr_entries > 0, "an empty table was reported");
}

#[test]
fn zero_pages_locked_out_pages_and_holes_are_told_apart() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "8M"]);
    touch.ask("readrange 0 100");
    touch.ask("writerange 100 100");
    touch.ask("writerange 200 100");
    touch.ask("protect none 200 100");
    touch.ask("writerange 300 100");
    touch.ask("advise dontneed 300 100");
    let seen = walk(&mut source, &touch);
    assert_eq!(seen.all(Page::Special), Vec::from_iter(0..100));
    assert_eq!(seen.all(Page::Young), Vec::from_iter(100..200));
    assert_eq!(seen.all(Page::ProtNone), Vec::from_iter(200..300));
    assert_eq!((seen.pages.len(), seen.nr_dirty), (300, 100));
    touch.ask("unmap 0 512");
    touch.ask("writerange 600 1");
    let seen = walk(&mut source, &touch);
    assert_eq!(seen.all(Page::Young), [600]);
    assert_eq!(seen.pages.len(), 1);
}

#[test]
fn the_huge_zero_page_is_nobodys_page() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "32M", "--thp"]);
    touch.ask("readrange 0 2048");
    touch.ask("writerange 4096 1024");
    let seen = walk(&mut source, &touch);
    if seen.nr_huge < 6 {
        skip!("the kernel gave {} of 6 huge pages", seen.nr_huge);
    }
    assert_eq!(seen.all(Page::Special), Vec::from_iter(0..2048));
    assert_eq!(seen.all(Page::Young), Vec::from_iter(4096..5120));
    touch.ask("writerange 0 512");
    assert_eq!(walk(&mut source, &touch).all(Page::Special).len(), 1536);
}

#[test]
fn clearing_young_ranges_leaves_the_rest_alone() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask(&format!("writerange 0 {}", touch.nr_pages));
    let clear = |touch: &Touch, pages: &[u64]| {
        let range = |page| AddrRange::new(touch.page_address(page), touch.page_address(page + 1));
        let ranges: Vec<AddrRange> = pages.iter().copied().map(range).collect();
        let pieces = YoungPiece::of_ranges(&ranges);
        let in_memory = [touch.nr_pages, 0];
        Clearer::new(Grain::Page)
            .clear_all(&process_of(touch), &pieces, in_memory, ClearIntent::Pageout)
            .expect("its accessed bits can be cleared");
    };
    // Sparse enough that going over the ranges is the cheaper way.
    // The pages faulted last wait in a CPU's batch for their list, where MADV_COLD can't take them.
    let cold = page_set(5, 200, touch.nr_pages - 256);
    clear(&touch, &cold);
    let old = walk(&mut source, &touch).all(Page::Old);
    assert!(cold.iter().all(|page| old.contains(page)), "{old:?}");
    // The kernel ages a page of its own accord now and then.
    let nr_more = (old.len() - cold.len()) as u64;
    assert!(nr_more * 100 <= touch.nr_pages, "{nr_more}");
    // A range that is gone meanwhile does not keep those behind it from being cleared.
    touch.ask("unmap 100 50");
    clear(&touch, &Vec::from_iter((0..40).map(|at| at * 20)));
    let old = walk(&mut source, &touch).all(Page::Old);
    assert!(old.contains(&0) && old.contains(&(39 * 20)), "{old:?}");
}

#[test]
fn bpf_and_smaps_agree_on_every_mapping() {
    let mut bpf = open_bpf!();
    let mut touch = Touch::start(["--size", "4M"]);
    touch.ask("lock 100 10");
    touch.ask("advise random 300 10");
    touch.ask("protect read 500 10");
    let process = process_of(&touch);
    let all = [
        VmFlags::PFNMAP,
        VmFlags::LOCKED,
        VmFlags::IO,
        VmFlags::SEQ_READ,
        VmFlags::RAND_READ,
        VmFlags::HUGETLB,
        VmFlags::MIXEDMAP,
    ];
    let known = all.into_iter().reduce(VmFlags::union).unwrap();
    let by_bpf = bpf.vm_flags(&process).unwrap();
    let masked = by_bpf
        .iter()
        .map(|(range, flags)| (*range, VmFlags(flags.0 & known.0)));
    let masked: Vec<_> = masked.collect();
    let mut by_smaps = SmapsSource::new().vm_flags(&process).unwrap();
    // vsyscall has an address that no process maps, and smaps lists it all the same.
    by_smaps.retain(|(range, _)| range.start < 1 << 63);
    assert_eq!(masked, by_smaps);
    let at = |page| {
        let addr = touch.page_address(page);
        let found = masked.iter().find(|(range, _)| range.contains(addr));
        found.unwrap().1
    };
    assert!(at(105).intersects(VmFlags::LOCKED));
    assert!(at(305).intersects(VmFlags::RAND_READ));
    assert!(!at(0).intersects(VmFlags::LOCKED));
}
