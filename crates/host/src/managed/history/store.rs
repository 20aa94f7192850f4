//! What is written to a history, and for how long it stays: minutes for a day, then hours for two weeks.
//!
//! **Owns** the rows: adding, folding, deleting. **Does not own** what is in a minute (`minutes`), nor the file
//! (`database`).
//!
//! **Invariants**
//! - I1: file and log together have at most 64 MiB, but for one change.
//! - I2: each change is whole or not made at all: a minute, the fold of an hour, the deletion of an hour.

use super::database::{BUSY_WAIT, HistoryError, log_of, open_to_write};
use super::minutes::{MINUTE_S, Minute};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seconds.
pub(super) const HOUR_S: u64 = 3600;
/// Minutes become hours after so long.
const MINUTES_KEPT_S: u64 = 24 * HOUR_S;
/// Anything is deleted after so long.
const KEPT_S: u64 = 14 * 24 * HOUR_S;
/// Bytes of a page, as SQLite has them unless told otherwise.
const PAGE_BYTES: u64 = 4096;
/// Hours that are folded or deleted at once; the next minute goes on.
const HOURS_MAX: usize = 400;

/// How large a history may become.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Of the file.
    pub(super) nr_pages_max: u64,
    /// Of the log, which grows above a quarter of that only while somebody reads.
    pub(super) log_bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            nr_pages_max: (48 << 20) / PAGE_BYTES,
            log_bytes_max: 16 << 20,
        }
    }
}

/// Means and sums of rows, in the order of the columns. Means are of all the time in which a guard looked (`looked_s`), so those
/// of groups add up to that of the host; a group that was there for a part of it counts for that part.
pub(super) const SUMMED: &str = "
    CAST(total(resident_bytes * span_s) / looked_s AS INTEGER) AS resident_bytes,
    CAST(total(used_lately_bytes * span_s) / looked_s AS INTEGER) AS used_lately_bytes,
    CAST(total(away_bytes * span_s) / looked_s AS INTEGER) AS away_bytes,
    CAST(total(price_bytes * span_s) / looked_s AS INTEGER) AS price_bytes,
    max(age_anon_ms) AS age_anon_ms,
    sum(taken_bytes) AS taken_bytes, sum(came_back_bytes) AS came_back_bytes, sum(cpu_ns) AS cpu_ns";

/// Rows of the host, which there is one of for each minute in which a guard looked.
pub(super) const LOOKED: &str =
    "sum(span_s) AS looked_s FROM figures WHERE group_id = (SELECT id FROM groups WHERE path = '')";

/// What becomes of a row that is there already, as after a clock was set back: counters add up.
const ADD_UP: &str = "ON CONFLICT DO UPDATE SET
    resident_bytes = excluded.resident_bytes, used_lately_bytes = excluded.used_lately_bytes,
    away_bytes = excluded.away_bytes, price_bytes = excluded.price_bytes, age_anon_ms = excluded.age_anon_ms,
    taken_bytes = taken_bytes + excluded.taken_bytes,
    came_back_bytes = came_back_bytes + excluded.came_back_bytes, cpu_ns = cpu_ns + excluded.cpu_ns";

/// A history that is written.
#[derive(Debug)]
pub(super) struct Store {
    db: Connection,
    path: PathBuf,
    bounds: Bounds,
    /// The hour in which old rows were looked at last.
    tidied_h: Option<u64>,
}

impl Store {
    /// Opens the history, or begins one.
    pub(super) fn open(path: &Path, bounds: Bounds) -> Result<Store, HistoryError> {
        let store = Store {
            db: open_to_write(path)?,
            path: path.to_owned(),
            bounds,
            tidied_h: None,
        };
        let fail = |error| HistoryError::of(path, error);
        let set = |name, value| store.db.pragma_update(None, name, value);
        set("max_page_count", bounds.nr_pages_max).map_err(fail)?;
        set("journal_size_limit", bounds.log_bytes_max / 4).map_err(fail)?;
        Ok(store)
    }

    /// Adds a minute, and makes room for it where there is none.
    pub(super) fn add(&mut self, minute: &Minute) -> Result<(), HistoryError> {
        let is_held = || {
            let log = fs::metadata(log_of(&self.path));
            log.is_ok_and(|log| log.len() > self.bounds.log_bytes_max)
        };
        if is_held() {
            // What it can't merge for a reader it says by the length that stays. Nobody is waited for.
            let merge = || {
                self.db.busy_timeout(Duration::ZERO)?;
                self.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")?;
                self.db.busy_timeout(BUSY_WAIT)
            };
            merge().map_err(|error| HistoryError::of(&self.path, error))?;
            if is_held() {
                return Err(HistoryError::Held(self.path.clone()));
            }
        }
        let done = self.tidy(minute.at_s).and_then(|()| self.insert(minute));
        done.map_err(|error| HistoryError::of(&self.path, error))
    }

