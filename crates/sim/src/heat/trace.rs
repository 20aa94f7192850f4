//! A trace as a picture: which pages were accessed when, and how soon again.
//!
//! Page numbers of a trace may be anything, so rows are of pages in the order of their first access, and columns count
//! accesses, as many traces have no time.
//!
//! **Owns** the counters. **Does not own** the trace.

use strata_trace::{Access, AccessReader, BATCH_LEN, Backing, Op, Via};

use super::{Columns, NR_COLUMNS, halve, no_cells};
use crate::intern::Interner;
use crate::workload::LoadError;

/// Rows at most; even.
const ROWS_MAX: usize = 128;

/// Pages that were accessed first one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// The first of them, by first access.
    pub first_page: u64,
    /// How many they are.
    pub nr_pages: u64,
    /// Accesses by column.
    pub cells: Vec<u64>,
}

/// Accesses that came to a page again after so many others, its own included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// At least so many, a power of two; the class ends before twice as many.
    pub at_least: u64,
    /// Accesses.
    pub nr_accesses: u64,
}

/// A trace as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceHeat {
    /// Accesses of a column.
    pub width: u64,
    /// Columns that are filled.
    pub nr_columns: usize,
    /// Pages in order of their first access.
    pub rows: Vec<TraceRow>,
    /// Pages that are accessed for the first time, by column.
    pub first: Vec<u64>,
    /// The classes up to the last that is not empty.
    pub reuse: Vec<Reuse>,
    /// All accesses.
    pub nr_accesses: u64,
    /// Accesses that write.
    pub nr_writes: u64,
    /// Accesses through descriptors.
    pub nr_descriptor: u64,
    /// Distinct pages: anonymous, and of files.
    pub nr_pages: [u64; 2],
    /// From the earliest access to the latest, microseconds; 0 without times.
    pub duration_us: u64,
}

struct Counting {
    columns: Columns,
    pages: Interner,
    /// When each page was last accessed.
    last: Vec<u64>,
    /// Pages of a row.
    row_pages: usize,
    rows: Vec<Vec<u64>>,
    reuse: [u64; 64],
    times_us: Option<(u64, u64)>,
    heat: TraceHeat,
}

impl TraceHeat {
    /// Reads a trace to its end, in at most so many bytes.
    ///
    /// # Errors
    /// The reader's, and [`LoadError::TooLarge`] before more is taken.
    pub fn read(
        name: &str,
        reader: &mut dyn AccessReader,
        bytes_max: u64,
    ) -> Result<TraceHeat, LoadError> {
        let mut counting = Counting::new();
        let mut batch = Vec::with_capacity(BATCH_LEN);
        while reader.read_batch(&mut batch)? > 0 {
            let nr_more = batch.len();
            let of_pages = (counting.last.len() + nr_more) * 2 * size_of::<u64>();
            if counting.pages.bytes_with(nr_more) + of_pages as u64 > bytes_max {
                return Err(LoadError::TooLarge {
                    name: name.to_owned(),
                    bytes_max,
                    nr_requests: counting.heat.nr_accesses as usize,
                    nr_pages: counting.last.len(),
                });
            }
            batch.iter().for_each(|access| counting.add(access));
        }
        Ok(counting.finish())
    }
}

impl Counting {
    fn new() -> Counting {
        Counting {
            columns: Columns { first: 0, width: 1 },
            pages: Interner::new(),
            last: Vec::new(),
            row_pages: 1,
            rows: Vec::new(),
            reuse: [0; 64],
            times_us: None,
            heat: TraceHeat {
                first: no_cells(),
                ..TraceHeat::default()
            },
        }
    }

