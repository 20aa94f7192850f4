//! The page-table walk tells the truth: exactly the touched pages are young, every state of an
//! entry is told apart, and the cost follows what is mapped.

use crate::access_support as support;
use crate::groups::zram;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use strata_linux::access::{AccessSource, ClearIntent};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, covering_spans};
use strata_linux::process::Process;
use support::programs::{Touch, page_set, program};
use support::{
    Page, assert_within_1_percent, clear, clear_ranges, difference, process_of, region_of, walk,
};

/// A workload that is ended with the test, and the first line it said.
struct Workload(Child, String);

impl Workload {
    fn start(name: &str, options: &[&str]) -> Workload {
        let mut child = Command::new(program(name))
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("workload starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("workload says it is ready");
        Workload(child, line)
    }

    fn process(&self) -> Process {
        Process::open(self.0.id() as i32).expect("workload runs")
    }

    fn mappings(&self) -> Vec<AddrRange> {
        let text = fs::read_to_string(format!("/proc/{}/maps", self.0.id())).expect("maps");
        let range = |line: &str| {
            let (start, end) = line
                .split_whitespace()
                .next()
                .expect("a range")
                .split_once('-')
                .expect("a range");
            let hex = |digits| u64::from_str_radix(digits, 16).expect("a range");
            AddrRange::new(hex(start), hex(end))
        };
        text.lines()
            .filter(|line| !line.ends_with("[vsyscall]"))
            .map(range)
            .collect()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn touched_small_pages_are_young_and_no_others() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "1G"]);
    touch.ask(&format!("writerange 0 {}", touch.nr_pages));
    assert_eq!(walk(&mut source, &touch).pages.len() as u64, touch.nr_pages);
    for (seed, count) in [(1, 100), (2, 30_000), (3, 200_000)] {
        clear(&mut touch);
        let before = walk(&mut source, &touch);
        assert!(before.all(Page::Young).len() * 100 <= before.pages.len());
        touch.ask(&format!("read {seed} {count}"));
        let seen = walk(&mut source, &touch);
        let truth = page_set(seed, count, touch.nr_pages);
        assert_within_1_percent(&seen.all(Page::Young), &truth);
        assert_eq!(seen.pages.len() as u64, touch.nr_pages);
        assert_eq!(seen.nr_dirty, touch.nr_pages, "all were written once");
    }
}

#[test]
fn touched_huge_pages_are_young_and_no_others() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "1G", "--thp"]);
    touch.ask(&format!("writerange 0 {}", touch.nr_pages));
    let nr_tables = touch.nr_pages / 512;
    let nr_huge = walk(&mut source, &touch).nr_huge;
    if nr_huge < nr_tables / 2 {
        skip!("the kernel gave {nr_huge} of {nr_tables} huge pages");
    }
    let tables_of = |pages: Vec<u64>| {
        let mut tables: Vec<u64> = pages.into_iter().map(|page| page / 512).collect();
        tables.dedup();
        tables
    };
    // The kernel may watch physical memory itself (DAMON does on some machines) and clear a bit now and
    // then between the touch and the walk; a huge page is hit 512 times as often as a small one. A walk
    // that errs would do so in every round.
    let mut rounds = Vec::new();
    for seed in 7..12 {
        clear(&mut touch);
        let before = tables_of(walk(&mut source, &touch).all(Page::Young));
        touch.ask(&format!("read {seed} {}", nr_tables / 3));
        let young = tables_of(walk(&mut source, &touch).all(Page::Young));
        let truth = tables_of(page_set(seed, nr_tables / 3, touch.nr_pages));
        let (missing, spurious) = difference(&young, &truth);
        if before.len() * 100 <= nr_tables as usize && missing.max(spurious) * 100 <= truth.len() {
            return;
        }
        rounds.push((truth.len(), before.len(), missing, spurious));
    }
    panic!("touched, young before, missing, beside, in each round: {rounds:?}");
}

