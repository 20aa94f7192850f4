//! `clear`: clears accessed bits piece by piece while its owner goes on.
//!
//! **Owns** the thread, the request and the report. **Does not own** what is young, nor how a piece is cleared
//! (`access::clear_pieces`).
//!
//! **Invariants**
//! - C1: at most one request is outstanding.
//! - C2: nobody waits for the thread, not even at the end. What is not cleared by then stays as it is.

use std::io;
use std::sync::Arc;

use super::worker::Worker;
use crate::access::{AccessError, Cleared, YoungPiece, clear_pieces};
use crate::process::Process;

/// What is young in one process.
pub type ClearRequest = (Arc<Process>, Vec<YoungPiece>);
/// What became of that.
pub(crate) type ClearReport = (Cleared, Result<(), AccessError>);

/// The thread.
#[derive(Debug)]
pub struct ClearThread {
    worker: Worker<Vec<ClearRequest>, Vec<ClearReport>>,
}

impl ClearThread {
    /// Starts it.
    pub fn start() -> io::Result<ClearThread> {
        let worker = Worker::start("strata-clear", 1, |requests: Vec<ClearRequest>, stop| {
            let clear = |(process, young): &ClearRequest| {
                let is_over = || stop.is_set() || !process.is_space_current();
                let mut cleared = Cleared::default();
                let result = clear_pieces(process, young.iter(), is_over, &mut cleared);
                (cleared, result)
            };
            requests.iter().map(clear).collect()
        })?;
        Ok(ClearThread { worker })
    }

    /// Hands pieces over; false if the last ones are not done and polled yet.
    pub fn try_submit(&mut self, requests: Vec<ClearRequest>) -> bool {
        self.worker.try_submit(requests).is_ok()
    }

    /// Whether a request is out.
    pub fn is_busy(&self) -> bool {
        self.worker.nr_in_flight() > 0
    }

    /// Takes the report of the last request, if it is there.
    pub fn poll(&mut self) -> Option<Vec<ClearReport>> {
        self.worker.poll()
    }
}
