//! Recordings: what is written is read back as accesses, and what is broken spoils only itself.

use crate::support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use strata_trace::recording::{
    AreaName, FileName, NO_PAGES, NameKnown, PageBits, Piece, SpaceEnd, SpaceName, WalkKind,
};
use strata_trace::{Access, Backing, Op, OpenOptions, PageKey, Tolerant, TraceError, Via};
use support::{Whose, about, info, open_strata, read, recording, salvage, tell};

const FILE_HEADER_BYTES: usize = 16;

/// One space's part of a walk.
#[derive(Clone, Debug)]
struct Told {
    space: u32,
    is_file: bool,
    cpu_us: u64,
    pieces: Vec<Piece>,
    end: SpaceEnd,
}

type Walk = (WalkKind, u64, Vec<Told>);

fn written(walks: &[Walk], is_flushed: bool) -> Vec<u8> {
    let mut writer = recording();
    for (kind, at_us, spaces) in walks {
        writer.begin_walk(*kind, *at_us).expect("memory");
        for told in spaces {
            let whose = match told.is_file {
                true => Whose::File(told.space),
                false => Whose::Space(told.space, told.cpu_us),
            };
            tell(&mut writer, whose, told.pieces.clone(), told.end);
        }
        if is_flushed {
            writer.flush().expect("memory");
        }
    }
    let nr_accesses = writer.nr_accesses();
    assert_eq!(nr_accesses, expected(walks).len() as u64);
    writer.finish().expect("memory")
}

fn has(bits: &PageBits, bit: u64) -> bool {
    bits[bit as usize / 64] >> (bit % 64) & 1 == 1
}

/// What a reader yields, by a dumb model.
fn expected(walks: &[Walk]) -> Vec<Access> {
    let mut lives: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    let mut accesses = Vec::new();
    for (_, time_us, spaces) in walks {
        for told in spaces {
            for piece in &told.pieces {
                for bit in 0..512 {
                    let page = piece.table * 512 + bit;
                    if has(&piece.gone, bit) {
                        *lives.entry((told.space, page)).or_default() += 1;
                    }
                    if !has(&piece.accessed, bit) && !has(&piece.appeared, bit) {
                        continue;
                    }
                    let life = lives.get(&(told.space, page)).copied().unwrap_or_default();
                    let backing = match has(&piece.anon, bit) {
                        true => Backing::Anon,
                        false => Backing::File,
                    };
                    accesses.push(Access {
                        key: PageKey {
                            space: told.space,
                            page: page | (life % 256) << 44,
                        },
                        time_us: *time_us,
                        size_bytes: 0,
                        group: 0,
                        backing,
                        op: if has(&piece.written, bit) {
                            Op::Write
                        } else {
                            Op::Read
                        },
                        via: match told.is_file {
                            true => Via::FileDescriptor,
                            false => Via::PageTable,
                        },
                    });
                }
            }
            if told.end == SpaceEnd::Ended {
                lives.retain(|(space, _), _| *space != told.space);
            }
        }
    }
    accesses
}

fn any_bits() -> impl Strategy<Value = PageBits> {
    let word = prop_oneof![4 => Just(0), 1 => Just(u64::MAX), 1 => any::<u64>(), 1 => Just(5)];
    prop_oneof![
        2 => Just(NO_PAGES),
        1 => Just([u64::MAX; 8]),
        3 => prop::array::uniform8(word),
    ]
}

fn any_piece() -> impl Strategy<Value = Piece> {
    let table = prop_oneof![4 => 0..4_u64, 1 => 0..(1_u64 << 35)];
    (
        table,
        0..5_u32,
        prop::array::uniform3(any_bits()),
        prop::array::uniform3(any_bits()),
    )
        .prop_map(
            |(table, area, [accessed, appeared, gone], [evicted, written, anon])| Piece {
                table,
                area,
                accessed,
                appeared,
                gone,
                evicted,
                written,
                anon,
            },
        )
}

fn any_walks(nr_max: usize) -> impl Strategy<Value = Vec<Walk>> {
    let end = prop_oneof![
        3 => Just(SpaceEnd::Whole),
        1 => Just(SpaceEnd::Broken),
        1 => Just(SpaceEnd::Ended),
    ];
    // Numbers from 3 on are those of files.
    let told = (
        0..6_u32,
        0..5000_u64,
        prop::collection::vec(any_piece(), 0..6),
        end,
    );
    let told = told.prop_map(|(space, cpu_us, mut pieces, end)| {
        let is_file = space >= 3;
        if is_file {
            pieces.iter_mut().for_each(|piece| piece.anon = NO_PAGES);
        }
        Told {
            space,
            is_file,
            cpu_us: if is_file { 0 } else { cpu_us },
            pieces,
            end,
        }
    });
    let kind = prop_oneof![Just(WalkKind::Baseline), Just(WalkKind::Interval)];
    prop::collection::vec(
        (kind, 0..1_000_000_u64, prop::collection::vec(told, 0..3)),
        0..nr_max,
    )
}

