//! The program stops, or the terminal asks the whole job to; and going on.
//!
//! **Owns** what Strata does then: it stays awake, or it lifts the limit and stops too. **Does not own**
//! the choice between the two (`process::job`).
//!
//! **Invariants**
//! - T1: Strata never sleeps with a limit in force: nobody would give way at it, and with the OOM killer
//!   off whoever meets it would wait for ever.

use super::Session;
use std::time::Instant;
use strata_linux::process::job::{self, Then};
use strata_linux::process::launch::WaitStatus;

/// What is told where the keeper had us go on.
pub(super) const WOKEN: &str = "Strata was stopped by somebody, and its keeper had it go on: stopped, it can't give way at its \
     limit; `strata ctl pause` has it rest";

impl Session<'_> {
    /// Ctrl-Z, or a request that an attached Strata stops.
    pub(super) fn asked_to_stop(&mut self) {
        let owns_program = self.program.is_child();
        let then = match owns_program {
            true => self.job.terminal_asks(Instant::now()),
            false => Then::Suspend,
        };
        self.heed(then);
    }

    /// The program has been stopped, or goes on.
    pub(super) fn note_stop(&mut self, status: WaitStatus) {
        let then = self.job.changed(status);
        self.heed(then);
    }

    fn heed(&mut self, then: Then) {
        if then == Then::StayAwake {
            return;
        }
        let now = self.now();
        if let Some(managed) = &mut self.managed {
            managed.wait_for_kernel(now);
        }
        if let Err(error) = self.arena.let_go() {
            self.warn(format!(
                "Strata stays awake while the program is stopped, because its limit can't be \
                 lifted: {error}"
            ));
        } else {
            let program = self.program.pid().filter(|_| self.program.is_child());
            match job::suspend(program) {
                Ok(Some(waker)) => self.signals.note_waker(waker),
                Ok(None) => {}
                Err(error) => self.warn(format!(
                    "Strata stays awake while the program is stopped, because nobody could be \
                     started to wake it: {error}"
                )),
            }
        }
        if let Err(error) = self.arena.take_hold() {
            self.warn(format!("the limit could not be set again: {error}"));
        }
    }
}
