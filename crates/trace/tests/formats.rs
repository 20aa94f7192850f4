//! Each format: a tiny trace of ours, what is read from it, and what is said when it is broken.

mod support;

use std::io::{Cursor, Read, Write};
use std::num::NonZeroU32;

use strata_trace::{
    Access, Backing, Compression, Format, Op, OpenOptions, Position, Sizes, Via, open, open_stream,
};
use support::{as_format, drain, pages, read};

fn expanded(format: Format) -> OpenOptions {
    OpenOptions {
        sizes: Sizes::Expand,
        ..as_format(format)
    }
}

fn with_columns(format: Format, columns: &str) -> OpenOptions {
    OpenOptions {
        columns: columns.parse().expect("columns"),
        ..as_format(format)
    }
}

fn writes(accesses: &[Access]) -> Vec<bool> {
    accesses.iter().map(|a| a.op == Op::Write).collect()
}

fn times_us(accesses: &[Access]) -> Vec<u64> {
    accesses.iter().map(|a| a.time_us).collect()
}

/// Reads a broken trace; what is said, and the pages in front of the broken place.
fn broken(bytes: &[u8], options: &OpenOptions) -> (String, Vec<u64>) {
    match open_stream("t", Cursor::new(bytes.to_vec()), None, options) {
        Err(error) => (error.to_string(), Vec::new()),
        Ok(mut opened) => {
            let (accesses, end) = drain(&mut opened);
            let error = end.expect_err("the trace is broken");
            (error.to_string(), pages(&accesses))
        }
    }
}

/// A request of libCacheSim's binary formats.
fn oracle(time_s: u32, id: u64, size: u32, op_ns: Option<(u8, u16)>) -> Vec<u8> {
    let mut bytes = time_s.to_le_bytes().to_vec();
    bytes.extend(id.to_le_bytes());
    bytes.extend(size.to_le_bytes());
    if let Some((op, ns)) = op_ns {
        bytes.push(op);
        bytes.extend(ns.to_le_bytes());
    }
    bytes.extend((-1_i64).to_le_bytes());
    bytes
}

fn vscsi(version: u8, command: u8, block: u64, len: u32, time_us: u64) -> Vec<u8> {
    let (command, version) = (u16::from(command).to_le_bytes(), [7, version]);
    let numbers = [1_u32.to_le_bytes(), len.to_le_bytes(), 3_u32.to_le_bytes()].concat();
    let head = if version[1] == 1 {
        [&numbers[..], &command, &version].concat()
    } else {
        [&command[..], &version, &numbers].concat()
    };
    let mut bytes = [
        head,
        block.to_le_bytes().to_vec(),
        time_us.to_le_bytes().to_vec(),
    ]
    .concat();
    if version[1] == 2 {
        bytes.extend(900_u64.to_le_bytes());
    }
    bytes
}

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

#[test]
fn a_lis_line_is_a_run_of_blocks() {
    let text = b"10 3 0 0\n5 1 0 1\r\n\n7 0 0 2\n20 2 0 3";
    assert_eq!(
        pages(&read(text, &as_format(Format::Lis)).unwrap()),
        [10, 11, 12, 5, 20, 21]
    );
    let long = b"0 1000000 0 0\n3 1 0 1\n";
    let accesses = read(long, &as_format(Format::Lis)).unwrap();
    assert!(pages(&accesses).into_iter().eq((0..1_000_000).chain([3])));
}

#[test]
fn a_broken_lis_line_is_named_with_its_number() {
    for (line, told) in [
        (
            "5 18446744073709551615 0 1",
            "pages of a request must be at most 1048576",
        ),
        (
            "18446744073709551615 9 0 1",
            "the last page must be a number below 2^64",
        ),
        (
            "5 x 0 1",
            "number of blocks must be a number below 2^64, not `x`",
        ),
        (
            "5 1",
            "third column must be a number below 2^64, not missing",
        ),
        (
            "5 1 0",
            "number of the request must be a number below 2^64, not missing",
        ),
        (
            "99999999999999999999 1 0 0",
            "first block must be a number below 2^64",
        ),
        (
            "-5 1 0 0",
            "first block must be a number below 2^64, not `-5`",
        ),
    ] {
        let (error, before) = broken(
            format!("1 1 0 0\n{line}\n").as_bytes(),
            &as_format(Format::Lis),
        );
        assert_eq!(before, [1]);
        assert!(
            error.starts_with("t: line 2: ") && error.contains(told),
            "{line}: {error}"
        );
    }
}