/// The example of the first version of the format.
const VERSION_1: &[u8] = include_bytes!("../recordings/version-1.strata");

/// A `.strata` file with one block of this content.
fn with_block(kind: u8, nr_records: u32, content: &[u8]) -> Vec<u8> {
    behind(&written(&[], false), kind, nr_records, content)
}

/// A `.strata` file with the header of this one, and one block of this content.
fn behind(file: &[u8], kind: u8, nr_records: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = file[..FILE_HEADER_BYTES].to_vec();
    let mut header = vec![kind, 0, 0, 0];
    for word in [
        nr_records,
        content.len() as u32,
        content.len() as u32,
        crc32fast::hash(content),
    ] {
        header.extend(word.to_le_bytes());
    }
    header.extend(crc32fast::hash(&header).to_le_bytes());
    bytes.extend(header);
    bytes.extend(content);
    bytes
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(walks in any_walks(12), is_flushed in any::<bool>()) {
        let bytes = written(&walks, is_flushed);
        prop_assert_eq!(read(&bytes, &OpenOptions::default()).unwrap(), expected(&walks));
        let info = info(&bytes);
        let nr_intervals = walks.iter().filter(|walk| walk.0 == WalkKind::Interval).count();
        prop_assert_eq!(info.nr_walks, nr_intervals as u64);
        let cpu_us: u64 = walks.iter().flat_map(|walk| &walk.2).map(|told| told.cpu_us).sum();
        prop_assert_eq!(info.cpu_us, cpu_us);
        prop_assert_eq!(info.about, Some(about()));
        let pieces = walks.iter().flat_map(|walk| &walk.2).filter(|told| told.is_file);
        let mut of_files: BTreeMap<u32, [u64; 2]> = BTreeMap::new();
        for (told, piece) in pieces.flat_map(|told| told.pieces.iter().map(move |piece| (told, piece))) {
            let counts = [piece.accessed, piece.appeared].map(|bits| (0..512).filter(|bit| has(&bits, *bit)).count());
            let told_of = [piece.accessed, piece.appeared, piece.gone, piece.evicted];
            if told_of.iter().any(|bits| *bits != NO_PAGES) {
                let sums = of_files.entry(told.space).or_default();
                sums.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more as u64);
            }
        }
        let read: BTreeMap<u32, [u64; 2]> =
            info.files.iter().map(|(file, info)| (*file, [info.nr_accessed, info.nr_appeared])).collect();
        prop_assert_eq!(read, of_files);
    }

    #[test]
    fn a_torn_recording_gives_what_was_flushed(
        walks in any_walks(8),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = written(&walks, true);
        let cut = FILE_HEADER_BYTES + cut.index(bytes.len() - FILE_HEADER_BYTES);
        let (read, told) = salvage(&bytes[..cut]);
        prop_assert!(expected(&walks).starts_with(&read));
        prop_assert_eq!(told.len(), 1);
        prop_assert!(told[0].contains("ends in the middle of"), "{}", told[0]);
    }

    #[test]
    fn a_changed_bit_never_makes_up_an_access(
        walks in any_walks(8),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let mut bytes = written(&walks, true);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        match open_strata(&bytes) {
            Err(error) => prop_assert!(at < FILE_HEADER_BYTES, "{error}"),
            Ok(_) => {
                let (read, told) = salvage(&bytes);
                prop_assert!(!told.is_empty(), "the change at {at} went unnoticed");
                // A block that is missing may have held that a page was freed.
                let plain = |access: &Access| (access.key.space, access.key.page % (1 << 44), access.time_us);
                let all: Vec<_> = expected(&walks).iter().map(plain).collect();
                let mut rest = all.iter();
                prop_assert!(read.iter().all(|one| rest.any(|other| *other == plain(one))));
            }
        }
    }

    #[test]
    fn any_content_with_a_fitting_checksum_is_read_or_refused(
        kind in prop_oneof![Just(2_u8), Just(128), Just(129)],
        nr_records in 0..40_u32,
        content in prop::collection::vec(prop_oneof![any::<u8>(), 0..12_u8], 0..200),
    ) {
        let bytes = with_block(kind, nr_records, &content);
        let mut reader = Tolerant::new(open_strata(&bytes).unwrap().reader, |_: &TraceError| {});
        let mut batch = Vec::new();
        use strata_trace::AccessReader;
        while reader.read_batch(&mut batch).unwrap() > 0 {
            prop_assert!(batch.len() <= strata_trace::BATCH_LEN);
        }
    }
}

