//! The example of the recording format that its document points to, and that of the first version.

use crate::support;

use strata_trace::recording::{
    AreaName, FileName, NameKnown, Piece, SpaceEnd, SpaceName, WalkKind,
};
use strata_trace::{Access, Backing, Op, OpenOptions, PageKey, Via};
use support::{Whose, example, info, read, recording, tell};

/// Bytes in hexadecimal, and behind `#` what they are.
const EXAMPLE: &str = include_str!("../recordings/example.txt");
/// The example of the first version of the format.
const VERSION_1: &[u8] = include_bytes!("../recordings/version-1.strata");

#[test]
fn the_example_is_what_is_written() {
    let bytes = example(EXAMPLE);
    let mut writer = recording();
    let space = SpaceName {
        space: 0,
        pid: 42,
        name: "job".to_owned(),
    };
    let area = AreaName {
        area: 0,
        space: 0,
        class: "heap".to_owned(),
        name: "[heap]".to_owned(),
    };
    let file = FileName {
        file: 1,
        group: "/app".to_owned(),
        known: NameKnown::Path,
        path: "/srv/log".to_owned(),
    };
    writer.name_space(&space).expect("memory");
    writer.name_area(&area).expect("memory");
    writer.name_file(&file).expect("memory");
    let first = |word| [word, 0, 0, 0, 0, 0, 0, 0];
    let there = Piece {
        table: 3,
        appeared: first(0b1111),
        anon: first(0b1111),
        ..Piece::default()
    };
    let cached = Piece {
        appeared: first(0b111),
        ..Piece::default()
    };
    let next = Piece {
        table: 3,
        accessed: first(0b10_0010),
        appeared: first(0b10_0000),
        gone: first(0b1000),
        written: first(0b10_0000),
        anon: first(0b10_1010),
        ..Piece::default()
    };
    let read_again = Piece {
        accessed: first(0b10),
        evicted: first(0b1),
        ..Piece::default()
    };
    for (kind, at_us, cpu_us, of_space, of_file) in [
        (WalkKind::Baseline, 0, 0, there, cached),
        (WalkKind::Interval, 100_000, 99_000, next, read_again),
    ] {
        writer.begin_walk(kind, at_us).expect("memory");
        let (space, file) = (Whose::Space(0, cpu_us), Whose::File(1));
        tell(&mut writer, space, [of_space], SpaceEnd::Whole);
        tell(&mut writer, file, [of_file], SpaceEnd::Whole);
    }
    let written = writer.finish().expect("memory");
    let dumped: Vec<String> = written
        .chunks(16)
        .enumerate()
        .map(|(line, bytes)| {
            let bytes: String = bytes.iter().map(|byte| format!(" {byte:02x}")).collect();
            format!("{:04x} {bytes}", line * 16)
        })
        .collect();
    assert_eq!(written, bytes, "it is\n{}", dumped.join("\n"));
    let accesses = read(&bytes, &OpenOptions::default()).unwrap();
    let of = |via| {
        let of_via = accesses.iter().filter(move |access| access.via == via);
        of_via.map(|access| access.key.page).collect::<Vec<u64>>()
    };
    assert_eq!(of(Via::PageTable), [1536, 1537, 1538, 1539, 1537, 1541]);
    assert_eq!(of(Via::FileDescriptor), [0, 1, 2, 1]);
}

#[test]
fn a_recording_of_the_first_version_is_read_as_ever() {
    let accesses = read(VERSION_1, &OpenOptions::default()).unwrap();
    let access = |time_us, page, op| Access {
        key: PageKey { space: 0, page },
        time_us,
        size_bytes: 0,
        group: 0,
        backing: Backing::Anon,
        op,
        via: Via::PageTable,
    };
    let there = (1536..1540).map(|page| access(0, page, Op::Read));
    let then = [
        access(100_000, 1537, Op::Read),
        access(100_000, 1541, Op::Write),
    ];
    assert_eq!(accesses, there.chain(then).collect::<Vec<Access>>());
    let info = info(VERSION_1);
    assert_eq!((info.nr_walks, info.cpu_us, info.nr_gone), (1, 99_000, 1));
    assert_eq!(info.spaces[&0].name, "job");
    assert_eq!(info.areas[&0].nr_accessed, 2);
    assert!(info.files.is_empty());
}
