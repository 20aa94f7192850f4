//! What sources say of mappings, and what the fallback without privilege can and can't see.

use crate::access_support as support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use strata_linux::access::{
    self, AccessChoice, AccessError, AccessSource, ClearIntent, Clearer, Grain, SmapsSource,
    YoungPiece,
};
use strata_linux::process::{Process, VmFlags};
use support::programs::{Touch, program};
use support::{Page, process_of, region_of, walk};

#[test]
fn bpf_and_smaps_agree_on_every_mapping() {
    let mut bpf = open_bpf!();
    let mut touch = Touch::start(["--size", "4M"]);
    touch.ask("lock 100 10");
    touch.ask("advise random 300 10");
    touch.ask("protect read 500 10");
    let process = process_of(&touch);
    let by_bpf = bpf.vm_flags(&process).unwrap();
    let by_smaps = SmapsSource::new().vm_flags(&process).unwrap();
    let all = [
        VmFlags::SHARED,
        VmFlags::PFNMAP,
        VmFlags::LOCKED,
        VmFlags::IO,
        VmFlags::SEQ_READ,
        VmFlags::RAND_READ,
        VmFlags::DONTEXPAND,
        VmFlags::HUGETLB,
        VmFlags::MIXEDMAP,
    ];
    let known = all.into_iter().reduce(VmFlags::union).unwrap();
    let masked: Vec<_> = by_bpf
        .iter()
        .map(|(range, flags)| (*range, VmFlags(flags.0 & known.0)))
        .collect();
    // vsyscall has an address that no process maps, and smaps lists it all the same.
    let by_smaps: Vec<_> = by_smaps
        .into_iter()
        .filter(|(range, _)| range.start < 1 << 63)
        .collect();
    assert_eq!(masked, by_smaps);
    let at = |page| {
        let addr = touch.page_address(page);
        masked
            .iter()
            .find(|(range, _)| range.contains(addr))
            .unwrap()
            .1
    };
    assert!(at(105).intersects(VmFlags::LOCKED));
    assert!(at(305).intersects(VmFlags::RAND_READ));
    assert!(!at(0).intersects(VmFlags::LOCKED));
}

#[test]
fn sixty_thousand_mappings_are_listed_each_once() {
    let mut source = open_bpf!();
    let mut storm = Command::new(program("mapstorm"))
        .args(["--mappings", "60000", "--seconds", "0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(storm.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let process = Process::open(storm.id() as i32).unwrap();
    let flags = source.vm_flags(&process).unwrap();
    let maps = fs::read_to_string(format!("/proc/{}/maps", storm.id())).unwrap();
    let by_smaps = SmapsSource::new().vm_flags(&process);
    storm.kill().unwrap();
    storm.wait().unwrap();
    assert!(flags.len() > 60_000, "{}: {line}", flags.len());
    assert!(flags.is_sorted_by(|a, b| a.0.end <= b.0.start));
    let nr_mapped = maps.lines().filter(|line| !line.ends_with("[vsyscall]"));
    assert_eq!(flags.len(), nr_mapped.count());
    match by_smaps {
        Ok(by_smaps) => {
            let user = by_smaps.iter().filter(|(range, _)| range.start < 1 << 63);
            assert_eq!(flags.len(), user.count());
        }
        // Each mapping is a page: to read smaps would hold the program up.
        Err(AccessError::TooLarge { nr_pages, .. }) => assert!(nr_pages >= 60_000),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_fallback_sees_how_much_was_accessed_but_not_which() {
    let mut source = SmapsSource::new();
    assert_eq!(source.info().grain, Grain::Mapping);
    assert!(!source.info().blind_spots.is_empty());
    let mut touch = Touch::start(["--size", "64M"]);
    touch.ask("writerange 0 16000");
    Clearer::new(Grain::Mapping)
        .clear_all(
            &process_of(&touch),
            &YoungPiece::of_ranges(&[region_of(&touch)]),
            [16_000, 0],
            ClearIntent::Watch,
        )
        .unwrap();
    // A TLB that still knows them sets no bit; the many pages written since do not always make it forget.
    touch.ask("flush");
    touch.ask("readrange 1000 500");
    let seen = walk(&mut source, &touch);
    assert_eq!(
        seen.pages.keys().copied().collect::<Vec<_>>(),
        Vec::from_iter(0..16_000)
    );
    let young = seen.all(Page::Young);
    // DAMON, where it watches the machine, clears some first.
    assert!((460..=540).contains(&young.len()), "{}", young.len());
    assert_eq!(young, Vec::from_iter(0..young.len() as u64), "lowest first");
    let id = source.space_id(&process_of(&touch)).unwrap();
    assert_eq!(id, touch.pid as u64);
}

#[test]
fn auto_always_finds_a_source() {
    let is_usable = access::open(AccessChoice::Bpf).is_ok();
    let auto = access::open(AccessChoice::Auto).unwrap();
    assert_eq!(auto.info().name, if is_usable { "bpf" } else { "smaps" });
    assert_eq!(
        access::open(AccessChoice::Smaps).unwrap().info().name,
        "smaps"
    );
}
