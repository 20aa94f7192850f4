//! What the control loop did in a steered run, for people.
//!
//! **Owns** the tables. **Does not own** the counts, nor the names of their fields (`outcome`).

use super::Record;
use crate::{
    outcome::{CacheCounts, SteeringCounts},
    ratio::Ratio,
    table::{aligned, grouped},
};

/// Parts of 1000, with two decimals.
fn per_thousand(ratio: Ratio) -> String {
    let hundredths = ratio.millionths().saturating_add(5) / 10;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

const WHO: &str =
    "  <policy|memory|faults/1000|time|pageout|the kernel|programs|Strata, CPU|above budget";
const PAGES: &str = "  <policy|memory|paged out|reclaimed ahead|in faults";

const CACHE: &str =
    "  <policy|memory|read once|read again|newcomers|came back|came in|came in again";

/// Who reclaimed for how long and what became of pages, a line a run that was steered.
pub(super) fn table(records: &[Record]) -> String {
    let steered = records.iter().filter_map(|record| {
        let steered = record.reclaim.as_ref()?.counts.steering.as_deref()?;
        Some((record, steered))
    });
    let steered: Vec<_> = steered.collect();
    if steered.is_empty() {
        return String::new();
    }
    let who = steered.iter().map(|(record, of)| who(record, of));
    let pages = steered.iter().map(|(record, of)| pages(record, of));
    let (who, pages) = (aligned(WHO, who), aligned(PAGES, pages));
    let caches = steered.iter().filter_map(|(record, of)| {
        let cache = of.cache.as_ref()?;
        Some(cached(record, cache))
    });
    let caches: Vec<_> = caches.collect();
    let caches = match caches.is_empty() {
        true => String::new(),
        false => format!(
            "\npage cache that was dropped, by how it was read, and that came in\n{}",
            aligned(CACHE, caches)
        ),
    };
    format!("\n{who}\n{pages}{caches}")
}

fn who(record: &Record, of: &SteeringCounts) -> [String; 9] {
    let ms = |ns: u64| format!("{} ms", grouped(ns / 1_000_000));
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        per_thousand(of.refault_ratio),
        ms(of.time_ns),
        ms(of.pageout_ns),
        ms(of.kernel_ns),
        ms(of.programs_ns),
        ms(of.cpu_ns),
        grouped(of.peak_above_budget_pages),
    ]
}

fn cached(record: &Record, of: &CacheCounts) -> [String; 8] {
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        grouped(of.once_pages),
        grouped(of.again_pages),
        grouped(of.newcomers_pages),
        grouped(of.returned_pages),
        grouped(of.in_pages),
        grouped(of.in_again_pages),
    ]
}

fn pages(record: &Record, of: &SteeringCounts) -> [String; 5] {
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        grouped(of.nr_paged_out_pages),
        grouped(of.nr_reclaimed_ahead_pages),
        grouped(of.nr_reclaimed_in_faults_pages),
    ]
}
