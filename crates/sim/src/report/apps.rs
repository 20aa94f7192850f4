//! What became of apps, for people.
//!
//! **Owns** the table. **Does not own** the counts, nor the names of their fields (`outcome`).

use super::Record;
use crate::table::{aligned, grouped};

const HEADER: &str = "  <policy|memory|kills|cold starts";

/// A line a run in which apps are killed.
pub(super) fn table(records: &[Record]) -> String {
    let cells = |record: &Record| {
        let apps = record.reclaim.as_ref()?.counts.apps?;
        Some([
            record.policy.clone(),
            grouped(u64::from(record.memory_pages)),
            grouped(apps.nr_kills),
            grouped(apps.nr_cold_starts),
        ])
    };
    let rows: Vec<_> = records.iter().filter_map(cells).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}", aligned(HEADER, rows)),
    }
}
