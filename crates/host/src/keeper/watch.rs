//! The keeper, looked after while Strata lives.
//!
//! A keeper that has ended or is stopped protects nobody. It is looked at often, replaced or told to go on,
//! and what happened is told.
//!
//! **Owns** when a keeper is replaced, and the count of it. **Does not own** its life (`process`).
//!
//! **Invariants**
//! - G1: a new keeper is started only when the former one has ended, so that no two undo the same.
//! - G2: nothing here waits, but for the end of a keeper that is sent home, and for that not for ever.

use std::time::{Duration, Instant};

use super::process::{Condition, Keeper};
use super::session::Session;
use super::undo::UndoError;
use super::{KeeperEnd, KeeperReport};

/// A keeper that can't be started is tried again after this.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A session's keeper, or the want of one.
#[derive(Debug)]
pub struct KeeperWatch {
    keeper: Option<Keeper>,
    retry_at: Option<Instant>,
    report: KeeperReport,
}

impl KeeperWatch {
    /// Starts the first keeper of a session.
    pub fn start(session: &Session) -> std::io::Result<KeeperWatch> {
        Ok(KeeperWatch {
            keeper: Some(Keeper::spawn(session)?),
            retry_at: None,
            report: KeeperReport::default(),
        })
    }

    /// The keeper's process id.
    pub fn pid(&self) -> Option<i32> {
        self.keeper.as_ref().map(Keeper::pid)
    }

    /// Looks after the keeper; cheap. Returns what the user should know.
    pub fn tend(&mut self, session: &Session, now: Instant) -> Option<String> {
        let Some(keeper) = &mut self.keeper else {
            if self.retry_at.is_some_and(|at| now < at) {
                return None;
            }
            let started = self.replace(session, now);
            return started
                .ok()
                .map(|pid| format!("there is a keeper again (pid {pid})"));
        };
        let pid = keeper.pid();
        match keeper.look() {
            Condition::Fine => None,
            Condition::Stopped => {
                keeper.wake();
                self.report.nr_stops += 1;
                Some(format!(
                    "the keeper (pid {pid}) was stopped by somebody and told to go on: stopped, it can't \
                     put limits back if Strata dies"
                ))
            }
            Condition::Ended(how) => {
                self.report.nr_deaths += 1;
                self.keeper = None;
                Some(match self.replace(session, now) {
                    Ok(next) => format!(
                        "the keeper (pid {pid}) ended before its time ({how}); another one (pid {next}) \
                         has taken its place"
                    ),
                    Err(error) => format!(
                        "the keeper (pid {pid}) ended before its time ({how}) and no other could be \
                         started ({error}); until one can, limits stay if Strata is killed, up to the \
                         next start of Strata"
                    ),
                })
            }
        }
    }

    /// Strata is about to stop, its limits lifted, or awake again: asleep it is not woken.
    pub fn tell_sleep(&mut self, is_asleep: bool) {
        if let Some(keeper) = &mut self.keeper {
            keeper.tell_sleep(is_asleep);
        }
    }

    fn replace(&mut self, session: &Session, now: Instant) -> std::io::Result<i32> {
        let started = Keeper::spawn(session);
        self.retry_at = started.is_err().then(|| now + RETRY_PAUSE);
        let keeper = started?;
        let pid = keeper.pid();
        self.keeper = Some(keeper);
        self.report.nr_replacements += 1;
        Ok(pid)
    }

    /// The orderly end of the session (see [`Session::finish`]): what could not be undone, and how the keeper
    /// fared.
    pub fn finish(mut self, session: Session) -> (Vec<UndoError>, KeeperReport) {
        if let Some(keeper) = &mut self.keeper
            && let Condition::Ended(_) = keeper.look()
        {
            self.report.nr_deaths += 1;
            self.keeper = None;
        }
        let is_there = self.keeper.is_some();
        let errors = session.finish(self.keeper.take());
        let is_stuck = |error: &UndoError| matches!(error, UndoError::Keeper { .. });
        let end = match (is_there, errors.is_empty()) {
            (false, _) => KeeperEnd::Missing,
            (true, true) => KeeperEnd::Dismissed,
            (true, false) if errors.iter().any(is_stuck) => KeeperEnd::Stuck,
            (true, false) => KeeperEnd::Left,
        };
        (errors, KeeperReport { end, ..self.report })
    }
}
