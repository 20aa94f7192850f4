//! One pass over a request: look, advise, look again, judge.
//!
//! ```text
//!   entries before ---- nothing there, or a collapsed huge page ----> Gone
//!        |  \---------- accessed ------------------------------------> Referenced (+ look-around)
//!        |   \--------- zero page, PFN map --------------------------> Unevictable
//!        |    \-------- page of a file that must be written ----------> Dirty
//!     advise ---------- refused ------------------------------------> Unevictable
//!        |    \-------- no capability, no space, stopped -------------> NotTried
//!   entries after ----- absent -------------------------------------> Evicted (Gone if unmapped)
//!             \-------- accessed ------------------------------------> Referenced
//!              \------- still there ---------------------------------> Shared, Dirty, Busy, ...
//!               \------ unmapped but still in the page cache ---------> Busy
//! ```
//!
//! Pages go in address order, in chunks small enough that what was read before is still true.
//! Where each run is judged as one, a run that was one huge page and is split by now is taken only if
//! none of its pages was accessed, and counts as evicted only when all of them are gone. Where pages
//! are judged, each is by itself, but a huge page goes whole: it has one accessed bit, and so one age.
//!
//! **Owns** the request, its report and that sequence. **Does not own** the thread (`pageout`).
//!
//! **Invariants** I1: what goes of a run is what it names, but where pages are judged for the rest of
//! a huge page that it begins or ends in.

use std::sync::Arc;

use strata_lru::Verdict;

use super::advise::{Advised, PageoutError};
use super::leftover::{Leftover, Look};
use super::observe::{Slots, Tables, resident};
use super::put_away::PutAway;
use super::units::{left_and_gone, overlaps, units, untried};
use super::worker::StopFlag;
use crate::access::{AccessError, AccessSource, Grain, TableRecord, TableShape};
use crate::addr::{AddrRange, PAGE_BYTES, TABLE_ENTRIES, TableNo, covering_spans, in_parts};
use crate::process::Process;
use strata_lru::bits::{self, Bits};

/// Base pages handled between two looks at the entries.
const CHUNK_PAGES: u64 = 4096;

/// What is judged as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Each run: a page, or a huge page, that its caller knows as such. None lies in two tables.
    Run,
    /// What the kernel maps as one: a page, or a huge page.
    Page,
}

/// Pages of one process to take.
#[derive(Debug)]
pub struct PageoutRequest {
    /// Chosen by the caller and given back.
    pub space: u32,
    /// Whose pages.
    pub process: Arc<Process>,
    /// Addresses of which whatever is there is to be taken: whole pages, in order, none twice.
    pub runs: Vec<AddrRange>,
    /// What of the runs is judged as one.
    pub unit: Unit,
    /// Huge pages that are to be split first, in any order; few, for they are not throttled.
    pub splits: Vec<TableNo>,
}

/// What became of a request.
#[derive(Clone, Debug, Default)]
pub struct PageoutReport {
    /// As in the request.
    pub space: u32,
    /// What became of the runs, in order; neighbours that fared alike are one.
    pub runs: Vec<(AddrRange, Verdict)>,
    /// Addresses of accessed pages around pages that turned out to be accessed.
    pub young_neighbours: Vec<u64>,
    /// Pages that were found accessed just before, in every table that a page of the request lies in.
    pub accessed: Vec<(TableNo, Bits)>,
    /// Base pages the kernel was asked to take (tried).
    pub nr_tried_pages: u64,
    /// Base pages that left memory (applied).
    pub nr_evicted_pages: u64,
    /// Calls of `process_madvise`.
    pub nr_calls: u64,
    /// Ranges in them.
    pub nr_ranges: u64,
    /// From start to end, throttling included, nanoseconds.
    pub wall_ns: u64,
    /// CPU time of the thread, nanoseconds.
    pub cpu_ns: u64,
    /// Why pages were left untried, if they were.
    pub error: Option<PageoutError>,
}

/// What the first look decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// No need to touch it.
    Settled(Verdict),
    /// To be advised; so many of its pages are resident.
    Candidate {
        nr_resident_pages: u64,
        /// Address of the first resident page of the target, and the dirty bit of that page's entry.
        first: (u64, bool),
    },
}

/// A target that is advised.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    /// Place of the target in the chunk.
    index: usize,
    target: Slots,
    nr_resident_pages: u64,
    look: Look,
}

/// The tools of a pass; kept between requests.
#[derive(Debug)]
pub(super) struct Pass {
    source: Box<dyn AccessSource>,
    grain: Grain,
    leftover: Leftover,
    put_away: PutAway,
}

impl Pass {
    pub(super) fn new(source: Box<dyn AccessSource>) -> Pass {
        let grain = source.info().grain;
        Pass {
            source,
            grain,
            leftover: Leftover::new(),
            put_away: PutAway::default(),
        }
    }

