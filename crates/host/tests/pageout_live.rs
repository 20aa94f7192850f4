//! Pageout on live processes: exactly the pages asked for, and a true verdict for every one.

mod process_support;

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use process_support::{Guest, is_root, skip, wait_until};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use strata_host::access::{self, AccessChoice, AccessSource, ClearIntent, TableShape};
use strata_host::actuator::{
    PageTarget, Pageout, PageoutConfig, PageoutError, PageoutMode, PageoutReport, PageoutRequest,
};
use strata_host::addr::{AddrRange, PAGE_BYTES, covering_spans};
use strata_host::keeper::Journal;
use strata_host::process::{MachineMemory, Process};
use strata_host::swap::{SwapDevice, SwapSpec};
use strata_lru::Verdict;

/// What a test works with: a guest, seen from outside.
struct Bench {
    guest: Guest,
    process: Arc<Process>,
    source: Box<dyn AccessSource>,
    pageout: Pageout,
}

impl Bench {
    /// `None`, said loudly, where accesses of single pages can't be seen.
    fn new(test: &str) -> Option<Bench> {
        match access::open(AccessChoice::Bpf) {
            Ok(source) => Some(Bench::with(source, AccessChoice::Bpf)),
            Err(error) => {
                skip(test, &error.to_string());
                None
            }
        }
    }

    fn with(source: Box<dyn AccessSource>, choice: AccessChoice) -> Bench {
        let guest = Guest::start();
        let process = Arc::new(Process::open(guest.pid()).expect("the guest runs"));
        let pageout = Pageout::start(access::open(choice).expect("opened before"));
        Bench {
            guest,
            process,
            source,
            pageout: pageout.expect("a thread starts"),
        }
    }

    /// Clears the accessed bits, as a walk does.
    fn forget_accesses(&mut self) {
        let young = [AddrRange::new(0, PAGE_BYTES)];
        let cleared = self
            .source
            .clear(&self.process, &young, 1, ClearIntent::Watch);
        cleared.expect("accessed bits can be cleared");
    }

    fn take(&mut self, pages: Vec<PageTarget>) -> PageoutReport {
        take(&mut self.pageout, &self.process, pages)
    }

    /// Takes base pages; returns the verdict of each beside the whole report.
    fn take_pages(
        &mut self,
        pages: impl IntoIterator<Item = u64>,
    ) -> (Vec<Verdict>, PageoutReport) {
        let report = self.take(targets(pages));
        let verdicts = report.results.iter().map(|(_, verdict)| *verdict);
        (verdicts.collect(), report)
    }

    fn present(&self, addr: u64, nr_pages: u64) -> Vec<bool> {
        let mut entries = Vec::new();
        let range = AddrRange::new(addr, addr + nr_pages * PAGE_BYTES);
        let read = self.process.read_pagemap(range, &mut entries);
        read.expect("the page map can be read");
        entries.iter().map(|entry| entry.is_present()).collect()
    }

    fn shape_at(&mut self, addr: u64) -> Option<TableShape> {
        let mut shape = None;
        let spans = covering_spans([AddrRange::new(addr, addr + 1)]);
        let read = self.source.read(&self.process, &spans, &mut |record| {
            shape = Some(record.shape)
        });
        read.expect("the guest can be read");
        shape
    }
}

fn targets(pages: impl IntoIterator<Item = u64>) -> Vec<PageTarget> {
    let target = |(token, addr)| PageTarget {
        token: token as u32,
        addr,
        order: 0,
    };
    pages.into_iter().enumerate().map(target).collect()
}

fn take(pageout: &mut Pageout, process: &Arc<Process>, pages: Vec<PageTarget>) -> PageoutReport {
    let tokens: Vec<u32> = pages.iter().map(|page| page.token).collect();
    let request = PageoutRequest {
        space: 7,
        process: Arc::clone(process),
        pages,
    };
    pageout.try_submit(request).expect("nothing else is out");
    let timeout = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    loop {
        let fd = pageout.completion_fd().as_fd().try_clone_to_owned();
        let fd = fd.expect("a copy of the descriptor");
        let nr_ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout));
        assert_eq!(nr_ready, Ok(1), "no report in 20 s");
        if let Some(report) = pageout.poll() {
            assert_eq!(report.space, 7);
            let answered: Vec<u32> = report.results.iter().map(|(token, _)| *token).collect();
            assert_eq!(answered, tokens);
            return report;
        }
    }
}

