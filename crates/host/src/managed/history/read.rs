//! What a history says: by minute or hour, and by group.
//!
//! **Owns** the questions. **Does not own** how answers are shown.

use super::database::{HistoryError, open_to_read};
use super::minutes::{Figures, HOST, MINUTE_S};
use super::store::{HOUR_S, LOOKED, SUMMED};
use crate::managed::rules::below_mount;
use rusqlite::{Row, params};
use std::path::Path;

/// How long a time is told as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Sixty seconds; what is older than a day is hours all the same.
    Minute,
    /// An hour.
    Hour,
}

impl By {
    /// Its length.
    pub fn seconds(self) -> u64 {
        match self {
            By::Minute => MINUTE_S,
            By::Hour => HOUR_S,
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Seconds since 1970.
    pub from_s: u64,
    /// The end, which is not part of it.
    pub to_s: u64,
    /// How long a time is told as one.
    pub by: By,
    /// A group's path, or a pattern in which `*` also stands for `/`, as rules write it; `None`: the whole host.
    pub group: Option<&'a str>,
}

/// A minute or an hour.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Slot {
    /// When it begins, seconds since 1970.
    pub at_s: u64,
    /// As much in local time.
    pub time: String,
    /// Of the host, or of all groups that were asked for.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A group over all the time that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GroupSum {
    /// Its path.
    pub group: String,
    /// Means of the time in which a guard looked, and sums: those of all groups add up to those of the host.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Account {
    /// From when on, seconds since 1970.
    pub from_s: u64,
    /// Until when.
    pub to_s: u64,
    /// How long a slot is, seconds.
    pub by_s: u64,
    /// In order of time; those in which no guard ran are left out.
    pub slots: Vec<Slot>,
    /// Those first of which most was away.
    pub groups: Vec<GroupSum>,
}

/// Asks a history.
///
/// # Errors
/// [`HistoryError`]: it is not there, or none that can be read.
pub fn read(path: &Path, question: &Question<'_>) -> Result<Account, HistoryError> {
    let db = open_to_read(path)?;
    let by_s = question.by.seconds();
    let from_s = question.from_s - question.from_s % by_s;
    let to_s = question.to_s;
    let group = question.group.map(below_mount);
    let within = "at_s >= ?1 AND at_s < ?2";
    let rows = format!(
        "figures JOIN groups ON groups.id = group_id WHERE {within} AND (path = ?3 OR path GLOB ?3 AND path != '')"
    );
    let ask = || -> rusqlite::Result<Account> {
        let mut slots = db.prepare(&format!(
            "SELECT slot_s, strftime('%Y-%m-%d %H:%M', slot_s, 'unixepoch', 'localtime'), {SUMMED}
             FROM (SELECT *, at_s - at_s % ?4 AS slot_s FROM {rows})
             JOIN (SELECT at_s - at_s % ?4 AS looked_slot_s, {LOOKED} AND {within} GROUP BY looked_slot_s)
             ON looked_slot_s = slot_s GROUP BY slot_s ORDER BY slot_s"
        ))?;
        let who = group.as_deref().unwrap_or(HOST);
        let slots = slots.query_map(params![from_s, to_s, who, by_s], |row| {
            Ok(Slot {
                at_s: row.get(0)?,
                time: row.get(1)?,
                figures: figures(row, 2)?,
            })
        })?;
        let slots = slots.collect::<rusqlite::Result<_>>()?;
        let mut groups = db.prepare(&format!(
            "SELECT path, {SUMMED} FROM (SELECT * FROM {rows}), (SELECT {LOOKED} AND {within})
             GROUP BY path ORDER BY 4 DESC, 7 DESC, path"
        ))?;
        let who = group.as_deref().unwrap_or("/*");
        let groups = groups.query_map(params![from_s, to_s, who], |row| {
            Ok(GroupSum {
                group: row.get(0)?,
                figures: figures(row, 1)?,
            })
        })?;
        let groups = groups.collect::<rusqlite::Result<_>>()?;
        Ok(Account {
            from_s,
            to_s,
            by_s,
            slots,
            groups,
        })
    };
    ask().map_err(|error| HistoryError::of(path, error))
}

fn figures(row: &Row<'_>, first: usize) -> rusqlite::Result<Figures> {
    let of = |number| row.get(first + number);
    Ok(Figures {
        resident_bytes: of(0)?,
        used_lately_bytes: of(1)?,
        away_bytes: of(2)?,
        price_bytes: of(3)?,
        age_anon_ms: of(4)?,
        taken_bytes: of(5)?,
        came_back_bytes: of(6)?,
        cpu_ns: of(7)?,
    })
}
