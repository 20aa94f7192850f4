//! `--trace`: what each tick of the loop read, what it decided, and what became of it, as JSON lines in a file.
//!
//! ```text
//!   whoever reads or decides --note--> [the tick so far] --end_tick--> a line --> write --> the file
//! ```
//!
//! **Owns** the lines of a run. **Does not own** the tick that is being recorded and the format
//! (`strata_control::trace`; in words: `docs/reference/control-trace.md`), the file (`write`), what the host's own types are called
//! there (`names`), nor reading (`read`).
//!
//! **Invariants** I1: a trace that can't go on ends with one warning; the run goes on. A trace has no holes: what is
//! there is all there was up to its end.

pub(super) mod names;
mod read;
mod write;

pub use read::{ReadError, Recorded, read};
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

    /// Writes the first line. Returns what the user should know, as all that write do.
    pub(super) fn write_header(&mut self, header: impl FnOnce() -> Header) -> Option<String> {
        self.writer.as_ref()?;
        self.write(&Line::Header(Box::new(header())))
    }

    /// Writes what the tick has come to.
    pub(super) fn end_tick(&mut self) -> Option<String> {
        let tick = self.recorder.take()?;
        self.write(&Line::Tick(Box::new(tick)))
    }

    /// Writes the last line, and waits a little until all is in the file.
    pub(super) fn finish(mut self, end: impl FnOnce(Vec<Report>) -> End) -> Option<String> {
        let reports = self.recorder.take()?.reports;
        self.writer.as_ref()?;
        let line = Line::End(Box::new(end(reports)));
        self.write(&line)
            .or_else(|| self.writer.take().and_then(Writer::finish))
    }

    fn write(&mut self, line: &Line) -> Option<String> {
        let writer = self.writer.as_mut()?;
        let trouble = writer.write(line)?;
        self.writer = None;
        Some(trouble)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_noted_in_a_tick_is_in_its_line_and_in_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace");
        let mut trace = Trace::begin(&path).unwrap();
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            ..Header::default()
        };
        assert_eq!(trace.write_header(|| header.clone()), None);
        let others = trace.recorder();
        for now_ms in [5, 10] {
            trace.recorder().note(|tick| tick.now_ms = now_ms);
            others.note(|tick| tick.sample.own_cpu_ns = Some(now_ms));
            assert_eq!(trace.end_tick(), None);
        }
        let late = Report::Clear {
            wall_ns: 3,
            held_ns: 2,
            nr_left_pieces: 0,
        };
        others.note(|tick| tick.reports.push(late.clone()));
        let end = |reports| End {
            now_ms: 12,
            reports,
            ..End::default()
        };
        assert_eq!(trace.finish(end), None);
        let text = fs::read(&path).unwrap();
        let recorded = read(text.as_slice()).unwrap();
        assert_eq!(recorded.header, header);
        let noted = recorded.ticks.iter().map(|tick| tick.sample.own_cpu_ns);
        assert_eq!(noted.collect::<Vec<_>>(), [Some(5), Some(10)]);
        assert_eq!(recorded.end.map(|end| end.reports), Some(vec![late]));
    }

    #[test]
    fn without_a_trace_nothing_is_noted_or_written() {
        let mut trace = Trace::default();
        trace.recorder().note(|_| unreachable!("there is no tick"));
        assert_eq!(trace.write_header(|| unreachable!("nor a header")), None);
        assert_eq!(trace.end_tick(), None);
        assert_eq!(trace.finish(|_| unreachable!("nor an end")), None);
    }

    #[test]
    fn a_full_disk_ends_the_trace_with_one_warning() {
        let mut trace = Trace::begin(Path::new("/dev/full")).unwrap();
        trace.write_header(Header::default);
        let mut warnings = Vec::new();
        for now_ms in 0..100_000 {
            trace.recorder().note(|tick| tick.now_ms = now_ms);
            warnings.extend(trace.end_tick());
        }
        warnings.extend(trace.finish(|_| unreachable!("it has ended before")));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("No space left"), "{warnings:?}");
    }
}