fn page(addr: u64, index: u64) -> u64 {
    addr + index * PAGE_BYTES
}

fn count(verdicts: &[Verdict], verdict: Verdict) -> usize {
    verdicts.iter().filter(|other| **other == verdict).count()
}

/// Swap of this test alone; taking one device down brings everybody's pages back.
struct Swap {
    device: SwapDevice,
    _alone: MutexGuard<'static, ()>,
}

static SWAP: Mutex<()> = Mutex::new(());

impl Swap {
    /// `None`, said loudly, where no device can be had.
    fn new(test: &str) -> Option<Swap> {
        let alone = SWAP.lock().unwrap_or_else(PoisonError::into_inner);
        let spec: SwapSpec = "zram:256M".parse().expect("a spec");
        match SwapDevice::create(&spec, &Journal::none()) {
            Ok(device) => Some(Swap {
                device,
                _alone: alone,
            }),
            Err(error) => {
                skip(test, &error.to_string());
                None
            }
        }
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        if let Err(error) = self.device.take_down() {
            assert!(std::thread::panicking(), "{error}");
        }
    }
}

#[test]
fn exactly_the_pages_asked_for_are_evicted() {
    const NAME: &str = "exactly_the_pages_asked_for_are_evicted";
    const NR_PAGES: u64 = 8192;
    let Some(_swap) = Swap::new(NAME) else { return };
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr(&format!("anon {NR_PAGES}"));
    bench.forget_accesses();
    // Runs and single pages, in no order.
    let is_chosen = |index: u64| index % 512 < 40 || index % 7 == 3;
    let mut chosen: Vec<u64> = (0..NR_PAGES).filter(|index| is_chosen(*index)).collect();
    chosen.reverse();
    let (verdicts, report) = bench.take_pages(chosen.iter().map(|index| page(addr, *index)));
    assert_eq!(
        count(&verdicts, Verdict::Evicted),
        chosen.len(),
        "{report:?}"
    );
    let present = bench.present(addr, NR_PAGES);
    for index in 0..NR_PAGES {
        assert_eq!(present[index as usize], !is_chosen(index), "page {index}");
    }
    assert_eq!(report.nr_tried_pages, chosen.len() as u64);
    assert_eq!(report.nr_evicted_pages, chosen.len() as u64);
    assert!(report.nr_ranges < chosen.len() as u64 && report.nr_calls >= report.nr_ranges / 512);
    assert!(report.young_neighbours.is_empty() && report.error.is_none());
    assert_eq!(
        bench
            .guest
            .ask_number(&format!("check {addr:x} {NR_PAGES}")),
        0
    );
    println!(
        "{} pages in {} ranges: {} ns a page wall, {} ns CPU",
        chosen.len(),
        report.nr_ranges,
        report.wall_ns / chosen.len() as u64,
        report.cpu_ns / chosen.len() as u64
    );
}

#[test]
fn without_sight_of_single_pages_presence_alone_decides() {
    const NAME: &str = "without_sight_of_single_pages_presence_alone_decides";
    let Some(_swap) = Swap::new(NAME) else { return };
    let source = access::open(AccessChoice::Smaps).expect("smaps is always there");
    let mut bench = Bench::with(source, AccessChoice::Smaps);
    let addr = bench.guest.ask_addr("anon 1024");
    let zero = bench.guest.ask_addr("zero 4");
    // Just written, hence accessed; it can't know.
    let (verdicts, report) = bench.take_pages((0..512).map(|index| page(addr, index * 2)));
    assert_eq!(count(&verdicts, Verdict::Evicted), 512);
    assert_eq!(report.nr_evicted_pages, 512);
    let nr_present = bench.present(addr, 1024).into_iter().filter(|p| *p).count();
    assert_eq!(nr_present, 512);
    let (verdicts, _) = bench.take_pages([page(addr, 0), page(addr, 1024 + 512 * 1024), zero]);
    assert_eq!(verdicts[..2], [Verdict::Gone, Verdict::Gone]);
    if is_root() {
        assert_eq!(verdicts[2], Verdict::Unevictable);
    }
    assert_eq!(bench.guest.ask_number(&format!("check {addr:x} 1024")), 0);
}

