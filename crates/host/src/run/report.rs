//! The report of a run: every number with its unit in its name, serializable.
//!
//! **Owns** the schema (documented field by field in `docs/reference/report.md`). **Does not own** how it is
//! printed.
//!
//! **Invariants** I1: tried and applied are never the same field. I2: `None` means "not known here",
//! never 0.

mod cache;
mod tiers;

pub use cache::{CacheTierReport, DropReport, LeftReport, PageCacheReport};
pub use tiers::TierReport;
pub(super) use tiers::of as tiers;

use crate::keeper::KeeperReport;
use crate::pages::WalkReport;
use crate::run::{ActuatorChoice, PolicyChoice};
use strata_control::GroupStats;
use strata_linux::access::SourceInfo;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::hold_up::HoldUpReport;
use strata_linux::process::launch::ResourceUse;
use strata_lru::{GroupView, Kind};

/// Version of the schema; grows when a field changes its meaning or goes.
pub const REPORT_VERSION: u32 = 2;

/// How the program ended.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Ending {
    /// By itself.
    Exited {
        /// Exit status of the program.
        code: i32,
    },
    /// By a signal.
    Signaled {
        /// The signal's number.
        signal: i32,
        /// Whether the kernel's out-of-memory killer sent the signal.
        is_oom_kill: bool,
    },
    /// The program goes on; we have let go of it.
    Detached,
    /// A process or group that is not our child is no more; only its parent knows how it ended.
    Gone,
}

impl Ending {
    /// The status a shell would give: the program's own, or 128 + N.
    pub fn exit_status(&self) -> u8 {
        match *self {
            Ending::Exited { code } => (code & 0xff) as u8,
            Ending::Signaled { signal, .. } => (128 + signal).clamp(129, 255) as u8,
            Ending::Detached | Ending::Gone => 0,
        }
    }
}

/// The budget and how it was kept, from samples of usage.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct UsageReport {
    /// What was asked for.
    pub budget_bytes: u64,
    /// Highest sample.
    pub peak_bytes: u64,
    /// Mean over time.
    pub mean_bytes: u64,
    /// Samples taken.
    pub nr_samples: u64,
    /// Time above the budget.
    pub above_budget_ms: u64,
    /// Time observed.
    pub observed_ms: u64,
    /// Where usage was read: `cgroup_v1`, `cgroup_v2` or `rss`.
    #[serde(skip_deserializing)]
    pub measured_by: &'static str,
}

/// What the command used, with those of its children that it waited for.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ProgramReport {
    /// CPU time in user mode.
    pub user_cpu_ms: u64,
    /// CPU time in the kernel, its own reclaim in page faults included.
    pub system_cpu_ms: u64,
    /// Page faults that waited for swap or a file.
    pub nr_major_faults: u64,
    /// Page faults that needed no I/O.
    pub nr_minor_faults: u64,
}

impl ProgramReport {
    pub(super) fn new(used: ResourceUse) -> ProgramReport {
        ProgramReport {
            user_cpu_ms: used.user_cpu_us / 1000,
            system_cpu_ms: used.system_cpu_us / 1000,
            nr_major_faults: used.nr_major_faults,
            nr_minor_faults: used.nr_minor_faults,
        }
    }
}

/// The kernel's hard limit behind the budget, and how it had to give way.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct LimitReport {
    /// Where the limit stands behind this budget.
    pub backstop_bytes: u64,
    /// The highest it was.
    pub peak_bytes: u64,
    /// How often the limit gave way rather than have the program killed or thrash.
    pub nr_raises: u64,
}

/// One generation at the end of the run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct GenerationReport {
    /// Number of the generation.
    pub seq: u64,
    /// Time since the generation was born.
    pub age_ms: u64,
    /// Anon bytes in it.
    pub anon_bytes: u64,
    /// File bytes in it.
    pub file_bytes: u64,
}

