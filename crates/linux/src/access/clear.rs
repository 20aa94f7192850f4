//! Clearing accessed bits after a walk, without holding up the program.
//!
//! ```text
//!   clear_refs     takes the lock of the address space for writing while it goes through all of it (about
//!                  50 ns a resident page), and leaves the kernel's own lists alone
//!   MADV_COLD      takes the lock for reading, for one range a call, and moves the pages on the kernel's
//!                  lists: to the inactive list (classic LRU), to the second youngest generation (MGLRU; pages
//!                  of files to an old one)
//! ```
//!
//! So an address space that `clear_refs` is through with in less than [`hold_up::CALL_GOAL`] is cleared by it. Of a
//! larger one, who only looks clears by it the mappings of files, those without a file, or both, one after the other,
//! where these are so small by themselves. The rest is cleared piece by piece: one range within one last-level table a
//! call, with a pause after each.
//! Under the classic LRU the pages of a piece that were on an active list are touched afterwards, which brings
//! them back there.
//!
//! What stays uncleared, and so is found accessed at every walk, of what is cleared piece by piece: pages that several
//! processes map; locked ones; pages that still wait in a processor's batch for their list; under MGLRU pages of files,
//! unless those are few enough for `clear_refs`; everything, where the first thread of the process has ended, because
//! the kernel then finds no memory to give advice on.
//!
//! **Owns** the choice between the ways, and carrying it out. **Does not own** what is young, nor the pace of walks.
//!
//! **Invariants**
//! - I1: no call is expected to take longer than [`hold_up::CALL_GOAL`].
//! - I2: a piece that the kernel refuses spoils no other.
//! - I3: nothing of a process is written to `clear_refs` while one of its threads stalls the address space.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use strata_lru::Kind;

use super::ways::{Way, Ways};
use super::{AccessError, ClearIntent, Grain, TableRecord, TableShape};
use crate::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, TableNo};
use crate::hold_up::{self, Call, timed};
use crate::process::{Mapping, Process, is_multi_gen_on, thread_cpu_ns};
use crate::sys::madvise::{self, Advice};
use crate::sys::touch;
use strata_lru::bits::{self, Bits};

/// `MADV_COLD` of one more piece, whatever its length (`cargo run --release -p strata-host --example walk_cost`).
const COLD_PIECE_NS: u64 = 500;
/// `MADV_COLD` of one more page in a piece.
const COLD_PAGE_NS: u64 = 110;

/// What a walk found young in one mapping within one last-level table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YoungPiece {
    /// From the first young page to the last one, within one table.
    pub range: AddrRange,
    /// What the mapping holds.
    pub kind: Kind,
    /// Pages of the table that were on one of the kernel's active lists, and are to be there afterwards. None of a huge
    /// page: a touch of one sets its accessed bit and moves it to no list.
    pub restore: Bits,
}

impl YoungPiece {
    /// What a walk found young of a mapping in one table; `None` if that is nothing. `young` are entries of the record
    /// within the mapping; `is_restored` says whether the record tells which pages are inactive, so that the others are
    /// to be active again.
    pub fn found(
        record: &TableRecord,
        mapping: &Mapping,
        young: Bits,
        is_restored: bool,
    ) -> Option<YoungPiece> {
        let mut indices = bits::ones(young);
        let first = indices.next()?;
        let last = indices.last().unwrap_or(first);
        let (table, is_huge) = (record.table, record.shape == TableShape::Huge);
        let range = match is_huge {
            true => AddrRange::new(table.start(), table.start() + TABLE_BYTES),
            false => AddrRange::new(table.entry_addr(first), table.entry_addr(last + 1)),
        };
        // Whoever touches a page that its program supplies, and that has just gone, waits for the program.
        let restore = match is_restored && !is_huge && !mapping.is_supplied {
            true => bits::without(record.present, record.inactive),
            false => bits::NONE,
        };
        Some(YoungPiece {
            range,
            kind: mapping.class.kind_of_page(false),
            restore,
        })
    }

