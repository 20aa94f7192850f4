//! A guard's hand on its history: looks go in, and a thread writes them.
//!
//! **Owns** the thread's work, and what is told of troubles. **Does not own** the queue and the thread
//! (`strata_linux::actuator::Worker`), nor what is written (`store`).
//!
//! **Invariants** I1: nothing here waits but [`History::end`], for a few seconds. I2: trouble is told once.

use super::database::HistoryError;
use super::minutes::{Minute, Minutes};
use super::store::{Bounds, Store};
use crate::managed::status::Status;
use std::io;
use std::path::{Path, PathBuf};
use strata_linux::actuator::Worker;

/// Looks that wait for the disk; what comes beyond is left out.
const LOOKS_MAX: usize = 8;

/// A look at a guard and when it was, seconds since 1970; `None` asks for the minute that has begun.
type Look = Option<(u64, Status)>;

/// A history that is kept.
#[derive(Debug)]
pub struct History {
    worker: Worker<Look, Option<HistoryError>>,
    nr_dropped: u64,
}

impl History {
    /// Starts the thread. The file is opened at the first look.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn start(path: &Path) -> io::Result<History> {
        History::within(path, Bounds::default())
    }

    pub(super) fn within(path: &Path, bounds: Bounds) -> io::Result<History> {
        let mut writer = Writer {
            path: path.to_owned(),
            bounds,
            minutes: Minutes::default(),
            store: None,
            has_begun: false,
            has_failed: false,
        };
        let worker = Worker::start("strata-history", LOOKS_MAX, move |look, _| {
            writer.take(look)
        })?;
        Ok(History {
            worker,
            nr_dropped: 0,
        })
    }

    /// Hands over how a guard stands. Returns what the user should know.
    pub fn look(&mut self, unix_s: u64, status: &Status) -> Option<String> {
        let news = std::iter::from_fn(|| self.worker.poll()).flatten().last();
        // What counters grow by is in the next one.
        if self
            .worker
            .try_submit(Some((unix_s, status.clone())))
            .is_err()
        {
            self.nr_dropped += 1;
        }
        news.map(|error| told(&error))
    }

    /// Writes what is left, and ends the thread. Returns what the user should know.
    pub fn end(mut self) -> Vec<String> {
        let is_whole = self.worker.try_submit(None).is_ok();
        let nr_left_before = self.worker.nr_in_flight();
        let reports = self.worker.stop();
        let is_late = reports.len() < nr_left_before;
        let mut news: Vec<String> = reports
            .into_iter()
            .flatten()
            .map(|error| told(&error))
            .collect();
        if self.nr_dropped > 0 || !is_whole || is_late {
            news.push(format!(
                "the disk of the history is too slow: {} looks are not in it{}",
                self.nr_dropped,
                if is_whole && !is_late {
                    ""
                } else {
                    ", nor is its end"
                }
            ));
        }
        news
    }
}

fn told(error: &HistoryError) -> String {
    format!("the guard goes on without a history: {error}")
}

/// The thread's side.
#[derive(Debug)]
struct Writer {
    path: PathBuf,
    bounds: Bounds,
    minutes: Minutes,
    store: Option<Store>,
    has_begun: bool,
    has_failed: bool,
}

impl Writer {
    /// Returns trouble that was not told before.
    fn take(&mut self, look: Look) -> Option<HistoryError> {
        let minute = match look {
            Some((unix_s, status)) => self.minutes.add(unix_s, &status),
            None => self.minutes.end(),
        };
        let error = self.write(minute.as_ref()).err()?;
        tracing::debug!("{error}");
        let is_told = std::mem::replace(&mut self.has_failed, true);
        (!is_told).then_some(error)
    }

    /// After a trouble the file is opened anew with the next minute: room may come, and the file may be another.
    fn write(&mut self, minute: Option<&Minute>) -> Result<(), HistoryError> {
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if minute.is_none() && !is_first {
            return Ok(());
        }
        let mut store = match self.store.take() {
            Some(store) => store,
            None => Store::open(&self.path, self.bounds)?,
        };
        if let Some(minute) = minute {
            store.add(minute)?;
        }
        self.store = Some(store);
        Ok(())
    }
}
