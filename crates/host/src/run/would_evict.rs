//! What a dry run would have evicted.
//!
//! ```text
//!   loop -- pages decided on --> Taker: "evicted"    walk <-- what would be in memory -- Played <-- source
//!   thread of page cache -- how many pages it plays to have dropped
//! ```
//!
//! A dry run takes nothing, and plays that it did. The engine is told that the pages it decided on are gone. Walks leave
//! these pages out until the program uses one: then the page has come back. So the loop decides on as much as a run would
//! take, and each page counts once.
//!
//! **Owns** the mapped pages that would be out of memory, the kinds of mappings they lie in, and the sum with page cache. **Does not
//! own** the decision (the engine), which page cache would be out (`actuator::cache`), nor what of it is told.
//!
//! **Invariants** W1: a page that would be out is in memory and was not used since it was decided on, as of the last walk or
//! census. W2: what a program that has ended used is not taken off usage.

use crate::run::config::RunConfig;
use crate::run::report::{WouldEvictReport, WouldEvictShare};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use strata_control::FreeSwap;
use strata_linux::access::{
    AccessError, AccessSource, SourceInfo, TableRecord, TableShape, WalkCost,
};
use strata_linux::actuator::{PageoutReport, PageoutRequest};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TableNo, TableSpan};
use strata_linux::process::{
    Mapping, MappingClass, MemoryDevices, Process, VmFlags, classify, mapping_at,
};
use strata_linux::swap::{SwapSpec, known_free_swap_bytes};
use strata_lru::Verdict;
use strata_lru::bits::{self, Bits};

/// The kind of mapping that pages lie in, as it is told.
type Name = &'static str;
/// The name of mapped pages that do not go to swap.
const FILES: Name = "files";
/// The name of page cache that nobody has mapped.
const PAGE_CACHE: Name = "page cache";

/// The pages of one program that would be out.
#[derive(Debug)]
struct Program {
    process: Arc<Process>,
    out: BTreeMap<TableNo, BTreeMap<Name, Bits>>,
}

impl Program {
    /// All pages of a table that would be out.
    fn out_of(&self, table: TableNo) -> Bits {
        let parts = self.out.get(&table).into_iter().flat_map(BTreeMap::values);
        parts.fold(bits::NONE, |all, part| bits::or(all, *part))
    }

    /// Of a table only these pages are out any more.
    fn keep(&mut self, table: TableNo, kept: Bits) {
        if let Some(parts) = self.out.get_mut(&table) {
            parts.retain(|_, part| {
                *part = bits::and(*part, kept);
                !bits::is_empty(*part)
            });
            if parts.is_empty() {
                self.out.remove(&table);
            }
        }
    }
}

/// What is known of all programs.
#[derive(Debug, Default)]
struct Pages {
    /// By where the process is held, so that one that has replaced its address space is another.
    programs: BTreeMap<usize, Program>,
    /// Page cache that would be out.
    nr_cache_pages: u64,
    most: WouldEvictReport,
}

fn key(process: &Process) -> usize {
    std::ptr::from_ref(process).addr()
}

impl Pages {
    /// Forgets programs that have ended.
    fn forget_ended(&mut self) {
        self.programs
            .retain(|_, of| of.process.is_alive() && of.process.is_space_current());
    }

    /// By kind of mapping, page cache that nobody has mapped besides.
    fn shares(&self) -> BTreeMap<Name, u64> {
        let mut shares = BTreeMap::new();
        let tables = self.programs.values().flat_map(|of| of.out.values());
        for (name, part) in tables.flatten() {
            *shares.entry(*name).or_default() += bits::count(*part);
        }
        if self.nr_cache_pages > 0 {
            shares.insert(PAGE_CACHE, self.nr_cache_pages);
        }
        shares
    }

    /// Keeps the moment at which most would be out.
    fn note_most(&mut self) {
        let shares = self.shares();
        let nr_pages = shares.values().sum();
        if nr_pages <= self.most.nr_pages {
            return;
        }
        let shares = shares.into_iter().map(|(name, nr_pages)| WouldEvictShare {
            name: name.to_owned(),
            nr_pages,
        });
        let mut shares: Vec<WouldEvictShare> = shares.collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.nr_pages));
        self.most = WouldEvictReport { nr_pages, shares };
    }
}

/// The pages that a dry run would have evicted; clones are the same.
#[derive(Clone, Debug)]
pub(super) struct WouldEvict {
    /// Size of the swap that a run would have made, bytes.
    made_swap_bytes: u64,
    pages: Arc<Mutex<Pages>>,
}