    /// Pieces of anonymous memory that cover the ranges, nothing of which is restored.
    pub fn of_ranges(ranges: &[AddrRange]) -> Vec<YoungPiece> {
        let tables = |range: &AddrRange| {
            let range = *range;
            (range.start / TABLE_BYTES..range.end.div_ceil(TABLE_BYTES)).map(move |table| {
                let start = range.start.max(table * TABLE_BYTES);
                AddrRange::new(start, range.end.min((table + 1) * TABLE_BYTES))
            })
        };
        let piece = |range| YoungPiece {
            range,
            kind: Kind::Anon,
            restore: bits::NONE,
        };
        ranges.iter().flat_map(tables).map(piece).collect()
    }

    fn restored(&self) -> Bits {
        bits::and(self.restore, self.table().covered_by(self.range))
    }

    fn table(&self) -> TableNo {
        TableNo::containing(self.range.start)
    }
}

/// Entries of page tables that `clear_refs` meets, those of mappings without a file first and those of mappings of files
/// and shared memory after them; a huge page is one, and so are 16 that hold no page in memory.
pub type NrEntries = [u64; 2];

/// Entries of pages in swap, zero pages and the like that are passed over in the time of one page in memory.
const NR_QUICK_ENTRIES: u64 = 16;

/// What the entries of a table, within a mask, count in [`NrEntries`].
pub fn entries_in(record: &TableRecord, mask: Bits) -> u64 {
    let held = bits::or(record.present, record.protnone);
    let present = bits::count(bits::and(held, mask));
    let quick = bits::without(bits::or(record.swapped, record.special), record.present);
    match record.shape {
        TableShape::Pages => {
            present + bits::count(bits::and(quick, mask)).div_ceil(NR_QUICK_ENTRIES)
        }
        TableShape::Huge => 1,
    }
}

strata_lru::counts! {
    /// What clearing took and left.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Cleared {
        /// Wall time, pauses included, nanoseconds.
        pub wall_ns: u64,
        /// CPU time of the calls that cleared, which take the lock of the address space, nanoseconds. Wall time would make
        /// walks rarer on a busy machine, where a call may have to wait for a processor.
        pub held_ns: u64,
        /// CPU time of the calls that touched pages so that they are active again, nanoseconds. They take the lock for
        /// reading, once for each page or run.
        pub restoring_ns: u64,
        /// Pieces that keep their accessed bits.
        pub nr_left_pieces: u64,
    }
}

impl Cleared {
    /// CPU time of all calls that took the lock, nanoseconds.
    pub fn all_held_ns(&self) -> u64 {
        self.held_ns + self.restoring_ns
    }

    /// Makes a call that clears.
    fn count<T>(&mut self, call: impl FnOnce() -> T) -> T {
        counted(&mut self.held_ns, call)
    }
}

/// Makes a call and adds its CPU time.
fn counted<T>(sum_ns: &mut u64, call: impl FnOnce() -> T) -> T {
    let before = thread_cpu_ns();
    let result = call();
    *sum_ns += thread_cpu_ns().saturating_sub(before);
    result
}

/// Chooses between the ways and knows what they cost here.
#[derive(Debug)]
pub struct Clearer {
    grain: Grain,
    is_multi_gen: bool,
    refs_entry_ns: f64,
}

impl Clearer {
    /// For walks by a source that sees so finely.
    pub fn new(grain: Grain) -> Clearer {
        Clearer {
            grain,
            is_multi_gen: is_multi_gen_on(),
            refs_entry_ns: hold_up::entry_ns(),
        }
    }

    /// Whether a space with so many entries is cleared piece by piece under the classic LRU, so that the walk has to
    /// tell which pages are on the kernel's inactive lists.
    pub fn has_to_restore(&self, nr_entries: NrEntries) -> bool {
        !self.is_multi_gen && self.way(nr_entries) == Way::Pieces
    }

    /// How a space with so many entries is cleared by who only looks.
    pub fn ways(&self, process: &Process, nr_entries: NrEntries) -> Ways {
        Ways {
            is_at_once: self.way(nr_entries) == Way::Refs,
            fit: nr_entries.map(|nr_entries| self.fits(nr_entries)),
            has_leader: has_leader(process),
            is_multi_gen: self.is_multi_gen,
        }
    }

