//! Pageout by its own words, which no command prints page by page: exactly the pages asked for go, with a true verdict for
//! every one. What becomes of kinds of pages and of programs that change meanwhile is told by `park`, `run_shapes` and `policies`.

use crate::support::prelude::*;

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::sync::Arc;
use strata_linux::access::{
    self, AccessChoice, AccessError, AccessSource, ClearIntent, Clearer, Grain, TableShape,
    YoungPiece,
};
use strata_linux::actuator::{
    CpuBound, Pageout, PageoutReport, PageoutRequest, Unit, start_pageout,
};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TableNo, covering_spans};
use strata_linux::process::Process;
use strata_lru::Verdict;

/// A program, seen from outside, whose pages are taken.
struct Bench {
    touch: Touch,
    process: Arc<Process>,
    source: Box<dyn AccessSource>,
    pageout: Pageout,
}

impl Bench {
    /// Of `touch` with these options; an error where accesses of single pages can't be seen.
    fn new(options: &[&str]) -> Result<Bench, AccessError> {
        let [source, other] = [
            access::open(AccessChoice::Bpf),
            access::open(AccessChoice::Bpf),
        ];
        // A page that was touched a moment ago may still be in a batch of the CPU it was touched on, and
        // advice from another CPU finds it busy. Threads and processes started from here on inherit it.
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        sched_setaffinity(None, &here).expect("a CPU we run on");
        let touch = Touch::start(options);
        Ok(Bench {
            process: Arc::new(Process::open(touch.pid).expect("it runs")),
            touch,
            source: source?,
            pageout: start_pageout(other?, 4, CpuBound::default()).expect("a thread starts"),
        })
    }

    /// Clears the accessed bits, as a walk does.
    fn forget_accesses(&self) {
        let young = YoungPiece::of_ranges(&[AddrRange::new(0, PAGE_BYTES)]);
        let cleared =
            Clearer::new(Grain::Page).clear_all(&self.process, &young, [1, 0], ClearIntent::Watch);
        cleared.expect("accessed bits can be cleared");
    }

    fn carry_out(&mut self, runs: Vec<AddrRange>, splits: Vec<TableNo>) -> PageoutReport {
        let request = PageoutRequest {
            space: 7,
            process: Arc::clone(&self.process),
            runs,
            unit: Unit::Run,
            splits,
        };
        let submitted = self.pageout.try_submit(request);
        submitted.expect("nothing else is out");
        let mut report = None;
        wait_until("a report", || {
            report = self.pageout.poll();
            report.is_some()
        });
        let report = report.expect("waited for");
        assert_eq!(report.space, 7);
        report
    }

    /// Takes pages of the region, of this order; the verdict of each beside the whole report.
    fn take(
        &mut self,
        order: u8,
        pages: impl IntoIterator<Item = u64>,
    ) -> (Vec<Verdict>, PageoutReport) {
        let run = |page| {
            let start = self.touch.page_address(page);
            AddrRange::new(start, start + (PAGE_BYTES << order))
        };
        let runs: Vec<AddrRange> = pages.into_iter().map(run).collect();
        let report = self.carry_out(runs.clone(), Vec::new());
        let nr_told: u64 = report.runs.iter().map(|(run, _)| run.nr_pages()).sum();
        assert_eq!(nr_told, (runs.len() as u64) << order);
        let verdict = |asked: &AddrRange| {
            let told = report
                .runs
                .iter()
                .find(|(run, _)| run.contains(asked.start));
            told.expect("what was asked for").1
        };
        (runs.iter().map(verdict).collect(), report)
    }

    fn present(&self, first: u64, nr_pages: u64) -> Vec<bool> {
        let mut entries = Vec::new();
        let at = |page| self.touch.page_address(page);
        let range = AddrRange::new(at(first), at(first + nr_pages));
        let read = self.process.read_pagemap(range, &mut entries);
        read.expect("the page map can be read");
        entries.iter().map(|entry| entry.is_present()).collect()
    }

