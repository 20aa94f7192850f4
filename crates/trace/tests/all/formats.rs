//! Each format but our own: a tiny trace, what is read from it, what is said when it is broken.

use crate::support;

use std::io::Read;
use std::num::NonZeroU32;

use strata_trace::{Access, Backing, Format, Op, OpenOptions, Position, Via, open_stream};
use support::{as_format, broken, drain, expanded, oracle, pages, read, vscsi, with_columns};

/// Accesses in short: the page with its space, if any, in front; `w`rites, `m`appings, `a`non or `c`ode; the time and
/// the group if they are not 0.
fn short(accesses: &[Access]) -> String {
    let one = |access: &Access| {
        let space = match access.key.space {
            0 => String::new(),
            space => format!("{space}:"),
        };
        let mut text = format!("{space}{}", access.key.page);
        text.push_str(["", "w"][usize::from(access.op == Op::Write)]);
        text.push_str(["", "m"][usize::from(access.via == Via::PageTable)]);
        text.push_str(match access.backing {
            Backing::Anon => "a",
            Backing::File => "",
            Backing::Code => "c",
        });
        if access.time_us > 0 {
            text.push_str(&format!("@{}", access.time_us));
        }
        if access.group > 0 {
            text.push_str(&format!("g{}", access.group));
        }
        text
    };
    accesses.iter().map(one).collect::<Vec<String>>().join(" ")
}

/// The cells of a table, which stand between bars; `\n` and `\r` in them are ends of lines.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [String; N]> {
    let lines = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let cells = line
            .split(" | ")
            .map(|cell| cell.replace("\\n", "\n").replace("\\r", "\r"));
        cells.collect::<Vec<String>>().try_into().expect("a row")
    })
}

/// A format, behind it `expanded` or columns.
fn options(text: &str) -> OpenOptions {
    let (format, more) = text.split_once(' ').unwrap_or((text, ""));
    let format = format.parse().expect("a format");
    match more {
        "expanded" => expanded(format),
        columns => with_columns(format, columns),
    }
}

/// Whole traces: how they are opened, their text, what is read.
const TEXTS: &str = r#"
lis | 10 3 0 0\n5 1 0 1\r\n\n7 0 0 2\n20 2 0 3 | 10 11 12 5 20 21
lirs | 5\n*\n6\n * a mark\n5\n | 5 6 5
memsim | 0041f7a0 R\n0x2fff W\n | 1055ma 2wma
ucsd | s 0x1fffff50 1\nl 0x1fffff58 12\n | 131071wma 131071ma
# Accesses that cross from one page into the next access both.
lackey | ==12== Lackey, an example\nI  00001ffe,4\n L 00003000,8\n S 00004ff9,8\n M 00005000,4\n==12== end\n | 1ma 2ma 3ma 4wma 5wma 5wma
# Logs number their files and keep their times.
fio | fio version 2 iolog\n/a add\n/b add\n/a open\n/b write 8192 4096\n/a wait 250 0\n/a read 4096 12288\n/a sync 0 0\n/b close\n | 1:2w 1@250
fio expanded | fio version 2 iolog\n/a add\n/b add\n/a open\n/b write 8192 4096\n/a wait 250 0\n/a read 4096 12288\n/a sync 0 0\n/b close\n | 1:2w 1@250 2@250 3@250
fio | fio version 3 iolog\n2 /a add\n872 /a open\n878 /a read 0 16384\n900 /a trim 0 4096\n901 /a write 5000 1\n | 0@878 1w@901
# A table with a header needs no options.
csv | # made by hand\ntime_us,group,space,page,size,op,via,backing\n100,1,2,3,4,write,mmap,anon\n250,0,0,9,0,read,fd,file\n250,0,0,8,0,read,mmap,code\n | 2:3wmag1 9@150 8mc@150
csv | "version";"op";"lbn"\n1;2a;77\n1;28;78\n1;delete;78\n | 77w 78
# Columns are told by number or by name.
csv id=3,time=2,op=4 | 1,5.25,7,R,x\n1,6.5,8,W,y\n | 7 8w@1250000
csv id=3,time=2,time-unit=ns | 1,5000,7\n1,9000,7 | 7 7@4
csv id=zebra | zebra,when\n0x10,3\n17,3\n | 16 17
csv id=1,header=yes | 1,2\n3,4\n | 3
# The first column of white space, if nothing is said.
txt | 5 x\n6 y\n | 5 6
"#;

