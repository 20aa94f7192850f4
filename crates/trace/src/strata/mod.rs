//! Our own format: `.strata`, page traces in blocks that can each be checked and read alone.
//!
//! `docs/reference/trace-format.md` describes it byte by byte; a test there is none of the code's: the
//! document's example is compared with what [`Writer`] makes.
//!
//! **Owns** the layout: its constants are here, a block of accesses in `block`. **Does not own** what
//! is in the blocks of a recording (`recording`).
//!
//! **Invariants**
//! - I1: what is written is read back as it was, every field of every access.
//! - I2: nothing is allocated because a header says so before the bound of the format is checked.

mod block;
mod output;
mod reader;
pub(crate) mod varint;
mod writer;

pub(crate) use output::Output;
pub(crate) use reader::StrataReader;
pub use writer::Writer;

/// First bytes: a byte no text begins with, the name, and a line end that text tools would mangle.
pub(crate) const MAGIC: [u8; 8] = *b"\x89STRATA\n";
/// Version of traces of accesses.
const VERSION_OF_TRACES: u16 = 1;
/// Version of recordings. Those of version 1 have no files.
pub(crate) const VERSION_OF_RECORDINGS: u16 = 2;
/// Versions that are read.
const VERSIONS: [u16; 2] = [VERSION_OF_TRACES, VERSION_OF_RECORDINGS];
/// Bytes of the header of the file.
const FILE_HEADER_BYTES: usize = 16;
/// Bytes of the header of a block.
const BLOCK_HEADER_BYTES: usize = 24;
/// Most records of a block.
pub(crate) const BLOCK_RECORDS_MAX: usize = 1 << 16;
/// Most bytes of a block, stored or not: more than the largest records come to.
pub(crate) const BLOCK_BYTES_MAX: usize = 4 << 20;

/// What the records of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    /// Accesses, one after the other.
    Accesses,
    /// What walks of page tables found: a recording.
    Observations,
    /// What the spaces and mappings of a recording are called.
    Names,
    /// How a recording was made.
    About,
    /// The end of the trace: how many accesses there were.
    End,
    /// Not known, and may be passed over.
    Optional,
    /// Not known, and the trace makes no sense without.
    Required,
}

impl BlockKind {
    fn of(byte: u8) -> BlockKind {
        match byte {
            KIND_ACCESSES => BlockKind::Accesses,
            KIND_OBSERVATIONS => BlockKind::Observations,
            KIND_NAMES => BlockKind::Names,
            KIND_ABOUT => BlockKind::About,
            KIND_END => BlockKind::End,
            130..=254 => BlockKind::Optional,
            _ => BlockKind::Required,
        }
    }
}

const KIND_ACCESSES: u8 = 1;
pub(crate) const KIND_OBSERVATIONS: u8 = 2;
pub(crate) const KIND_NAMES: u8 = 128;
pub(crate) const KIND_ABOUT: u8 = 129;
const KIND_END: u8 = 255;

/// The content is stored as it is.
const CODEC_STORED: u8 = 0;
/// The content is one Zstandard frame.
const CODEC_ZSTD: u8 = 1;

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockHeader {
    kind: u8,
    codec: u8,
    nr_records: u32,
    content_bytes: u32,
    stored_bytes: u32,
    stored_crc: u32,
}

impl BlockHeader {
    fn to_bytes(self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        bytes[0] = self.kind;
        bytes[1] = self.codec;
        bytes[4..8].copy_from_slice(&self.nr_records.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.content_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.stored_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..20]);
        bytes[20..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` when the checksum does not fit.
    fn from_bytes(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<BlockHeader> {
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        (crc32fast::hash(&bytes[..20]) == word(20)).then(|| BlockHeader {
            kind: bytes[0],
            codec: bytes[1],
            nr_records: word(4),
            content_bytes: word(8),
            stored_bytes: word(12),
            stored_crc: word(16),
        })
    }

    /// Whether the numbers keep the bounds of the format.
    fn is_bounded(&self) -> bool {
        self.nr_records as usize <= BLOCK_RECORDS_MAX
            && self.content_bytes as usize <= BLOCK_BYTES_MAX
            && self.stored_bytes as usize <= BLOCK_BYTES_MAX
    }
}

fn file_header(version: u16) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&version.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..12]);
    bytes[12..].copy_from_slice(&crc.to_le_bytes());
    bytes
}