    /// Of a space that is not cleared at once: clears the mappings without or with a file (`part`, an index as
    /// `entries_of` has it), in which so many pieces are young, if that can be done at once.
    ///
    /// # Errors
    /// As [`Clearer::clear_all`].
    pub fn clear_part(
        &mut self,
        process: &Process,
        part: usize,
        nr_pieces: u64,
        nr_entries: NrEntries,
        cleared: &mut Cleared,
    ) -> Result<(), AccessError> {
        if nr_pieces > 0 && self.fits(nr_entries[part]) {
            // After other calls on the same space.
            hold_up::pause();
            let what = if part == Kind::File.index() { "3" } else { "2" };
            return self.clear_refs(process, what, nr_entries[part], cleared);
        }
        cleared.nr_left_pieces += nr_pieces;
        Ok(())
    }

    /// Whether all of a space with so many entries is cleared at once.
    pub fn is_at_once(&self, nr_entries: NrEntries) -> bool {
        self.way(nr_entries) == Way::Refs
    }

    /// Whether [`clear_pieces`] clears this piece.
    fn is_for_pieces(&self, piece: &YoungPiece) -> bool {
        !self.is_multi_gen || piece.kind == Kind::Anon
    }

    /// Clears everything, however long it takes.
    ///
    /// # Errors
    /// [`AccessError`]; [`AccessError::TooLarge`] where only `clear_refs` will do and would take too long.
    pub fn clear_all(
        &mut self,
        process: &Process,
        young: &[YoungPiece],
        nr_entries: NrEntries,
        intent: ClearIntent,
    ) -> Result<Cleared, AccessError> {
        let mut cleared = Cleared::default();
        if young.is_empty() {
            return Ok(cleared);
        }
        let has_leader = has_leader(process);
        let is_cold_better =
            intent == ClearIntent::Pageout && has_leader && self.is_cold_cheaper(young, nr_entries);
        if self.way(nr_entries) == Way::Refs && !is_cold_better {
            self.clear_refs(process, "1", nr_entries.iter().sum(), &mut cleared)?;
            return Ok(cleared);
        }
        if self.grain == Grain::Mapping {
            return Err(AccessError::TooLarge {
                pid: process.pid(),
                nr_pages: nr_entries.iter().sum(),
            });
        }
        let pieces = young.iter().filter(|piece| self.is_for_pieces(piece));
        let pieces: Vec<&YoungPiece> = pieces.collect();
        let nr_file_pieces = (young.len() - pieces.len()) as u64;
        let files = Kind::File.index();
        self.clear_part(process, files, nr_file_pieces, nr_entries, &mut cleared)?;
        match has_leader {
            true => clear_pieces(process, pieces.into_iter(), || false, &mut cleared)?,
            false => cleared.nr_left_pieces += pieces.len() as u64,
        }
        Ok(cleared)
    }

    fn way(&self, nr_entries: NrEntries) -> Way {
        match self.fits(nr_entries.iter().sum()) {
            true => Way::Refs,
            false => Way::Pieces,
        }
    }

    fn fits(&self, nr_entries: u64) -> bool {
        nr_entries <= hold_up::entries_max(self.refs_entry_ns)
    }

    fn is_cold_cheaper(&self, young: &[YoungPiece], nr_entries: NrEntries) -> bool {
        let nr_young_pages: u64 = young.iter().map(|piece| piece.range.nr_pages()).sum();
        let cold_ns = young.len() as u64 * COLD_PIECE_NS + nr_young_pages * COLD_PAGE_NS;
        let nr_entries: u64 = nr_entries.iter().sum();
        self.grain == Grain::Page && (cold_ns as f64) < nr_entries as f64 * self.refs_entry_ns
    }

    /// `clear_refs` over the whole space, over its mappings without a file (`2`), or over those of files (`3`). The kernel takes the write and clears
    /// nothing where the thread has no space any more (a leader that has exited), so it goes through one that has.
    fn clear_refs(
        &mut self,
        process: &Process,
        what: &str,
        nr_entries: u64,
        cleared: &mut Cleared,
    ) -> Result<(), AccessError> {
        let path = process
            .space_dir()
            .map(|dir| dir.join("clear_refs"))
            .map_err(|error| to_error(process, "writing clear_refs", error))?;
        // Behind a thread that waits in a fault the kernel would wait with the lock of the whole space held for writing.
        process
            .ensure_settled()
            .map_err(|stalled| AccessError::Stalled(stalled.to_string()))?;
        let held_before_ns = cleared.held_ns;
        let (written, took) = cleared.count(|| timed(Call::ClearRefs, || fs::write(path, what)));
        written.map_err(|error| to_error(process, "writing clear_refs", error))?;
        cleared.wall_ns += nanos(took);
        // A space that took too long is not taken at once again. What it waited for (the lock, a processor) is not held.
        let held_ns = cleared.held_ns - held_before_ns;
        cleared.held_ns = held_before_ns + hold_up::believed_ns(held_ns, nr_entries);
        if u128::from(held_ns) > hold_up::CALL_MAX.as_nanos() {
            let entry_ns = held_ns as f64 / nr_entries.max(1) as f64;
            self.refs_entry_ns = entry_ns.clamp(self.refs_entry_ns, self.refs_entry_ns * 1.5);
        }
        Ok(())
    }
}

