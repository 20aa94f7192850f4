//! Naming cold pages, on the kernel's own lists: what is named becomes inactive, and nothing else; and how long
//! the lists are, as the kernel keeps them.

#[path = "access_support/mod.rs"]
mod support;

use std::fs;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use strata_host::access::{AccessSource, BpfSource, ClearIntent, ListsSource};
use strata_host::actuator::{Activate, ColdPages, Deactivate, DeactivateReport};
use strata_host::addr::{AddrRange, PAGE_BYTES};
use support::programs::Touch;
use support::{bit, check, process_of, region_of, spans_of};

/// 32 MiB.
const NR_PAGES: u64 = 8192;
/// Pages that may be on no list at all, but in the batches of the processors.
const NR_BATCHED_PAGES: u64 = 512;

fn has_generations() -> bool {
    fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").is_ok_and(|text| text.trim() != "0x0000")
}

fn start() -> Touch {
    let mut touch = Touch::start(["--size", "32M"]);
    touch.ask(&format!("writerange 0 {NR_PAGES}"));
    touch
}

/// How many even and odd pages of the region the kernel has on its inactive lists.
fn nr_inactive(source: &mut BpfSource, touch: &Touch) -> [u64; 2] {
    let region = region_of(touch);
    let mut nr_found = [0; 2];
    let read = source.read(&process_of(touch), &spans_of(touch), &mut |record| {
        check(record);
        for index in 0..512 {
            let addr = record.table.entry_addr(index as usize);
            if bit(&record.inactive, index) && region.contains(addr) {
                nr_found[(addr / PAGE_BYTES % 2) as usize] += 1;
            }
        }
    });
    read.expect("touch can be read");
    nr_found
}

fn deactivate(pages: Vec<ColdPages>) -> DeactivateReport {
    let mut thread = Deactivate::start().expect("a thread starts");
    assert!(thread.try_submit(pages), "nothing else is out");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(report) = thread.poll() {
            return report;
        }
        assert!(Instant::now() < deadline, "no report in time");
        sleep(Duration::from_millis(5));
    }
}

fn activate_all(touch: &Touch) {
    let mut thread = Activate::start().expect("a thread starts");
    let pages = (0..NR_PAGES).map(|page| touch.page_address(page)).collect();
    assert!(thread.try_submit(vec![(Arc::new(process_of(touch)), pages)]));
    let deadline = Instant::now() + Duration::from_secs(60);
    while thread.poll().is_none() {
        assert!(Instant::now() < deadline, "no report in time");
        sleep(Duration::from_millis(5));
    }
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
    activate_all(&touch);
    let before = nr_inactive(&mut source, &touch);
    assert!(before.iter().sum::<u64>() < NR_BATCHED_PAGES, "{before:?}");
    let young = [region_of(&touch)];
    let cleared = source.clear(&process_of(&touch), &young, NR_PAGES, ClearIntent::Watch);
    cleared.expect("touch can be cleared");
    let even = (0..NR_PAGES)
        .map(|page| touch.page_address(page))
        .filter(|addr| (addr / PAGE_BYTES).is_multiple_of(2))
        .map(|addr| AddrRange::new(addr, addr + PAGE_BYTES));
    let report = deactivate(vec![(Arc::new(process_of(&touch)), even.collect())]);
    assert_eq!(report.nr_named_pages, NR_PAGES / 2);
    assert!(report.refused.is_empty(), "{report:?}");
    let [nr_even, nr_odd] = nr_inactive(&mut source, &touch);
    assert!(
        nr_even + NR_BATCHED_PAGES > NR_PAGES / 2,
        "{nr_even} even ones"
    );
    assert!(nr_odd < NR_BATCHED_PAGES, "{nr_odd} odd ones");
}

#[test]
fn what_was_asked_of_a_process_that_has_ended_is_no_error() {
    let _source = open_bpf!();
    let touch = start();
    let process = Arc::new(process_of(&touch));
    let region = region_of(&touch);
    drop(touch);
    let report = deactivate(vec![(process, vec![region])]);
    assert!(report.refused.is_empty(), "{report:?}");
    assert_eq!(report.nr_named_pages, 0);
}

#[test]
fn the_lists_grow_by_what_a_process_fills() {
    let _source = open_bpf!();
    let lists = ListsSource::open().expect("a kernel that the walk can be loaded on");
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
