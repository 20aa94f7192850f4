//! What the control loop did in a steered run.
//!
//! **Owns** the names of the fields, and their table for people. **Does not own** the counts (`steered`),
//! nor the names of those of page cache (`steered::cache`).

use serde::Serialize;

use super::{Record, table::grouped};
use crate::{
    ratio::Ratio,
    steered::{CacheCounts, SteeringCounts},
    table::aligned,
};

/// Counts of pages and times, unless the name says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SteeredRecord {
    /// How long the run took, virtual milliseconds.
    pub time_ms: u64,
    /// Requests whose page had been in memory before, of all requests.
    pub refault_ratio: Ratio,
    /// For how long pages were taken one by one, virtual milliseconds, while usage was near the budget.
    pub pageout_ms: u64,
    /// For how long the kernel reclaimed because Strata asked.
    pub kernel_ms: u64,
    /// For how long it was left to the programs.
    pub programs_ms: u64,
    /// Taken one by one.
    pub paged_out_pages: u64,
    /// Freed by the kernel because Strata asked.
    pub reclaimed_ahead_pages: u64,
    /// Freed by the kernel in faults of the programs.
    pub reclaimed_in_faults_pages: u64,
    /// Processor time of Strata's threads, virtual milliseconds.
    pub strata_cpu_ms: u64,
    /// Walks of all page tables (a number of walks).
    pub walks: u64,
    /// Ticks of the loop (a number of ticks).
    pub ticks: u64,
    /// Most pages in memory at a time.
    pub peak_pages: u64,
    /// By how many of them that was above the budget.
    pub peak_above_budget_pages: u64,
    /// How often the limit gave way (a number of times).
    pub limit_raises: u64,
    /// Where the limit stood at most.
    pub limit_peak_pages: u64,
    /// What became of page cache that no program had mapped; absent where it was left to the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<CacheCounts>,
}

impl SteeredRecord {
    pub(super) fn of(
        counts: &SteeringCounts,
        nr_accesses: u64,
        memory_pages: u32,
    ) -> SteeredRecord {
        // Destructured, so that a new counter can't be forgotten here.
        let SteeringCounts {
            time_ns,
            pageout_ns,
            kernel_ns,
            programs_ns,
            nr_refaults,
            nr_paged_out_pages,
            nr_reclaimed_ahead_pages,
            nr_reclaimed_in_faults_pages,
            cpu_ns,
            nr_walks,
            nr_ticks,
            peak_pages,
            nr_limit_raises,
            limit_peak_pages,
            ref cache,
        } = *counts;
        let ms = |ns: u64| ns / 1_000_000;
        SteeredRecord {
            time_ms: ms(time_ns),
            refault_ratio: Ratio::of(nr_refaults, nr_accesses),
            pageout_ms: ms(pageout_ns),
            kernel_ms: ms(kernel_ns),
            programs_ms: ms(programs_ns),
            paged_out_pages: nr_paged_out_pages,
            reclaimed_ahead_pages: nr_reclaimed_ahead_pages,
            reclaimed_in_faults_pages: nr_reclaimed_in_faults_pages,
            strata_cpu_ms: ms(cpu_ns),
            walks: nr_walks,
            ticks: nr_ticks,
            peak_pages,
            peak_above_budget_pages: peak_pages.saturating_sub(u64::from(memory_pages)),
            limit_raises: nr_limit_raises,
            limit_peak_pages,
            page_cache: cache.clone(),
        }
    }
}

impl SteeredRecord {
    /// Faults of pages that had been in memory before, per 1000 requests, with two decimals.
    fn per_thousand(&self) -> String {
        let hundredths = self.refault_ratio.millionths().saturating_add(5) / 10;
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    }
}

const WHO: &str =
    "  <policy|memory|faults/1000|time|pageout|the kernel|programs|Strata, CPU|above budget";
const PAGES: &str = "  <policy|memory|paged out|reclaimed ahead|in faults";

const CACHE: &str =
    "  <policy|memory|read once|read again|newcomers|came back|came in|came in again";

/// Who reclaimed for how long and what became of pages, a line a run that was steered.
pub(super) fn table(records: &[Record]) -> String {
    let steered = records.iter().filter_map(|record| {
        let steered = record.reclaim.as_ref()?.steered.as_ref()?;
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
        let cache = of.page_cache.as_ref()?;
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

fn who(record: &Record, of: &SteeredRecord) -> [String; 9] {
    let ms = |ms: u64| format!("{} ms", grouped(ms));
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        of.per_thousand(),
        ms(of.time_ms),
        ms(of.pageout_ms),
        ms(of.kernel_ms),
        ms(of.programs_ms),
        ms(of.strata_cpu_ms),
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

fn pages(record: &Record, of: &SteeredRecord) -> [String; 5] {
    [
        record.policy.clone(),
        grouped(u64::from(record.memory_pages)),
        grouped(of.paged_out_pages),
        grouped(of.reclaimed_ahead_pages),
        grouped(of.reclaimed_in_faults_pages),
    ]
}