#[test]
fn one_bad_line_spoils_nothing_but_itself() {
    let text = b"1 1 0 0\noops\n2 1 0 1\n";
    let options = as_format(Format::Lis);
    let mut opened = open_stream("t", Cursor::new(text.to_vec()), None, &options).unwrap();
    let mut batch = Vec::new();
    let error = opened.reader.read_batch(&mut batch).unwrap_err();
    assert!(error.is_local() && !error.is_torn_tail());
    assert_eq!(pages(&batch), [1]);
    assert_eq!(opened.reader.read_batch(&mut batch).unwrap(), 1);
    assert_eq!(pages(&batch), [2]);
    assert_eq!(opened.reader.read_batch(&mut batch).unwrap(), 0);
}

#[test]
fn marks_of_lirs_are_passed_over() {
    let text = b"5\n*\n6\n * a mark\n5\n";
    assert_eq!(
        pages(&read(text, &as_format(Format::Lirs)).unwrap()),
        [5, 6, 5]
    );
    let (told, before) = broken(b"5\n6 7\n", &as_format(Format::Lirs));
    assert_eq!(
        (told.as_str(), before),
        ("t: line 2: a line must be one number, not `7`", vec![5])
    );
}

#[test]
fn memory_references_are_pages_of_4096_bytes() {
    let accesses = read(b"0041f7a0 R\n0x2fff W\n", &as_format(Format::Memsim)).unwrap();
    assert_eq!(pages(&accesses), [0x41f, 2]);
    assert_eq!(writes(&accesses), [false, true]);
    assert!(
        accesses
            .iter()
            .all(|a| a.via == Via::PageTable && a.backing == Backing::Anon)
    );
    let accesses = read(
        b"s 0x1fffff50 1\nl 0x1fffff58 12\n",
        &as_format(Format::Ucsd),
    )
    .unwrap();
    assert_eq!(pages(&accesses), [0x1ffff, 0x1ffff]);
    assert_eq!(writes(&accesses), [true, false]);
    for (format, line, told) in [
        (
            Format::Memsim,
            "0041f7a0 X",
            "access must be R or W, not `X`",
        ),
        (
            Format::Memsim,
            "0041g7a0 R",
            "address must be a hexadecimal number",
        ),
        (
            Format::Memsim,
            "10000000000000000 R",
            "address must be a hexadecimal number below 2^64",
        ),
        (Format::Memsim, "5", "access must be R or W, not missing"),
        (Format::Ucsd, "x 0x5 1", "access must be l or s, not `x`"),
        (
            Format::Ucsd,
            "l zebra 1",
            "address must be a hexadecimal number",
        ),
    ] {
        let (error, _) = broken(line.as_bytes(), &as_format(format));
        assert!(
            error.starts_with("t: line 1: ") && error.contains(told),
            "{line}: {error}"
        );
    }
}

#[test]
fn lackey_accesses_both_pages_where_it_crosses_from_one_into_the_next() {
    let text = b"==12== Lackey, an example\nI  00001ffe,4\n L 00003000,8\n S 00004ff9,8\n M 00005000,4\n==12== end\n";
    let accesses = read(text, &as_format(Format::Lackey)).unwrap();
    assert_eq!(pages(&accesses), [1, 2, 3, 4, 5, 5]);
    assert_eq!(writes(&accesses), [false, false, false, true, true, true]);
    for (line, told) in [
        (
            " L 00003000",
            "address,size must be two numbers, not `00003000`",
        ),
        (" L 3000,x", "size must be a number"),
        (" L xyz,4", "address must be a hexadecimal number"),
        (" Q 3000,4", "access must be I, L, S or M, not `Q`"),
        (
            " L ffffffffffffffff,2",
            "the last byte must be a number below 2^64",
        ),
        (
            " L 0,18446744073709551615",
            "pages of a request must be at most",
        ),
    ] {
        let (error, _) = broken(line.as_bytes(), &as_format(Format::Lackey));
        assert!(error.contains(told), "{line}: {error}");
    }
}

#[test]
fn fio_logs_number_their_files_and_keep_their_times() {
    let v2 = b"fio version 2 iolog\n/a add\n/b add\n/a open\n/b write 8192 4096\n/a wait 250 0\n/a read 4096 12288\n/a sync 0 0\n/b close\n";
    let accesses = read(v2, &as_format(Format::Fio)).unwrap();
    let seen: Vec<_> = accesses
        .iter()
        .map(|a| (a.key.space, a.key.page, a.time_us))
        .collect();
    assert_eq!(seen, [(1, 2, 0), (0, 1, 250)]);
    assert_eq!(writes(&accesses), [true, false]);
    assert_eq!(
        pages(&read(v2, &expanded(Format::Fio)).unwrap()),
        [2, 1, 2, 3]
    );
    let v3 = b"fio version 3 iolog\n2 /a add\n872 /a open\n878 /a read 0 16384\n900 /a trim 0 4096\n901 /a write 5000 1\n";
    let accesses = read(v3, &as_format(Format::Fio)).unwrap();
    assert_eq!(times_us(&accesses), [878, 901]);
    assert_eq!(pages(&accesses), [0, 1]);
}

