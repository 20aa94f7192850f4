//! Which memory was used when: a recording or a trace as a picture of bounded size.
//!
//! Time goes into at most [`NR_COLUMNS`] columns, memory into rows. Where there is more of either than fits, two columns or
//! two rows become one.
//!
//! **Owns** what is counted of a recording (`recording`; told in `bands`) and of a trace (`trace`). **Does not own** how it is shown, nor the
//! formats (`strata-trace`).
//!
//! **Invariants**
//! - I1: memory is bounded, whatever is read; what a bound leaves out is counted.
//! - I2: two columns that become one have the sums of both.

mod bands;
mod recording;
mod trace;

pub use bands::{AgeClass, Band, Pages, RecordingHeat, Row, Total, Which};
pub use trace::{Reuse, TraceHeat, TraceRow};

/// Columns of time at most; even.
pub const NR_COLUMNS: usize = 240;

/// Columns that double in width whenever time goes beyond the last.
#[derive(Clone, Copy, Debug)]
struct Columns {
    first: u64,
    width: u64,
}

impl Columns {
    /// The column of a time, and how often two columns have to become one before.
    fn place(&mut self, at: u64) -> (usize, u32) {
        let since = at.saturating_sub(self.first);
        let mut nr_halvings = 0;
        while since / self.width >= NR_COLUMNS as u64 {
            self.width = self.width.saturating_mul(2);
            nr_halvings += 1;
        }
        ((since / self.width) as usize, nr_halvings)
    }
}

/// Two columns become one.
fn halve(cells: &mut [u64]) {
    for at in 0..cells.len() / 2 {
        cells[at] = cells[2 * at].saturating_add(cells[2 * at + 1]);
    }
    let half = cells.len() / 2;
    cells[half..].fill(0);
}

/// No cell is filled.
fn no_cells() -> Vec<u64> {
    vec![0; NR_COLUMNS]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_hold_all_that_came_however_long_it_took(times in prop::collection::vec(0..1_u64 << 40, 1..300)) {
            let mut times = times;
            times.sort_unstable();
            let mut columns = Columns { first: times[0], width: 1000 };
            let mut cells = no_cells();
            for at in &times {
                let (column, nr_halvings) = columns.place(*at);
                (0..nr_halvings).for_each(|_| halve(&mut cells));
                cells[column] += 1;
            }
            prop_assert_eq!(cells.iter().sum::<u64>(), times.len() as u64);
            for (column, nr) in cells.iter().enumerate() {
                let begin = times[0] + column as u64 * columns.width;
                let within = |at: &&u64| (begin..begin + columns.width).contains(*at);
                prop_assert_eq!(*nr, times.iter().filter(within).count() as u64);
            }
        }
    }
}
