//! What the tests of traces share.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use strata_trace::recording::{About, Piece, RecordingInfo, RecordingWriter, SpaceEnd};
use strata_trace::{
    Access, Compression, Format, OpenOptions, Opened, Sizes, TraceError, open_stream,
};

/// Everything in the trace, and what ended it.
pub(crate) fn drain(opened: &mut Opened) -> (Vec<Access>, Result<(), TraceError>) {
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    loop {
        let read = opened.reader.read_batch(&mut batch);
        assert!(batch.len() <= strata_trace::BATCH_LEN);
        all.extend_from_slice(&batch);
        match read {
            Ok(0) => return (all, Ok(())),
            Ok(nr) => assert_eq!(nr, batch.len()),
            Err(error) => return (all, Err(error)),
        }
    }
}

/// Reads bytes as a trace called `trace`.
pub(crate) fn read(bytes: &[u8], options: &OpenOptions) -> Result<Vec<Access>, TraceError> {
    let mut opened = open_stream("trace", Cursor::new(bytes.to_vec()), None, options)?;
    let (all, end) = drain(&mut opened);
    end.map(|()| all)
}

/// Opens a `.strata` file called `t`.
pub(crate) fn open_strata(bytes: &[u8]) -> Result<Opened, TraceError> {
    let options = as_format(Format::Strata);
    open_stream("t", Cursor::new(bytes.to_vec()), None, &options)
}

/// Everything that can be read of a `.strata` file, with each error on the way.
pub(crate) fn salvage(bytes: &[u8]) -> (Vec<Access>, Vec<String>) {
    let mut opened = open_strata(bytes).expect("the header is whole");
    let (mut all, mut told) = (Vec::new(), Vec::new());
    loop {
        let (accesses, end) = drain(&mut opened);
        all.extend(accesses);
        match end {
            Ok(()) => return (all, told),
            Err(error) => told.push(error.to_string()),
        }
    }
}

/// How a recording was made.
pub(crate) fn about() -> About {
    About {
        interval_us: 100_000,
        target: "process 42".to_owned(),
        source: "bpf".to_owned(),
    }
}

/// What is known of a whole recording.
pub(crate) fn info(bytes: &[u8]) -> RecordingInfo {
    let mut opened = open_strata(bytes).expect("a recording");
    drain(&mut opened).1.expect("a whole recording");
    opened.reader.recording().expect("a recording").clone()
}

/// Options with a format and nothing else.
pub(crate) fn as_format(format: Format) -> OpenOptions {
    OpenOptions {
        format: Some(format),
        ..OpenOptions::default()
    }
}

/// The pages of accesses.
pub(crate) fn pages(accesses: &[Access]) -> Vec<u64> {
    accesses.iter().map(|access| access.key.page).collect()
}

/// A real trace: kept in `tests/traces`, or beside those in `STRATA_SHARED` (else `../shared` beside the checkout). `None`: it may not be kept, and is not there.
pub(crate) fn real_trace(name: &str) -> Option<PathBuf> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside = || checkout.join("../shared");
    let shared = std::env::var_os("STRATA_SHARED").map_or_else(beside, PathBuf::from);
    let folders = [checkout.join("tests/traces"), shared.join("traces")];
    let mut paths = folders.iter().map(|folder| folder.join(name));
    paths.find(|path| path.is_file())
}

/// Options with a format and sizes expanded.
pub(crate) fn expanded(format: Format) -> OpenOptions {
    OpenOptions {
        sizes: Sizes::Expand,
        ..as_format(format)
    }
}

/// Options with a format and columns.
pub(crate) fn with_columns(format: Format, columns: &str) -> OpenOptions {
    OpenOptions {
        columns: columns.parse().expect("columns"),
        ..as_format(format)
    }
}

/// Tells of one space, or file, of a walk.
pub(crate) fn tell(
    writer: &mut RecordingWriter<Vec<u8>>,
    whose: Whose,
    pieces: impl IntoIterator<Item = Piece>,
    end: SpaceEnd,
) {
    match whose {
        Whose::Space(space, cpu_us) => writer.begin_space(space, cpu_us),
        Whose::File(file) => writer.begin_file(file),
    }
    .expect("memory");
    for piece in pieces {
        writer.piece(&piece).expect("memory");
    }
    writer.end_space(end).expect("memory");
}

/// Whose pages are told of: a space's, whose walk took so long, or a file's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    Space(u32, u64),
    File(u32),
}

/// A recording to be written.
pub(crate) fn recording() -> RecordingWriter<Vec<u8>> {
    RecordingWriter::new("w", Vec::new(), &about()).expect("memory")
}

/// Reads a broken trace; what is said, and the pages in front of the broken place.
pub(crate) fn broken(bytes: &[u8], options: &OpenOptions) -> (String, Vec<u64>) {
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
pub(crate) fn oracle(time_s: u32, id: u64, size: u32, op_ns: Option<(u8, u16)>) -> Vec<u8> {
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

pub(crate) fn vscsi(version: u8, command: u8, block: u64, len: u32, time_us: u64) -> Vec<u8> {
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

/// The bytes of an example: hexadecimal, and behind `#` what they are.
pub(crate) fn example(text: &str) -> Vec<u8> {
    let lines = text.lines().filter_map(|line| line.split('#').next());
    lines
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).expect("a byte"))
        .collect()
}

/// One stream of `compression`, with a checksum.
pub(crate) fn compressed(content: &[u8], compression: Compression) -> Vec<u8> {
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
