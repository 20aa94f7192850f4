//! What a guard tells: each group, and the host.
//!
//! A guard that acts keeps its status in its session's directory, from walk to walk, for `strata guard status`.
//!
//! **Owns** the figures and their names, and that file. **Does not own** how they are shown.

use super::fits::Fit;
use super::room::Room;
use crate::keeper;
use crate::observe::ledger::{Kinds, MemoryKind, NodeStatus, sum_of};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use strata_control::promise::Standing;
use strata_linux::actuator::Unmoved;
use strata_linux::process::MachineMemory;
use strata_linux::run_dir::{GUARD_DIR, run_dir};
use strata_linux::swap;
use strata_linux::units::Bytes;

/// The name of a guard's session: two can't have it.
pub(super) const NAME: &str = GUARD_DIR;
/// The file below the session's directory.
const FILE: &str = "status.json";

/// The file in which others ask for pages to be moved down.
const DEMAND: &str = "demote";

/// As many intervals without a walk say that a guard stands still.
const NR_INTERVALS_LATE: u32 = 3;
/// No interval counts as shorter: a thread that hangs in the kernel is replaced after ten seconds, and on a busy machine what a walk
/// found takes seconds to go.
const INTERVAL_MIN: Duration = Duration::from_secs(5);

/// Why there is no status of a guard to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// There is none.
    #[error("no guard with --promise runs (strata guard alone takes nothing and keeps no status)")]
    NoGuard,
    /// It is about to say something.
    #[error("the guard (pid {0}) has not walked yet; ask again in a while")]
    NotYet(i32),
    /// It can't be told whether there is one, or what it says.
    #[error("whether a guard runs, and how it stands, can't be read in {}: {source}", path.display())]
    Unreadable {
        /// The session's directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It can't be asked for anything.
    #[error("the guard can't be asked: writing in {} failed: {source}", path.display())]
    NotAsked {
        /// The session's directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Nothing is done after the next walk.
    #[error("the guard stands still: {0}")]
    Late(WalkTimes),
    /// Nothing would move.
    #[error("no guard with --tiers runs that has slower memory to move pages to")]
    NoTiers,
}

/// When walks come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct WalkTimes {
    /// When the last one ended, milliseconds by the kernel's monotonic clock (`CLOCK_MONOTONIC`).
    pub walked_at_ms: u64,
    /// How long ago that was when the status was read, milliseconds.
    pub walk_age_ms: u64,
    /// From one walk to the next as things stand, milliseconds.
    pub walk_interval_ms: u64,
}

impl WalkTimes {
    /// A walk has just ended.
    pub(super) fn now(interval: Duration) -> WalkTimes {
        WalkTimes {
            walked_at_ms: monotonic_ms(),
            walk_age_ms: 0,
            walk_interval_ms: interval.as_millis() as u64,
        }
    }

    /// Whether walks should have come since.
    pub fn is_late(&self) -> bool {
        let interval = Duration::from_millis(self.walk_interval_ms).max(INTERVAL_MIN);
        Duration::from_millis(self.walk_age_ms) > NR_INTERVALS_LATE * interval
    }
}

impl fmt::Display for WalkTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ms: u64| ms as f64 / 1000.0;
        let (age_ms, interval_ms) = (self.walk_age_ms, self.walk_interval_ms);
        write!(f, "the last walk was {:.1} s ago, ", seconds(age_ms))?;
        match interval_ms.checked_sub(age_ms) {
            Some(left_ms) => write!(f, "the next is due in {:.1} s", seconds(left_ms))?,
            None => write!(
                f,
                "the next was due {:.1} s ago",
                seconds(age_ms - interval_ms)
            )?,
        }
        write!(f, " (every {:.1} s)", seconds(interval_ms))
    }
}

fn monotonic_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// Asks the guard that runs to move so much to slower memory, the oldest first; it does after its next walk.
///
/// # Errors
/// None runs that moves pages and walks.
pub fn demand_demotion(bytes: u64) -> Result<(), StatusError> {
    let is_slower = |node: &NodeStatus| !node.is_upper && node.total_bytes > 0;
    let status = match Status::of_running() {
        Err(StatusError::NoGuard) => return Err(StatusError::NoTiers),
        status => status?,
    };
    if !status.nodes.iter().any(is_slower) {
        return Err(StatusError::NoTiers);
    }
    if status.walks.is_late() {
        return Err(StatusError::Late(status.walks));
    }
    let path = run_dir().join(NAME);
    demand_at(&path, bytes).map_err(|source| StatusError::NotAsked { path, source })
}

