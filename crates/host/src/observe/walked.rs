//! What becomes of one walk.
//!
//! **Owns** these figures. **Does not own** the walk (`Observer`).

use super::left_out::{LeftOut, LeftOuts};
use crate::news::News;
use std::time::Duration;
use strata_linux::access::WalkCost;
use strata_linux::process::ProcessError;

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
    /// What is new of that, and of who may not be read.
    pub(crate) news: Vec<News>,
    /// Processes that may not be read, and why; each told once.
    pub refused: Vec<String>,
    /// What could not be watched, and why, also who was left out or may not be read; members each told once.
    pub troubles: Vec<String>,
}

impl Walked {
    /// Notes processes that can't be watched.
    pub(super) fn refuse(&mut self, refused: &[(i32, ProcessError)]) {
        for (_, error) in refused {
            match error {
                // The root group is full of them, and they have no memory to watch.
                ProcessError::KernelThread { .. } => continue,
                ProcessError::NotPermitted { .. } => self.refused.push(error.to_string()),
                _ => {}
            }
            self.troubles.push(error.to_string());
        }
    }

    /// Adds how long it took, and what is new of who was left out and of who may not be read.
    pub(super) fn end(mut self, took: Duration, known: &mut LeftOuts) -> Walked {
        self.wall_ns = took.as_nanos() as u64;
        self.news = known.look(&self.left_out);
        for news in &self.news {
            if let News::Warning(text) = news {
                self.troubles.push(text.clone());
            }
        }
        self.news.extend(known.look_at_refused(&self.refused));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_for_troubles_hears_of_each_process_once() {
        let mut known = LeftOuts::default();
        let mut told = Vec::new();
        for _ in 0..3 {
            let mut walked = Walked::default();
            walked.left_out.push(LeftOut {
                pid: 7,
                comm: "db".to_owned(),
                why: "its thread waits".to_owned(),
            });
            told.extend(walked.end(Duration::ZERO, &mut known).troubles);
        }
        assert_eq!(told, ["process 7 (db): its thread waits"]);
    }
}
