//! What the fuzz targets do: most read the input as a trace, to its end.
//!
//! **Owns** the property of those: no panic, no batch larger than promised, and whatever can be read can be
//! written in our own format and read back the same. **Does not own** the readers, nor what others
//! than traces can be ([`remote`], [`lru_gen`]).

pub mod lru_gen;
pub mod remote;

use std::io::Cursor;
use std::num::NonZeroU32;

use strata_trace::recording::RecordingWriter;
use strata_trace::{
    Access, AccessReader, Format, OpenOptions, Sizes, Tolerant, TraceError, Writer, open_stream,
};

/// Accesses of an input that are looked at: a run may be a million pages long.
const ACCESSES_MAX: usize = 20_000;

/// Reads `data` as `format`, or has the format guessed.
pub fn read(data: &[u8], format: Option<Format>) {
    let Some((choice, content)) = data.split_first() else {
        return;
    };
    let columns = [
        "",
        "id=2",
        "id=1,time=2,op=3,size=4",
        "id=1,ids=text,header=no",
    ];
    let options = OpenOptions {
        format,
        sizes: if choice & 1 == 0 {
            Sizes::Ignore
        } else {
            Sizes::Expand
        },
        id_bytes: NonZeroU32::new(u32::from(choice & 2) << 8),
        columns: columns[usize::from(choice >> 2 & 3)]
            .parse()
            .expect("columns"),
        ..OpenOptions::default()
    };
    let Ok(opened) = open_stream("input", Cursor::new(content.to_vec()), None, &options) else {
        return;
    };
    let mut reader = Tolerant::new(opened.reader, |_: &TraceError| {});
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while all.len() < ACCESSES_MAX && reader.read_batch(&mut batch).is_ok_and(|nr| nr > 0) {
        assert!(batch.len() <= strata_trace::BATCH_LEN);
        all.extend_from_slice(&batch);
    }
    // Not for each: it takes longer than all the rest.
    if choice & 16 != 0 {
        written_and_read(&all);
    }
}

/// Reads `data` as blocks of a recording: kind, number of records, length, content, again and again.
/// Without fitting checksums hardly an input would get behind the first header.
pub fn read_recording(data: &[u8]) {
    let about = strata_trace::recording::About::default();
    let writer = RecordingWriter::new("w", Vec::new(), &about).expect("memory");
    let mut bytes = writer.finish().expect("memory");
    // The end mark is 24 + 8 bytes.
    bytes.truncate(bytes.len() - 32);
    let mut rest = data;
    while let [kind, nr_records, length, after @ ..] = rest {
        let (content, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        let kind = [2, 2, 128, 129, 1][usize::from(*kind) % 5];
        let mut header = vec![kind, 0, 0, 0];
        let content_bytes = content.len() as u32;
        for word in [
            u32::from(*nr_records),
            content_bytes,
            content_bytes,
            crc32fast::hash(content),
        ] {
            header.extend(word.to_le_bytes());
        }
        header.extend(crc32fast::hash(&header).to_le_bytes());
        bytes.extend(header);
        bytes.extend(content);
    }
    let options = OpenOptions::default();
    let Ok(opened) = open_stream("input", Cursor::new(bytes), None, &options) else {
        return;
    };
    let mut reader = Tolerant::new(opened.reader, |_: &TraceError| {});
    let mut batch = Vec::new();
    let mut nr_accesses = 0;
    while nr_accesses < ACCESSES_MAX && reader.read_batch(&mut batch).is_ok_and(|nr| nr > 0) {
        assert!(batch.len() <= strata_trace::BATCH_LEN);
        nr_accesses += batch.len();
    }
    if let Some(info) = reader.recording() {
        let counts = [info.areas.len(), info.spaces.len(), info.files.len()];
        assert!(counts.iter().all(|count| *count <= data.len()));
    }
}

fn written_and_read(accesses: &[Access]) {
    let mut writer = Writer::new("copy", Vec::new()).expect("memory");
    writer.write(accesses).expect("memory");
    let bytes = writer.finish().expect("memory");
    let options = OpenOptions::default();
    let mut copy = open_stream("copy", Cursor::new(bytes), None, &options).expect("a strata trace");
    let (mut batch, mut read) = (Vec::new(), Vec::new());
    while copy.reader.read_batch(&mut batch).expect("a whole trace") > 0 {
        read.extend_from_slice(&batch);
    }
    assert!(read == accesses);
}
