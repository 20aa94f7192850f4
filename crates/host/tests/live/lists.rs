//! What the kernel's own lists become by what it is told: touched pages active, named ones inactive, and no others.
//! And how long they are, read without changing anything.

use crate::access_support as support;

use std::fs;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use strata_linux::access::{
    AccessSource, BpfSource, ClearIntent, Clearer, Grain, ListsSource, YoungPiece,
};
use strata_linux::actuator::{
    Activate, ActivateReport, ColdPages, Deactivate, DeactivateReport, Lever, WarmPages,
};
use strata_linux::addr::{AddrRange, PAGE_BYTES};
use strata_linux::process::Process;
use support::programs::Touch;
use support::{OwnSwap, bit, check, process_of, region_of, spans_of};

/// 32 MiB.
const NR_PAGES: u64 = 8192;
/// Pages that may be on no list at all, but in the batches of the processors: 31 a batch, a few batches.
const NR_BATCHED_PAGES: usize = 512;

fn has_generations() -> bool {
    fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").is_ok_and(|text| text.trim() != "0x0000")
}

fn start() -> Touch {
    let mut touch = Touch::start(["--size", "32M"]);
    touch.ask(&format!("writerange 0 {NR_PAGES}"));
    touch
}

/// The pages of the region that the kernel has on its inactive lists.
fn inactive(source: &mut BpfSource, touch: &Touch) -> Vec<u64> {
    let region = region_of(touch);
    let mut found = Vec::new();
    let read = source.read(&process_of(touch), &spans_of(touch), &mut |record| {
        check(record);
        let addresses = (0..512).map(|index| record.table.entry_addr(index as usize));
        let inactive = (0..512)
            .zip(addresses)
            .filter(|(index, addr)| bit(&record.inactive, *index) && region.contains(*addr));
        found.extend(inactive.map(|(_, addr)| (addr - region.start) / PAGE_BYTES));
    });
    read.expect("touch can be read");
    found
}

/// What a thread reports, soon.
fn report_of<Report>(mut poll: impl FnMut() -> Option<Report>) -> Report {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(report) = poll() {
            return report;
        }
        assert!(Instant::now() < deadline, "no report in time");
        sleep(Duration::from_millis(5));
    }
}

fn activate(pages: Vec<WarmPages>) -> ActivateReport {
    let mut thread = Activate::start(Lever::Activation).expect("a thread starts");
    assert!(thread.try_submit(pages), "nothing else is out");
    report_of(|| thread.poll())
}

fn deactivate(pages: Vec<ColdPages>) -> DeactivateReport {
    let mut thread = Deactivate::start().expect("a thread starts");
    assert!(thread.try_submit(pages), "nothing else is out");
    report_of(|| thread.poll())
}

#[test]
fn touched_pages_leave_the_inactive_lists_and_no_others() {
    let mut source = open_bpf!();
    if has_generations() {
        skip!("the kernel keeps generations (lru_gen/enabled), not two lists");
    }
    if !source.see_inactive(true) {
        skip!("the kernel's structs of pages were not found");
    }
    let mut touch = start();
    let nr_before = inactive(&mut source, &touch).len();
    assert!(
        nr_before + NR_BATCHED_PAGES > NR_PAGES as usize,
        "{nr_before} are inactive"
    );
    let even = (0..NR_PAGES)
        .step_by(2)
        .map(|page| touch.page_address(page));
    let report = activate(vec![(Arc::new(process_of(&touch)), even.collect())]);
    assert_eq!(report.nr_touched_pages, NR_PAGES / 2);
    assert!(report.refused.is_empty(), "{report:?}");
    let after = inactive(&mut source, &touch);
    let nr_even = after.iter().filter(|page| *page % 2 == 0).count();
    let nr_odd = after.len() - nr_even;
    assert!(nr_even < NR_BATCHED_PAGES, "{nr_even} even ones");
    assert!(
        nr_odd + NR_BATCHED_PAGES > NR_PAGES as usize / 2,
        "{nr_odd} odd ones"
    );
    assert_eq!(touch.ask(&format!("verify 0 {NR_PAGES}")), "0");
    assert!(!source.see_inactive(false));
    assert_eq!(inactive(&mut source, &touch), [0; 0], "nobody asked for it");
}

#[test]
fn what_can_not_be_read_is_passed_over() {
    let touch = start();
    let hole = touch.page_address(NR_PAGES) + (1 << 30);
    let with_holes = (0..2000).flat_map(|page| match page % 700 {
        3 => vec![hole, hole + PAGE_BYTES, touch.page_address(page)],
        _ => vec![touch.page_address(page)],
    });
    let process = Arc::new(process_of(&touch));
    let alone = (Arc::clone(&process), vec![hole]);
    let report = activate(vec![alone, (process, with_holes.collect())]);
    assert_eq!(report.nr_touched_pages, 2000);
    assert!(report.refused.is_empty(), "{report:?}");
}

