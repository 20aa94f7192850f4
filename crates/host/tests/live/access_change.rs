//! The page-table walk under change: threads, processes and mappings that come and go.

use crate::access_support as support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use strata_linux::access::{AccessError, AccessSource, ClearIntent};
use strata_linux::addr::{AddrRange, TableNo, TableSpan};
use strata_linux::process::Process;
use support::programs::{Touch, page_set, program};
use support::{Page, assert_within_1_percent, clear, clear_ranges, process_of, spans_of, walk};

/// All of the user's half of the address space, with 4 levels.
const WHOLE: [TableSpan; 1] = [TableSpan {
    first: TableNo(0),
    end: TableNo(1 << 26),
}];

#[test]
fn a_process_goes_on_being_seen_when_its_first_thread_has_ended() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "16M"]);
    touch.ask("writerange 0 1000");
    let space = source.space_id(&process_of(&touch)).unwrap();
    let process = process_of(&touch);
    touch.ask("leaderexit");
    let mut nr_present = 0;
    source
        .read(&process, &spans_of(&touch), &mut |record| {
            nr_present += support::ones(&record.present);
        })
        .unwrap();
    assert_eq!(nr_present, 1000);
    assert_eq!(source.space_id(&process).unwrap(), space);
    let flags = source.vm_flags(&process).unwrap();
    assert!(flags.iter().any(|(range, _)| range.contains(touch.address)));
}

/// Written to the process's own `clear_refs` it was taken and did nothing, so that everything stayed
/// young for ever; `MADV_COLD` can't find the space either.
#[test]
fn accessed_bits_are_cleared_when_the_first_thread_has_ended() {
    let mut source = open_bpf!();
    for intent in [ClearIntent::Watch, ClearIntent::Pageout] {
        let mut touch = Touch::start(["--size", "16M"]);
        touch.ask("leaderexit");
        touch.ask("writerange 0 1000");
        assert_eq!(walk(&mut source, &touch).all(Page::Young).len(), 1000);
        let young = [AddrRange::new(touch.address, touch.page_address(1000))];
        clear_ranges(&touch, &young, 1000, intent);
        assert_eq!(walk(&mut source, &touch).all(Page::Young), [] as [u64; 0]);
    }
}

#[test]
fn a_process_that_ends_is_gone_and_nothing_worse() {
    let mut source = open_bpf!();
    for round in 0..40 {
        let mut touch = Touch::start(["--size", "64M"]);
        touch.ask(&format!("writerange 0 {}", touch.nr_pages));
        let process = process_of(&touch);
        let spans = spans_of(&touch);
        // Each round ends it at another moment of the walks.
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(round * 100));
            drop(touch);
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            assert!(Instant::now() < deadline, "still there");
            match source.read(&process, &spans, &mut |_| {}) {
                Ok(_) => {}
                Err(AccessError::ProcessGone(pid)) => {
                    assert_eq!(pid, process.pid());
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        killer.join().unwrap();
        assert!(matches!(
            source.space_id(&process),
            Err(AccessError::ProcessGone(_))
        ));
        assert!(process.cpu_ns().is_err());
    }
}

#[test]
fn mappings_that_come_and_go_do_no_harm() {
    let mut source = open_bpf!();
    let mut storm = Command::new(program("mapstorm"))
        .args(["--mappings", "100", "--churn", "--seconds", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(storm.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let process = Process::open(storm.id() as i32).unwrap();
    let mut seen_pages = (u64::MAX, 0);
    let deadline = Instant::now() + Duration::from_secs(30);
    for _ in 0..1000 {
        let mut nr_pages = 0;
        source
            .read(&process, &WHOLE, &mut |record| {
                nr_pages += support::ones(&record.present);
            })
            .unwrap();
        // What the program holds all the time is seen all the time, and garbage would be more.
        assert!((100..10_000).contains(&nr_pages), "{nr_pages} pages");
        seen_pages = (seen_pages.0.min(nr_pages), seen_pages.1.max(nr_pages));
        if Instant::now() > deadline {
            break;
        }
    }
    eprintln!("{seen_pages:?} pages seen");
    assert!(seen_pages.0 < seen_pages.1, "nothing came or went");
    storm.kill().unwrap();
    storm.wait().unwrap();
}

#[test]
fn a_program_that_replaces_itself_is_walked_anew() {
    let mut source = open_bpf!();
    let mut child = Command::new("sh")
        .args(["-c", "read line; exec sleep 60"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let process = Process::open(child.id() as i32).unwrap();
    let before = source.space_id(&process).unwrap();
    assert_eq!(source.space_id(&process).unwrap(), before);
    drop(child.stdin.take());
    let deadline = Instant::now() + Duration::from_secs(10);
    while source.space_id(&process).unwrap() == before {
        assert!(Instant::now() < deadline, "the same space after exec");
        std::thread::sleep(Duration::from_millis(5));
    }
    // The new space is there a moment before its first page is.
    let mut nr_tables = 0;
    while nr_tables == 0 {
        assert!(Instant::now() < deadline, "no table in the new space");
        source
            .read(&process, &WHOLE, &mut |_| nr_tables += 1)
            .unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn forked_children_have_spaces_of_their_own() {
    let mut source = open_bpf!();
    let mut touch = Touch::start(["--size", "4M"]);
    let children = touch.ask("fork 3");
    let mut spaces = vec![source.space_id(&process_of(&touch)).unwrap()];
    for pid in children.split_whitespace() {
        let child = Process::open(pid.parse().unwrap()).unwrap();
        spaces.push(source.space_id(&child).unwrap());
    }
    spaces.sort_unstable();
    spaces.dedup();
    assert_eq!(spaces.len(), 4);
    touch.ask("reap");
}

#[test]
fn two_sources_work_at_once() {
    let mut first = open_bpf!();
    let mut second = open_bpf!();
    let mut one = Touch::start(["--size", "64M"]);
    let mut two = Touch::start(["--size", "64M"]);
    for touch in [&mut one, &mut two] {
        touch.ask(&format!("writerange 0 {}", touch.nr_pages));
    }
    clear(&mut one);
    clear(&mut two);
    one.ask("read 1 3000");
    two.ask("read 2 5000");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                let young = walk(&mut first, &one).all(Page::Young);
                assert_within_1_percent(&young, &page_set(1, 3000, one.nr_pages));
            }
        });
        scope.spawn(|| {
            for _ in 0..50 {
                let young = walk(&mut second, &two).all(Page::Young);
                assert_within_1_percent(&young, &page_set(2, 5000, two.nr_pages));
            }
        });
    });
    assert_eq!(
        first.space_id(&process_of(&one)).unwrap(),
        second.space_id(&process_of(&one)).unwrap()
    );
}

#[test]
fn a_source_takes_little_memory() {
    let resident_kib = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        line.unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    // What the first leaves behind once and for all (code, the allocator's reserve) is not counted.
    let first = open_bpf!();
    let before = resident_kib();
    let sources: Vec<_> = [open_bpf!(), open_bpf!(), open_bpf!(), open_bpf!()].into();
    let each_kib = resident_kib().saturating_sub(before) / 4;
    // The types of the kernels that guests run take twice as much.
    let is_guest = std::env::var("STRATA_TEST_PATIENCE").is_ok();
    let most_kib = if is_guest { 4096 } else { 2048 };
    assert!(each_kib <= most_kib, "{each_kib} KiB");
    drop((first, sources));
}
