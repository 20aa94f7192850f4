//! What a walk of one space finds, cut at the borders of mappings, and what of it is to be cleared.
//!
//! **Owns** who is told what ([`Visitor`], [`Listener`]), the cutting, and how much is read before it is cleared. **Does not own**
//! the order of a walk (`observe`), nor clearing (`access`).

use super::unclear::{Split, Unclear};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use strata_linux::access::{NrEntries, TableRecord, Way, Ways, YoungPiece, entries_in, entries_of};
use strata_linux::addr::{TableNo, TableSpan};
use strata_linux::process::{Mapping, Process};
use strata_lru::bits::{self, Bits};
use strata_lru::{Kind, SpaceNo};

/// Hands out the numbers of spaces of one observer, each once. Clones share the numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpaceNumbers(Arc<AtomicU32>);

impl SpaceNumbers {
    /// A number that was not given to anybody.
    pub(crate) fn next(&self) -> SpaceNo {
        SpaceNo(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The part of one last-level table that one mapping covers.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The space.
    pub space: SpaceNo,
    /// The mapping, and its index among those `begin` was given.
    pub mapping: &'a Mapping,
    /// See `mapping`.
    pub mapping_index: usize,
    /// The whole table, the entries of other mappings included.
    pub record: &'a TableRecord,
    /// The entries the mapping covers. Of a huge page all its 512 base pages stand in the bitmaps.
    pub mask: Bits,
    /// Pages whose accessed bit tells nothing, because it can't be cleared; they stand in [`Piece::accessed`], too.
    pub unseen: Bits,
}

impl Piece<'_> {
    /// Base pages of the mapping that are in memory.
    pub fn resident(&self) -> Bits {
        bits::and(
            bits::or(self.record.present, self.record.protnone),
            self.mask,
        )
    }

    /// Base pages of the mapping that were accessed since the last walk.
    pub fn accessed(&self) -> Bits {
        bits::and(accessed(self.record), self.mask)
    }

    /// Base pages of the mapping that were written since the kernel last cleaned them (walks never clear dirty bits).
    pub fn dirty(&self) -> Bits {
        let dirty = bits::or(self.record.dirty, self.record.protnone_dirty);
        bits::and(dirty, self.mask)
    }

    /// Entries of private anonymous memory that hold nothing: what was there was freed.
    pub fn empty(&self) -> Bits {
        let record = self.record;
        match self.mapping.class.is_private_anon() {
            true => {
                let held = [
                    record.swapped,
                    record.special,
                    record.protnone,
                    record.migrating,
                ];
                let held = held.into_iter().fold(record.present, bits::or);
                bits::without(self.mask, held)
            }
            false => bits::NONE,
        }
    }

    /// Anonymous base pages of the mapping that are in memory: written private pages of a file are among them.
    pub fn anon(&self) -> Bits {
        match (
            self.mapping.class.kind_of_page(false),
            self.mapping.class.kind_of_page(true),
        ) {
            (Kind::Anon, _) => self.resident(),
            (Kind::File, Kind::Anon) => self.dirty(),
            (Kind::File, Kind::File) => bits::NONE,
        }
    }
}

/// What was accessed, whether or not the kernel has made it inaccessible since to see who uses it.
pub(super) fn accessed(record: &TableRecord) -> Bits {
    bits::or(record.accessed, record.protnone_accessed)
}

/// Who is told what a walk finds. Every method may be left as it is.
pub trait Visitor {
    /// A space is there that was not.
    fn appeared(&mut self, _space: SpaceNo, _process: &Arc<Process>) {}
    /// A space is gone, with its pages.
    fn ended(&mut self, _space: SpaceNo) {}
    /// The space has not run since its last walk: all is as it was and nothing was accessed.
    fn idle(&mut self, _space: SpaceNo) {}
    /// The space is being walked; its mappings by address. What no piece tells of is not in memory.
    fn begin(&mut self, _space: SpaceNo, _process: &Process, _mappings: &Arc<Vec<Mapping>>) {}
    /// A table of the space within a mapping; by address.
    fn piece(&mut self, _piece: &Piece<'_>) {}
    /// Whether the space is to be walked although it has not run, and told by [`Visitor::mappers`] of all its tables.
    fn wants_mappers(&mut self, _space: SpaceNo) -> bool {
        false
    }
    /// Of the anonymous pages `known` in a table of the space these are mapped by several processes.
    fn mappers(&mut self, _space: SpaceNo, _table: TableNo, _known: Bits, _several: Bits) {}
    /// The walk of the space has ended; `is_whole` is false when it broke off and nothing may be
    /// concluded from what was not told.
    fn end(&mut self, _space: SpaceNo, _is_whole: bool) {}
}

/// Who is told of the walk of one space, on the thread that walks.
pub(super) trait Listener: Visitor {
    /// These are the mappings; pieces follow.
    fn mappings(&mut self, mappings: Arc<Vec<Mapping>>);
    /// Something was done: the walk does not stand still.
    fn note_progress(&self);
    /// Nobody wants to know any more.
    fn is_over(&self) -> bool;
}

/// Tables read before what was found young in them is cleared: 1 GiB.
const CHUNK_TABLES_MIN: u64 = 512;
/// Most chunks of one walk.
const NR_CHUNKS_MAX: u64 = 64;

/// Cuts spans so that what a walk finds young in one chunk is cleared soon after it was read, and the time between two
/// walks is about the same for every page.
pub(super) fn chunks(spans: &[TableSpan]) -> Vec<Vec<TableSpan>> {
    let nr_tables: u64 = spans.iter().map(|span| span.end.0 - span.first.0).sum();
    // Much may be mapped and little of it in memory.
    let nr_chunk_tables = CHUNK_TABLES_MIN.max(nr_tables.div_ceil(NR_CHUNKS_MAX));
    let mut chunks: Vec<Vec<TableSpan>> = Vec::new();
    let mut room = 0;
    for span in spans {
        let mut first = span.first.0;
        while first < span.end.0 {
            if room == 0 {
                chunks.push(Vec::new());
                room = nr_chunk_tables;
            }
            let end = span.end.0.min(first + room);
            if let Some(chunk) = chunks.last_mut() {
                chunk.push(TableSpan {
                    first: TableNo(first),
                    end: TableNo(end),
                });
            }
            room -= end - first;
            first = end;
        }
    }
    chunks
}

/// Cuts tables at the borders of mappings.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    pub(super) space: SpaceNo,
    pub(super) mappings: &'a [Mapping],
    /// The first mapping that the next table may touch.
    pub(super) cursor: usize,
    /// Whether the records tell which pages are on the kernel's inactive lists, so that the others can be restored.
    pub(super) sees_inactive: bool,
    pub(super) ways: Ways,
    pub(super) unclear: &'a mut Unclear,
    pub(super) found: Found,
}

/// What has been found of a space.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Young pieces that are cleared one by one, or with all of the space.
    pub(super) young: Vec<YoungPiece>,
    /// Young pieces that are cleared with all mappings without or with a file.
    pub(super) nr_part_pieces: [u64; 2],
    /// Pieces with pages that keep their accessed bits.
    pub(super) nr_left_pieces: u64,
    /// Pages of these that would be cleared if that were not in vain.
    pub(super) nr_resting_pages: u64,
    pub(super) nr_entries: NrEntries,
}

