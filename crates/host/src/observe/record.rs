//! Recording what walks and censuses of page cache find: a [`Visitor`] that writes (`strata_trace::recording`).
//!
//! A walk of the same pages tells the same bits again and again; what a recording needs is what
//! changed. So the recorder keeps, for every table of every space, which pages were there and which
//! of them were dirty, and tells what appeared, what went and whether its content was kept.
//!
//! **Owns** that difference. **Does not own** page cache (`cache`, `census`, `files`), nor the file: its place, its size and
//! when it is changed for another are the caller's.
//!
//! **Invariants**
//! - I1: memory follows what is mapped (some 300 bytes a table of 2 MiB), never how long it records.
//! - I2: nothing is concluded from a walk that broke off.
//! - I3: a file that can't be written ends the recording, and nothing else.

mod cache;
mod census;
mod files;

pub use cache::{CacheGroup, NoCache};

use super::{Observer, Piece as WalkPiece, Visitor, Walked};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_linux::addr::{AddrRange, TableNo};
use strata_linux::process::{Mapping, MappingClass, Process};
use strata_lru::SpaceNo;
use strata_lru::bits::{self, Bits};
use strata_trace::TraceError;
use strata_trace::recording::{
    About, AreaName, NO_PAGES, Piece, RecordingWriter, SpaceEnd, SpaceName, WalkKind,
};

/// Names of mappings of one space that are told apart; further ones go by their class alone.
const NR_AREAS_MAX: usize = 4096;

/// What is known of one mapping's part of a table.
#[derive(Clone, Copy, Debug, Default)]
struct TableState {
    /// In memory at the last walk.
    held: Bits,
    /// In memory at the last walk, and dirty.
    dirty: Bits,
    /// Not in memory, but kept in swap or in a file.
    evicted: Bits,
    /// Anonymous, of what is in memory or evicted.
    anon: Bits,
    /// The walk that last told of this part.
    walk: u64,
}

/// What this walk found of one mapping's part of a table.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    held: Bits,
    accessed: Bits,
    dirty: Bits,
    swapped: Bits,
    anon: Bits,
    /// Pages whose kind can't be told now.
    unsure: Bits,
}

/// A part of the space that is in one area.
#[derive(Clone, Copy, Debug)]
struct Part {
    range: AddrRange,
    area: u32,
    class: MappingClass,
}

#[derive(Debug)]
struct Space {
    name: SpaceName,
    areas: BTreeMap<(&'static str, Arc<str>), AreaName>,
    tables: BTreeMap<(u64, u32), TableState>,
    /// CPU time up to which was told.
    cpu_ns: u64,
    /// Of the walk going on: the mappings by address, with the area of each.
    parts: Vec<Part>,
    part_of_mapping: Vec<usize>,
}

/// Writes what an observer finds.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    recording: String,
    about: About,
    writer: RecordingWriter<W>,
    spaces: BTreeMap<SpaceNo, Space>,
    nr_areas: u32,
    nr_walks: u64,
    last_at_us: u64,
    /// The table being walked.
    table: u64,
    found: BTreeMap<u32, Found>,
    failure: Option<TraceError>,
    /// Where the times of walks begin; `None` before the first one.
    began: Option<Instant>,
    /// Who takes censuses of page cache, where that is told.
    censuses: Option<census::Censuses>,
    files: files::Files,
    nr_censuses: u64,
    cache_trouble: Option<String>,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording; `recording` is what errors call it.
    ///
    /// # Errors
    /// `out` can't be written.
    pub fn new(recording: &str, out: W, about: About) -> Result<Recorder<W>, TraceError> {
        Ok(Recorder {
            recording: recording.to_owned(),
            writer: RecordingWriter::new(recording, out, &about)?,
            about,
            spaces: BTreeMap::new(),
            nr_areas: 0,
            nr_walks: 0,
            last_at_us: 0,
            table: 0,
            found: BTreeMap::new(),
            failure: None,
            began: None,
            censuses: None,
            files: files::Files::default(),
            nr_censuses: 0,
            cache_trouble: None,
        })
    }