    /// Handles every page; `between` is called after each chunk (a throttle).
    pub(super) fn run(
        &mut self,
        request: &PageoutRequest,
        stop: &StopFlag,
        report: &mut PageoutReport,
        between: &mut dyn FnMut(),
    ) {
        let process = request.process.as_ref();
        if !stop.is_set() {
            self.split(process, &request.splits, stop, report);
        }
        for part in in_parts(&request.runs, CHUNK_PAGES) {
            match !stop.is_set() && self.may_go_on(process, report) {
                true => {
                    let verdicts = self.chunk(process, &part, request.unit, stop, report);
                    verdicts.into_iter().for_each(|of| note_run(report, of));
                    between();
                }
                false => untried(part).for_each(|of| note_run(report, of)),
            }
        }
        if !process.is_space_current() {
            // Every address means something else now, or nothing at all.
            for (_, verdict) in &mut report.runs {
                if *verdict == Verdict::NotTried {
                    *verdict = Verdict::Gone;
                }
            }
            report.error = None;
        }
    }

    fn may_go_on(&self, process: &Process, report: &PageoutReport) -> bool {
        report.error.is_none() && process.is_space_current()
    }

    /// Splits huge pages, so that their parts can be told apart and taken one by one; what is not huge any more is left alone.
    ///
    /// The kernel splits a huge page when it is asked to reclaim a part of it, so one base page of each is asked for. Of
    /// anonymous memory that part goes and the rest stays mapped, page by page; of a file no entry is left, and what is in
    /// use comes back by minor faults, nothing being read.
    fn split(
        &mut self,
        process: &Process,
        huge: &[TableNo],
        stop: &StopFlag,
        report: &mut PageoutReport,
    ) {
        if huge.is_empty() || !process.is_space_current() {
            return;
        }
        let mut huge = huge.to_vec();
        huge.sort_unstable();
        let part_of = |no: &TableNo| AddrRange::new(no.start(), no.start() + PAGE_BYTES);
        let Some(tables) = self.look(process, huge.iter().map(part_of), report) else {
            return;
        };
        let is_huge = |no: &TableNo| {
            let record = tables.get(*no);
            record.is_some_and(|record| record.shape == TableShape::Huge)
        };
        huge.retain(is_huge);
        let parts: Vec<AddrRange> = huge.iter().map(part_of).collect();
        self.advise(process, &parts, stop, report);
    }

    /// Asks the kernel to take these.
    fn advise(
        &mut self,
        process: &Process,
        ranges: &[AddrRange],
        stop: &StopFlag,
        report: &mut PageoutReport,
    ) -> Advised {
        // Where swap is slow, all calls of a chunk take longer than a thread may do nothing.
        let note_step = || stop.note_step();
        let mut advised = self.put_away.advise(process, ranges, note_step);
        report.nr_calls += advised.nr_calls;
        report.nr_ranges += advised.nr_ranges;
        report.error = advised.error.take();
        advised
    }

    /// Takes what is in these ranges; the verdict of each, or of each part that is judged by itself.
    fn chunk(
        &mut self,
        process: &Process,
        ranges: &[AddrRange],
        unit: Unit,
        stop: &StopFlag,
        report: &mut PageoutReport,
    ) -> Vec<(AddrRange, Verdict)> {
        let Some(tables) = self.look(process, ranges.iter().copied(), report) else {
            return untried(ranges.iter().copied()).collect();
        };
        report.accessed.extend(tables.accessed());
        let targets = match unit {
            Unit::Run => ranges.iter().copied().flat_map(Slots::of_range).collect(),
            Unit::Page => units(&tables, ranges),
        };
        let mut results: Vec<(AddrRange, Verdict)> =
            untried(targets.iter().map(|target| target.range())).collect();
        let mut candidates: Vec<Candidate> = Vec::with_capacity(targets.len());
        let mut young: Vec<(TableNo, Bits)> = Vec::new();
        for (index, (target, (_, result))) in targets.into_iter().zip(&mut results).enumerate() {
            match judge_before(&tables, target) {
                Before::Settled(verdict) => {
                    *result = verdict;
                    if verdict == Verdict::Referenced {
                        note_young(&tables, target, &mut young);
                    }
                }
                Before::Candidate {
                    nr_resident_pages,
                    first: (addr, is_dirty),
                } => match self.leftover.look(process, addr, is_dirty) {
                    Look::MustBeWritten => *result = Verdict::Dirty,
                    look => candidates.push(Candidate {
                        index,
                        target,
                        nr_resident_pages,
                        look,
                    }),
                },
            }
        }
        report
            .young_neighbours
            .extend(tables.young_neighbours(&young));
        if candidates.is_empty() {
            return results;
        }
        let mut advised_ranges = Vec::new();
        for candidate in &candidates {
            candidate.target.range().append_to(&mut advised_ranges);
        }
        let advised = self.advise(process, &advised_ranges, stop, report);
        let Some(after) = self.look(process, advised_ranges.iter().copied(), report) else {
            return results;
        };
        let mut parts = Vec::new();
        for candidate in candidates {
            let range = candidate.target.range();
            if overlaps(&advised.untried, range) {
                continue;
            }
            report.nr_tried_pages += candidate.nr_resident_pages;
            let is_unmapped = overlaps(&advised.unmapped, range);
            let (mut verdict, nr_left_pages) =
                self.judge_after(process, &after, &candidate, is_unmapped);
            if verdict == Verdict::Busy && overlaps(&advised.refused, range) {
                verdict = Verdict::Unevictable;
            }
            let nr_evicted_pages = match verdict {
                Verdict::Gone => 0,
                _ => candidate.nr_resident_pages.saturating_sub(nr_left_pages),
            };
            report.nr_evicted_pages += nr_evicted_pages;
            results[candidate.index].1 = verdict;
            if unit == Unit::Page && nr_left_pages > 0 && nr_evicted_pages > 0 {
                let fared = left_and_gone(&after, candidate.target, verdict);
                parts.push((candidate.index, fared));
            }
        }
        for (index, parts) in parts.into_iter().rev() {
            results.splice(index..=index, parts);
        }
        results
    }

