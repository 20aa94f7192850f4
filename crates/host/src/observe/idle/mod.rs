//! When was each page last used? A visitor that remembers, and counts what it remembers.
//!
//! ```text
//!   loop { pages.observe(&mut observer); sleep }      stamps every page found accessed
//!   pages.census()                                    resident, accessed within, idle for
//! ```
//!
//! A page's stamp is the number of the walk that last found it accessed (two bytes); the first walk
//! stamps what is there as merely seen, since its accessed bits may be of any age, and so does a
//! later walk that finds a page without an access (read ahead, copied by fork).
//!
//! **Memory**: 1.2 KiB for each 2 MiB of address space that has a page in memory: 2.3 bytes a page
//! where tables are full, at most 29 % of the kernel's own page tables where they are sparse, and 24
//! bytes and a name a mapping. It goes with the pages, the mapping or the process.
//!
//! **Owns** the stamps. **Does not own** the clock (`epochs`), the arithmetic of ages (`census`),
//! when walks happen (the caller).
//!
//! **Invariants**
//! - I1: a page has a stamp as long as walks find it in memory, and no longer.
//! - I2: what a walk that broke off did not tell of stays as it was.

mod census;
mod epochs;
mod groups;
mod report;
#[cfg(test)]
mod tests;

pub use census::{Ages, Census, IDLE_BOUNDS_S, KindBytes, MappingAges};
pub use groups::{IdleGroups, RankedGroup, RankedProgram, Ranking};
pub use report::{Figures, IdleReport, MappingReport, WatchCost, WindowReport, WorkingSetReport};

use super::{Observer, Piece, SpaceId, Visitor, Walked};
use census::Cohort;
use epochs::Epochs;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strata_linux::access::Bits512;
use strata_linux::addr::{AddrRange, PAGE_BYTES, TABLE_ENTRIES, TableNo};
use strata_linux::bits;
use strata_linux::process::{Mapping, MappingClass, Process};

/// In a stamp: the walk saw the page but found no access.
const ONLY_SEEN: u16 = 1 << 15;

/// What is known of the pages of one table.
#[derive(Debug)]
struct Table {
    present: Bits512,
    /// Present pages that are anonymous.
    anon: Bits512,
    /// Walk number and [`ONLY_SEEN`]; means nothing where no page is present.
    stamps: [u16; TABLE_ENTRIES],
    /// Number of the space's walk that last told of it.
    told_in: u64,
    /// What was present before that walk.
    before: Bits512,
}

impl Table {
    fn new() -> Box<Table> {
        Box::new(Table {
            present: bits::NONE,
            anon: bits::NONE,
            stamps: [0; TABLE_ENTRIES],
            told_in: 0,
            before: bits::NONE,
        })
    }
}

/// A mapping, as far as the census needs it.
#[derive(Debug)]
struct Place {
    range: AddrRange,
    class: MappingClass,
    name: Arc<str>,
}

#[derive(Debug, Default)]
struct Space {
    places: Vec<Place>,
    tables: BTreeMap<TableNo, Box<Table>>,
    nr_walks: u64,
}

/// Pages by the walk that last found them accessed, for all spaces of an [`Observer`].
#[derive(Debug, Default)]
pub struct IdlePages {
    epochs: Epochs,
    spaces: BTreeMap<SpaceId, Space>,
}

impl IdlePages {
    /// Knows nothing yet.
    pub fn new() -> IdlePages {
        IdlePages::default()
    }

    /// Walks once: [`IdlePages::start_walk`] and [`Observer::walk`].
    pub fn observe(&mut self, observer: &mut Observer) -> Walked {
        self.start_walk(observer.elapsed());
        observer.walk(self)
    }

