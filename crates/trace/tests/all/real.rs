//! Real traces, those kept here and those of others that are there: each is read as its authors describe it.

use crate::support;

use std::collections::HashSet;

use strata_trace::{Backing, Format, Op, OpenOptions, Via, open};
use support::{as_format, drain, oracle, read, real_trace};

/// File, format, requests, distinct pages.
const TRACES: [(&str, Format, usize, usize); 17] = [
    ("arc-oltp.lis.zst", Format::Lis, 914_145, 186_880),
    ("arc-p6.lis.zst", Format::Lis, 12_672_123, 773_770),
    (
        "cloudphysics-io.oracleGeneral.zst",
        Format::OracleGeneral,
        113_872,
        48_974,
    ),
    ("cloudphysics-io.csv.zst", Format::Csv, 113_872, 48_974),
    ("memsim-gcc.trace.gz", Format::Memsim, 1_000_000, 2_852),
    ("memsim-swim.trace.gz", Format::Memsim, 1_000_000, 2_543),
    ("ucsd-gcc.trace.gz", Format::Ucsd, 515_683, 294),
    ("lirs-multi3.trace.gz", Format::Txt, 30_241, 7_454),
    ("lirs-loop.trace.gz", Format::Txt, 505_500, 1_011),
    ("lirs-sprite.trace.gz", Format::Txt, 133_996, 7_075),
    ("lirs-2_pools.trace.gz", Format::Lirs, 100_000, 9_939),
    ("lirs-cpp.trace.gz", Format::Txt, 9_047, 1_223),
    ("cache2k-web07.trace.xz", Format::U32Be, 76_118, 20_484),
    (
        "cache2k-orm-night.trace.xz",
        Format::U32Be,
        5_000_000,
        86_466,
    ),
    ("pydict.tlb.xz", Format::Tlb, 4_393_262, 3_439),
    ("sqlite.tlb.xz", Format::Tlb, 1_899_082, 833),
    // The same numbers, read in the format they are named for.
    ("lirs-multi3.trace.gz", Format::Lirs, 30_241, 7_454),
];

/// The one that is read in a format it would not be guessed to be in: single numbers are `txt` as well.
const TOLD: [(&str, Format); 1] = [("lirs-multi3.trace.gz", Format::Lirs)];

/// Those that are kept in `tests/traces`, and always there.
const KEPT: [&str; 2] = ["cache2k-web07.trace.xz", "sqlite.tlb.xz"];

#[test]
fn every_real_trace_has_the_requests_and_pages_it_is_known_for() {
    for (name, format, nr_requests, nr_pages) in TRACES {
        let path = real_trace(name);
        assert!(path.is_some() || !KEPT.contains(&name), "{name} is gone");
        let Some(path) = path else { continue };
        let options = if TOLD.contains(&(name, format)) {
            as_format(format)
        } else {
            OpenOptions::default()
        };
        let mut opened = open(path, &options).unwrap();
        assert_eq!(opened.format, format, "{name}");
        let (mut batch, mut seen, mut nr_read) = (Vec::new(), HashSet::new(), 0);
        while opened.reader.read_batch(&mut batch).unwrap() > 0 {
            nr_read += batch.len();
            for access in &batch {
                seen.insert(access.key);
                assert_eq!(access.via, format.default_via(), "{name}");
                assert_eq!(access.backing, format.default_backing(), "{name}");
            }
        }
        assert_eq!((nr_read, seen.len()), (nr_requests, nr_pages), "{name}");
        let progress = opened.progress;
        assert_eq!(
            Some(progress.read_bytes()),
            progress.total_bytes(),
            "{name}"
        );
    }
}

/// Requests of a made-up trace in two formats: reads and writes of one block each.
fn made_up() -> [Vec<u8>; 2] {
    let (mut binary, mut text) = (Vec::new(), String::from("version,time,op,size,lbn\n"));
    for n in 0..10_000_u32 {
        let block = u64::from(n * n % 3_001);
        binary.extend(oracle(n / 4, block, 512, None));
        let op = if n % 3 == 0 { "2a" } else { "28" };
        text.push_str(&format!("1,{},{op},512,{block}\n", n / 4));
    }
    [binary, text.into_bytes()]
}

#[test]
fn the_same_requests_in_two_formats_are_the_same_accesses() {
    let formats = [Format::OracleGeneral, Format::Csv];
    let mut pairs = vec![];
    let made_up = made_up();
    pairs.push([0, 1].map(|of: usize| read(&made_up[of], &as_format(formats[of])).unwrap()));
    let names = [
        "cloudphysics-io.oracleGeneral.zst",
        "cloudphysics-io.csv.zst",
    ];
    if let [Some(binary), Some(text)] = names.map(real_trace) {
        pairs.push([binary, text].map(|path| {
            let (accesses, end) = drain(&mut open(path, &OpenOptions::default()).unwrap());
            end.unwrap();
            accesses
        }));
    }
    for [mut binary, mut text] in pairs {
        assert!(text.iter().any(|access| access.op == Op::Write));
        assert!(text.last().unwrap().time_us > 0);
        // Only the table says what was a write, and the binary format gives a page the same size
        // throughout.
        for access in binary.iter_mut().chain(&mut text) {
            access.op = Op::Read;
            access.size_bytes = 0;
        }
        assert!(binary == text);
    }
}

#[test]
fn a_path_and_a_backing_that_are_asked_for_win_over_those_of_the_format() {
    let options = OpenOptions {
        via: Some(Via::PageTable),
        backing: Some(Backing::File),
        ..OpenOptions::default()
    };
    let (accesses, end) =
        drain(&mut open(real_trace(KEPT[0]).expect("is kept"), &options).unwrap());
    end.unwrap();
    assert!(
        accesses
            .iter()
            .all(|a| a.via == Via::PageTable && a.backing == Backing::File)
    );
}
