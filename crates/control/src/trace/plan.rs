//! What a tick decided, as a trace has it.
//!
//! **Owns** this part of the format. **Does not own** the rest (`format`), nor any decision.

pub use crate::limit::{Line as LineState, Standing};
pub use crate::reclaimer::Reclaimer as Who;
pub use crate::sample::CpuState as Processors;
use serde::{Deserialize, Serialize};
pub use strata_lru::machine::ClearIntent;

fn is_off(flag: &bool) -> bool {
    !flag
}

/// What a tick decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// The next tick comes after so long, unless something wakes the loop.
    pub wait_ms: u64,
    /// Nothing is decided: the run is paused.
    #[serde(skip_serializing_if = "is_off")]
    pub is_paused: bool,
    /// How eviction stands.
    pub standing: Standing,
    /// Everything is tried and next to nothing goes.
    #[serde(skip_serializing_if = "is_off")]
    pub is_stalled: bool,
    /// The next attempt to reclaim waits for so long, because those before were in vain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stall_pause_ms: Option<u64>,
    /// Who reclaims, and with how much; `None` while paused, or where nobody decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaimer: Option<Reclaimer>,
    /// How the processors are shared, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// The engine's balance of anon and file pages from here on, where it was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swappiness: Option<u8>,
    /// What was done at each look at the limit, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limit: Vec<LimitPlan>,
    /// What was asked for of page cache, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache: Vec<CacheAsk>,
    /// What the kernel was asked to reclaim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim: Option<ReclaimAsk>,
    /// What the engine was asked for, in order, and what was sent to be paged out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<Batch>,
    /// Each time a walk was thought of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub walk_asks: Vec<WalkAsk>,
    /// The walks that were made, in order; as many as `sample.walks`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub walks: Vec<WalkPlan>,
    /// Huge pages chosen to be split, at each look at them; `None`: it came too soon to count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chosen_splits: Vec<Option<u64>>,
    /// Huge pages sent to be split.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitAsk>,
    /// The wait until the next step of an order of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_wait_ms: Option<u64>,
}

/// What was asked for of page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CacheAsk {
    /// A census.
    Census,
    /// That pages of a file are dropped that were read once.
    ReadOnce {
        /// Number of the file in the sample.
        file: u32,
        /// At most so much.
        bytes: u64,
    },
    /// That pages of a file are dropped that were read again.
    ReadAgain {
        /// Number of the file in the sample.
        file: u32,
        /// At most so much.
        bytes: u64,
    },
    /// A look at what came in.
    NewcomersLook {
        /// What came in is remembered until so much came in after it.
        history_bytes: u64,
    },
    /// That pages are dropped that came in of late and were read once since.
    Newcomers {
        /// At most so much.
        bytes: u64,
    },
}

/// Who reclaims, and with how much, before anything holds it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reclaimer {
    /// Who.
    pub who: Who,
    /// Base pages wanted of pageout.
    pub pageout_pages: u64,
    /// Bytes wanted of the kernel.
    pub reclaim_bytes: u64,
    /// The wait that goes with this reclaimer.
    pub wait_ms: u64,
}

/// How the processors are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// Whether one is free for Strata.
    pub processors: Processors,
    /// Processors that the programs want, on average.
    pub wanted_processors: f64,
    /// Threads of the programs that want one.
    pub wanted_threads: f64,
    /// Pages that come back in a second, on average.
    pub refaulted_pages_per_s: f64,
    /// What pageout may take of a processor, percent.
    pub pageout_percent_max: u32,
}

/// What was done at one look at the limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitPlan {
    /// How eviction stood.
    pub standing: Standing,
    /// What was done, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<LimitAction>,
    /// The kernel holds usage below the budget by itself.
    #[serde(skip_serializing_if = "is_off")]
    pub is_line_held: bool,
}

/// A change of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitAction {
    /// The line is given up: the limit goes back to the backstop.
    ReleaseLine,
    /// `memory.high` goes back to what it was.
    ReleaseHigh,
    /// The limit comes down to the backstop as far as usage lets it.
    Settle,
    /// The line is held, and this is how far that has got.
    HoldLine(LineState),
    /// The limit gives way.
    Raise {
        /// The rise that was wanted, bytes.
        bytes: u64,
        /// The rise that the kernel took, bytes.
        raised_bytes: u64,
    },
    /// The limit may give way no further.
    Refuse,
    /// The kernel's own killer decides again.
    HandBackOom,
    /// The kernel refused a change, or the limit could not be read.
    Fail,
}

/// What the kernel was asked to reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReclaimAsk {
    /// Bytes.
    pub bytes: u64,
    /// Whether the request went out: not while one is out, while it found nothing a moment ago, or in a dry run.
    pub is_taken: bool,
}

/// What the engine was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// By what.
    pub by: ChosenBy,
    /// Base pages wanted; `None` where a command says it.
    pub nr_wanted_pages: Option<u64>,
    /// How the engine answered.
    pub answer: Answer,
    /// Folios sent.
    pub nr_sent_folios: u64,
    /// Requests they were sent in, one a program.
    pub nr_requests: u64,
}

/// By what pages are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// The oldest.
    #[default]
    Generations,
    /// What a command names.
    Command,
}

/// How the engine answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// With pages.
    #[default]
    Pages,
    /// Ask again.
    Again,
    /// A walk is needed first.
    NeedsAgeing,
    /// All that is left is too young.
    Thrashing,
    /// Nothing is left.
    Empty,
    /// The engine can't go on.
    Failed,
}

/// A walk that was thought of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkAsk {
    /// Walks are to be so far apart, milliseconds.
    pub pause_ms: u64,
    /// Time for which clearing accessed bits still has to rest, microseconds.
    pub rest_us: u64,
    /// Whether the walk may come now.
    pub may_come: bool,
}

/// A walk that was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkPlan {
    /// Programs that have not run are walked, too.
    pub is_thorough: bool,
    /// How accessed bits are cleared; `None`: not at all, because clearing has to rest.
    pub clear: Option<ClearIntent>,
    /// What follows.
    pub then: WalkEnd,
}

/// What follows a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WalkEnd {
    /// A new generation.
    #[default]
    Age,
    /// What a command says.
    Command,
}

/// Huge pages sent to be split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitAsk {
    /// Huge pages.
    pub nr_huge_pages: u64,
    /// Requests they were sent in, one a program.
    pub nr_requests: u64,
}
