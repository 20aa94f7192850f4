//! The swap that is made for what is parked.
//!
//! **Owns** that it stays as long as something is parked, and is one. **Does not own** how swap works (`strata_linux::swap`).
//!
//! **Invariants** I1: swap is recorded before it is made, so that the next `park` or `wake` finds it however this one ended.

use crate::keeper::{self, Session, SessionError};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use strata_linux::swap::{self, SwapDevice, SwapError, SwapSpec};

/// The session that the swap is recorded in.
const NAME: &str = "park";
/// How long another `park` or `wake` is waited for that has it: taking swap down takes seconds.
const WAIT_MAX: Duration = Duration::from_secs(30);
const WAIT_POLL: Duration = Duration::from_millis(20);

/// Why there is no swap, or why it stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HouseError {
    /// Its state can't be kept.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Its state can't be written.
    #[error("the state of the swap can't be written, so none was made: {0}")]
    State(#[source] std::io::Error),
    /// There is another kind.
    #[error(
        "what is parked lies in {}, and {asked} is asked for; ask for that kind again, or wake all first: strata wake --all",
        path.display()
    )]
    Another {
        /// The device or file.
        path: PathBuf,
        /// What is asked for now.
        asked: SwapSpec,
    },
    /// No swap.
    #[error(transparent)]
    Swap(#[from] SwapError),
    /// It stays.
    #[error("{}", .0.join("; "))]
    Left(Vec<String>),
}

/// Has swap as it is asked for: made now, or by a `park` before. It stays when this process has ended.
pub(super) fn prepare(spec: &SwapSpec) -> Result<(), HouseError> {
    if *spec == SwapSpec::Existing {
        return Ok(());
    }
    let session = open()?;
    let journal = session.journal();
    if let Some(record) = session.swap() {
        let (path, is_as_asked) = (record.path.clone(), record.is_as(spec));
        match SwapDevice::take_over(record, &journal)? {
            Some(_) if is_as_asked => return session.leave().map_err(HouseError::State),
            Some(_) => {
                let asked = spec.clone();
                return Err(HouseError::Another { path, asked });
            }
            None => {}
        }
    }
    let made = swap::remove_stale(spec)
        .map_err(HouseError::Swap)
        .and_then(|()| session.keep_swap().map_err(HouseError::State))
        .and_then(|()| Ok(SwapDevice::create(spec, &journal)?));
    match made {
        Ok(_) => session.leave().map_err(HouseError::State),
        Err(error) => {
            session.finish(None);
            Err(error)
        }
    }
}

/// Takes the swap down that was made for what was parked. Returns its path; `None`: there was none.
///
/// # Errors
/// It stays in use, and why.
pub(super) fn release() -> Result<Option<PathBuf>, HouseError> {
    if !strata_linux::run_dir::run_dir().join(NAME).exists() {
        return Ok(None);
    }
    let session = open()?;
    let path = session.swap().map(|record| record.path);
    let left = session.finish(None);
    match left.is_empty() {
        true => Ok(path),
        false => Err(HouseError::Left(
            left.iter().map(ToString::to_string).collect(),
        )),
    }
}

fn open() -> Result<Session, HouseError> {
    if let Err(error) = keeper::recover() {
        tracing::warn!("what dead sessions left stays: {error}");
    }
    let deadline = Instant::now() + WAIT_MAX;
    loop {
        match Session::create(NAME) {
            Err(error) if error.is_taken() && Instant::now() < deadline => {
                thread::sleep(WAIT_POLL);
            }
            session => return Ok(session?),
        }
    }
}
