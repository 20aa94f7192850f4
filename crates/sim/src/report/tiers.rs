//! What moved between tiers, for people.
//!
//! **Owns** the table. **Does not own** the counts, nor the names of their fields (`outcome`, `strata-lru`).

use super::{Record, section};
use crate::table::grouped;

const HEADER: &str = "hits, fastest first|down|up|of that unmapped|rate limited|hint faults";

const PHASES: &str = "phase|who asks moves|another moves|hits, fastest first|up";

/// What moved between tiers, a line a run that has any; the time of each phase.
pub(super) fn table(records: &[Record]) -> String {
    let of_tiers = |record: &Record| {
        let tiers = record.reclaim.as_ref()?.counts.tiers.as_ref()?;
        let stats = &tiers.stats;
        let moved = [
            stats.pgdemote_kswapd + stats.pgdemote_direct,
            stats.pgpromote_success,
            stats.nr_promoted_unmapped_pages,
            stats.nr_rate_limited_pages,
            stats.numa_hint_faults,
        ];
        let cells = [hits(&tiers.nr_hits)].into_iter();
        Some(record.row(cells.chain(moved.map(grouped))))
    };
    section(HEADER, records.iter().filter_map(of_tiers)) + &phases(records)
}

fn phases(records: &[Record]) -> String {
    let mut rows = Vec::new();
    for record in records {
        for (phase, at) in record.phases.iter().zip(1..) {
            rows.push(record.row([
                grouped(at),
                us(phase.inline_ns),
                us(phase.background_ns),
                hits(&phase.hits),
                grouped(phase.pgpromote_success),
            ]));
        }
    }
    section(PHASES, rows)
}

fn us(ns: u64) -> String {
    format!("{} us", grouped((ns + 500) / 1000))
}

fn hits(nr_hits: &[u64]) -> String {
    let hits: Vec<String> = nr_hits.iter().map(|count| grouped(*count)).collect();
    hits.join(" + ")
}
