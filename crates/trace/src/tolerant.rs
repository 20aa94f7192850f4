//! Reading on behind what is broken.
//!
//! **Owns** which errors may be passed over: a bad line, a damaged block, a torn tail. **Does not
//! own** what is said about them: that is the caller's.

use std::fmt;

use crate::access::{Access, Freed};
use crate::error::TraceError;
use crate::reader::AccessReader;
use crate::recording::{RecordingInfo, Told};

/// A reader that passes over what is broken and tells each case to a callback.
///
/// Errors that are neither [local](TraceError::is_local) nor a [torn tail](TraceError::is_torn_tail)
/// stay errors.
pub struct Tolerant<R, F> {
    reader: R,
    tell: F,
    is_at_end: bool,
}

impl<R: AccessReader, F: FnMut(&TraceError) + Send> Tolerant<R, F> {
    /// Reads from `reader`; `tell` learns of everything that is passed over.
    pub fn new(reader: R, tell: F) -> Self {
        Tolerant {
            reader,
            tell,
            is_at_end: false,
        }
    }
}

impl<R: fmt::Debug, F> fmt::Debug for Tolerant<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tolerant")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

impl<R: AccessReader, F: FnMut(&TraceError) + Send> AccessReader for Tolerant<R, F> {
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        batch.clear();
        while !self.is_at_end {
            match self.reader.read_batch(batch) {
                Ok(nr_accesses) => return Ok(nr_accesses),
                Err(error) if error.is_local() || error.is_torn_tail() => {
                    (self.tell)(&error);
                    self.is_at_end = error.is_torn_tail();
                }
                Err(error) => return Err(error),
            }
            if !batch.is_empty() {
                return Ok(batch.len());
            }
        }
        Ok(0)
    }

    fn take_freed(&mut self, freed: &mut Vec<Freed>) {
        self.reader.take_freed(freed);
    }

    fn read_told(&mut self) -> Result<Option<Told>, TraceError> {
        while !self.is_at_end {
            match self.reader.read_told() {
                Err(error) if error.is_local() || error.is_torn_tail() => {
                    (self.tell)(&error);
                    self.is_at_end = error.is_torn_tail();
                }
                told => return told,
            }
        }
        Ok(None)
    }

    fn thin(&mut self, shift: u32) {
        self.reader.thin(shift);
    }

    fn recording(&self) -> Option<&RecordingInfo> {
        self.reader.recording()
    }
}
