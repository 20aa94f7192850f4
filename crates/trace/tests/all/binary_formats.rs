//! Formats of records: a tiny trace of ours, what is read from it, what is said when it is broken.

use crate::support;

use std::num::NonZeroU32;

use strata_trace::{Backing, Format, OpenOptions, Via};
use support::{as_format, broken, expanded, oracle, pages, read, times_us, vscsi, writes};

#[test]
fn bare_numbers_are_pages_in_each_width_and_order() {
    for (format, bytes) in [
        (Format::U32Le, [7, 0, 0, 0, 1, 2, 0, 0]),
        (Format::U32Be, [0, 0, 0, 7, 0, 0, 2, 1]),
    ] {
        let accesses = read(&bytes, &as_format(format)).unwrap();
        assert_eq!(pages(&accesses), [7, 0x201]);
        assert!(
            accesses
                .iter()
                .all(|a| a.via == Via::FileDescriptor && a.time_us == 0)
        );
    }
    let [le, be] = [Format::U64Le, Format::U64Be].map(|f| {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
        pages(&read(&bytes, &as_format(f)).unwrap())
    });
    assert_eq!(
        (le, be),
        (vec![0x0807_0605_0403_0201], vec![0x0102_0304_0506_0708])
    );
}

#[test]
fn a_torn_last_record_is_named_behind_the_whole_ones() {
    let mut bytes: Vec<u8> = (0..20_000_u32).flat_map(u32::to_be_bytes).collect();
    bytes.push(1);
    let (told, before) = broken(&bytes, &as_format(Format::U32Be));
    assert!(before.into_iter().eq(0..20_000));
    assert_eq!(told, "t: byte 80000: ends in the middle of a record");
}

#[test]
fn a_tlb_trace_is_memory_with_writes() {
    let bytes: Vec<u8> = [5_u64 << 1, 5 << 1 | 1, 9 << 1]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    let accesses = read(&bytes, &as_format(Format::Tlb)).unwrap();
    assert_eq!(pages(&accesses), [5, 5, 9]);
    assert_eq!(writes(&accesses), [false, true, false]);
    assert!(
        accesses
            .iter()
            .all(|a| a.via == Via::PageTable && a.backing == Backing::Anon)
    );
}

#[test]
fn oracle_general_counts_time_from_the_first_request() {
    let bytes = [
        oracle(1000, 42, 512, None),
        oracle(1003, 43, 8192, None),
        oracle(1001, 42, 512, None),
    ]
    .concat();
    let accesses = read(&bytes, &as_format(Format::OracleGeneral)).unwrap();
    assert_eq!(pages(&accesses), [42, 43, 42]);
    assert_eq!(times_us(&accesses), [0, 3_000_000, 1_000_000]);
    assert_eq!(accesses[1].size_bytes, 8192);
    assert_eq!(
        pages(&read(&bytes, &expanded(Format::OracleGeneral)).unwrap()),
        [42, 43, 44, 42]
    );
    let sectors = OpenOptions {
        id_bytes: NonZeroU32::new(512),
        ..expanded(Format::OracleGeneral)
    };
    // Sector 42 lies in page 5, the 8 KiB from sector 43 on in pages 5, 6 and 7.
    assert_eq!(pages(&read(&bytes, &sectors).unwrap()), [5, 5, 6, 7, 5]);
}

#[test]
fn a_namespace_is_a_group_and_a_deletion_no_access() {
    let request = |op, ns| oracle(0, 1, 1, Some((op, ns)));
    let bytes = [
        request(1, 7),
        request(3, 8),
        request(9, 8),
        request(12, 65_535),
    ]
    .concat();
    let accesses = read(&bytes, &as_format(Format::OracleGeneralOpNs)).unwrap();
    assert_eq!(writes(&accesses), [false, true, false]);
    assert_eq!(
        accesses.iter().map(|a| a.group).collect::<Vec<_>>(),
        [7, 8, 65_535]
    );
    let only_deletions = request(9, 0).repeat(30_000);
    assert!(
        read(&only_deletions, &as_format(Format::OracleGeneralOpNs))
            .unwrap()
            .is_empty()
    );
    let bad = [request(1, 0), request(77, 0)].concat();
    let (told, before) = broken(&bad, &as_format(Format::OracleGeneralOpNs));
    assert_eq!(told, "t: byte 27: op must be 0 to 14 or 255, not `77`");
    assert_eq!(before, [1]);
}

#[test]
fn an_id_that_is_no_address_can_still_have_a_size() {
    let hash = u64::MAX - 5;
    let bytes = [oracle(0, hash, 8192, None), oracle(0, hash, 1 << 20, None)].concat();
    let options = expanded(Format::OracleGeneral);
    let (told, before) = broken(&bytes, &options);
    assert_eq!(before, [hash, hash + 1]);
    assert!(
        told.contains("the last page must be a number below 2^64"),
        "{told}"
    );
}

#[test]
fn vscsi_of_both_versions_says_what_was_written() {
    for version in [1, 2] {
        let bytes = [
            vscsi(version, 0x2a, 800, 4096, 5_000),
            vscsi(version, 0x28, 801, 4096, 7_000),
        ]
        .concat();
        let accesses = read(&bytes, &as_format(Format::Vscsi)).unwrap();
        assert_eq!(pages(&accesses), [800, 801], "version {version}");
        assert_eq!(writes(&accesses), [true, false]);
        assert_eq!(times_us(&accesses), [0, 2_000]);
        assert_eq!(accesses[0].size_bytes, 4096);
        // Sectors: 800 begins page 100, and 4 KiB from 801 on lie in two pages.
        let expanded = read(&bytes, &expanded(Format::Vscsi)).unwrap();
        assert_eq!(pages(&expanded), [100, 100, 101]);
    }
    let (told, _) = broken(&[3; 80], &as_format(Format::Vscsi));
    assert!(
        told.contains("not vscsi: its first records have neither"),
        "{told}"
    );
    let mixed = [
        vscsi(1, 0x28, 5, 512, 0),
        vscsi(1, 0x28, 6, 512, 0),
        vscsi(3, 0x28, 7, 512, 0)[..32].to_vec(),
    ]
    .concat();
    let (told, before) = broken(&mixed, &as_format(Format::Vscsi));
    assert_eq!(before, [5, 6]);
    assert!(
        told.starts_with("t: byte 64: version must be that of the first record"),
        "{told}"
    );
}