#[test]
fn a_program_that_has_ended_is_no_error() {
    let touch = start();
    let process = Process::open(touch.pid).expect("touch runs");
    let page = touch.page_address(0);
    drop(touch);
    let report = activate(vec![(Arc::new(process), vec![page])]);
    assert_eq!(report.nr_touched_pages, 0);
    assert!(report.refused.is_empty(), "{report:?}");
}

/// With a hot set beside scans 5 % of what was to be touched had gone since the walk. The touch read it back,
/// and 7 % of the group's faults were ours.
#[test]
fn what_has_gone_since_the_walk_is_not_read_back() {
    let _swap = match OwnSwap::new() {
        Ok(swap) => swap,
        Err(reason) => skip!("{reason}"),
    };
    let mut touch = start();
    touch.ask("advise pageout 1000 1000");
    let process = Arc::new(process_of(&touch));
    let out = || {
        let mut entries = Vec::new();
        let read = process.read_pagemap(region_of(&touch), &mut entries);
        read.expect("the page map can be read");
        entries.iter().filter(|entry| entry.is_swapped()).count()
    };
    let nr_out = out();
    assert!(nr_out > 900, "{nr_out} of 1000 pages went");
    let all = (0..NR_PAGES).map(|page| touch.page_address(page));
    let report = activate(vec![(Arc::clone(&process), all.collect())]);
    assert_eq!(report.nr_touched_pages, NR_PAGES - nr_out as u64);
    assert_eq!(out(), nr_out);
}

#[test]
fn named_pages_come_to_the_inactive_lists_and_no_others() {
    let mut source = open_bpf!();
    if has_generations() {
        skip!("the kernel keeps generations (lru_gen/enabled), not two lists");
    }
    if !source.see_inactive(true) {
        skip!("the kernel's structs of pages were not found");
    }
    let touch = start();
    let process = Arc::new(process_of(&touch));
    let all = (0..NR_PAGES).map(|page| touch.page_address(page));
    activate(vec![(Arc::clone(&process), all.collect())]);
    let nr_before = inactive(&mut source, &touch).len();
    assert!(nr_before < NR_BATCHED_PAGES, "{nr_before} are inactive");
    let young = [region_of(&touch)];
    let young = YoungPiece::of_ranges(&young);
    let cleared =
        Clearer::new(Grain::Page).clear_all(&process, &young, [NR_PAGES, 0], ClearIntent::Watch);
    cleared.expect("touch can be cleared");
    let even = (0..NR_PAGES).step_by(2).map(|page| {
        let addr = touch.page_address(page);
        AddrRange::new(addr, addr + PAGE_BYTES)
    });
    let report = deactivate(vec![(process, even.collect())]);
    assert_eq!(report.nr_named_pages, NR_PAGES / 2);
    assert!(report.refused.is_empty(), "{report:?}");
    let after = inactive(&mut source, &touch);
    let nr_even = after.iter().filter(|page| *page % 2 == 0).count();
    let nr_odd = after.len() - nr_even;
    assert!(
        nr_even + NR_BATCHED_PAGES > NR_PAGES as usize / 2,
        "{nr_even} even ones"
    );
    assert!(nr_odd < NR_BATCHED_PAGES, "{nr_odd} odd ones");
}

#[test]
fn to_name_pages_of_a_program_that_has_ended_is_no_error() {
    let touch = start();
    let process = Arc::new(process_of(&touch));
    let region = region_of(&touch);
    drop(touch);
    let report = deactivate(vec![(process, vec![region])]);
    assert!(report.refused.is_empty(), "{report:?}");
    assert_eq!(report.nr_named_pages, 0);
}

#[test]
fn the_lists_grow_by_what_a_program_fills() {
    let _source = open_bpf!();
    if has_generations() {
        skip!("a run looks at the lists where the kernel has two: it keeps generations here");
    }
    let lists = ListsSource::open().expect("a kernel on which the walk can be loaded");
    let mut touch = Touch::start(["--size", "32M"]);
    let process = process_of(&touch);
    let nr_pages = || {
        let found = lists.read(&process).expect("it can be read");
        found.expect("it runs").nr_pages()
    };
    let before = nr_pages();
    touch.ask(&format!("writerange 0 {NR_PAGES}"));
    let after = nr_pages();
    // Others in the group may come and go meanwhile, this test program among them.
    let grown = after.saturating_sub(before);
    assert!(grown > NR_PAGES * 3 / 4, "{before} pages, then {after}");
    assert!(grown < NR_PAGES * 2, "{before} pages, then {after}");
    drop(touch);
    assert_eq!(lists.read(&process).expect("no error"), None);
}

#[test]
fn nothing_is_named_while_nothing_is_allowed() {
    let touch = start();
    let mut thread = Deactivate::start().expect("a thread starts");
    thread.allow(false);
    let pages = vec![(Arc::new(process_of(&touch)), vec![region_of(&touch)])];
    assert!(thread.try_submit(pages), "nothing else is out");
    let report = report_of(|| thread.poll());
    assert_eq!(report.nr_named_pages, 0);
}
