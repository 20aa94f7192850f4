//! Opening traces: which format, which compression, what is passed over, what is refused.

use crate::support;

use std::io::Cursor;

use strata_trace::{
    Access, AccessReader, CSV_HEADER, Compression, Format, Generator, OpenOptions, Tolerant,
    TraceError, open, open_stream, write_csv,
};
use support::{as_format, broken, compressed, drain, oracle, pages, read, vscsi};

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
fn a_tolerant_reader_tells_what_it_passes_over() {
    let tolerate = |bytes: &[u8], format| {
        let (tell, told) = std::sync::mpsc::channel();
        let options = as_format(format);
        let opened = open_stream("t", Cursor::new(bytes.to_vec()), None, &options).unwrap();
        let mut reader = Tolerant::new(opened.reader, move |error: &TraceError| {
            tell.send(error.to_string()).unwrap();
        });
        let (mut batch, mut all) = (Vec::new(), Vec::new());
        let end = loop {
            match reader.read_batch(&mut batch) {
                Ok(0) => break Ok(()),
                Ok(_) => all.extend_from_slice(&batch),
                Err(error) => break Err(error.to_string()),
            }
        };
        drop(reader);
        (pages(&all), told.iter().count(), end)
    };
    let (pages, nr_told, end) = tolerate(b"x\n1 1 0 0\noops\n2 1 0 1\n3 x\n", Format::Lis);
    assert_eq!((pages, nr_told, end), (vec![1, 2], 3, Ok(())));
    let (pages, nr_told, end) = tolerate(&[5, 0, 0, 0, 9], Format::U32Le);
    assert_eq!((pages, nr_told, end), (vec![5], 1, Ok(())));
    let (pages, nr_told, end) = tolerate(&[b'1'; 70_000], Format::Lis);
    assert_eq!((pages, nr_told), (vec![], 0));
    assert!(end.unwrap_err().contains("a line longer than"));
}

#[test]
fn what_is_exported_as_csv_is_read_back() {
    let generator: Generator = "gen:mixed,accesses=3000,groups=3,writes=20"
        .parse()
        .unwrap();
    let accesses: Vec<Access> = generator.clone().collect();
    let mut text = format!("{CSV_HEADER}\n").into_bytes();
    write_csv(&accesses, &mut text).unwrap();
    assert_eq!(read(&text, &as_format(Format::Csv)).unwrap(), accesses);
    assert_eq!(read(&text, &OpenOptions::default()).unwrap(), accesses);
    // A generated trace comes through the same door.
    let mut reader: Box<dyn AccessReader> = Box::new(generator);
    let (mut batch, mut again) = (Vec::new(), Vec::new());
    while reader.read_batch(&mut batch).unwrap() > 0 {
        again.extend_from_slice(&batch);
    }
    assert_eq!(again, accesses);
}

#[test]
fn the_format_is_guessed_from_marks_then_the_name_then_the_content() {
    let numbers = |order: fn(u64) -> [u8; 8]| {
        let numbers = (0..100).map(|n| n * 37 % 50);
        numbers.flat_map(order).collect::<Vec<u8>>()
    };
    let oracles = |op: Option<(u8, u16)>| {
        let requests = (0..40).flat_map(|n| oracle(9, n, 1, op));
        requests.collect::<Vec<u8>>()
    };
    let is_guessed = |name: &str, content: Vec<u8>, format| {
        let opened = open_stream(name, Cursor::new(content), None, &OpenOptions::default());
        assert_eq!(opened.unwrap().format, format, "{name} as {format}");
    };
    for (name, text, format) in [
        ("x", "fio version 2 iolog\n", Format::Fio),
        (
            "x",
            "==1== Lackey\nI  0401ab70,3\n S 1fff000748,8\n",
            Format::Lackey,
        ),
        ("x", "0041f7a0 R\n13f5e2c0 W\n", Format::Memsim),
        ("x", "s 0x1fffff50 1\n", Format::Ucsd),
        ("x", "110765 64 0 0\n110888 1 0 1\n", Format::Lis),
        ("x", "5\n*\n6\n", Format::Lirs),
        ("x", "5\n6\n", Format::Txt),
        ("x", "time,id\n1,2\n", Format::Csv),
        ("w.LIS.gz", "1 2 3 4\n", Format::Lis),
        // A mark is stronger than a name, and so are lines that look like nothing else.
        (
            "lackey.txt",
            "==1== Lackey, an example\nI  0401ab70,3\n",
            Format::Lackey,
        ),
        ("w.csv", "fio version 3 iolog\n", Format::Fio),
    ] {
        is_guessed(name, text.as_bytes().to_vec(), format);
    }
    let numbers_32 = |order: fn(u32) -> [u8; 4]| {
        let numbers = (0..100).map(|n| n * 37 % 50 + 0x0101);
        numbers.flat_map(order).collect::<Vec<u8>>()
    };
    for (name, content, format) in [
        ("x", oracles(None), Format::OracleGeneral),
        ("x", oracles(Some((1, 0))), Format::OracleGeneralOpNs),
        ("x", vscsi(1, 0x28, 5, 512, 0).repeat(3), Format::Vscsi),
        ("x", vscsi(2, 0x28, 5, 512, 0).repeat(3), Format::Vscsi),
        ("x", numbers(u64::to_le_bytes), Format::U64Le),
        ("x", numbers(u64::to_be_bytes), Format::U64Be),
        ("x", numbers_32(u32::to_le_bytes), Format::U32Le),
        ("x", numbers_32(u32::to_be_bytes), Format::U32Be),
        // Keys of two kinds in turns, each with its mark above the number.
        (
            "x",
            (0..200_u32)
                .flat_map(|n| (n % 70 + [0xb8 << 24, 0x50 << 24][n as usize / 9 % 2]).to_be_bytes())
                .collect(),
            Format::U32Be,
        ),
        ("a/b.tlb.xz", vec![0; 64], Format::Tlb),
        ("w.oracleGeneral.zst", vec![0; 64], Format::OracleGeneral),
        (
            "w.oracleGeneralOpNS",
            vec![0; 64],
            Format::OracleGeneralOpNs,
        ),
        ("w.u64be", vec![1; 64], Format::U64Be),
    ] {
        is_guessed(name, content, format);
    }
    for content in [
        b"once upon a time\nthere was\n".to_vec(),
        (0..=255).collect(),
        vec![0; 999],
        // Mostly filling.
        (0..800_u32)
            .flat_map(|n| ((n % 4 / 3 * n).wrapping_mul(0x9E37_79B1) | 0x8000_0080).to_be_bytes())
            .collect(),
        // Numbers that are near each other in neither order.
        (0..400_u32)
            .flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_be_bytes())
            .collect(),
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
        "/nonexistent/trace: no such file; the name of a generator begins with gen: or oracle:, for example gen:zipf"
    );
    let error = open("/", &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("Is a directory"), "{error}");
}