pub(super) fn demand_at(directory: &Path, bytes: u64) -> io::Result<()> {
    let new = directory.join(format!("{DEMAND}.new"));
    fs::write(&new, bytes.to_string())?;
    fs::rename(new, directory.join(DEMAND))
}

/// Removes the status of a guard before: it says nothing of the one that begins.
pub(super) fn forget(directory: &Path) -> io::Result<()> {
    match fs::remove_file(directory.join(FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What was asked for, if anything was.
pub(super) fn take_demand(directory: &Path) -> Option<u64> {
    let path = directory.join(DEMAND);
    let text = fs::read_to_string(&path).ok()?;
    fs::remove_file(&path).ok()?;
    text.trim().parse().ok()
}

strata_lru::named! {
    /// What keeps a group from giving more.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum WhyNotMore {
        /// What came back has used up the promise.
        Promise = "promise",
        /// It goes step by step, to see what comes back.
        Pace = "step by step",
        /// Again and again what was idle came back: nothing of it stays idle.
        NothingStaysIdle = "nothing stays idle",
        /// There is no swap for anonymous memory to go to.
        NoSwap = "no swap",
        /// What is left of swap is left to others.
        SwapIsFull = "swap is full",
        /// As much is written to swap a second as may be.
        SwapWrites = "swap writes",
        /// Compressed, pages take almost as much memory as before.
        DoesNotCompress = "does not compress",
        /// All that can go went: the group is parked.
        Parked = "parked",
        /// What is idle is mapped by several processes, locked in memory, or a guest's.
        SharedOrLocked = "shared or locked",
        /// Most of what was to go stayed: it is not written yet, or held for now.
        KernelKeeps = "kernel keeps it",
        /// Its rule or its protection says that it keeps so much.
        Low = "low",
        /// It holds more than its rule's `memory`, and all that could go was used within the least age.
        InUse = "in use",
        /// Next to nothing idle is left in memory, and much is away.
        AllAway = "all idle memory is away",
    }
}

impl WhyNotMore {
    /// What that means for a kind: files need no swap, and what is idle still is not all away.
    pub(super) fn of_kind(self, kind: MemoryKind) -> WhyNotMore {
        use MemoryKind::{MappedFile, PageCache, SmallFiles};
        let is_file = matches!(kind, MappedFile | PageCache | SmallFiles);
        match self {
            WhyNotMore::NoSwap
            | WhyNotMore::SwapIsFull
            | WhyNotMore::SwapWrites
            | WhyNotMore::DoesNotCompress
                if is_file =>
            {
                WhyNotMore::Pace
            }
            WhyNotMore::AllAway => WhyNotMore::Pace,
            why => why,
        }
    }

    /// What may be done about it.
    fn remedy(self) -> &'static str {
        match self {
            WhyNotMore::Promise => "what went came back: a larger promise, or a larger min_age",
            WhyNotMore::Pace => "a larger promise lets more go at a time",
            WhyNotMore::NothingStaysIdle => {
                "it needs what it has: a rule with promise = \"none\" leaves it alone"
            }
            WhyNotMore::NoSwap => "anonymous memory needs some: --swap zram:2G",
            WhyNotMore::SwapIsFull => "it needs more: a larger --swap",
            WhyNotMore::SwapWrites => "a larger swap_writes, or --swap zram:2G, which is no disk",
            WhyNotMore::DoesNotCompress => "swap on a disk holds it: --swap file:PATH:SIZE",
            WhyNotMore::SharedOrLocked | WhyNotMore::KernelKeeps => {
                "strata guard status --kinds says what it is; on cgroup v2 --hand amount has the kernel take it"
            }
            WhyNotMore::Parked | WhyNotMore::Low | WhyNotMore::InUse | WhyNotMore::AllAway => {
                "nothing is to be done"
            }
        }
    }
}

/// What people are told of groups that could give so much and have given nothing for minutes, by what keeps them from it.
pub(super) fn silence<'a>(
    groups: impl IntoIterator<Item = (&'a str, u64, WhyNotMore)>,
) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, (&str, u64, u64, WhyNotMore)> = BTreeMap::new();
    for (name, could_bytes, why) in groups {
        let of = by_reason.entry(why.name()).or_insert((name, 0, 0, why));
        of.1 += could_bytes;
        of.2 += 1;
    }
    let told = by_reason
        .into_values()
        .map(|(name, could_bytes, nr_groups, why)| {
            let who = match nr_groups {
                1 => name.to_string(),
                2 => format!("{name} and 1 more group"),
                _ => format!("{name} and {} more groups", nr_groups - 1),
            };
            let (could, words) = (Bytes(could_bytes), why.name());
            format!(
                "{who} could give {could}, and nothing went for three minutes: {words}; {}",
                why.remedy()
            )
        });
    told.collect()
}

