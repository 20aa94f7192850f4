//! What can be wrong with a trace.
//!
//! **Owns** [`TraceError`]: which file, where in it, and why. **Does not own** the texts around it.

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

/// A trace that can't be read: which one, where, why.
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

    /// The trace as it was named.
    pub fn trace(&self) -> &str {
        &self.0.trace
    }

    /// Where it is broken; `None` when it could not even be opened.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// Why.
    pub fn reason(&self) -> &Reason {
        &self.0.reason
    }
}

/// Why a trace can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The operating system, or the compression, says so.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It ends in the middle of something.
    #[error("ends in the middle of {0}")]
    Truncated(&'static str),
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
    /// A line that goes on and on.
    #[error("a line longer than {0} bytes: is this text?")]
    LineTooLong(usize),
    /// A checksum does not fit.
    #[error("{0} is damaged: its checksum does not fit")]
    Damaged(&'static str),
}
