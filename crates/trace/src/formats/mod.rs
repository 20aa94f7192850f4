//! The door every trace comes through, and one file a format (or family of formats).
//!
//! **Owns** [`open`] and the choice of the reader. **Does not own** the layouts: each file has its own.

mod addresses;
mod blocks;
mod fio;
mod fixed;
mod guess;
mod lines;
mod number;
mod oracle;
mod records;
mod run;
mod table;
mod vscsi;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Position, Reason, TraceError};
use crate::format::Format;
use crate::input::{Compression, Input, Progress};
use crate::reader::{AccessReader, OpenOptions};
use crate::strata::StrataReader;

use addresses::{Lackey, Memsim, Ucsd};
use blocks::{Lirs, Lis};
use fio::Fio;
use lines::Lines;
use records::Records;
use run::Stamp;
use table::Table;

/// An opened trace.
#[derive(Debug)]
pub struct Opened {
    /// Accesses of the trace.
    pub reader: Box<dyn AccessReader>,
    /// Format of the trace, as asked for or as guessed.
    pub format: Format,
    /// How the file is compressed.
    pub compression: Compression,
    /// How far the file has been read.
    pub progress: Progress,
}

/// Opens the trace at `path`, compressed or not.
///
/// # Errors
/// It can't be opened or is broken at its beginning, or its format can't be guessed.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Opened, TraceError> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let cannot_open = |error: std::io::Error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => Reason::NotFound,
            _ => error.into(),
        };
        TraceError::new(&name, None, reason)
    };
    let file = File::open(path).map_err(cannot_open)?;
    let metadata = file.metadata().map_err(cannot_open)?;
    // A pipe has no length, and opening a directory fails only at the first read.
    let total_bytes = metadata.is_file().then_some(metadata.len());
    open_stream(&name, file, total_bytes, options)
}

/// As [`open`], for bytes that come from elsewhere; `name` stands in errors and its ending helps
/// to guess the format.
///
/// # Errors
/// As [`open`].
pub fn open_stream(
    name: &str,
    stream: impl Read + Send + 'static,
    total_bytes: Option<u64>,
    options: &OpenOptions,
) -> Result<Opened, TraceError> {
    let input = Input::open(name, stream, total_bytes)?;
    let (compression, progress) = (input.compression(), input.progress().clone());
    let (reader, format) = reader_of(input, options)?;
    Ok(Opened {
        reader,
        format,
        compression,
        progress,
    })
}

/// The reader of `input`, and the format it reads.
fn reader_of(
    input: Input,
    options: &OpenOptions,
) -> Result<(Box<dyn AccessReader>, Format), TraceError> {
    let guessed = || guess::guess(input.trace(), input.available());
    let Some(format) = options.format.or_else(guessed) else {
        let is_empty = input.available().is_empty();
        let reason = if is_empty {
            Reason::Empty
        } else {
            Reason::UnknownFormat
        };
        return Err(input.error(Position::Byte(0), reason));
    };
    let stamp = Stamp::new(format, options);
    let columns = || options.columns.clone();
    let reader: Box<dyn AccessReader> = match format {
        Format::Strata => Box::new(StrataReader::open(input, options)?),
        Format::OracleGeneral => Box::new(Records::new(input, stamp, oracle::general)),
        Format::OracleGeneralOpNs => Box::new(Records::new(input, stamp, oracle::opns)),
        Format::Csv => Box::new(Lines::new(input, stamp, Table::csv(columns()))),
        Format::Txt => Box::new(Lines::new(input, stamp, Table::txt(columns()))),
        Format::Lis => Box::new(Lines::new(input, stamp, Lis)),
        Format::Lirs => Box::new(Lines::new(input, stamp, Lirs)),
        Format::Memsim => Box::new(Lines::new(input, stamp, Memsim)),
        Format::Ucsd => Box::new(Lines::new(input, stamp, Ucsd)),
        Format::Lackey => Box::new(Lines::new(input, stamp, Lackey)),
        Format::Vscsi => open_vscsi(input, stamp)?,
        Format::Fio => Box::new(Lines::new(input, stamp, Fio::default())),
        Format::U32Le => Box::new(Records::new(input, stamp, fixed::u32le)),
        Format::U32Be => Box::new(Records::new(input, stamp, fixed::u32be)),
        Format::U64Le => Box::new(Records::new(input, stamp, fixed::u64le)),
        Format::U64Be => Box::new(Records::new(input, stamp, fixed::u64be)),
        Format::Tlb => Box::new(Records::new(input, stamp, fixed::tlb)),
    };
    Ok((reader, format))
}

fn open_vscsi(input: Input, stamp: Stamp) -> Result<Box<dyn AccessReader>, TraceError> {
    match vscsi::version(input.available()) {
        Some(vscsi::Version::V1) => Ok(Box::new(Records::new(input, stamp, vscsi::v1))),
        Some(vscsi::Version::V2) => Ok(Box::new(Records::new(input, stamp, vscsi::v2))),
        None => {
            let reason = Reason::NotThisFormat {
                format: "vscsi",
                why: "its first records have neither version 1 nor version 2".to_owned(),
            };
            Err(input.error(Position::Byte(0), reason))
        }
    }
}
