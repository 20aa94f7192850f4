//! What a line of a trace says.
//!
//! **Owns** the format; `docs/reference/control-trace.md` says what a trace is and sends its readers here for each field. **Does not own** what is recorded when
//! (whoever reads or decides), nor how lines are written and read.
//!
//! **Invariants** I1: no address and no number of a page, a process or a thread: quantities only. I2: the format does not
//! change with what the loop is made of: a type of the loop that is renamed keeps its words here, or kept traces are not read
//! any more. I3: nothing that is empty is written.

use super::plan::Plan;
pub use crate::sample::FreeSwap;
use crate::sample::{Actuator, CacheLook, GroupStats};
pub use crate::watermarks::Watermarks as Marks;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

/// What the first line names itself.
pub const FORMAT: &str = "strata-control-trace";
/// Grows when a field comes, goes or changes its meaning.
pub const VERSION: u32 = 6;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The first.
    Header(Box<Header>),
    /// One for each tick.
    Tick(Box<Tick>),
    /// The last, unless the trace or Strata was cut short.
    End(Box<End>),
}

/// Whether a flag need not be written.
fn is_off(flag: &bool) -> bool {
    !flag
}

/// What is traced: everything the loop's decisions depend on that stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// Version of Strata.
    pub strata: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Bytes of a base page.
    pub page_bytes: u64,
    /// Processors that Strata may use at once when it starts.
    pub nr_processors: u32,
    /// Processors that it may run on; empty: not known.
    pub processors: Vec<usize>,
    /// What the loop's choices are drawn from; `None`: it draws none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Whether the kernel's multi-generational LRU is on.
    pub is_multi_gen_on: bool,
    /// What is run.
    pub run: RunFacts,
}

/// The configuration of a run, and what the machine makes of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunFacts {
    /// Who is managed.
    pub target: TargetKind,
    /// Where usage is read: `cgroup_v1`, `cgroup_v2` or `rss`.
    pub measured_by: String,
    /// What is held.
    pub marks: Marks,
    /// Who decides.
    pub policy: PolicyName,
    /// Who takes the pages, as asked for.
    pub actuator: Actuator,
    /// The balance of anon and file pages; `None`: `auto`.
    pub swappiness: Option<u8>,
    /// What is younger is not taken, milliseconds.
    pub min_ttl_ms: u64,
    /// Nothing is changed.
    pub is_dry_run: bool,
    /// Who sees the accesses; `None`: nobody.
    pub access: Option<String>,
    /// Whether pages can be taken one by one.
    pub has_pageout: bool,
    /// Whether the kernel can be asked to reclaim.
    pub has_reclaim: bool,
    /// Whether exact choice of pages was asked for, by a policy or `min_ttl`.
    pub is_exact: bool,
    /// What Strata may take of the processors, percent of one; `None`: no cap.
    pub cpu_percent_max: Option<u32>,
    /// Tunables that are not as by default, by name. From version 2 on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tunables: BTreeMap<String, f64>,
}

/// Who decides which page goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PolicyName {
    /// Nobody: only the kernel's limit is set.
    #[serde(rename = "none")]
    None,
    /// A policy of the engine, as [`strata_lru::EngineSpec`] names it.
    #[serde(untagged)]
    Engine(String),
}

impl Default for PolicyName {
    fn default() -> PolicyName {
        PolicyName::Engine("mglru".to_owned())
    }
}

/// Who is managed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// A command of the run's own.
    #[default]
    Command,
    /// A process that ran already.
    Pid,
    /// A cgroup.
    Cgroup,
}

/// One turn of the loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {
    /// Since the run began, milliseconds.
    pub now_ms: u64,
    /// The tick came before the wait of the tick before was over.
    #[serde(default, skip_serializing_if = "is_off")]
    pub is_woken: bool,
    /// What others asked for since the tick before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<Request>,
    /// What the tick read.
    pub sample: Sample,
    /// What became of what was decided before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<Report>,
    /// What the tick decided.
    pub plan: Plan,
}

/// What others asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Another budget.
    SetBudget(Marks),
    /// Nothing is decided from here on.
    Pause,
    /// The loop decides again after a pause.
    Resume,
    /// Whether decisions are carried out from here on.
    DryRun(bool),
    /// An order for so many bytes.
    Evict(u64),
    /// An order in the kernel's commands.
    Commands,
    /// The program or the terminal had Strata stop, and the limit was lifted meanwhile.
    Stop,
}

