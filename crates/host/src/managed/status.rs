//! What a guard tells: each group, and the host.
//!
//! **Owns** the figures and their names. **Does not own** how they are shown.

use super::ManagedConfig;
use std::time::Duration;
use strata_control::promise::Standing;
use strata_linux::swap;

/// What keeps a group from giving more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyNotMore {
    /// What came back has used up the promise.
    Promise,
    /// It goes step by step, to see what comes back.
    Pace,
    /// Again and again what was idle came back: nothing of it stays idle.
    NothingStaysIdle,
    /// There is no swap for anonymous memory to go to.
    NoSwap,
    /// What is left of swap is left to others.
    SwapIsFull,
    /// Compressed, pages take almost as much memory as before.
    DoesNotCompress,
    /// What is idle is mapped by several processes, locked in memory, or a guest's.
    SharedOrLocked,
}

impl WhyNotMore {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            WhyNotMore::Promise => "promise",
            WhyNotMore::Pace => "step by step",
            WhyNotMore::NothingStaysIdle => "nothing stays idle",
            WhyNotMore::NoSwap => "no swap",
            WhyNotMore::SwapIsFull => "swap is full",
            WhyNotMore::DoesNotCompress => "does not compress",
            WhyNotMore::SharedOrLocked => "shared or locked",
        }
    }
}

/// A group as it stands. Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GroupStatus {
    /// Path of the group below the mount.
    pub group: String,
    /// The unit or container that the path tells of.
    pub name: Option<String>,
    /// In memory; a page that several processes of it map counts once.
    pub resident_bytes: u64,
    /// Part of that which was accessed within the age that counts as idle.
    pub used_lately_bytes: u64,
    /// Part of that which was not accessed within the age that counts as idle.
    pub idle_bytes: u64,
    /// Part of what is idle that can be taken: neither shared nor locked.
    pub could_give_bytes: u64,
    /// Part of what is in memory that processes of other groups map, too.
    pub shared_bytes: u64,
    /// Part of what is in memory whose accesses can't be seen.
    pub unknown_bytes: u64,
    /// Taken, and not come back.
    pub away_bytes: u64,
    /// Taken, and in swap now.
    pub away_anon_bytes: u64,
    /// Taken in all.
    pub taken_bytes: u64,
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
    /// What keeps the group from giving more; `None`: there is no more.
    pub why_not_more: Option<WhyNotMore>,
}

/// A guard as it stands.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Status {
    /// Whether idle memory is taken.
    pub is_acting: bool,
    /// The share of a group's footprint that may come back within a minute.
    pub promise_share_per_min: f64,
    /// Memory is never idle that was accessed within so long, milliseconds.
    pub min_age_ms: u64,
    /// From the first walk to the last, milliseconds.
    pub watched_ms: u64,
    /// Walks so far.
    pub nr_walks: u64,
    /// Processor time of Strata so far, nanoseconds.
    pub cpu_ns: u64,
    /// In memory, of all groups.
    pub resident_bytes: u64,
    /// Taken and not come back, of all groups.
    pub away_bytes: u64,
    /// Memory that what is in swap takes there, and the ages of pages.
    pub price_bytes: u64,
    /// What was given back net: without that price.
    pub given_back_bytes: u64,
    /// Groups; those first of which most is away, then those that could give most.
    pub groups: Vec<GroupStatus>,
}

impl Status {
    pub(super) fn of(
        config: ManagedConfig,
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
        let sum = |of: fn(&GroupStatus) -> u64| groups.iter().map(of).sum::<u64>();
        let away_bytes = sum(|group| group.away_bytes);
        let in_swap_bytes = sum(|group| group.away_anon_bytes);
        let price_bytes = swap::memory_of_swapped(in_swap_bytes).unwrap_or(0) + ledger_bytes;
        Status {
            is_acting: config.is_acting,
            promise_share_per_min: config.promise.share_per_min,
            min_age_ms: config.promise.min_age.as_millis() as u64,
            watched_ms: watched.as_millis() as u64,
            nr_walks,
            cpu_ns,
            resident_bytes: sum(|group| group.resident_bytes),
            away_bytes,
            price_bytes,
            given_back_bytes: away_bytes.saturating_sub(price_bytes),
            groups,
        }
    }
}
