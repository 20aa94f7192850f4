//! Our own format: what is written is read back, and what is broken spoils only itself.

use crate::support;

use proptest::prelude::*;
use strata_trace::{Access, Backing, Op, OpenOptions, PageKey, Position, Via, Writer};
use support::{example, open_strata, pages, read, salvage};

/// Bytes of the header of the file and of a block, as `docs/reference/trace-format.md` has them.
const FILE_HEADER_BYTES: usize = 16;
const BLOCK_HEADER_BYTES: usize = 24;

fn written(parts: &[&[Access]]) -> Vec<u8> {
    let mut writer = Writer::new("w", Vec::new()).expect("memory");
    for part in parts {
        writer.write(part).expect("memory");
        writer.flush().expect("memory");
    }
    let nr_accesses: usize = parts.iter().map(|part| part.len()).sum();
    assert_eq!(writer.nr_accesses(), nr_accesses as u64);
    writer.finish().expect("memory")
}

fn simple(page: u64) -> Access {
    Access {
        key: PageKey { space: 0, page },
        ..Access::default()
    }
}

/// Offsets at which the blocks begin, the end mark included.
fn blocks(bytes: &[u8]) -> Vec<usize> {
    let mut at = FILE_HEADER_BYTES;
    let mut offsets = Vec::new();
    while at < bytes.len() {
        offsets.push(at);
        let stored: [u8; 4] = bytes[at + 12..at + 16].try_into().expect("a header");
        at += BLOCK_HEADER_BYTES + u32::from_le_bytes(stored) as usize;
    }
    offsets
}

