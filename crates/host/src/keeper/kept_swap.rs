//! Swap that stays in use when who made it has ended: a guard's, and the swap of what is parked.
//!
//! **Owns** that it is taken over or made, and taken down. **Does not own** how long it stays (`managed`, `park`), nor how swap
//! works (`strata_linux::swap`).
//!
//! **Invariants**
//! - I1: swap is recorded before it is made, so that the next session of the name finds it however this one ended.
//! - I2: a session keeps one device at most.
//! - I3: a device that can't be taken down yet is looked at again by a keeper, which ends with it.

use super::recover::recover;
use super::session::{Session, SessionError};
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use strata_linux::swap::{self, SwapDevice, SwapError, SwapSpec};

/// How often a session is looked for that another process has.
const OPEN_POLL: Duration = Duration::from_millis(20);

/// Why there is no swap that stays, or why it is not taken down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeptSwapError {
    /// No session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The session's state can't be written.
    #[error("the state can't be written, so no swap was made: {0}")]
    State(#[source] io::Error),
    /// There is another kind.
    #[error(
        "the swap {} from before is in use, and {asked} is asked for; ask for that kind again, or take it down \
         first: {ended_by}",
        path.display()
    )]
    Another {
        /// The device or file.
        path: PathBuf,
        /// What is asked for now.
        asked: SwapSpec,
        /// The command that takes it down.
        ended_by: &'static str,
    },
    /// No swap.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// What the swap holds stays there.
    #[error("{}", .0.join("; "))]
    Left(Vec<String>),
}

/// Swap that a session keeps.
#[derive(Debug)]
pub(crate) struct KeptSwap {
    pub(crate) session: Session,
    pub(crate) device: SwapDevice,
    /// Whether the device was there before.
    pub(crate) is_taken_over: bool,
    /// How that is not what is asked for, and what to do, for people.
    pub(crate) unlike: Option<String>,
}

impl Session {
    /// [`Session::create`], after what dead sessions left is undone. One of that name that lives is waited for so long.
    ///
    /// # Errors
    /// [`SessionError`].
    pub(crate) fn open(name: &str, wait_max: Duration) -> Result<Session, SessionError> {
        if let Err(error) = recover() {
            tracing::warn!("what dead sessions left stays: {error}");
        }
        let deadline = Instant::now() + wait_max;
        loop {
            match Session::create(name) {
                Err(error) if error.is_taken() && Instant::now() < deadline => {
                    thread::sleep(OPEN_POLL);
                }
                session => return session,
            }
        }
    }

    /// Takes the swap over that the session before has left, or makes it. `ended_by`: the command that takes it down.
    ///
    /// # Errors
    /// [`KeptSwapError`]; nothing is left behind that was not there before.
    pub(crate) fn keep(
        self,
        spec: &SwapSpec,
        ended_by: &'static str,
    ) -> Result<KeptSwap, KeptSwapError> {
        let journal = self.journal();
        if let Some(record) = self.swap() {
            let (path, is_as_asked) = (record.path.clone(), record.is_as(spec));
            if let Some(device) = SwapDevice::take_over(record, &journal)? {
                let asked = spec.clone();
                return match is_as_asked {
                    true => Ok(KeptSwap {
                        unlike: device.unlike(spec).map(|how| {
                            format!("{how}: {ended_by} first has it made as it is asked for")
                        }),
                        session: self,
                        device,
                        is_taken_over: true,
                    }),
                    false => Err(KeptSwapError::Another {
                        path,
                        asked,
                        ended_by,
                    }),
                };
            }
        }
        let made = swap::remove_stale(spec)
            .map_err(KeptSwapError::Swap)
            .and_then(|()| self.keep_swap().map_err(KeptSwapError::State))
            .and_then(|()| Ok(SwapDevice::create(spec, &journal)?));
        match made {
            Ok(device) => Ok(KeptSwap {
                session: self,
                device,
                is_taken_over: false,
                unlike: None,
            }),
            Err(error) => {
                self.finish(None);
                Err(error)
            }
        }
    }

    /// Ends, and takes the swap down, which reads back in what is there. Returns its path; `None`: there was none.
    ///
    /// # Errors
    /// There is no room for what it holds: it stays until there is, unless the next session of this name takes it over.
    pub(crate) fn release(self) -> Result<Option<PathBuf>, KeptSwapError> {
        let path = self.swap().map(|record| record.path);
        let left = self.finish_or_leave();
        match left.is_empty() {
            true => Ok(path),
            false => Err(KeptSwapError::Left(left)),
        }
    }
}
