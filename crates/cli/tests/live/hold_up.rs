//! Watching holds nobody up: large programs are cleared in short calls, seen as exactly as small ones, and what the
//! kernel thought of their pages is as before.

use crate::support::prelude::*;

use crate::walk::{bit, process_of, region_of, spans_of};
use strata_host::observe::{Observer, Piece, Subject, Visitor, Walked};
use strata_linux::access::{AccessChoice, AccessSource, BpfSource};
use strata_linux::hold_up::HoldUps;

/// 512 MiB: `clear_refs` of so many would take longer than is allowed on any machine.
const NR_LARGE_PAGES: u64 = 131_072;
/// 8 MiB.
const NR_SMALL_PAGES: u64 = 2048;
/// Share of the accessed bits that DAMON, where it watches the machine, may clear before they are seen: 1 in this many.
const TAKEN_ONE_IN: u64 = 12;
/// Pages that may be on no list at all, but in the batches of the processors.
const NR_BATCHED_PAGES: usize = 512;

/// Counts what a walk finds accessed in the region of a program.
struct Accessed {
    region: strata_linux::addr::AddrRange,
    nr_pages: u64,
}

impl Visitor for Accessed {
    fn piece(&mut self, piece: &Piece<'_>) {
        let start = piece.record.table.start().max(piece.mapping.range.start);
        if self.region.contains(start) {
            self.nr_pages += strata_lru::bits::count(piece.accessed());
        }
    }
}

struct Watched {
    touch: Touch,
    observer: Observer,
}

impl Watched {
    fn start(nr_pages: u64) -> Watched {
        let mut touch = Touch::start(["--size", &format!("{}K", nr_pages * 4)]);
        touch.ask(&format!("writerange 0 {nr_pages}"));
        let subject = Subject::Process(touch.pid);
        let observer = Observer::open(&subject, AccessChoice::Bpf).expect("touch can be watched");
        Watched { touch, observer }
    }

    /// Walks when that may be; how many pages of the region were accessed.
    fn walk(&mut self) -> (u64, Walked) {
        let deadline = Instant::now() + Duration::from_secs(300);
        while !self.observer.rest().is_zero() {
            assert!(Instant::now() < deadline, "it rests for too long");
            sleep(self.observer.rest().min(Duration::from_millis(50)));
        }
        self.walk_at_once()
    }

    fn walk_at_once(&mut self) -> (u64, Walked) {
        let mut seen = Accessed {
            region: region_of(&self.touch),
            nr_pages: 0,
        };
        let walked = self.observer.walk(&mut seen);
        assert!(walked.troubles.is_empty(), "{walked:?}");
        (seen.nr_pages, walked)
    }

    /// The program drops its translations, or the processor would set no bit, and reads some pages.
    fn read(&mut self, first: u64, nr_pages: u64) {
        self.touch.ask("flush");
        self.touch.ask(&format!("readrange {first} {nr_pages}"));
    }
}

/// How many of so many accessed pages are seen at least.
fn nearly(nr_pages: u64) -> u64 {
    nr_pages - nr_pages / TAKEN_ONE_IN
}

#[test]
fn a_large_program_is_cleared_in_short_calls_and_seen_exactly() {
    let _source = open_bpf!();
    let mut watched = Watched::start(NR_LARGE_PAGES);
    let before = HoldUps::so_far();
    let (nr_filled, walked) = watched.walk();
    let after = HoldUps::so_far();
    assert!(nr_filled >= nearly(NR_LARGE_PAGES), "{nr_filled}");
    // The few pages of files are cleared so: advice would leave those that others map.
    let nr_refs = after.clear_refs.nr_calls - before.clear_refs.nr_calls;
    assert!(
        nr_refs <= 1,
        "the lock was taken for writing {nr_refs} times"
    );
    let nr_calls = after.cold.nr_calls - before.cold.nr_calls;
    assert!(nr_calls >= NR_LARGE_PAGES / 512, "{nr_calls} calls");
    assert!(
        walked.held_ns > 0 && walked.nr_left_pieces == 0,
        "{walked:?}"
    );
    watched.read(1000, 20_000);
    let (nr_read, _) = watched.walk();
    assert!(
        (nearly(20_000)..=20_200).contains(&nr_read),
        "{nr_read} of 20000"
    );
    let (nr_idle, _) = watched.walk();
    assert!(nr_idle <= 200, "{nr_idle} of a program that waits");
}