/// Changes bytes of a block's header and makes its checksum fit again.
fn forge(bytes: &[u8], block: usize, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let header = &mut bytes[block..block + BLOCK_HEADER_BYTES];
    change(header);
    let crc = crc32fast::hash(&header[..20]);
    header[20..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn any_access() -> impl Strategy<Value = Access> {
    let small_or_any = prop_oneof![3 => 0..50_u64, 1 => any::<u64>()];
    let time = prop_oneof![2 => Just(0), 1 => any::<u64>()];
    let few = prop_oneof![3 => 0..2_u32, 1 => any::<u32>()];
    (
        small_or_any,
        time,
        few.clone(),
        few,
        0..12_u8,
        prop_oneof![3 => Just(0), 1 => any::<u16>()],
    )
        .prop_map(|(page, time_us, space, size_bytes, bits, group)| Access {
            key: PageKey { space, page },
            time_us,
            size_bytes,
            group,
            backing: [Backing::Anon, Backing::File, Backing::Code][usize::from(bits / 4)],
            op: if bits & 1 == 0 { Op::Read } else { Op::Write },
            via: if bits & 2 == 0 {
                Via::PageTable
            } else {
                Via::FileDescriptor
            },
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_field_by_field(
        accesses in prop::collection::vec(any_access(), 0..400),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = if accesses.is_empty() { 0 } else { cut.index(accesses.len()) };
        let bytes = written(&[&accesses[..cut], &accesses[cut..]]);
        prop_assert_eq!(read(&bytes, &OpenOptions::default()).unwrap(), accesses);
    }

    #[test]
    fn a_torn_trace_gives_its_whole_blocks(
        accesses in prop::collection::vec(any_access(), 1..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let parts: Vec<&[Access]> = accesses.chunks(10).collect();
        let bytes = written(&parts);
        let cut = FILE_HEADER_BYTES + cut.index(bytes.len() - FILE_HEADER_BYTES);
        let nr_whole = blocks(&bytes).iter().skip(1).filter(|at| **at <= cut).count();
        let (read, told) = salvage(&bytes[..cut]);
        let expected: Vec<Access> = parts[..nr_whole].concat();
        prop_assert_eq!(read, expected);
        prop_assert_eq!(told.len(), 1);
        prop_assert!(told[0].contains("ends in the middle of"), "{}", told[0]);
    }

    #[test]
    fn a_changed_bit_never_changes_an_access(
        accesses in prop::collection::vec(any_access(), 1..60),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u32,
    ) {
        let mut bytes = written(&accesses.chunks(20).collect::<Vec<_>>());
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        match open_strata(&bytes) {
            Err(error) => prop_assert!(at < FILE_HEADER_BYTES, "{error}"),
            Ok(_) => {
                let (read, told) = salvage(&bytes);
                prop_assert!(!told.is_empty(), "the change at {at} went unnoticed");
                let mut rest = accesses.iter();
                prop_assert!(read.iter().all(|one| rest.any(|other| other == one)));
            }
        }
    }
}

#[test]
fn a_long_trace_takes_few_bytes_an_access() {
    let accesses: Vec<Access> = (0..300_000).map(|n| simple(n * 7919 % 5000)).collect();
    let bytes = written(&[&accesses]);
    assert_eq!(blocks(&bytes).len(), 300_000_usize.div_ceil(1 << 16) + 1);
    assert!(bytes.len() < accesses.len() / 4, "{} bytes", bytes.len());
    assert_eq!(read(&bytes, &OpenOptions::default()).unwrap(), accesses);
}

#[test]
fn a_damaged_block_spoils_itself_alone() {
    let [one, two, three] = [1, 2, 3].map(|n| [simple(n), simple(n + 10)]);
    let mut bytes = written(&[&one, &two, &three]);
    let second = blocks(&bytes)[1];
    bytes[second + BLOCK_HEADER_BYTES] ^= 1;
    let (read, told) = salvage(&bytes);
    assert_eq!(pages(&read), [1, 11, 3, 13]);
    let expected = format!("t: byte {second}: a damaged block: its checksum does not fit");
    assert_eq!(told, [expected]);
}

#[test]
fn a_forged_header_is_refused_before_anything_is_allocated() {
    let bytes = written(&[&[simple(1), simple(2)], &[simple(3)]]);
    let at = blocks(&bytes)[0];
    let huge = u32::MAX.to_le_bytes();
    for (from, what) in [(4, "records"), (8, "content"), (12, "stored")] {
        let forged = forge(&bytes, at, |header| {
            header[from..from + 4].copy_from_slice(&huge)
        });
        let (read, told) = salvage(&forged);
        assert!(read.is_empty(), "{what}");
        assert_eq!(told.len(), 1);
        assert!(
            told[0].contains("it is larger than a block may be"),
            "{}",
            told[0]
        );
    }
    // Within bounds, but not what is there.
    for (from, value) in [(1, 9), (4, 1), (4, 3), (8, 1), (8, 200)] {
        let (read, told) = salvage(&forge(&bytes, at, |header| header[from] = value));
        assert_eq!(pages(&read), [3]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("a damaged block"), "{}", told[0]);
    }
}

#[test]
fn kinds_of_later_versions_are_passed_over_or_refused_as_they_ask() {
    let bytes = written(&[&[simple(1)], &[simple(2)], &[simple(3)]]);
    let second = blocks(&bytes)[1];
    let (read, told) = salvage(&forge(&bytes, second, |header| header[0] = 200));
    assert_eq!(pages(&read), [1, 3]);
    // Two accesses, and the end mark counts three: one was another kind's.
    assert_eq!(told.len(), 1, "{told:?}");
    let (read, told) = salvage(&forge(&bytes, second, |header| header[0] = 3));
    assert_eq!(pages(&read), [1]);
    assert!(
        told[0].contains("its kind 3 is not known to this version"),
        "{}",
        told[0]
    );
}

#[test]
fn the_header_of_the_file_says_what_is_wrong_with_it() {
    let bytes = written(&[&[simple(1)]]);
    let error = |bytes: &[u8]| {
        let error = open_strata(bytes).expect_err("the header is broken");
        assert_eq!(error.position(), Some(Position::Byte(0)));
        error.to_string()
    };
    let mut newer = bytes.clone();
    newer[8] = 3;
    assert!(
        error(&newer).contains("version 3 is not known"),
        "{}",
        error(&newer)
    );
    let mut damaged = bytes.clone();
    damaged[13] ^= 1;
    assert!(
        error(&damaged).contains("its header is damaged"),
        "{}",
        error(&damaged)
    );
    assert!(error(b"time,id\n1,2\n").contains("not a strata trace"));
    assert!(error(&bytes[..9]).contains("ends in the middle of the header"));
    assert!(error(&[]).contains("ends in the middle of the header"));
}

#[test]
fn a_file_that_can_not_be_written_is_named() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from_raw_os_error(28))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let error = Writer::new("out.strata", Full).unwrap_err();
    assert_eq!(
        error.to_string(),
        "out.strata: byte 0: No space left on device (os error 28)"
    );
}

#[test]
fn the_example_is_what_is_written() {
    let bytes = example(include_str!("../formats/example.txt"));
    let first = simple(7);
    let second = Access {
        op: Op::Write,
        via: Via::PageTable,
        backing: Backing::Anon,
        time_us: 250,
        ..simple(8)
    };
    let third = Access {
        key: PageKey { space: 1, page: 6 },
        group: 2,
        size_bytes: 512,
        time_us: 250,
        ..Access::default()
    };
    assert_eq!(written(&[&[first, second, third]]), bytes);
    assert_eq!(
        read(&bytes, &OpenOptions::default()).unwrap(),
        [first, second, third]
    );
}
