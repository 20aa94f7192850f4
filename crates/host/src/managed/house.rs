//! What a guard changes outside of programs, and undoes: the swap that it makes. Also that there is one guard only.
//!
//! ```text
//!   prepare          takes over the swap that the guard before has left, or makes its own
//!   leave_swap       the guard ends, its swap stays in use: programs go on without the wait for what is there
//!   release          the guard ends, what is in its swap is read back in
//!   release_left     as much, where no guard runs
//! ```
//!
//! **Owns** the guard's session and its swap. **Does not own** how they work (`keeper`, `strata_linux::swap`).
//!
//! **Invariants**
//! - I1: swap is recorded before it is made, so that the next guard finds it however this one ended.
//! - I2: there is one swap device of a guard at most.
//! - I3: swap is all that a guard leaves, and it stays until somebody asks for its end: no keeper is needed. Groups that a
//!   guard had stopped when it was killed go on when the next one begins, or `strata guard --release`.

use super::status::{NAME, Status};
use super::writer::{ToWrite, Writer};
use crate::keeper::{self, Session, SessionError};
use std::io;
use std::path::PathBuf;
use strata_linux::swap::{self, SwapDevice, SwapError, SwapSpec};
use strata_linux::units::Bytes;

/// Why a guard can't begin, or its swap not be released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HouseError {
    /// There is one.
    #[error("a guard runs already (its state is in {0}); end that one first")]
    Taken(PathBuf),
    /// Its state can't be kept.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its state can't be written.
    #[error("the guard's state can't be written, so no swap was made: {0}")]
    State(#[source] io::Error),
    /// The guard before has left another kind of swap.
    #[error(
        "the guard before has left its swap {} in use, and {asked} is asked for; ask for that kind again, or take \
         it down first: strata guard --release",
        path.display()
    )]
    AnotherSwap {
        /// The device or file.
        path: PathBuf,
        /// What is asked for now.
        asked: SwapSpec,
    },
    /// No swap.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// What the swap holds stays there.
    #[error("{}", .0.join("; "))]
    Left(Vec<String>),
}

/// A guard's session and swap.
#[derive(Debug)]
pub struct House {
    session: Session,
    writer: Writer,
    swap: SwapDevice,
    is_taken_over: bool,
}

impl House {
    /// Undoes what dead sessions left, and takes the guard's swap over or makes it.
    ///
    /// # Errors
    /// [`HouseError`]; nothing is left behind that was not there before.
    pub fn prepare(spec: &SwapSpec) -> Result<House, HouseError> {
        let session = open_session()?;
        let journal = session.journal();
        let writer = Writer::start(journal.clone(), session.directory().to_owned())
            .map_err(HouseError::State)?;
        if let Some(record) = session.swap() {
            let (path, is_as_asked) = (record.path.clone(), record.is_as(spec));
            match SwapDevice::take_over(record, &journal)? {
                Some(_) if !is_as_asked => {
                    let asked = spec.clone();
                    return Err(HouseError::AnotherSwap { path, asked });
                }
                Some(swap) => {
                    return Ok(House {
                        session,
                        writer,
                        swap,
                        is_taken_over: true,
                    });
                }
                None => {}
            }
        }
        let made = swap::remove_stale(spec)
            .map_err(HouseError::Swap)
            .and_then(|()| session.keep_swap().map_err(HouseError::State))
            .and_then(|()| Ok(SwapDevice::create(spec, &journal)?));
        match made {
            Ok(swap) => Ok(House {
                session,
                writer,
                swap,
                is_taken_over: false,
            }),
            Err(error) => {
                session.finish(None);
                Err(error)
            }
        }
    }

    /// The swap that the guard before has left, if this one has taken it over, for people.
    pub fn taken_over(&self) -> Option<String> {
        self.is_taken_over.then(|| self.told()).flatten()
    }

    /// What writes down what has to be undone, without that anybody waits.
    pub fn to_write(&self) -> ToWrite {
        self.writer.jobs().clone()
    }

    /// Leaves the status where `strata guard status` finds it, soon.
    pub fn leave(&self, status: &Status) {
        self.writer.jobs().status(status.clone());
    }

    /// Ends, and leaves the swap in use to the next guard. Returns it for people, if there is one.
    pub fn leave_swap(self) -> Option<String> {
        let told = self.told();
        self.writer.end();
        if told.is_none() {
            self.session.finish(None);
        }
        told
    }

    /// Ends, and takes the swap down, which reads back in what is there. One that holds more than fits into memory stays.
    ///
    /// # Errors
    /// What stays, and why.
    pub fn release(self) -> Result<(), HouseError> {
        self.writer.end();
        finish(self.session)
    }

    /// Takes down the swap that a guard has left, as [`House::release`]. Returns its path; `None`: there was none.
    ///
    /// # Errors
    /// A guard runs; or what stays, and why.
    pub fn release_left() -> Result<Option<PathBuf>, HouseError> {
        let session = open_session()?;
        let path = session.swap().map(|record| record.path);
        finish(session)?;
        Ok(path)
    }

    fn told(&self) -> Option<String> {
        let path = self.swap.path()?;
        let used_bytes = self.swap.used_bytes().unwrap_or(0);
        Some(format!(
            "{}, which holds {}",
            path.display(),
            Bytes(used_bytes)
        ))
    }
}

fn open_session() -> Result<Session, HouseError> {
    if let Err(error) = keeper::recover() {
        tracing::warn!("what dead sessions left stays: {error}");
    }
    Session::create(NAME).map_err(|error| match error.is_taken() {
        true => HouseError::Taken(error.path),
        false => HouseError::Session(error),
    })
}

fn finish(session: Session) -> Result<(), HouseError> {
    let left = session.finish(None);
    match left.is_empty() {
        true => Ok(()),
        false => Err(HouseError::Left(
            left.iter().map(ToString::to_string).collect(),
        )),
    }
}
