//! Recordings: which pages of live processes each walk of their page tables found accessed, and which page cache of files each
//! census found read.
//!
//! A recording is a `.strata` file whose blocks hold observations instead of accesses
//! (`docs/reference/recording-format.md` describes it byte by byte). Read as a trace it yields, for each walk,
//! one access for every page that was accessed or had come into memory since the walk before, in
//! the order of addresses, with the time of the walk. What happened more often within an interval,
//! and in which order, nobody knows. Page cache that nobody has mapped is accessed through
//! descriptors: a file is a space whose pages are numbered as in the file.
//!
//! ```text
//!   file    = about, (names | observations)*, end
//!   walk    = what was found at one time:  space*          a baseline tells what is in memory
//!   space   = one address space, or file:  piece*, end
//!   piece   = one mapping's part of one page table (512 pages), or 512 pages of a file, as bitmaps
//! ```
//!
//! **Owns** what a recording says, its writer and its decoder. **Does not own** the blocks around it
//! (`strata`), nor how accesses are seen (`strata-host`).
//!
//! **Invariants**
//! - I1: a block can be read without the others, but for names, which nothing depends on.
//! - I2: memory is bounded, whatever a file says of itself; what a bound leaves out is counted.
//! - I3: a page that was freed and comes back is another page: reuse of an address is no reuse of data.
//! - I4: where only a share of the pages is handed out, these are handed out as if there were no others.

mod bitmap;
mod decoder;
mod info;
mod lives;
mod names;
mod writer;

pub(crate) use decoder::{Broken, Decoder};
pub use info::{AreaInfo, FileInfo, RecordingInfo};
pub use names::{About, AreaName, FileName, NameKnown, SpaceName};
pub use writer::RecordingWriter;

use crate::strata::varint;
use strata_lru::bits::{count, or};

/// A bit for each of the 512 pages of a page table; bit `i` of word `i / 64`.
pub use strata_lru::bits::Bits as PageBits;
/// No page.
pub use strata_lru::bits::NONE as NO_PAGES;

/// Pages of a table.
const TABLE_PAGES: u64 = 512;
/// Bits of a page number within a space; what is above counts the lives of the page.
const PAGE_BITS: u32 = 44;
/// Tables of a space.
const NR_TABLES_MAX: u64 = 1 << (PAGE_BITS - 9);

/// What one walk found of one mapping in one page table. The bitmaps that say what happened are
/// disjoint, but that a page may have been accessed as well as have appeared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// Which table of the space: the page number divided by 512, below 2^35.
    pub table: u64,
    /// Which mapping, as [`AreaName`] names it; 0 in a file.
    pub area: u32,
    /// Accessed since the last walk.
    pub accessed: PageBits,
    /// Came into memory since the last walk; in a baseline, in memory at all.
    pub appeared: PageBits,
    /// Was freed or unmapped: if the page comes back, its content is new.
    pub gone: PageBits,
    /// Left memory, but its content is kept in swap or in its file.
    pub evicted: PageBits,
    /// Pages that were accessed or appeared, and were first seen dirty.
    pub written: PageBits,
    /// Of all these, anonymous; the others belong to files. None in a file.
    pub anon: PageBits,
}

impl Piece {
    /// Pages that count as accessed when the recording is read as a trace.
    pub fn touched(&self) -> PageBits {
        or(self.accessed, self.appeared)
    }

    /// Number of pages that count as accessed.
    pub fn nr_touched(&self) -> u32 {
        count(self.touched()) as u32
    }

    /// Pages of which it tells anything.
    pub fn told(&self) -> PageBits {
        or(self.touched(), or(self.gone, self.evicted))
    }
}

/// What a walk tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkKind {
    /// What is in memory, whenever it was accessed: at the beginning of a file.
    Baseline,
    /// What happened since the last walk.
    Interval,
}

/// How what is told of a space ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceEnd {
    /// All of it was walked.
    Whole,
    /// The walk broke off: what was not told is not known.
    Broken,
    /// The space is no more, and its pages neither.
    Ended,
}

/// One record of a recording, as it stands in the file.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all records are pieces, and none is kept"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A walk begins.
    Walk {
        /// What it tells.
        kind: WalkKind,
        /// Microseconds since the recording began.
        at_us: u64,
        /// Whether an earlier block began it.
        is_continued: bool,
    },
    /// A space begins, in the walk.
    Space {
        /// Its number.
        number: u32,
        /// Whether the space is a file, rather than the address space of a process.
        is_file: bool,
    },
    /// A piece, in the space.
    Piece(Piece),
    /// The space ends, in the walk.
    End(SpaceEnd),
}

/// Appends a text: its length, then its bytes.
fn push_text(content: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(names::TEXT_BYTES_MAX)];
    varint::push(content, text.len() as u64);
    content.extend_from_slice(text);
}

/// Takes a text off the front; `None` if it is longer than one may be.
fn pop_text(rest: &mut &[u8]) -> Option<String> {
    let nr_bytes = usize::try_from(varint::pop(rest)?).ok()?;
    if nr_bytes > names::TEXT_BYTES_MAX {
        return None;
    }
    let (text, after) = rest.split_at_checked(nr_bytes)?;
    *rest = after;
    Some(String::from_utf8_lossy(text).into_owned())
}

fn pop_u32(rest: &mut &[u8]) -> Option<u32> {
    u32::try_from(varint::pop(rest)?).ok()
}
