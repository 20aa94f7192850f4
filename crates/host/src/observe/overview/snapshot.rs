//! What a look found, as plain data: what a screen draws and JSON prints.
//!
//! **Owns** the shapes and the arithmetic from ages to bars. **Does not own** where figures come from.
//!
//! **Invariants**
//! - I1: every target's bars have the same axis of age, so that targets can be compared.
//! - I2: what is not known is `None`, never 0.

use super::super::cache::CacheReport;
use super::super::files::FilesReport;
use super::super::ledger::{Ages, IDLE_BOUNDS_S, KindBytes, MappingAges, OnNodes, WatchedAges};
use super::super::programs::{Label, Person};
use std::sync::Arc;
use std::time::Duration;
use strata_linux::hold_up::HoldUpReport;
use strata_linux::plain;
use strata_linux::process::{MachineMemory, MappingClass, memory_pressure_percent};

/// Bars of every target.
pub const NR_AGES: usize = IDLE_BOUNDS_S.len() + 1;
/// Windows of the working set, seconds.
pub const WINDOWS_S: [u64; 3] = [1, 10, 60];
/// Memory counts as idle when it was not accessed for this long, seconds, unless told otherwise.
pub const IDLE_AFTER_S: u64 = 60;
/// Mappings told of a target, the largest ones.
pub const MAPPINGS_MAX: usize = 256;

/// Where the bars begin, seconds since the last access: 0, then the bounds of the idle histogram. The
/// last bar has no end.
pub const AGE_STARTS_S: [u64; NR_AGES] = {
    let mut starts = [0; NR_AGES];
    let mut index = 1;
    while index < NR_AGES {
        starts[index] = IDLE_BOUNDS_S[index - 1];
        index += 1;
    }
    starts
};

/// Everything at one moment.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Snapshot {
    /// Since the overview was opened, milliseconds.
    pub at_ms: u64,
    /// Who sees accesses (`bpf` or `smaps`); `None` while nobody is watched.
    pub source: Option<&'static str>,
    /// What walking took this time, microseconds.
    pub walk_us: u64,
    /// For how long calls of Strata held locks of the targets' address spaces, all of them together.
    pub hold_up: HoldUpReport,
    /// The whole machine; `None` where it can't be read.
    pub host: Option<HostView>,
    /// Sorted by name.
    pub targets: Vec<TargetView>,
    /// What could not be looked at this time, and why.
    pub troubles: Vec<String>,
}

/// Memory of the machine at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct HostView {
    /// Its memory by kind, and its swap.
    #[serde(flatten)]
    pub memory: MachineMemory,
    /// Share of the last ten seconds in which at least one task waited for memory, percent; `None` where the kernel has no
    /// PSI.
    pub pressure_percent: Option<f64>,
}

impl HostView {
    pub(super) fn read() -> Option<HostView> {
        Some(HostView {
            memory: MachineMemory::read().ok()?,
            pressure_percent: memory_pressure_percent(),
        })
    }
}

/// What a target is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// One process.
    Process,
    /// A process and its descendants.
    Tree,
    /// A cgroup and the groups below.
    #[default]
    Cgroup,
}

/// Who a target is to people. Texts are without control characters.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WhoView {
    /// The cgroup that the target is, or that its processes are in.
    pub group: Option<String>,
    /// What the group's path tells of.
    #[serde(flatten)]
    pub label: Label,
    /// The process at the root: of a tree, and of a cgroup that holds one program.
    pub pid: Option<i32>,
    /// Command line of that process, cut.
    pub command: Option<String>,
    /// User of that process.
    pub user: Option<String>,
    /// `strata park` has put that process away.
    pub is_parked: bool,
}

impl WhoView {
    pub(super) fn new(group: Option<&str>, root: Option<&Person>) -> WhoView {
        WhoView {
            group: group.map(|group| plain::line(group).into_owned()),
            label: group.map(Label::of).unwrap_or_default(),
            pid: root.map(|root| root.pid),
            command: root.map(|root| root.command.clone()),
            user: root.map(|root| root.user.clone()),
            is_parked: false,
        }
    }
}

