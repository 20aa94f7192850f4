//! Cleaning up after those who could not: the second line, at the next start.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::state::{State, claim_directory, remove_directory};
use super::undo::{Due, carry_out, is_waiting};
use strata_linux::run_dir::trust::{self, Missing};
use strata_linux::run_dir::{boot_id, is_common, names, run_dir};
use strata_linux::undo::Undo;

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
/// keepers, and to a user those of others, are left alone, swap that is kept stays, and neither is reported.
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
    let names = names(run_dir)?.into_iter().filter(|name| !is_common(name));
    let directories = names.map(|name| run_dir.join(name));
    let mut found = Vec::new();
    let own = rustix::process::geteuid();
    // What a user may not undo is left to root.
    let is_ours =
        |found: Metadata| found.is_dir() && (own.is_root() || found.uid() == own.as_raw());
    for directory in directories.filter(|path| fs::symlink_metadata(path).is_ok_and(is_ours)) {
        let is_kept = is_kept(&directory);
        let outcome = match claim_directory(run_dir, &directory) {
            Ok(Some(_lock)) if is_kept => match recover_kept(&directory) {
                Some(left) => left,
                None => continue,
            },
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

/// Of a session that keeps its swap all else is undone: nothing stands still by who has died. `None`: there is no more to say.
fn recover_kept(directory: &Path) -> Option<Outcome> {
    let mut state = State::load(directory).ok().flatten()?;
    if state.undo.iter().all(|undo| matches!(undo, Undo::Swap(_))) {
        return None;
    }
    let errors = carry_out(&mut state, directory, Due::AtOnce);
    let left = errors.iter().map(ToString::to_string).collect();
    (!errors.is_empty()).then_some(Outcome::Left(left))
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use strata_linux::process::halt;
    use strata_linux::run_dir::ProcessMark;
    use strata_linux::swap::{Backing, SwapRecord};

    #[test]
    fn whoever_a_dead_session_has_stopped_goes_on_though_its_swap_is_kept() {
        let run_dir = tempfile::tempdir().expect("a directory");
        let mut child = Command::new("sleep").arg("60").spawn().expect("starts");
        let pid = child.id() as i32;
        let stopped = ProcessMark::of(pid).expect("runs");
        let _ = Command::new("kill")
            .args(["-STOP", &pid.to_string()])
            .status();
        while !halt::is_stopped(pid).expect("there") {}
        let swap = Undo::Swap(SwapRecord {
            path: "/dev/zram4242".into(),
            uuid: "none".to_owned(),
            backing: Backing::Zram {
                index: 4242,
                is_hot_added: false,
            },
            number: None,
        });
        let dead = ProcessMark {
            start_ticks: stopped.start_ticks + 1,
            ..stopped
        };
        let mut state = State::new(boot_id().expect("a boot"), dead);
        state.keeps_swap = true;
        state.undo = vec![swap.clone(), Undo::GoOn { process: stopped }];
        let directory = run_dir.path().join("guard");
        fs::create_dir(&directory).expect("made");
        state.save(&directory).expect("saved");
        assert_eq!(recover_in(run_dir.path()).expect("looked"), []);
        let is_stopped = halt::is_stopped(pid).expect("there");
        let left = State::load(&directory).expect("read").expect("kept");
        let _ = child.kill().and_then(|()| child.wait());
        assert!(!is_stopped);
        assert_eq!(left.undo, [swap]);
    }
}