#[test]
fn a_page_accessed_since_the_walk_is_spared_and_its_neighbours_reported() {
    const NAME: &str = "a_page_accessed_since_the_walk_is_spared_and_its_neighbours_reported";
    let Some(_swap) = Swap::new(NAME) else { return };
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr("anon 1024");
    // Windows are cut at the edges of a table, so stay inside one.
    let base = addr.next_multiple_of(512 * PAGE_BYTES);
    bench.forget_accesses();
    for index in [100, 101, 120, 300] {
        bench.guest.ask(&format!("read {:x} 1", page(base, index)));
    }
    let (verdicts, report) = bench.take_pages([100, 102, 200].map(|index| page(base, index)));
    assert_eq!(
        verdicts,
        [Verdict::Referenced, Verdict::Evicted, Verdict::Evicted]
    );
    assert_eq!(
        report.young_neighbours,
        [101, 120].map(|index| page(base, index))
    );
    assert_eq!((report.nr_tried_pages, report.nr_evicted_pages), (2, 2));
}

#[test]
fn pages_of_two_processes_are_shared_and_not_evicted() {
    const NAME: &str = "pages_of_two_processes_are_shared_and_not_evicted";
    let Some(_swap) = Swap::new(NAME) else { return };
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr("anon 64");
    let child = bench.guest.ask_number("fork 1") as i32;
    // Pages written since the fork are the parent's own.
    bench.guest.ask(&format!("write {addr:x} 16"));
    bench.forget_accesses();
    let all: Vec<u64> = (0..64).map(|index| page(addr, index)).collect();
    let (verdicts, report) = bench.take_pages(all.clone());
    assert_eq!(count(&verdicts[..16], Verdict::Evicted), 16, "{verdicts:?}");
    assert_eq!(count(&verdicts[16..], Verdict::Shared), 48, "{verdicts:?}");
    assert_eq!((report.nr_tried_pages, report.nr_evicted_pages), (64, 16));

    let child = Process::open(child).expect("the child waits");
    child
        .signal(rustix::process::Signal::KILL)
        .expect("it lives");
    wait_until("the child has ended", || !child.is_alive());
    let (verdicts, _) = bench.take_pages(all);
    assert_eq!(count(&verdicts[16..], Verdict::Evicted), 48, "{verdicts:?}");
}

#[test]
fn file_pages_need_no_swap_unless_shared_or_dirty() {
    const NAME: &str = "file_pages_need_no_swap_unless_shared_or_dirty";
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    // A file each: the kernel keeps many pages of a file in one folio, which shares its fate.
    let files: [tempfile::NamedTempFile; 3] = std::array::from_fn(|_| {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), vec![7u8; 128 * 4096]).expect("written");
        file.as_file().sync_all().expect("clean pages");
        file
    });
    let [clean, dirty, shared] = files.each_ref().map(|file| {
        let name = file.path().display();
        bench.guest.ask_addr(&format!("file 128 {name}"))
    });
    bench.guest.ask(&format!("write {dirty:x} 128"));
    let all_there = |bench: &Bench, addr| bench.present(addr, 128).iter().all(|present| *present);
    let mut other = Guest::start();
    other.ask(&format!("private 128 {}", files[2].path().display()));
    bench.forget_accesses();
    for (addr, expected) in [
        (clean, Verdict::Evicted),
        (dirty, Verdict::Dirty),
        (shared, Verdict::Shared),
    ] {
        let (verdicts, report) = bench.take_pages((0..128).map(|index| page(addr, index)));
        assert_eq!(
            count(&verdicts, expected),
            128,
            "{expected:?}: {verdicts:?}"
        );
        assert_eq!(all_there(&bench, addr), expected != Verdict::Evicted);
        let nr_evicted = u64::from(expected == Verdict::Evicted) * 128;
        assert_eq!(report.nr_evicted_pages, nr_evicted);
    }
}

