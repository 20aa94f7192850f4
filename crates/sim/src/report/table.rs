//! Records as tables for people: one a trace.
//!
//! | what was run | the table |
//! |---|---|
//! | several policies, one amount of memory | a policy a column, a measure a line |
//! | several policies, several amounts | a table of miss ratios and one of estimated times: a policy a column, an amount a line |
//! | one policy | an amount of memory a line, a measure a column |
//!
//! **Owns** the columns and the spacing. **Does not own** the records.

use super::{Record, apps, groups, profile, steered, tiers};
use crate::table::{aligned, grouped};

/// What is told of a run.
const MEASURES: [&str; 6] = [
    "misses",
    MISS_RATIO,
    "refaults",
    "pages scanned",
    "walks",
    ESTIMATED_TIME,
];
const MISS_RATIO: &str = "miss ratio";
const ESTIMATED_TIME: &str = "estimated time";

/// The line below all tables.
const FOOTNOTE: &str =
    "estimated time: counts times prices (--cost); it ranks policies and is no measurement\n";

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
        text.push_str(&of_one_trace(of_trace));
        text.push_str(&tiers::table(of_trace));
        text.push_str(&apps::table(of_trace));
        text.push_str(&profile::table(of_trace));
        text.push_str(&groups::tables(of_trace));
        text.push_str(&steered::table(of_trace));
    }
    if !text.is_empty() {
        text.push_str(&format!("\n{FOOTNOTE}"));
    }
    text
}

/// The table of one trace, in the layout that the number of policies and amounts of memory asks for.
fn of_one_trace(records: &[Record]) -> String {
    let by_policy: Vec<&[Record]> = records.chunk_by(|a, b| a.policy == b.policy).collect();
    let nr_sizes = by_policy.first().map_or(0, |of| of.len());
    let is_grid = by_policy.len() > 1 && by_policy.iter().all(|of| of.len() == nr_sizes);
    if !is_grid {
        return by_size(records);
    }
    let policies = by_policy.iter().map(|of| format!("|{}", of[0].policy));
    let policies: String = policies.collect();
    if nr_sizes == 1 {
        let cells: Vec<_> = records.iter().map(measures).collect();
        let lines = MEASURES.iter().enumerate().map(|(at, name)| {
            let of_each = cells.iter().map(|of| of[at].clone());
            line((*name).to_owned(), of_each)
        });
        let head = format!("  <in {}{policies}", memory(&records[0]));
        return aligned(&head, lines);
    }
    let tables = [MISS_RATIO, ESTIMATED_TIME].map(|measure| {
        let at = MEASURES.iter().position(|one| *one == measure);
        let at = at.expect("it is one of the measures");
        let lines = (0..nr_sizes).map(|size| {
            let of_each = by_policy.iter().map(|of| measures(&of[size])[at].clone());
            line(memory(&by_policy[0][size]), of_each)
        });
        aligned(&format!("  <{measure}{policies}"), lines)
    });
    tables.join("\n")
}

fn line(first: String, rest: impl IntoIterator<Item = String>) -> Vec<String> {
    std::iter::once(first).chain(rest).collect()
}

/// A line a run: of one policy, an amount of memory each.
fn by_size(records: &[Record]) -> String {
    let lines = records.iter().map(|record| {
        let of_run = std::iter::once(memory(record)).chain(measures(record));
        line(record.policy.clone(), of_run)
    });
    aligned(&format!("  <policy|memory|{}", MEASURES.join("|")), lines)
}

fn memory(record: &Record) -> String {
    let pages = u64::from(record.memory_pages);
    let of_it = percent(pages, record.footprint_pages);
    format!("{} pages ({of_it})", grouped(pages))
}

fn measures(record: &Record) -> [String; MEASURES.len()] {
    let count = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), grouped);
    let reclaim = record.reclaim.as_ref();
    [
        grouped(record.misses),
        record.miss_ratio.to_string(),
        grouped(record.refaults),
        count(reclaim.map(|reclaim| reclaim.counts.nr_scanned)),
        count(reclaim.map(|reclaim| reclaim.counts.nr_ageing_runs)),
        seconds(record.estimated_time.total_ns),
    ]
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
