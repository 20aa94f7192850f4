//! Pageout, page by page: exactly the pages asked for, and a true verdict for every one.

use crate::pageout_support;
use crate::process_support;

use pageout_support::{Bench, Swap, alone, count, page};
use process_support::{Guest, is_root, wait_until};
use strata_linux::access::{self, AccessChoice, TableShape};
use strata_linux::actuator::PageTarget;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::process::{MachineMemory, Process};
use strata_lru::Verdict;

#[test]
fn exactly_the_pages_asked_for_are_evicted() {
    const NR_PAGES: u64 = 8192;
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
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
    let _swap = or_skip!(Swap::new());
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
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
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
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
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
    let mut bench = or_skip!(Bench::new());
    if !is_on_disk() {
        skip!("temporary files are not on a disk here");
    }
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
    let mut other = Guest::start();
    other.ask(&format!("private 128 {}", files[2].path().display()));
    bench.forget_accesses();
    for (addr, expected) in [(dirty, Verdict::Dirty), (shared, Verdict::Shared)] {
        let (verdicts, report) = bench.take_pages((0..128).map(|index| page(addr, index)));
        assert_eq!(
            count(&verdicts, expected),
            128,
            "{expected:?}: {verdicts:?}"
        );
        assert_eq!(report.nr_evicted_pages, 0);
        assert!(bench.present(addr, 128).iter().all(|present| *present));
    }
    // Pages written a moment ago may wait in a CPU's batch, and can then be unmapped but not freed.
    wait_until("clean pages are evicted", || {
        bench.guest.ask(&format!("read {clean:x} 128"));
        bench.forget_accesses();
        let (verdicts, report) = bench.take_pages((0..128).map(|index| page(clean, index)));
        let nr_cached = bench.guest.ask_number(&format!("cached {clean:x} 128")) as u64;
        assert_eq!(report.nr_evicted_pages, 128 - nr_cached, "{verdicts:?}");
        nr_cached == 0
    });
}

/// Whether temporary files are on a disk, so that dirty pages of theirs have somewhere to go.
fn is_on_disk() -> bool {
    const IN_MEMORY: [u64; 3] = [0x0102_1994, 0x794c_7630, 0x6573_5546]; // tmpfs, overlay, FUSE
    let stat = rustix::fs::statfs(std::env::temp_dir()).expect("a directory");
    !IN_MEMORY.contains(&(stat.f_type as u64))
}

#[test]
fn locked_pages_stay_and_spoil_nothing_beside_them() {
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
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
fn shared_memory_goes_to_swap() {
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
    let addr = bench.guest.ask_addr("shmem 512");
    bench.forget_accesses();
    let (verdicts, report) = bench.take_pages((0..512).map(|index| page(addr, index)));
    assert_eq!(count(&verdicts, Verdict::Evicted), 512, "{verdicts:?}");
    assert_eq!(report.nr_evicted_pages, 512);
    assert_eq!(bench.guest.ask_number(&format!("check {addr:x} 512")), 0);
}

#[test]
fn a_file_page_that_was_only_unmapped_does_not_count_as_evicted() {
    let mut bench = or_skip!(Bench::new());
    if !is_root() {
        skip!("page flags can be read by root only");
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), vec![7u8; 512 * 4096]).expect("written");
    file.as_file().sync_all().expect("clean pages");
    let name = file.path().display();
    let addr = bench.guest.ask_addr(&format!("file 512 {name}"));
    bench.forget_accesses();
    // The rest of a large folio that is split for this keeps the kernel from freeing the part.
    let (verdicts, report) = bench.take_pages((0..100).map(|index| page(addr, index)));
    let nr_cached = bench.guest.ask_number(&format!("cached {addr:x} 100")) as u64;
    assert_eq!(report.nr_evicted_pages, 100 - nr_cached, "{verdicts:?}");
    assert_eq!(count(&verdicts, Verdict::Evicted) as u64, 100 - nr_cached);
}

#[test]
fn zero_pages_and_missing_pages_are_not_tried() {
    let mut bench = or_skip!(Bench::new());
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
fn without_swap_nothing_but_files_can_go() {
    let _alone = alone();
    let memory = MachineMemory::read().expect("/proc/meminfo");
    if memory.swap_total_bytes > 0 {
        skip!("this machine has swap now");
    }
    let mut bench = or_skip!(Bench::new());
    for kind in ["anon", "shmem"] {
        let addr = bench.guest.ask_addr(&format!("{kind} 32"));
        bench.forget_accesses();
        let (verdicts, report) = bench.take_pages((0..32).map(|index| page(addr, index)));
        // Shared memory is unmapped all the same, and must not pass for evicted.
        assert_eq!(count(&verdicts, Verdict::Busy), 32, "{kind}: {verdicts:?}");
        assert_eq!((report.nr_tried_pages, report.nr_evicted_pages), (32, 0));
    }
}

#[test]
fn huge_pages_go_whole_and_split_ones_too() {
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
    let addr = bench.guest.ask_addr("huge 2048");
    let huge = |index: u64| page(addr, index * 512);
    if (0..4).any(|index| bench.shape_at(huge(index)) != Some(TableShape::Huge)) {
        skip!("the kernel gave no huge pages");
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
fn a_huge_page_is_split_for_the_price_of_one_base_page_and_small_ones_are_left_alone() {
    let _swap = or_skip!(Swap::new());
    let mut bench = or_skip!(Bench::new());
    let addr = bench.guest.ask_addr("huge 1024");
    let huge = |index: u64| page(addr, index * 512);
    if (0..2).any(|index| bench.shape_at(huge(index)) != Some(TableShape::Huge)) {
        skip!("the kernel gave no huge pages");
    }
    let small = bench.guest.ask_addr("anon 1024");
    let report = bench.split([huge(0), small, small + 512 * PAGE_BYTES]);
    assert_eq!((report.nr_ranges, report.error), (1, None));
    assert_eq!(bench.shape_at(huge(0)), Some(TableShape::Pages));
    assert_eq!(bench.shape_at(huge(1)), Some(TableShape::Huge));
    let nr_absent = |present: Vec<bool>| present.into_iter().filter(|is| !is).count();
    assert_eq!(nr_absent(bench.present(addr, 1024)), 1);
    assert_eq!(nr_absent(bench.present(small, 1024)), 0);

    // Its parts are told apart now.
    bench.forget_accesses();
    bench.guest.ask(&format!("read {:x} 1", page(addr, 7)));
    let (verdicts, _) = bench.take_pages([page(addr, 7), page(addr, 8)]);
    assert_eq!(verdicts, [Verdict::Referenced, Verdict::Evicted]);
    assert_eq!(bench.guest.ask_number(&format!("check {addr:x} 1024")), 0);
}