    fn add(&mut self, access: &Access) {
        let at = self.heat.nr_accesses;
        self.heat.nr_accesses += 1;
        self.heat.nr_writes += u64::from(access.op == Op::Write);
        self.heat.nr_descriptor += u64::from(access.via == Via::FileDescriptor);
        let (earliest, latest) = self.times_us.unwrap_or((access.time_us, access.time_us));
        self.times_us = Some((earliest.min(access.time_us), latest.max(access.time_us)));
        let (column, nr_halvings) = self.columns.place(at);
        for _ in 0..nr_halvings {
            halve(&mut self.heat.first);
            self.rows.iter_mut().for_each(|row| halve(row));
        }
        let (page, is_new) = self.pages.number(access.key);
        if is_new {
            self.last.push(at);
            self.heat.first[column] += 1;
            self.heat.nr_pages[usize::from(access.backing != Backing::Anon)] += 1;
        } else {
            let last = &mut self.last[page as usize];
            self.reuse[(at - *last).ilog2() as usize] += 1;
            *last = at;
        }
        while page as usize / self.row_pages >= ROWS_MAX {
            self.row_pages *= 2;
            let rows = std::mem::take(&mut self.rows);
            let pairs = rows.chunks(2).map(|pair| match pair {
                [one, other] => one
                    .iter()
                    .zip(other)
                    .map(|(one, other)| one + other)
                    .collect(),
                one => one.concat(),
            });
            self.rows = pairs.collect();
        }
        let row = page as usize / self.row_pages;
        if row >= self.rows.len() {
            self.rows.resize_with(row + 1, no_cells);
        }
        self.rows[row][column] += 1;
    }

    fn finish(self) -> TraceHeat {
        let width = self.columns.width;
        let nr_columns = self.heat.nr_accesses.div_ceil(width) as usize;
        let nr_columns = nr_columns.min(NR_COLUMNS);
        let row_pages = self.row_pages as u64;
        let nr_pages = self.last.len() as u64;
        let rows = self.rows.into_iter().zip(0..).map(|(cells, number)| {
            let first_page = number * row_pages;
            TraceRow {
                first_page,
                nr_pages: row_pages.min(nr_pages - first_page),
                cells,
            }
        });
        let nr_classes = self
            .reuse
            .iter()
            .rposition(|nr| *nr > 0)
            .map_or(0, |at| at + 1);
        let classes = self.reuse[..nr_classes].iter().zip(0..);
        let reuse = classes.map(|(nr_accesses, shift)| Reuse {
            at_least: 1 << shift,
            nr_accesses: *nr_accesses,
        });
        TraceHeat {
            width,
            nr_columns,
            rows: rows.collect(),
            reuse: reuse.collect(),
            duration_us: self.times_us.map_or(0, |(first, last)| last - first),
            ..self.heat
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_trace::Generator;

    fn read(name: &str, bytes_max: u64) -> Result<TraceHeat, LoadError> {
        let mut generator: Generator = name.parse().unwrap();
        TraceHeat::read(name, &mut generator, bytes_max)
    }

    #[test]
    fn a_loop_is_used_again_after_as_many_accesses_as_it_has_pages() {
        let heat = read("gen:loop,pages=1000,accesses=100000", u64::MAX).unwrap();
        assert_eq!(heat.nr_accesses, 100_000);
        assert_eq!(heat.nr_pages.iter().sum::<u64>(), 1000);
        // All but the first round, after 1000 accesses.
        let last = heat.reuse.last().copied();
        assert_eq!(
            last,
            Some(Reuse {
                at_least: 512,
                nr_accesses: 99_000
            })
        );
        assert_eq!(
            heat.reuse.iter().map(|of| of.nr_accesses).sum::<u64>(),
            99_000
        );
        let of_rows = heat.rows.iter().flat_map(|row| &row.cells).sum::<u64>();
        assert_eq!(of_rows, 100_000);
        assert_eq!(heat.rows.iter().map(|row| row.nr_pages).sum::<u64>(), 1000);
        assert!(heat.rows.len() <= ROWS_MAX && heat.nr_columns <= NR_COLUMNS);
        assert_eq!(heat.first.iter().sum::<u64>(), 1000);
    }

    #[test]
    fn more_pages_than_memory_holds_are_refused() {
        let refused = read("gen:loop,pages=100000,accesses=100000", 1 << 20).unwrap_err();
        assert!(refused.to_string().contains("--max-memory"), "{refused}");
    }
}