#[test]
fn a_broken_fio_log_says_what_is_wrong() {
    for (text, told) in [
        (
            "fio version 1 iolog\n",
            "line 1: not fio: it begins with `fio version 1 iolog`",
        ),
        (
            "fio version 2 iolog\n/a read 0\n",
            "line 2: length must be a number",
        ),
        (
            "fio version 2 iolog\n/a frobnicate 0 1\n",
            "line 2: action must be one that fio knows",
        ),
        (
            "fio version 3 iolog\nx /a read 0 1\n",
            "line 2: time must be a number",
        ),
        (
            "fio version 3 iolog\n5 /a wait 0 1\n",
            "line 2: action must be one that fio knows",
        ),
        (
            "fio version 2 iolog\n/a read 18446744073709551615 4096\n",
            "line 2: the last byte must be",
        ),
    ] {
        let (error, _) = broken(text.as_bytes(), &expanded(Format::Fio));
        assert!(error.contains(told), "{text}: {error}");
    }
    let many: String = (0..20_000).map(|n| format!("/{n} add\n")).collect();
    let (error, _) = broken(
        format!("fio version 2 iolog\n{many}").as_bytes(),
        &as_format(Format::Fio),
    );
    assert!(error.contains("more than 16384 files"), "{error}");
}

#[test]
fn a_table_with_a_header_needs_no_options() {
    let text = b"# made by hand\ntime_us,group,space,page,size,op,via,backing\n100,1,2,3,4,write,mmap,anon\n250,0,0,9,0,read,fd,file\n";
    let accesses = read(text, &as_format(Format::Csv)).unwrap();
    let first = accesses[0];
    assert_eq!(
        (
            first.group,
            first.key.space,
            first.key.page,
            first.size_bytes
        ),
        (1, 2, 3, 4)
    );
    assert_eq!(
        (first.op, first.via, first.backing),
        (Op::Write, Via::PageTable, Backing::Anon)
    );
    assert_eq!(times_us(&accesses), [0, 150]);
    assert_eq!(accesses[1].backing, Backing::File);
    let quoted = b"\"version\";\"op\";\"lbn\"\n1;2a;77\n1;28;78\n1;delete;78\n";
    let accesses = read(quoted, &as_format(Format::Csv)).unwrap();
    assert_eq!(
        (pages(&accesses), writes(&accesses)),
        (vec![77, 78], vec![true, false])
    );
}

#[test]
fn columns_are_told_by_number_or_by_name() {
    let text = b"1,5.25,7,R,x\n1,6.5,8,W,y\n";
    let accesses = read(text, &with_columns(Format::Csv, "id=3,time=2,op=4")).unwrap();
    assert_eq!(
        (pages(&accesses), times_us(&accesses)),
        (vec![7, 8], vec![0, 1_250_000])
    );
    let in_ns = with_columns(Format::Csv, "id=3,time=2,time-unit=ns");
    assert_eq!(
        times_us(&read(b"1,5000,7\n1,9000,7", &in_ns).unwrap()),
        [0, 4]
    );
    let named = b"zebra,when\n0x10,3\n17,3\n";
    assert_eq!(
        pages(&read(named, &with_columns(Format::Csv, "id=zebra")).unwrap()),
        [16, 17]
    );
    let words = with_columns(Format::Txt, "id=2,ids=text");
    let accesses = read(b"GET  apple\nGET pear\nGET apple\n", &words).unwrap();
    assert_eq!(accesses[0].key, accesses[2].key);
    assert_ne!(accesses[0].key, accesses[1].key);
    // The first column of white space, if nothing is said.
    assert_eq!(
        pages(&read(b"5 x\n6 y\n", &as_format(Format::Txt)).unwrap()),
        [5, 6]
    );
    let skipped = with_columns(Format::Csv, "id=1,header=yes");
    assert_eq!(pages(&read(b"1,2\n3,4\n", &skipped).unwrap()), [3]);
}

