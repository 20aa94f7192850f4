//! What is printed of runs: one record a run, as JSON, CSV or a table.
//!
//! **Owns** what is told of a run, which `docs/reference/sim.md` explains, and its order. **Does not own** the counts of a mechanism
//! and the names of their fields (`outcome`), nor the estimate (`cost`).
//!
//! **Invariants**
//! - I1: every number is an integer or comes from integers by one division: no libm, the same bytes
//!   on any machine.

mod apps;
mod csv;
mod groups;
mod profile;
mod steered;
mod table;
mod tiers;

use serde::Serialize;

use crate::{
    cost::{Cost, CostModel, Profile},
    outcome::{Outcome, Reclaim, Sample, by_kind},
    ratio::Ratio,
    runs::Run,
    table::{aligned, grouped},
    workload::Workload,
};

/// Everything that was run, in order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// A record a run.
    pub runs: Vec<Record>,
    /// Tells shares of reclaim and ranges, too.
    #[serde(skip)]
    pub is_profiled: bool,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Name of the trace, as it was given.
    pub trace: String,
    /// The policy, as it was given.
    pub policy: String,
    /// Memory.
    pub memory_pages: u32,
    /// Requests, each counted.
    pub accesses: u64,
    /// Distinct pages.
    pub distinct_pages: u64,
    /// The most of them in use at a time.
    pub footprint_pages: u64,
    /// Requests whose page was not in memory, first touches included.
    pub misses: u64,
    /// Misses of accesses.
    pub miss_ratio: Ratio,
    /// Misses that were not first touches.
    pub refaults: u64,
    /// Misses by kind.
    #[serde(serialize_with = "by_kind")]
    pub misses_by_kind: [u64; 2],
    /// The estimated time.
    pub estimated_time: Cost,
    /// The time by phase, of a run on tiers that has phases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseTime>,
    /// Shares of reclaim and ranges, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// What the kernel would have counted; none for baselines.
    pub reclaim: Option<ReclaimRecord>,
}

/// What mechanism and policy did.
#[derive(Clone, Debug, Serialize)]
pub struct ReclaimRecord {
    /// The balance of the kinds it ran with.
    pub swappiness: u8,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Reclaim,
}

/// The estimated time of a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseTime {
    /// Who asks for pages moves them, too.
    pub inline_ns: u64,
    /// Another processor reclaims and moves; whoever asks for pages does not wait.
    pub background_ns: u64,
    /// Requests that found their page, by node, fastest first.
    pub hits: Vec<u64>,
    /// Moved up.
    pub pgpromote_success: u64,
}

impl PhaseTime {
    /// The times between the ends of phases, up to each of which so much was counted.
    fn of(ends: &[Outcome], nr_distinct: [u64; 2], cost: &CostModel) -> Vec<PhaseTime> {
        let sums: Vec<PhaseTime> = ends
            .iter()
            .map(|end| {
                let cost = cost.cost(end, nr_distinct);
                let tiers = end.reclaim.as_ref().and_then(|of| of.tiers.clone());
                let tiers = tiers.unwrap_or_default();
                PhaseTime {
                    inline_ns: cost.total_ns,
                    background_ns: cost.access_ns,
                    hits: tiers.nr_hits,
                    pgpromote_success: tiers.stats.pgpromote_success,
                }
            })
            .collect();
        let since = |(at, end): (usize, &PhaseTime)| {
            let Some(before) = at.checked_sub(1).map(|at| &sums[at]) else {
                return end.clone();
            };
            let hits = end.hits.iter().zip(&before.hits);
            PhaseTime {
                inline_ns: end.inline_ns - before.inline_ns,
                background_ns: end.background_ns - before.background_ns,
                hits: hits.map(|(end, before)| end - before).collect(),
                pgpromote_success: end.pgpromote_success - before.pgpromote_success,
            }
        };
        sums.iter().enumerate().map(since).collect()
    }
}

/// A record as one JSON object, indented, with a newline at its end.
pub(crate) fn json(record: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(record)?;
    text.push('\n');
    Ok(text)
}

impl Report {
    /// Adds the runs over a workload.
    pub fn add(&mut self, workload: &Workload, runs: &[Run], cost: &CostModel) {
        let nr_distinct = workload.nr_pages_by_kind();
        let is_profiled = self.is_profiled;
        let record = |run: &Run| {
            let of_kernel = run.outcome.reclaim.is_some() && is_profiled;
            let first = runs.iter().find(|first| first.setup == run.setup);
            let profile = first.filter(|_| of_kernel);
            let profile =
                profile.map(|first| cost.profile(&run.outcome, &first.outcome, nr_distinct));
            Record {
                profile,
                ..Record::of(workload, nr_distinct, run, cost)
            }
        };
        self.runs.extend(runs.iter().map(record));
    }

    /// All of it as one JSON object, indented, with a newline at its end.
    ///
    /// # Errors
    /// None that can happen: the records hold nothing that JSON lacks.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        json(self)
    }

    /// A line a run with a header, without the sizes over time.
    pub fn csv(&self) -> String {
        csv::text(&self.runs)
    }

    /// For people: a table a trace.
    pub fn table(&self) -> String {
        table::text(&self.runs)
    }
}

/// A table of runs below an empty line, one row each; nothing where there are none.
fn section(head: &str, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    match rows.is_empty() {
        true => String::new(),
        false => format!("\n{}", aligned(&format!("  <policy|memory|{head}"), rows)),
    }
}

impl Record {
    /// How the generations stood; none of baselines.
    pub(crate) fn samples(&self) -> &[Sample] {
        let reclaim = self.reclaim.as_ref();
        reclaim.map_or(&[][..], |of| &of.counts.samples)
    }

    /// A row of a [`section`]: the run, then these cells.
    fn row(&self, cells: impl IntoIterator<Item = String>) -> Vec<String> {
        let run = [self.policy.clone(), grouped(u64::from(self.memory_pages))];
        run.into_iter().chain(cells).collect()
    }

    fn of(workload: &Workload, nr_distinct: [u64; 2], run: &Run, cost: &CostModel) -> Record {
        let outcome = &run.outcome;
        let distinct_pages = u64::from(workload.nr_pages());
        let reclaim = outcome.reclaim.as_deref();
        Record {
            trace: workload.name().to_owned(),
            policy: run.policy.clone(),
            memory_pages: run.setup.memory_pages,
            accesses: outcome.nr_accesses,
            distinct_pages,
            footprint_pages: u64::from(workload.footprint_pages()),
            misses: outcome.nr_misses,
            miss_ratio: Ratio::of(outcome.nr_misses, outcome.nr_accesses),
            refaults: outcome.nr_misses.saturating_sub(distinct_pages),
            misses_by_kind: [
                outcome.nr_anon_misses,
                outcome.nr_misses - outcome.nr_anon_misses,
            ],
            estimated_time: cost.cost(outcome, nr_distinct),
            phases: reclaim
                .and_then(|reclaim| reclaim.tiers.as_ref())
                .map(|tiers| PhaseTime::of(&tiers.phases, nr_distinct, cost))
                .unwrap_or_default(),
            profile: None,
            reclaim: reclaim.map(|counts| ReclaimRecord {
                swappiness: run.setup.swappiness.get(),
                counts: counts.clone(),
            }),
        }
    }
}