/// Whole traces of records: how they are opened, their bytes, what is read.
type Whole = Vec<(OpenOptions, Vec<u8>, &'static str)>;

fn records() -> Whole {
    use Format::{OracleGeneral, OracleGeneralOpNs, Tlb, U32Be, U32Le, U64Be, U64Le, Vscsi};
    let tlb = [5_u64 << 1, 5 << 1 | 1, 9 << 1].map(u64::to_le_bytes);
    let times = [(1000, 42, 512), (1003, 43, 8192), (1001, 42, 512)];
    let general = times.map(|(time_s, id, size)| oracle(time_s, id, size, None));
    let sectors = OpenOptions {
        id_bytes: NonZeroU32::new(512),
        ..expanded(OracleGeneral)
    };
    let groups = [(1, 7), (3, 8), (9, 8), (12, 65_535)];
    let groups = groups.map(|of| oracle(0, 1, 1, Some(of)));
    let eight = vec![1, 2, 3, 4, 5, 6, 7, 8];
    let vscsi_of = |version| {
        let requests = [(0x2a, 800, 5_000), (0x28, 801, 7_000)];
        let bytes = requests.map(|(command, block, at)| vscsi(version, command, block, 4096, at));
        bytes.concat()
    };
    vec![
        (as_format(U32Le), vec![7, 0, 0, 0, 1, 2, 0, 0], "7 513"),
        (as_format(U32Be), vec![0, 0, 0, 7, 0, 0, 2, 1], "7 513"),
        (as_format(U64Le), eight.clone(), "578437695752307201"),
        (as_format(U64Be), eight, "72623859790382856"),
        (as_format(Tlb), tlb.concat(), "5ma 5wma 9ma"),
        // Time counts from the first request.
        (
            as_format(OracleGeneral),
            general.concat(),
            "42 43@3000000 42@1000000",
        ),
        (
            expanded(OracleGeneral),
            general.concat(),
            "42 43@3000000 44@3000000 42@1000000",
        ),
        // Sector 42 lies in page 5, the 8 KiB from sector 43 on in pages 5, 6 and 7.
        (
            sectors,
            general.concat(),
            "5 5@3000000 6@3000000 7@3000000 5@1000000",
        ),
        // A namespace is a group, and a deletion no access.
        (
            as_format(OracleGeneralOpNs),
            groups.concat(),
            "1g7 1wg8 1g65535",
        ),
        (
            as_format(OracleGeneralOpNs),
            oracle(0, 1, 1, Some((9, 0))).repeat(30_000),
            "",
        ),
        (as_format(Vscsi), vscsi_of(1), "800w 801@2000"),
        // Sectors: 800 begins page 100, and 4 KiB from 801 on lie in two pages.
        (expanded(Vscsi), vscsi_of(2), "100w 100@2000 101@2000"),
    ]
}

#[test]
fn each_format_is_read_as_its_authors_describe_it() {
    for [opened, text, expected] in rows(TEXTS) {
        let accesses = read(text.as_bytes(), &options(&opened)).unwrap();
        assert_eq!(short(&accesses), expected, "{opened} {text}");
    }
    for (options, bytes, expected) in records() {
        let accesses = read(&bytes, &options).unwrap();
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(99)]).into_owned();
        assert_eq!(short(&accesses), expected, "{options:?} {text}");
    }
    let long = read(b"0 1000000 0 0\n3 1 0 1\n", &as_format(Format::Lis)).unwrap();
    assert!(pages(&long).into_iter().eq((0..1_000_000).chain([3])));
    let sizes = b"page,size\n3,4\n9,0\n";
    let accesses = read(sizes, &as_format(Format::Csv)).unwrap();
    assert_eq!((accesses[0].size_bytes, accesses[1].size_bytes), (4, 0));
    let bytes = oracle(0, 43, 8192, None);
    let accesses = read(&bytes, &as_format(Format::OracleGeneral)).unwrap();
    assert_eq!(accesses[0].size_bytes, 8192);
}

