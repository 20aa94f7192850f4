//! Bytes of a trace, a window at a time.
//!
//! **Owns** the window every reader parses from, the offset and line that errors name, and how far
//! the file has been read. **Does not own** what the bytes mean.
//!
//! **Invariants**
//! - I1: the window never grows beyond [`WINDOW_BYTES`], whatever is read.
//! - I2: what was read before a failure is handed out before the failure is.

mod decompress;

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use decompress::Compression;

use crate::error::{Position, Reason, TraceError};

/// Bytes of the window: large enough that a read is worth a call, small enough for a cache.
const WINDOW_BYTES: usize = 256 << 10;
/// Longest line; no format has one of a tenth of it.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Content up to this size is never taken for a bomb.
const BOMB_BYTES_MIN: u64 = 1 << 30;
/// Bytes of content for a stored byte that no trace comes to: one page accessed for ever takes some
/// 10,000 where zstd is at its best, runs of zeros take 32,000.
const BOMB_RATIO: u64 = 16 << 10;

/// How far a trace has been read, for progress bars; may be asked from another thread.
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
    compression: Compression,
    progress: Progress,
    window: Vec<u8>,
    /// The bytes of the window not yet consumed.
    start: usize,
    end: usize,
    /// Offset of `window[0]` in the content.
    window_offset: u64,
    nr_lines: u64,
    is_at_end: bool,
    failure: Option<TraceError>,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("trace", &self.trace)
            .field("compression", &self.compression)
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Prepares `stream` and reads the first window of its content.
    pub(crate) fn open(
        trace: &str,
        stream: impl Read + Send + 'static,
        total_bytes: Option<u64>,
    ) -> Result<Input, TraceError> {
        let progress = Progress {
            read_bytes: Arc::new(AtomicU64::new(0)),
            total_bytes,
        };
        let counted = Counted {
            inner: stream,
            read_bytes: Arc::clone(&progress.read_bytes),
        };
        let (stream, compression) = decompress::decompress(counted)
            .map_err(|error| TraceError::new(trace, Some(Position::Byte(0)), error.into()))?;
        let mut input = Input {
            trace: trace.to_owned(),
            stream,
            compression,
            progress,
            window: vec![0; WINDOW_BYTES],
            start: 0,
            end: 0,
            window_offset: 0,
            nr_lines: 0,
            is_at_end: false,
            failure: None,
        };
        input.fill()?;
        Ok(input)
    }

    /// The trace as it was named.
    pub(crate) fn trace(&self) -> &str {
        &self.trace
    }

    /// How the file is compressed.
    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// A view of how far the file has been read.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
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
    ///
    /// # Errors
    /// The trace can't be read any further and nothing new is available.
    pub(crate) fn fill(&mut self) -> Result<(), TraceError> {
        self.window.copy_within(self.start..self.end, 0);
        self.window_offset += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        let end_before = self.end;
        while self.end < self.window.len() && !self.is_at_end {
            match self.stream.read(&mut self.window[self.end..]) {
                Ok(0) => self.is_at_end = true,
                Ok(nr_bytes) => {
                    self.end += nr_bytes;
                    self.refuse_bomb();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.fail(error),
            }
        }
        match self.failure.take() {
            Some(failure) if self.end == end_before => Err(failure),
            failure => {
                self.failure = failure;
                Ok(())
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        let reason = match self.compression {
            Compression::None => Reason::Io(error),
            _ if error.kind() == io::ErrorKind::UnexpectedEof => {
                Reason::Truncated("the compressed data")
            }
            // The system's own errors have a number, those of the compression have none.
            _ if error.raw_os_error().is_some() => Reason::Io(error),
            _ => Reason::Compression {
                compression: self.compression.name(),
                why: error.to_string(),
            },
        };
        self.stop(reason);
    }

    fn refuse_bomb(&mut self) {
        let content_bytes = self.window_offset + self.end as u64;
        if content_bytes > BOMB_BYTES_MIN && content_bytes / BOMB_RATIO > self.progress.read_bytes()
        {
            self.stop(Reason::Bomb(BOMB_RATIO));
        }
    }

    fn stop(&mut self, reason: Reason) {
        let at = Position::Byte(self.window_offset + self.end as u64);
        self.failure = Some(self.error(at, reason));
        self.is_at_end = true;
    }

    /// The next line without its end; `None` at the end of the trace.
    pub(crate) fn next_line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        let mut searched = 0;
        let (line_bytes, end_bytes) = loop {
            let available = self.available();
            let candidates = &available[..available.len().min(LINE_BYTES_MAX)];
            if let Some(more) = memchr::memchr(b'\n', &candidates[searched..]) {
                break (searched + more, 1);
            }
            if candidates.len() == LINE_BYTES_MAX {
                let at = Position::Line(self.nr_lines + 1);
                return Err(self.error(at, Reason::LineTooLong(LINE_BYTES_MAX)));
            }
            searched = candidates.len();
            self.fill()?;
            if self.available().len() == searched {
                if searched == 0 {
                    return Ok(None);
                }
                break (searched, 0);
            }
        };
        let start = self.start;
        self.consume(line_bytes + end_bytes);
        self.nr_lines += 1;
        let line = &self.window[start..start + line_bytes];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }

    /// Moves the next `nr_bytes` to `to`, which is cleared first; fewer only at the end.
    pub(crate) fn take(&mut self, nr_bytes: usize, to: &mut Vec<u8>) -> Result<(), TraceError> {
        to.clear();
        while to.len() < nr_bytes {
            if self.available().is_empty() {
                self.fill()?;
                if self.available().is_empty() {
                    break;
                }
            }
            let now = self.available().len().min(nr_bytes - to.len());
            to.extend_from_slice(&self.available()[..now]);
            self.consume(now);
        }
        Ok(())
    }

    /// The line last read.
    pub(crate) fn line(&self) -> Position {
        Position::Line(self.nr_lines)
    }

    /// An error at a place of this trace.
    pub(crate) fn error(&self, at: Position, reason: Reason) -> TraceError {
        TraceError::new(&self.trace, Some(at), reason)
    }
}