/// Evictions; base pages.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct EvictionReport {
    /// Handed to the actuator.
    pub nr_tried_pages: u64,
    /// Left memory because we asked for exactly them.
    pub nr_applied_pages: u64,
    /// Left memory by the kernel's choice: as it counted, or at least what samples and walks found gone.
    pub nr_kernel_chosen_pages: u64,
    /// Spared: accessed since the last walk.
    pub nr_referenced_pages: u64,
    /// Refused for now.
    pub nr_busy_pages: u64,
    /// Mapped by others too.
    pub nr_shared_pages: u64,
    /// Dirty file pages.
    pub nr_dirty_pages: u64,
    /// Locked or special.
    pub nr_unevictable_pages: u64,
    /// Gone before they were tried.
    pub nr_gone_pages: u64,
    /// Decided on and not tried, in a dry run; a page that would have come back and gone again counts each time.
    pub nr_not_tried_pages: u64,
    /// In huge pages that were to be split, because cold pages hid in them.
    pub nr_split_pages: u64,
    /// Came back after an eviction: as the kernel counted, or what walks found where that is more.
    pub nr_refaulted_pages: u64,
    /// Came back although they were evicted only within the last generations.
    pub nr_refaulted_recent_pages: u64,
    /// Bytes the kernel was asked to reclaim.
    pub reclaim_asked_bytes: u64,
    /// Bytes by which usage fell meanwhile.
    pub reclaim_freed_bytes: u64,
    /// CPU time of the thread on which the kernel reclaimed at Strata's request, nanoseconds.
    pub reclaim_cpu_ns: u64,
    /// CPU time of the thread that takes chosen pages, nanoseconds.
    pub pageout_cpu_ns: u64,
    /// Time for which no processor was free and the programs reclaimed in their own faults.
    pub left_to_programs_ms: u64,
    /// Times nothing older than `min_ttl` was left.
    pub nr_thrashing: u64,
}

/// The most that a dry run would have had out of memory at a time; base pages, each counted once.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WouldEvictReport {
    /// All of them.
    pub nr_pages: u64,
    /// By the kind of mapping they lie in, and page cache that nobody has mapped; largest first.
    pub shares: Vec<WouldEvictShare>,
}

/// The pages of a dry run that lie in one kind of mapping, or in none.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WouldEvictShare {
    /// `[heap]`, `[anon]`, `[stack]`, `shared memory`, `files`, `unmapped since`, or `page cache`.
    pub name: String,
    /// Pages in them.
    pub nr_pages: u64,
}

/// The kernel's own counters over the run (difference end minus start), for the group where it has
/// one.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct KernelReport {
    /// Major faults.
    pub nr_major_faults: Option<u64>,
    /// Pages scanned by reclaim.
    pub nr_scanned_pages: Option<u64>,
    /// Pages freed by reclaim.
    pub nr_freed_pages: Option<u64>,
    /// Scanned for each page freed.
    pub scanned_per_freed_page: Option<f64>,
    /// Refaults of anon pages.
    pub nr_refaulted_anon_pages: Option<u64>,
    /// Refaults of file pages.
    pub nr_refaulted_file_pages: Option<u64>,
    /// Out-of-memory kills in the group.
    pub nr_oom_kills: Option<u64>,
}

impl KernelReport {
    /// Pages of both kinds that came back; `None` where one of them is not counted.
    pub fn nr_refaulted_pages(&self) -> Option<u64> {
        let kinds = self
            .nr_refaulted_anon_pages
            .zip(self.nr_refaulted_file_pages);
        kinds.map(|(anon, file)| anon.saturating_add(file))
    }
}

/// What Strata gained, everything it used counted against it; means over the run.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct SavedReport {
    /// Held out of memory: swapped out, or file pages evicted and not back.
    pub evicted_bytes: u64,
    /// Memory that compressed swap used for it.
    pub zram_bytes: u64,
    /// Strata's own resident memory, the keeper included.
    pub strata_bytes: u64,
    /// `evicted - zram - strata`; negative when it cost more than it gained.
    pub net_bytes: i64,
}

/// How a target was left that goes on; of one that ended, and in a dry run, nothing is known here.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct LetGoReport {
    /// Memory of the target that was in swap at the end.
    pub swapped_bytes: Option<u64>,
    /// Read back in from swap; `None` where that was not asked for.
    pub brought_back_bytes: Option<u64>,
}