/// Clears piece by piece, one call for each and a pause after it, until `is_over`. Counts in `cleared`, whatever happens.
///
/// # Errors
/// [`AccessError`]: the process is gone, or may not be advised on.
pub fn clear_pieces<'a>(
    process: &Process,
    pieces: impl Iterator<Item = &'a YoungPiece>,
    is_over: impl Fn() -> bool,
    cleared: &mut Cleared,
) -> Result<(), AccessError> {
    let started = Instant::now();
    let mut result = Ok(());
    let mut has_leader = true;
    for piece in pieces {
        // Addresses mean something else after exec.
        if is_over() || !process.is_space_current() {
            break;
        }
        if !has_leader {
            cleared.nr_left_pieces += 1;
            continue;
        }
        match clear_piece(process, piece, cleared) {
            Ok(()) => {}
            Err(error) if is_about_the_range(&error) => cleared.nr_left_pieces += 1,
            // The leader has exited: there is no memory to be found through it.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) && process.is_alive() => {
                cleared.nr_left_pieces += 1;
                has_leader = false;
            }
            Err(error) => {
                result = Err(to_error(process, "MADV_COLD", error));
                break;
            }
        }
        hold_up::pause();
    }
    cleared.wall_ns += nanos(started.elapsed());
    result
}

fn clear_piece(process: &Process, piece: &YoungPiece, cleared: &mut Cleared) -> io::Result<()> {
    cleared.count(|| madvise::advise(process.pidfd(), &[piece.range], Advice::Cold))?;
    if bits::is_empty(piece.restored()) {
        return Ok(());
    }
    // What the kernel has not moved yet is active still, and a touch would change nothing.
    madvise::drain_own_processor();
    hold_up::pause();
    let mut single = Vec::new();
    for run in still_there(process, piece)? {
        if run.nr_pages() == 1 {
            single.push(run.start);
            continue;
        }
        // What may not be read stays where it is.
        let touch = || touch::touch_run(process.pid(), run);
        let _restored = counted(&mut cleared.restoring_ns, touch);
        hold_up::pause();
    }
    if !single.is_empty() {
        let touch = || touch::touch(process.pid(), &single, touch::NR_ACTIVATING);
        let _restored = counted(&mut cleared.restoring_ns, touch);
    }
    Ok(())
}

/// The pages to be restored that are in memory, as ranges: a touch of what has gone since the walk would read it back.
fn still_there(process: &Process, piece: &YoungPiece) -> io::Result<Vec<AddrRange>> {
    let mut entries = Vec::new();
    process.read_pagemap(piece.range, &mut entries)?;
    let first = ((piece.range.start - piece.table().start()) / PAGE_BYTES) as usize;
    let mut present = bits::NONE;
    for (offset, entry) in entries.iter().enumerate() {
        if entry.is_present() {
            bits::insert(&mut present, first + offset);
        }
    }
    Ok(runs(piece.table(), bits::and(piece.restored(), present)))
}

/// Whether the kernel finds memory to give advice on through the first thread of the process.
fn has_leader(process: &Process) -> bool {
    let own_dir = format!("/proc/{}", process.pid());
    process
        .space_dir()
        .is_ok_and(|dir| dir == Path::new(&own_dir))
}

/// The pages of a table as ranges, by address.
fn runs(table: TableNo, pages: Bits) -> Vec<AddrRange> {
    let mut runs = Vec::new();
    for index in bits::ones(pages) {
        let start = table.entry_addr(index);
        AddrRange::new(start, start + PAGE_BYTES).append_to(&mut runs);
    }
    runs
}