    fn look(
        &mut self,
        process: &Process,
        ranges: impl Iterator<Item = AddrRange>,
        report: &mut PageoutReport,
    ) -> Option<Tables> {
        let spans = covering_spans(ranges);
        let pid = process.pid();
        let tables = Tables::read(self.source.as_mut(), self.grain, process, &spans);
        let failed = |error| match error {
            AccessError::ProcessGone(_) => PageoutError::NoSpace(pid),
            error => PageoutError::Failed {
                pid,
                why: error.to_string(),
            },
        };
        tables
            .map_err(|error| report.error = Some(failed(error)))
            .ok()
    }

    /// The verdict on one target that was advised, and how many of its pages are left.
    fn judge_after(
        &mut self,
        process: &Process,
        after: &Tables,
        candidate: &Candidate,
        is_unmapped: bool,
    ) -> (Verdict, u64) {
        let target = candidate.target;
        let nothing = TableRecord::empty(target.table, TableShape::Pages);
        let record = after.get(target.table).unwrap_or(&nothing);
        let left = target.of(resident(record));
        let mut nr_left_pages = bits::count(left);
        let verdict = match first_of(left, record) {
            _ if target.has_any(record.accessed) => Verdict::Referenced,
            Some((addr, is_dirty)) => match self.leftover.verdict(process, addr, is_dirty) {
                // It may have gone since; the next walk will tell.
                Verdict::Evicted if nr_left_pages > 1 => Verdict::Busy,
                Verdict::Evicted => {
                    nr_left_pages = 0;
                    Verdict::Evicted
                }
                verdict => verdict,
            },
            None if target.has_any(record.migrating) => Verdict::Busy,
            None if is_unmapped && !target.has_any(record.swapped) => Verdict::Gone,
            // Unmapped, but not freed.
            None if self.is_still_cached(candidate) => {
                nr_left_pages = candidate.nr_resident_pages;
                Verdict::Busy
            }
            None => Verdict::Evicted,
        };
        (verdict, nr_left_pages)
    }

    fn is_still_cached(&self, candidate: &Candidate) -> bool {
        match candidate.look {
            Look::Cached { frame, is_shmem } => self.leftover.is_still_cached(frame, is_shmem),
            Look::Anon | Look::MustBeWritten => false,
        }
    }
}

/// Adds what became of the next range of the runs.
fn note_run(report: &mut PageoutReport, (range, verdict): (AddrRange, Verdict)) {
    match report.runs.last_mut() {
        Some((last, of_last)) if *of_last == verdict && last.end == range.start => {
            last.end = range.end;
        }
        _ => report.runs.push((range, verdict)),
    }
}

fn judge_before(tables: &Tables, target: Slots) -> Before {
    let Some(record) = tables.get(target.table) else {
        return Before::Settled(Verdict::Gone);
    };
    if record.shape == TableShape::Huge && target.end - target.first < TABLE_ENTRIES {
        // The page was collapsed into a huge one, which is another folio.
        return Before::Settled(Verdict::Gone);
    }
    let here = target.of(resident(record));
    match first_of(here, record) {
        _ if target.has_any(record.accessed) => Before::Settled(Verdict::Referenced),
        None if target.has_any(record.special) => Before::Settled(Verdict::Unevictable),
        None if target.has_any(record.migrating) => Before::Settled(Verdict::Busy),
        None => Before::Settled(Verdict::Gone),
        Some(first) => Before::Candidate {
            nr_resident_pages: bits::count(here),
            first,
        },
    }
}

/// Address and dirty bit of the first page of `pages`.
fn first_of(pages: Bits, record: &TableRecord) -> Option<(u64, bool)> {
    let index = bits::ones(pages).next()?;
    let addr = record.table.entry_addr(index);
    Some((addr, bits::has(&record.dirty, index)))
}

/// Notes the accessed slots of a base page for the look-around; targets come in address order.
fn note_young(tables: &Tables, target: Slots, young: &mut Vec<(TableNo, Bits)>) {
    let Some(record) = tables.get(target.table) else {
        return;
    };
    let found = target.of(record.accessed);
    match young.last_mut() {
        Some((table, all)) if *table == target.table => *all = bits::or(*all, found),
        _ => young.push((target.table, found)),
    }
}
