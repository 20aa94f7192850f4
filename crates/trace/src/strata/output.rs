//! Blocks on their way out, whatever is in them.
//!
//! **Owns** compression, headers and checksums. **Does not own** when a block is full.

use std::io::Write;

use super::{BlockHeader, CODEC_STORED, CODEC_ZSTD, KIND_END, file_header};
use crate::error::{Position, TraceError};

/// The usual level of zstd: the next ones win some percent and take twice the time.
const ZSTD_LEVEL: i32 = 3;

/// A `.strata` file being written.
pub(crate) struct Output<W: Write> {
    trace: String,
    out: W,
    compressor: zstd::bulk::Compressor<'static>,
    written_bytes: u64,
}

impl<W: Write> Output<W> {
    /// Writes the header of the file, of this version; `trace` is what errors call it.
    pub(crate) fn new(trace: &str, version: u16, out: W) -> Result<Output<W>, TraceError> {
        let compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL)
            .map_err(|error| TraceError::new(trace, None, error.into()))?;
        let mut output = Output {
            trace: trace.to_owned(),
            out,
            compressor,
            written_bytes: 0,
        };
        output.put(&file_header(version))?;
        Ok(output)
    }

    /// The file as it was named.
    pub(crate) fn trace(&self) -> &str {
        &self.trace
    }

    /// Bytes written so far.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Writes a block, compressed where that makes it smaller.
    pub(crate) fn block(
        &mut self,
        kind: u8,
        nr_records: usize,
        content: &[u8],
    ) -> Result<(), TraceError> {
        let compressed = self
            .compressor
            .compress(content)
            .map_err(|error| self.error(error))?;
        if compressed.len() < content.len() {
            self.put_block(kind, CODEC_ZSTD, nr_records, content.len(), &compressed)
        } else {
            self.put_block(kind, CODEC_STORED, nr_records, content.len(), content)
        }
    }

    /// Hands what was written to the system.
    pub(crate) fn flush(&mut self) -> Result<(), TraceError> {
        let flushed = self.out.flush();
        flushed.map_err(|error| self.error(error))
    }

    /// Writes the end mark, which says how many accesses there are; `out` is given back, flushed.
    pub(crate) fn finish(mut self, nr_accesses: u64) -> Result<W, TraceError> {
        let count = nr_accesses.to_le_bytes();
        self.put_block(KIND_END, CODEC_STORED, 0, count.len(), &count)?;
        self.flush()?;
        Ok(self.out)
    }

    fn put_block(
        &mut self,
        kind: u8,
        codec: u8,
        nr_records: usize,
        content_bytes: usize,
        stored: &[u8],
    ) -> Result<(), TraceError> {
        let header = BlockHeader {
            kind,
            codec,
            nr_records: nr_records as u32,
            content_bytes: content_bytes as u32,
            stored_bytes: stored.len() as u32,
            stored_crc: crc32fast::hash(stored),
        };
        debug_assert!(header.is_bounded());
        self.put(&header.to_bytes())?;
        self.put(stored)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        let written = self.out.write_all(bytes);
        written.map_err(|error| self.error(error))?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    fn error(&self, error: std::io::Error) -> TraceError {
        let at = Position::Byte(self.written_bytes);
        TraceError::new(&self.trace, Some(at), error.into())
    }
}