/// What a tick read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sample {
    /// Usage; `None`: the group is gone.
    pub usage_bytes: Option<u64>,
    /// Usage has crossed a mark since the tick before.
    #[serde(skip_serializing_if = "is_off")]
    pub is_mark_crossed: bool,
    /// What each look at the limit read, in order; as many as `plan.limit`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limit: Vec<LimitSample>,
    /// Each reading of the kernel's counters, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory_stat: Vec<StatReading>,
    /// Who the members are, where it was time to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Members>,
    /// The programs' threads, where it was time to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<ProgramThreads>>,
    /// Who is runnable on the whole machine, where it was time to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runnable: Option<Runnable>,
    /// The programs' clocks, where it was time to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Vec<ProgramCpu>>,
    /// How it stands with page cache, where that can be dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheLook>,
    /// CPU time of Strata so far, where that is capped (`--cpu`); nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_cpu_ns: Option<u64>,
    /// Free swap of the machine, where it was time to look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_swap: Option<FreeSwap>,
    /// How the engine stands; `None` while paused, or where nobody decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineSample>,
    /// Whether all pages are younger than `min_ttl_ms`, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_all_young: Option<bool>,
    /// Whether the engine wants a new generation, where that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_ageing_due: Option<bool>,
    /// What each look at huge pages found, in order; as many as `plan.chosen_splits`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub huge: Vec<HugeSample>,
    /// What each walk found, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub walks: Vec<WalkSample>,
}

/// What one look at the limit read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitSample {
    /// Tasks of the group wait for memory.
    #[serde(skip_serializing_if = "is_off")]
    pub is_under_oom: bool,
    /// Free swap of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_swap: Option<FreeSwap>,
    /// The hard limit each time it was read; `None`: there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limit_bytes: Vec<Option<u64>>,
    /// Usage when the limit was to give way, where that was read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_bytes: Option<u64>,
}

/// One reading of the kernel's counters of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatReading {
    /// Who wanted the counters.
    pub by: StatReader,
    /// What was read.
    pub counters: Counters,
}

/// Who wants the kernel's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatReader {
    /// When the limit is to give way.
    Limit,
    /// What comes back.
    Refaults,
    /// Whether memory is charged elsewhere.
    Charges,
    /// What the run gains, and its status.
    Report,
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "most are fresh, and a tick has a few"
)]
pub enum Counters {
    /// Read now, which brought the kernel's own counts up to date; what it does not offer is left out.
    Fresh(#[serde(serialize_with = "known")] GroupStats),
    /// As the last fresh reading for the limit said.
    Kept,
    /// Read now, and the group could not be read.
    Failed,
}

fn known<S: Serializer>(stats: &GroupStats, serializer: S) -> Result<S::Ok, S::Error> {
    let value = serde_json::to_value(stats).map_err(serde::ser::Error::custom)?;
    let fields = value.as_object().into_iter().flatten();
    serializer.collect_map(fields.filter(|(_, count)| !count.is_null()))
}

/// Who the members are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Members {
    /// Programs that are managed, each by its number in this trace.
    pub programs: Vec<u32>,
    /// Managed programs whose pages can't be taken one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub out_of_reach: Vec<u32>,
}

/// The threads of one program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramThreads {
    /// The program, counted from 0 as they came.
    pub program: u32,
    /// For how long its threads ran or waited for a processor since the look before; `None` at the first look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted_ns: Option<u64>,
    /// Threads.
    pub nr_threads: u64,
    /// Threads that wanted a processor for most of the time since the look before.
    pub nr_busy_threads: u64,
    /// Processors it may run on; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<usize>,
}

/// Who is runnable on the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runnable {
    /// Threads.
    pub nr_threads: u32,
    /// Threads of Strata's that may be among them.
    pub nr_own_threads: u32,
}

/// The clock of one program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramCpu {
    /// The program.
    pub program: u32,
    /// CPU time so far.
    pub cpu_ns: u64,
}

/// How the engine stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSample {
    /// Attempts to reclaim that were answered so far.
    pub nr_attempts: u64,
    /// Freed by attempts to reclaim so far.
    pub freed_bytes: u64,
    /// Base pages isolated so far.
    pub nr_isolated_pages: u64,
    /// Base pages that left memory by pageout so far.
    pub nr_evicted_pages: u64,
    /// Base pages that left memory by the kernel's choice so far, as walks noticed.
    pub nr_kernel_evicted_pages: u64,
    /// A batch was out when the tick had planned.
    #[serde(default, skip_serializing_if = "is_off")]
    pub is_batch_out: bool,
}

/// What a look at huge pages found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HugeSample {
    /// Pages had to go since the look before.
    pub are_pages_going: bool,
    /// Base pages in memory.
    pub nr_resident_pages: u64,
    /// Huge pages in memory.
    pub nr_huge_pages: u64,
    /// Base pages in use in each huge page that was split and is judged now; `None`: it is still huge, or gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nr_used_pages: Vec<Option<u64>>,
}

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkSample {
    /// Programs walked.
    pub nr_spaces: u64,
    /// Programs left out because they had not run.
    pub nr_spaces_skipped: u64,
    /// Entries of page tables read.
    pub nr_entries: u64,
    /// CPU time of reading and of what was cleared at once.
    pub cpu_ns: u64,
    /// Wall time of the same.
    pub wall_ns: u64,
    /// All programs together.
    pub found: Found,
    /// Each program.
    pub programs: Vec<ProgramPages>,
}

