//! The metrics file for node_exporter's collector.
//!
//! **Owns** when it is written, that readers see a whole one, and that it goes with the run. **Does not own**
//! the figures.

use crate::whole_file::{self, FileId, Fresh};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The file is written this often.
const TEXTFILE_EVERY: Duration = Duration::from_secs(15);

/// The file for node_exporter.
#[derive(Debug)]
pub(super) struct Textfile {
    /// Path of the file.
    pub(super) path: PathBuf,
    due: Instant,
    /// The figures for it are on their way.
    pub(super) is_asked: bool,
    /// The file could not be written, which is told once.
    pub(super) has_failed: bool,
    /// What lies there and is ours.
    written: Option<FileId>,
}

impl Textfile {
    /// Due at once.
    pub(super) fn new(path: PathBuf) -> Textfile {
        Textfile {
            path,
            due: Instant::now(),
            is_asked: false,
            has_failed: false,
            written: None,
        }
    }

    /// Whether figures are to be asked for now.
    pub(super) fn fall_due(&mut self, now: Instant) -> bool {
        if self.is_asked || now < self.due {
            return false;
        }
        self.due = now + TEXTFILE_EVERY;
        self.is_asked = true;
        true
    }

    /// When they are to be asked for next.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_asked).then_some(self.due)
    }

    /// Readers see the old text or the new one, never a part.
    pub(super) fn write(&mut self, text: &str) -> io::Result<()> {
        // The collector runs as somebody else.
        self.written = Some(whole_file::replace(
            &self.path,
            text.as_bytes(),
            Fresh::Public,
        )?);
        Ok(())
    }

    /// Figures of a run that is over would be shown for ever.
    pub(super) fn remove(&self) {
        if let Some(written) = self.written {
            let _removed = written.remove_from(&self.path);
        }
    }
}
