//! Counters of a target, without a walk.
//!
//! **Owns** which counter stands for what, and rates from two readings. **Does not own** ages.

use super::snapshot::{Budget, TargetView};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::{CgroupError, GroupReader};
use strata_linux::process::{Process, Stat, keyed_bytes, read_stat};

/// What counters say of a target.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Bytes and the budget; all else is nobody's.
    pub(super) view: TargetView,
    pub(super) refaults: Refaults,
}

/// Counts of refaults since ever: of a group under its own number, of processes by pid.
pub(super) type Refaults = BTreeMap<i32, u64>;

/// The number a group's counter goes by; no pid.
const GROUP: i32 = 0;

/// Of a cgroup.
pub(super) fn of_group(group: &GroupReader) -> Result<Figures, CgroupError> {
    let (stats, files) = group.stats_and_files()?;
    let (anon, file) = (stats.anon_bytes, stats.file_bytes);
    let usage_bytes = group.usage_bytes();
    let refaults = match (stats.nr_refault_anon_pages, stats.nr_refault_file_pages) {
        (None, None) => None,
        (anon, file) => Some(anon.unwrap_or(0) + file.unwrap_or(0)),
    };
    Ok(Figures {
        view: TargetView {
            // The root of v2 has counters but no usage.
            resident_bytes: usage_bytes.or_else(|| Some(anon? + file?)),
            anon_bytes: anon,
            file_bytes: file,
            mapped_bytes: files.mapped_bytes,
            shmem_bytes: stats.shmem_bytes,
            dirty_bytes: files.dirty_bytes,
            inactive_bytes: stats.inactive_bytes,
            swap_bytes: stats.swap_bytes,
            budget: budget_of(group, usage_bytes),
            ..TargetView::default()
        },
        refaults: refaults.into_iter().map(|nr| (GROUP, nr)).collect(),
    })
}

/// Of processes that are kept open.
pub(super) fn of_processes<'a>(
    processes: impl Iterator<Item = &'a Arc<Process>>,
    group: Option<&GroupReader>,
) -> Figures {
    let read = |process: &'a Arc<Process>| {
        let status = process.read_of_space("status");
        Some((process.pid(), process.stat().ok()?, status))
    };
    of_all(processes.filter_map(read), group)
}

/// Of processes by their numbers, for which nothing is kept open.
pub(super) fn of_pids(pids: &[i32], group: Option<&GroupReader>) -> Figures {
    let read = |pid: &i32| {
        let status = std::fs::read(format!("/proc/{pid}/status"));
        Some((*pid, read_stat(*pid).ok()?, status))
    };
    of_all(pids.iter().filter_map(read), group)
}

fn of_all(
    read: impl Iterator<Item = (i32, Stat, io::Result<Vec<u8>>)>,
    group: Option<&GroupReader>,
) -> Figures {
    let mut figures = Figures::default();
    figures.view.budget = group.and_then(|group| budget_of(group, group.usage_bytes()));
    for (pid, stat, status) in read {
        add(
            &mut figures.view.resident_bytes,
            stat.rss_pages * PAGE_BYTES,
        );
        figures.refaults.insert(pid, stat.nr_major_faults);
        if let Ok(status) = status {
            add_status(&mut figures.view, &String::from_utf8_lossy(&status));
        }
    }
    figures
}

fn add_status(view: &mut TargetView, status: &str) {
    let parts = [
        (&mut view.anon_bytes, ["RssAnon", "RssShmem"]),
        (&mut view.file_bytes, ["RssFile", ""]),
        (&mut view.swap_bytes, ["VmSwap", ""]),
    ];
    for (sum, names) in parts {
        let bytes = names.iter().filter_map(|name| keyed_bytes(status, name));
        add(sum, bytes.sum());
    }
}

fn add(sum: &mut Option<u64>, bytes: u64) {
    *sum = Some(sum.unwrap_or(0) + bytes);
}

fn budget_of(group: &GroupReader, usage_bytes: Option<u64>) -> Option<Budget> {
    Some(Budget::new(group.budget_bytes()?, usage_bytes?))
}

/// Two readings make a rate.
#[derive(Debug, Default)]
pub(super) struct Rate {
    before: Option<(Instant, Refaults)>,
}

impl Rate {
    /// Refaults a second since the last call; `None` at the first one and where nothing counts them.
    /// Who came or went in between has no part in it.
    pub(super) fn next(&mut self, at: Instant, refaults: Refaults) -> Option<f64> {
        let before = self.before.replace((at, refaults));
        let (_, now) = self.before.as_ref()?;
        let (before_at, before) = before?;
        let seconds = at.saturating_duration_since(before_at).as_secs_f64();
        if now.is_empty() || seconds <= 0.0 {
            return None;
        }
        let grown = now
            .iter()
            .filter_map(|(who, nr)| Some(nr.saturating_sub(*before.get(who)?)));
        Some(grown.sum::<u64>() as f64 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_rate_needs_two_readings_and_forgets_who_came_and_went() {
        let mut rate = Rate::default();
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        assert_eq!(rate.next(at(0), [(7, 100), (8, 50)].into()), None);
        assert_eq!(rate.next(at(2), [(7, 110), (9, 5000)].into()), Some(5.0));
        assert_eq!(rate.next(at(2), [(7, 110)].into()), None, "no time passed");
        // A counter that went back (a pid that was used again) is no negative rate.
        assert_eq!(rate.next(at(3), [(7, 0)].into()), Some(0.0));
        assert_eq!(rate.next(at(4), Refaults::new()), None);
    }
}
