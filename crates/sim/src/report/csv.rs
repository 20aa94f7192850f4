//! Records as comma-separated values (RFC 4180): one line a run, empty where a baseline has nothing.
//!
//! **Owns** the columns. **Does not own** the records.

use std::borrow::Cow;

use super::{ReclaimRecord, Record};

/// A column: its name, and what is in it for a record.
type Column<Of, Cell> = (&'static str, fn(&Of) -> Cell);

/// Columns that every run has.
const OF_RUN: [Column<Record, String>; 15] = [
    ("trace", |of| quoted(&of.trace).into_owned()),
    ("policy", |of| quoted(&of.policy).into_owned()),
    ("memory_pages", |of| of.memory_pages.to_string()),
    ("accesses", |of| of.accesses.to_string()),
    ("distinct_pages", |of| of.distinct_pages.to_string()),
    ("footprint_pages", |of| of.footprint_pages.to_string()),
    ("misses", |of| of.misses.to_string()),
    ("miss_ratio", |of| of.miss_ratio.to_string()),
    ("refaults", |of| of.refaults.to_string()),
    ("anon_misses", |of| of.misses_by_kind[0].to_string()),
    ("file_misses", |of| of.misses_by_kind[1].to_string()),
    ("estimated_total_ns", |of| {
        of.estimated_time.total_ns.to_string()
    }),
    ("estimated_access_ns", |of| {
        of.estimated_time.access_ns.to_string()
    }),
    ("estimated_write_ns", |of| {
        of.estimated_time.write_ns.to_string()
    }),
    ("estimated_reclaim_ns", |of| {
        of.estimated_time.reclaim_ns.to_string()
    }),
];

/// Columns that only a policy with a mechanism has.
const OF_RECLAIM: [Column<ReclaimRecord, u64>; 15] = [
    ("swappiness", |of| u64::from(of.swappiness)),
    ("scanned_pages", |of| of.counts.nr_scanned),
    ("stolen_anon_pages", |of| of.counts.nr_stolen[0]),
    ("stolen_file_pages", |of| of.counts.nr_stolen[1]),
    ("promoted_pages", |of| of.counts.nr_promoted),
    ("activated_pages", |of| of.counts.nr_activated),
    ("demoted_pages", |of| of.counts.nr_demoted),
    ("protected_pages", |of| of.counts.nr_protected),
    ("written_pages", |of| of.counts.nr_written),
    ("refaulted_pages", |of| {
        of.counts.nr_refaulted.iter().flatten().sum()
    }),
    ("refaulted_recent_pages", |of| {
        of.counts.nr_refaulted_recent.iter().flatten().sum()
    }),
    ("ageing_runs", |of| of.counts.nr_ageing_runs),
    ("walked_ptes", |of| of.counts.nr_ptes_walked),
    ("bloom_hits", |of| of.counts.nr_bloom_hits),
    ("bloom_skips", |of| of.counts.nr_bloom_skips),
];

pub(super) fn text(records: &[Record]) -> String {
    let names = OF_RUN.iter().map(|(name, _)| *name);
    let names = names.chain(OF_RECLAIM.iter().map(|(name, _)| *name));
    let mut text = names.collect::<Vec<_>>().join(",") + "\r\n";
    for record in records {
        let of_run = OF_RUN.iter().map(|(_, cell)| cell(record));
        let of_reclaim = OF_RECLAIM.iter().map(|(_, number)| {
            let reclaim = record.reclaim.as_ref();
            reclaim.map_or_else(String::new, |of| number(of).to_string())
        });
        let cells: Vec<String> = of_run.chain(of_reclaim).collect();
        text += &(cells.join(",") + "\r\n");
    }
    text
}

fn quoted(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\r', '\n']) {
        return Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")));
    }
    Cow::Borrowed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_line_is_quoted() {
        assert_eq!(quoted("arc-p6"), "arc-p6");
        assert_eq!(quoted("gen:zipf,pages=9"), "\"gen:zipf,pages=9\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
    }
}
