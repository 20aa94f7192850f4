//! Formats of lines: a tiny trace of ours, what is read from it, what is said when it is broken.

use crate::support;

use std::io::Read;

use strata_trace::{Backing, Format, Op, Position, Via, open_stream};
use support::{as_format, broken, drain, expanded, pages, read, times_us, with_columns, writes};

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
    let text = b"# made by hand\ntime_us,group,space,page,size,op,via,backing\n100,1,2,3,4,write,mmap,anon\n250,0,0,9,0,read,fd,file\n250,0,0,8,0,read,mmap,code\n";
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
    assert_eq!(times_us(&accesses), [0, 150, 150]);
    let backings = [1, 2].map(|number: usize| accesses[number].backing);
    assert_eq!(backings, [Backing::File, Backing::Code]);
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
fn a_table_is_read_as_spreadsheets_write_it() {
    let text =
        "\u{feff}time,id,size\r\n0.5,\"A,1\",10\r\n1.5,\"say \"\"B\"\"\",20\r\n2.5,\"A,1\",10\r\n";
    let accesses = read(text.as_bytes(), &with_columns(Format::Csv, "ids=text")).unwrap();
    let found = pages(&accesses);
    assert_eq!(found.len(), 3);
    assert_eq!(found[0], found[2]);
    assert_ne!(found[0], found[1]);
    assert_eq!(accesses[1].time_us, 1_000_000, "since the first");
}

#[test]
fn a_table_of_an_object_store_is_read_once_what_is_missing_was_named() {
    let text = b"# timestamp (ms), op type [Put:0, Get:1], object id, object size (byte)\n0,1,A,8\n103,0,B,31\n159,1,A,8\n";
    let mut columns = "id=3,op=2".to_owned();
    for (told, more) in [
        ("read=1,write=0", ",read=1,write=0"),
        ("ids=text", ",ids=text"),
    ] {
        let refused = read(text, &with_columns(Format::Csv, &columns)).unwrap_err();
        assert!(refused.to_string().contains(told), "{refused}");
        columns += more;
    }
    let accesses = read(text, &with_columns(Format::Csv, &columns)).unwrap();
    let ops: Vec<Op> = accesses.iter().map(|access| access.op).collect();
    assert_eq!(ops, [Op::Read, Op::Write, Op::Read]);
    assert_eq!(accesses[0].key, accesses[2].key);
}

#[test]
fn a_table_that_can_not_be_understood_says_why() {
    for (text, columns, told) in [
        (
            "1,2,3\n",
            "",
            "line 1: one of 3 columns is the id, and no header tells which (`1,2,3`); with the id in the third",
        ),
        ("1,2,3\n", "id=4", "line 1: there is no column 4 of 3"),
        ("a,b\n1,2\n", "id=c", "line 1: no column is called `c`"),
        ("1,2\n", "id=1,size=1", "line 1: column 1 is told twice"),
        (
            "1,2\n3\n",
            "id=2",
            "line 2: id must be a number below 2^64 (or say ids=text with --trace-columns), not missing",
        ),
        (
            "1,2\n1,-2\n",
            "id=2",
            "line 2: id must be a number below 2^64 (or say ids=text with --trace-columns), not `-2`",
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
            "line 1: backing must be anon, file or code, not `x`",
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