#[test]
fn clearing_young_ranges_leaves_the_rest_alone() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask(&format!("writerange 0 {}", touch.nr_pages));
    // Sparse enough that going over the ranges is the cheaper way.
    // The pages faulted last wait in a CPU's batch for their list, where MADV_COLD can't take them.
    let cold = page_set(5, 200, touch.nr_pages - 256);
    let ranges: Vec<AddrRange> = cold
        .iter()
        .map(|page| AddrRange::new(touch.page_address(*page), touch.page_address(page + 1)))
        .collect();
    clear_ranges(&touch, &ranges, touch.nr_pages, ClearIntent::Pageout);
    let old = walk(&mut source, &touch).all(Page::Old);
    assert!(cold.iter().all(|page| old.contains(page)), "{old:?}");
    // The kernel ages a page of its own accord now and then.
    assert!(
        (old.len() - cold.len()) * 100 <= touch.nr_pages as usize,
        "{}",
        old.len()
    );
    // A range that is gone meanwhile does not keep those behind it from being cleared.
    touch.ask("unmap 100 50");
    let ranges: Vec<AddrRange> = (0..40)
        .map(|i| AddrRange::new(touch.page_address(i * 20), touch.page_address(i * 20 + 1)))
        .collect();
    clear_ranges(&touch, &ranges, touch.nr_pages, ClearIntent::Pageout);
    let old = walk(&mut source, &touch).all(Page::Old);
    assert!(old.contains(&0) && old.contains(&(39 * 20)), "{old:?}");
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
    assert_eq!(seen.pages.len(), 300);
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
fn pages_swapped_out_are_swapped_and_not_gone() {
    let mut source = open_bpf!();
    let _swap = or_skip!(zram("64M"));
    let mut touch = Touch::start(["--size", "16M"]);
    touch.ask(&format!("writerange 0 {}", touch.nr_pages));
    touch.ask("advise pageout 1000 1000");
    let seen = walk(&mut source, &touch);
    let swapped = seen.all(Page::Swapped);
    assert_within_1_percent(&swapped, &Vec::from_iter(1000..2000));
    assert_eq!(seen.pages.len() as u64, touch.nr_pages);
    assert_eq!(touch.ask(&format!("verify 0 {}", touch.nr_pages)), "0");
    assert!(walk(&mut source, &touch).all(Page::Swapped).is_empty());
}

#[test]
fn a_terabyte_with_little_in_it_costs_little() {
    let mut source = open_bpf!();
    let sparse = Workload::start(
        "sparse",
        &["--size", "1T", "--touch", "64", "--seconds", "0"],
    );
    let mut nr_present = 0;
    let ranges = sparse.mappings();
    let largest = ranges.iter().max_by_key(|range| range.len_bytes()).unwrap();
    assert!(largest.len_bytes() >= 1 << 40);
    let cost = source
        .read(
            &sparse.process(),
            &covering_spans([*largest]),
            &mut |record| {
                nr_present += support::ones(&record.present);
            },
        )
        .unwrap();
    eprintln!("{cost:?}");
    assert!(nr_present >= 64, "{nr_present}");
    assert!(cost.nr_tables <= 128, "{cost:?}");
}

#[test]
fn a_table_shared_by_many_mappings_is_read_once() {
    let mut source = open_bpf!();
    let storm = Workload::start("mapstorm", &["--mappings", "10000", "--seconds", "0"]);
    let mappings = storm.mappings();
    assert!(mappings.len() > 10_000, "{}: {}", mappings.len(), storm.1);
    let spans = covering_spans(mappings.iter().copied());
    let span_tables: u64 = spans.iter().map(|span| span.end.0 - span.first.0).sum();
    let mut nr_present = 0;
    let cost = source
        .read(&storm.process(), &spans, &mut |record| {
            nr_present += support::ones(&record.present);
        })
        .unwrap();
    eprintln!("{cost:?} over {} mappings", mappings.len());
    assert!(nr_present >= 10_000);
    assert!(cost.nr_tables <= span_tables, "{cost:?}");
    let mapped: u64 = mappings.iter().map(|range| range.len_bytes()).sum();
    assert!(cost.nr_entries <= mapped / PAGE_BYTES + 512 * span_tables);
}

#[test]
fn scattered_single_tables_are_read_in_few_runs() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "512M"]);
    for table in 0..touch.nr_pages / 512 {
        touch.ask(&format!("writerange {} 1", table * 512 + table % 512));
    }
    let region = region_of(&touch);
    let odd = (0..touch.nr_pages / 512).filter(|table| table % 2 == 1);
    let ranges = odd.map(|table| {
        let start = region.start + table * TABLE_BYTES;
        AddrRange::new(start, start + 1)
    });
    let spans = covering_spans(ranges);
    assert_eq!(spans.len(), 128);
    let mut found = Vec::new();
    let cost = source
        .read(&process_of(&touch), &spans, &mut |record| {
            assert_eq!(support::ones(&record.present), 1);
            found.push(record.table);
        })
        .unwrap();
    eprintln!("{cost:?}");
    assert_eq!(found, Vec::from_iter(spans.iter().map(|span| span.first)));
    assert_eq!(cost.nr_tables, 128);
    // One run, unless the machine is so slow that a run's time is up before (emulation).
    assert!(cost.nr_runs <= 16, "{cost:?}");
}
