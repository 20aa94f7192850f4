//! From blocks of observations to accesses.
//!
//! **Owns** the decoding, a piece at a time: a block of a few bytes may stand for millions of
//! accesses, and memory must not. **Does not own** blocks and checksums (`strata`).
//!
//! **Invariants**
//! - I1: a block that breaks a rule is refused where it does so; what stood before was handed out.
//! - I2: one call appends at most the accesses of one piece.
//! - I3: what was freed is kept only for who asks for it, and no more than [`FREED_KEPT_MAX`] at a time.

use std::collections::BTreeMap;

use super::lives::Lives;
use super::writer::{
    CONTINUED, END_BROKEN, END_ENDED, PIECE_BITMAPS, RECORD_END, RECORD_PIECE, RECORD_SPACE,
    RECORD_WALK, SPACE_FILE, WALK_BASELINE,
};
use super::{
    NO_PAGES, NR_TABLES_MAX, PageBits, Piece, RecordingInfo, SpaceEnd, Told, WalkKind, bitmap,
    names, pop_u32,
};
use crate::access::{Access, Backing, Freed, FreedPages, Op, PageKey, Via};
use crate::strata::varint::{pop, pop_signed};
use strata_lru::bits;

/// Freed pages that wait to be asked for: 16 GiB freed between two batches of accesses, in 128 MiB. Further
/// ones are taken for still in use, and counted.
const FREED_KEPT_MAX: usize = 1 << 22;

/// Bits of a record's first byte that say what it is.
const RECORD_MASK: u8 = 3;

/// What stands in a block does not follow the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// The space of which is told.
#[derive(Clone, Copy, Debug)]
struct Space {
    number: u32,
    /// Whether the space is a file and not the address space of a process.
    is_file: bool,
}

/// Decodes the blocks of one recording.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Whether the version of the recording has files.
    has_files: bool,
    info: RecordingInfo,
    lives: Lives,
    /// What was freed since somebody asked; `None` while nobody has.
    freed: Option<Vec<Freed>>,
    /// The block being decoded, and how far.
    content: Vec<u8>,
    at: usize,
    nr_records_left: usize,
    walk: Option<(WalkKind, u64)>,
    space: Option<Space>,
    table: u64,
    accessed: BTreeMap<(u32, u64, u32), PageBits>,
    /// Of `2^thinned` pages one is handed out.
    thinned: u32,
}

impl Decoder {
    /// Has seen nothing of a recording yet, in which files may be told of or not.
    pub(crate) fn new(has_files: bool) -> Decoder {
        Decoder {
            has_files,
            ..Decoder::default()
        }
    }

    /// From now on one page of `2^shift` is handed out.
    pub(crate) fn thin(&mut self, shift: u32) {
        self.thinned = shift;
    }

    /// What is known of the recording so far.
    pub(crate) fn info(&self) -> &RecordingInfo {
        &self.info
    }

    /// Appends what was freed since this was last called, and keeps it from the first call on.
    pub(crate) fn take_freed(&mut self, freed: &mut Vec<Freed>) {
        freed.append(self.freed.get_or_insert_default());
    }

    /// Takes a block of names.
    pub(crate) fn names(&mut self, content: &[u8], nr_records: usize) -> Option<()> {
        let info = &mut self.info;
        names::decode(content, nr_records, self.has_files, |name| {
            info.add_name(name);
        })
    }

    /// Takes the block about the recording.
    pub(crate) fn about(&mut self, content: &[u8]) -> Option<()> {
        self.info.about = Some(names::decode_about(content)?);
        Some(())
    }

    /// Begins a block of observations.
    pub(crate) fn begin(&mut self, content: &[u8], nr_records: usize) {
        self.content.clear();
        self.content.extend_from_slice(content);
        self.at = 0;
        self.nr_records_left = nr_records;
        self.walk = None;
        self.space = None;
        self.accessed.clear();
    }

