//! The ages of what is watched as a record: what `strata wss --format json` prints.
//!
//! **Owns** the names of the fields (`docs/reference/observe.md`). **Does not own** the figures (`ages`), nor any
//! text for people.

use super::{Ages, MappingAges, OnNodes, WatchedAges};
use crate::observe::cache::CacheReport;
use serde::Serialize;
use std::time::Duration;
use strata_linux::access::SourceInfo;
use strata_linux::hold_up::HoldUpReport;
use strata_linux::process::MappingClass;

/// The working set of one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowReport {
    /// Length asked for.
    pub seconds: f64,
    /// What the bytes stand for: where it is less than `seconds` (a short watch) they are a lower
    /// bound, where it is more (the last walk came late) an upper one.
    pub covered_seconds: f64,
    /// In memory and accessed within the window.
    pub accessed_bytes: u64,
    /// Accessed anonymous memory.
    pub anon_bytes: u64,
    /// Accessed pages of files.
    pub file_bytes: u64,
    /// Page cache of the cgroup that nobody has mapped, read within `cache.windows[].covered_seconds`; beside
    /// `accessed_bytes`. Of a cgroup's total only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
}

/// What lay idle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleReport {
    /// The bound: longer bounds are contained in shorter ones.
    pub at_least_seconds: u64,
    /// In memory and certainly not accessed for that long.
    pub bytes: u64,
    /// Idle anonymous memory.
    pub anon_bytes: u64,
    /// Idle pages of files.
    pub file_bytes: u64,
}

/// Sizes by age.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// All in memory.
    pub resident_bytes: u64,
    /// Anonymous memory.
    pub anon_bytes: u64,
    /// Pages of files in memory.
    pub file_bytes: u64,
    /// In the order asked for.
    pub windows: Vec<WindowReport>,
    /// Bounds the watch was long enough for, shortest first.
    pub idle: Vec<IdleReport>,
    /// In memory, and neither accessed nor new since the watch began.
    pub untouched_bytes: u64,
    /// In memory and known to be mapped by processes that were not watched, or by mappings of another name.
    pub shared_bytes: u64,
    /// In memory, and its accesses can't be seen: memory of guests, and pages whose accessed bits can't be cleared.
    /// Neither accessed nor idle.
    pub unknown_bytes: u64,
    /// In memory on each memory node, where there are several.
    #[serde(skip_serializing_if = "OnNodes::is_empty")]
    pub nodes: OnNodes,
}

/// Mappings of one name and class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MappingReport {
    /// Path or name as `/proc` prints it; empty for anonymous memory.
    pub name: String,
    /// What the mappings are.
    pub class: MappingClass,
    /// Mappings taken together.
    pub nr_mappings: u64,
    /// Sizes of these mappings, by age.
    #[serde(flatten)]
    pub figures: Figures,
}

/// What the watching cost; all walks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WatchCost {
    /// Walks.
    pub nr_walks: u64,
    /// Wall time of the walks, milliseconds.
    pub walking_ms: f64,
    /// Time of the walks that clearing accessed bits took.
    pub clearing_ms: f64,
    /// Memory the stamps of pages take at the end.
    pub stamps_bytes: u64,
    /// For how long calls of Strata held locks of the target's address spaces.
    pub hold_up: HoldUpReport,
    /// Parts of 2 MiB, summed over the walks, that kept accessed bits because they can't be cleared without holding the
    /// target up: their pages count as unknown from the next walk on.
    pub nr_left_pieces: u64,
    /// Pages, summed over the walks, that were left out of clearing because several processes map them, so that it was
    /// in vain the last time.
    pub nr_resting_pages: u64,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct WorkingSetReport {
    /// Who was watched, for people.
    pub target: String,
    /// Who saw the accesses, and what it can't see.
    pub source: SourceInfo,
    /// Time between the first walk and the last.
    pub watched_seconds: f64,
    /// Time between two walks, as asked for.
    pub interval_seconds: f64,
    /// Everything together.
    #[serde(flatten)]
    pub figures: Figures,
    /// Largest first.
    pub mappings: Vec<MappingReport>,
    /// Page cache of the cgroup; `None` of processes, and where no census can be taken.
    pub cache: Option<CacheReport>,
    /// What the watch cost.
    pub cost: WatchCost,
}

