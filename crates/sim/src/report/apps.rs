//! What became of apps, for people.
//!
//! **Owns** the table. **Does not own** the counts, nor the names of their fields (`outcome`).

use super::{Record, section};
use crate::table::grouped;

/// A line a run in which apps are killed.
pub(super) fn table(records: &[Record]) -> String {
    let row = |record: &Record| {
        let apps = record.reclaim.as_ref()?.counts.apps?;
        Some(record.row([apps.nr_kills, apps.nr_cold_starts].map(grouped)))
    };
    section("kills|cold starts", records.iter().filter_map(row))
}