/// A group as it stands. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct GroupStatus {
    /// Path of the group below the mount.
    pub group: String,
    /// The unit, container or pod that the path tells of.
    pub name: Option<String>,
    /// The uid of the pod of Kubernetes that the path tells of.
    #[serde(default)]
    pub pod: Option<String>,
    /// What is promised, as it is written in rules; `None`: nothing is taken for being idle.
    pub promise: Option<String>,
    /// The share of its footprint that may come back within a minute, where that is what is promised.
    pub promise_share_per_min: Option<f64>,
    /// What it may hold, promise or not; `None`: any amount.
    pub memory_bytes: Option<u64>,
    /// In memory; a page that several processes of it map counts once.
    pub resident_bytes: u64,
    /// Part of that which was accessed within the age that counts as idle.
    pub used_lately_bytes: u64,
    /// Part of that which was accessed within so many seconds: a minute, ten, an hour.
    #[serde(default)]
    pub used_within_bytes: BTreeMap<u64, u64>,
    /// Part of that which was not accessed within the age that counts as idle.
    pub idle_bytes: u64,
    /// Part of what is idle that can be taken: neither shared nor locked.
    pub could_give_bytes: u64,
    /// Part of what is in memory that processes of other groups map, too.
    pub shared_bytes: u64,
    /// Part of what is in memory whose accesses can't be seen.
    pub unknown_bytes: u64,
    /// Taken, and not come back; page cache that was dropped, too.
    pub away_bytes: u64,
    /// Taken, and in swap now.
    pub away_anon_bytes: u64,
    /// What is away, without the memory that its part in swap takes there.
    #[serde(default)]
    pub given_back_bytes: u64,
    /// Page cache that nobody maps and that is charged to the group; `None`: no census has told yet.
    pub cache_bytes: Option<u64>,
    /// Part of that which can be dropped and was not read within the age of pages of files.
    pub idle_cache_bytes: Option<u64>,
    /// Page cache that was dropped in all.
    pub dropped_cache_bytes: u64,
    /// Taken in all.
    pub taken_bytes: u64,
    /// Part of that which the kernel chose, asked for an amount.
    pub taken_by_amount_bytes: u64,
    /// Taken, and found in memory again by a walk.
    pub came_back_bytes: u64,
    /// Taken, and found in memory again within the last minute.
    pub came_back_per_min_bytes: u64,
    /// What may come back within a minute.
    pub allowed_per_min_bytes: u64,
    /// How long anonymous memory was not accessed before it counts as idle, milliseconds.
    pub age_anon_ms: u64,
    /// As much for pages of files.
    pub age_file_ms: u64,
    /// How the promise stands.
    pub standing: Standing,
    /// The group is frozen, because the host is short of memory and its rule says so.
    #[serde(default)]
    pub is_frozen: bool,
    /// The group is slowed for the same reason.
    #[serde(default)]
    pub is_slowed: bool,
    /// The group is parked, until it is woken or works again.
    #[serde(default)]
    pub is_parked: bool,
    /// What is on each memory node, by the kernel's number; nothing where rules say nothing of nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<u32, u64>,
    /// What keeps the group from giving more; `None`: there is no more.
    pub why_not_more: Option<WhyNotMore>,
    /// It could give, and nothing went for three minutes.
    #[serde(default)]
    pub gives_nothing: bool,
    /// What is charged to the group itself, by kind; empty where the kernel does not tell.
    #[serde(default)]
    pub kinds: Kinds,
}