    fn is_huge(&mut self, page: u64) -> bool {
        let mut shape = None;
        let addr = self.touch.page_address(page);
        let spans = covering_spans([AddrRange::new(addr, addr + 1)]);
        let read = self.source.read(&self.process, &spans, &mut |record| {
            shape = Some(record.shape)
        });
        read.expect("the program can be read");
        shape == Some(TableShape::Huge)
    }

    #[track_caller]
    fn assert_whole(&mut self) {
        let nr_pages = self.touch.nr_pages;
        assert_eq!(self.touch.ask(&format!("verify 0 {nr_pages}")), "0");
    }
}

macro_rules! open_bench {
    ($options:expr) => {
        match Bench::new(&$options) {
            Ok(bench) => bench,
            Err(error) => skip!("{error}"),
        }
    };
}

fn count(verdicts: &[Verdict], verdict: Verdict) -> usize {
    verdicts.iter().filter(|other| **other == verdict).count()
}

#[test]
fn exactly_the_pages_asked_for_are_evicted() {
    live!("zram", "process_madvise");
    let _swap = OwnSwap::zram("256M");
    let mut bench = open_bench!(["--size", "32M"]);
    bench.touch.ask("writerange 0 8192");
    bench.forget_accesses();
    // Runs and single pages.
    let is_chosen = |index: u64| index % 512 < 40 || index % 7 == 3;
    let chosen: Vec<u64> = (0..8192).filter(|index| is_chosen(*index)).collect();
    let (verdicts, report) = bench.take(0, chosen.iter().copied());
    let nr_evicted = count(&verdicts, Verdict::Evicted);
    assert_eq!(nr_evicted, chosen.len(), "{report:?}");
    for (index, is_present) in bench.present(0, 8192).into_iter().enumerate() {
        assert_eq!(is_present, !is_chosen(index as u64), "page {index}");
    }
    assert_eq!(report.nr_tried_pages, chosen.len() as u64);
    assert_eq!(report.nr_evicted_pages, chosen.len() as u64);
    assert!(report.nr_ranges < chosen.len() as u64 && report.nr_calls >= report.nr_ranges / 512);
    assert!(report.young_neighbours.is_empty() && report.error.is_none());
    bench.assert_whole();
}

#[test]
fn a_page_accessed_since_the_walk_is_spared_and_its_neighbours_reported() {
    live!("zram", "process_madvise");
    let _swap = OwnSwap::zram("256M");
    let mut bench = open_bench!(["--size", "4M"]);
    bench.touch.ask("writerange 0 1024");
    bench.forget_accesses();
    for index in [100, 101, 120, 300] {
        bench.touch.ask(&format!("readrange {index} 1"));
    }
    let (verdicts, report) = bench.take(0, [100, 102, 200]);
    let spared = [Verdict::Referenced, Verdict::Evicted, Verdict::Evicted];
    assert_eq!(verdicts, spared);
    let neighbours = [101, 120].map(|index| bench.touch.page_address(index));
    assert_eq!(report.young_neighbours, neighbours);
    assert_eq!((report.nr_tried_pages, report.nr_evicted_pages), (2, 2));
    // A page that is gone is not tried.
    bench.touch.ask("unmap 600 8");
    let (verdicts, report) = bench.take(0, [601]);
    assert_eq!((verdicts[0], report.nr_calls), (Verdict::Gone, 0));
}

#[test]
fn pages_of_two_processes_are_shared_and_not_evicted() {
    live!("zram", "process_madvise");
    let _swap = OwnSwap::zram("256M");
    let mut bench = open_bench!(["--size", "2M"]);
    bench.touch.ask("writerange 0 64");
    bench.touch.ask("fork 1");
    // Pages written since the fork are the parent's own.
    bench.touch.ask("writerange 0 16");
    bench.forget_accesses();
    let (verdicts, report) = bench.take(0, 0..64);
    assert_eq!(count(&verdicts[..16], Verdict::Evicted), 16, "{verdicts:?}");
    assert_eq!(count(&verdicts[16..], Verdict::Shared), 48, "{verdicts:?}");
    assert_eq!((report.nr_tried_pages, report.nr_evicted_pages), (64, 16));
    bench.touch.ask("reap");
    let (verdicts, _) = bench.take(0, 0..64);
    assert_eq!(count(&verdicts[16..], Verdict::Evicted), 48, "{verdicts:?}");
}

