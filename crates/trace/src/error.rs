//! What can be wrong with a trace.
//!
//! **Owns** [`TraceError`]: which trace, where in it, and why. **Does not own** what a program says
//! around it.

use std::fmt;
use std::io;

/// A place in a trace, counted in the uncompressed content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Bytes from the beginning, the first is 0.
    Byte(u64),
    /// A line, the first is 1.
    Line(u64),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::Byte(offset) => write!(f, "byte {offset}"),
            Position::Line(number) => write!(f, "line {number}"),
        }
    }
}

/// A trace that can't be read or written: which one, where, why.
///
/// Boxed inside, so that a `Result` of a hot path stays small.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}{}", .0.trace, .0.shown_position(), .0.reason)]
pub struct TraceError(Box<Details>);

#[derive(Debug)]
struct Details {
    trace: String,
    position: Option<Position>,
    reason: Reason,
}

impl Details {
    fn shown_position(&self) -> String {
        self.position
            .map(|at| format!("{at}: "))
            .unwrap_or_default()
    }
}

impl TraceError {
    pub(crate) fn new(trace: &str, position: Option<Position>, reason: Reason) -> TraceError {
        TraceError(Box::new(Details {
            trace: trace.to_owned(),
            position,
            reason,
        }))
    }

    /// The system refuses something of the file `trace`.
    pub fn of_file(trace: &str, error: io::Error) -> TraceError {
        TraceError::new(trace, None, error.into())
    }

    /// Where it is broken; `None` when it could not even be opened.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// Why.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }

    /// Whether the trace can be read on behind the broken place: a line among lines, a block among
    /// blocks.
    pub fn is_local(&self) -> bool {
        match self.reason() {
            Reason::BadValue { .. } => matches!(self.position(), Some(Position::Line(_))),
            Reason::DamagedBlock => true,
            _ => false,
        }
    }

    /// Whether the trace only ends too early, as after a crash of what wrote it.
    pub fn is_torn_tail(&self) -> bool {
        matches!(self.reason(), Reason::Truncated(_))
    }
}

/// Why a trace can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The operating system says so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// There is no such file, and the name is none of a generator.
    #[error(
        "no such file; the name of a generator begins with gen: or oracle:, for example gen:zipf"
    )]
    NotFound,
    /// What is compressed is not as the compression makes it.
    #[error("broken {compression} data: {why}")]
    Compression {
        /// Name of the compression.
        compression: &'static str,
        /// What it says itself.
        why: String,
    },
    /// Far more content than any trace compresses to.
    #[error("holds more than {0} times what is stored: not a trace but a decompression bomb")]
    Bomb(u64),
    /// The trace ends in the middle of something.
    #[error("ends in the middle of {0}")]
    Truncated(&'static str),
    /// There is nothing in it, not even a header.
    #[error("is empty")]
    Empty,
    /// Nothing that is known looks like this.
    #[error("not a known format: name it with --trace-format")]
    UnknownFormat,
    /// The content is not of the format it is read as.
    #[error("not {format}: {why}")]
    NotThisFormat {
        /// Name of the format.
        format: &'static str,
        /// What gives it away.
        why: String,
    },
    /// A number is missing, is no number, or lies outside of what it may be.
    #[error("{what} must be {expected}, not {found}")]
    BadValue {
        /// Name of the field.
        what: &'static str,
        /// What it may be.
        expected: &'static str,
        /// What stands there, shortened.
        found: String,
    },
    /// A table whose columns can't be told apart.
    #[error("{0}: say which with --trace-columns")]
    Columns(String),
    /// A line that goes on and on.
    #[error("a line longer than {0} bytes: is this text?")]
    LineTooLong(usize),
    /// More names than are worth keeping.
    #[error("more than {0} files")]
    TooManyFiles(usize),
    /// The checksum of a block does not fit.
    #[error("a damaged block: its checksum does not fit")]
    DamagedBlock,
}

impl Reason {
    /// A field that is not what it may be.
    pub(crate) fn bad_value(what: &'static str, expected: &'static str, found: &[u8]) -> Reason {
        Reason::BadValue {
            what,
            expected,
            found: Reason::quoted(found),
        }
    }

    /// A field for people: quoted, escaped and not longer than fits a line.
    pub(crate) fn quoted(field: &[u8]) -> String {
        const SHOWN_BYTES: usize = 32;
        if field.is_empty() {
            return "missing".to_owned();
        }
        let head = &field[..field.len().min(SHOWN_BYTES)];
        let dots = if head.len() < field.len() { "..." } else { "" };
        format!("`{}{dots}`", head.escape_ascii())
    }
}
