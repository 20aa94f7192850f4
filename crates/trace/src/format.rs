//! The formats by name.
//!
//! **Owns** the names and what a format implies of its accesses. **Does not own** their layouts
//! (`formats`).

use std::fmt;
use std::str::FromStr;

use crate::access::{Backing, Via};

/// A trace format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// 32-bit keys, little endian.
    U32Le,
    /// 32-bit keys, big endian.
    U32Be,
    /// 64-bit keys, little endian.
    U64Le,
    /// 64-bit keys, big endian.
    U64Be,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 4] = [Format::U32Le, Format::U32Be, Format::U64Le, Format::U64Be];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::U32Le => "u32le",
            Format::U32Be => "u32be",
            Format::U64Le => "u64le",
            Format::U64Be => "u64be",
        }
    }

    /// The path its accesses took, where the format does not say: memory is accessed through
    /// mappings, blocks and keys through descriptors.
    pub fn default_via(self) -> Via {
        match self {
            Format::U32Le | Format::U32Be | Format::U64Le | Format::U64Be => Via::FileDescriptor,
        }
    }

    /// What its pages are made of, where the format does not say.
    pub fn default_backing(self) -> Backing {
        match self.default_via() {
            Via::PageTable => Backing::Anon,
            Via::FileDescriptor => Backing::File,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No format has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no trace format `{0}`: one of {names}", names = Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat(pub String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        Format::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}