/// What a walk found; base pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Found {
    /// Present and reclaimable, by kind (anon, file).
    pub nr_resident_pages: [u64; 2],
    /// Accessed since the walk before, by kind.
    pub nr_young_pages: [u64; 2],
    /// New since the walk before.
    pub nr_appeared_pages: u64,
    /// New since the walk before, and back after an eviction.
    pub nr_refaulted_pages: u64,
    /// Gone since the walk before, taken by the kernel.
    pub nr_reclaimed_pages: u64,
    /// Gone since the walk before, given back by the program.
    pub nr_freed_pages: u64,
    /// Present but locked, hugetlb or special.
    pub nr_unreclaimable_pages: u64,
    /// Present but not managed, because the folio table is full.
    pub nr_untracked_pages: u64,
}

impl Found {
    /// Adds what was found in another program.
    pub fn add(&mut self, other: &Found) {
        for kind in [0, 1] {
            self.nr_resident_pages[kind] += other.nr_resident_pages[kind];
            self.nr_young_pages[kind] += other.nr_young_pages[kind];
        }
        self.nr_appeared_pages += other.nr_appeared_pages;
        self.nr_refaulted_pages += other.nr_refaulted_pages;
        self.nr_reclaimed_pages += other.nr_reclaimed_pages;
        self.nr_freed_pages += other.nr_freed_pages;
        self.nr_unreclaimable_pages += other.nr_unreclaimable_pages;
        self.nr_untracked_pages += other.nr_untracked_pages;
    }
}

/// Base pages of one program, by kind (anon, file).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramPages {
    /// The program.
    pub program: u32,
    /// Present and reclaimable.
    pub nr_resident_pages: [u64; 2],
    /// Accessed since the walk before.
    pub nr_young_pages: [u64; 2],
}

/// What became of what was asked of an actuator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// Of one request of a batch, or of huge pages to split.
    Pageout(PageoutReport),
    /// Of the kernel's reclaim.
    Reclaim(ReclaimReport),
    /// Of clearing accessed bits on a thread of its own.
    Clear {
        /// Wall time, pauses included.
        wall_ns: u64,
        /// Time for which the lock of the program's address space was held.
        held_ns: u64,
        /// Pieces of tables that were left as they were.
        nr_left_pieces: u64,
    },
}

/// What became of one request for pageout; base pages, unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageoutReport {
    /// Folios that an answer came for.
    pub nr_folios: u64,
    /// The kernel was asked to take.
    pub nr_tried_pages: u64,
    /// Left memory.
    pub nr_evicted_pages: u64,
    /// Folios by what became of them.
    pub verdicts: Verdicts,
    /// Wall time, throttling included.
    pub wall_ns: u64,
    /// CPU time of the thread.
    pub cpu_ns: u64,
    /// Why pages were left untried, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<Obstacle>,
}

/// Folios by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdicts {
    /// Left memory.
    pub evicted: u64,
    /// Spared: accessed since.
    pub referenced: u64,
    /// Refused for now.
    pub busy: u64,
    /// Mapped by others too.
    pub shared: u64,
    /// To be written first.
    pub dirty: u64,
    /// Locked or special.
    pub unevictable: u64,
    /// Gone before.
    pub gone: u64,
    /// Not tried.
    pub not_tried: u64,
}

/// Why pages were left untried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obstacle {
    /// No page of this program can ever be taken.
    Lasting,
    /// The next try may go better.
    Passing,
}

/// What became of one request for the kernel's reclaim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReclaimReport {
    /// Asked for.
    pub asked_bytes: u64,
    /// By how much usage fell; `None`: see `failure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_bytes: Option<u64>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ReclaimFailure>,
    /// Wall time.
    pub wall_ns: u64,
    /// CPU time of the thread.
    pub cpu_ns: u64,
}

/// Why usage did not fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReclaimFailure {
    /// As much came back meanwhile.
    Outpaced,
    /// Usage is as low as the kernel may bring it.
    AtFloor,
    /// The kernel found nothing.
    NothingFound,
}

/// The end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Since the run began, milliseconds.
    pub now_ms: u64,
    /// How the program ended: `exited`, `signaled`, `detached` or `gone`.
    pub how: String,
    /// What was still out at the last tick.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<Report>,
    /// The run's counters, as its report has them.
    pub totals: Totals,
}

/// The run's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Samples of usage.
    pub nr_samples: u64,
    /// The highest of them.
    pub peak_bytes: u64,
    /// Bytes the kernel was asked for.
    pub reclaim_asked_bytes: u64,
    /// Bytes by which usage fell.
    pub reclaim_freed_bytes: u64,
    /// Base pages that left memory by pageout.
    pub nr_applied_pages: u64,
    /// Base pages that left memory by the kernel's choice, as walks noticed.
    pub nr_kernel_chosen_pages: u64,
    /// Walks.
    pub nr_walks: u64,
    /// How often the limit gave way.
    pub nr_raises: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_as_it_was_asked_for() {
        for text in ["mglru", "mglru:v6.1+nr_gens=8", "two-list", "none"] {
            let line = format!("{text:?}");
            let name: PolicyName = serde_json::from_str(&line).unwrap();
            assert_eq!(name == PolicyName::None, text == "none");
            assert_eq!(serde_json::to_string(&name).unwrap(), line);
        }
    }
}
