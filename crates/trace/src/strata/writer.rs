//! Writes our own format.
//!
//! **Owns** when a block is written. **Does not own** what is in one (`block`).

use std::fmt;
use std::io::Write;

use super::{BLOCK_RECORDS_MAX, BlockHeader, CODEC_STORED, CODEC_ZSTD, KIND_ACCESSES, KIND_END};
use super::{block, file_header};
use crate::access::Access;
use crate::error::{Position, TraceError};

/// The usual level of zstd: the next ones win some percent and take twice the time.
const ZSTD_LEVEL: i32 = 3;

/// Writes a `.strata` trace.
///
/// What was written before a crash can be read up to the last whole block; a recorder that wants
/// no more than a second at stake calls [`Writer::flush`] every second.
pub struct Writer<W: Write> {
    trace: String,
    out: W,
    pending: Vec<Access>,
    content: Vec<u8>,
    compressor: zstd::bulk::Compressor<'static>,
    nr_accesses: u64,
    written_bytes: u64,
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("trace", &self.trace)
            .field("nr_accesses", &self.nr_accesses)
            .finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a trace; `trace` is what errors call it.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn new(trace: &str, out: W) -> Result<Writer<W>, TraceError> {
        let compressor = zstd::bulk::Compressor::new(ZSTD_LEVEL)
            .map_err(|error| TraceError::new(trace, None, error.into()))?;
        let mut writer = Writer {
            trace: trace.to_owned(),
            out,
            pending: Vec::new(),
            content: Vec::new(),
            compressor,
            nr_accesses: 0,
            written_bytes: 0,
        };
        writer.put(&file_header())?;
        Ok(writer)
    }

    /// Adds accesses to the trace.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn write(&mut self, accesses: &[Access]) -> Result<(), TraceError> {
        let mut rest = accesses;
        while !rest.is_empty() {
            let room = BLOCK_RECORDS_MAX - self.pending.len();
            let (now, after) = rest.split_at(room.min(rest.len()));
            self.pending.extend_from_slice(now);
            if self.pending.len() == BLOCK_RECORDS_MAX {
                self.write_block()?;
            }
            rest = after;
        }
        Ok(())
    }

    /// Accesses added so far.
    pub fn nr_accesses(&self) -> u64 {
        self.nr_accesses + self.pending.len() as u64
    }

    /// Writes out what is pending, as a block of its own.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        if !self.pending.is_empty() {
            self.write_block()?;
        }
        let flushed = self.out.flush();
        flushed.map_err(|error| self.error(error))
    }

    /// Ends the trace; without that a reader takes it for torn. `out` is given back, flushed.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn finish(mut self) -> Result<W, TraceError> {
        if !self.pending.is_empty() {
            self.write_block()?;
        }
        let count = self.nr_accesses.to_le_bytes();
        self.put_block(KIND_END, CODEC_STORED, 0, count.len(), &count)?;
        self.flush()?;
        Ok(self.out)
    }

    fn write_block(&mut self) -> Result<(), TraceError> {
        self.content.clear();
        block::encode(&self.pending, &mut self.content);
        let content = std::mem::take(&mut self.content);
        let compressed = self
            .compressor
            .compress(&content)
            .map_err(|error| self.error(error))?;
        let nr_records = self.pending.len();
        let (codec, stored) = if compressed.len() < content.len() {
            (CODEC_ZSTD, &compressed)
        } else {
            (CODEC_STORED, &content)
        };
        self.put_block(KIND_ACCESSES, codec, nr_records, content.len(), stored)?;
        self.content = content;
        self.nr_accesses += nr_records as u64;
        self.pending.clear();
        Ok(())
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
