//! The files of `--report`, `--plot` and `--html`, and the places of others that are tried before a run.
//!
//! **Owns** writing it as a whole or not at all. **Does not own** what is in it.
//!
//! **Invariants** F1: a place that can't be written is found out before the run. F2: whoever reads
//! the file sees the old text or the new one, never a part; a device or pipe is written straight. F3: the report of a run that
//! nobody reads is given up after [`REPORT_WAIT_MAX`].

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use strata_host::whole_file::{self, Draft, Fresh};

use crate::failure::UsageError;

/// A report waits so long for whoever should read the pipe it goes to.
const REPORT_WAIT_MAX: Duration = Duration::from_secs(5);
/// Who asked for a text, and for nothing but that, waits for its reader.
const TEXT_WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

/// A place where the report can be written.
#[derive(Debug)]
pub(crate) enum ReportFile {
    /// Replaced by renaming a finished file.
    Regular(PathBuf),
    /// A device, pipe or socket, opened.
    Stream(PathBuf, File),
}

impl ReportFile {
    /// Tries the place out and leaves nothing there.
    ///
    /// # Errors
    /// [`UsageError`] if nothing could be written there.
    pub(crate) fn try_place(path: PathBuf) -> Result<ReportFile, UsageError> {
        let fail = |why: &dyn std::fmt::Display| {
            UsageError(format!(
                "nothing can be written to {}: {why}; name a file in a directory that exists \
                 and is yours to write",
                path.display()
            ))
        };
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => Err(fail(&"it is a directory")),
            // A descriptor of ours, by whatever name, is written as it stands.
            Ok(_) if whole_file::is_stream(&path) => {
                let stream = whole_file::open_stream(&path).map_err(|e| fail(&e))?;
                Ok(ReportFile::Stream(path, stream))
            }
            _ => {
                // Removed again when it goes out of scope.
                let _draft = Draft::beside(&path, Fresh::ByUmask).map_err(|e| fail(&e))?;
                Ok(ReportFile::Regular(path))
            }
        }
    }

    /// Writes the report.
    pub(crate) fn write(self, report: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(report).context("the report is not JSON")?;
        text.push('\n');
        self.write_waiting(&text, REPORT_WAIT_MAX)
    }

    /// Writes a text that tells of a run, as its report does.
    pub(crate) fn write_text_of_run(self, text: &str) -> anyhow::Result<()> {
        self.write_waiting(text, REPORT_WAIT_MAX)
    }

    /// Writes a text that is complete as it is.
    pub(crate) fn write_text(self, text: &str) -> anyhow::Result<()> {
        self.write_waiting(text, TEXT_WAIT_MAX)
    }

    fn write_waiting(self, text: &str, most: Duration) -> anyhow::Result<()> {
        let (path, written) = match self {
            ReportFile::Stream(path, stream) => {
                let written = whole_file::write_within(&stream, text.as_bytes(), most);
                (path, written)
            }
            ReportFile::Regular(path) => {
                let written = whole_file::replace(&path, text.as_bytes(), Fresh::ByUmask);
                (path, written.map(|_| ()))
            }
        };
        written.with_context(|| format!("writing to {} failed", path.display()))
    }
}

/// Tries out a place for a file that others replace as a whole.
///
/// # Errors
/// [`UsageError`] if nothing could be written there, or it is no regular file.
pub(crate) fn try_regular(path: PathBuf) -> Result<PathBuf, UsageError> {
    if whole_file::is_stream(&path) {
        return Err(UsageError(format!(
            "{} is no regular file: it is to be replaced as a whole; name another",
            path.display()
        )));
    }
    ReportFile::try_place(path.clone()).map(|_tried| path)
}

/// Tries out a place for a file that grows there. What is there and is no file is not touched: a pipe's reader would take
/// the trial for all there is.
///
/// # Errors
/// [`UsageError`] if nothing could be written there.
pub(crate) fn try_growing(path: &Path) -> Result<(), UsageError> {
    match whole_file::is_stream(path) {
        true => Ok(()),
        false => ReportFile::try_place(path.to_owned()).map(|_tried| ()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    fn names_in(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn trying_a_place_leaves_nothing_there_and_keeps_what_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r.json");
        ReportFile::try_place(path.clone()).unwrap();
        assert!(names_in(directory.path()).is_empty());
        fs::write(&path, "old").unwrap();
        ReportFile::try_place(path.clone()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names_in(directory.path()), ["r.json"]);
    }

    #[test]
    fn a_report_replaces_the_old_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("real.json");
        fs::write(&path, "a much longer text than what comes now").unwrap();
        let file = ReportFile::try_place(path.clone()).unwrap();
        file.write(&7).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "7\n");
        assert_eq!(names_in(directory.path()), ["real.json"]);
    }

    #[test]
    fn a_link_is_refused_and_one_that_comes_later_leads_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let victim = directory.path().join("victim");
        let link = directory.path().join("link.json");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &link).unwrap();
        let refused = ReportFile::try_place(link.clone()).unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        fs::remove_file(&link).unwrap();
        let file = ReportFile::try_place(link.clone()).unwrap();
        symlink(&victim, &link).unwrap();
        file.write(&7).unwrap_err();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_device_is_written_and_not_replaced() {
        let file = ReportFile::try_place(PathBuf::from("/dev/null")).unwrap();
        file.write(&7).unwrap();
        assert!(
            fs::metadata("/dev/null")
                .unwrap()
                .file_type()
                .is_char_device()
        );
    }

    #[test]
    fn a_place_that_vanishes_during_the_run_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = ReportFile::try_place(directory.path().join("r.json")).unwrap();
        drop(directory);
        let error = format!("{:#}", file.write(&7).unwrap_err());
        assert!(
            error.contains("r.json") && error.contains("No such file"),
            "{error}"
        );
    }
}