fn is_about_the_range(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOMEM | libc::EINVAL | libc::EFAULT)
    )
}

fn to_error(process: &Process, what: &'static str, source: io::Error) -> AccessError {
    match source.raw_os_error() {
        Some(libc::ESRCH | libc::ENOENT) => AccessError::ProcessGone(process.pid()),
        _ => AccessError::Io {
            what,
            pid: process.pid(),
            source,
        },
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clearer(is_multi_gen: bool) -> Clearer {
        Clearer {
            grain: Grain::Page,
            is_multi_gen,
            refs_entry_ns: 50.0,
        }
    }

    #[test]
    fn a_space_that_would_be_held_up_for_long_is_cleared_piece_by_piece() {
        let clearer = clearer(false);
        assert_eq!(clearer.way([30_000, 0]), Way::Refs);
        assert_eq!(clearer.way([30_000, 1]), Way::Pieces);
        assert_eq!(clearer.way([0, 1 << 24]), Way::Pieces);
    }

    #[test]
    fn only_under_the_classic_lru_is_there_something_to_be_restored() {
        assert!(clearer(false).has_to_restore([1 << 20, 0]));
        assert!(!clearer(false).has_to_restore([1 << 10, 0]));
        assert!(!clearer(true).has_to_restore([1 << 20, 0]));
    }

    #[test]
    fn pages_of_files_are_never_advised_on_under_mglru() {
        let piece = |kind| YoungPiece {
            range: AddrRange::new(0, PAGE_BYTES),
            kind,
            restore: bits::NONE,
        };
        for kind in Kind::ALL {
            assert!(clearer(false).is_for_pieces(&piece(kind)));
            assert_eq!(
                clearer(true).is_for_pieces(&piece(kind)),
                kind == Kind::Anon
            );
        }
    }

    #[test]
    fn few_young_pages_are_cleared_one_by_one_where_pageout_chooses() {
        let clearer = clearer(false);
        let piece = |nr_pages| YoungPiece {
            range: AddrRange::new(0, nr_pages * PAGE_BYTES),
            kind: Kind::Anon,
            restore: bits::NONE,
        };
        assert!(clearer.is_cold_cheaper(&[piece(100)], [20_000, 0]));
        assert!(!clearer.is_cold_cheaper(&[piece(1); 5000], [20_000, 0]));
    }

    #[test]
    fn what_is_in_swap_counts_little_and_a_huge_page_once() {
        let mut record = TableRecord::empty(TableNo(0), TableShape::Pages);
        record.present = bits::run(0, 100);
        record.swapped = bits::run(100, 132);
        assert_eq!(entries_in(&record, bits::run(0, 512)), 102);
        assert_eq!(entries_in(&record, bits::run(50, 101)), 51);
        record.shape = TableShape::Huge;
        assert_eq!(entries_in(&record, bits::run(0, 512)), 1);
    }

    #[test]
    fn a_range_becomes_one_piece_a_table() {
        let range = AddrRange::new(TABLE_BYTES - PAGE_BYTES, 3 * TABLE_BYTES + PAGE_BYTES);
        let pieces = YoungPiece::of_ranges(&[range]);
        let tables: Vec<u64> = pieces.iter().map(|piece| piece.table().0).collect();
        assert_eq!(tables, [0, 1, 2, 3]);
        let nr_pages: u64 = pieces.iter().map(|piece| piece.range.nr_pages()).sum();
        assert_eq!(nr_pages, range.nr_pages());
        assert!(
            pieces
                .iter()
                .all(|piece| piece.range.len_bytes() <= TABLE_BYTES)
        );
    }

    #[test]
    fn only_what_lies_in_the_piece_is_restored_in_runs() {
        let mut restore = bits::run(0, 4);
        bits::insert(&mut restore, 100);
        bits::insert(&mut restore, 511);
        let piece = YoungPiece {
            range: AddrRange::new(2 * PAGE_BYTES, 200 * PAGE_BYTES),
            kind: Kind::Anon,
            restore,
        };
        let pages = |first, end| AddrRange::new(first * PAGE_BYTES, end * PAGE_BYTES);
        assert_eq!(
            runs(piece.table(), piece.restored()),
            [pages(2, 4), pages(100, 101)]
        );
    }
}
