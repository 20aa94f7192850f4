//! What is printed of runs: one record a run, as JSON, CSV or a table.
//!
//! **Owns** the names of the fields, which `docs/reference/sim.md` explains, and their order. **Does not own**
//! the counts (`outcome`) or the estimate (`cost`).
//!
//! **Invariants**
//! - I1: every number is an integer or comes from integers by one division: no libm, the same bytes
//!   on any machine.

mod csv;
mod generations;
mod groups;
mod steered;
mod table;
mod tiers;

pub use table::grouped;

use serde::Serialize;

pub use self::{
    generations::AgeShare,
    groups::{EventsRecord, GroupRecord},
    steered::SteeredRecord,
    tiers::TiersRecord,
};
use crate::{
    cost::{Cost, CostModel},
    outcome::{NR_TIERS_MAX, Reclaim},
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
    pub misses_by_kind: ByKind<u64>,
    /// The estimated time.
    pub estimated_time: EstimatedTime,
    /// What the kernel would have counted; none for baselines.
    pub reclaim: Option<ReclaimRecord>,
}

/// A count of anon pages and one of file pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ByKind<T> {
    /// Swap-backed.
    pub anon: T,
    /// File-backed.
    pub file: T,
}

impl<T: Copy> From<[T; 2]> for ByKind<T> {
    fn from([anon, file]: [T; 2]) -> Self {
        ByKind { anon, file }
    }
}

/// The cost model's sums.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct EstimatedTime {
    /// All of it.
    pub total_ns: u64,
    /// Bringing pages in.
    pub access_ns: u64,
    /// Writing what is evicted.
    pub write_ns: u64,
    /// Finding out what to evict.
    pub reclaim_ns: u64,
}

impl From<Cost> for EstimatedTime {
    fn from(cost: Cost) -> Self {
        EstimatedTime {
            total_ns: cost.total_ns(),
            access_ns: cost.access_ns,
            write_ns: cost.write_ns,
            reclaim_ns: cost.reclaim_ns,
        }
    }
}

/// What mechanism and policy did; pages unless the name says otherwise.
#[derive(Clone, Debug, Serialize)]
pub struct ReclaimRecord {
    /// The balance of the kinds it ran with.
    pub swappiness: u8,
    /// Visited by eviction.
    pub scanned_pages: u64,
    /// Evicted.
    pub stolen_pages: ByKind<u64>,
    /// Moved to the youngest generation, or to the active list.
    pub promoted_pages: u64,
    /// Moved to a lower node.
    pub demoted_pages: u64,
    /// Spared for their tier.
    pub protected_pages: u64,
    /// Written before they could go.
    pub written_pages: u64,
    /// Came back, by kind and tier.
    pub refaulted_pages: ByKind<[u64; NR_TIERS_MAX]>,
    /// Pages that came back soon, by kind and tier.
    pub refaulted_recent_pages: ByKind<[u64; NR_TIERS_MAX]>,
    /// Generations begun.
    pub ageing_runs: u64,
    /// Page-table entries seen by walks.
    pub walked_ptes: u64,
    /// Page-table entries seen around victims.
    pub looked_around_ptes: u64,
    /// Page tables a Bloom filter let through.
    pub bloom_hits: u64,
    /// Page tables a Bloom filter kept out.
    pub bloom_skips: u64,
    /// Page tables that walks asked about.
    pub asked_tables: u64,
    /// Time spent in generations, youngest first.
    pub time_in_generations: Vec<AgeShare>,
    /// What Strata's control loop did; absent where nothing is steered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steered: Option<SteeredRecord>,
    /// What moved between tiers; absent without tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<TiersRecord>,
    /// What became of each group, parents first; absent without groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupRecord>,
    /// Sizes over time.
    pub generations: Vec<SampleRecord>,
}

/// The generations at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct SampleRecord {
    /// Requests replayed so far.
    pub at_access: u64,
    /// Misses among the requests replayed so far.
    pub misses: u64,
    /// Oldest first.
    pub sizes: Vec<GenerationRecord>,
}

/// The size of a generation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct GenerationRecord {
    /// Number of the generation.
    pub seq: u64,
    /// Anon pages of the generation.
    pub anon_pages: u64,
    /// File pages of the generation.
    pub file_pages: u64,
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
            misses_by_kind: ByKind {
                anon: outcome.nr_anon_misses,
                file: outcome.nr_misses - outcome.nr_anon_misses,
            },
            estimated_time: cost.cost(outcome, nr_distinct).into(),
            reclaim: reclaim.map(|reclaim| {
                let steering = reclaim.steering.as_deref();
                let steered = steering
                    .map(|of| SteeredRecord::of(of, outcome.nr_accesses, run.setup.memory_pages));
                ReclaimRecord {
                    steered,
                    ..ReclaimRecord::of(reclaim, run.setup.swappiness.get())
                }
            }),
        }
    }
}

impl ReclaimRecord {
    fn of(reclaim: &Reclaim, swappiness: u8) -> ReclaimRecord {
        // Destructured, so that a new counter can't be forgotten here.
        let Reclaim {
            nr_scanned,
            nr_stolen,
            nr_promoted,
            nr_demoted,
            nr_protected,
            nr_ageing_runs,
            nr_ptes_walked,
            nr_ptes_looked_around,
            nr_bloom_hits,
            nr_bloom_skips,
            nr_tables_asked,
            nr_written,
            nr_refaulted,
            nr_refaulted_recent,
            tiers,
            groups,
            // Its shares are of the run's requests.
            steering: _,
            samples,
            // As long as the run; a plan adds it up.
            refaults_by_time: _,
        } = reclaim;
        ReclaimRecord {
            swappiness,
            scanned_pages: *nr_scanned,
            stolen_pages: (*nr_stolen).into(),
            promoted_pages: *nr_promoted,
            demoted_pages: *nr_demoted,
            protected_pages: *nr_protected,
            written_pages: *nr_written,
            refaulted_pages: (*nr_refaulted).into(),
            refaulted_recent_pages: (*nr_refaulted_recent).into(),
            ageing_runs: *nr_ageing_runs,
            walked_ptes: *nr_ptes_walked,
            looked_around_ptes: *nr_ptes_looked_around,
            bloom_hits: *nr_bloom_hits,
            bloom_skips: *nr_bloom_skips,
            asked_tables: *nr_tables_asked,
            time_in_generations: generations::time_by_age(samples),
            steered: None,
            tiers: tiers.as_ref().map(TiersRecord::of),
            groups: groups.iter().map(GroupRecord::of).collect(),
            generations: generations::records(samples),
        }
    }
}