impl WouldEvict {
    /// Nothing decided yet; `None` for a run that does what it decides.
    pub(super) fn of_dry_run(config: &RunConfig) -> Option<WouldEvict> {
        let made_swap_bytes = match config.swap {
            SwapSpec::Existing => 0,
            SwapSpec::Zram { size_bytes, .. } | SwapSpec::File { size_bytes, .. } => size_bytes,
        };
        config.dry_run.then(|| WouldEvict {
            made_swap_bytes,
            pages: Arc::default(),
        })
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        let pages = self.pages.lock();
        pages.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Plays that a request was carried out.
    pub(super) fn take(&self, request: &PageoutRequest) -> PageoutReport {
        let mappings = mappings(&request.process);
        let mut nr_free_slots = match self.free_swap() {
            FreeSwap::Bytes(bytes) => bytes / PAGE_BYTES,
            FreeSwap::NotKnown => u64::MAX,
        };
        let mut pages = self.pages();
        let of = pages
            .programs
            .entry(key(&request.process))
            .or_insert_with(|| Program {
                process: Arc::clone(&request.process),
                out: BTreeMap::new(),
            });
        let verdict = |run: &AddrRange| {
            let (name, nr_pages) = (name_of(mapping_at(&mappings, run.start)), run.nr_pages());
            if name != FILES {
                if nr_free_slots < nr_pages {
                    return (*run, Verdict::Busy);
                }
                nr_free_slots -= nr_pages;
            }
            let no = TableNo::containing(run.start);
            let part = of.out.entry(no).or_default().entry(name).or_default();
            *part = bits::or(*part, no.covered_by(*run));
            (*run, Verdict::Evicted)
        };
        let runs = request.runs.iter().map(verdict).collect();
        pages.note_most();
        PageoutReport {
            space: request.space,
            runs,
            ..PageoutReport::default()
        }
    }

    /// So much page cache would be out now.
    pub(super) fn note_page_cache(&self, nr_pages: u64) {
        let mut pages = self.pages();
        pages.nr_cache_pages = nr_pages;
        pages.note_most();
    }

    /// Bytes by which usage would be lower now.
    pub(super) fn bytes(&self) -> u64 {
        let mut pages = self.pages();
        pages.forget_ended();
        pages.shares().values().sum::<u64>() * PAGE_BYTES
    }

    /// The swap that would be free now.
    pub(super) fn free_swap(&self) -> FreeSwap {
        let Some(free_bytes) = known_free_swap_bytes() else {
            return FreeSwap::NotKnown;
        };
        let shares = self.pages().shares();
        let swapped = shares
            .iter()
            .filter(|(name, _)| ![FILES, PAGE_CACHE].contains(*name));
        let nr_swapped_pages: u64 = swapped.map(|(_, nr_pages)| nr_pages).sum();
        let bytes = free_bytes.saturating_add(self.made_swap_bytes);
        FreeSwap::Bytes(bytes.saturating_sub(nr_swapped_pages * PAGE_BYTES))
    }

    /// The most that would have been out of memory at a time, largest share first.
    pub(super) fn report(&self) -> WouldEvictReport {
        self.pages().most.clone()
    }

    /// A source that shows what would be in memory.
    pub(super) fn played(self, source: Box<dyn AccessSource>) -> Box<dyn AccessSource> {
        Box::new(Played {
            source,
            would_evict: self,
        })
    }
}

/// What a source would show if the pages that were decided on had been evicted.
#[derive(Debug)]
struct Played {
    source: Box<dyn AccessSource>,
    would_evict: WouldEvict,
}

/// A table without its pages that would be out and were not used since; these pages, too.
fn without_out(record: &TableRecord, out: Bits) -> (TableRecord, Bits) {
    let is_used = record.shape == TableShape::Huge && !bits::is_empty(record.accessed);
    let still_out = match is_used {
        true => bits::NONE,
        false => bits::without(bits::and(out, record.present), record.accessed),
    };
    let played = TableRecord {
        present: bits::without(record.present, still_out),
        dirty: bits::without(record.dirty, still_out),
        inactive: bits::without(record.inactive, still_out),
        // The engine's memory of a page that went ends where nothing is left of the page.
        swapped: bits::or(record.swapped, still_out),
        ..*record
    };
    (played, still_out)
}

impl AccessSource for Played {
    fn info(&self) -> SourceInfo {
        self.source.info()
    }