    /// To be called before each walk, for who passes walks on to several visitors. `at` is a time on
    /// any clock that does not go back; the first is when the watch begins.
    pub fn start_walk(&mut self, at: Duration) {
        let Some(new_numbers) = self.epochs.start(at) else {
            return;
        };
        let tables = self
            .spaces
            .values_mut()
            .flat_map(|space| space.tables.values_mut());
        for table in tables {
            for stamp in &mut table.stamps {
                let number = usize::from(*stamp & !ONLY_SEEN);
                // An entry without a page may hold anything.
                let renumbered = new_numbers.get(number).copied().unwrap_or_default();
                *stamp = renumbered | (*stamp & ONLY_SEEN);
            }
        }
    }

    /// What is in memory, by age, of all spaces.
    pub fn census(&self) -> Census {
        self.count(self.spaces.values())
    }

    /// What is in memory, by age, of one space; `None` if it is not there (any more).
    pub fn census_of(&self, space: SpaceId) -> Option<Census> {
        let space = self.spaces.get(&space)?;
        Some(self.count(std::iter::once(space)))
    }

    /// Memory that the stamps take, bytes; lists and names of mappings are not counted.
    pub fn footprint_bytes(&self) -> u64 {
        let nr_tables: usize = self.spaces.values().map(|space| space.tables.len()).sum();
        (nr_tables * size_of::<Table>()) as u64
    }

    fn count<'a>(&self, spaces: impl Iterator<Item = &'a Space>) -> Census {
        let mut tally = Tally {
            by_stamp: vec![[0; 2]; 2 * self.epochs.len()],
            touched: Vec::new(),
        };
        let mut total = Counts::new();
        let mut groups: BTreeMap<(&str, MappingClass), (&Place, u64, Counts)> = BTreeMap::new();
        for space in spaces {
            for place in &space.places {
                tally.add(place, &space.tables);
                if tally.touched.is_empty() {
                    continue;
                }
                let (_, nr_mappings, counts) = groups
                    .entry((&place.name, place.class))
                    .or_insert((place, 0, Counts::new()));
                *nr_mappings += 1;
                tally.flush(counts, &mut total);
            }
        }
        let mut mappings: Vec<MappingAges> = groups
            .into_values()
            .map(|(place, nr_mappings, counts)| MappingAges {
                name: Arc::clone(&place.name),
                class: place.class,
                nr_mappings,
                ages: self.ages(&counts),
            })
            .collect();
        mappings.sort_by_key(|mapping| std::cmp::Reverse(mapping.ages.resident().total_bytes()));
        Census {
            at: self.epochs.now(),
            watched: self.epochs.watched(),
            last_interval: self.epochs.last_interval(),
            total: self.ages(&total),
            mappings,
        }
    }

    fn ages(&self, counts: &Counts) -> Ages {
        let now = self.epochs.now();
        let cohort = |(stamp, [nr_file, nr_anon]): (&u16, &[u64; 2])| {
            let epoch = self.epochs.get(stamp & !ONLY_SEEN)?;
            let half_span = epoch.at.saturating_sub(epoch.since) / 2;
            let idle = now.saturating_sub(epoch.at);
            Some(Cohort {
                idle,
                middle: idle + half_span,
                was_accessed: stamp & ONLY_SEEN == 0,
                bytes: KindBytes {
                    anon_bytes: nr_anon * PAGE_BYTES,
                    file_bytes: nr_file * PAGE_BYTES,
                },
            })
        };
        Ages {
            cohorts: counts.iter().filter_map(cohort).collect(),
        }
    }
}

/// Pages by stamp: file, anon.
type Counts = BTreeMap<u16, [u64; 2]>;

/// Pages of one mapping by stamp, dense, so that a page costs an addition.
struct Tally {
    by_stamp: Vec<[u64; 2]>,
    touched: Vec<u16>,
}

impl Tally {
    fn slot(stamp: u16) -> usize {
        2 * usize::from(stamp & !ONLY_SEEN) + usize::from(stamp & ONLY_SEEN != 0)
    }

