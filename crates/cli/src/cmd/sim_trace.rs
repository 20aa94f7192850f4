//! `strata sim --trace`: the turns of one steered run, gathered and written as a whole.
//!
//! **Owns** the lines until they are written. **Does not own** what they say (`strata_control::trace`, through the simulator),
//! nor the file (`report_file`).
//!
//! **Invariants** I1: no more is kept than a trace of a run on Linux may hold.

use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use strata_host::run::trace::{TRACE_BYTES_MAX, Turn};
use strata_sim::Progress;

use crate::cmd::report_file::ReportFile;
use crate::print;
use crate::progress::Bar;

/// The lines of a trace, and where they are to go.
#[derive(Debug)]
pub(crate) struct Lines {
    place: ReportFile,
    text: Mutex<Text>,
}

#[derive(Debug, Default)]
struct Text {
    lines: String,
    /// Why there are no more lines; those before stay.
    end: Option<String>,
}

impl Lines {
    /// None yet.
    pub(crate) fn new(place: ReportFile) -> Lines {
        Lines {
            place,
            text: Mutex::default(),
        }
    }

    fn add(&self, turn: &Turn) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if text.end.is_some() {
            return;
        }
        match serde_json::to_string(turn) {
            Ok(line) if (text.lines.len() + line.len()) as u64 >= TRACE_BYTES_MAX => {
                let mib = TRACE_BYTES_MAX >> 20;
                text.end = Some(format!("it would be larger than {mib} MiB"));
            }
            Ok(line) => {
                text.lines.push_str(&line);
                text.lines.push('\n');
            }
            Err(error) => text.end = Some(error.to_string()),
        }
    }

    /// Writes all of them.
    pub(crate) fn write(self) -> anyhow::Result<()> {
        let text = self.text.into_inner();
        let text = text.unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &text.end {
            print::note(&format!("the trace ends before the run does: {why}"));
        }
        self.place
            .write_text(&text.lines)
            .context("the control loop's trace")
    }
}

/// A run that is shown on a bar, and traced where that was asked for.
pub(crate) struct Watched<'a> {
    pub(crate) bar: &'a Bar,
    pub(crate) lines: Option<&'a Lines>,
}

impl Progress for Watched<'_> {
    fn advance(&self, nr_requests: u64) {
        self.bar.advance(nr_requests);
    }

    fn trace(&self, turn: &Turn) {
        if let Some(lines) = self.lines {
            lines.add(turn);
        }
    }
}