/// A target at one moment.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct TargetView {
    /// The cgroup's path below the mount; of a process its pid and name.
    pub name: String,
    /// What the target is.
    pub kind: TargetKind,
    /// Who the target is to people.
    pub who: WhoView,
    /// The target has ended; the figures are the last ones.
    pub is_over: bool,
    /// It was chosen to be looked at in detail: its mappings are told.
    pub is_watched: bool,
    /// Processes of the target; `None` where only counters were read.
    pub nr_processes: Option<u64>,
    /// Memory charged to a cgroup, or resident in processes (shared pages count in each).
    pub resident_bytes: Option<u64>,
    /// Anonymous memory, part of `resident_bytes`.
    pub anon_bytes: Option<u64>,
    /// Page cache of a cgroup, or mapped files of processes, part of `resident_bytes`.
    pub file_bytes: Option<u64>,
    /// Page cache that a process maps, part of `file_bytes`; of cgroups.
    pub mapped_bytes: Option<u64>,
    /// Page cache of files that are in memory only (tmpfs, memfd, shared memory), part of `file_bytes`; of cgroups.
    pub shmem_bytes: Option<u64>,
    /// Page cache that is to be written to its file, part of `file_bytes`; of cgroups.
    pub dirty_bytes: Option<u64>,
    /// What the kernel takes for unused lately, by its own lists, part of `resident_bytes`; of cgroups.
    pub inactive_bytes: Option<u64>,
    /// Swapped out.
    pub swap_bytes: Option<u64>,
    /// Evicted pages that came back, per second: the kernel's refaults of a cgroup, major faults of
    /// processes. `None` before the second look.
    pub refaults_per_s: Option<f64>,
    /// Limit of the target; of processes that of the cgroup they are in.
    pub budget: Option<Budget>,
    /// How old the target's pages are; `None` while it is not walked.
    pub ages: Option<AgesView>,
    /// Page cache of files by when it was last read, of a cgroup; `None` until a census has ended.
    pub cache: Option<CacheReport>,
    /// What the guard that runs says of the cgroup; `None`, and not told, where none looks after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard: Option<GuardView>,
    /// Page cache by file, of a cgroup that is watched; `None` until a census has ended.
    pub files: Option<Arc<FilesReport>>,
}

/// What a guard has done with a cgroup, as of its last walk. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GuardView {
    /// Given back in all.
    pub taken_bytes: u64,
    /// Part of that which has not come back.
    pub away_bytes: u64,
    /// Came back within the last minute.
    pub came_back_per_min_bytes: u64,
    /// What may come back within a minute.
    pub allowed_per_min_bytes: u64,
}

/// A limit and what is charged against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Budget {
    /// The lowest limit of the cgroup.
    pub limit_bytes: u64,
    /// What is charged to the group now, bytes.
    pub charged_bytes: u64,
    /// Whether the charge is within the limit.
    pub is_kept: bool,
}

impl Budget {
    /// Compares the two.
    pub fn new(limit_bytes: u64, charged_bytes: u64) -> Budget {
        Budget {
            limit_bytes,
            charged_bytes,
            is_kept: charged_bytes <= limit_bytes,
        }
    }
}

/// The pages of a watched target by age.
#[derive(Clone, Debug, serde::Serialize)]
pub struct AgesView {
    /// Since the first walk; nothing is known of accesses before that.
    pub watched_ms: u64,
    /// Bytes in memory by time since the last access, on the axis [`AGE_STARTS_S`]. Pages that were never
    /// seen accessed stand at the time they have been watched.
    pub bars: [KindBytes; NR_AGES],
    /// Accessed within each of [`WINDOWS_S`].
    pub windows: [WindowView; WINDOWS_S.len()],
    /// How long memory has to be unused to count as idle.
    pub idle_after_ms: u64,
    /// Not accessed for that long; `None` until it was watched so long.
    pub idle_bytes: Option<u64>,
    /// In memory, and known to be mapped by others, too.
    pub shared_bytes: u64,
    /// In memory, and its accesses can't be seen: memory of guests, and pages whose accessed bits can't be cleared.
    pub unknown_bytes: u64,
    /// In memory on each memory node, where there are several.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub nodes: OnNodes,
    /// By name and class, the largest [`MAPPINGS_MAX`] of them.
    pub mappings: Vec<MappingView>,
}

/// The working set of one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct WindowView {
    /// Length of the window.
    pub seconds: u64,
    /// Accessed within; `None` until it was watched that long, and where walks are too far apart.
    pub accessed: Option<KindBytes>,
}

impl WindowView {
    /// Bytes of both kinds.
    pub fn bytes(&self) -> Option<u64> {
        self.accessed.map(KindBytes::total_bytes)
    }
}

/// Mappings of one name and class.
#[derive(Clone, Debug, serde::Serialize)]
pub struct MappingView {
    /// Path or name as `/proc` prints it; empty for anonymous memory.
    pub name: Arc<str>,
    /// What the mapping is.
    pub class: MappingClass,
    /// Mappings taken together.
    pub nr_mappings: u64,
    /// In memory.
    pub resident: KindBytes,
    /// As of the target.
    pub bars: [KindBytes; NR_AGES],
    /// As of the target.
    pub windows: [WindowView; WINDOWS_S.len()],
    /// As of the target.
    pub idle_bytes: Option<u64>,
}

/// How far what walks saw can be trusted: how long they have gone on, and how far apart they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) watched: Duration,
    pub(super) interval: Duration,
    pub(super) idle_after: Duration,
}

impl Span {
    /// Whether walks have covered this much time. Half an interval may be missing, because walks are never exactly on time.
    fn reaches(self, time: Duration) -> bool {
        self.watched + self.interval / 2 >= time
    }

    /// Whether a window can be told of.
    fn knows(self, window: Duration) -> bool {
        self.reaches(window) && window * 10 >= self.interval * 9
    }

