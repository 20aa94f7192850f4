//! Work on a thread of its own, so that whoever waits for it can be interrupted.
//!
//! Python asks for signals on its first thread only, and only between its own steps. So work is done apart, without the lock of
//! the interpreter, and the caller asks for signals meanwhile. A signal that raises ends the wait at once; the work ends
//! when it next looks.
//!
//! **Owns** the thread and how it is told to stop. **Does not own** the work.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

use pyo3::{PyResult, Python};
use strata_sim::Progress;

use crate::error::failed;

/// How often signals are asked for.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Tells work that nobody waits for it any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Leaves the work here if nobody waits for it. It unwinds as a panic does, but prints nothing: what was begun is
    /// dropped on the way, and there is nobody to give an error to.
    pub(crate) fn check(&self) {
        if self.0.load(Ordering::Relaxed) {
            resume_unwind(Box::new("stopped"));
        }
    }
}

impl Progress for Stop {
    fn advance(&self, _: u64) {
        self.check();
    }
}

/// Does work that may take long. Others may use the interpreter meanwhile.
///
/// # Errors
/// Those of the work, what a signal raises (`KeyboardInterrupt`), and no thread.
pub(crate) fn apart<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Stop) -> PyResult<T> + Send + 'static,
) -> PyResult<T> {
    let stop = Stop::default();
    let (sender, mut receiver) = channel();
    let told = stop.clone();
    Builder::new()
        .name("strata".to_owned())
        .spawn(move || {
            // Nobody receives it where a signal came first.
            let _ = sender.send(work(&told));
        })
        .map_err(|error| failed(format!("can't start a thread: {error}")))?;
    loop {
        let receiver = &mut receiver;
        match py.detach(move || receiver.recv_timeout(SIGNALS_EVERY)) {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    stop.0.store(true, Ordering::Relaxed);
                    return Err(raised);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed("a bug of Strata ended the work; stderr says where"));
            }
        }
    }
}
