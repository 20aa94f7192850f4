//! What moved between tiers, for people.
//!
//! **Owns** the table. **Does not own** the counts, nor the names of their fields (`outcome`, `strata-lru`).

use super::{Record, table::grouped};
use crate::{outcome::TierCounts, table::aligned};

const HEADER: &str =
    "  <policy|memory|hits, fastest first|down|up|of that unmapped|rate limited|hint faults";

/// What moved between tiers, a line a run that has any.
pub(super) fn table(records: &[Record]) -> String {
    let of_tiers = |record: &Record| {
        let tiers = record.reclaim.as_ref()?.counts.tiers.as_ref()?;
        Some(cells(record, tiers))
    };
    let rows: Vec<_> = records.iter().filter_map(of_tiers).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}", aligned(HEADER, rows)),
    }
}

fn cells(record: &Record, of: &TierCounts) -> [String; 8] {
    let hits: Vec<String> = of.nr_hits.iter().map(|count| grouped(*count)).collect();
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        hits.join(" + "),
        grouped(of.stats.pgdemote_kswapd + of.stats.pgdemote_direct),
        grouped(of.stats.pgpromote_success),
        grouped(of.stats.nr_promoted_unmapped_pages),
        grouped(of.stats.nr_rate_limited_pages),
        grouped(of.stats.numa_hint_faults),
    ]
}