    fn windows(self, ages: &Ages) -> [WindowView; WINDOWS_S.len()] {
        WINDOWS_S.map(|seconds| {
            let window = Duration::from_secs(seconds);
            WindowView {
                seconds,
                accessed: self.knows(window).then(|| ages.accessed_within(window)),
            }
        })
    }

    fn idle_bytes(self, ages: &Ages) -> Option<u64> {
        // What was never found used has been idle for as long as it was watched, and no longer.
        let at_least = self.idle_after.min(self.watched);
        self.reaches(self.idle_after)
            .then(|| ages.idle_for(at_least).total_bytes())
    }
}

impl AgesView {
    pub(super) fn new(watched: &WatchedAges, idle_after: Duration) -> AgesView {
        let span = Span {
            watched: watched.watched,
            interval: watched.last_interval,
            idle_after,
        };
        let mappings = watched.mappings.iter().take(MAPPINGS_MAX);
        AgesView {
            watched_ms: u64::try_from(watched.watched.as_millis()).unwrap_or(u64::MAX),
            bars: bars(&watched.total),
            windows: span.windows(&watched.total),
            idle_after_ms: u64::try_from(idle_after.as_millis()).unwrap_or(u64::MAX),
            idle_bytes: span.idle_bytes(&watched.total),
            shared_bytes: watched.total.shared().total_bytes(),
            unknown_bytes: watched.total.unknown().total_bytes(),
            nodes: watched.total.on_nodes().clone(),
            mappings: mappings.map(|mapping| view(mapping, span)).collect(),
        }
    }

    /// Bars that can have something in them by now: the ages up to the time of watching.
    pub fn nr_known_bars(&self) -> usize {
        let is_known = |start_s: &&u64| **start_s * 1000 <= self.watched_ms;
        AGE_STARTS_S.iter().take_while(is_known).count()
    }
}

fn view(mapping: &MappingAges, span: Span) -> MappingView {
    MappingView {
        name: Arc::clone(&mapping.name),
        class: mapping.class,
        nr_mappings: mapping.nr_mappings,
        resident: mapping.ages.resident(),
        bars: bars(&mapping.ages),
        windows: span.windows(&mapping.ages),
        idle_bytes: span.idle_bytes(&mapping.ages),
    }
}

/// Differences of what was last used before the start of a bar and before its end.
fn bars(ages: &Ages) -> [KindBytes; NR_AGES] {
    let older_than = AGE_STARTS_S.map(|start_s| match start_s {
        0 => ages.resident(),
        _ => ages.last_used_before(Duration::from_secs(start_s)),
    });
    std::array::from_fn(|index| {
        let older = older_than.get(index + 1).copied().unwrap_or_default();
        KindBytes {
            anon_bytes: older_than[index].anon_bytes - older.anon_bytes,
            file_bytes: older_than[index].file_bytes - older.file_bytes,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(watched_ms: u64, interval_ms: u64) -> Span {
        Span {
            watched: Duration::from_millis(watched_ms),
            interval: Duration::from_millis(interval_ms),
            idle_after: Duration::from_secs(IDLE_AFTER_S),
        }
    }

    #[test]
    fn idle_memory_is_known_at_the_end_of_a_watch_of_exactly_that_long() {
        let knows = |watched_ms: u64, idle_after_ms: u64| {
            let span = Span {
                idle_after: Duration::from_millis(idle_after_ms),
                ..span(watched_ms, 1000)
            };
            span.idle_bytes(&Ages::default()).is_some()
        };
        // The first walk comes a little after the watch begins.
        assert!(knows(19_980, 20_000) && knows(59_990, 60_000));
        assert!(!knows(19_980, 60_000) && !knows(19_000, 20_000));
        assert!(knows(1000, 1000) && !knows(0, 1000));
    }

    #[test]
    fn a_window_is_told_once_it_was_watched_and_if_walks_are_close_enough() {
        let known = |span: Span| WINDOWS_S.map(|s| span.knows(Duration::from_secs(s)));
        assert_eq!(known(span(0, 0)), [false, false, false]);
        // The second walk, a little early.
        assert_eq!(known(span(999, 999)), [true, false, false]);
        assert_eq!(known(span(10_040, 1004)), [true, true, false]);
        assert_eq!(known(span(61_000, 1000)), [true; 3]);
        assert_eq!(known(span(61_000, 2000)), [false, true, true]);
        assert_eq!(known(span(600_000, 30_000)), [false, false, true]);
    }

    #[test]
    fn bars_beyond_the_time_of_watching_are_unknown() {
        let of = |watched_ms| AgesView {
            watched_ms,
            ..AgesView::new(&WatchedAges::default(), Duration::ZERO)
        };
        assert_eq!(of(0).nr_known_bars(), 1);
        assert_eq!(of(999).nr_known_bars(), 1);
        assert_eq!(of(4000).nr_known_bars(), 4);
        assert_eq!(of(u64::MAX).nr_known_bars(), NR_AGES);
    }

    #[test]
    fn a_limit_that_is_just_reached_is_kept() {
        assert!(Budget::new(100, 100).is_kept);
        assert!(!Budget::new(100, 101).is_kept);
    }
}