    /// Walks once and writes what was found; the first walk tells what is in memory.
    ///
    /// # Errors
    /// The file can't be written; no further walk can either.
    pub fn walk(&mut self, observer: &mut Observer) -> Result<Walked, TraceError> {
        let at = observer.elapsed();
        self.last_at_us = micros(at);
        self.began = Instant::now().checked_sub(at);
        let kind = match self.nr_walks {
            0 => WalkKind::Baseline,
            _ => WalkKind::Interval,
        };
        self.writer.begin_walk(kind, self.last_at_us)?;
        self.nr_walks += 1;
        let walked = observer.walk(self);
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.tell_cache().map(|()| walked),
        }
    }

    /// Walks so far.
    pub fn nr_walks(&self) -> u64 {
        self.nr_walks
    }

    /// Accesses written to the current file.
    pub fn nr_accesses(&self) -> u64 {
        self.writer.nr_accesses()
    }

    /// Bytes written to the current file.
    pub fn written_bytes(&self) -> u64 {
        self.writer.written_bytes()
    }

    /// Writes out what waits, so that a crash loses nothing before it.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.writer.flush()
    }

    /// Ends the file and goes on in `out`, which begins with all names and with what is in memory:
    /// each file is a whole recording. The finished one is given back.
    ///
    /// # Errors
    /// Either can't be written.
    pub fn rotate(&mut self, out: W) -> Result<W, TraceError> {
        let mut writer = RecordingWriter::new(&self.recording, out, &self.about)?;
        writer.begin_walk(WalkKind::Baseline, self.last_at_us)?;
        for (id, space) in &self.spaces {
            writer.name_space(&space.name)?;
            for area in space.areas.values() {
                writer.name_area(area)?;
            }
            writer.begin_space(id.0, 0)?;
            for ((table, area), state) in &space.tables {
                writer.piece(&Piece {
                    table: *table,
                    area: *area,
                    appeared: state.held,
                    written: state.dirty,
                    anon: state.anon,
                    ..Piece::default()
                })?;
            }
            writer.end_space(SpaceEnd::Whole)?;
        }
        self.files.tell_all(&mut writer)?;
        std::mem::replace(&mut self.writer, writer).finish()
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn finish(self) -> Result<W, TraceError> {
        self.writer.finish()
    }

    /// Does one thing with the writer, unless it failed before.
    fn write(&mut self, what: impl FnOnce(&mut RecordingWriter<W>) -> Result<(), TraceError>) {
        if self.failure.is_none()
            && let Err(error) = what(&mut self.writer)
        {
            self.failure = Some(error);
        }
    }

    /// Tells what was found of the current table.
    fn end_table(&mut self, id: SpaceNo) {
        let found = std::mem::take(&mut self.found);
        for (area, found) in found {
            self.tell(id, self.table, area, &found);
        }
    }

    fn tell(&mut self, id: SpaceNo, table: u64, area: u32, found: &Found) {
        let Some(space) = self.spaces.get_mut(&id) else {
            return;
        };
        let (seen, is_shmem) = space.cover(table, area);
        let state = space.tables.entry((table, area)).or_default();
        let mut piece = state.change(found, seen, is_shmem);
        if self.nr_walks == 1 {
            // Bits that were set at any time before say nothing of an interval.
            piece.accessed = NO_PAGES;
        }
        state.walk = self.nr_walks;
        let is_empty = bits::is_empty(state.held) && bits::is_empty(state.evicted);
        if is_empty {
            space.tables.remove(&(table, area));
        }
        self.write(|writer| {
            writer.piece(&Piece {
                table,
                area,
                ..piece
            })
        });
    }

    /// Tables that had pages and of which the walk told nothing have none in memory any more.
    fn tell_untold(&mut self, id: SpaceNo) {
        let Some(space) = self.spaces.get(&id) else {
            return;
        };
        let untold: Vec<(u64, u32)> = space
            .tables
            .iter()
            .filter(|(_, state)| state.walk != self.nr_walks)
            .map(|(key, _)| *key)
            .collect();
        for (table, area) in untold {
            self.tell(id, table, area, &Found::default());
        }
    }
}

impl Space {
    /// The pages of the table that are mapped in the area, and whether it is shared memory.
    fn cover(&self, table: u64, area: u32) -> (Bits, bool) {
        let table = TableNo(table);
        let end = TableNo(table.0 + 1).start();
        let first = self
            .parts
            .partition_point(|part| part.range.end <= table.start());
        let touching = self.parts[first..]
            .iter()
            .take_while(|part| part.range.start < end)
            .filter(|part| part.area == area);
        touching.fold((bits::NONE, false), |(seen, _), part| {
            let is_shmem = part.class == MappingClass::Shmem;
            (bits::or(seen, table.covered_by(part.range)), is_shmem)
        })
    }
}