#[test]
fn a_small_program_is_cleared_at_once_and_its_place_on_the_kernels_lists_is_left_alone() {
    let _source = open_bpf!();
    let mut watched = Watched::start(NR_SMALL_PAGES);
    let before = HoldUps::so_far();
    watched.walk();
    watched.read(0, 100);
    let (nr_read, _) = watched.walk();
    let after = HoldUps::so_far();
    assert!((nearly(100)..=110).contains(&nr_read), "{nr_read} of 100");
    assert_eq!(after.cold.nr_calls, before.cold.nr_calls);
    assert_eq!(after.clear_refs.nr_calls, before.clear_refs.nr_calls + 2);
}

#[test]
fn a_walk_that_comes_too_soon_clears_nothing_and_the_next_one_sees_it_again() {
    let _source = open_bpf!();
    let mut watched = Watched::start(NR_LARGE_PAGES);
    let (_, walked) = watched.walk();
    let rest = watched.observer.rest();
    assert!(
        rest > Duration::from_nanos(walked.held_ns) * 100,
        "{rest:?} after {walked:?}"
    );
    watched.read(0, 5000);
    let before = HoldUps::so_far().all();
    for _ in 0..2 {
        let (nr_read, walked) = watched.walk_at_once();
        if watched.observer.rest().is_zero() {
            skip!("the machine was too slow: the rest was over");
        }
        assert!(
            (nearly(5000)..=5050).contains(&nr_read),
            "{nr_read} of 5000"
        );
        assert_eq!((walked.held_ns, walked.clear_ns), (0, 0));
    }
    assert_eq!(HoldUps::so_far().all().nr_calls, before.nr_calls);
    // A page that a processor still has in its TLB is seen one walk late.
    let (nr_read, _) = watched.walk();
    assert!(
        (nearly(5000)..=5100).contains(&nr_read),
        "{nr_read} of 5000"
    );
}

#[test]
fn what_was_active_is_active_again_after_a_large_program_was_watched() {
    let mut source = open_bpf!();
    if has_generations() {
        skip!("the kernel keeps generations (lru_gen/enabled), not two lists");
    }
    if !source.see_inactive(true) {
        skip!("the kernel's structs of pages were not found");
    }
    let mut watched = Watched::start(NR_LARGE_PAGES);
    // Runs and single pages; how many there are in a table is no multiple of what the kernel gathers up (31).
    let is_active = |page: &u64| page % 512 < 115 || page % 512 > 400 && page.is_multiple_of(2);
    let active: Vec<u64> = (0..NR_LARGE_PAGES).filter(is_active).collect();
    let addresses = active.iter().map(|page| watched.touch.page_address(*page));
    // Two reads by another process make a page active.
    let memory = File::open(format!("/proc/{}/mem", watched.touch.pid)).expect("readable");
    for addr in addresses.flat_map(|addr| [addr; 2]) {
        memory.read_exact_at(&mut [0], addr).expect("mapped");
    }
    let before = inactive(&mut source, &watched.touch);
    assert!(before.len() < NR_LARGE_PAGES as usize - active.len() + NR_BATCHED_PAGES);
    watched.walk();
    let after = inactive(&mut source, &watched.touch);
    let nr_lost = after.difference(&before).count();
    assert!(
        nr_lost < active.len() / 50,
        "{nr_lost} of {} are not active any more",
        active.len()
    );
    let changed = before.iter().filter(|page| !after.contains(page)).count()
        + after.iter().filter(|page| !before.contains(page)).count();
    assert!(
        changed < NR_BATCHED_PAGES,
        "{changed} pages changed their list"
    );
}

/// The pages of the region that the kernel has on its inactive lists.
fn inactive(source: &mut BpfSource, touch: &Touch) -> BTreeSet<u64> {
    let region = region_of(touch);
    let mut found = BTreeSet::new();
    let read = source.read(&process_of(touch), &spans_of(touch), &mut |record| {
        for index in 0..512 {
            let addr = record.table.entry_addr(index);
            if bit(&record.inactive, index as u64) && region.contains(addr) {
                found.insert((addr - region.start) / 4096);
            }
        }
    });
    read.expect("touch can be read");
    found
}
