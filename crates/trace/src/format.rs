//! The formats by name.
//!
//! **Owns** the names and what a format implies of its accesses. **Does not own** their layouts
//! (`formats`).

use std::fmt;
use std::str::FromStr;

use crate::access::{Backing, Via};
use crate::suggest::did_you_mean;

/// A trace format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Our own.
    Strata,
    /// libCacheSim's, 24 bytes a request.
    OracleGeneral,
    /// libCacheSim's with operation and namespace, 27 bytes a request.
    OracleGeneralOpNs,
    /// A table with commas or the like.
    Csv,
    /// A table with white space.
    Txt,
    /// Runs of blocks, of the ARC paper.
    Lis,
    /// Blocks, of the LIRS paper.
    Lirs,
    /// `ADDRESS R|W`.
    Memsim,
    /// `l|s ADDRESS INSTRUCTIONS`.
    Ucsd,
    /// `valgrind --tool=lackey --trace-mem=yes`.
    Lackey,
    /// VMware's `vscsiStats`, versions 1 and 2.
    Vscsi,
    /// Logs of the Flexible I/O tester, versions 2 and 3.
    Fio,
    /// 32-bit keys, little endian.
    U32Le,
    /// 32-bit keys, big endian.
    U32Be,
    /// 64-bit keys, little endian.
    U64Le,
    /// 64-bit keys, big endian.
    U64Be,
    /// `page << 1 | write`, 64 bits, little endian.
    Tlb,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 17] = [
        Format::Strata,
        Format::OracleGeneral,
        Format::OracleGeneralOpNs,
        Format::Csv,
        Format::Txt,
        Format::Lis,
        Format::Lirs,
        Format::Memsim,
        Format::Ucsd,
        Format::Lackey,
        Format::Vscsi,
        Format::Fio,
        Format::U32Le,
        Format::U32Be,
        Format::U64Le,
        Format::U64Be,
        Format::Tlb,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Strata => "strata",
            Format::OracleGeneral => "oracle-general",
            Format::OracleGeneralOpNs => "oracle-general-opns",
            Format::Csv => "csv",
            Format::Txt => "txt",
            Format::Lis => "lis",
            Format::Lirs => "lirs",
            Format::Memsim => "memsim",
            Format::Ucsd => "ucsd",
            Format::Lackey => "lackey",
            Format::Vscsi => "vscsi",
            Format::Fio => "fio",
            Format::U32Le => "u32le",
            Format::U32Be => "u32be",
            Format::U64Le => "u64le",
            Format::U64Be => "u64be",
            Format::Tlb => "tlb",
        }
    }

    /// The path its accesses took, where the format does not say: memory is accessed through
    /// mappings, blocks and keys through descriptors.
    pub fn default_via(self) -> Via {
        match self {
            Format::Memsim | Format::Ucsd | Format::Lackey | Format::Tlb => Via::PageTable,
            Format::Strata
            | Format::OracleGeneral
            | Format::OracleGeneralOpNs
            | Format::Csv
            | Format::Txt
            | Format::Lis
            | Format::Lirs
            | Format::Vscsi
            | Format::Fio
            | Format::U32Le
            | Format::U32Be
            | Format::U64Le
            | Format::U64Be => Via::FileDescriptor,
        }
    }

    /// What its pages are made of, where the format does not say.
    pub fn default_backing(self) -> Backing {
        match self.default_via() {
            Via::PageTable => Backing::Anon,
            Via::FileDescriptor => Backing::File,
        }
    }

    /// What one id counts when sizes are expanded and nothing else was told: a disk's sectors, or
    /// pages.
    pub(crate) fn id_bytes(self) -> u64 {
        match self {
            Format::Vscsi => 512,
            _ => 4096,
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
#[error(
    "no trace format is called `{0}`: {meant}use one of {names}",
    meant = did_you_mean(.0, Format::ALL.map(Format::name)),
    names = Format::ALL.map(Format::name).join(", ")
)]
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
