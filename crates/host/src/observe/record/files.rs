//! Page cache of files in a recording: what each census found, compared with the one before.
//!
//! ```text
//!   in memory now, and not before                read in: appeared
//!   the kernel's count of its reads grew         accessed
//!   that count is full, and was before           accessed, as far as anybody can tell
//!   it is to be written, and was not before      accessed and written
//!   not in memory any more                       evicted; cut off the file, or of a deleted file: gone
//!   came in between the two censuses, as told    appeared, and evicted before or after that
//! ```
//!
//! Reads of a page whose count is full are not counted, so such a page counts as accessed at each census: what is replayed with too
//! little memory would be read again and again. A count that fell tells nothing: the page does not count as accessed.
//!
//! **Owns** that comparison, and what is remembered for it. **Does not own** taking censuses (`census`), nor the format.
//!
//! **Invariants**
//! - I1: some 350 bytes are remembered of each 2 MiB of a file in which a page is in memory, however long it records.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;

use strata_trace::TraceError;
use strata_trace::recording::{FileName, Piece, RecordingWriter, SpaceEnd};

use strata_linux::addr::TABLE_ENTRIES;
use strata_lru::bits::{self, Bits};

/// Pages of a file that are told of together.
const TABLE_PAGES: u64 = TABLE_ENTRIES as u64;
/// Bits of a count of reads: the kernel counts five at most.
const COUNT_BITS: usize = 3;
/// A count that is full: further reads do not show.
pub(super) const COUNT_FULL: u32 = (1 << COUNT_BITS) - 1;
/// A recording has no place for pages behind this one: 64 PiB.
const PAGES_MAX: u64 = 1 << 44;

/// What is known of one table of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TableState {
    /// In memory, and mapped by nobody.
    held: Bits,
    /// To be written, being written, or locked in memory.
    busy: Bits,
    /// How often the kernel has counted a read: bit `i` of the number of each page.
    reads: [Bits; COUNT_BITS],
}

/// What a census found in one table of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundTable {
    now: TableState,
    /// Came to memory since the census before.
    arrived: Bits,
}

/// The pages of a file, as a census found them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundPages {
    tables: BTreeMap<u64, FoundTable>,
    nr_held: u64,
}

impl FoundPages {
    /// Pages in memory, several where the kernel keeps them together. A count of reads that is full is [`COUNT_FULL`].
    pub(super) fn hold(&mut self, first: u64, nr_pages: u64, nr_reads: u32, is_busy: bool) {
        for (table, bit) in places(first, nr_pages) {
            let found = &mut self.tables.entry(table).or_default().now;
            if !bits::has(&found.held, bit) {
                self.nr_held += 1;
            }
            bits::insert(&mut found.held, bit);
            if is_busy {
                bits::insert(&mut found.busy, bit);
            }
            for (at, plane) in found.reads.iter_mut().enumerate() {
                if nr_reads.min(COUNT_FULL) >> at & 1 == 1 {
                    bits::insert(plane, bit);
                }
            }
        }
    }

    /// Pages that came to memory since the census before.
    pub(super) fn arrive(&mut self, first: u64, nr_pages: u64) {
        for (table, bit) in places(first, nr_pages) {
            bits::insert(&mut self.tables.entry(table).or_default().arrived, bit);
        }
    }

    /// Whether the page is in memory.
    pub(super) fn has(&self, page: u64) -> bool {
        let table = self.tables.get(&(page / TABLE_PAGES));
        table.is_some_and(|found| bits::has(&found.now.held, (page % TABLE_PAGES) as usize))
    }

    /// Whether nothing was found, in memory or on its way through.
    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Pages in memory.
    pub(super) fn nr_held(&self) -> u64 {
        self.nr_held
    }
}

/// The tables of pages, and their places there.
fn places(first: u64, nr_pages: u64) -> impl Iterator<Item = (u64, usize)> {
    let end = first.saturating_add(nr_pages).min(PAGES_MAX);
    (first..end).map(|page| (page / TABLE_PAGES, (page % TABLE_PAGES) as usize))
}

/// What became of pages that are in memory no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Their content is in the file.
    Kept,
    /// The file ends before this page; what was before it is kept.
    CutAt(u64),
    /// The file is deleted.
    Gone,
}

/// What a census tells of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedFile {
    /// Number of the file in the recording.
    pub(super) file: u32,
    /// What the file is called, when it is told of for the first time, or again after a while, or when a better name was
    /// found.
    pub(super) name: Option<FileName>,
    pub(super) pages: FoundPages,
    pub(super) left: Left,
    /// Whether the next census looks at the file, too.
    pub(super) is_followed: bool,
}

