//! Counters of a target, without a walk.
//!
//! **Owns** which counter stands for what, and rates from two readings. **Does not own** ages.

use super::snapshot::Budget;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use strata_linux::addr::PAGE_BYTES;
use strata_linux::cgroup::{CgroupError, GroupReader};
use strata_linux::process::{Process, Stat, read_stat};

/// What counters say of a target.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) resident_bytes: Option<u64>,
    pub(super) anon_bytes: Option<u64>,
    pub(super) file_bytes: Option<u64>,
    pub(super) mapped_bytes: Option<u64>,
    pub(super) shmem_bytes: Option<u64>,
    pub(super) dirty_bytes: Option<u64>,
    pub(super) inactive_bytes: Option<u64>,
    pub(super) swap_bytes: Option<u64>,
    pub(super) budget: Option<Budget>,
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
        refaults: refaults.into_iter().map(|nr| (GROUP, nr)).collect(),
    })
}

/// Of processes, added up; `group` is the one they are in.
pub(super) fn of_processes<'a>(
    processes: impl Iterator<Item = &'a Arc<Process>>,
    group: Option<&GroupReader>,
) -> Figures {
    let mut figures = Figures {
        budget: group.and_then(|group| budget_of(group, group.usage_bytes())),
        ..Figures::default()
    };
    for process in processes {
        let Ok(stat) = process.stat() else { continue };
        figures.add_stat(process.pid(), &stat);
        if let Ok(status) = process.read_of_space("status") {
            figures.add_status(&String::from_utf8_lossy(&status));
        }
    }
    figures
}

/// Of processes by their numbers, for which nothing is kept open.
pub(super) fn of_pids(pids: &[i32], group: Option<&GroupReader>) -> Figures {
    let mut figures = Figures {
        budget: group.and_then(|group| budget_of(group, group.usage_bytes())),
        ..Figures::default()
    };
    for pid in pids {
        let Ok(stat) = read_stat(*pid) else { continue };
        figures.add_stat(*pid, &stat);
        if let Ok(status) = std::fs::read(format!("/proc/{pid}/status")) {
            figures.add_status(&String::from_utf8_lossy(&status));
        }
    }
    figures
}

impl Figures {
    fn add_stat(&mut self, pid: i32, stat: &Stat) {
        add(&mut self.resident_bytes, stat.rss_pages * PAGE_BYTES);
        self.refaults.insert(pid, stat.nr_major_faults);
    }

    fn add_status(&mut self, status: &str) {
        let parts = [
            (&mut self.anon_bytes, ["RssAnon:", "RssShmem:"]),
            (&mut self.file_bytes, ["RssFile:", ""]),
            (&mut self.swap_bytes, ["VmSwap:", ""]),
        ];
        for (sum, names) in parts {
            let bytes = names.iter().filter_map(|name| status_bytes(status, name));
            add(sum, bytes.sum());
        }
    }
}

fn add(sum: &mut Option<u64>, bytes: u64) {
    *sum = Some(sum.unwrap_or(0) + bytes);
}

fn budget_of(group: &GroupReader, usage_bytes: Option<u64>) -> Option<Budget> {
    Some(Budget::new(group.budget_bytes()?, usage_bytes?))
}

/// The value of a line `NAME: N kB`.
fn status_bytes(text: &str, name: &str) -> Option<u64> {
    let is_it = |line: &&str| line.split_whitespace().next() == Some(name);
    let line = text.lines().find(is_it)?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
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

    #[test]
    fn lines_of_status_are_found_by_their_whole_name() {
        let text = "VmSwapX:\t 1 kB\nVmSwap:\t     12 kB\nRssAnon: x kB\n";
        assert_eq!(status_bytes(text, "VmSwap:"), Some(12 << 10));
        assert_eq!(status_bytes(text, "RssAnon:"), None);
        assert_eq!(status_bytes(text, "RssFile:"), None);
    }
}
