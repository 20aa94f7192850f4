//! Writes recordings.
//!
//! **Owns** when a block is written, and that each can be read alone: a block begins with the walk
//! and the space it goes on with, and with bitmaps that refer to nothing before it. **Does not own**
//! what is observed (`strata-host`).
//!
//! **Invariants**
//! - I1: what waits to be written is never more than one block of observations and one of names.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use strata_lru::bits::{and, count};

use super::{
    About, AreaName, FileName, NO_PAGES, PageBits, Piece, SpaceEnd, SpaceName, WalkKind, bitmap,
    names,
};
use crate::error::TraceError;
use crate::strata::varint::{push, push_signed};
use crate::strata::{
    BLOCK_RECORDS_MAX, KIND_ABOUT, KIND_NAMES, KIND_OBSERVATIONS, Output, VERSION_OF_RECORDINGS,
};

/// A block is written once it has so many bytes: far below the bound of the format, and enough for
/// zstd to find what there is to find.
const BLOCK_BYTES: usize = 1 << 20;
/// Most records of a block; two less than there may be, for the walk and the space it begins with.
const BLOCK_RECORDS: usize = BLOCK_RECORDS_MAX - 2;

pub(super) const RECORD_END: u8 = 0;
pub(super) const RECORD_WALK: u8 = 1;
pub(super) const RECORD_SPACE: u8 = 2;
pub(super) const RECORD_PIECE: u8 = 3;

/// Of a walk: it is a baseline.
pub(super) const WALK_BASELINE: u8 = 1 << 2;
/// Of a space: it is a file.
pub(super) const SPACE_FILE: u8 = 1 << 2;
/// Of a walk or a space: an earlier block began it.
pub(super) const CONTINUED: u8 = 1 << 3;
/// Of an end: the walk of the space broke off.
pub(super) const END_BROKEN: u8 = 1 << 2;
/// Of an end: the space is no more.
pub(super) const END_ENDED: u8 = 1 << 3;
/// Of a piece: which bitmaps follow, in this order.
pub(super) const PIECE_BITMAPS: [u8; 6] = [1 << 2, 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7];

/// Writes a recording.
///
/// The order of calls: [`begin_walk`](Self::begin_walk), for each space
/// [`begin_space`](Self::begin_space), [`piece`](Self::piece)s and [`end_space`](Self::end_space); a file begins with
/// [`begin_file`](Self::begin_file).
/// What was written before a crash can be read up to the last [`flush`](Self::flush).
pub struct RecordingWriter<W: Write> {
    output: Output<W>,
    content: Vec<u8>,
    nr_records: usize,
    names: Vec<u8>,
    nr_names: usize,
    walk: Option<(WalkKind, u64)>,
    /// The space, and whether it is a file.
    space: Option<(u32, bool)>,
    /// The table of the last piece of the space in this block.
    table: u64,
    /// The last accessed bitmaps of this block, which the next ones are compared with.
    accessed: BTreeMap<(u32, u64, u32), PageBits>,
    nr_accesses: u64,
}

impl<W: Write> fmt::Debug for RecordingWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingWriter")
            .field("recording", &self.output.trace())
            .field("nr_accesses", &self.nr_accesses)
            .finish_non_exhaustive()
    }
}

