//! Records as comma-separated values (RFC 4180): one line a run, empty where a baseline has nothing.
//!
//! **Owns** the columns. **Does not own** the records.

use std::borrow::Cow;

use super::Record;

const COLUMNS: [&str; 29] = [
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
const NR_RECLAIM_COLUMNS: usize = 14;

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
        record.misses_by_kind.anon.to_string(),
        record.misses_by_kind.file.to_string(),
        time.total_ns.to_string(),
        time.access_ns.to_string(),
        time.write_ns.to_string(),
        time.reclaim_ns.to_string(),
    ];
    let Some(reclaim) = &record.reclaim else {
        cells.extend([const { String::new() }; NR_RECLAIM_COLUMNS]);
        return cells;
    };
    let refaulted = &reclaim.refaulted_pages;
    let recent = &reclaim.refaulted_recent_pages;
    let numbers: [u64; NR_RECLAIM_COLUMNS] = [
        u64::from(reclaim.swappiness),
        reclaim.scanned_pages,
        reclaim.stolen_pages.anon,
        reclaim.stolen_pages.file,
        reclaim.promoted_pages,
        reclaim.demoted_pages,
        reclaim.protected_pages,
        reclaim.written_pages,
        refaulted.anon.iter().chain(&refaulted.file).sum(),
        recent.anon.iter().chain(&recent.file).sum(),
        reclaim.ageing_runs,
        reclaim.walked_ptes,
        reclaim.bloom_hits,
        reclaim.bloom_skips,
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
