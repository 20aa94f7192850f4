//! What becomes of one walk.
//!
//! **Owns** these figures. **Does not own** the walk (`Observer`).

use super::left_out::LeftOut;
use std::time::Duration;
use strata_linux::access::WalkCost;

/// What one walk cost and could not do.
#[derive(Debug, Default)]
pub struct Walked {
    /// When the walk began, since the observer was opened.
    pub at: Duration,
    /// Wall time of the whole walk, nanoseconds.
    pub wall_ns: u64,
    /// Cost of reading tables.
    pub cost: WalkCost,
    /// Time of the walk that clearing accessed bits took; nanoseconds.
    pub clear_ns: u64,
    /// How long clearing held the lock of the address space, of the space where that was longest; nanoseconds.
    pub held_ns: u64,
    /// Pieces of tables that keep their accessed bits, because they can't be cleared, or not without holding a program
    /// up.
    pub nr_left_pieces: u64,
    /// Pages that were left out of clearing, because their bits stayed set the last time: several processes map them.
    pub nr_resting_pages: u64,
    /// Spaces walked.
    pub nr_spaces: u64,
    /// Spaces left out, because they have not run.
    pub nr_idle_spaces: u64,
    /// CPU time of the thread that walked; nanoseconds.
    pub cpu_ns: u64,
    /// What it took to ask which pages several processes map.
    pub mappers: Duration,
    /// Who was left out.
    pub left_out: Vec<LeftOut>,
    /// What could not be watched, and why; members each told once.
    pub troubles: Vec<String>,
}