/// Broken traces: how they are opened, their text, pages in front of the broken place, what is said.
const BROKEN: &str = r"
lis | 1 1 0 0\n5 18446744073709551615 0 1\n | 1 | t: line 2: pages of a request must be at most 1048576
lis | 1 1 0 0\n18446744073709551615 9 0 1\n | 1 | t: line 2: the last page must be a number below 2^64
lis | 1 1 0 0\n5 x 0 1\n | 1 | t: line 2: number of blocks must be a number below 2^64, not `x`
lis | 1 1 0 0\n5 1\n | 1 | t: line 2: third column must be a number below 2^64, not missing
lis | 1 1 0 0\n5 1 0\n | 1 | t: line 2: number of the request must be a number below 2^64, not missing
lis | 1 1 0 0\n99999999999999999999 1 0 0\n | 1 | t: line 2: first block must be a number below 2^64
lis | 1 1 0 0\n-5 1 0 0\n | 1 | t: line 2: first block must be a number below 2^64, not `-5`
lirs expanded | 5\n6 7\n | 5 | t: line 2: a line must be one number, not `7`
memsim expanded | 0041f7a0 X |  | t: line 1: access must be R or W, not `X`
memsim expanded | 0041g7a0 R |  | t: line 1: address must be a hexadecimal number
memsim expanded | 10000000000000000 R |  | address must be a hexadecimal number below 2^64
memsim expanded | 5 |  | t: line 1: access must be R or W, not missing
ucsd expanded | x 0x5 1 |  | t: line 1: access must be l or s, not `x`
ucsd expanded | l zebra 1 |  | t: line 1: address must be a hexadecimal number
lackey expanded |  L 00003000 |  | address,size must be two numbers, not `00003000`
lackey expanded |  L 3000,x |  | size must be a number
lackey expanded |  L xyz,4 |  | address must be a hexadecimal number
lackey expanded |  Q 3000,4 |  | access must be I, L, S or M, not `Q`
lackey expanded |  L ffffffffffffffff,2 |  | the last byte must be a number below 2^64
lackey expanded |  L 0,18446744073709551615 |  | pages of a request must be at most
fio expanded | fio version 1 iolog\n |  | line 1: not fio: it begins with `fio version 1 iolog`
fio expanded | fio version 2 iolog\n/a read 0\n |  | line 2: length must be a number
fio expanded | fio version 2 iolog\n/a frobnicate 0 1\n |  | line 2: action must be one that fio knows
fio expanded | fio version 3 iolog\nx /a read 0 1\n |  | line 2: time must be a number
fio expanded | fio version 3 iolog\n5 /a wait 0 1\n |  | line 2: action must be one that fio knows
fio expanded | fio version 2 iolog\n/a read 18446744073709551615 4096\n |  | line 2: the last byte must be
csv | 1,2,3\n |  | line 1: one of 3 columns is the id, and no header tells which (`1,2,3`); with the id in the third
csv id=4 | 1,2,3\n |  | line 1: there is no column 4 of 3
csv id=c | a,b\n1,2\n |  | line 1: no column is called `c`
csv id=1,size=1 | 1,2\n |  | line 1: column 1 is told twice
csv id=2 | 1,2\n3\n | 2 | line 2: id must be a number below 2^64 (or say ids=text with --trace-columns), not missing
csv id=2 | 1,2\n1,-2\n | 2 | line 2: id must be a number below 2^64 (or say ids=text with --trace-columns), not `-2`
csv id=1,op=2 | 1,jump\n |  | line 1: op must be read, write or the like
csv id=1,time=2 | 1,5s\n |  | line 1: time must be a number, not `5s`
csv id=1,size=2 | 1,x\n |  | line 1: size must be a number
csv id=1,group=2 | 1,99999\n |  | line 1: group must be a number below 65536
csv id=1,via=2 | 1,x\n |  | line 1: via must be mmap or fd, not `x`
csv id=1,backing=2 | 1,x\n |  | line 1: backing must be anon, file or code, not `x`
";

#[test]
fn what_is_broken_is_named_behind_what_is_whole() {
    use Format::{Fio, OracleGeneral, OracleGeneralOpNs, U32Be, Vscsi};
    for [opened, text, before, told] in rows(BROKEN) {
        let (error, found) = broken(text.as_bytes(), &options(&opened));
        let found: Vec<String> = found.iter().map(u64::to_string).collect();
        assert!(error.contains(&told), "{opened}: {text}: {error}");
        assert_eq!(found.join(" "), before, "{opened}: {text}");
    }
    let many: String = (0..20_000).map(|n| format!("/{n} add\n")).collect();
    let many = format!("fio version 2 iolog\n{many}").into_bytes();
    let mut torn: Vec<u8> = (0..20_000_u32).flat_map(u32::to_be_bytes).collect();
    torn.push(1);
    let bad_op = [(1, 0), (77, 0)].map(|of| oracle(0, 1, 1, Some(of)));
    // An id that is no address can still have a size.
    let hash = u64::MAX - 5;
    let beyond = [8192, 1 << 20].map(|size| oracle(0, hash, size, None));
    let mixed =
        [(1, 5), (1, 6), (3, 7)].map(|(version, block)| vscsi(version, 0x28, block, 512, 0));
    for (format, bytes, told, before) in [
        (Fio, many, "more than 16384 files", vec![]),
        (
            U32Be,
            torn,
            "t: byte 80000: ends in the middle of a record",
            (0..20_000).collect(),
        ),
        (
            OracleGeneralOpNs,
            bad_op.concat(),
            "t: byte 27: op must be 0 to 14 or 255, not `77`",
            vec![1],
        ),
        (
            OracleGeneral,
            beyond.concat(),
            "the last page must be a number below 2^64",
            vec![hash, hash + 1],
        ),
        (
            Vscsi,
            vec![3; 80],
            "not vscsi: its first records have neither",
            vec![],
        ),
        (
            Vscsi,
            mixed.concat()[..96].to_vec(),
            "t: byte 64: version must be that of the first record",
            vec![5, 6],
        ),
    ] {
        let options = match format {
            OracleGeneral => expanded(format),
            _ => as_format(format),
        };
        let (error, found) = broken(&bytes, &options);
        assert!(error.contains(told) && found == before, "{format}: {error}");
    }
}

#[test]
fn words_as_ids_are_the_same_page_where_they_are_the_same_word() {
    let words = with_columns(Format::Txt, "id=2,ids=text");
    let accesses = read(b"GET  apple\nGET pear\nGET apple\n", &words).unwrap();
    assert_eq!(accesses[0].key, accesses[2].key);
    assert_ne!(accesses[0].key, accesses[1].key);
    // As spreadsheets write it.
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
