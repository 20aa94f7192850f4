//! A recording as a picture: for each mapping and file which of its memory was used, left and came back when, and how old the
//! rest is.
//!
//! A *strip* is some 64 pages in a row of one mapping, or a power of two as many where there are more strips than fit; a *row*
//! is some strips of a mapping, as many as are to be shown.
//!
//! **Owns** what is counted. **Does not own** the recording.
//!
//! **Invariants**
//! - I1: a page counts as used once a walk, however often it was accessed in between.
//! - I2: the ages of the pages in memory at the end add up to these pages.

use std::collections::BTreeMap;

use strata_trace::recording::{PageBits, Piece, SpaceEnd, Told, WalkKind};
use strata_trace::{AccessReader, TraceError};

use super::bands::{AgeClass, Band, Pages, RecordingHeat, Row, Total, Which};
use super::{Columns, NR_COLUMNS, halve, no_cells};

/// Mappings and files that are told one by one; all later ones are one band.
const BANDS_MAX: usize = 1024;
/// Strips at most.
const STRIPS_MAX: usize = 4096;
/// Page tables of mappings of which is known what is in memory: 256 GiB, in some 100 MB.
const TABLES_MAX: usize = 1 << 17;
/// Time of a column to begin with, where the recording does not tell its interval.
const WIDTH_MIN_US: u64 = 1000;
/// The column of a page that was not used since the baseline.
const NEVER: u8 = u8::MAX;
const NO_STRIP: u32 = u32::MAX;
/// Words of 64 pages of a page table.
const WORDS: usize = 8;
const NONE: PageBits = [0; WORDS];

/// What is known of one mapping's part of a page table.
struct Table {
    key: Key,
    band: u32,
    resident: PageBits,
    /// Left memory and not come back.
    away: PageBits,
    anon: PageBits,
    /// The column in which each page was last used.
    last: [u8; 512],
    /// The strip of each word.
    strips: [u32; WORDS],
}

struct Strip {
    band: u32,
    /// Its words of 64 pages begin at this times `1 << shift`.
    number: u64,
    nr_resident: u64,
    nr_most: u64,
    cells: Vec<u64>,
}

#[derive(Clone, Copy, Default)]
struct Walk {
    column: usize,
    is_baseline: bool,
    has_census: bool,
}

/// Space, mapping (0 of a file), table.
type Key = (u32, u32, u64);

#[derive(Default)]
struct Counting {
    columns: Option<Columns>,
    totals: Vec<Total>,
    last_column: usize,
    bands: Vec<Band>,
    band_of: BTreeMap<Which, u32>,
    band_resident: Vec<u64>,
    strips: Vec<Strip>,
    strip_of: BTreeMap<(u32, u64), u32>,
    /// Words of a strip, as a power of two.
    shift: u32,
    tables: Vec<Table>,
    table_of: BTreeMap<Key, usize>,
    /// Places of tables whose space has ended.
    free: Vec<usize>,
    /// The table of the last piece.
    last_table: usize,
    walk: Walk,
    space: Option<(u32, bool)>,
    nr_resident: u64,
    nr_accesses: u64,
    nr_left_out: u64,
}

impl RecordingHeat {
    /// Reads a recording to its end. At most `nr_bands` bands are told, the last of them being all others, if there are more. A
    /// band gets rows by its share of the memory, all together `nr_rows` and at most one more each. `None` if what is read is no
    /// recording: its accesses are still to be had.
    ///
    /// # Errors
    /// The reader's.
    pub fn read(
        reader: &mut dyn AccessReader,
        nr_rows: usize,
        nr_bands: usize,
    ) -> Result<Option<RecordingHeat>, TraceError> {
        let mut counting = Counting::new();
        while let Some(told) = reader.read_told()? {
            if counting.columns.is_none() {
                let about = reader.recording().and_then(|info| info.about.as_ref());
                let interval_us = about.map_or(0, |about| about.interval_us);
                if let Told::Walk { at_us, .. } = told {
                    counting.columns = Some(Columns {
                        first: at_us,
                        // Walks come a little later than asked for: so each column has one.
                        width: (interval_us.saturating_mul(3) / 2).max(WIDTH_MIN_US),
                    });
                }
            }
            counting.add(told);
        }
        let is_recording = reader.recording().is_some();
        Ok(is_recording.then(|| counting.finish(nr_rows, nr_bands)))
    }
}