#[test]
fn locked_pages_stay_and_spoil_nothing_beside_them() {
    const NAME: &str = "locked_pages_stay_and_spoil_nothing_beside_them";
    let Some(_swap) = Swap::new(NAME) else { return };
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr("anon 256");
    bench.guest.ask(&format!("lock {:x} 5", page(addr, 100)));
    bench.forget_accesses();
    let (verdicts, report) = bench.take_pages((0..256).map(|index| page(addr, index)));
    for (index, verdict) in verdicts.into_iter().enumerate() {
        let expected = match index {
            100..105 => Verdict::Unevictable,
            _ => Verdict::Evicted,
        };
        assert_eq!(verdict, expected, "page {index}");
    }
    assert_eq!((report.nr_tried_pages, report.nr_evicted_pages), (256, 251));
    assert!(report.error.is_none());
}

#[test]
fn zero_pages_and_missing_pages_are_not_tried() {
    const NAME: &str = "zero_pages_and_missing_pages_are_not_tried";
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let zero = bench.guest.ask_addr("zero 8");
    let freed = bench.guest.ask_addr("anon 8");
    bench.forget_accesses();
    bench.guest.ask(&format!("unmap {freed:x} 8"));
    let (verdicts, report) = bench.take_pages([page(zero, 1), page(freed, 1), 0x1000, 1 << 46]);
    assert_eq!(
        verdicts,
        [
            Verdict::Unevictable,
            Verdict::Gone,
            Verdict::Gone,
            Verdict::Gone
        ]
    );
    assert_eq!((report.nr_tried_pages, report.nr_calls), (0, 0));
}

#[test]
fn without_swap_anonymous_pages_are_busy() {
    const NAME: &str = "without_swap_anonymous_pages_are_busy";
    let _alone = SWAP.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = MachineMemory::read().expect("/proc/meminfo");
    if memory.swap_total_bytes > 0 {
        return skip(NAME, "this machine has swap now");
    }
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr("anon 32");
    bench.forget_accesses();
    let (verdicts, report) = bench.take_pages((0..32).map(|index| page(addr, index)));
    assert_eq!(count(&verdicts, Verdict::Busy), 32, "{verdicts:?}");
    assert_eq!((report.nr_tried_pages, report.nr_evicted_pages), (32, 0));
}

#[test]
fn a_process_that_is_killed_or_execs_leaves_no_page_behind() {
    const NAME: &str = "a_process_that_is_killed_or_execs_leaves_no_page_behind";
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr("anon 32");
    let all = || (0..32).map(|index| page(addr, index));
    bench.guest.ask("exec");
    let (verdicts, report) = bench.take_pages(all());
    assert_eq!(count(&verdicts, Verdict::Gone), 32);
    assert!(report.error.is_none());
    bench.guest.kill();
    let (verdicts, report) = bench.take_pages(all());
    assert_eq!(count(&verdicts, Verdict::Gone), 32);
    assert_eq!(report.error, None);
}

