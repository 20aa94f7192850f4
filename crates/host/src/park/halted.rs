//! What was stopped for parking, as its note says it, and letting that go on.
//!
//! **Owns** that value. **Does not own** stopping (`halt`).

use std::io;
use std::path::PathBuf;
use strata_linux::cgroup::{self, CgroupError};
use strata_linux::process::halt;
use strata_linux::run_dir::ProcessMark;

/// What is stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Halted {
    /// Nothing, by us.
    #[default]
    No,
    /// A group, by this control file.
    Freezer {
        /// The file.
        #[serde(with = "cgroup::as_text")]
        path: PathBuf,
    },
    /// Processes, each by SIGSTOP.
    Signal {
        /// Who.
        processes: Vec<ProcessMark>,
    },
    /// Several of these: it was stopped more than once, each time another way.
    Several {
        /// Each.
        all: Vec<Halted>,
    },
}

impl Halted {
    /// Both, each group and process once.
    pub(super) fn and(self, other: Halted) -> Halted {
        let mut all = self.parts();
        for part in other.parts() {
            let is_same = |one: &&mut Halted| match (&part, &**one) {
                (Halted::Signal { .. }, Halted::Signal { .. }) => true,
                (part, one) => part == one,
            };
            match (all.iter_mut().find(is_same), part) {
                (Some(Halted::Signal { processes }), Halted::Signal { processes: more }) => {
                    processes.extend(more);
                    processes.sort_by_key(|mark| (mark.start_ticks, mark.pid));
                    processes.dedup();
                }
                (Some(_), _) => {}
                (None, part) => all.push(part),
            }
        }
        match all.len() {
            0 | 1 => all.pop().unwrap_or_default(),
            _ => Halted::Several { all },
        }
    }

    fn parts(self) -> Vec<Halted> {
        match self {
            Halted::No => Vec::new(),
            Halted::Several { all } => all,
            one => vec![one],
        }
    }

    /// What of it has stopped any of these processes.
    pub(super) fn of(self, pids: &[i32]) -> Halted {
        let is_any = |pid: &i32| pids.contains(pid);
        let parts = self.parts().into_iter().map(|part| match part {
            Halted::Signal { mut processes } => {
                processes.retain(|mark| is_any(&mark.pid));
                match processes.is_empty() {
                    true => Halted::No,
                    false => Halted::Signal { processes },
                }
            }
            Halted::Freezer { path } => {
                let inside = path.parent().map(cgroup::processes_below);
                match inside.is_some_and(|found| found.is_ok_and(|all| all.iter().any(is_any))) {
                    true => Halted::Freezer { path },
                    false => Halted::No,
                }
            }
            part => part,
        });
        parts.fold(Halted::No, Halted::and)
    }

    /// Whether anything of it stands still, as of this moment.
    pub fn is_standing(&self) -> bool {
        match self {
            Halted::No => false,
            Halted::Freezer { path } => cgroup::is_frozen(path).unwrap_or(false),
            Halted::Signal { processes } => processes
                .iter()
                .any(|mark| mark.is_running() && halt::is_stopped(mark.pid).unwrap_or(false)),
            Halted::Several { all } => all.iter().any(Halted::is_standing),
        }
    }

    /// Lets all go on that is stopped.
    ///
    /// # Errors
    /// The first that does not, and why; all others go on.
    pub(super) fn go_on(&self) -> Result<(), GoOnError> {
        match self {
            Halted::No => Ok(()),
            Halted::Freezer { path } => Ok(cgroup::thaw(path)?),
            Halted::Signal { processes } => {
                let go_on = |mark: &ProcessMark| {
                    halt::go_on(*mark).map_err(|source| GoOnError::Signal {
                        pid: mark.pid,
                        source,
                    })
                };
                processes.iter().rev().map(go_on).fold(Ok(()), Result::and)
            }
            Halted::Several { all } => all.iter().map(Halted::go_on).fold(Ok(()), Result::and),
        }
    }
}

/// What was stopped does not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GoOnError {
    /// The control file.
    #[error(transparent)]
    Group(#[from] CgroupError),
    /// The signal.
    #[error("process {pid} can't be sent SIGCONT: {source}")]
    Signal {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn signal(pids: &[i32]) -> Halted {
        let mark = |pid: &i32| ProcessMark {
            pid: *pid,
            start_ticks: 7,
        };
        Halted::Signal {
            processes: pids.iter().map(mark).collect(),
        }
    }

    #[test]
    fn what_was_stopped_in_several_ways_is_known_in_each_once() {
        let freezer = |name: &str| Halted::Freezer {
            path: PathBuf::from("/nowhere").join(name).join("cgroup.freeze"),
        };
        let of = |all: &[&Halted]| {
            let all = all.iter().map(|one| (*one).clone());
            all.fold(Halted::No, Halted::and)
        };
        assert_eq!(of(&[]), Halted::No);
        assert_eq!(of(&[&freezer("a"), &freezer("a")]), freezer("a"));
        assert_eq!(of(&[&signal(&[4]), &signal(&[2, 4])]), signal(&[2, 4]));
        let both = of(&[&signal(&[4]), &freezer("a"), &signal(&[5])]);
        let all = vec![signal(&[4, 5]), freezer("a")];
        assert_eq!(both, Halted::Several { all });
        assert_eq!(of(&[&both, &both]), both);
        assert_eq!(
            both.clone().of(&[5, 6]),
            signal(&[5]),
            "nobody is in the group"
        );
        assert_eq!(signal(&[4]).of(&[6]), Halted::No);
        assert!(!both.is_standing(), "nobody is there");
    }

    #[test]
    fn a_group_whose_name_is_no_text_is_noted() {
        let path = PathBuf::from(OsString::from_vec(b"/g/\xff/\\xff/cgroup.freeze".to_vec()));
        let halted = Halted::Freezer { path };
        let text = serde_json::to_string(&halted).expect("text");
        assert_eq!(serde_json::from_str::<Halted>(&text).expect("read"), halted);
    }
}