impl Pieces<'_> {
    pub(super) fn split(&mut self, record: &TableRecord, visitor: &mut dyn Visitor) {
        let table = record.table;
        let next_table = TableNo(table.0 + 1);
        let before = |mapping: &Mapping| mapping.range.end <= table.start();
        while self.mappings.get(self.cursor).is_some_and(before) {
            self.cursor += 1;
        }
        let touching = self.mappings[self.cursor..]
            .iter()
            .enumerate()
            .take_while(|(_, mapping)| mapping.range.start < next_table.start());
        for (offset, mapping) in touching {
            if !mapping.is_worth_reading() {
                continue;
            }
            let mask = table.covered_by(mapping.range);
            let way = self.ways.of(mapping);
            let split = self.divide(record, mask, way);
            let piece = Piece {
                space: self.space,
                mapping,
                mapping_index: self.cursor + offset,
                record,
                mask,
                unseen: split.unseen,
            };
            visitor.piece(&piece);
            let part = entries_of(mapping.class);
            let found = &mut self.found;
            found.nr_entries[part] += entries_in(record, mask);
            found.nr_left_pieces += u64::from(!bits::is_empty(split.unseen));
            if way == Way::Pieces {
                let resting = bits::without(piece.accessed(), split.to_clear);
                found.nr_resting_pages += bits::count(resting);
            }
            let young = YoungPiece::found(record, mapping, split.to_clear, self.sees_inactive);
            match way {
                Way::Refs if !self.ways.is_at_once() => {
                    found.nr_part_pieces[part] += u64::from(young.is_some());
                }
                Way::Refs | Way::Pieces | Way::Left => found.young.extend(young),
            }
        }
    }

    /// What of a part of a table is to be cleared, and what can't be.
    fn divide(&mut self, record: &TableRecord, mask: Bits, way: Way) -> Split {
        let accessed = bits::and(accessed(record), mask);
        match way {
            Way::Refs => {
                self.unclear.forget(record.table, mask);
                Split {
                    unseen: bits::NONE,
                    to_clear: accessed,
                }
            }
            Way::Pieces => self.unclear.split(record.table, mask, accessed),
            Way::Left => Split {
                unseen: accessed,
                to_clear: bits::NONE,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_mapping;
    use strata_linux::access::{Clearer, Grain, TableShape};
    use strata_linux::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES};
    use strata_linux::process::MappingClass;

    #[derive(Default)]
    struct Told(Vec<(usize, u64, u64)>);

    impl Visitor for Told {
        fn piece(&mut self, piece: &Piece<'_>) {
            self.0.push((
                piece.mapping_index,
                bits::count(piece.resident()),
                bits::count(piece.accessed()),
            ));
        }
    }

    fn mapping(first_page: u64, end_page: u64) -> Mapping {
        test_mapping::mapping(first_page, end_page, MappingClass::FilePrivate)
    }

    fn split(mappings: &[Mapping], records: &[TableRecord]) -> (Told, Vec<YoungPiece>) {
        let mut told = Told::default();
        let own = Process::open(crate::observe::own_pid()).expect("this process runs");
        let mut unclear = Unclear::default();
        let mut pieces = Pieces {
            space: SpaceNo(0),
            mappings,
            cursor: 0,
            sees_inactive: true,
            ways: Clearer::new(Grain::Page).ways(&own, [1, 0]),
            unclear: &mut unclear,
            found: Found::default(),
        };
        for record in records {
            pieces.split(record, &mut told);
        }
        (told, pieces.found.young)
    }

    #[test]
    fn a_table_shared_by_mappings_is_told_mapping_by_mapping() {
        let mappings = [mapping(0, 10), mapping(20, 600), mapping(600, 700)];
        let mut first = TableRecord::empty(TableNo(0), TableShape::Pages);
        first.present = bits::run(0, 512);
        first.accessed = bits::run(8, 22);
        let mut second = TableRecord::empty(TableNo(1), TableShape::Pages);
        second.present = bits::run(80, 100);
        let (told, young) = split(&mappings, &[first, second]);
        assert_eq!(told.0, [(0, 10, 2), (1, 492, 2), (1, 8, 0), (2, 12, 0)]);
        // What lies between mappings is nobody's and is not cleared.
        let pages = |first, end| AddrRange::new(first * PAGE_BYTES, end * PAGE_BYTES);
        let ranges: Vec<AddrRange> = young.iter().map(|piece| piece.range).collect();
        assert_eq!(ranges, [pages(8, 10), pages(20, 22)]);
    }

    #[test]
    fn a_piece_reaches_from_the_first_young_page_to_the_last_and_restores_what_was_active() {
        let mut record = TableRecord::empty(TableNo(0), TableShape::Pages);
        record.present = bits::run(0, 400);
        record.accessed = bits::or(bits::run(10, 11), bits::run(300, 302));
        record.inactive = bits::run(0, 350);
        let (_, young) = split(&[mapping(0, 512)], &[record]);
        assert_eq!(young.len(), 1);
        let pages = AddrRange::new(10 * PAGE_BYTES, 302 * PAGE_BYTES);
        assert_eq!(young[0].range, pages);
        assert_eq!(young[0].restore, bits::run(350, 400));
    }

    #[test]
    fn chunks_cover_all_tables_once_and_are_few() {
        let span = |first, end| TableSpan {
            first: TableNo(first),
            end: TableNo(end),
        };
        let cut = chunks(&[span(0, 700), span(1000, 1100)]);
        assert_eq!(
            cut,
            [vec![span(0, 512)], vec![span(512, 700), span(1000, 1100)]]
        );
        let vast = chunks(&[span(0, 1 << 27)]);
        assert_eq!(vast.len() as u64, NR_CHUNKS_MAX);
        let nr_tables = |chunk: &Vec<TableSpan>| chunk[0].end.0 - chunk[0].first.0;
        assert_eq!(vast.iter().map(nr_tables).sum::<u64>(), 1 << 27);
    }

    #[test]
    fn a_huge_page_is_cleared_as_a_whole() {
        let mut huge = TableRecord::empty(TableNo(0), TableShape::Huge);
        huge.present = bits::run(0, 512);
        huge.accessed = bits::run(0, 512);
        let (told, young) = split(&[mapping(0, 512)], &[huge]);
        assert_eq!(told.0, [(0, 512, 512)]);
        assert_eq!(young[0].range, AddrRange::new(0, TABLE_BYTES));
        assert_eq!(young[0].restore, bits::NONE, "a touch moves it to no list");
    }

    #[test]
    fn a_written_private_page_of_a_file_is_anon() {
        let mut record = TableRecord::empty(TableNo(0), TableShape::Pages);
        record.present = bits::run(0, 100);
        record.dirty = bits::run(0, 30);
        let piece = Piece {
            space: SpaceNo(0),
            mapping: &mapping(0, 512),
            mapping_index: 0,
            record: &record,
            mask: bits::run(10, 512),
            unseen: bits::NONE,
        };
        assert_eq!(bits::count(piece.anon()), 20);
        assert_eq!(bits::count(piece.resident()), 90);
    }
}
