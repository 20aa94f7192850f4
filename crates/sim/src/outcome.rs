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
    pub steering: Option<Box<SteeringCounts>>,
    /// What moved between tiers; `None` without tiers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tiers: Option<TierCounts>,
    /// What became of apps; `None` where nobody kills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apps: Option<AppCounts>,
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

/// What became of apps, which are groups of the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AppCounts {
    /// Killed.
    #[serde(rename = "kills")]
    pub nr_kills: u64,
    /// Came to the front after they were killed.
    #[serde(rename = "cold_starts")]
    pub nr_cold_starts: u64,
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

/// What the control loop did; pages are base pages, times virtual nanoseconds, which are written as milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SteeringCounts {
    /// How long the run took.
    #[serde(rename = "time_ms", serialize_with = "as_ms")]
    pub time_ns: u64,
    /// Requests whose page had been in memory before.
    #[serde(skip)]
    pub nr_refaults: u64,
    /// Those of all requests.
    pub refault_ratio: Ratio,
    /// For how long pages were taken one by one while usage was near the budget.
    #[serde(rename = "pageout_ms", serialize_with = "as_ms")]
    pub pageout_ns: u64,
    /// For how long the kernel reclaimed because Strata asked.
    #[serde(rename = "kernel_ms", serialize_with = "as_ms")]
    pub kernel_ns: u64,
    /// For how long it was left to the programs, in their own faults.
    #[serde(rename = "programs_ms", serialize_with = "as_ms")]
    pub programs_ns: u64,
    /// Taken one by one.
    #[serde(rename = "paged_out_pages")]
    pub nr_paged_out_pages: u64,
    /// Freed by the kernel because Strata asked.
    #[serde(rename = "reclaimed_ahead_pages")]
    pub nr_reclaimed_ahead_pages: u64,
    /// Freed by the kernel in faults of the programs.
    #[serde(rename = "reclaimed_in_faults_pages")]
    pub nr_reclaimed_in_faults_pages: u64,
    /// What Strata's threads took of the processors.
    #[serde(rename = "strata_cpu_ms", serialize_with = "as_ms")]
    pub cpu_ns: u64,
    /// Walks of all page tables.
    #[serde(rename = "walks")]
    pub nr_walks: u64,
    /// Ticks of the loop.
    #[serde(rename = "ticks")]
    pub nr_ticks: u64,
    /// Most pages in memory at a time.
    pub peak_pages: u64,
    /// By how many of them that was above the budget.
    pub peak_above_budget_pages: u64,
    /// How often the limit gave way.
    #[serde(rename = "limit_raises")]
    pub nr_limit_raises: u64,
    /// Where it stood at most.
    pub limit_peak_pages: u64,
    /// What became of page cache that no program had mapped; `None` where it was left to the kernel.
    #[serde(rename = "page_cache", skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheCounts>,
}

fn as_ms<S: Serializer>(ns: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(ns / 1_000_000)
}

/// What became of page cache; counts of pages unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CacheCounts {
    /// Censuses of it (a number of censuses).
    pub censuses: u64,
    /// Dropped after they were read at most once.
    pub once_pages: u64,
    /// Dropped after they were read again.
    pub again_pages: u64,
    /// In a loop: dropped a moment after they had come in.
    pub newcomers_pages: u64,
    /// Chosen to be dropped and left because they were dirty or mapped by then.
    pub left_pages: u64,
    /// Part of `once_pages` and `again_pages` that was read again within a minute.
    pub returned_pages: u64,
    /// Came to memory since the first census; not what came between two looks that lie 2 s or more apart, nor after the last.
    pub in_pages: u64,
    /// Part of `in_pages` that had been in memory before, as far as that is remembered.
    pub in_again_pages: u64,
    /// Came to memory and found no room in the buffer: too many between two looks.
    pub lost_pages: u64,
    /// What became of pages by tier, newcomers not among them.
    pub tiers: Vec<TierRecord>,
}

/// What became of page cache of one tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TierRecord {
    /// Number of the tier.
    pub tier: u64,
    /// Of its pages.
    #[serde(flatten)]
    pub counts: strata_control::page_cache::TierCounts,
}

impl CacheCounts {
    /// All that was dropped.
    pub fn dropped_pages(&self) -> u64 {
        self.once_pages + self.again_pages + self.newcomers_pages
    }
}

/// Tiers there can be.
pub const NR_TIERS_MAX: usize = strata_lru::ReclaimStats::NR_TIERS;