impl Counting {
    fn new() -> Counting {
        Counting {
            totals: vec![Total::default(); NR_COLUMNS],
            ..Counting::default()
        }
    }

    fn add(&mut self, told: Told) {
        match told {
            Told::Walk {
                kind,
                at_us,
                is_continued,
            } => self.begin_walk(kind, at_us, is_continued),
            Told::Space { number, is_file } => {
                self.space = Some((number, is_file));
                if is_file && !self.walk.has_census && !self.walk.is_baseline {
                    self.walk.has_census = true;
                    self.totals[self.walk.column].nr_censuses += 1;
                }
            }
            Told::Piece(piece) => {
                self.nr_accesses += u64::from(piece.nr_touched());
                if let Some((space, is_file)) = self.space {
                    self.piece(space, is_file, &piece);
                }
            }
            Told::End(end) => {
                if let (SpaceEnd::Ended, Some((space, _))) = (end, self.space) {
                    self.end_space(space);
                }
                self.totals[self.walk.column].nr_resident = Some(self.nr_resident);
            }
        }
    }

    fn begin_walk(&mut self, kind: WalkKind, at_us: u64, is_continued: bool) {
        self.space = None;
        if is_continued {
            return;
        }
        let Some(columns) = &mut self.columns else {
            return;
        };
        let (column, nr_halvings) = columns.place(at_us);
        (0..nr_halvings).for_each(|_| self.halve());
        // Time may not go back, not even in a file that somebody made up: the columns of pages' last use grow.
        let column = column.max(self.last_column);
        self.last_column = column;
        let is_baseline = kind == WalkKind::Baseline;
        self.totals[column].nr_walks += u64::from(!is_baseline);
        self.totals[column].nr_resident = Some(self.nr_resident);
        self.walk = Walk {
            column,
            is_baseline,
            has_census: false,
        };
    }

    fn halve(&mut self) {
        self.last_column /= 2;
        let pairs = self.totals.chunks(2).map(|pair| pair[0].then(pair[1]));
        self.totals = pairs.collect();
        self.totals.resize(NR_COLUMNS, Total::default());
        for band in &mut self.bands {
            halve(&mut band.left);
            halve(&mut band.back);
        }
        for strip in &mut self.strips {
            halve(&mut strip.cells);
        }
        let last = self.tables.iter_mut().flat_map(|table| &mut table.last);
        last.filter(|last| **last != NEVER)
            .for_each(|last| *last /= 2);
    }

    fn band(&mut self, which: Which) -> u32 {
        let which = match self.bands.len() < BANDS_MAX || self.band_of.contains_key(&which) {
            true => which,
            false => Which::Others,
        };
        if let Some(band) = self.band_of.get(&which) {
            return *band;
        }
        let band = self.bands.len() as u32;
        self.band_of.insert(which, band);
        self.band_resident.push(0);
        self.bands.push(Band {
            which,
            left: no_cells(),
            back: no_cells(),
            ..Band::default()
        });
        band
    }

    /// The strip of a word of a band, made if there is none.
    fn strip(&mut self, band: u32, word: u64) -> u32 {
        let number = word >> self.shift;
        if let Some(strip) = self.strip_of.get(&(band, number)) {
            return *strip;
        }
        let strip = self.strips.len() as u32;
        self.strip_of.insert((band, number), strip);
        self.strips.push(Strip {
            band,
            number,
            nr_resident: 0,
            nr_most: 0,
            cells: no_cells(),
        });
        strip
    }

    /// Two strips of a band become one, until there is room again.
    fn widen(&mut self) {
        while self.strips.len() >= STRIPS_MAX {
            self.shift += 1;
            let strips = std::mem::take(&mut self.strips);
            self.strip_of.clear();
            for old in strips {
                let at = self.strip(old.band, (old.number / 2) << self.shift) as usize;
                let strip = &mut self.strips[at];
                strip.nr_resident += old.nr_resident;
                strip.nr_most += old.nr_most;
                for (cell, more) in strip.cells.iter_mut().zip(&old.cells) {
                    *cell += more;
                }
            }
            for table in &mut self.tables {
                table.strips = [NO_STRIP; WORDS];
            }
        }
    }

