//! Reads our own format.
//!
//! **Owns** checking headers and checksums, and what may be passed over. **Does not own** what is
//! in a block (`block`, `recording`).
//!
//! **Invariants**
//! - I1: a damaged block spoils itself alone: the next call goes on behind it.
//! - I2: all whole blocks are handed out before a torn tail is told.

use super::{
    BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BlockHeader, BlockKind, CODEC_STORED, CODEC_ZSTD,
};
use super::{FILE_HEADER_BYTES, VERSION_OF_RECORDINGS, VERSIONS, block, file_header};
use crate::access::{Access, Backing, Freed, Via};
use crate::error::{Position, Reason, TraceError};
use crate::input::Input;
use crate::reader::{AccessReader, BATCH_LEN, OpenOptions};
use crate::recording::{Broken, Decoder, RecordingInfo, Told};

/// Most accesses of a piece of a recording.
const PIECE_ACCESSES_MAX: usize = 512;

/// Reads a `.strata` trace.
pub(crate) struct StrataReader {
    input: Input,
    via: Option<Via>,
    backing: Option<Backing>,
    stored: Vec<u8>,
    content: Vec<u8>,
    recording: Decoder,
    is_recording: bool,
    /// Where the current block begins.
    block_at: u64,
    decompressor: zstd::bulk::Decompressor<'static>,
    /// The accesses of the current block, and how many of them were handed out.
    accesses: Vec<Access>,
    nr_handed_out: usize,
    nr_accesses: u64,
    /// Whether not all accesses were counted, so that the count at the end can't fit: a block was passed over, or pages are.
    is_partial: bool,
    is_at_end: bool,
}

impl std::fmt::Debug for StrataReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StrataReader")
            .field("input", &self.input)
            .finish_non_exhaustive()
    }
}

impl StrataReader {
    /// Reads the header.
    pub(crate) fn open(
        mut input: Input,
        options: &OpenOptions,
    ) -> Result<StrataReader, TraceError> {
        let at = Position::Byte(0);
        let mut header = Vec::new();
        input.take(FILE_HEADER_BYTES, &mut header)?;
        let is_header = |version: &u16| file_header(*version).starts_with(&header);
        let Some(version) = VERSIONS.into_iter().find(is_header) else {
            return Err(input.error(at, not_strata(&header)));
        };
        if header.len() < FILE_HEADER_BYTES {
            return Err(input.error(at, Reason::Truncated("the header")));
        }
        let decompressor = zstd::bulk::Decompressor::new()
            .map_err(|error| TraceError::new(input.trace(), None, error.into()))?;
        Ok(StrataReader {
            input,
            via: options.via,
            backing: options.backing,
            stored: Vec::new(),
            content: Vec::new(),
            recording: Decoder::new(version == VERSION_OF_RECORDINGS),
            is_recording: false,
            block_at: 0,
            decompressor,
            accesses: Vec::new(),
            nr_handed_out: 0,
            nr_accesses: 0,
            is_partial: false,
            is_at_end: false,
        })
    }

    /// Reads the next block; nothing at the end.
    fn read_block(&mut self) -> Result<(), TraceError> {
        let at = self.input.offset();
        self.input.take(BLOCK_HEADER_BYTES, &mut self.stored)?;
        let Some(header) = self.stored.first_chunk() else {
            return Err(self.fatal(at, Reason::Truncated("the trace: its end mark is missing")));
        };
        let bad_header = |why: &str| Reason::NotThisFormat {
            format: "a block of a strata trace",
            why: why.to_owned(),
        };
        let Some(header) = BlockHeader::from_bytes(header) else {
            let reason = bad_header("the checksum of its header does not fit");
            return Err(self.fatal(at, reason));
        };
        if !header.is_bounded() {
            return Err(self.fatal(at, bad_header("it is larger than a block may be")));
        }
        let stored_bytes = header.stored_bytes as usize;
        self.input.take(stored_bytes, &mut self.stored)?;
        if self.stored.len() < stored_bytes {
            return Err(self.fatal(at, Reason::Truncated("a block")));
        }
        self.block_at = at;
        let kind = BlockKind::of(header.kind);
        let decoded = match kind {
            BlockKind::Optional => return Ok(()),
            BlockKind::Required => {
                let why = format!("its kind {} is not known to this version", header.kind);
                return Err(self.fatal(at, bad_header(&why)));
            }
            BlockKind::End => self.read_end(&header),
            _ => self.read_content(kind, &header),
        };
        decoded.ok_or_else(|| self.damaged())
    }