/// All 512 pages of a table are accessed.
fn full(table: u64) -> Piece {
    Piece {
        table,
        accessed: [u64::MAX; 8],
        anon: [u64::MAX; 8],
        ..Piece::default()
    }
}

fn told(pieces: Vec<Piece>) -> Told {
    Told {
        space: 7,
        is_file: false,
        cpu_us: 50,
        pieces,
        end: SpaceEnd::Whole,
    }
}

#[test]
fn a_walk_of_many_tables_goes_on_in_the_next_block() {
    let mut writer = recording();
    writer.begin_walk(WalkKind::Interval, 5).expect("memory");
    let pieces = (0..70_000).map(full);
    tell(&mut writer, Whose::Space(7, 50), pieces, SpaceEnd::Whole);
    let bytes = writer.finish().expect("memory");
    // 35.8 million accesses in some kilobytes, of which no more than a batch is in memory at a time.
    assert!(bytes.len() < 10_000, "{} bytes", bytes.len());
    let mut opened = open_strata(&bytes).unwrap();
    let (mut batch, mut nr_accesses, mut last) = (Vec::new(), 0, None);
    while opened.reader.read_batch(&mut batch).unwrap() > 0 {
        assert!(batch.len() <= strata_trace::BATCH_LEN);
        assert!(
            batch
                .iter()
                .all(|access| access.time_us == 5 && access.key.space == 7)
        );
        nr_accesses += batch.len() as u64;
        last = batch.last().map(|access| access.key.page);
    }
    assert_eq!((nr_accesses, last), (70_000 * 512, Some(70_000 * 512 - 1)));
    let info = opened.reader.recording().unwrap();
    assert_eq!((info.nr_walks, info.cpu_us), (1, 50));
}

#[test]
fn steady_walks_cost_a_few_bytes_a_table() {
    let irregular: PageBits =
        std::array::from_fn(|word| 0x9e37_79b9_7f4a_7c15_u64.rotate_left(word as u32 * 9));
    let pieces = (0..256).map(|table| Piece {
        accessed: irregular.map(|word| word ^ (table * 0x517c_c1b7)),
        ..full(table)
    });
    let pieces: Vec<Piece> = pieces.collect();
    let walk = |at_us| (WalkKind::Interval, at_us, vec![told(pieces.clone())]);
    let [one, many] = [1, 21].map(|nr_walks| {
        let walks: Vec<Walk> = (1..=nr_walks).map(walk).collect();
        written(&walks, false).len()
    });
    assert!(many - one < 20 * 256, "{one} bytes a walk, {many} 21");
}

#[test]
fn names_are_kept_and_bounded() {
    let mut writer = recording();
    let space = SpaceName {
        space: 7,
        pid: 42,
        name: "redis".to_owned(),
    };
    let area = AreaName {
        area: 0,
        space: 7,
        class: "heap".to_owned(),
        name: "x".repeat(10_000),
    };
    writer.name_space(&space).expect("memory");
    writer.name_area(&area).expect("memory");
    writer.begin_walk(WalkKind::Baseline, 0).expect("memory");
    tell(&mut writer, Whose::Space(7, 0), [full(3)], SpaceEnd::Whole);
    let info = info(&writer.finish().expect("memory"));
    assert_eq!(info.spaces[&7], space);
    let kept = &info.areas[&0];
    assert_eq!(kept.nr_accessed, 512);
    let name = kept.name.as_ref().unwrap();
    assert_eq!((name.class.as_str(), name.name.len()), ("heap", 4096));

    // Files have names of the same bounds.
    let mut writer = recording();
    let names = [
        NameKnown::Path,
        NameKnown::Inside,
        NameKnown::Deleted,
        NameKnown::Nothing,
    ];
    let names: Vec<FileName> = (8..)
        .zip(names)
        .map(|(file, known)| FileName {
            file,
            group: "/app".to_owned(),
            known,
            path: format!("/data/{file}"),
        })
        .collect();
    for name in &names {
        writer.name_file(name).expect("memory");
    }
    let info = support::info(&writer.finish().expect("memory"));
    let kept: Vec<FileName> = info
        .files
        .into_values()
        .filter_map(|file| file.name)
        .collect();
    assert_eq!(kept, names);

    // Names without end: what is beyond the bound is counted, not kept.
    let mut writer = recording();
    for space in 0..70_000 {
        let (pid, name) = (1, String::new());
        writer
            .name_space(&SpaceName { space, pid, name })
            .expect("memory");
    }
    let info = support::info(&writer.finish().expect("memory"));
    assert_eq!(
        (info.spaces.len(), info.nr_left_out),
        (65_536, 70_000 - 65_536)
    );
}

