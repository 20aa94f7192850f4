//! What the tests of traces share.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::fs::OpenOptions as FileOptions;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use strata_trace::{Access, Format, OpenOptions, Opened, TraceError, open_stream};

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

/// The folder of real traces, which need not be there.
pub(crate) fn shared_traces() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("STRATA_SHARED")
        .map_or_else(|| root.join("../shared"), PathBuf::from)
        .join("traces");
    shared.is_dir().then_some(shared)
}

/// Says loudly that a test could not run.
pub(crate) fn skip(test: &str, reason: &str) {
    writeln!(std::io::stderr(), "SKIPPED: {reason}").expect("stderr");
    if let Some(path) = std::env::var_os("STRATA_SKIP_LOG") {
        let mut log = FileOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .expect("skip log");
        writeln!(log, "{test}: {reason}").expect("skip log");
    }
}