impl Figures {
    /// Asks ages for these windows.
    pub fn new(ages: &Ages, watched: &WatchedAges, windows: &[Duration]) -> Figures {
        let resident = ages.resident();
        let window = |window: &Duration| {
            let accessed = ages.accessed_within(*window);
            WindowReport {
                seconds: window.as_secs_f64(),
                covered_seconds: in_ms(watched.covered(*window)) / 1000.0,
                accessed_bytes: accessed.total_bytes(),
                anon_bytes: accessed.anon_bytes,
                file_bytes: accessed.file_bytes,
                cache_bytes: None,
            }
        };
        let idle = |bound_s: u64| {
            let idle = ages.idle_for(Duration::from_secs(bound_s));
            IdleReport {
                at_least_seconds: bound_s,
                bytes: idle.total_bytes(),
                anon_bytes: idle.anon_bytes,
                file_bytes: idle.file_bytes,
            }
        };
        Figures {
            resident_bytes: resident.total_bytes(),
            anon_bytes: resident.anon_bytes,
            file_bytes: resident.file_bytes,
            windows: windows.iter().map(window).collect(),
            idle: watched.idle_bounds_s().map(idle).collect(),
            untouched_bytes: ages.idle_for(watched.watched).total_bytes(),
            shared_bytes: ages.shared().total_bytes(),
            unknown_bytes: ages.unknown().total_bytes(),
            nodes: ages.on_nodes().clone(),
        }
    }
}

impl MappingReport {
    /// Asks the ages of one name and class.
    pub fn new(
        mapping: &MappingAges,
        watched: &WatchedAges,
        windows: &[Duration],
    ) -> MappingReport {
        MappingReport {
            name: mapping.name.to_string(),
            class: mapping.class,
            nr_mappings: mapping.nr_mappings,
            figures: Figures::new(&mapping.ages, watched, windows),
        }
    }
}

/// Milliseconds with three decimals: more is noise.
fn in_ms(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

impl WatchCost {
    /// Adds a walk.
    pub fn add(&mut self, walked: &crate::observe::Walked) {
        self.nr_walks += 1;
        self.walking_ms += in_ms(Duration::from_nanos(walked.wall_ns));
        self.clearing_ms += in_ms(Duration::from_nanos(walked.clear_ns));
        self.nr_left_pieces += walked.nr_left_pieces;
        self.nr_resting_pages += walked.nr_resting_pages;
    }
}

impl WorkingSetReport {
    /// Time between two walks as it was: longer than asked for where the target is large.
    pub fn walk_seconds(&self) -> f64 {
        match self.cost.nr_walks {
            0 | 1 => self.interval_seconds,
            nr_walks => self.watched_seconds / (nr_walks - 1) as f64,
        }
    }

    /// Puts the record together.
    pub fn new(
        target: String,
        source: SourceInfo,
        interval: Duration,
        watched: &WatchedAges,
        windows: &[Duration],
        cost: WatchCost,
    ) -> WorkingSetReport {
        let mapping = |mapping| MappingReport::new(mapping, watched, windows);
        WorkingSetReport {
            target,
            source,
            watched_seconds: in_ms(watched.watched) / 1000.0,
            interval_seconds: interval.as_secs_f64(),
            figures: Figures::new(&watched.total, watched, windows),
            mappings: watched.mappings.iter().map(mapping).collect(),
            cache: None,
            cost,
        }
    }

    /// Adds what a watch of the page cache found.
    pub fn set_cache(&mut self, cache: CacheReport) {
        for window in &mut self.figures.windows {
            let mut told = cache.windows.iter();
            let found = told.find(|found| found.seconds == window.seconds);
            window.cache_bytes = found.map(|found| found.read_bytes);
        }
        self.cache = Some(cache);
    }
}
