//! `--trace`: what each turn of the loop read, what it decided, and what came of it, as JSON lines in a file.
//!
//! ```text
//!   whoever reads, decides or acts --note--> [the turn so far] --end_turn--> a line --> write --> the file
//! ```
//!
//! **Owns** the lines of a run. **Does not own** the turn that is being recorded and what a line says
//! (`strata_control::trace`), nor the file (`write`).
//!
//! **Invariants** I1: a trace that can't go on ends with one warning; the run goes on. A trace has no holes: what is
//! there is all there was up to its end.

mod write;

pub use strata_control::trace::*;
use write::Writer;

use std::io;
use std::path::Path;

/// A trace never grows larger than this: 256 MiB, more than an hour of a loop that has work all the time.
pub const TRACE_BYTES_MAX: u64 = 256 << 20;

/// The trace of a run, if there is one.
#[derive(Debug, Default)]
pub(super) struct Trace {
    recorder: Recorder,
    /// `None` without a trace, or after its end.
    writer: Option<Writer>,
}

impl Trace {
    /// Begins one in this file, which is emptied.
    ///
    /// # Errors
    /// When nothing can be written there: as [`crate::whole_file::truncate`].
    pub(super) fn begin(path: &Path) -> io::Result<Trace> {
        Ok(Trace {
            recorder: Recorder::recording(),
            writer: Some(Writer::start(path, TRACE_BYTES_MAX)?),
        })
    }

    /// For those who note.
    pub(super) fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Writes what the turn has come to. Returns what the user should know.
    pub(super) fn end_turn(&mut self) -> Option<String> {
        let turn = self.recorder.take()?;
        let trouble = self.writer.as_mut()?.write(&turn)?;
        self.writer = None;
        Some(trouble)
    }

    /// Writes what was heard after the last turn, and waits a little until all is in the file.
    pub(super) fn finish(mut self) -> Option<String> {
        self.end_turn()
            .or_else(|| self.writer.take().and_then(Writer::finish))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use strata_lru::TimeMs;

    #[test]
    fn what_is_noted_in_a_turn_is_in_its_line_and_in_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut trace = Trace::begin(&path).unwrap();
        let others = trace.recorder();
        let cleared = |wall_ns| Note::Cleared {
            wall_ns,
            held_ns: 2,
            nr_left_pieces: 0,
        };
        for ms in [5, 10] {
            trace.recorder().turn(|turn| turn.now = TimeMs(ms));
            others.note(|| cleared(ms));
            assert_eq!(trace.end_turn(), None);
        }
        others.note(|| cleared(12));
        assert_eq!(trace.finish(), None);
        let text = fs::read_to_string(&path).unwrap();
        let turns = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let noted = turns.map(|turn: Turn| (turn.now.0, turn.notes));
        let expected = [(5, 5), (10, 10), (0, 12)];
        let expected = expected.map(|(ms, wall_ns)| (ms, vec![cleared(wall_ns)]));
        assert_eq!(noted.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn without_a_trace_nothing_is_noted_or_written() {
        let mut trace = Trace::default();
        trace.recorder().note(|| unreachable!("there is no turn"));
        assert_eq!(trace.end_turn(), None);
        assert_eq!(trace.finish(), None);
    }

    #[test]
    fn a_full_disk_ends_the_trace_with_one_warning() {
        let mut trace = Trace::begin(Path::new("/dev/full")).unwrap();
        let mut warnings = Vec::new();
        for _ in 0..100_000 {
            warnings.extend(trace.end_turn());
        }
        warnings.extend(trace.finish());
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("No space left"), "{warnings:?}");
    }
}
