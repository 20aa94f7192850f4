//! Bytes of a trace, a window at a time.
//!
//! **Owns** the window every reader parses from, the offset and line that errors name, and how far
//! the file has been read. **Does not own** what the bytes mean.
//!
//! **Invariants**
//! - I1: the window never grows beyond [`WINDOW_BYTES`], whatever is read.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Position, Reason, TraceError};

/// Bytes of the window: large enough that a read is worth a call, small enough for a cache.
const WINDOW_BYTES: usize = 256 << 10;

/// How far a trace has been read, for progress bars; safe to ask from another thread.
#[derive(Clone, Debug)]
pub struct Progress {
    read_bytes: Arc<AtomicU64>,
    total_bytes: Option<u64>,
}

impl Progress {
    /// Bytes of the file read so far, compressed as they are.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the file; `None` where that is not known, as for a pipe.
    pub fn total_bytes(&self) -> Option<u64> {
        self.total_bytes
    }
}

/// Counts what is read through it.
struct Counted<R> {
    inner: R,
    read_bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let nr_bytes = self.inner.read(buffer)?;
        self.read_bytes
            .fetch_add(nr_bytes as u64, Ordering::Relaxed);
        Ok(nr_bytes)
    }
}

/// The content of a trace.
pub(crate) struct Input {
    trace: String,
    stream: Box<dyn Read + Send>,
    window: Vec<u8>,
    /// The bytes of the window not yet consumed.
    start: usize,
    end: usize,
    /// Offset of `window[0]` in the content.
    window_offset: u64,
    is_at_end: bool,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("trace", &self.trace)
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Prepares `stream` and reads the first window of it.
    pub(crate) fn open(
        trace: &str,
        stream: impl Read + Send + 'static,
        total_bytes: Option<u64>,
    ) -> Result<(Input, Progress), TraceError> {
        let read_bytes = Arc::new(AtomicU64::new(0));
        let progress = Progress {
            read_bytes: Arc::clone(&read_bytes),
            total_bytes,
        };
        let mut input = Input {
            trace: trace.to_owned(),
            stream: Box::new(Counted {
                inner: stream,
                read_bytes,
            }),
            window: vec![0; WINDOW_BYTES],
            start: 0,
            end: 0,
            window_offset: 0,
            is_at_end: false,
        };
        input.fill()?;
        Ok((input, progress))
    }

    /// The trace as it was named.
    pub(crate) fn trace(&self) -> &str {
        &self.trace
    }

    /// What has been read but not consumed.
    pub(crate) fn available(&self) -> &[u8] {
        &self.window[self.start..self.end]
    }

    /// Offset of the first available byte.
    pub(crate) fn offset(&self) -> u64 {
        self.window_offset + self.start as u64
    }

    /// Drops the first available bytes.
    pub(crate) fn consume(&mut self, nr_bytes: usize) {
        debug_assert!(nr_bytes <= self.end - self.start);
        self.start += nr_bytes;
    }

    /// Reads until the window is full or the trace ends.
    pub(crate) fn fill(&mut self) -> Result<(), TraceError> {
        self.window.copy_within(self.start..self.end, 0);
        self.window_offset += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        while self.end < self.window.len() && !self.is_at_end {
            match self.stream.read(&mut self.window[self.end..]) {
                Ok(0) => self.is_at_end = true,
                Ok(nr_bytes) => self.end += nr_bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let at = self.window_offset + self.end as u64;
                    return Err(self.error(Position::Byte(at), error.into()));
                }
            }
        }
        Ok(())
    }

    /// An error at a place of this trace.
    pub(crate) fn error(&self, at: Position, reason: Reason) -> TraceError {
        TraceError::new(&self.trace, Some(at), reason)
    }
}
