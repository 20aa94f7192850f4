//! One file a format (or family of formats).
//!
//! **Owns** the choice of the reader. **Does not own** the layouts: each file has its own.

mod fixed;
mod records;

use crate::access::{Access, Backing, Via};
use crate::error::{Position, Reason, TraceError};
use crate::format::Format;
use crate::input::Input;
use crate::reader::{AccessReader, OpenOptions};

use records::Records;

/// The reader of `input`, and the format it reads.
pub(crate) fn open(
    input: Input,
    options: &OpenOptions,
) -> Result<(Box<dyn AccessReader>, Format), TraceError> {
    let Some(format) = options.format.or_else(|| guess(&input)) else {
        return Err(input.error(Position::Byte(0), Reason::UnknownFormat));
    };
    let stamp = Stamp {
        via: options.via.unwrap_or_else(|| format.default_via()),
        backing: options.backing.unwrap_or_else(|| format.default_backing()),
    };
    let reader: Box<dyn AccessReader> = match format {
        Format::U32Le => Box::new(Records::new(input, stamp, fixed::u32le)),
        Format::U32Be => Box::new(Records::new(input, stamp, fixed::u32be)),
        Format::U64Le => Box::new(Records::new(input, stamp, fixed::u64le)),
        Format::U64Be => Box::new(Records::new(input, stamp, fixed::u64be)),
    };
    Ok((reader, format))
}

/// The format by the ending of the name.
fn guess(input: &Input) -> Option<Format> {
    let (_, ending) = input.trace().rsplit_once('.')?;
    ending.parse().ok()
}

/// What every access of a trace has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    via: Via,
    backing: Backing,
}

impl Stamp {
    pub(crate) fn access(self) -> Access {
        Access {
            via: self.via,
            backing: self.backing,
            ..Access::default()
        }
    }
}