#[test]
fn a_table_that_can_not_be_understood_says_why() {
    for (text, columns, told) in [
        (
            "1,2,3\n",
            "",
            "line 1: one of 3 columns is the id: say which with --trace-columns",
        ),
        ("1,2,3\n", "id=4", "line 1: there is no column 4 of 3"),
        ("a,b\n1,2\n", "id=c", "line 1: no column is called `c`"),
        ("1,2\n", "id=1,size=1", "line 1: column 1 is told twice"),
        (
            "1,2\n3\n",
            "id=2",
            "line 2: id must be a number below 2^64, not missing",
        ),
        (
            "1,2\n1,-2\n",
            "id=2",
            "line 2: id must be a number below 2^64, not `-2`",
        ),
        (
            "1,jump\n",
            "id=1,op=2",
            "line 1: op must be read, write or the like",
        ),
        (
            "1,5s\n",
            "id=1,time=2",
            "line 1: time must be a number, not `5s`",
        ),
        ("1,x\n", "id=1,size=2", "line 1: size must be a number"),
        (
            "1,99999\n",
            "id=1,group=2",
            "line 1: group must be a number below 65536",
        ),
        (
            "1,x\n",
            "id=1,via=2",
            "line 1: via must be mmap or fd, not `x`",
        ),
        (
            "1,x\n",
            "id=1,backing=2",
            "line 1: backing must be anon or file, not `x`",
        ),
    ] {
        let (error, _) = broken(text.as_bytes(), &with_columns(Format::Csv, columns));
        assert!(error.contains(told), "{text}: {error}");
    }
}

#[test]
fn a_line_without_an_end_is_refused_before_it_fills_the_memory() {
    for format in [Format::Csv, Format::Lis, Format::Lackey, Format::Fio] {
        let options = as_format(format);
        let endless = std::io::repeat(b'1').take(1 << 40);
        let opened = open_stream("t", endless, None, &options);
        let error = drain(&mut opened.unwrap()).1.unwrap_err();
        assert_eq!(error.position(), Some(Position::Line(1)));
        assert!(
            error.to_string().contains("a line longer than 65536 bytes"),
            "{error}"
        );
    }
}

#[test]
fn the_format_is_guessed_from_marks_then_the_name_then_the_content() {
    let numbers = |order: fn(u64) -> Vec<u8>| {
        (0..100)
            .map(|n| n * 37 % 50)
            .flat_map(order)
            .collect::<Vec<u8>>()
    };
    let oracles = |op: Option<(u8, u16)>| {
        (0..40)
            .flat_map(|n| oracle(9, n, 1, op))
            .collect::<Vec<u8>>()
    };
    for (name, content, format) in [
        ("x", b"fio version 2 iolog\n".to_vec(), Format::Fio),
        (
            "x",
            b"==1== Lackey\nI  0401ab70,3\n S 1fff000748,8\n".to_vec(),
            Format::Lackey,
        ),
        ("x", b"0041f7a0 R\n13f5e2c0 W\n".to_vec(), Format::Memsim),
        ("x", b"s 0x1fffff50 1\n".to_vec(), Format::Ucsd),
        ("x", b"110765 64 0 0\n110888 1 0 1\n".to_vec(), Format::Lis),
        ("x", b"5\n*\n6\n".to_vec(), Format::Lirs),
        ("x", b"5\n6\n".to_vec(), Format::Txt),
        ("x", b"time,id\n1,2\n".to_vec(), Format::Csv),
        ("x", oracles(None), Format::OracleGeneral),
        ("x", oracles(Some((1, 0))), Format::OracleGeneralOpNs),
        ("x", vscsi(1, 0x28, 5, 512, 0).repeat(3), Format::Vscsi),
        ("x", vscsi(2, 0x28, 5, 512, 0).repeat(3), Format::Vscsi),
        ("x", numbers(|n| n.to_le_bytes().to_vec()), Format::U64Le),
        ("x", numbers(|n| n.to_be_bytes().to_vec()), Format::U64Be),
        (
            "x",
            numbers(|n| (n as u32 + 0x0101).to_le_bytes().to_vec()),
            Format::U32Le,
        ),
        (
            "x",
            numbers(|n| (n as u32 + 0x0101).to_be_bytes().to_vec()),
            Format::U32Be,
        ),
        ("a/b.tlb.xz", vec![0; 64], Format::Tlb),
        ("w.oracleGeneral.zst", vec![0; 64], Format::OracleGeneral),
        (
            "w.oracleGeneralOpNS",
            vec![0; 64],
            Format::OracleGeneralOpNs,
        ),
        ("w.LIS.gz", b"1 2 3 4\n".to_vec(), Format::Lis),
        ("w.u64be", vec![1; 64], Format::U64Be),
        // A mark is stronger than a name.
        ("w.csv", b"fio version 3 iolog\n".to_vec(), Format::Fio),
    ] {
        let opened = open_stream(name, Cursor::new(content), None, &OpenOptions::default());
        assert_eq!(opened.unwrap().format, format, "{name} as {format}");
    }
    for content in [
        b"once upon a time\nthere was\n".to_vec(),
        (0..=255).collect(),
        vec![0; 999],
    ] {
        let (told, _) = broken(&content, &OpenOptions::default());
        assert_eq!(
            told,
            "t: byte 0: not a known format: name it with --trace-format"
        );
    }
    assert_eq!(
        broken(b"", &OpenOptions::default()).0,
        "t: byte 0: is empty"
    );
}