/// What moved between nodes, pages; named as in the kernel's `vmstat` where it has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TierStatus {
    /// Who else brings used pages up, so that the guard does not; `None`: nobody.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub promoted_by_kernel: Option<String>,
    /// Asked to come up.
    pub pgpromote_candidate: u64,
    /// Came up.
    pub pgpromote_success: u64,
    /// Part of that: page cache that nobody maps.
    pub nr_promoted_unmapped_pages: u64,
    /// Went down.
    pub pgdemote_proactive: u64,
    /// Stayed although it was tried.
    pub pgmigrate_fail: u64,
    /// Pages that stayed, by reason.
    pub stayed: BTreeMap<Unmoved, u64>,
    /// Moved, and had gone the other way within the ten minutes before.
    pub nr_back_pages: u64,
    /// Walks in a row that must find a page accessed before it comes up.
    pub streak_min: u8,
}

/// Swap of a guard's own.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SwapStatus {
    /// The device or file.
    pub path: PathBuf,
    /// Its size.
    pub size_bytes: u64,
    /// What it holds, of all programs: also what went before this guard began, which counts nowhere else.
    pub used_bytes: u64,
}

impl SwapStatus {
    /// `None`: it is not in use, or that is not known.
    pub(super) fn of(path: &Path) -> Option<SwapStatus> {
        let areas = swap::swap_areas().ok()?;
        let area = areas.into_iter().find(|area| area.path == path)?;
        Some(SwapStatus {
            path: area.path,
            size_bytes: area.size_bytes,
            used_bytes: area.used_bytes,
        })
    }
}

impl fmt::Display for SwapStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, used) = (self.path.display(), Bytes(self.used_bytes));
        write!(f, "{path}, which holds {used}")
    }
}

/// A guard as it stands.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Status {
    /// Whether idle memory is taken.
    pub is_acting: bool,
    /// The least age at which memory counts as idle, of all rules, milliseconds.
    pub min_age_ms: u64,
    /// From the first walk to the last, milliseconds.
    pub watched_ms: u64,
    /// Walks so far.
    pub nr_walks: u64,
    /// Processes that the last walk left out, because whoever asks them for their memory may wait for long.
    #[serde(default)]
    pub nr_left_out_processes: u64,
    /// When they come.
    #[serde(flatten)]
    pub walks: WalkTimes,
    /// Processor time of Strata so far, nanoseconds.
    pub cpu_ns: u64,
    /// In memory, of all groups.
    pub resident_bytes: u64,
    /// Taken and not come back, of all groups.
    pub away_bytes: u64,
    /// Page cache that was dropped: within promises, and because memory was short.
    pub dropped_cache_bytes: u64,
    /// Processor time for each page that was taken page by page, nanoseconds; `None`: too few were.
    pub exact_ns_per_page: Option<u64>,
    /// As much for each page that the kernel took, asked for an amount.
    pub amount_ns_per_page: Option<u64>,
    /// Memory that what is in swap takes there, and the ages of pages.
    pub price_bytes: u64,
    /// What was given back net: without that price.
    pub given_back_bytes: u64,
    /// The guard's own swap, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap: Option<SwapStatus>,
    /// How much more fits on the host; `None`: rules leave that to the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<Room>,
    /// Memory nodes, where rules say something of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeStatus>,
    /// What moved between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<TierStatus>,
    /// How many groups go by each rule, and which are excluded.
    #[serde(default)]
    pub fits: Vec<Fit>,
    /// What is charged to all groups together, by kind.
    #[serde(default)]
    pub kinds: Kinds,
    /// Groups; those first of which most is away, then those that could give most.
    pub groups: Vec<GroupStatus>,
}

impl Status {
    /// The status of the guard that runs and acts, as of its last walk.
    ///
    /// # Errors
    /// [`StatusError`]; one of another version can't be read.
    pub fn of_running() -> Result<Status, StatusError> {
        let path = run_dir().join(NAME);
        let read = || -> io::Result<Result<Status, StatusError>> {
            let Some(owner) = keeper::owner_of(NAME)? else {
                return Ok(Err(StatusError::NoGuard));
            };
            match fs::read(path.join(FILE)) {
                Ok(text) => Ok(Ok(serde_json::from_slice(&text)?)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    Ok(Err(StatusError::NotYet(owner.pid)))
                }
                Err(error) => Err(error),
            }
        };
        let read = read().map_err(|source| StatusError::Unreadable {
            path: path.clone(),
            source,
        });
        let mut status = read??;
        status.walks.walk_age_ms = monotonic_ms().saturating_sub(status.walks.walked_at_ms);
        Ok(status)
    }

    /// How much more fits, with what is available at this moment.
    pub fn room_now(&self) -> Option<Room> {
        let room = self.room.as_ref()?;
        let now = MachineMemory::read();
        let available_bytes = now.map_or(room.available_bytes, |now| now.available_bytes);
        Some(room.with_available(available_bytes))
    }

