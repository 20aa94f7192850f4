//! The formats by name.
//!
//! **Owns** the names and what a format implies of its accesses. **Does not own** their layouts
//! (`formats`).

use crate::access::{Backing, Via};
use crate::suggest::did_you_mean;

strata_lru::named! {
    /// A trace format that can be read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Format or UnknownFormat {
        /// Our own.
        Strata = "strata",
        /// libCacheSim's, 24 bytes a request.
        OracleGeneral = "oracle-general",
        /// libCacheSim's with operation and namespace, 27 bytes a request.
        OracleGeneralOpNs = "oracle-general-opns",
        /// A table with commas or the like.
        Csv = "csv",
        /// A table with white space.
        Txt = "txt",
        /// Runs of blocks, of the ARC paper.
        Lis = "lis",
        /// Blocks, of the LIRS paper.
        Lirs = "lirs",
        /// `ADDRESS R|W`.
        Memsim = "memsim",
        /// `l|s ADDRESS INSTRUCTIONS`.
        Ucsd = "ucsd",
        /// `valgrind --tool=lackey --trace-mem=yes`.
        Lackey = "lackey",
        /// VMware's `vscsiStats`, versions 1 and 2.
        Vscsi = "vscsi",
        /// Logs of the Flexible I/O tester, versions 2 and 3.
        Fio = "fio",
        /// 32-bit keys, little endian.
        U32Le = "u32le",
        /// 32-bit keys, big endian.
        U32Be = "u32be",
        /// 64-bit keys, little endian.
        U64Le = "u64le",
        /// 64-bit keys, big endian.
        U64Be = "u64be",
        /// `page << 1 | write`, 64 bits, little endian.
        Tlb = "tlb",
    }
}

impl Format {
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

/// No format has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no trace format is called `{0}`: {meant}use one of {names}",
    meant = did_you_mean(.0, Format::NAMES.iter().copied()),
    names = Format::NAMES.join(", ")
)]
pub struct UnknownFormat(pub String);