#[test]
fn compression_is_told_by_content_whatever_the_name_says() {
    let plain: Vec<u8> = (0..100_000_u64).flat_map(u64::to_le_bytes).collect();
    let folder = tempfile::tempdir().unwrap();
    for compression in [
        Compression::None,
        Compression::Gz,
        Compression::Xz,
        Compression::Zst,
    ] {
        let compress = |part: &[u8]| compressed(part, compression);
        // Two streams one after the other, as `cat a.gz b.gz` makes them.
        let (head, tail) = plain.split_at(333_333);
        let stored = [compress(head), compress(tail)].concat();
        let path = folder.path().join("trace.txt.bz2");
        std::fs::write(&path, &stored).unwrap();
        let mut opened = open(&path, &as_format(Format::U64Le)).unwrap();
        assert_eq!(opened.compression, compression);
        let (accesses, end) = drain(&mut opened);
        end.unwrap();
        assert!(pages(&accesses).into_iter().eq(0..100_000), "{compression}");
        assert_eq!(opened.progress.total_bytes(), Some(stored.len() as u64));

        if compression == Compression::None {
            continue;
        }
        let whole = compress(&plain);
        let (told, before) = broken(&whole[..whole.len() - 9], &as_format(Format::U64Le));
        let why = "ends in the middle of the compressed data";
        assert!(told.contains(why), "{compression}: {told}");
        assert!(
            before.iter().copied().eq(0..before.len() as u64),
            "{compression}"
        );
        let mut damaged = whole.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 64].fill(0xa5);
        let (told, _) = broken(&damaged, &as_format(Format::U64Le));
        let why = format!("broken {compression} data");
        assert!(told.contains(&why), "{compression}: {told}");
    }
}

/// One stream of `compression`, with a checksum.
fn compressed(content: &[u8], compression: Compression) -> Vec<u8> {
    match compression {
        Compression::None => content.to_vec(),
        Compression::Gz => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(content).expect("memory");
            out.finish().expect("memory")
        }
        Compression::Xz => {
            let mut out = liblzma::write::XzEncoder::new(Vec::new(), 1);
            out.write_all(content).expect("memory");
            out.finish().expect("memory")
        }
        Compression::Zst => {
            let mut out = zstd::Encoder::new(Vec::new(), 1).expect("memory");
            out.include_checksum(true).expect("a known parameter");
            out.write_all(content).expect("memory");
            out.finish().expect("memory")
        }
    }
}

#[test]
fn a_decompression_bomb_is_refused_in_little_memory() {
    // 4 GiB of zeros: a block of zstd that repeats one byte 128 Ki times takes four bytes.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    let repeat = |is_last: u32| ((128 << 10) << 3 | 1 << 1 | is_last).to_le_bytes();
    for _ in 0..32_767 {
        bomb.extend(&repeat(0)[..3]);
        bomb.push(0);
    }
    bomb.extend(&repeat(1)[..3]);
    bomb.push(0);
    let options = as_format(Format::U64Le);
    let mut opened = open_stream("t", Cursor::new(bomb), None, &options).unwrap();
    let mut batch = Vec::new();
    let error = loop {
        match opened.reader.read_batch(&mut batch) {
            Ok(0) => panic!("the bomb went off"),
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(
        error.to_string().contains("a decompression bomb"),
        "{error}"
    );
}

#[test]
fn a_compression_that_asks_for_much_memory_is_refused() {
    // A frame header of zstd that asks for a window of 3.75 TiB.
    let (told, _) = broken(
        &[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff, 1, 0, 0, 0, 0],
        &as_format(Format::U64Le),
    );
    assert!(told.contains("broken zst data"), "{told}");
}

#[test]
fn what_can_not_be_opened_is_named() {
    let error = open("/nonexistent/trace", &OpenOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/nonexistent/trace: No such file or directory (os error 2)"
    );
    let error = open("/", &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("Is a directory"), "{error}");
}
