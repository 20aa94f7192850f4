//! Records as comma-separated values (RFC 4180): one line a run, empty where a baseline has nothing.
//!
//! **Owns** the columns. **Does not own** the records.

use std::borrow::Cow;

use super::Record;

const COLUMNS: [&str; 30] = [
    "trace",
    "policy",
    "memory_pages",
    "accesses",
    "distinct_pages",
    "footprint_pages",
    "misses",
    "miss_ratio",
    "refaults",
    "anon_misses",
    "file_misses",
    "estimated_total_ns",
    "estimated_access_ns",
    "estimated_write_ns",
    "estimated_reclaim_ns",
    "swappiness",
    "scanned_pages",
    "stolen_anon_pages",
    "stolen_file_pages",
    "promoted_pages",
    "activated_pages",
    "demoted_pages",
    "protected_pages",
    "written_pages",
    "refaulted_pages",
    "refaulted_recent_pages",
    "ageing_runs",
    "walked_ptes",
    "bloom_hits",
    "bloom_skips",
];

/// Columns that only a policy with a mechanism has.
const NR_RECLAIM_COLUMNS: usize = 15;

pub(super) fn text(records: &[Record]) -> String {
    let mut text = COLUMNS.join(",");
    text.push_str("\r\n");
    for record in records {
        text.push_str(&cells(record).join(","));
        text.push_str("\r\n");
    }
    text
}

fn cells(record: &Record) -> Vec<String> {
    let time = &record.estimated_time;
    let mut cells = vec![
        quoted(&record.trace).into_owned(),
        quoted(&record.policy).into_owned(),
        record.memory_pages.to_string(),
        record.accesses.to_string(),
        record.distinct_pages.to_string(),
        record.footprint_pages.to_string(),
        record.misses.to_string(),
        record.miss_ratio.to_string(),
        record.refaults.to_string(),
        record.misses_by_kind[0].to_string(),
        record.misses_by_kind[1].to_string(),
        time.total_ns.to_string(),
        time.access_ns.to_string(),
        time.write_ns.to_string(),
        time.reclaim_ns.to_string(),
    ];
    let Some(reclaim) = &record.reclaim else {
        cells.extend([const { String::new() }; NR_RECLAIM_COLUMNS]);
        return cells;
    };
    let counts = &reclaim.counts;
    let numbers: [u64; NR_RECLAIM_COLUMNS] = [
        u64::from(reclaim.swappiness),
        counts.nr_scanned,
        counts.nr_stolen[0],
        counts.nr_stolen[1],
        counts.nr_promoted,
        counts.nr_activated,
        counts.nr_demoted,
        counts.nr_protected,
        counts.nr_written,
        counts.nr_refaulted.iter().flatten().sum(),
        counts.nr_refaulted_recent.iter().flatten().sum(),
        counts.nr_ageing_runs,
        counts.nr_ptes_walked,
        counts.nr_bloom_hits,
        counts.nr_bloom_skips,
    ];
    cells.extend(numbers.map(|number| number.to_string()));
    cells
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
