//! Records as tables for people: one a trace.
//!
//! **Owns** the columns and the spacing. **Does not own** the records.

use super::{Record, groups, steered, tiers};

const HEADER: [&str; 9] = [
    "policy", "memory", "of it", "misses", "ratio", "refaults", "scanned", "walks", "estimate",
];

pub(super) fn text(records: &[Record]) -> String {
    let mut text = String::new();
    for of_trace in records.chunk_by(|a, b| a.trace == b.trace) {
        let Some(first) = of_trace.first() else {
            continue;
        };
        if !text.is_empty() {
            text.push('\n');
        }
        let at_a_time = match first.footprint_pages == first.distinct_pages {
            true => String::new(),
            false => format!(", {} of them at a time", grouped(first.footprint_pages)),
        };
        text.push_str(&format!(
            "{}: {} accesses of {} pages{at_a_time} ({} MiB)\n\n",
            first.trace,
            grouped(first.accesses),
            grouped(first.distinct_pages),
            grouped(first.footprint_pages / 256),
        ));
        text.push_str(&aligned(HEADER, of_trace.iter().map(cells).collect()));
        text.push_str(&tiers::table(of_trace));
        text.push_str(&groups::tables(of_trace));
        text.push_str(&steered::table(of_trace));
    }
    text
}

fn cells(record: &Record) -> [String; HEADER.len()] {
    let count = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), grouped);
    let reclaim = record.reclaim.as_ref();
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        percent(u64::from(record.memory_pages), record.footprint_pages),
        grouped(record.misses),
        record.miss_ratio.to_string(),
        grouped(record.refaults),
        count(reclaim.map(|reclaim| reclaim.scanned_pages)),
        count(reclaim.map(|reclaim| reclaim.ageing_runs)),
        seconds(record.estimated_time.total_ns),
    ]
}

/// Columns as wide as their widest cell; text left, numbers right.
pub(super) fn aligned<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> String {
    let rows: Vec<_> = std::iter::once(header.map(str::to_owned))
        .chain(rows)
        .collect();
    let mut text = String::new();
    for row in &rows {
        for (at, cell) in row.iter().enumerate() {
            let widths = rows.iter().map(|row| row[at].chars().count());
            let width = widths.max().unwrap_or_default();
            text.push_str(&match at {
                0 => format!("  {cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        text.push('\n');
    }
    text
}

/// Digits in threes.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// With one decimal, rounded to the nearest.
fn percent(part: u64, whole: u64) -> String {
    let tenths = (part * 2000 + whole) / (2 * whole).max(1);
    format!("{}.{}%", tenths / 10, tenths % 10)
}

fn seconds(ns: u64) -> String {
    let ms = ns / 1_000_000;
    format!("{}.{:03} s", grouped(ms / 1000), ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(
            (grouped(7), grouped(1234), grouped(12_672_123)),
            ("7".into(), "1,234".into(), "12,672,123".into())
        );
        assert_eq!(
            (percent(1, 8), percent(2, 3), percent(0, 0)),
            ("12.5%".into(), "66.7%".into(), "0.0%".into())
        );
        assert_eq!(seconds(1_234_567_890), "1.234 s");
    }
}