    /// Leaves it in a session's directory, whole or not at all.
    pub(super) fn leave(&self, directory: &Path) -> io::Result<()> {
        let new = directory.join(format!("{FILE}.new"));
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, directory.join(FILE))
    }

    pub(super) fn of(
        is_acting: bool,
        min_age: Duration,
        watched: Duration,
        nr_walks: u64,
        cpu_ns: u64,
        ledger_bytes: u64,
        mut groups: Vec<GroupStatus>,
    ) -> Status {
        groups.sort_by(|a, b| {
            let key = |group: &GroupStatus| (group.away_bytes, group.could_give_bytes);
            key(b).cmp(&key(a)).then_with(|| a.group.cmp(&b.group))
        });
        let in_swap_bytes = groups
            .iter()
            .map(|group| group.away_anon_bytes)
            .sum::<u64>();
        let swap_bytes = swap::memory_of_swapped(in_swap_bytes).unwrap_or(0);
        let price_bytes = swap_bytes + ledger_bytes;
        for group in &mut groups {
            let share = group.away_anon_bytes as f64 / in_swap_bytes.max(1) as f64;
            let price_bytes = (swap_bytes as f64 * share) as u64;
            group.given_back_bytes = group.away_bytes.saturating_sub(price_bytes);
        }
        let sum = |of: fn(&GroupStatus) -> u64| groups.iter().map(of).sum::<u64>();
        let away_bytes = sum(|group| group.away_bytes);
        Status {
            is_acting,
            min_age_ms: min_age.as_millis() as u64,
            watched_ms: watched.as_millis() as u64,
            nr_walks,
            cpu_ns,
            resident_bytes: sum(|group| group.resident_bytes),
            away_bytes,
            dropped_cache_bytes: sum(|group| group.dropped_cache_bytes),
            price_bytes,
            given_back_bytes: away_bytes.saturating_sub(price_bytes),
            kinds: sum_of(groups.iter().map(|group| &group.kinds)),
            groups,
            ..Status::default()
        }
    }

    /// What people are told of groups that could give, and of which nothing went for three minutes.
    pub fn silence(&self) -> Vec<String> {
        let silent = self.groups.iter().filter(|group| group.gives_nothing);
        silence(silent.filter_map(|group| {
            let could_bytes = group.could_give_bytes + group.idle_cache_bytes.unwrap_or(0);
            Some((&*group.group, could_bytes, group.why_not_more?))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_give_nothing_are_told_by_reason_with_what_to_do() {
        let told = silence([
            ("/a", 5 << 20, WhyNotMore::NoSwap),
            ("/b", 3 << 20, WhyNotMore::KernelKeeps),
            ("/c", 6 << 20, WhyNotMore::NoSwap),
        ]);
        let [kept, no_swap] = &told[..] else {
            panic!("{told:?}");
        };
        assert!(kept.starts_with("/b could give 3 MiB"), "{kept}");
        assert!(
            no_swap.starts_with("/a and 1 more group could give 11 MiB"),
            "{no_swap}"
        );
        assert!(
            no_swap.contains("no swap") && no_swap.contains("--swap"),
            "{no_swap}"
        );
    }

    #[test]
    fn want_of_swap_keeps_no_page_of_a_file() {
        let no_swap = WhyNotMore::NoSwap;
        assert_eq!(no_swap.of_kind(MemoryKind::Huge), no_swap);
        assert_eq!(no_swap.of_kind(MemoryKind::PageCache), WhyNotMore::Pace);
    }

    #[test]
    fn a_guard_is_late_beyond_three_of_its_intervals_however_long_they_are() {
        for (interval_ms, age_ms, is_late) in [
            (10_000, 29_000, false),
            (10_000, 31_000, true),
            (100_000, 299_000, false),
            (833, 14_900, false),
            (833, 15_100, true),
        ] {
            let walks = WalkTimes {
                walked_at_ms: 0,
                walk_age_ms: age_ms,
                walk_interval_ms: interval_ms,
            };
            assert_eq!(walks.is_late(), is_late, "{walks}");
        }
        let walks = WalkTimes::now(Duration::from_secs(10));
        let told = "the last walk was 0.0 s ago, the next is due in 10.0 s (every 10.0 s)";
        assert_eq!(
            (walks.to_string(), walks.is_late()),
            (told.to_owned(), false)
        );
    }
}
