//! Writes our own format.
//!
//! **Owns** when a block is written. **Does not own** what is in one (`block`) or around it (`output`).

use std::fmt;
use std::io::Write;

use super::{BLOCK_RECORDS_MAX, KIND_ACCESSES, Output, VERSION_OF_TRACES, block};
use crate::access::Access;
use crate::error::TraceError;

/// Writes a `.strata` trace.
///
/// What was written before a crash can be read up to the last whole block; a recorder that wants
/// no more than a second at stake calls [`Writer::flush`] every second.
pub struct Writer<W: Write> {
    output: Output<W>,
    pending: Vec<Access>,
    content: Vec<u8>,
    nr_accesses: u64,
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("trace", &self.output.trace())
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
        Ok(Writer {
            output: Output::new(trace, VERSION_OF_TRACES, out)?,
            pending: Vec::new(),
            content: Vec::new(),
            nr_accesses: 0,
        })
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
        self.output.flush()
    }

    /// Ends the trace; without that a reader takes it for torn. `out` is given back, flushed.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn finish(mut self) -> Result<W, TraceError> {
        if !self.pending.is_empty() {
            self.write_block()?;
        }
        self.output.finish(self.nr_accesses)
    }

    fn write_block(&mut self) -> Result<(), TraceError> {
        self.content.clear();
        block::encode(&self.pending, &mut self.content);
        let nr_records = self.pending.len();
        self.output
            .block(KIND_ACCESSES, nr_records, &self.content)?;
        self.nr_accesses += nr_records as u64;
        self.pending.clear();
        Ok(())
    }
}