    fn add(&mut self, place: &Place, tables: &BTreeMap<TableNo, Box<Table>>) {
        if place.range.is_empty() {
            return;
        }
        let first = TableNo::containing(place.range.start);
        let last = TableNo::containing(place.range.end - 1);
        for (table_no, table) in tables.range(first..=last) {
            let mask = bits::entries(place.range, *table_no);
            for index in bits::ones(bits::and(table.present, mask)) {
                let stamp = table.stamps[index];
                let Some(counts) = self.by_stamp.get_mut(Tally::slot(stamp)) else {
                    continue;
                };
                if *counts == [0; 2] {
                    self.touched.push(stamp);
                }
                counts[usize::from(bits::has(table.anon, index))] += 1;
            }
        }
    }

    /// Adds what was tallied to both and begins anew.
    fn flush(&mut self, group: &mut Counts, total: &mut Counts) {
        for stamp in self.touched.drain(..) {
            let [nr_file, nr_anon] = std::mem::take(&mut self.by_stamp[Tally::slot(stamp)]);
            for counts in [&mut *group, &mut *total] {
                let sums = counts.entry(stamp).or_default();
                sums[0] += nr_file;
                sums[1] += nr_anon;
            }
        }
    }
}

impl Visitor for IdlePages {
    fn appeared(&mut self, space: SpaceId, _process: &Process) {
        self.spaces.insert(space, Space::default());
    }

    fn ended(&mut self, space: SpaceId) {
        self.spaces.remove(&space);
    }

    fn begin(&mut self, space: SpaceId, _process: &Process, mappings: &[Mapping]) {
        self.begin_space(space, mappings);
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        let current = self.epochs.current();
        let is_first = self.epochs.is_first();
        let Some(space) = self.spaces.get_mut(&piece.space) else {
            return;
        };
        let (resident, accessed) = (piece.resident(), piece.accessed());
        let table_no = piece.record.table;
        if bits::is_empty(resident) && !space.tables.contains_key(&table_no) {
            return;
        }
        let table = space.tables.entry(table_no).or_insert_with(Table::new);
        if table.told_in != space.nr_walks {
            table.told_in = space.nr_walks;
            table.before = std::mem::replace(&mut table.present, bits::NONE);
            table.anon = bits::NONE;
        }
        table.present = bits::or(table.present, resident);
        table.anon = bits::or(table.anon, piece.anon());
        let seen = bits::without(resident, table.before);
        for index in bits::ones(seen) {
            table.stamps[index] = current | ONLY_SEEN;
        }
        // How old the accessed bits are that the first walk finds, nobody knows.
        if !is_first {
            for index in bits::ones(accessed) {
                table.stamps[index] = current;
            }
        }
    }

    fn end(&mut self, space: SpaceId, is_whole: bool) {
        if let Some(space) = self.spaces.get_mut(&space).filter(|_| is_whole) {
            let nr_walks = space.nr_walks;
            let is_there =
                |table: &Table| table.told_in == nr_walks && !bits::is_empty(table.present);
            space.tables.retain(|_, table| is_there(table));
        }
    }
}

impl IdlePages {
    fn begin_space(&mut self, space: SpaceId, mappings: &[Mapping]) {
        let space = self.spaces.entry(space).or_default();
        space.nr_walks += 1;
        space.places.clear();
        let places = mappings.iter().filter(|mapping| mapping.is_worth_reading());
        space.places.extend(places.map(|mapping| Place {
            range: mapping.range,
            class: mapping.class,
            name: Arc::clone(&mapping.name),
        }));
    }

    /// Recounts what can be recounted.
    #[cfg(test)]
    fn validate(&self) {
        for space in self.spaces.values() {
            for (table_no, table) in &space.tables {
                assert!(bits::is_empty(bits::without(table.anon, table.present)));
                assert!(table.told_in <= space.nr_walks, "{table_no:?}");
                for index in bits::ones(table.present) {
                    let number = table.stamps[index] & !ONLY_SEEN;
                    assert!(self.epochs.get(number).is_some(), "{table_no:?} {index}");
                }
            }
        }
        let census = self.census();
        let sum: KindBytes = census
            .mappings
            .iter()
            .map(|mapping| mapping.ages.resident())
            .sum();
        assert_eq!(sum, census.total.resident());
    }
}
