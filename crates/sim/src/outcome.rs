//! What a run ends in: counts, and how the generations stood on the way.
//!
//! **Owns** the counters and what they mean. **Does not own** how they are printed (`report`) or what
//! they cost (`cost`).
//!
//! **Invariants**
//! - I1: counts are of base pages unless the name says otherwise; tried and applied are never the same.

use strata_lru::{GroupEvents, Limits, TimeMs};

/// The end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests replayed, each counted.
    pub nr_accesses: u64,
    /// Requests whose page was not in memory, first touches included.
    pub nr_misses: u64,
    /// Misses of anon pages.
    pub nr_anon_misses: u64,
    /// Bytes the policy took at its largest, the workload not counted.
    pub policy_bytes: u64,
    /// What a kernel would count; `None` for baselines, which have no mechanism.
    pub reclaim: Option<Box<Reclaim>>,
}

/// What the mechanism and the policy of a kernel did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reclaim {
    /// Visited by eviction.
    pub nr_scanned: u64,
    /// Evicted, by kind (anon, file).
    pub nr_stolen: [u64; 2],
    /// Moved to the youngest generation, or to the active list.
    pub nr_promoted: u64,
    /// Moved to a lower node.
    pub nr_demoted: u64,
    /// Spared for their tier.
    pub nr_protected: u64,
    /// Generations begun.
    pub nr_ageing_runs: u64,
    /// Page-table entries looked at by walks.
    pub nr_ptes_walked: u64,
    /// Page-table entries looked at around an evicted page.
    pub nr_ptes_looked_around: u64,
    /// Page tables that the Bloom filter let a walk visit.
    pub nr_bloom_hits: u64,
    /// Page tables that the Bloom filter had a walk skip.
    pub nr_bloom_skips: u64,
    /// Page tables that walks asked about.
    pub nr_tables_asked: u64,
    /// Dirty pages written before they could go.
    pub nr_written: u64,
    /// Came back, by kind and by the tier they left from (`two-list` and `strata` have tier 0 alone).
    pub nr_refaulted: [[u64; NR_TIERS_MAX]; 2],
    /// Pages that came back so soon that the working set was cut into, by kind and tier.
    pub nr_refaulted_recent: [[u64; NR_TIERS_MAX]; 2],
    /// What moved between tiers; `None` without tiers.
    pub tiers: Option<TierCounts>,
    /// What became of each group, parents first; empty where all is one group.
    pub groups: Vec<GroupCounts>,
    /// What the control loop did; `None` where nobody steers.
    pub steering: Option<Box<crate::steered::SteeringCounts>>,
    /// When pages came back, and how many, in order of time; milliseconds of the trace.
    pub refaults_by_time: Vec<(TimeMs, u64)>,
    /// How the generations stood, evenly over the run.
    pub samples: Vec<Sample>,
}

/// What became of a group and all below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupCounts {
    /// Path of the group.
    pub path: String,
    /// The trace's group whose pages it holds; `None` if it only holds groups.
    pub trace_group: Option<u16>,
    /// What it may use itself.
    pub limits: Limits,
    /// Requests for its pages.
    pub nr_accesses: u64,
    /// Distinct pages of the group.
    pub nr_distinct: u64,
    /// Requests whose page was not in memory.
    pub nr_misses: u64,
    /// Visited by eviction.
    pub nr_scanned: u64,
    /// Evicted, by kind; anon is swapped out.
    pub nr_stolen: [u64; 2],
    /// Generations begun, of each lruvec.
    pub nr_ageing_runs: u64,
    /// In memory at the end.
    pub nr_held: u64,
    /// In swap at the end.
    pub nr_swapped: u64,
    /// How often its limits, and those below it, were felt.
    pub events: GroupEvents,
}

impl GroupCounts {
    /// Adds what happened in a group below; what it holds and its events are in already.
    pub(crate) fn add_flows(&mut self, below: &GroupCounts) {
        self.nr_accesses += below.nr_accesses;
        self.nr_distinct += below.nr_distinct;
        self.nr_misses += below.nr_misses;
        self.nr_scanned += below.nr_scanned;
        for (kind, nr_pages) in below.nr_stolen.into_iter().enumerate() {
            self.nr_stolen[kind] += nr_pages;
        }
        self.nr_ageing_runs += below.nr_ageing_runs;
    }
}

/// What memory in tiers did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierCounts {
    /// Requests that found their page, by the node it was on, fastest first.
    pub nr_hits: Vec<u64>,
    /// What the engine counts of demotion and promotion.
    pub stats: strata_lru::TieringStats,
}

/// Tiers there can be.
pub const NR_TIERS_MAX: usize = strata_lru::ReclaimStats::NR_TIERS;

/// The generations at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Requests replayed so far.
    pub at_access: u64,
    /// Misses among the requests replayed so far.
    pub nr_misses: u64,
    /// Oldest first; inactive and active for `two-list`. All groups and nodes together.
    pub generations: Vec<GenerationPages>,
}

/// The size of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationPages {
    /// Number of the generation.
    pub seq: u64,
    /// Pages by kind (anon, file).
    pub nr_pages: [u64; 2],
}
