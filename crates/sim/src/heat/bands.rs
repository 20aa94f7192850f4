//! What is told of a recording: its mappings and files as bands of rows, its time in columns, its memory by age.
//!
//! **Owns** these figures, and how two of them become one. **Does not own** how they are counted (`recording`).

/// What a band is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Which {
    /// A mapping, by its number in the recording.
    Area(u32),
    /// Page cache of a file that nobody has mapped, by its number in the recording.
    File(u32),
    /// All that came when there were too many.
    #[default]
    Others,
}

/// Pages by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Anonymous memory.
    pub anon: u64,
    /// Mapped files.
    pub file: u64,
    /// Page cache that nobody has mapped.
    pub cache: u64,
}

impl Pages {
    /// All of them.
    pub fn all(self) -> u64 {
        self.anon + self.file + self.cache
    }
}

/// Some of a band's pages in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The number of its first page in the space or file.
    pub first_page: u64,
    /// The most pages of it that were in memory.
    pub nr_pages: u64,
    /// Pages used, summed over the walks of a column.
    pub cells: Vec<u64>,
}

/// A mapping or file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Band {
    /// Which.
    pub which: Which,
    /// In the order of addresses.
    pub rows: Vec<Row>,
    /// Pages that left memory and kept their content, by column.
    pub left: Vec<u64>,
    /// Pages that left and came back, by column.
    pub back: Vec<u64>,
    /// In memory at the end.
    pub resident: Pages,
    /// The most that was in memory.
    pub nr_most: u64,
    /// In memory at the end, and not used since the baseline.
    pub nr_never: u64,
    /// Pages used, summed over walks.
    pub nr_used: u64,
    /// Pages that came into memory after the baseline.
    pub nr_appeared: u64,
    /// Pages that were freed.
    pub nr_freed: u64,
}

/// All bands in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Walks.
    pub nr_walks: u64,
    /// Walks that told of page cache.
    pub nr_censuses: u64,
    /// Pages of mappings used, summed over walks.
    pub nr_used: u64,
    /// Page cache used, summed over walks.
    pub nr_used_cache: u64,
    /// In memory behind the last walk; `None` where there was none.
    pub nr_resident: Option<u64>,
    /// Pages that left memory and kept their content.
    pub nr_left: u64,
    /// Pages that left and came back.
    pub nr_back: u64,
}

impl Total {
    pub(super) fn then(self, later: Total) -> Total {
        Total {
            nr_walks: self.nr_walks + later.nr_walks,
            nr_censuses: self.nr_censuses + later.nr_censuses,
            nr_used: self.nr_used + later.nr_used,
            nr_used_cache: self.nr_used_cache + later.nr_used_cache,
            nr_resident: later.nr_resident.or(self.nr_resident),
            nr_left: self.nr_left + later.nr_left,
            nr_back: self.nr_back + later.nr_back,
        }
    }
}

/// Pages in memory at the end that were last used so long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgeClass {
    /// At least so long, microseconds; less than the next class says. `None`: not used since the baseline.
    pub at_least_us: Option<u64>,
    /// How many.
    pub pages: Pages,
}

/// A recording as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingHeat {
    /// Time of a column.
    pub width_us: u64,
    /// By column, those that are filled.
    pub totals: Vec<Total>,
    /// Those first that had most in memory.
    pub bands: Vec<Band>,
    /// The youngest first.
    pub ages: Vec<AgeClass>,
    /// Accesses that a replay would make.
    pub nr_accesses: u64,
    /// Page tables that are not counted, because there are too many.
    pub nr_left_out: u64,
}

impl Band {
    /// This band and another one, as one without addresses.
    pub(super) fn with(self, other: Band) -> Band {
        let sum = |one: Vec<u64>, other: &[u64]| -> Vec<u64> {
            let pairs = one.into_iter().zip(other);
            pairs.map(|(one, other)| one + other).collect()
        };
        let rows = self.rows.into_iter().chain(other.rows);
        let rows = rows.reduce(|one, other| Row {
            first_page: 0,
            nr_pages: one.nr_pages + other.nr_pages,
            cells: sum(one.cells, &other.cells),
        });
        Band {
            which: Which::Others,
            rows: rows.into_iter().collect(),
            left: sum(self.left, &other.left),
            back: sum(self.back, &other.back),
            resident: Pages {
                anon: self.resident.anon + other.resident.anon,
                file: self.resident.file + other.resident.file,
                cache: self.resident.cache + other.resident.cache,
            },
            nr_most: self.nr_most + other.nr_most,
            nr_never: self.nr_never + other.nr_never,
            nr_used: self.nr_used + other.nr_used,
            nr_appeared: self.nr_appeared + other.nr_appeared,
            nr_freed: self.nr_freed + other.nr_freed,
        }
    }
}
