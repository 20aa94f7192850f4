//! Stopping what is parked, and letting it go on.
//!
//! Where the processes are all of a group that a freezer holds, the freezer stops them, which nobody sees; else each gets
//! SIGSTOP, which a parent does see.
//!
//! **Owns** the choice between both, and that it is recorded. **Does not own** the two ways (`strata_linux`).
//!
//! **Invariants**
//! - H1: until [`Halt::leave`], a death of Strata lets all go on.
//! - H2: what somebody else has stopped is left to them.

use super::halted::Halted;
use super::note;
use crate::keeper::{KeeperWatch, Session, SessionError, fresh_id};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use strata_linux::cgroup::{self, Freezer, GroupReader, HaltError};
use strata_linux::process::{Process, halt};
use strata_linux::undo::Undo;

/// Why nothing is stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// Nobody would let it go on.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// As much.
    #[error("nothing is stopped, as no keeper could be started that would let it go on: {0}")]
    Keeper(#[source] io::Error),
    /// A group.
    #[error(transparent)]
    Freezer(#[from] HaltError),
    /// A process.
    #[error("process {pid} is not stopped: {source}")]
    Signal {
        /// The process.
        pid: i32,
        /// Why.
        source: io::Error,
    },
}

/// What this Strata has stopped, as long as it is not done.
#[derive(Debug)]
pub(super) struct Halt {
    session: Session,
    keeper: KeeperWatch,
    freezer: Option<Freezer>,
    halted: Halted,
    /// What people should know.
    pub(super) notes: Vec<String>,
}

impl Halt {
    /// Nothing is stopped yet, and somebody is there who would let it go on.
    pub(super) fn prepare() -> Result<Halt, StopError> {
        let session = Session::create(&fresh_id())?;
        let keeper = KeeperWatch::start(&session).map_err(StopError::Keeper)?;
        Ok(Halt {
            session,
            keeper,
            freezer: None,
            halted: Halted::No,
            notes: Vec::new(),
        })
    }

    /// Stops these processes; `group` holds all of them and nobody else, where there is such a group. What stands still by an
    /// earlier parking does.
    pub(super) fn stop(
        &mut self,
        processes: &[Arc<Process>],
        group: Option<&GroupReader>,
    ) -> Result<(), StopError> {
        match group.map(Freezer::find) {
            Some(Ok(freezer)) if cgroup::is_frozen(freezer.file()).map_err(HaltError::from)? => {
                if !note::is_frozen_by_us(freezer.file()) {
                    let path = group.map_or_else(PathBuf::new, |group| group.path().to_owned());
                    let error = HaltError::Taken(path);
                    self.notes.push(format!("{error}, and stays so"));
                }
                return Ok(());
            }
            Some(Ok(freezer)) => {
                freezer.freeze(&self.session.journal())?;
                self.halted = Halted::Freezer {
                    path: freezer.file().to_owned(),
                };
                self.freezer = Some(freezer);
                return Ok(());
            }
            Some(Err(HaltError::NoFreezer { .. })) | None => {}
            Some(Err(error)) => return Err(error.into()),
        }
        self.notes
            .push("stopped by SIGSTOP, as no freezer holds just these processes".to_owned());
        for process in processes {
            self.stop_one(process)?;
        }
        Ok(())
    }

    /// Stops a process that came in the meantime, where signals are the way.
    pub(super) fn stop_late(&mut self, processes: &[Arc<Process>]) -> Result<bool, StopError> {
        let Halted::Signal { processes: known } = &self.halted else {
            return Ok(false);
        };
        let is_known = |process: &&Arc<Process>| known.iter().any(|mark| mark.pid == process.pid());
        let late: Vec<&Arc<Process>> = processes.iter().filter(|one| !is_known(one)).collect();
        let mut has_stopped = false;
        for process in late {
            has_stopped |= self.stop_one(process)?;
        }
        Ok(has_stopped)
    }

    fn stop_one(&mut self, process: &Process) -> Result<bool, StopError> {
        let pid = process.pid();
        match halt::stop(process, &self.session.journal()) {
            Ok(Some(mark)) => {
                match &mut self.halted {
                    Halted::Signal { processes } => processes.push(mark),
                    halted => {
                        *halted = Halted::Signal {
                            processes: vec![mark],
                        };
                    }
                }
                Ok(true)
            }
            // Stopped by somebody else, or gone.
            Ok(None) => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
            Err(_) if !process.is_alive() => Ok(false),
            Err(source) => Err(StopError::Signal { pid, source }),
        }
    }

    /// What is stopped.
    pub(super) fn halted(&self) -> &Halted {
        &self.halted
    }

    /// Ends, and leaves stopped what is: its note says so by now. Returns what went wrong.
    pub(super) fn leave(self) -> Vec<String> {
        let journal = self.session.journal();
        let forgotten = match (&self.freezer, &self.halted) {
            (Some(freezer), _) => freezer.forget(&journal),
            (None, Halted::Signal { processes }) => processes
                .iter()
                .try_for_each(|mark| journal.forget(&Undo::GoOn { process: *mark })),
            (None, _) => Ok(()),
        };
        let mut told: Vec<String> = self.finish();
        if let Err(error) = forgotten {
            told.push(format!(
                "it does not stay stopped, as that can't be noted: {error}"
            ));
        }
        told
    }

    /// Ends; all that was stopped goes on.
    pub(super) fn finish(self) -> Vec<String> {
        let (left, _) = self.keeper.finish(self.session);
        left.iter().map(ToString::to_string).collect()
    }
}