    /// Unpacks a block and hands it to who knows its kind.
    fn read_content(&mut self, kind: BlockKind, header: &BlockHeader) -> Option<()> {
        if crc32fast::hash(&self.stored) != header.stored_crc {
            return None;
        }
        let content_bytes = header.content_bytes as usize;
        let content = match header.codec {
            CODEC_STORED => &self.stored,
            CODEC_ZSTD => {
                self.content.clear();
                self.content.reserve(BLOCK_BYTES_MAX.min(content_bytes));
                self.decompressor
                    .decompress_to_buffer(&self.stored, &mut self.content)
                    .ok()?;
                &self.content
            }
            _ => return None,
        };
        if content.len() != content_bytes {
            return None;
        }
        let nr_records = header.nr_records as usize;
        self.is_recording |= kind != BlockKind::Accesses;
        match kind {
            BlockKind::Names => return self.recording.names(content, nr_records),
            BlockKind::About => return self.recording.about(content),
            BlockKind::Observations => {
                self.recording.begin(content, nr_records);
                return Some(());
            }
            _ => block::decode(content, nr_records, &mut self.accesses)?,
        }
        self.took_accesses(0);
        Some(())
    }

    /// Takes the pieces of the current block of observations, as long as a batch has room for them.
    fn read_pieces(&mut self) -> Result<(), TraceError> {
        while self.accesses.len() + PIECE_ACCESSES_MAX <= BATCH_LEN {
            let nr_before = self.accesses.len();
            let piece = self.recording.next_piece(&mut self.accesses);
            self.took_accesses(nr_before);
            match piece {
                Ok(true) => {}
                Ok(false) => break,
                Err(Broken) => return Err(self.damaged()),
            }
        }
        Ok(())
    }

    /// Counts the accesses from there on, and makes them what the options say.
    fn took_accesses(&mut self, from: usize) {
        let new = &mut self.accesses[from..];
        self.nr_accesses += new.len() as u64;
        for access in new {
            access.via = self.via.unwrap_or(access.via);
            access.backing = self.backing.unwrap_or(access.backing);
        }
    }

    fn damaged(&mut self) -> TraceError {
        self.is_partial = true;
        self.input
            .error(Position::Byte(self.block_at), Reason::DamagedBlock)
    }

    fn read_end(&mut self, header: &BlockHeader) -> Option<()> {
        self.is_at_end = true;
        let count = self.stored.as_slice().try_into().ok()?;
        let fits = crc32fast::hash(&self.stored) == header.stored_crc
            && (self.is_partial || u64::from_le_bytes(count) == self.nr_accesses);
        fits.then_some(())
    }

    fn fatal(&mut self, at: u64, reason: Reason) -> TraceError {
        self.is_at_end = true;
        self.input.error(Position::Byte(at), reason)
    }
}

impl AccessReader for StrataReader {
    fn read_batch(&mut self, batch: &mut Vec<Access>) -> Result<usize, TraceError> {
        batch.clear();
        while self.nr_handed_out == self.accesses.len() {
            self.accesses.clear();
            self.nr_handed_out = 0;
            let pieces = self.read_pieces();
            if self.accesses.is_empty() {
                pieces?;
                if self.is_at_end {
                    return Ok(0);
                }
                if let Err(error) = self.read_block() {
                    self.accesses.clear();
                    return Err(error);
                }
            } else if let Err(error) = pieces {
                batch.append(&mut self.accesses);
                return Err(error);
            }
        }
        let rest = &self.accesses[self.nr_handed_out..];
        batch.extend_from_slice(&rest[..rest.len().min(BATCH_LEN)]);
        self.nr_handed_out += batch.len();
        Ok(batch.len())
    }

    fn take_freed(&mut self, freed: &mut Vec<Freed>) {
        self.recording.take_freed(freed);
    }

    fn read_told(&mut self) -> Result<Option<Told>, TraceError> {
        loop {
            match self.recording.next_told() {
                Ok(Some(told)) => {
                    if let Told::Piece(piece) = &told {
                        self.nr_accesses += u64::from(piece.nr_touched());
                    }
                    return Ok(Some(told));
                }
                Ok(None) => {}
                Err(Broken) => return Err(self.damaged()),
            }
            // What is no recording is left to `read_batch`.
            if self.is_at_end || self.nr_handed_out < self.accesses.len() {
                return Ok(None);
            }
            self.accesses.clear();
            self.nr_handed_out = 0;
            if let Err(error) = self.read_block() {
                self.accesses.clear();
                return Err(error);
            }
        }
    }

    fn thin(&mut self, shift: u32) {
        self.is_partial |= shift > 0;
        self.recording.thin(shift);
    }

    fn recording(&self) -> Option<&RecordingInfo> {
        self.is_recording.then(|| self.recording.info())
    }
}

/// What is wrong with the header of the file.
fn not_strata(header: &[u8]) -> Reason {
    let why = match header.strip_prefix(&super::MAGIC) {
        Some([low, high, ..]) if !VERSIONS.contains(&u16::from_le_bytes([*low, *high])) => format!(
            "version {} is not known to this version of strata",
            u16::from_le_bytes([*low, *high])
        ),
        Some(_) => "its header is damaged".to_owned(),
        None => "it does not begin with the eight bytes that mark one".to_owned(),
    };
    Reason::NotThisFormat {
        format: "a strata trace",
        why,
    }
}
