//! What became of each group, under the names cgroup v2 uses where it has one.
//!
//! **Owns** the names of the fields and the columns of the table. **Does not own** the counts.

use serde::Serialize;

use super::{ByKind, Record, table::grouped};
use crate::{outcome::GroupCounts, ratio::Ratio, table::aligned};

/// A group and all below it; pages unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupRecord {
    /// Path of the group.
    pub group: String,
    /// The trace's group whose pages it holds; none if it only holds groups.
    pub trace_group: Option<u16>,
    /// Requests for its pages.
    pub accesses: u64,
    /// Distinct pages of the group.
    pub distinct_pages: u64,
    /// Requests whose page was not in memory, first touches included.
    pub misses: u64,
    /// Misses of accesses.
    pub miss_ratio: Ratio,
    /// Misses that were not first touches.
    pub refaults: u64,
    /// Visited by eviction.
    pub scanned_pages: u64,
    /// Evicted.
    pub stolen_pages: ByKind<u64>,
    /// Anon pages that were evicted, to swap.
    pub swapped_out_pages: u64,
    /// Generations begun.
    pub ageing_runs: u64,
    /// In memory at the end (`memory.current`).
    pub current_pages: u64,
    /// In swap at the end (`memory.swap.current`).
    pub swap_current_pages: u64,
    /// How often limits were felt (`memory.events`).
    pub events: EventsRecord,
}

/// Numbers of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EventsRecord {
    /// Reclaimed although it was below `low`.
    pub low: u64,
    /// Brought down because it was above `high`.
    pub high: u64,
    /// About to go above `max`.
    pub max: u64,
}

impl GroupRecord {
    pub(super) fn of(counts: &GroupCounts) -> GroupRecord {
        // Destructured, so that a new counter can't be forgotten here.
        let GroupCounts {
            path,
            trace_group,
            limits: _,
            nr_accesses,
            nr_distinct,
            nr_misses,
            nr_scanned,
            nr_stolen,
            nr_ageing_runs,
            nr_held,
            nr_swapped,
            events,
        } = counts;
        GroupRecord {
            group: path.clone(),
            trace_group: *trace_group,
            accesses: *nr_accesses,
            distinct_pages: *nr_distinct,
            misses: *nr_misses,
            miss_ratio: Ratio::of(*nr_misses, *nr_accesses),
            refaults: nr_misses.saturating_sub(*nr_distinct),
            scanned_pages: *nr_scanned,
            stolen_pages: (*nr_stolen).into(),
            swapped_out_pages: nr_stolen[0],
            ageing_runs: *nr_ageing_runs,
            current_pages: *nr_held,
            swap_current_pages: *nr_swapped,
            events: EventsRecord {
                low: events.nr_low,
                high: events.nr_high,
                max: events.nr_max,
            },
        }
    }
}

const HEADER: &str =
    "  <group|accesses|misses|ratio|refaults|evicted|swapped out|walks|in memory|low|high|max";

/// The groups of each run of a trace that has any, a table a run.
pub(super) fn tables(records: &[Record]) -> String {
    let mut text = String::new();
    for record in records {
        let groups = record.reclaim.iter().flat_map(|reclaim| &reclaim.groups);
        let rows: Vec<_> = groups.map(cells).collect();
        if !rows.is_empty() {
            let memory = grouped(u64::from(record.memory_pages));
            text.push_str(&format!("\n  {} in {memory} pages\n", record.policy));
            text.push_str(&aligned(HEADER, rows));
        }
    }
    text
}

fn cells(of: &GroupRecord) -> [String; 12] {
    [
        of.group.clone(),
        grouped(of.accesses),
        grouped(of.misses),
        of.miss_ratio.to_string(),
        grouped(of.refaults),
        grouped(of.stolen_pages.anon + of.stolen_pages.file),
        grouped(of.swapped_out_pages),
        grouped(of.ageing_runs),
        grouped(of.current_pages),
        grouped(of.events.low),
        grouped(of.events.high),
        grouped(of.events.max),
    ]
}
