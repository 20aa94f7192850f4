//! What moved between tiers, under the names the kernel counts it by.
//!
//! **Owns** the names of the fields, and their table for people. **Does not own** the counts
//! (`strata-lru`).

use serde::Serialize;
use strata_lru::TieringStats;

use super::{Record, table::grouped};
use crate::{outcome::TierCounts, table::aligned};

/// Counts of pages, unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TiersRecord {
    /// Requests that found their page, by node, fastest first.
    pub hits: Vec<u64>,
    /// Demoted in the background.
    pub pgdemote_kswapd: u64,
    /// Demoted by whoever needed the memory.
    pub pgdemote_direct: u64,
    /// Considered for promotion under the rate limit.
    pub pgpromote_candidate: u64,
    /// Considered while so much was free that no limit held.
    pub pgpromote_candidate_nrl: u64,
    /// Promoted.
    pub pgpromote_success: u64,
    /// Moved, up or down.
    pub pgmigrate_success: u64,
    /// Not moved although it was tried.
    pub pgmigrate_fail: u64,
    /// Hint faults (a number of faults).
    pub numa_hint_faults: u64,
    /// Of the promoted, those that a read or write through a descriptor asked for.
    pub promoted_unmapped: u64,
    /// Hint faults that came too late.
    pub cold: u64,
    /// Refused by the rate limit.
    pub rate_limited: u64,
    /// Refused because the queue was full.
    pub queue_full: u64,
}

impl TiersRecord {
    pub(super) fn of(counts: &TierCounts) -> TiersRecord {
        // Destructured, so that a new counter can't be forgotten here.
        let TieringStats {
            pgdemote_kswapd,
            pgdemote_direct,
            pgpromote_candidate,
            pgpromote_candidate_nrl,
            pgpromote_success,
            pgmigrate_success,
            pgmigrate_fail,
            numa_hint_faults,
            nr_promoted_unmapped_pages,
            nr_cold_pages,
            nr_rate_limited_pages,
            nr_queue_full_pages,
        } = counts.stats;
        TiersRecord {
            hits: counts.nr_hits.clone(),
            pgdemote_kswapd,
            pgdemote_direct,
            pgpromote_candidate,
            pgpromote_candidate_nrl,
            pgpromote_success,
            pgmigrate_success,
            pgmigrate_fail,
            numa_hint_faults,
            promoted_unmapped: nr_promoted_unmapped_pages,
            cold: nr_cold_pages,
            rate_limited: nr_rate_limited_pages,
            queue_full: nr_queue_full_pages,
        }
    }
}

const HEADER: &str =
    "  <policy|memory|hits, fastest first|down|up|of that unmapped|rate limited|hint faults";

/// What moved between tiers, a line a run that has any.
pub(super) fn table(records: &[Record]) -> String {
    let of_tiers = |record: &Record| {
        let tiers = record.reclaim.as_ref()?.tiers.as_ref()?;
        Some(cells(record, tiers))
    };
    let rows: Vec<_> = records.iter().filter_map(of_tiers).collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}", aligned(HEADER, rows)),
    }
}

fn cells(record: &Record, of: &TiersRecord) -> [String; 8] {
    let hits: Vec<String> = of.hits.iter().map(|count| grouped(*count)).collect();
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        hits.join(" + "),
        grouped(of.pgdemote_kswapd + of.pgdemote_direct),
        grouped(of.pgpromote_success),
        grouped(of.promoted_unmapped),
        grouped(of.rate_limited),
        grouped(of.numa_hint_faults),
    ]
}
