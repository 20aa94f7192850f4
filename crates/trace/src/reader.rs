//! What every trace is read through: a stream of batches of accesses.
//!
//! **Owns** [`AccessReader`] and what may be asked for when opening. **Does not own** opening, nor any
//! format (`formats`), nor how bytes get here (`input`).
//!
//! **Invariants**
//! - I1: memory is bounded, whatever the trace says of itself: one batch and one input buffer.
//! - I2: the sizes of batches never change what is read.

use std::num::NonZeroU32;

use crate::access::{Access, Backing, Freed, Via};
use crate::columns::Columns;
use crate::error::TraceError;
use crate::format::Format;
use crate::generator::Generator;
use crate::recording::{RecordingInfo, Told};

/// Most accesses a batch holds.
pub const BATCH_LEN: usize = 8192;

/// A trace being read, from its first access to its last.
pub trait AccessReader: std::fmt::Debug + Send {
    /// Replaces the content of `batch` by the next accesses, at most [`BATCH_LEN`]; their number,
    /// 0 at the end of the trace.
    ///
    /// # Errors
    /// The trace is broken here; `batch` holds what was read in front of the broken place. After
    /// an error that [is local](TraceError::is_local) reading goes on behind that place; after
    /// any other the trace is over.
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError>;

    /// Appends what was freed before the end of the last batch and was not told yet, oldest first. The
    /// first call begins to keep it, as not everybody wants to know: call it before the first batch,
    /// then after each. Only recordings tell.
    fn take_freed(&mut self, freed: &mut Vec<Freed>) {
        let _ = freed;
    }

    /// The next record of a recording, instead of the accesses that it stands for: quick where there are many. `None` at
    /// the end, and where what comes is no recording, which [`AccessReader::read_batch`] goes on with.
    ///
    /// # Errors
    /// As of [`AccessReader::read_batch`].
    fn read_told(&mut self) -> Result<Option<Told>, TraceError> {
        Ok(None)
    }

    /// From now on hands out the accesses of one page of `2^shift` only, the same pages in each walk. Only recordings can.
    fn thin(&mut self, shift: u32) {
        let _ = shift;
    }

    /// What is known of the recording this is, as far as it was read; `None` for other traces.
    fn recording(&self) -> Option<&RecordingInfo> {
        None
    }
}

impl<R: AccessReader + ?Sized> AccessReader for Box<R> {
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        (**self).read_batch(batch)
    }

    fn take_freed(&mut self, freed: &mut Vec<Freed>) {
        (**self).take_freed(freed);
    }

    fn read_told(&mut self) -> Result<Option<Told>, TraceError> {
        (**self).read_told()
    }

    fn thin(&mut self, shift: u32) {
        (**self).thin(shift);
    }

    fn recording(&self) -> Option<&RecordingInfo> {
        (**self).recording()
    }
}

/// A generated trace is read like any other, and never fails.
impl AccessReader for Generator {
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        batch.clear();
        batch.extend(self.by_ref().take(BATCH_LEN));
        Ok(batch.len())
    }
}

/// What is done with the size of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sizes {
    /// One id is one page, however large.
    #[default]
    Ignore,
    /// A request is as many pages of 4096 bytes as it touches; see [`OpenOptions::id_bytes`].
    Expand,
}

/// How a trace is to be read.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The format; guessed from content and name when `None`.
    pub format: Option<Format>,
    /// The path of every access, instead of what the format says or implies.
    pub via: Option<Via>,
    /// The backing of every page, instead of what the format says or implies.
    pub backing: Option<Backing>,
    /// What is done with sizes.
    pub sizes: Sizes,
    /// Bytes one id counts when sizes are expanded, such as 512 where ids are sectors; 512 for
    /// `vscsi` and 4096 for others when `None`.
    pub id_bytes: Option<NonZeroU32>,
    /// The columns of `csv` and `txt`.
    pub columns: Columns,
}