    /// Appends the accesses of the next piece to `accesses`; whether there was one.
    ///
    /// # Errors
    /// [`Broken`]; the rest of the block is dropped.
    pub(crate) fn next_piece(&mut self, accesses: &mut Vec<Access>) -> Result<bool, Broken> {
        while let Some(told) = self.next_told()? {
            let of = self.walk.zip(self.space);
            if let (Told::Piece(piece), Some(((_, at_us), space))) = (told, of) {
                self.append(space, at_us, &piece, accesses);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next record of the block, `None` behind its last.
    ///
    /// # Errors
    /// [`Broken`]; the rest of the block is dropped.
    pub(crate) fn next_told(&mut self) -> Result<Option<Told>, Broken> {
        if self.nr_records_left == 0 {
            let at = std::mem::replace(&mut self.at, self.content.len());
            return match at == self.content.len() {
                true => Ok(None),
                false => Err(Broken),
            };
        }
        self.nr_records_left -= 1;
        let content = std::mem::take(&mut self.content);
        let mut rest = content.get(self.at..).unwrap_or_default();
        let told = self.decode(&mut rest);
        self.at = content.len() - rest.len();
        self.content = content;
        if told.is_none() {
            self.nr_records_left = 0;
        }
        told.map(Some).ok_or(Broken)
    }

    /// Decodes a record. `None` if it breaks a rule.
    fn decode(&mut self, rest: &mut &[u8]) -> Option<Told> {
        let (head, after) = rest.split_first()?;
        *rest = after;
        let flags = head & !RECORD_MASK;
        match head & RECORD_MASK {
            RECORD_WALK => self.begin_walk(flags, rest),
            RECORD_SPACE => self.begin_space(flags, rest),
            RECORD_PIECE => self.piece(flags, rest).map(Told::Piece),
            RECORD_END => self.end_space(flags).map(Told::End),
            _ => None,
        }
    }

    fn begin_walk(&mut self, flags: u8, rest: &mut &[u8]) -> Option<Told> {
        let kind = match flags & !CONTINUED {
            0 => WalkKind::Interval,
            WALK_BASELINE => WalkKind::Baseline,
            _ => return None,
        };
        let at_us = pop(rest)?;
        let is_continued = flags & CONTINUED != 0;
        if !is_continued {
            self.info.add_walk(kind, at_us);
        }
        self.walk = Some((kind, at_us));
        self.space = None;
        Some(Told::Walk {
            kind,
            at_us,
            is_continued,
        })
    }

    fn begin_space(&mut self, flags: u8, rest: &mut &[u8]) -> Option<Told> {
        self.walk?;
        let is_file = self.has_files && flags & SPACE_FILE != 0;
        let known = if is_file {
            CONTINUED | SPACE_FILE
        } else {
            CONTINUED
        };
        if flags & !known != 0 {
            return None;
        }
        let number = pop_u32(rest)?;
        self.space = Some(Space { number, is_file });
        self.info.cpu_us = self.info.cpu_us.saturating_add(pop(rest)?);
        self.table = 0;
        Some(Told::Space { number, is_file })
    }

    fn end_space(&mut self, flags: u8) -> Option<SpaceEnd> {
        let ((_, time_us), space) = (self.walk?, self.space.take()?.number);
        let end = match flags {
            0 => SpaceEnd::Whole,
            END_BROKEN => SpaceEnd::Broken,
            END_ENDED => SpaceEnd::Ended,
            _ => return None,
        };
        if end == SpaceEnd::Ended {
            self.lives.forget(space);
            if let Some(freed) = &mut self.freed {
                let what = FreedPages::Space(space);
                match freed.len() < FREED_KEPT_MAX {
                    true => freed.push(Freed { what, time_us }),
                    false => self.info.nr_left_out += 1,
                }
            }
        }
        self.info.nr_broken_walks += u64::from(end == SpaceEnd::Broken);
        Some(end)
    }

    fn piece(&mut self, flags: u8, rest: &mut &[u8]) -> Option<Piece> {
        let ((kind, _), space) = (self.walk?, self.space?);
        let table = self.table.wrapping_add(pop_signed(rest)?);
        if table >= NR_TABLES_MAX {
            return None;
        }
        self.table = table;
        let area_and_kind = pop(rest)?;
        let area = u32::try_from(area_and_kind >> 1).ok()?;
        let mut bitmaps = [NO_PAGES; PIECE_BITMAPS.len()];
        for (bits, flag) in bitmaps.iter_mut().zip(PIECE_BITMAPS) {
            if flags & flag != 0 {
                *bits = bitmap::decode(rest)?;
            }
        }
        let [changed, appeared, gone, evicted, written, mixed] = bitmaps;
        let mut accessed = NO_PAGES;
        if flags & PIECE_BITMAPS[0] != 0 {
            let key = (space.number, table, area);
            let before = self.accessed.entry(key).or_default();
            accessed = std::array::from_fn(|word| before[word] ^ changed[word]);
            *before = accessed;
        }
        let mut piece = Piece {
            table,
            area,
            accessed,
            appeared,
            gone,
            evicted,
            written,
            anon: mixed,
        };
        if area_and_kind & 1 != 0 {
            piece.anon = piece.told();
        }
        if space.is_file && piece.anon != NO_PAGES {
            return None;
        }
        let file = space.is_file.then_some(space.number);
        self.info.add_piece(kind, file, &piece);
        Some(piece)
    }

    /// Which pages of a table are handed out: always the same.
    fn handed_out(&self, space: u32, table: u64) -> PageBits {
        let mut state = table ^ u64::from(space) << 40;
        let mut bits = [u64::MAX; 8];
        for _ in 0..self.thinned {
            for word in &mut bits {
                // SplitMix64 of Steele, Lea and Flood.
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                *word &= mixed ^ mixed >> 31;
            }
        }
        bits
    }

    fn append(&mut self, of: Space, at_us: u64, piece: &Piece, accesses: &mut Vec<Access>) {
        let space = of.number;
        let handed_out = self.handed_out(space, piece.table);
        let gone = bits::and(piece.gone, handed_out);
        if gone != NO_PAGES {
            if let Some(freed) = &mut self.freed {
                let freed_page = |bit| Freed {
                    what: FreedPages::Page(PageKey {
                        space,
                        page: self.lives.page(space, piece.table, bit),
                    }),
                    time_us: at_us,
                };
                let room = FREED_KEPT_MAX - freed.len();
                freed.extend(bits::ones(gone).take(room).map(freed_page));
                let nr_gone = bits::count(gone);
                self.info.nr_left_out += nr_gone.saturating_sub(room as u64);
            }
            self.lives.end(space, piece.table, gone);
            self.info.nr_left_out += self.lives.take_nr_left_out();
        }
        let of_file = match !of.is_file && self.info.is_code(piece.area) {
            true => Backing::Code,
            false => Backing::File,
        };
        let touched = bits::and(piece.touched(), handed_out);
        accesses.extend(bits::ones(touched).map(|bit| Access {
            key: PageKey {
                space,
                page: self.lives.page(space, piece.table, bit),
            },
            time_us: at_us,
            size_bytes: 0,
            group: 0,
            backing: match bits::has(&piece.anon, bit) {
                true => Backing::Anon,
                false => of_file,
            },
            op: match bits::has(&piece.written, bit) {
                true => Op::Write,
                false => Op::Read,
            },
            via: match of.is_file {
                true => Via::FileDescriptor,
                false => Via::PageTable,
            },
        }));
    }
}
