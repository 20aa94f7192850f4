//! What moved between tiers, for people.
//!
//! **Owns** the table. **Does not own** the counts, nor the names of their fields (`outcome`, `strata-lru`).

use super::Record;
use crate::{
    outcome::TierCounts,
    table::{aligned, grouped},
};

const HEADER: &str =
    "  <policy|memory|hits, fastest first|down|up|of that unmapped|rate limited|hint faults";

const PHASES: &str = "  <policy|memory|phase|who asks moves|another moves|hits, fastest first|up";

/// What moved between tiers, a line a run that has any; the time of each phase.
pub(super) fn table(records: &[Record]) -> String {
    let of_tiers = |record: &Record| {
        let tiers = record.reclaim.as_ref()?.counts.tiers.as_ref()?;
        Some(cells(record, tiers))
    };
    let rows: Vec<_> = records.iter().filter_map(of_tiers).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}{}", aligned(HEADER, rows), phases(records)),
    }
}

fn phases(records: &[Record]) -> String {
    let mut rows = Vec::new();
    for record in records {
        for (phase, at) in record.phases.iter().zip(1..) {
            rows.push([
                record.policy.clone(),
                grouped(u64::from(record.memory_pages)),
                grouped(at),
                us(phase.inline_ns),
                us(phase.background_ns),
                hits(&phase.hits),
                grouped(phase.pgpromote_success),
            ]);
        }
    }
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}", aligned(PHASES, rows)),
    }
}

fn us(ns: u64) -> String {
    format!("{} us", grouped((ns + 500) / 1000))
}

fn hits(nr_hits: &[u64]) -> String {
    let hits: Vec<String> = nr_hits.iter().map(|count| grouped(*count)).collect();
    hits.join(" + ")
}

fn cells(record: &Record, of: &TierCounts) -> [String; 8] {
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        hits(&of.nr_hits),
        grouped(of.stats.pgdemote_kswapd + of.stats.pgdemote_direct),
        grouped(of.stats.pgpromote_success),
        grouped(of.stats.nr_promoted_unmapped_pages),
        grouped(of.stats.nr_rate_limited_pages),
        grouped(of.stats.numa_hint_faults),
    ]
}
