//! Cleaning up after those who could not: the second line, at the next start.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::state::{State, claim_directory, remove_directory};
use super::undo::{Due, carry_out, is_waiting};
use strata_linux::run_dir::trust::{self, Missing};
use strata_linux::run_dir::{boot_id, is_common, run_dir};

/// What was found of a session that nobody holds any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Name of the session.
    pub id: String,
    /// What was done.
    pub outcome: Outcome,
}

/// What became of a session's leftovers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is undone, its directory gone.
    Cleaned,
    /// The program of the session still runs, without a keeper: limits are undone, swap and group stay.
    ProgramRunning,
    /// Something could not be undone, one reason a line; the directory stays for the next time.
    Left(Vec<String>),
}

/// Looks through the run directory and undoes what nobody holds. Sessions of living Stratas and
/// keepers, and those that keep their swap, are left alone and not reported.
///
/// # Errors
/// If the run directory can't be read; one that does not exist holds nothing.
pub fn recover() -> io::Result<Vec<Recovered>> {
    recover_in(&run_dir())
}

/// [`recover`] below another run directory.
pub fn recover_in(run_dir: &Path) -> io::Result<Vec<Recovered>> {
    match trust::check_directory(run_dir, Missing::Refuse) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        checked => checked?,
    }
    let entries = match fs::read_dir(run_dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut directories: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| !is_common(name)))
        .collect();
    directories.sort();
    let mut found = Vec::new();
    for directory in directories {
        if is_kept(&directory) {
            continue;
        }
        let outcome = match claim_directory(run_dir, &directory) {
            Ok(Some(_lock)) => recover_one(&directory),
            Ok(None) => continue,
            Err(error) => Outcome::Left(vec![error.to_string()]),
        };
        let id = directory.file_name().unwrap_or_default();
        found.push(Recovered {
            id: id.to_string_lossy().into_owned(),
            outcome,
        });
    }
    Ok(found)
}

/// Whether what is left in a session's directory is to stay: its swap, as long as the machine runs.
fn is_kept(directory: &Path) -> bool {
    let state = State::load(directory).ok().flatten();
    state.is_some_and(|state| {
        state.keeps_swap
            && state.swap().is_some()
            && boot_id().is_ok_and(|now| now == state.boot_id)
    })
}

fn recover_one(directory: &Path) -> Outcome {
    let left = |why: &dyn std::fmt::Display| {
        Outcome::Left(vec![format!("{}: {why}", directory.display())])
    };
    let mut state = match State::load(directory) {
        Ok(state) => state,
        Err(error) => {
            return left(&format!(
                "state.json can't be read ({error}); look at it, then remove the directory"
            ));
        }
    };
    if let Some(state) = &mut state {
        let due = match boot_id() {
            Ok(now) if now == state.boot_id => Due::AfterTheProgram,
            Ok(_) => Due::AfterReboot,
            Err(error) => return left(&error),
        };
        let is_running = due == Due::AfterTheProgram && is_waiting(state);
        let due = if is_running { Due::AtOnce } else { due };
        let errors = carry_out(state, directory, due);
        if !errors.is_empty() {
            return Outcome::Left(errors.iter().map(ToString::to_string).collect());
        }
        if is_running {
            return Outcome::ProgramRunning;
        }
    }
    match remove_directory(directory) {
        Ok(()) => Outcome::Cleaned,
        Err(error) => left(&error),
    }
}