/// The rest of a large folio that is split for this keeps the kernel from freeing the part.
#[test]
fn a_file_page_that_is_dirty_or_was_only_unmapped_does_not_count_as_evicted() {
    needs!("cap_bpf", "process_madvise");
    let directory = open_disk!();
    let _guard = Guard::new();
    let path = directory.path().join("mapped");
    let file = path.to_str().expect("text");
    let mut bench = open_bench!(["--size", "2M", "--file", file, "--shared"]);
    bench.touch.ask("writerange 0 512");
    bench.forget_accesses();
    let (verdicts, report) = bench.take(0, 0..128);
    assert_eq!(count(&verdicts, Verdict::Dirty), 128, "{verdicts:?}");
    assert_eq!(report.nr_evicted_pages, 0);
    assert!(bench.present(0, 128).iter().all(|present| *present));
    let written = File::open(&path).and_then(|file| file.sync_all());
    written.expect("clean pages");
    bench.touch.ask("readrange 0 512");
    bench.forget_accesses();
    let (verdicts, report) = bench.take(0, 0..100);
    let nr_gone = 512 - resident_bytes(&path) / PAGE_BYTES;
    assert_eq!(report.nr_evicted_pages, nr_gone, "{verdicts:?}");
    assert_eq!(count(&verdicts, Verdict::Evicted) as u64, nr_gone);
}

#[test]
fn huge_pages_go_whole_and_one_is_split_for_the_price_of_one_base_page() {
    live!("zram", "process_madvise");
    let _swap = OwnSwap::zram("256M");
    let mut bench = open_bench!(["--size", "10M", "--thp"]);
    // The last two MiB are small pages.
    bench.touch.ask("advise nohugepage 2048 512");
    bench.touch.ask("writerange 0 2560");
    if (0..4).any(|huge| !bench.is_huge(huge * 512)) {
        skip!("the kernel gave no huge pages");
    }
    bench.forget_accesses();
    // A small page that was collapsed into a huge one does not exist any more.
    let (verdicts, report) = bench.take(0, [3 * 512 + 5]);
    assert_eq!((verdicts[0], report.nr_calls), (Verdict::Gone, 0));
    bench.touch.ask("readrange 1024 1");
    let (verdicts, report) = bench.take(9, [0, 1024]);
    assert_eq!(verdicts, [Verdict::Evicted, Verdict::Referenced]);
    assert_eq!((report.nr_tried_pages, report.nr_evicted_pages), (512, 512));
    assert!(bench.present(0, 512).iter().all(|present| !present));
    assert!(bench.present(1024, 512).iter().all(|present| *present));

    // What is small already is left alone.
    let splits = [512, 2048].map(|page| TableNo::containing(bench.touch.page_address(page)));
    let report = bench.carry_out(Vec::new(), splits.to_vec());
    assert_eq!((report.nr_ranges, report.error), (1, None));
    assert!(!bench.is_huge(512) && bench.is_huge(1024));
    let nr_absent = |present: Vec<bool>| present.into_iter().filter(|is| !is).count();
    assert_eq!(nr_absent(bench.present(512, 512)), 1);
    assert_eq!(nr_absent(bench.present(2048, 512)), 0);
    // Its parts are told apart now.
    bench.forget_accesses();
    bench.touch.ask("readrange 519 1");
    let (verdicts, _) = bench.take(0, [519, 520]);
    assert_eq!(verdicts, [Verdict::Referenced, Verdict::Evicted]);
    bench.assert_whole();
}
