//! Whole traces of every format, broken at random with fixed seeds: each is read or refused, within
//! bounds, and never panics. `fuzz/` does the same led by coverage.

use crate::support;

use std::fs;
use std::io::Cursor;
use std::path::Path;

use strata_trace::recording::{NO_PAGES, Piece, SpaceEnd, WalkKind};
use strata_trace::{
    Access, AccessReader, BATCH_LEN, Compression, Format, OpenOptions, Sizes, Tolerant, TraceError,
    Writer, open_stream,
};

/// Accesses of an input that are looked at: a run may be a million pages long.
const ACCESSES_MAX: usize = 50_000;

/// xorshift64*: all that is asked of it is to be the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

#[test]
fn every_format_has_a_fuzz_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).expect("fuzz/Cargo.toml");
    let formats = Format::NAMES;
    for name in formats.iter().chain(&["guessed", "recording"]) {
        let name = name.replace('-', "_");
        let target = fuzz.join(format!("fuzz_targets/{name}.rs"));
        assert!(target.is_file(), "{}", target.display());
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
    }
}

/// A small whole trace of each format.
fn samples() -> Vec<(Format, Vec<u8>)> {
    let accesses: Vec<Access> = "gen:mixed,accesses=300,groups=2,writes=30"
        .parse::<strata_trace::Generator>()
        .expect("a generator")
        .collect();
    let text = |line: &dyn Fn(usize, &Access) -> String| {
        let lines = accesses
            .iter()
            .enumerate()
            .map(|(n, access)| line(n, access));
        lines.collect::<String>().into_bytes()
    };
    let binary = |record: &dyn Fn(usize, &Access) -> Vec<u8>| {
        let records = accesses
            .iter()
            .enumerate()
            .flat_map(|(n, access)| record(n, access));
        records.collect::<Vec<u8>>()
    };
    let mut strata = Writer::new("w", Vec::new()).expect("memory");
    for part in accesses.chunks(100) {
        strata.write(part).expect("memory");
        strata.flush().expect("memory");
    }
    let mut recording = support::recording();
    for (at, part) in accesses.chunks(20).enumerate() {
        let walk = recording.begin_walk(WalkKind::Interval, at as u64);
        walk.expect("memory");
        let is_file = at % 4 == 3;
        let whose = match is_file {
            true => support::Whose::File(3),
            false => support::Whose::Space(at as u32 % 3, 7),
        };
        let pieces = part.iter().map(|access| {
            let bits = |shift: u64| [access.key.page << shift, 0, 1, 0, 0, 0, u64::MAX, 0];
            Piece {
                table: access.key.page,
                area: access.key.space,
                accessed: bits(0),
                appeared: bits(5),
                gone: bits(9),
                anon: if is_file { NO_PAGES } else { bits(3) },
                ..Piece::default()
            }
        });
        support::tell(&mut recording, whose, pieces, SpaceEnd::Whole);
        recording.flush().expect("memory");
    }
    let page = |access: &Access| access.key.page;
    let oracle = |n: usize, access: &Access, op_ns: Option<(u8, u16)>| {
        support::oracle(n as u32, page(access), 4096, op_ns)
    };
    let vscsi = |n: usize, access: &Access, version: u8| {
        support::vscsi(version, 0x2a, page(access), 4096, n as u64)
    };
    vec![
        (Format::Strata, strata.finish().expect("memory")),
        (Format::Strata, recording.finish().expect("memory")),
        (Format::OracleGeneral, binary(&|n, a| oracle(n, a, None))),
        (
            Format::OracleGeneralOpNs,
            binary(&|n, a| oracle(n, a, Some((1, 0)))),
        ),
        (
            Format::Csv,
            text(&|n, a| format!("{n}.5,{},{},read\n", page(a), n * 100)),
        ),
        (
            Format::Csv,
            [
                b"time,id,size,op\n".to_vec(),
                text(&|n, a| format!("{n},{},7,2a\n", page(a))),
            ]
            .concat(),
        ),
        (Format::Txt, text(&|n, a| format!("{} {n}\n", page(a)))),
        (
            Format::Lis,
            text(&|n, a| format!("{} {} 0 {n}\n", page(a), n % 5)),
        ),
        (Format::Lirs, text(&|_, a| format!("{}\n*\n", page(a)))),
        (
            Format::Memsim,
            text(&|_, a| format!("{:08x} W\n", page(a) << 12)),
        ),
        (
            Format::Ucsd,
            text(&|n, a| format!("s 0x{:08x} {n}\n", page(a) << 12)),
        ),
        (
            Format::Lackey,
            text(&|n, a| format!(" L {:08x},{}\n", page(a) << 12, n % 9)),
        ),
        (Format::Vscsi, binary(&|n, a| vscsi(n, a, 1))),
        (Format::Vscsi, binary(&|n, a| vscsi(n, a, 2))),
        (
            Format::Fio,
            [
                b"fio version 2 iolog\n".to_vec(),
                text(&|n, a| format!("/f{} read {} {}\n", n % 4, page(a), n * 99)),
            ]
            .concat(),
        ),
        (
            Format::Fio,
            [
                b"fio version 3 iolog\n".to_vec(),
                text(&|n, a| format!("{n} /f write {} 8192\n", page(a))),
            ]
            .concat(),
        ),
        (
            Format::U32Le,
            binary(&|_, a| (page(a) as u32).to_le_bytes().to_vec()),
        ),
        (
            Format::U32Be,
            binary(&|_, a| (page(a) as u32).to_be_bytes().to_vec()),
        ),
        (
            Format::U64Le,
            binary(&|_, a| page(a).to_le_bytes().to_vec()),
        ),
        (
            Format::U64Be,
            binary(&|_, a| page(a).to_be_bytes().to_vec()),
        ),
        (
            Format::Tlb,
            binary(&|_, a| (page(a) << 1).to_le_bytes().to_vec()),
        ),
    ]
}