impl TableState {
    /// Takes what was found, and says what is new. `seen` are the pages that are still mapped.
    fn change(&mut self, found: &Found, seen: Bits, is_shmem: bool) -> Piece {
        let before = *self;
        let known_anon = bits::and(before.anon, found.unsure);
        let anon = bits::or(bits::without(found.anon, found.unsure), known_anon);
        // The content of a page stays if it is in swap or belongs to a file that is still mapped.
        let of_files = match is_shmem {
            true => seen,
            false => bits::without(seen, before.anon),
        };
        let is_kept = bits::or(bits::and(found.swapped, seen), of_files);
        let lost = bits::without(before.held, found.held);
        let missing = bits::without(bits::or(before.held, before.evicted), found.held);
        let evicted = bits::and(lost, is_kept);
        let gone = bits::without(missing, is_kept);
        let appeared = bits::without(found.held, before.held);
        self.held = found.held;
        self.dirty = found.dirty;
        self.evicted = bits::and(missing, is_kept);
        self.anon = bits::or(
            bits::and(anon, self.held),
            bits::and(before.anon, self.evicted),
        );
        let left = bits::or(gone, evicted);
        Piece {
            table: 0,
            area: 0,
            accessed: found.accessed,
            appeared,
            gone,
            evicted,
            written: bits::without(found.dirty, before.dirty),
            anon: bits::or(bits::and(anon, found.held), bits::and(before.anon, left)),
        }
    }
}

impl<W: Write> Visitor for Recorder<W> {
    fn appeared(&mut self, id: SpaceNo, process: &Arc<Process>) {
        let name = SpaceName {
            space: id.0,
            pid: u32::try_from(process.pid()).unwrap_or_default(),
            name: process.comm().to_owned(),
        };
        self.write(|writer| writer.name_space(&name));
        let space = Space {
            name,
            areas: BTreeMap::new(),
            tables: BTreeMap::new(),
            cpu_ns: process.cpu_ns().unwrap_or_default(),
            parts: Vec::new(),
            part_of_mapping: Vec::new(),
        };
        self.spaces.insert(id, space);
    }

    fn ended(&mut self, id: SpaceNo) {
        if self.spaces.remove(&id).is_some() {
            self.write(|writer| {
                writer.begin_space(id.0, 0)?;
                writer.end_space(SpaceEnd::Ended)
            });
        }
    }

    fn begin(&mut self, id: SpaceNo, process: &Process, mappings: &Arc<Vec<Mapping>>) {
        let Some(space) = self.spaces.get_mut(&id) else {
            return;
        };
        let mut new = Vec::new();
        space.parts.clear();
        space.part_of_mapping.clear();
        for mapping in mappings.iter() {
            space.part_of_mapping.push(space.parts.len());
            if mapping.is_worth_reading() {
                let area = area_of(space, mapping, &mut self.nr_areas, &mut new);
                space.parts.push(Part {
                    range: mapping.range,
                    area,
                    class: mapping.class,
                });
            }
        }
        let cpu_ns = process.cpu_ns().unwrap_or(space.cpu_ns);
        let used_us = cpu_ns.saturating_sub(space.cpu_ns) / 1000;
        space.cpu_ns = cpu_ns;
        self.found.clear();
        self.write(|writer| {
            for area in &new {
                writer.name_area(area)?;
            }
            writer.begin_space(id.0, used_us)
        });
    }

    fn piece(&mut self, piece: &WalkPiece<'_>) {
        let record = piece.record;
        if record.table.0 != self.table {
            self.end_table(piece.space);
            self.table = record.table.0;
        }
        let Some(space) = self.spaces.get(&piece.space) else {
            return;
        };
        let part = space.part_of_mapping.get(piece.mapping_index);
        let Some(part) = part.and_then(|index| space.parts.get(*index)) else {
            return;
        };
        // What is under migration or made inaccessible for a moment is still there.
        let unsure = bits::and(bits::or(record.protnone, record.migrating), piece.mask);
        let found = self.found.entry(part.area).or_default();
        for (sum, more) in [
            (&mut found.held, bits::or(piece.resident(), unsure)),
            (&mut found.accessed, piece.accessed()),
            (&mut found.dirty, piece.dirty()),
            (&mut found.swapped, bits::and(record.swapped, piece.mask)),
            (&mut found.anon, piece.anon()),
            (&mut found.unsure, unsure),
        ] {
            *sum = bits::or(*sum, more);
        }
    }

    fn end(&mut self, id: SpaceNo, is_whole: bool) {
        if !is_whole {
            self.found.clear();
            self.write(|writer| writer.end_space(SpaceEnd::Broken));
            return;
        }
        self.end_table(id);
        self.table = 0;
        self.tell_untold(id);
        self.write(|writer| writer.end_space(SpaceEnd::Whole));
    }
}

