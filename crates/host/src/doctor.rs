//! What this machine offers, what is missing, and what mends it.
//!
//! **Owns** the list of requirements ([`examine`]) and whether `run` can work ([`can_run`]); what a refault costs ([`measure()`]).
//! **Does not own** how the list is shown, nor any mending: `examine` changes nothing but a process and a file descriptor of its
//! own, `measure` nothing but memory, a file and swap that it makes.
//!
//! **Invariants**
//! - I1: every check that is not ok names what to do about it.
//! - I2: names are stable: tests and scripts ask for them.

mod kernel;
mod measure;
mod memory;
mod privileges;
mod system;

pub use measure::{Refault, measure};

use std::fs;
use std::path::{Path, PathBuf};

/// How a requirement is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// What is required is there (or nothing depends on it, and it is only told).
    Ok,
    /// Not there; everything works without it, only less well or less of it.
    Limited,
    /// Not there, and `run` can't work without it.
    Missing,
}

/// One requirement, looked at.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// Stable name, snake case.
    pub name: &'static str,
    /// How the requirement is met.
    pub status: Status,
    /// What needs it to be met.
    pub needed_for: &'static str,
    /// What was found.
    pub found: String,
    /// What to do about it, a command where there is one; `None` if it is met.
    pub remedy: Option<String>,
}

impl Check {
    /// A check about to be answered.
    fn named(name: &'static str, needed_for: &'static str) -> Check {
        Check {
            name,
            status: Status::Ok,
            needed_for,
            found: String::new(),
            remedy: None,
        }
    }

    fn ok(self, found: impl Into<String>) -> Check {
        let found = found.into();
        Check { found, ..self }
    }

    fn limited(self, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check {
            status: Status::Limited,
            remedy: Some(remedy.into()),
            ..self.ok(found)
        }
    }

    fn missing(self, found: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check {
            status: Status::Missing,
            ..self.limited(found, remedy)
        }
    }
}

/// The files of a machine: the real ones, or those of a made-up machine in a test.
struct Machine {
    root: PathBuf,
}

impl Machine {
    fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    fn has(&self, absolute: &str) -> bool {
        self.path(absolute).exists()
    }

    /// A file's text without the white space around it.
    fn text(&self, absolute: &str) -> Option<String> {
        fs::read_to_string(self.path(absolute))
            .ok()
            .map(|text| text.trim().to_owned())
    }
}

/// Looks at everything, in the order in which it should be mended.
pub fn examine() -> Vec<Check> {
    let machine = Machine {
        root: Path::new("/").to_owned(),
    };
    let mut checks = kernel::checks(&machine);
    checks.extend(privileges::checks(&machine));
    checks.push(kernel::page_walk());
    checks.push(kernel::clearing());
    checks.extend(memory::checks(&machine));
    checks.extend(system::checks(&machine));
    checks
}

/// Whether `run` can hold a budget here, if perhaps with less than everything.
pub fn can_run(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.status != Status::Missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that consists of these files.
    pub(super) fn made_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        let machine = Machine {
            root: directory.path().to_owned(),
        };
        for (name, text) in files {
            let path = machine.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        (directory, machine)
    }

    #[test]
    fn what_is_not_ok_names_its_remedy_and_what_is_ok_has_none() {
        for check in examine() {
            let is_met = check.status == Status::Ok;
            assert_eq!(check.remedy.is_none(), is_met, "{check:?}");
            assert!(
                !check.found.is_empty() && !check.needed_for.is_empty(),
                "{check:?}"
            );
        }
    }

    #[test]
    fn a_machine_with_nothing_is_told_everything_and_can_not_run() {
        let (_directory, machine) = made_of(&[]);
        let mut checks = kernel::checks(&machine);
        checks.extend(privileges::checks(&machine));
        assert!(!can_run(&checks));
        assert!(
            checks
                .iter()
                .filter(|check| check.status != Status::Ok)
                .count()
                >= 5
        );
    }

    #[test]
    fn every_name_is_there_once() {
        let checks = examine();
        let mut names: Vec<&str> = checks.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), checks.len());
    }

    #[test]
    fn what_is_only_limited_does_not_keep_run_from_working() {
        let limited = Check::named("x", "a test").limited("none", "nothing");
        let missing = Check::named("y", "a test").missing("none", "nothing");
        assert!(can_run(std::slice::from_ref(&limited)));
        assert!(!can_run(&[limited, missing]));
    }
}
