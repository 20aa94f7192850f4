//! Page traces: which page was accessed, how, by whom and when.
//!
//! **Owns** the record ([`Access`]), the readers of foreign formats, our own format and the
//! generators. **Does not own** what is made of a trace (`strata-sim`) or how one is recorded from a
//! live process (`strata-host`).
//!
//! **Invariants**
//! - I1: what a reader or a generator yields depends on its input and its seed alone.
//! - I2: a broken trace is an error that names the file, the offset and the reason, never a panic.
#![forbid(unsafe_code)]

mod access;
mod columns;
mod error;
mod export;
mod format;
mod formats;
mod generator;
mod input;
pub mod oracle;
mod reader;
pub mod recording;
mod strata;
mod suggest;
mod summary;
mod tolerant;

pub use access::{Access, Backing, Freed, FreedPages, Op, PageKey, Via};
pub use columns::{Column, Columns, ColumnsError, Ids, Role, TimeUnit};
pub use error::{Position, Reason, TraceError};
pub use export::{CSV_HEADER, write_csv};
pub use format::{Format, UnknownFormat};
pub use formats::{Opened, open, open_stream};
pub use generator::{Generator, GeneratorError};
pub use input::{Compression, Progress};
pub use reader::{AccessReader, BATCH_LEN, OpenOptions, Sizes};
pub use strata::Writer;
pub use suggest::{did_you_mean, nearest};
pub use summary::Summary;
pub use tolerant::Tolerant;