impl<W: Write> RecordingWriter<W> {
    /// Begins a recording; `recording` is what errors call it.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn new(recording: &str, out: W, about: &About) -> Result<RecordingWriter<W>, TraceError> {
        let mut output = Output::new(recording, VERSION_OF_RECORDINGS, out)?;
        let mut content = Vec::new();
        names::encode_about(about, &mut content);
        output.block(KIND_ABOUT, 1, &content)?;
        content.clear();
        Ok(RecordingWriter {
            output,
            content,
            nr_records: 0,
            names: Vec::new(),
            nr_names: 0,
            walk: None,
            space: None,
            table: 0,
            accessed: BTreeMap::new(),
            nr_accesses: 0,
        })
    }

    /// Names a space, before anything is told of it.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn name_space(&mut self, space: &SpaceName) -> Result<(), TraceError> {
        self.name(|names| names::encode_space(space, names))
    }

    /// Names a mapping, before anything is told of it.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn name_area(&mut self, area: &AreaName) -> Result<(), TraceError> {
        self.name(|names| names::encode_area(area, names))
    }

    /// Names a file, before anything is told of it.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn name_file(&mut self, file: &FileName) -> Result<(), TraceError> {
        self.name(|names| names::encode_file(file, names))
    }

    /// A walk at this time, microseconds since the recording began. Whatever no space is told of did
    /// not change.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn begin_walk(&mut self, kind: WalkKind, at_us: u64) -> Result<(), TraceError> {
        self.space = None;
        self.walk = None;
        self.make_room()?;
        self.walk = Some((kind, at_us));
        self.put_walk(0);
        Ok(())
    }

    /// Something is told of a space, which used so much CPU time since it was last told of.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn begin_space(&mut self, space: u32, cpu_us: u64) -> Result<(), TraceError> {
        self.begin((space, false), cpu_us)
    }

    /// Something is told of the page cache of a file. Its pages are numbered as in the file, below 2^44, and none of them is
    /// anonymous.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn begin_file(&mut self, file: u32) -> Result<(), TraceError> {
        self.begin((file, true), 0)
    }

    fn begin(&mut self, space: (u32, bool), cpu_us: u64) -> Result<(), TraceError> {
        self.space = None;
        self.make_room()?;
        self.space = Some(space);
        self.put_space(0, cpu_us);
        Ok(())
    }

    /// A piece of the space; in no order, though that of addresses takes the least room. One that
    /// tells nothing is left out.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn piece(&mut self, piece: &Piece) -> Result<(), TraceError> {
        debug_assert!(self.space.is_some() && piece.table < super::NR_TABLES_MAX);
        if piece.told() == NO_PAGES {
            return Ok(());
        }
        self.make_room()?;
        debug_assert!(piece.anon == NO_PAGES || self.space.is_some_and(|(_, is_file)| !is_file));
        let touched = piece.touched();
        let written = and(piece.written, touched);
        let told = piece.told();
        let anon = and(piece.anon, told);
        // One bit says it where all pages are of a kind.
        let mixed = if anon == told { NO_PAGES } else { anon };
        let bitmaps = [
            piece.accessed,
            piece.appeared,
            piece.gone,
            piece.evicted,
            written,
            mixed,
        ];
        let flags = bitmaps
            .iter()
            .zip(PIECE_BITMAPS)
            .filter(|(bits, _)| **bits != NO_PAGES)
            .fold(RECORD_PIECE, |flags, (_, flag)| flags | flag);
        self.content.push(flags);
        push_signed(&mut self.content, piece.table.wrapping_sub(self.table));
        let is_anon = u64::from(anon == told);
        push(&mut self.content, u64::from(piece.area) << 1 | is_anon);
        self.table = piece.table;
        for (index, bits) in bitmaps.into_iter().enumerate() {
            if bits == NO_PAGES {
                continue;
            }
            let bits = match index {
                0 => self.changed(piece, bits),
                _ => bits,
            };
            bitmap::encode(bits, &mut self.content);
        }
        self.nr_records += 1;
        self.nr_accesses += count(touched);
        Ok(())
    }

    /// All was told of the space.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn end_space(&mut self, end: SpaceEnd) -> Result<(), TraceError> {
        self.make_room()?;
        self.content.push(match end {
            SpaceEnd::Whole => RECORD_END,
            SpaceEnd::Broken => RECORD_END | END_BROKEN,
            SpaceEnd::Ended => RECORD_END | END_ENDED,
        });
        self.nr_records += 1;
        self.space = None;
        Ok(())
    }

    /// Bytes written so far; what waits for its block is not among them.
    pub fn written_bytes(&self) -> u64 {
        self.output.written_bytes()
    }

    /// Accesses that a reader will find.
    pub fn nr_accesses(&self) -> u64 {
        self.nr_accesses
    }

    /// Writes out what waits, as blocks of their own.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.write_blocks()?;
        self.output.flush()
    }

    /// Ends the recording; without that a reader takes it for torn. `out` is given back, flushed.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.write_blocks()?;
        self.output.finish(self.nr_accesses)
    }

    /// What differs from the bitmap before, which a steady program makes little.
    fn changed(&mut self, piece: &Piece, bits: PageBits) -> PageBits {
        let (space, _) = self.space.unwrap_or_default();
        let key = (space, piece.table, piece.area);
        let before = self.accessed.insert(key, bits).unwrap_or(NO_PAGES);
        std::array::from_fn(|word| bits[word] ^ before[word])
    }

    fn put_walk(&mut self, flags: u8) {
        let Some((kind, at_us)) = self.walk else {
            return;
        };
        let baseline = match kind {
            WalkKind::Baseline => WALK_BASELINE,
            WalkKind::Interval => 0,
        };
        self.content.push(RECORD_WALK | baseline | flags);
        push(&mut self.content, at_us);
        self.nr_records += 1;
    }

    fn put_space(&mut self, flags: u8, cpu_us: u64) {
        let Some((space, is_file)) = self.space else {
            return;
        };
        let file = if is_file { SPACE_FILE } else { 0 };
        self.content.push(RECORD_SPACE | file | flags);
        push(&mut self.content, u64::from(space));
        push(&mut self.content, cpu_us);
        self.nr_records += 1;
        self.table = 0;
    }

    /// Writes the block if it is full, and begins the next with what goes on.
    fn make_room(&mut self) -> Result<(), TraceError> {
        if self.content.len() >= BLOCK_BYTES || self.nr_records >= BLOCK_RECORDS {
            self.write_blocks()?;
        }
        if self.content.is_empty() {
            self.put_walk(CONTINUED);
            self.put_space(CONTINUED, 0);
        }
        Ok(())
    }

    fn name(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), TraceError> {
        if self.names.len() >= BLOCK_BYTES || self.nr_names >= BLOCK_RECORDS {
            self.write_blocks()?;
        }
        encode(&mut self.names);
        self.nr_names += 1;
        Ok(())
    }

    /// Names first: they are of what follows.
    fn write_blocks(&mut self) -> Result<(), TraceError> {
        if self.nr_names > 0 {
            let names = std::mem::take(&mut self.names);
            self.output.block(KIND_NAMES, self.nr_names, &names)?;
            self.nr_names = 0;
        }
        if self.nr_records > 0 {
            let content = std::mem::take(&mut self.content);
            self.output
                .block(KIND_OBSERVATIONS, self.nr_records, &content)?;
            self.nr_records = 0;
            self.accessed.clear();
        }
        Ok(())
    }
}
