//! What became of each group, for people.
//!
//! **Owns** the columns of the table. **Does not own** the counts, nor the names of their fields (`outcome`).

use super::Record;
use crate::{
    outcome::GroupCounts,
    table::{aligned, grouped},
};

const HEADER: &str =
    "  <group|accesses|misses|ratio|refaults|evicted|swapped out|walks|in memory|low|high|max";

/// The groups of each run of a trace that has any, a table a run.
pub(super) fn tables(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        let groups = record
            .reclaim
            .iter()
            .flat_map(|reclaim| &reclaim.counts.groups);
        let rows: Vec<_> = groups.map(cells).collect();
        if !rows.is_empty() {
            let memory = grouped(u64::from(record.memory_pages));
            text.push_str(&format!("\n  {} in {memory} pages\n", record.policy));
            text.push_str(&aligned(HEADER, rows));
        }
    }
    text
}

fn cells(of: &GroupCounts) -> [String; 12] {
    [
        of.path.clone(),
        grouped(of.nr_accesses),
        grouped(of.nr_misses),
        of.miss_ratio.to_string(),
        grouped(of.nr_refaults),
        grouped(of.nr_stolen.iter().sum()),
        grouped(of.nr_swapped_out),
        grouped(of.nr_ageing_runs),
        grouped(of.nr_held),
        grouped(of.events.nr_low),
        grouped(of.events.nr_high),
        grouped(of.events.nr_max),
    ]
}
