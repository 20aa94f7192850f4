//! What a run ends in: counts, and how the generations stood on the way.
//!
//! **Owns** the counters, what they mean, and their names where they are written as JSON (`docs/reference/sim.md`). **Does not own**
//! what else is printed of a run (`report`) or what they cost (`cost`).
//!
//! **Invariants**
//! - I1: counts are of base pages unless the name says otherwise; tried and applied are never the same.

use serde::{Serialize, Serializer};
use strata_lru::{AddUp, GroupEvents, Limits, TimeMs};

pub use crate::generations::{AgeShare, GenerationPages, Sample};
use crate::ratio::Ratio;

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reclaim {
    /// Visited by eviction.
    #[serde(rename = "scanned_pages")]
    pub nr_scanned: u64,
    /// Evicted, by kind (anon, file).
    #[serde(rename = "stolen_pages", serialize_with = "by_kind")]
    pub nr_stolen: [u64; 2],
    /// Moved to the youngest generation by ageing.
    #[serde(rename = "promoted_pages")]
    pub nr_promoted: u64,
    /// Made active, or the youngest, by eviction or by a read.
    #[serde(rename = "activated_pages")]
    pub nr_activated: u64,
    /// Moved to a lower node.
    #[serde(rename = "demoted_pages")]
    pub nr_demoted: u64,
    /// Spared for their tier.
    #[serde(rename = "protected_pages")]
    pub nr_protected: u64,
    /// Dirty pages written before they could go.
    #[serde(rename = "written_pages")]
    pub nr_written: u64,
    /// Came back, by kind and by the tier they left from (`two-list` has tier 0 alone).
    #[serde(rename = "refaulted_pages", serialize_with = "by_kind")]
    pub nr_refaulted: [[u64; NR_TIERS_MAX]; 2],
    /// Pages that came back so soon that the working set was cut into, by kind and tier.
    #[serde(rename = "refaulted_recent_pages", serialize_with = "by_kind")]
    pub nr_refaulted_recent: [[u64; NR_TIERS_MAX]; 2],
    /// Generations begun.
    #[serde(rename = "ageing_runs")]
    pub nr_ageing_runs: u64,
    /// Page-table entries looked at by walks.
    #[serde(rename = "walked_ptes")]
    pub nr_ptes_walked: u64,
    /// Page-table entries looked at around an evicted page.
    #[serde(rename = "looked_around_ptes")]
    pub nr_ptes_looked_around: u64,
    /// Page tables that the Bloom filter let a walk visit.
    #[serde(rename = "bloom_hits")]
    pub nr_bloom_hits: u64,
    /// Page tables that the Bloom filter had a walk skip.
    #[serde(rename = "bloom_skips")]
    pub nr_bloom_skips: u64,
    /// Page tables that walks asked about.
    #[serde(rename = "asked_tables")]
    pub nr_tables_asked: u64,
    /// Page-table entries that walks found accessed.
    #[serde(skip)]
    pub nr_ptes_young: u64,
    /// Taken off a list to be evicted, or tried.
    #[serde(skip)]
    pub nr_isolated: u64,
    /// Of the active list, taken off to see if they are used.
    #[serde(skip)]
    pub nr_checked: u64,
    /// Made active by accesses through descriptors.
    #[serde(skip)]
    pub nr_activated_by_access: u64,
    /// How often the mappings of a page were looked up: to see if it is used, or to unmap it.
    #[serde(skip)]
    pub nr_rmap_walks: u64,
    /// Time spent in generations, youngest first.
    pub time_in_generations: Vec<AgeShare>,
    /// What the control loop did; `None` where nobody steers.
    #[serde(rename = "steered", skip_serializing_if = "Option::is_none")]
    pub steering: Option<Box<crate::steered::SteeringCounts>>,
    /// What moved between tiers; `None` without tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<TierCounts>,
    /// What became of each group, parents first; empty where all is one group.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupCounts>,
    /// When pages came back, and how many, in order of time; milliseconds of the trace.
    #[serde(skip)]
    pub refaults_by_time: Vec<(TimeMs, u64)>,
    /// How the generations stood, evenly over the run.
    #[serde(rename = "generations")]
    pub samples: Vec<Sample>,
}

/// Writes what there is of anon pages and of file pages.
pub(crate) fn by_kind<T: Serialize, S: Serializer>(
    [anon, file]: &[T; 2],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("anon", anon), ("file", file)])
}

/// What became of a group and all below it, under the names cgroup v2 uses where it has one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    /// Path of the group.
    #[serde(rename = "group")]
    pub path: String,
    /// The trace's group whose pages it holds; `None` if it only holds groups.
    pub trace_group: Option<u16>,
    /// What it may use itself.
    #[serde(skip)]
    pub limits: Limits,
    /// Requests for its pages.
    #[serde(rename = "accesses")]
    pub nr_accesses: u64,
    /// Distinct pages of the group.
    #[serde(rename = "distinct_pages")]
    pub nr_distinct: u64,
    /// Requests whose page was not in memory, first touches included.
    #[serde(rename = "misses")]
    pub nr_misses: u64,
    /// Misses of accesses.
    pub miss_ratio: Ratio,
    /// Misses that were not first touches.
    #[serde(rename = "refaults")]
    pub nr_refaults: u64,
    /// Visited by eviction.
    #[serde(rename = "scanned_pages")]
    pub nr_scanned: u64,
    /// Evicted, by kind.
    #[serde(rename = "stolen_pages", serialize_with = "by_kind")]
    pub nr_stolen: [u64; 2],
    /// Anon pages that were evicted, to swap.
    #[serde(rename = "swapped_out_pages")]
    pub nr_swapped_out: u64,
    /// Generations begun, of each lruvec.
    #[serde(rename = "ageing_runs")]
    pub nr_ageing_runs: u64,
    /// In memory at the end (`memory.current`).
    #[serde(rename = "current_pages")]
    pub nr_held: u64,
    /// In swap at the end (`memory.swap.current`).
    #[serde(rename = "swap_current_pages")]
    pub nr_swapped: u64,
    /// How often its limits, and those below it, were felt (`memory.events`).
    pub events: GroupEvents,
}

impl GroupCounts {
    /// Adds what happened in a group below; what it holds and its events are in already.
    pub(crate) fn add_flows(&mut self, below: &GroupCounts) {
        self.nr_accesses += below.nr_accesses;
        self.nr_distinct += below.nr_distinct;
        self.nr_misses += below.nr_misses;
        self.nr_scanned += below.nr_scanned;
        self.nr_stolen.add_up(&below.nr_stolen);
        self.nr_ageing_runs += below.nr_ageing_runs;
    }

    /// Fills in what follows from the sums.
    pub(crate) fn derive(&mut self) {
        self.miss_ratio = Ratio::of(self.nr_misses, self.nr_accesses);
        self.nr_refaults = self.nr_misses.saturating_sub(self.nr_distinct);
        self.nr_swapped_out = self.nr_stolen[0];
    }
}

/// What memory in tiers did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TierCounts {
    /// Requests that found their page, by the node it was on, fastest first.
    #[serde(rename = "hits")]
    pub nr_hits: Vec<u64>,
    /// All that was counted up to the end of each phase, if the run has phases.
    #[serde(skip)]
    pub phases: Vec<Outcome>,
    /// What the engine counts of demotion and promotion.
    #[serde(flatten)]
    pub stats: strata_lru::TieringStats,
}

/// Tiers there can be.
pub const NR_TIERS_MAX: usize = strata_lru::ReclaimStats::NR_TIERS;
