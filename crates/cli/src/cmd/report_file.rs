//! The files of `--report` and `--plot`.
//!
//! **Owns** writing it as a whole or not at all. **Does not own** what is in it.
//!
//! **Invariants** F1: a place that can't be written is found out before the run. F2: whoever reads
//! the file sees the old text or the new one, never a part; a device or pipe is written straight.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;

use crate::failure::UsageError;

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
            Ok(found) if !found.is_file() => {
                let stream = File::options()
                    .write(true)
                    .open(&path)
                    .map_err(|e| fail(&e))?;
                Ok(ReportFile::Stream(path, stream))
            }
            // A symbolic link stays: the file it leads to is replaced.
            found => {
                let target = match found {
                    Ok(_) => fs::canonicalize(&path).map_err(|e| fail(&e))?,
                    Err(_) => path.clone(),
                };
                let draft = draft_of(&target).ok_or_else(|| fail(&"it names no file"))?;
                File::create_new(&draft).map_err(|e| fail(&e))?;
                fs::remove_file(&draft).map_err(|e| fail(&e))?;
                Ok(ReportFile::Regular(target))
            }
        }
    }

    /// Writes the report.
    pub(crate) fn write(self, report: &impl Serialize) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(report).context("the report is not JSON")?;
        text.push('\n');
        self.write_text(&text)
    }

    /// Writes a text that is complete as it is.
    pub(crate) fn write_text(self, text: &str) -> anyhow::Result<()> {
        let (path, written) = match self {
            ReportFile::Stream(path, mut stream) => (path, stream.write_all(text.as_bytes())),
            ReportFile::Regular(path) => {
                let written = replace(&path, text);
                (path, written)
            }
        };
        written.with_context(|| format!("writing to {} failed", path.display()))
    }
}

/// Tries out a place for a file that others replace as a whole; where a link leads to is the place.
///
/// # Errors
/// [`UsageError`] if nothing could be written there, or it is no regular file.
pub(crate) fn try_regular(path: PathBuf) -> Result<PathBuf, UsageError> {
    match ReportFile::try_place(path)? {
        ReportFile::Regular(path) => Ok(path),
        ReportFile::Stream(path, _) => Err(UsageError(format!(
            "{} is no regular file: it is to be replaced as a whole; name another",
            path.display()
        ))),
    }
}

/// A name beside the file, on the same file system, that nobody else uses.
fn draft_of(path: &Path) -> Option<PathBuf> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name()?);
    name.push(format!(".{}.tmp", std::process::id()));
    Some(path.with_file_name(name))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let draft = draft_of(path).ok_or(io::ErrorKind::InvalidFilename)?;
    let written = File::create_new(&draft)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        // Nothing to add if it is not there.
        let _ = fs::remove_file(&draft);
    }
    written
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
    fn a_report_replaces_the_old_one_through_a_link_that_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("real.json");
        let link = directory.path().join("link.json");
        fs::write(&path, "a much longer text than what comes now").unwrap();
        symlink(&path, &link).unwrap();
        let file = ReportFile::try_place(link.clone()).unwrap();
        file.write(&7).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "7\n");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names_in(directory.path()), ["link.json", "real.json"]);
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