    fn read(
        &mut self,
        process: &Process,
        spans: &[TableSpan],
        visit: &mut dyn FnMut(&TableRecord),
    ) -> Result<WalkCost, AccessError> {
        let mut pages = self.would_evict.pages();
        let Some(of) = pages.programs.get_mut(&key(process)) else {
            drop(pages);
            return self.source.read(process, spans, visit);
        };
        let mut seen = BTreeSet::new();
        let cost = self.source.read(process, spans, &mut |record| {
            let out = of.out_of(record.table);
            if bits::is_empty(out) {
                return visit(record);
            }
            let (played, still_out) = without_out(record, out);
            of.keep(record.table, still_out);
            seen.insert(record.table);
            visit(&played);
        })?;
        // Tables that were not shown hold nothing any more.
        of.out.retain(|table, _| seen.contains(table));
        Ok(cost)
    }

    fn see_inactive(&mut self, is_wanted: bool) -> bool {
        self.source.see_inactive(is_wanted)
    }

    fn vm_flags(&mut self, process: &Process) -> Result<Vec<(AddrRange, VmFlags)>, AccessError> {
        self.source.vm_flags(process)
    }
}

/// The mappings of a process as they are now; none where it has just ended.
fn mappings(process: &Process) -> Vec<Mapping> {
    let raw = process.read_maps().unwrap_or_default();
    let devices = MemoryDevices::of_process(process.pid()).unwrap_or_default();
    classify(&raw, &[], &devices)
}

/// What a mapping is called in a sum over mappings.
fn name_of(mapping: Option<&Mapping>) -> Name {
    let Some(mapping) = mapping else {
        return "unmapped since";
    };
    match mapping.class {
        MappingClass::Anon => "[anon]",
        MappingClass::Heap => "[heap]",
        MappingClass::Stack => "[stack]",
        MappingClass::Shmem => "shared memory",
        MappingClass::FilePrivate | MappingClass::FileShared => FILES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_linux::access::Grain;
    use strata_linux::actuator::Unit;
    use strata_linux::addr::TABLE_ENTRIES;

    /// One table, as a test says.
    #[derive(Debug)]
    struct One(Arc<Mutex<TableRecord>>);

    impl AccessSource for One {
        fn info(&self) -> SourceInfo {
            SourceInfo {
                name: "test",
                grain: Grain::Page,
                blind_spots: Vec::new(),
            }
        }

        fn read(
            &mut self,
            _process: &Process,
            _spans: &[TableSpan],
            visit: &mut dyn FnMut(&TableRecord),
        ) -> Result<WalkCost, AccessError> {
            visit(&self.0.lock().unwrap());
            Ok(WalkCost::default())
        }

        fn vm_flags(
            &mut self,
            _process: &Process,
        ) -> Result<Vec<(AddrRange, VmFlags)>, AccessError> {
            Ok(Vec::new())
        }
    }

    const SWAP_BYTES: u64 = 64 << 20;

    fn would_evict() -> WouldEvict {
        WouldEvict {
            made_swap_bytes: SWAP_BYTES,
            pages: Arc::default(),
        }
    }

    fn ourselves() -> Arc<Process> {
        Arc::new(Process::open(std::process::id() as i32).expect("ourselves"))
    }

    fn request(process: &Arc<Process>, addrs: &[u64]) -> PageoutRequest {
        let page = |addr: &u64| AddrRange::new(*addr, addr + PAGE_BYTES);
        PageoutRequest {
            space: 7,
            process: Arc::clone(process),
            runs: addrs.iter().map(page).collect(),
            unit: Unit::Run,
            splits: Vec::new(),
        }
    }

    #[test]
    fn a_page_is_out_once_until_it_is_used_or_freed() {
        let would = would_evict();
        let process = ourselves();
        // Table 0 is mapped by nobody; the test says what it holds.
        let pages = [0, PAGE_BYTES, 2 * PAGE_BYTES];
        for _ in 0..2 {
            let report = would.take(&request(&process, &pages));
            assert_eq!(report.space, 7);
            let mut runs = report.runs.iter();
            assert!(runs.all(|(_, verdict)| *verdict == Verdict::Evicted));
            assert_eq!(would.bytes(), 3 * PAGE_BYTES, "each page counts once");
        }
        let mut table = TableRecord::empty(TableNo(0), TableShape::Pages);
        table.present = bits::run(0, 5);
        let truth = Arc::new(Mutex::new(table));
        let mut source = would.clone().played(Box::new(One(Arc::clone(&truth))));
        let mut shown = || {
            let mut shown = None;
            let seen = source.read(&process, &[], &mut |record| shown = Some(*record));
            seen.expect("a test's source");
            shown.expect("one table")
        };
        assert_eq!(
            (shown().present, shown().swapped),
            (bits::run(3, 5), bits::run(0, 3))
        );
        // Page 0 is used and comes back; page 1 is freed.
        table.accessed = bits::run(0, 1);
        table.present = bits::without(table.present, bits::run(1, 2));
        *truth.lock().unwrap() = table;
        let now = shown();
        assert_eq!(now.present, bits::or(bits::run(0, 1), bits::run(3, 5)));
        assert_eq!(now.swapped, bits::run(2, 3));
        assert_eq!(would.bytes(), PAGE_BYTES);
        let report = would.report();
        assert_eq!(report.nr_pages, 3, "the most that was out at a time");
        assert_eq!(report.shares.len(), 1);
        assert_eq!(report.shares[0].name, "unmapped since");
        // The table goes.
        *truth.lock().unwrap() = TableRecord::empty(TableNo(5), TableShape::Pages);
        shown();
        assert_eq!(would.bytes(), 0);
    }

    #[test]
    fn pages_are_named_by_their_mappings_and_anonymous_ones_take_swap() {
        let process = ourselves();
        let mappings = mappings(&process);
        let start = |class| {
            let mapping = mappings.iter().find(|mapping| mapping.class == class);
            mapping.expect("every program has one").range.start
        };
        let addrs = [start(MappingClass::Heap), start(MappingClass::FilePrivate)];
        let would = would_evict();
        let free = |would: &WouldEvict| match would.free_swap() {
            FreeSwap::Bytes(bytes) => bytes,
            FreeSwap::NotKnown => panic!("/proc/meminfo is there"),
        };
        assert!(free(&would) >= SWAP_BYTES, "what a run would have made");
        would.take(&request(&process, &addrs));
        let mut names: Vec<String> = would
            .report()
            .shares
            .iter()
            .map(|of| of.name.clone())
            .collect();
        names.sort();
        assert_eq!(names, ["[heap]", "files"]);
        let shares = would.pages().shares();
        assert_eq!((shares["[heap]"], shares[FILES]), (1, 1));
        // Nothing goes to a swap that has no room.
        let full = would_evict();
        let heap = mappings
            .iter()
            .find(|mapping| mapping.class == MappingClass::Heap);
        let heap = heap.expect("a heap").range.start;
        let nr_slots = free(&full) / PAGE_BYTES;
        // Other tests make swap meanwhile.
        let nr_more = nr_slots + (1 << 20);
        let far = (0..nr_more).map(|page| (1 << 40) + page * PAGE_BYTES);
        let all: Vec<u64> = far.chain([heap]).collect();
        let report = full.take(&request(&process, &all));
        let last = report.runs.last().expect("the heap's");
        assert_eq!(last.1, Verdict::Busy, "{nr_slots}");
    }

    #[test]
    fn page_cache_is_a_share_of_its_own_and_takes_no_swap() {
        let would = would_evict();
        let process = ourselves();
        would.take(&request(&process, &[0]));
        // Others on the machine use swap, too.
        let takes_none = (0..1000).any(|_| {
            would.note_page_cache(0);
            let free = would.free_swap();
            would.note_page_cache(5);
            would.free_swap() == free
        });
        assert!(takes_none, "page cache takes swap");
        assert_eq!(would.bytes(), 6 * PAGE_BYTES);
        // Some of it is read again.
        would.note_page_cache(2);
        assert_eq!(would.bytes(), 3 * PAGE_BYTES);
        let report = would.report();
        assert_eq!(report.nr_pages, 6, "the most that was out at a time");
        let shares = report.shares.iter();
        let shares: Vec<_> = shares.map(|of| (of.name.as_str(), of.nr_pages)).collect();
        assert_eq!(shares, [("page cache", 5), ("unmapped since", 1)]);
    }

    #[test]
    fn a_huge_page_that_is_used_comes_back_whole() {
        let mut record = TableRecord::empty(TableNo(0), TableShape::Huge);
        record.present = bits::run(0, TABLE_ENTRIES);
        let (played, still_out) = without_out(&record, record.present);
        assert!(bits::is_empty(played.present));
        assert_eq!(still_out, record.present);
        record.accessed = bits::run(0, 1);
        let (played, still_out) = without_out(&record, record.present);
        assert_eq!(played.present, record.present);
        assert!(bits::is_empty(still_out));
    }
}
