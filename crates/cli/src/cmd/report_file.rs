//! The file of `--report`.
//!
//! **Owns** writing it as a whole or not at all. **Does not own** what is in it.
//!
//! **Invariants** F1: a place that can't be written is found out before the run. F2: whoever reads
//! the file sees the old text or the new one, never a part; a device or pipe is written straight.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use strata_host::control::Report;

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
                "the report can't be written to {}: {why}; name a file in a directory that exists \
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
    pub(crate) fn write(self, report: &Report) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(report).context("the report is not JSON")?;
        text.push('\n');
        let (path, written) = match self {
            ReportFile::Stream(path, mut stream) => (path, stream.write_all(text.as_bytes())),
            ReportFile::Regular(path) => {
                let written = replace(&path, &text);
                (path, written)
            }
        };
        written.with_context(|| format!("the report could not be written to {}", path.display()))
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