    fn insert(&mut self, minute: &Minute) -> rusqlite::Result<()> {
        let change = begin(&mut self.db)?;
        {
            let mut name = change.prepare("INSERT OR IGNORE INTO groups (path) VALUES (?1)")?;
            let mut add = change.prepare(&format!(
                "INSERT INTO figures VALUES
                 (?1, ?2, (SELECT id FROM groups WHERE path = ?3), ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) {ADD_UP}"
            ))?;
            for (path, of) in &minute.figures {
                name.execute([path])?;
                add.execute(params![
                    minute.at_s,
                    MINUTE_S,
                    path,
                    of.resident_bytes,
                    of.used_lately_bytes,
                    of.away_bytes,
                    of.price_bytes,
                    of.age_anon_ms,
                    of.taken_bytes,
                    of.came_back_bytes,
                    of.cpu_ns
                ])?;
            }
        }
        change.commit()
    }

    /// Folds and deletes what is old, once an hour, and as much more as has to go for the next minute to fit in.
    fn tidy(&mut self, now_s: u64) -> rusqlite::Result<()> {
        let hour = now_s / HOUR_S;
        if self.tidied_h != Some(hour) {
            self.fold((hour * HOUR_S).saturating_sub(MINUTES_KEPT_S))?;
            self.delete_before(now_s.saturating_sub(KEPT_S))?;
            let gone = "DELETE FROM groups WHERE id NOT IN (SELECT group_id FROM figures)";
            self.db.execute(gone, [])?;
            self.tidied_h = Some(hour);
        }
        for _ in 0..HOURS_MAX {
            let ask = |sql| self.db.query_row(sql, [], |row| row.get::<_, u64>(0));
            let nr_pages = ask("PRAGMA page_count")? - ask("PRAGMA freelist_count")?;
            let oldest_s = self.oldest(
                "SELECT min(at_s) FROM figures WHERE at_s < ?1",
                u64::MAX >> 1,
            )?;
            // An eighth of it is room for a minute of very many groups.
            match oldest_s {
                Some(oldest_s) if nr_pages > self.bounds.nr_pages_max / 8 * 7 => {
                    self.delete_before(oldest_s - oldest_s % HOUR_S + HOUR_S)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn oldest(&self, sql: &str, before_s: u64) -> rusqlite::Result<Option<u64>> {
        let found = self.db.query_row(sql, [before_s], |row| row.get(0));
        found.optional().map(Option::flatten)
    }

    /// Makes hours of minutes, an hour a change: the log stays small.
    fn fold(&mut self, before_s: u64) -> rusqlite::Result<()> {
        for _ in 0..HOURS_MAX {
            let minutes = "SELECT min(at_s) FROM figures WHERE at_s < ?1 AND span_s < 3600";
            let Some(oldest_s) = self.oldest(minutes, before_s)? else {
                break;
            };
            let hour_s = oldest_s - oldest_s % HOUR_S;
            let of_hour = "at_s >= ?1 AND at_s < ?1 + ?2 AND span_s < ?2";
            let change = begin(&mut self.db)?;
            change.execute(
                &format!(
                    "INSERT INTO figures SELECT ?1, ?2, group_id, {SUMMED}
                     FROM figures, (SELECT {LOOKED} AND {of_hour}) WHERE {of_hour} GROUP BY group_id {ADD_UP}"
                ),
                [hour_s, HOUR_S],
            )?;
            let gone = format!("DELETE FROM figures WHERE {of_hour}");
            change.execute(&gone, [hour_s, HOUR_S])?;
            change.commit()?;
        }
        Ok(())
    }

    fn delete_before(&mut self, before_s: u64) -> rusqlite::Result<()> {
        let gone = "DELETE FROM figures WHERE at_s < ?1";
        self.db.execute(gone, [before_s]).map(drop)
    }
}

fn begin(db: &mut Connection) -> rusqlite::Result<rusqlite::Transaction<'_>> {
    db.transaction_with_behavior(TransactionBehavior::Immediate)
}
