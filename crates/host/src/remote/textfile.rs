//! The metrics file for node_exporter's collector.
//!
//! **Owns** when it is written, that readers see a whole one, and that it goes with the run. **Does not own**
//! the figures.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The file is written this often.
const TEXTFILE_EVERY: Duration = Duration::from_secs(15);

/// The file for node_exporter.
#[derive(Debug)]
pub(super) struct Textfile {
    /// Its place.
    pub(super) path: PathBuf,
    due: Instant,
    /// The figures for it are on their way.
    pub(super) is_asked: bool,
    /// It could not be written, which is told once.
    pub(super) has_failed: bool,
}

impl Textfile {
    /// Due at once.
    pub(super) fn new(path: PathBuf) -> Textfile {
        Textfile {
            path,
            due: Instant::now(),
            is_asked: false,
            has_failed: false,
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
    pub(super) fn write(&self, text: &str) -> io::Result<()> {
        let draft = self.draft();
        fs::write(&draft, text)?;
        // The collector runs as somebody else.
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o644))?;
        fs::rename(&draft, &self.path)
    }

    /// The collector reads `*.prom`, so a draft must not end so.
    fn draft(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.draft", std::process::id()));
        self.path.with_file_name(name)
    }

    /// Figures of a run that is over would be shown for ever.
    pub(super) fn remove(&self) {
        let _removed = fs::remove_file(self.draft());
        let _removed = fs::remove_file(&self.path);
    }
}
