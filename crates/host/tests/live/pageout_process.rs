//! Pageout against processes that die, change or may not be touched, and the thread's own manners.

use crate::pageout_support;
use crate::process_support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pageout_support::{Bench, Swap, count, page, targets};
use process_support::{Guest, is_root, wait_until};
use strata_linux::access::{self, AccessChoice};
use strata_linux::actuator::{Pageout, PageoutConfig, PageoutError, PageoutRequest};
use strata_linux::process::Process;
use strata_lru::Verdict;

#[test]
fn a_process_that_is_killed_or_execs_leaves_no_page_behind() {
    let mut bench = or_skip!(Bench::new());
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
    let _swap = or_skip!(Swap::new());
    for delay_us in [0, 200, 1000, 3000, 9000] {
        let mut bench = or_skip!(Bench::new());
        let addr = bench.guest.ask_addr("anon 8192");
        bench.forget_accesses();
        let pages = targets((0..8192).map(|index| page(addr, index)));
        let request = PageoutRequest {
            space: 1,
            process: Arc::clone(&bench.process),
            pages,
            runs: Vec::new(),
            splits: Vec::new(),
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
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
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
fn a_dead_leader_makes_pageout_say_why_it_can_not_work() {
    let mut bench = or_skip!(Bench::new());
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
    const NAME: &str =
        "pageout_process::without_the_capability_the_reason_is_given_and_nothing_tried";
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
        runs: Vec::new(),
        splits: Vec::new(),
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
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
    let addr = bench.guest.ask_addr("anon 16384");
    bench.forget_accesses();
    bench.pageout.set_cpu_percent_max(20);
    let start = Instant::now();
    let (verdicts, report) = bench.take_pages((0..16384).map(|index| page(addr, index)));
    assert_eq!(count(&verdicts, Verdict::Evicted), 16384);
    let percent = report.cpu_ns * 100 / report.wall_ns;
    assert!(percent <= 25, "{percent} %, {:?}", start.elapsed());
}
