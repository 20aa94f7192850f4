//! What a guard changes outside of programs, and undoes: the swap that it makes. Also that there is one guard only.
//!
//! ```text
//!   prepare          takes over the swap that the guard before has left, or makes its own
//!   leave_swap       the guard ends, its swap stays in use: programs go on without the wait for what is there
//!   release          the guard ends, what is in its swap is read back in
//!   release_left     as much, where no guard runs
//! ```
//!
//! **Owns** the guard's session and its swap. **Does not own** how they work (`keeper`).
//!
//! **Invariants**
//! - I1: swap is all that a guard leaves, and it stays until somebody asks for its end: no keeper is needed before. Groups that a
//!   guard had stopped when it was killed go on when the next Strata begins that changes anything, or by `strata wake --all`.

use super::status::{NAME, Status, SwapStatus};
use super::writer::{ToWrite, Writer};
use crate::keeper::{self, KeptSwap, KeptSwapError, Session, command_of, owner_of};
use crate::news::News;
use std::path::PathBuf;
use std::time::Duration;
use strata_linux::swap::SwapSpec;

/// Why a guard can't begin, or its swap not be released.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HouseError {
    /// There is one.
    #[error("a guard runs already: {by}; end that one first")]
    Taken {
        /// Which, or where its state is.
        by: String,
    },
    /// Its swap.
    #[error(transparent)]
    Swap(#[from] KeptSwapError),
}

/// A guard's session and swap.
#[derive(Debug)]
pub struct House {
    kept: KeptSwap,
    writer: Writer,
}

impl House {
    /// Undoes what dead sessions left, and takes the guard's swap over or makes it.
    ///
    /// # Errors
    /// [`HouseError`]; nothing is left behind that was not there before.
    pub fn prepare(spec: &SwapSpec) -> Result<House, HouseError> {
        let session = open()?;
        let writer = Writer::start(session.journal(), session.directory().to_owned())
            .map_err(KeptSwapError::State)?;
        let kept = session.keep(spec, "strata guard --release")?;
        Ok(House { kept, writer })
    }

    /// The swap that the guard before has left, if this one has taken it over, for people.
    pub fn taken_over(&self) -> Option<String> {
        let mut told = self.kept.is_taken_over.then(|| self.told()).flatten()?;
        if let Some(unlike) = &self.kept.unlike {
            told += &format!("; {unlike}");
        }
        Some(told)
    }

    /// The swap that this guard keeps, if it has any of its own.
    pub fn swap(&self) -> Option<SwapStatus> {
        SwapStatus::of(self.kept.device.path()?)
    }

    /// The swap that a guard has left in use which has ended.
    pub fn left() -> Option<SwapStatus> {
        SwapStatus::of(&keeper::look_at(NAME)?.swap()?.path)
    }

    /// What writes down what has to be undone, without that anybody waits.
    pub fn to_write(&self) -> ToWrite {
        self.writer.jobs().clone()
    }

    /// Leaves the status where `strata guard status` finds it, soon.
    pub fn leave(&mut self, status: &Status) {
        self.writer.status(status.clone());
    }

    /// What people are told since it was asked last.
    pub fn news(&mut self) -> Vec<News> {
        self.writer.news()
    }

    /// How much others have asked to be moved to slower memory since this was last called, bytes.
    pub fn demotion_asked_bytes(&self) -> u64 {
        self.writer.asked_bytes()
    }

    /// Ends, and leaves the swap in use to the next guard. Returns it for people, if there is one.
    pub fn leave_swap(self) -> Option<String> {
        let told = self.told();
        self.writer.end();
        if told.is_none() {
            self.kept.session.finish(None);
        }
        told
    }

    /// Ends, and takes the swap down, which reads back in what is there. One that holds more than fits into memory stays.
    ///
    /// # Errors
    /// What stays, and why.
    pub fn release(self) -> Result<(), HouseError> {
        self.writer.end();
        self.kept.session.release()?;
        Ok(())
    }

    /// Takes down the swap that a guard has left, as [`House::release`]. Returns its path; `None`: there was none.
    ///
    /// # Errors
    /// A guard runs; or what stays, and why.
    pub fn release_left() -> Result<Option<PathBuf>, HouseError> {
        Ok(open()?.release()?)
    }

    fn told(&self) -> Option<String> {
        let path = self.kept.device.path()?.display();
        Some(
            self.swap()
                .map_or_else(|| path.to_string(), |swap| swap.to_string()),
        )
    }
}

fn open() -> Result<Session, HouseError> {
    Session::open(NAME, Duration::ZERO).map_err(|error| match error.is_taken() {
        true => HouseError::Taken {
            by: match owner_of(NAME) {
                Ok(Some(owner)) => format!("pid {} ({})", owner.pid, command_of(owner.pid)),
                _ => format!("its state is in {}", error.path.display()),
            },
        },
        false => HouseError::Swap(error.into()),
    })
}