#[test]
fn processes_killed_in_the_middle_of_pageout_are_normal() {
    const NAME: &str = "processes_killed_in_the_middle_of_pageout_are_normal";
    let Some(_swap) = Swap::new(NAME) else { return };
    for delay_us in [0, 200, 1000, 3000, 9000] {
        let Some(mut bench) = Bench::new(NAME) else {
            return;
        };
        let addr = bench.guest.ask_addr("anon 8192");
        bench.forget_accesses();
        let pages = targets((0..8192).map(|index| page(addr, index)));
        let request = PageoutRequest {
            space: 1,
            process: Arc::clone(&bench.process),
            pages,
        };
        bench
            .pageout
            .try_submit(request)
            .expect("the thread is free");
        std::thread::sleep(Duration::from_micros(delay_us));
        bench.guest.kill();
        let mut report = None;
        wait_until("a report", || {
            report = bench.pageout.poll();
            report.is_some()
        });
        let report = report.expect("waited for");
        assert_eq!(report.results.len(), 8192);
        assert_eq!(report.error, None);
        let is_settled = |verdict| matches!(verdict, Verdict::Gone | Verdict::Evicted);
        let other = report
            .results
            .iter()
            .find(|(_, verdict)| !is_settled(*verdict));
        assert!(
            other.is_none_or(|(_, verdict)| *verdict != Verdict::NotTried),
            "{other:?}"
        );
    }
}

#[test]
fn mappings_that_come_and_go_during_pageout_are_normal() {
    const NAME: &str = "mappings_that_come_and_go_during_pageout_are_normal";
    let Some(_swap) = Swap::new(NAME) else { return };
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let keep = bench.guest.ask_addr("anon 2048");
    let lose = bench.guest.ask_addr("anon 2048");
    bench.forget_accesses();
    let both = (0..2048).flat_map(|index| [page(keep, index), page(lose, index)]);
    let pages = targets(both);
    bench
        .guest
        .send(&format!("unmap {:x} 1024", page(lose, 512)));
    let report = bench.take(pages);
    assert_eq!(bench.guest.answer(), "ok");
    let kept = report.results.iter().filter(|(token, _)| token % 2 == 0);
    for (token, verdict) in kept {
        assert_eq!(*verdict, Verdict::Evicted, "page {}", token / 2);
    }
    assert_eq!(report.error, None);
    assert_eq!(bench.guest.ask_number(&format!("check {keep:x} 2048")), 0);
}

#[test]
fn huge_pages_go_whole_and_split_ones_too() {
    const NAME: &str = "huge_pages_go_whole_and_split_ones_too";
    let Some(_swap) = Swap::new(NAME) else { return };
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr("huge 2048");
    let huge = |index: u64| page(addr, index * 512);
    if (0..4).any(|index| bench.shape_at(huge(index)) != Some(TableShape::Huge)) {
        return skip(NAME, "the kernel gave no huge pages");
    }
    // A small page that was collapsed into a huge one does not exist any more.
    bench.forget_accesses();
    let (verdicts, report) = bench.take_pages([page(huge(3), 5)]);
    assert_eq!((verdicts[0], report.nr_calls), (Verdict::Gone, 0));

    bench.guest.ask(&format!("split {:x}", huge(1)));
    bench.guest.ask(&format!("read {:x} 1", huge(2)));
    let order9 = |index: u64| PageTarget {
        token: index as u32,
        addr: huge(index),
        order: 9,
    };
    let report = bench.take((0..3).map(order9).collect());
    let verdicts: Vec<Verdict> = report.results.iter().map(|(_, verdict)| *verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Evicted, Verdict::Evicted, Verdict::Referenced]
    );
    assert_eq!(report.nr_evicted_pages, 512 + 511);
    assert_eq!(report.nr_tried_pages, 512 + 511);
    assert!(bench.present(huge(0), 1024).iter().all(|present| !present));
    assert!(bench.present(huge(2), 1024).iter().all(|present| *present));
    assert_eq!(bench.guest.ask_number(&format!("check {addr:x} 512")), 0);
    assert_eq!(
        bench
            .guest
            .ask_number(&format!("check {:x} 510", page(huge(1), 2))),
        0
    );
}