/// Everything there is to say about a run.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// What was run or attached to.
    pub target: String,
    /// How the program ended.
    pub ending: Ending,
    /// Wall time.
    pub elapsed_ms: u64,
    /// Nothing was changed.
    pub is_dry_run: bool,
    /// Who decided.
    pub policy: PolicyChoice,
    /// Who took the pages.
    pub actuator: ActuatorChoice,
    /// How pages were taken with this actuator, in a few words.
    pub method: &'static str,
    /// How pages were taken, in full sentences with the conditions.
    pub actuator_reason: String,
    /// Who saw the accesses.
    pub access: Option<SourceInfo>,
    /// What the command used; `None` for a target that ran already.
    pub program: Option<ProgramReport>,
    /// The budget.
    pub usage: UsageReport,
    /// The limit; `None` where none of ours stands behind the budget.
    pub limit: Option<LimitReport>,
    /// Accessed between the last two walks; `None` without walks.
    pub working_set_bytes: Option<u64>,
    /// At the end, oldest first.
    pub generations: Vec<GenerationReport>,
    /// Evictions.
    pub eviction: EvictionReport,
    /// What became of mapped pages, by kind and tier; none with a policy that the kernel alone carries out.
    pub tiers: Vec<TierReport>,
    /// What became of page cache that nobody has mapped; `None` where it was left to the kernel.
    pub page_cache: Option<PageCacheReport>,
    /// What would have been evicted; `None` if the run was not started as a dry run, and without a policy.
    pub would_evict: Option<WouldEvictReport>,
    /// Walks.
    pub walks: WalkReport,
    /// For how long calls of Strata held locks of the programs' address spaces.
    pub hold_up: HoldUpReport,
    /// The kernel's counters.
    pub kernel: KernelReport,
    /// The gain.
    pub saved: SavedReport,
    /// How the target was left.
    pub let_go: LetGoReport,
    /// What keeping track of pages and generations took at the end; part of `saved.strata_bytes`.
    pub tracking_bytes: u64,
    /// CPU time of Strata and its keeper.
    pub strata_cpu_ms: u64,
    /// What Strata might take of the processors, percent of one; `None`: no cap.
    pub strata_cpu_cap_percent: Option<u32>,
    /// The most that Strata took in one second, percent of a processor; `None` where nothing was managed.
    pub strata_cpu_worst_percent: Option<f64>,
    /// CPU time of Strata and its keeper as a share of the time observed, percent.
    pub strata_cpu_percent: f64,
    /// Processes managed at any time.
    pub nr_processes: u64,
    /// How the keeper fared; `None` where there was none.
    pub keeper: Option<KeeperReport>,
    /// What went wrong without stopping the run, and what was left behind.
    pub warnings: Vec<String>,
}

/// The generations of all nodes, oldest first.
pub(super) fn generations(views: &[GroupView]) -> Vec<GenerationReport> {
    let of = |pages: Option<u64>| pages.unwrap_or(0) * PAGE_BYTES;
    views
        .iter()
        .flat_map(|view| &view.generations)
        .map(|generation| GenerationReport {
            seq: generation.seq.0,
            age_ms: generation.age_ms,
            anon_bytes: of(generation.nr_pages[Kind::Anon.index()]),
            file_bytes: of(generation.nr_pages[Kind::File.index()]),
        })
        .collect()
}

/// Evictions of a dry run as they are told: what it only played was not tried.
pub(super) fn told(eviction: EvictionReport) -> EvictionReport {
    EvictionReport {
        nr_not_tried_pages: eviction.nr_not_tried_pages + eviction.nr_tried_pages,
        nr_tried_pages: 0,
        nr_applied_pages: 0,
        nr_busy_pages: 0,
        ..eviction
    }
}

/// Evictions with what went and came back between two walks, which the kernel counts. Of a kernel that does not count
/// what it takes, `gone_bytes` were gone at least.
pub(super) fn counted(
    eviction: EvictionReport,
    kernel: &KernelReport,
    gone_bytes: u64,
) -> EvictionReport {
    let nr_back_pages = kernel.nr_refaulted_pages().unwrap_or(0);
    let nr_gone_pages = (gone_bytes / PAGE_BYTES).max(nr_back_pages);
    let nr_others_pages = nr_gone_pages.saturating_sub(eviction.nr_applied_pages);
    EvictionReport {
        nr_kernel_chosen_pages: eviction
            .nr_kernel_chosen_pages
            .max(kernel.nr_freed_pages.unwrap_or(0))
            .max(nr_others_pages),
        nr_refaulted_pages: eviction.nr_refaulted_pages.max(nr_back_pages),
        ..eviction
    }
}

