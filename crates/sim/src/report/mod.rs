//! What is printed of runs: one record a run, as JSON, CSV or a table.
//!
//! **Owns** what is told of a run, which `docs/reference/sim.md` explains, and its order. **Does not own** the counts of a mechanism
//! and the names of their fields (`outcome`), nor the estimate (`cost`).
//!
//! **Invariants**
//! - I1: every number is an integer or comes from integers by one division: no libm, the same bytes
//!   on any machine.

mod csv;
mod groups;
mod steered;
mod table;
mod tiers;

pub use table::grouped;

use serde::Serialize;

use crate::{
    cost::{Cost, CostModel},
    outcome::{Reclaim, by_kind},
    plot,
    ratio::Ratio,
    runs::Run,
    workload::Workload,
};

/// Everything that was run, in order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// A record a run.
    pub runs: Vec<Record>,
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

impl Report {
    /// Adds the runs over a workload.
    pub fn add(&mut self, workload: &Workload, runs: &[Run], cost: &CostModel) {
        let nr_distinct = workload.nr_pages_by_kind();
        let record = |run: &Run| Record::of(workload, nr_distinct, run, cost);
        self.runs.extend(runs.iter().map(record));
    }

    /// All of it as one JSON object, indented, with a newline at its end.
    ///
    /// # Errors
    /// None that can happen: the records hold nothing that JSON lacks.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// A line a run with a header, without the sizes over time.
    pub fn csv(&self) -> String {
        csv::text(&self.runs)
    }

    /// A picture, as SVG.
    pub fn plot(&self) -> String {
        plot::picture(&self.runs)
    }

    /// For people: a table a trace.
    pub fn table(&self) -> String {
        table::text(&self.runs)
    }
}

impl Record {
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
            reclaim: reclaim.map(|counts| ReclaimRecord {
                swappiness: run.setup.swappiness.get(),
                counts: counts.clone(),
            }),
        }
    }
}
