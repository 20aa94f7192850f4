//! What a guard changes outside of programs, and undoes: the swap that it makes. Also that there is one guard only.
//!
//! **Owns** the guard's session, its keeper and its swap. **Does not own** how they work (`keeper`,
//! `strata_linux::swap`).
//!
//! **Invariants** I1: swap is recorded before it is made, so that the keeper takes it down if Strata dies.

use super::status::{NAME, Status};
use crate::keeper::{self, KeeperWatch, Session, SessionError};
use std::io;
use std::time::Instant;
use strata_linux::swap::{SwapDevice, SwapError, SwapSpec};

/// Why a guard can't begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HouseError {
    /// There is one.
    #[error("a guard runs already (its state is in {0}); end that one first")]
    Taken(std::path::PathBuf),
    /// Its state can't be kept.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// No keeper.
    #[error("starting the keeper failed: {0}")]
    Keeper(#[source] io::Error),
    /// No swap.
    #[error(transparent)]
    Swap(#[from] SwapError),
}

/// A guard's session, keeper and swap.
#[derive(Debug)]
pub struct House {
    session: Session,
    keeper: KeeperWatch,
    swap: Option<SwapDevice>,
}

impl House {
    /// Undoes what dead sessions left, and makes the swap.
    ///
    /// # Errors
    /// [`HouseError`]; nothing is left behind.
    pub fn prepare(spec: &SwapSpec) -> Result<House, HouseError> {
        if let Err(error) = keeper::recover() {
            tracing::warn!("what dead sessions left stays: {error}");
        }
        let session = Session::create(NAME).map_err(|error| match error.is_taken() {
            true => HouseError::Taken(error.path),
            false => HouseError::Session(error),
        })?;
        let keeper = match KeeperWatch::start(&session) {
            Ok(keeper) => keeper,
            Err(error) => {
                session.finish(None);
                return Err(HouseError::Keeper(error));
            }
        };
        let mut house = House {
            session,
            keeper,
            swap: None,
        };
        match SwapDevice::create(spec, &house.session.journal()) {
            Ok(swap) => {
                house.swap = Some(swap);
                Ok(house)
            }
            Err(error) => {
                house.end();
                Err(error.into())
            }
        }
    }

    /// Looks after the keeper. Returns what the user should know.
    pub fn tend(&mut self) -> Option<String> {
        self.keeper.tend(&self.session, Instant::now())
    }

    /// Leaves the status where `strata guard status` finds it.
    pub fn leave(&self, status: &Status) {
        if let Err(error) = status.leave(self.session.directory()) {
            tracing::debug!("the status is not left: {error}");
        }
    }

    /// Takes the swap down, which reads back in what is there. Returns what could not be undone.
    pub fn end(mut self) -> Vec<String> {
        if let Some(mut swap) = self.swap.take()
            && let Err(error) = swap.take_down()
        {
            tracing::debug!("{error}");
        }
        let (left, _) = self.keeper.finish(self.session);
        left.iter().map(ToString::to_string).collect()
    }
}