/// Walks with what they cost for each page that left memory.
pub(super) fn walks(walks: WalkReport, eviction: &EvictionReport) -> WalkReport {
    let freed = eviction.nr_applied_pages + eviction.nr_kernel_chosen_pages;
    let entries_per_freed_page = (freed > 0).then(|| walks.cost.nr_entries as f64 / freed as f64);
    WalkReport {
        entries_per_freed_page,
        ..walks
    }
}

/// How pages are taken, in a few words.
pub(super) fn method(
    policy: &PolicyChoice,
    actuator: ActuatorChoice,
    has_group: bool,
    is_exact: bool,
) -> &'static str {
    match (policy.engine(), actuator) {
        (None, _) => "the kernel's limit alone",
        (_, ActuatorChoice::Auto) if has_group && is_exact => "exact pageout, then kernel reclaim",
        (_, ActuatorChoice::Auto | ActuatorChoice::Reclaim) if has_group => "kernel reclaim",
        _ => "exact pageout",
    }
}

/// Why the report names this actuator.
pub(super) fn actuator_reason(actuator: ActuatorChoice, has_group: bool, is_exact: bool) -> String {
    match (actuator, has_group) {
        (ActuatorChoice::Auto, true) if is_exact => {
            "pageout of the engine's choice; for what that can't keep up with the kernel's reclaim, \
             ahead of the limit; while no processor is free, the programs in their own faults"
        }
        (ActuatorChoice::Auto, true) => {
            "the kernel's reclaim, ahead of the limit; while no processor is free, the programs in their own faults"
        }
        (ActuatorChoice::Auto | ActuatorChoice::Pageout, false) => {
            "pageout: without a cgroup the kernel can't be asked to reclaim for this program"
        }
        (ActuatorChoice::Pageout, true) => "pageout was asked for",
        (ActuatorChoice::Reclaim, true) => "the kernel's reclaim was asked for",
        (ActuatorChoice::Reclaim, false) => {
            "pageout: the kernel's reclaim was asked for, but there is no cgroup to reclaim from"
        }
    }
    .to_owned()
}

/// What the kernel counted between two readings.
pub(super) fn kernel(start: &GroupStats, end: &GroupStats) -> KernelReport {
    let grown =
        |start: Option<u64>, end: Option<u64>| Some(end?.saturating_sub(start.unwrap_or(0)));
    let nr_scanned_pages = grown(start.nr_pgscan_pages, end.nr_pgscan_pages);
    let nr_freed_pages = grown(start.nr_pgsteal_pages, end.nr_pgsteal_pages);
    KernelReport {
        nr_major_faults: grown(start.nr_pgmajfault, end.nr_pgmajfault),
        nr_scanned_pages,
        nr_freed_pages,
        scanned_per_freed_page: match (nr_scanned_pages, nr_freed_pages) {
            (Some(scanned), Some(freed)) if freed > 0 => Some(scanned as f64 / freed as f64),
            _ => None,
        },
        nr_refaulted_anon_pages: grown(start.nr_refault_anon_pages, end.nr_refault_anon_pages),
        nr_refaulted_file_pages: grown(start.nr_refault_file_pages, end.nr_refault_file_pages),
        nr_oom_kills: grown(start.nr_oom_kills, end.nr_oom_kills),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_and_came_between_two_walks_is_what_the_kernel_counted() {
        let seen = EvictionReport {
            nr_applied_pages: 100,
            nr_kernel_chosen_pages: 10,
            nr_refaulted_pages: 5,
            ..EvictionReport::default()
        };
        let told = |kernel: KernelReport, nr_gone_pages: u64| {
            let told = counted(seen, &kernel, nr_gone_pages * PAGE_BYTES);
            (told.nr_kernel_chosen_pages, told.nr_refaulted_pages)
        };
        assert_eq!(told(KernelReport::default(), 0), (10, 5));
        let v1 = KernelReport {
            nr_refaulted_anon_pages: Some(40),
            nr_refaulted_file_pages: Some(120),
            ..KernelReport::default()
        };
        assert_eq!(told(v1, 0), (60, 160), "what came back had gone");
        assert_eq!(told(v1, 300), (200, 160), "gone, less what Strata took");
        let v2 = KernelReport {
            nr_freed_pages: Some(500),
            ..v1
        };
        assert_eq!(told(v2, 300), (500, 160));
    }
}