impl TableState {
    /// Takes what was found, and says what is new, in two parts: one after the other a page may have come and gone, or gone
    /// and come. `cut` are the pages that are not in the file any more.
    fn change(&mut self, found: &FoundTable, cut: Bits) -> [Piece; 2] {
        let arrived = found.arrived;
        let (before, found) = (std::mem::replace(self, found.now), found.now);
        let stayed = bits::and(before.held, found.held);
        let came_back = bits::and(stayed, arrived);
        let passed = bits::without(
            bits::without(arrived, before.held),
            bits::or(found.held, cut),
        );
        let lost = bits::without(before.held, found.held);
        let appeared = bits::without(found.held, before.held);
        let full = before
            .reads
            .into_iter()
            .chain(found.reads)
            .reduce(bits::and);
        let read = bits::or(grown(before.reads, found.reads), full.unwrap_or(bits::NONE));
        let read = bits::and(read, stayed);
        let dirtied = bits::without(found.busy, before.busy);
        let read_or_written = bits::or(read, bits::and(dirtied, stayed));
        let first = Piece {
            accessed: bits::without(read_or_written, came_back),
            appeared: bits::or(appeared, passed),
            gone: bits::and(lost, cut),
            evicted: bits::or(bits::without(lost, cut), came_back),
            written: dirtied,
            ..Piece::default()
        };
        let second = Piece {
            appeared: came_back,
            evicted: passed,
            written: dirtied,
            ..Piece::default()
        };
        [first, second]
    }
}

/// Where the second of two numbers, given by their bits, is larger.
fn grown(before: [Bits; COUNT_BITS], after: [Bits; COUNT_BITS]) -> Bits {
    let all = bits::run(0, TABLE_ENTRIES);
    let highest_first = before.into_iter().zip(after).rev();
    let (larger, _) = highest_first.fold((bits::NONE, all), |(larger, same), (before, after)| {
        let decides = bits::and(same, bits::without(after, before));
        let differs = bits::or(bits::without(after, before), bits::without(before, after));
        (bits::or(larger, decides), bits::without(same, differs))
    });
    larger
}

/// What is known of the files that are looked at.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<u32, FileState>,
}

#[derive(Debug)]
struct FileState {
    name: FileName,
    tables: BTreeMap<u64, TableState>,
}

impl Files {
    /// Tells what is new of a file, in the walk that the writer is in.
    ///
    /// # Errors
    /// The file can't be written.
    pub(super) fn tell<W: Write>(
        &mut self,
        writer: &mut RecordingWriter<W>,
        listed: ListedFile,
    ) -> Result<(), TraceError> {
        if let Some(name) = listed.name {
            writer.name_file(&name)?;
            match self.files.entry(listed.file) {
                Entry::Occupied(mut known) => known.get_mut().name = name,
                Entry::Vacant(new) => {
                    new.insert(FileState {
                        name,
                        tables: BTreeMap::new(),
                    });
                }
            }
        }
        let Some(state) = self.files.get_mut(&listed.file) else {
            return Ok(());
        };
        if listed.left == Left::Gone {
            self.files.remove(&listed.file);
            writer.begin_file(listed.file)?;
            return writer.end_space(SpaceEnd::Ended);
        }
        let pieces = state.change(&listed.pages, listed.left);
        if !listed.is_followed {
            self.files.remove(&listed.file);
        }
        if pieces.is_empty() {
            return Ok(());
        }
        writer.begin_file(listed.file)?;
        for piece in &pieces {
            writer.piece(piece)?;
        }
        writer.end_space(SpaceEnd::Whole)
    }

    /// Tells all names and what is in memory, in the baseline that the writer is in.
    ///
    /// # Errors
    /// The file can't be written.
    pub(super) fn tell_all<W: Write>(
        &self,
        writer: &mut RecordingWriter<W>,
    ) -> Result<(), TraceError> {
        for (file, state) in &self.files {
            writer.name_file(&state.name)?;
            writer.begin_file(*file)?;
            for (table, state) in &state.tables {
                writer.piece(&Piece {
                    table: *table,
                    appeared: state.held,
                    written: state.busy,
                    ..Piece::default()
                })?;
            }
            writer.end_space(SpaceEnd::Whole)?;
        }
        Ok(())
    }
}

impl FileState {
    /// Takes what was found, and says what is new: by table, then what happened after that.
    fn change(&mut self, found: &FoundPages, left: Left) -> Vec<Piece> {
        let untold = self
            .tables
            .keys()
            .filter(|table| !found.tables.contains_key(table));
        let nothing = FoundTable::default();
        let untold: Vec<(u64, &FoundTable)> = untold.map(|table| (*table, &nothing)).collect();
        let told = found.tables.iter().map(|(table, found)| (*table, found));
        let mut all: Vec<(u64, &FoundTable)> = told.chain(untold).collect();
        all.sort_unstable_by_key(|(table, _)| *table);
        let (mut pieces, mut later) = (Vec::new(), Vec::new());
        for (table, found) in all {
            let cut = match left {
                Left::Kept => bits::NONE,
                Left::CutAt(page) => {
                    let first = page.saturating_sub(table * TABLE_PAGES).min(TABLE_PAGES);
                    bits::run(first as usize, TABLE_ENTRIES)
                }
                Left::Gone => bits::run(0, TABLE_ENTRIES),
            };
            let state = self.tables.entry(table).or_default();
            let [first, second] = state
                .change(found, cut)
                .map(|piece| Piece { table, ..piece });
            if bits::is_empty(state.held) {
                self.tables.remove(&table);
            }
            for (piece, into) in [(first, &mut pieces), (second, &mut later)] {
                if !bits::is_empty(piece.told()) {
                    into.push(piece);
                }
            }
        }
        pieces.append(&mut later);
        pieces
    }
}

#[cfg(test)]
mod tests;