/// The number of the mapping's area; a new one is added to `new`.
fn area_of(
    space: &mut Space,
    mapping: &Mapping,
    nr_areas: &mut u32,
    new: &mut Vec<AreaName>,
) -> u32 {
    let class = match mapping.is_exec_file {
        true => AreaName::CODE,
        false => mapping.class.name(),
    };
    let name: Arc<str> = match space.areas.len() < NR_AREAS_MAX {
        true => Arc::clone(&mapping.name),
        false => "".into(),
    };
    let known = space.areas.get(&(class, Arc::clone(&mapping.name)));
    if let Some(area) = known.or_else(|| space.areas.get(&(class, Arc::clone(&name)))) {
        return area.area;
    }
    let area = AreaName {
        area: *nr_areas,
        space: space.name.space,
        class: class.to_owned(),
        name: name.to_string(),
    };
    *nr_areas += 1;
    space.areas.insert((class, name), area.clone());
    new.push(area);
    *nr_areas - 1
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(held: Bits, accessed: Bits) -> Found {
        Found {
            held,
            accessed,
            anon: held,
            ..Found::default()
        }
    }

    const MAPPED: Bits = [u64::MAX; 8];

    #[test]
    fn what_was_there_before_does_not_appear_again() {
        let mut state = TableState::default();
        let first = state.change(&found(bits::run(0, 10), bits::run(0, 3)), MAPPED, false);
        assert_eq!(first.appeared, bits::run(0, 10));
        assert_eq!(first.accessed, bits::run(0, 3));
        let second = state.change(&found(bits::run(0, 12), bits::run(9, 11)), MAPPED, false);
        assert_eq!(second.appeared, bits::run(10, 12));
        assert_eq!((second.gone, second.evicted), ([0; 8], [0; 8]));
    }

    #[test]
    fn a_page_in_swap_is_evicted_and_one_that_is_nowhere_is_gone() {
        let mut state = TableState::default();
        state.change(&found(bits::run(0, 10), bits::NONE), MAPPED, false);
        let swapped = Found {
            swapped: bits::run(0, 4),
            ..found(bits::run(8, 10), bits::NONE)
        };
        let piece = state.change(&swapped, MAPPED, false);
        assert_eq!(piece.evicted, bits::run(0, 4));
        assert_eq!(piece.gone, bits::run(4, 8));
        assert_eq!(piece.anon, bits::run(0, 10));
        // What lay in swap is freed there, and is told once.
        let piece = state.change(&found(bits::run(8, 10), bits::NONE), MAPPED, false);
        assert_eq!((piece.gone, piece.evicted), (bits::run(0, 4), bits::NONE));
        let piece = state.change(&found(bits::run(8, 10), bits::NONE), MAPPED, false);
        assert_eq!(
            Piece {
                anon: piece.anon,
                ..Piece::default()
            },
            piece
        );
    }

    #[test]
    fn a_page_of_a_file_is_kept_until_the_file_is_unmapped() {
        let of_file = |held| Found {
            anon: bits::NONE,
            ..found(held, bits::NONE)
        };
        let mut state = TableState::default();
        state.change(&of_file(bits::run(0, 8)), MAPPED, false);
        let piece = state.change(&of_file(bits::NONE), bits::run(0, 6), false);
        assert_eq!(piece.evicted, bits::run(0, 6));
        assert_eq!(piece.gone, bits::run(6, 8));
        let piece = state.change(&of_file(bits::NONE), bits::NONE, false);
        assert_eq!(piece.gone, bits::run(0, 6));
    }

    #[test]
    fn a_page_is_written_once_as_long_as_it_stays_dirty() {
        let dirty = |pages| Found {
            dirty: pages,
            ..found(bits::run(0, 8), bits::run(0, 8))
        };
        let mut state = TableState::default();
        let piece = state.change(&dirty(bits::run(0, 2)), MAPPED, false);
        assert_eq!(piece.written, bits::run(0, 2));
        let piece = state.change(&dirty(bits::run(1, 4)), MAPPED, false);
        assert_eq!(piece.written, bits::run(2, 4));
    }

    #[test]
    fn a_page_made_inaccessible_for_a_moment_stays_what_it_was() {
        let mut state = TableState::default();
        state.change(&found(bits::run(0, 2), bits::NONE), MAPPED, false);
        let hidden = Found {
            unsure: bits::run(0, 1),
            anon: bits::run(1, 2),
            ..found(bits::run(0, 2), bits::NONE)
        };
        let piece = state.change(&hidden, MAPPED, false);
        assert_eq!((piece.gone, piece.appeared), ([0; 8], [0; 8]));
        assert_eq!(state.anon, bits::run(0, 2));
    }
}