    /// The place of a table, made if there is none; `None` if there are too many.
    fn table(&mut self, key: Key, which: Which) -> Option<usize> {
        // Walks go through the tables in the same order.
        let next = self.last_table + 1;
        if self.tables.get(next).is_some_and(|table| table.key == key) {
            return Some(next);
        }
        if let Some(at) = self.table_of.get(&key) {
            return Some(*at);
        }
        let table = Table {
            key,
            band: self.band(which),
            resident: NONE,
            away: NONE,
            anon: NONE,
            last: [NEVER; 512],
            strips: [NO_STRIP; WORDS],
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.tables[at] = table;
                at
            }
            None if self.tables.len() >= TABLES_MAX => return None,
            None => {
                self.tables.push(table);
                self.tables.len() - 1
            }
        };
        self.table_of.insert(key, at);
        Some(at)
    }

    fn piece(&mut self, space: u32, is_file: bool, piece: &Piece) {
        let which = match is_file {
            true => Which::File(space),
            false => Which::Area(piece.area),
        };
        let Some(at) = self.table((space, piece.area, piece.table), which) else {
            self.nr_left_out += 1;
            return;
        };
        self.last_table = at;
        let Walk {
            column,
            is_baseline,
            ..
        } = self.walk;
        let band_at = self.tables[at].band as usize;
        for word in 0..WORDS {
            let [accessed, appeared, gone, evicted] =
                [piece.accessed, piece.appeared, piece.gone, piece.evicted].map(|bits| bits[word]);
            let told = accessed | appeared | gone | evicted;
            if told == 0 {
                continue;
            }
            let strip_at = self.strip_of_word(at, word);
            let table = &mut self.tables[at];
            let used = match is_baseline {
                true => 0,
                false => accessed | appeared,
            };
            let nr_before = nr(table.resident[word]);
            let back = appeared & table.away[word];
            table.resident[word] = (table.resident[word] | accessed | appeared) & !(gone | evicted);
            table.away[word] = table.away[word] & !(told & !evicted) | evicted;
            table.anon[word] = table.anon[word] & !told | piece.anon[word];
            let nr_after = nr(table.resident[word]);
            match used {
                u64::MAX => table.last[word * 64..][..64].fill(column as u8),
                mut left => {
                    while left != 0 {
                        let bit = left.trailing_zeros() as usize;
                        table.last[word * 64 + bit] = column as u8;
                        left &= left - 1;
                    }
                }
            }
            let strip = &mut self.strips[strip_at];
            strip.cells[column] += nr(used);
            strip.nr_resident = (strip.nr_resident + nr_after).saturating_sub(nr_before);
            strip.nr_most = strip.nr_most.max(strip.nr_resident);
            let band = &mut self.bands[band_at];
            let of_band = &mut self.band_resident[band_at];
            *of_band = (*of_band + nr_after).saturating_sub(nr_before);
            band.nr_most = band.nr_most.max(*of_band);
            self.nr_resident = (self.nr_resident + nr_after).saturating_sub(nr_before);
            if !is_baseline {
                band.nr_used += nr(used);
                band.nr_appeared += nr(appeared);
                band.nr_freed += nr(gone);
                band.left[column] += nr(evicted);
                band.back[column] += nr(back);
                let total = &mut self.totals[column];
                match is_file {
                    true => total.nr_used_cache += nr(used),
                    false => total.nr_used += nr(used),
                }
                total.nr_left += nr(evicted);
                total.nr_back += nr(back);
            }
        }
    }

    fn strip_of_word(&mut self, table: usize, word: usize) -> usize {
        let of = &self.tables[table];
        if of.strips[word] == NO_STRIP {
            self.widen();
            let of = &self.tables[table];
            let strip = self.strip(of.band, of.key.2 * WORDS as u64 + word as u64);
            self.tables[table].strips[word] = strip;
        }
        self.tables[table].strips[word] as usize
    }

    /// Nothing of the space is left.
    fn end_space(&mut self, space: u32) {
        let of_space = (space, 0, 0)..=(space, u32::MAX, u64::MAX);
        let ended = self.table_of.range(of_space);
        let ended: Vec<(Key, usize)> = ended.map(|(key, at)| (*key, *at)).collect();
        for (key, at) in ended {
            for word in 0..WORDS {
                let nr_pages = nr(self.tables[at].resident[word]);
                if nr_pages == 0 {
                    continue;
                }
                let strip = self.strip_of_word(at, word);
                let band = self.tables[at].band as usize;
                for count in [
                    &mut self.strips[strip].nr_resident,
                    &mut self.band_resident[band],
                    &mut self.nr_resident,
                ] {
                    *count = count.saturating_sub(nr_pages);
                }
                self.bands[band].nr_freed += nr_pages;
            }
            self.tables[at].resident = NONE;
            // The place is found under its next key only.
            self.tables[at].key = (u32::MAX, u32::MAX, u64::MAX);
            self.table_of.remove(&key);
            self.free.push(at);
        }
    }

    fn finish(mut self, nr_rows: usize, nr_bands: usize) -> RecordingHeat {
        let columns = self.columns.unwrap_or(Columns { first: 0, width: 1 });
        let ages = self.ages(columns.width);
        let mut strips: Vec<Vec<Strip>> = Vec::new();
        strips.resize_with(self.bands.len(), Vec::new);
        for strip in self.strips {
            strips[strip.band as usize].push(strip);
        }
        let all_most: u64 = self.bands.iter().map(|band| band.nr_most).sum();
        for (band, mut strips) in self.bands.iter_mut().zip(strips) {
            strips.sort_unstable_by_key(|strip| strip.number);
            let share = u128::from(band.nr_most) * nr_rows as u128 / u128::from(all_most.max(1));
            let nr_of_row = strips.len().div_ceil((share as usize).max(1));
            let rows = strips.chunks(nr_of_row.max(1));
            band.rows = rows.map(|strips| row(strips, self.shift)).collect();
        }
        self.bands
            .sort_by_key(|band| std::cmp::Reverse(band.nr_most));
        if self.bands.len() > nr_bands {
            let others = self.bands.split_off(nr_bands.saturating_sub(1));
            self.bands.extend(others.into_iter().reduce(Band::with));
        }
        let mut totals = self.totals;
        totals.truncate(self.last_column + 1);
        RecordingHeat {
            width_us: columns.width,
            totals,
            bands: self.bands,
            ages,
            nr_accesses: self.nr_accesses,
            nr_left_out: self.nr_left_out,
        }
    }

    /// Tells each band what is in memory at the end, and all of it by age.
    fn ages(&mut self, width_us: u64) -> Vec<AgeClass> {
        let mut classes: BTreeMap<Option<u32>, Pages> = BTreeMap::new();
        for ((_, area, _), at) in &self.table_of {
            let table = &self.tables[*at];
            let band = &mut self.bands[table.band as usize];
            let is_cache = *area == 0 && matches!(band.which, Which::File(_));
            for page in 0..WORDS * 64 {
                let has = |bits: &PageBits| bits[page / 64] >> (page % 64) & 1 == 1;
                if !has(&table.resident) {
                    continue;
                }
                // 0, 1, 2 to 3, 4 to 7 columns ago, and so on.
                let age = match table.last[page] {
                    NEVER => None,
                    last => Some(self.last_column.saturating_sub(usize::from(last))),
                };
                let class = age.map(|columns| columns.checked_ilog2().map_or(0, |log| log + 1));
                band.nr_never += u64::from(age.is_none());
                for pages in [classes.entry(class).or_default(), &mut band.resident] {
                    match (is_cache, has(&table.anon)) {
                        (true, _) => pages.cache += 1,
                        (false, true) => pages.anon += 1,
                        (false, false) => pages.file += 1,
                    }
                }
            }
        }
        let never = classes.remove(&None);
        let at_least = |class: u32| match class {
            0 => 0,
            class => width_us.saturating_mul(1 << (class - 1)),
        };
        let known = classes.into_iter().filter_map(|(class, pages)| {
            let at_least_us = Some(at_least(class?));
            Some(AgeClass { at_least_us, pages })
        });
        let never = never.map(|pages| AgeClass {
            at_least_us: None,
            pages,
        });
        known.chain(never).collect()
    }
}

fn row(strips: &[Strip], shift: u32) -> Row {
    let mut row = Row {
        first_page: strips.first().map_or(0, |strip| strip.number << shift << 6),
        nr_pages: 0,
        cells: no_cells(),
    };
    for strip in strips {
        row.nr_pages += strip.nr_most;
        for (cell, more) in row.cells.iter_mut().zip(&strip.cells) {
            *cell += more;
        }
    }
    row
}

fn nr(bits: u64) -> u64 {
    u64::from(bits.count_ones())
}

#[cfg(test)]
mod tests;
