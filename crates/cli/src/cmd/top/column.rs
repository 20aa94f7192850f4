//! What stands in a column of targets, on the screen or printed once.
//!
//! **Owns** the text of its cells. **Does not own** which columns there are (`draw`, `table`), nor the short forms (`text`).

use strata_host::observe::overview::TargetView;

use super::text::{self, COLD_AFTER_S, UNKNOWN, cache_window};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Resident,
    Anon,
    File,
    Mapped,
    Shmem,
    Dirty,
    Inactive,
    /// Bars, which are no text.
    Ages {
        bar_columns: u16,
    },
    Window(usize),
    Idle,
    /// Page cache read within so many seconds.
    CacheRead(u64),
    /// Page cache not read for [`COLD_AFTER_S`].
    CacheIdle,
    Refaults,
    Swap,
    Budget,
    Kept,
    /// What a guard took.
    Given,
    /// What of it has not come back.
    Away,
    /// What of it came back within a minute.
    Back,
}

impl Column {
    /// What it tells of a target.
    pub(super) fn cell(self, target: &TargetView) -> String {
        let (ages, budget, guard) = (target.ages.as_ref(), target.budget, target.guard);
        text::size_or_unknown(match self {
            Column::Ages { .. } => return String::new(),
            Column::Refaults => return text::rate(target.refaults_per_s),
            Column::Kept => {
                let kept = budget.map(|budget| if budget.is_kept { "yes" } else { "OVER" });
                return kept.unwrap_or(UNKNOWN).to_owned();
            }
            Column::Resident => target.resident_bytes,
            Column::Anon => target.anon_bytes,
            Column::File => target.file_bytes,
            Column::Mapped => target.mapped_bytes,
            Column::Shmem => target.shmem_bytes,
            Column::Dirty => target.dirty_bytes,
            Column::Inactive => target.inactive_bytes,
            Column::Window(index) => ages.and_then(|ages| ages.windows[index].bytes()),
            Column::Idle => ages.and_then(|ages| ages.idle_bytes),
            Column::CacheRead(age_s) => cache_window(target, age_s).map(|of| of.read_bytes),
            Column::CacheIdle => cache_window(target, COLD_AFTER_S).map(|of| of.idle_bytes),
            Column::Swap => target.swap_bytes,
            Column::Budget => budget.map(|budget| budget.limit_bytes),
            Column::Given => guard.map(|guard| guard.taken_bytes),
            Column::Away => guard.map(|guard| guard.away_bytes),
            Column::Back => guard.map(|guard| guard.came_back_per_min_bytes),
        })
    }
}