/// Breaks a trace as disks, editors and attackers do.
fn break_it(bytes: &mut Vec<u8>, random: &mut Random) {
    const WORDS: [&[u8]; 8] = [
        b"18446744073709551615",
        b"-1",
        b"\n\n",
        b"",
        b"0x",
        b",",
        b"*",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
    ];
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => bytes[at] = random.next() as u8,
            3 => {
                let word = WORDS[random.below(WORDS.len())];
                let end = (at + random.below(12)).min(bytes.len());
                bytes.splice(at..end, word.iter().copied());
            }
            4 => {
                let end = (at + random.below(64)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                let end = (at + random.below(64)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
}

/// Reads to the end or the bound; how many accesses came.
fn read(bytes: Vec<u8>, options: &OpenOptions) -> usize {
    let Ok(opened) = open_stream("t", Cursor::new(bytes), None, options) else {
        return 0;
    };
    let mut reader = Tolerant::new(opened.reader, |error: &TraceError| {
        assert!(error.position().is_some() && !error.to_string().is_empty());
    });
    let (mut batch, mut nr_read) = (Vec::new(), 0);
    while nr_read < ACCESSES_MAX && reader.read_batch(&mut batch).is_ok_and(|nr| nr > 0) {
        assert!(batch.len() <= BATCH_LEN);
        nr_read += batch.len();
    }
    nr_read
}

fn mutate(nr_rounds: usize) {
    let samples = samples();
    let mut random = Random(0x5eed);
    let columns = ["", "id=2", "id=1,time=2,op=3", "id=1,ids=text,header=no"];
    for (format, sample) in &samples {
        assert!(read(sample.clone(), &support::as_format(*format)) > 0 || *format == Format::Csv);
        let mut nr_read = 0;
        for _ in 0..nr_rounds {
            let mut bytes = sample.clone();
            break_it(&mut bytes, &mut random);
            let compression = match random.below(8) {
                0 => Compression::Zst,
                1 => Compression::Gz,
                2 => Compression::Xz,
                _ => Compression::None,
            };
            let mut bytes = support::compressed(&bytes, compression);
            if random.below(4) == 0 {
                break_it(&mut bytes, &mut random);
            }
            let options = OpenOptions {
                format: (random.below(4) > 0).then_some(*format),
                sizes: [Sizes::Ignore, Sizes::Expand][random.below(2)],
                columns: columns[random.below(4)].parse().expect("columns"),
                ..OpenOptions::default()
            };
            nr_read += read(bytes, &options);
        }
        assert!(nr_read > 0, "no broken {format} was read at all");
    }
}

#[test]
fn no_broken_trace_panics() {
    mutate(300);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn long_no_broken_trace_panics() {
    mutate(20_000);
}