#[test]
fn a_dead_leader_makes_pageout_say_why_it_can_not_work() {
    const NAME: &str = "a_dead_leader_makes_pageout_say_why_it_can_not_work";
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr("anon 8");
    bench.forget_accesses();
    bench.guest.ask("leave");
    let process = Arc::clone(&bench.process);
    wait_until("the leader has exited", || {
        process.stat().is_ok_and(|stat| stat.state == 'Z')
    });
    let (verdicts, report) = bench.take_pages((0..8).map(|index| page(addr, index)));
    assert_eq!(count(&verdicts, Verdict::NotTried), 8, "{verdicts:?}");
    assert_eq!(report.error, Some(PageoutError::NoSpace(bench.guest.pid())));
    assert_eq!(report.nr_tried_pages, 0);
}

#[test]
fn without_the_capability_the_reason_is_given_and_nothing_tried() {
    const NAME: &str = "without_the_capability_the_reason_is_given_and_nothing_tried";
    if is_root() {
        return process_support::again_as_nobody(NAME);
    }
    let source = access::open(AccessChoice::Smaps).expect("smaps is always there");
    let mut bench = Bench::with(source, AccessChoice::Smaps);
    let addr = bench.guest.ask_addr("anon 8");
    let (verdicts, report) = bench.take_pages((0..8).map(|index| page(addr, index)));
    assert_eq!(count(&verdicts, Verdict::NotTried), 8);
    assert_eq!(
        report.error,
        Some(PageoutError::NotPermitted(bench.guest.pid()))
    );
    assert!(
        report
            .error
            .is_some_and(|error| error.to_string().contains("CAP_SYS_NICE"))
    );
}

#[test]
fn a_dry_run_touches_nothing() {
    let mut guest = Guest::start();
    let process = Arc::new(Process::open(guest.pid()).expect("the guest runs"));
    let addr = guest.ask_addr("anon 8");
    let source = access::open(AccessChoice::Smaps).expect("smaps is always there");
    let config = PageoutConfig {
        mode: PageoutMode::DryRun,
        ..PageoutConfig::default()
    };
    let mut pageout = Pageout::start_with(source, config).expect("a thread starts");
    let report = take(&mut pageout, &process, targets([addr, page(addr, 1)]));
    assert_eq!(
        report.results,
        [(0, Verdict::NotTried), (1, Verdict::NotTried)]
    );
    assert_eq!((report.nr_tried_pages, report.nr_calls), (0, 0));
}

#[test]
fn the_queue_is_bounded_and_stopping_accounts_for_everything() {
    let guest = Guest::start();
    let process = Arc::new(Process::open(guest.pid()).expect("the guest runs"));
    let source = access::open(AccessChoice::Smaps).expect("smaps is always there");
    let config = PageoutConfig {
        in_flight_max: 3,
        ..PageoutConfig::default()
    };
    let mut pageout = Pageout::start_with(source, config).expect("a thread starts");
    let request = |space| PageoutRequest {
        space,
        process: Arc::clone(&process),
        pages: targets([0x1000]),
    };
    for space in 0..3 {
        assert!(pageout.try_submit(request(space)).is_ok());
    }
    let refused = pageout
        .try_submit(request(3))
        .map_err(|request| request.space);
    assert_eq!(refused, Err(3));
    let spaces: Vec<u32> = pageout.stop().iter().map(|report| report.space).collect();
    assert_eq!(spaces, [0, 1, 2]);
    assert!(pageout.try_submit(request(4)).is_err());
}

#[test]
fn a_bound_on_cpu_time_slows_the_thread_down() {
    const NAME: &str = "a_bound_on_cpu_time_slows_the_thread_down";
    let Some(_swap) = Swap::new(NAME) else { return };
    let Some(mut bench) = Bench::new(NAME) else {
        return;
    };
    let addr = bench.guest.ask_addr("anon 16384");
    bench.forget_accesses();
    bench.pageout.set_cpu_percent_max(20);
    let start = Instant::now();
    let (verdicts, report) = bench.take_pages((0..16384).map(|index| page(addr, index)));
    assert_eq!(count(&verdicts, Verdict::Evicted), 16384);
    let percent = report.cpu_ns * 100 / report.wall_ns;
    assert!(percent <= 25, "{percent} %, {:?}", start.elapsed());
}