#[test]
fn what_breaks_a_rule_within_a_block_is_refused_there() {
    // A walk at 9 us, space 1, then what is wrong.
    let walk_and_space = [1, 9, 2, 1, 0];
    let cases: [(&str, u32, &[u8]); 8] = [
        ("a piece without a space", 2, &[1, 9, 7, 0, 0, 255]),
        ("a space without a walk", 1, &[2, 1, 0]),
        ("an end without a space", 2, &[1, 9, 0]),
        ("an unknown flag of a walk", 1, &[1 | 1 << 6, 9]),
        ("bytes behind the last record", 1, &[1, 9, 0]),
        ("too few records", 3, &[1, 9, 2, 1, 0]),
        (
            "a table beyond the space",
            3,
            &[1, 9, 2, 1, 0, 7, 0x80, 0x80, 0x80, 0x80, 0x80, 0x08, 0, 255],
        ),
        (
            "a bitmap of too many pages",
            3,
            &[1, 9, 2, 1, 0, 7, 0, 0, 1, 0xff, 3, 1],
        ),
    ];
    for (what, nr_records, content) in cases {
        let (accesses, told) = salvage(&with_block(2, nr_records, content));
        assert!(accesses.is_empty(), "{what}");
        assert!(told[0].contains("a damaged block"), "{what}: {told:?}");
    }
    // A file has no anonymous pages: the lowest bit behind the table says that all of these are.
    let of_file = |kind_of_pages| [1, 9, 2 | 1 << 2, 1, 0, 7, 0, kind_of_pages, 255];
    let (accesses, told) = salvage(&with_block(2, 3, &of_file(1)));
    assert!(accesses.is_empty() && told[0].contains("a damaged block"));
    let (accesses, _) = salvage(&with_block(2, 3, &of_file(0)));
    assert_eq!(accesses.len(), 512);
    assert!(
        accesses
            .iter()
            .all(|access| access.via == Via::FileDescriptor)
    );
    // The first version has no files, neither their pages nor their names.
    let names = [3, 1, 0, 0, 0];
    for (kind, nr_records, content) in [(2, 3, &of_file(0)[..]), (128, 1, &names)] {
        let (_, told) = salvage(&behind(VERSION_1, kind, nr_records, content));
        assert!(told[0].contains("a damaged block"), "{told:?}");
        let (_, told) = salvage(&with_block(kind, nr_records, content));
        assert!(told[0].contains("its end mark is missing"), "{told:?}");
    }
    // The same with nothing wrong: all pages of table 0.
    let whole = [&walk_and_space[..], &[7, 0, 0, 255]].concat();
    let (accesses, told) = salvage(&with_block(2, 3, &whole));
    assert_eq!(accesses.len(), 512);
    assert!(told[0].contains("its end mark is missing"), "{told:?}");
}

#[test]
fn pages_freed_without_end_are_counted_where_they_can_not_be_kept() {
    // 8 Mi pages are freed, and nothing is accessed meanwhile that would end a batch.
    const NR_TABLES: u64 = 1 << 14;
    let gone = |table| Piece {
        table,
        gone: [u64::MAX; 8],
        ..Piece::default()
    };
    let walks = [
        (WalkKind::Baseline, 0, vec![told(vec![full(0)])]),
        (
            WalkKind::Interval,
            1,
            vec![told((0..NR_TABLES).map(gone).collect())],
        ),
    ];
    let bytes = written(&walks, false);
    let mut reader = open_strata(&bytes).expect("a recording").reader;
    let (mut batch, mut freed) = (Vec::new(), Vec::new());
    use strata_trace::AccessReader;
    reader.take_freed(&mut freed);
    while reader.read_batch(&mut batch).expect("whole") > 0 {}
    reader.take_freed(&mut freed);
    let nr_left_out = reader.recording().expect("a recording").nr_left_out;
    assert_eq!(freed.len(), 1 << 22);
    assert_eq!(nr_left_out, NR_TABLES * 512 - (1 << 22));
}
