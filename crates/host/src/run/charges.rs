//! Whether the memory of an attached target is charged to its group at all.
//!
//! When a process moves to another group, its pages stay charged to the group in which they were first used
//! (cgroup v2 always, v1 unless it is told to move them). A budget in the new group then counts none of them, and
//! neither its limit nor the kernel's reclaim there reaches them.
//!
//! **Owns** the comparison of what a process has in memory with what its group is charged with, and what is
//! said about it. **Does not own** where usage is read (`gauge`).
//!
//! **Invariants**
//! - I1: what is said is a lower bound: the pages of one process are all different ones, those of several may be
//!   shared, so only the largest counts.
//! - I2: it is said once.

use strata_control::GroupStats;
use strata_linux::cgroup::BudgetGroup;
use strata_linux::process::keyed_bytes;
use strata_linux::units::Bytes;
use strata_lru::TimeMs;

/// Between two looks: processes may be moved into the group at any time.
const PAUSE_MS: u64 = 10_000;
/// Less than this is not worth a word: counters lag, and pages are charged in batches.
const TOLERANCE_BYTES: u64 = 8 << 20;

/// The looks so far.
#[derive(Debug, Default)]
pub(super) struct Charges {
    looked: Option<TimeMs>,
    is_told: bool,
}

/// What a process has in memory that no file is behind, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Resident {
    anon_bytes: u64,
    shmem_bytes: u64,
}

impl Resident {
    fn of(pid: i32) -> Option<Resident> {
        let text = std::fs::read(format!("/proc/{pid}/status")).ok()?;
        Resident::parse(&String::from_utf8_lossy(&text))
    }

    fn parse(status: &str) -> Option<Resident> {
        Some(Resident {
            anon_bytes: keyed_bytes(status, "RssAnon")?,
            shmem_bytes: keyed_bytes(status, "RssShmem")?,
        })
    }

    /// How much of it the group can't be charged with.
    fn elsewhere_bytes(self, charged: &GroupStats) -> u64 {
        let beyond = |resident: u64, charged: Option<u64>| {
            charged.map_or(0, |charged| resident.saturating_sub(charged))
        };
        beyond(self.anon_bytes, charged.anon_bytes) + beyond(self.shmem_bytes, charged.shmem_bytes)
    }
}

impl Charges {
    /// Looks now and then, until there was something to say.
    pub(super) fn look(&mut self, now: TimeMs, group: &BudgetGroup) -> Option<String> {
        let is_due = self.looked.is_none_or(|then| now.since(then) >= PAUSE_MS);
        if self.is_told || !is_due || !group.is_attached() {
            return None;
        }
        self.looked = Some(now);
        let charged = group.stats().ok()?;
        let beyond = |pid: i32| Resident::of(pid).map(|of| of.elsewhere_bytes(&charged));
        let pids = group.processes().ok()?;
        let worst = pids.into_iter().filter_map(|pid| Some((beyond(pid)?, pid)));
        let (_, pid) = worst.max()?;
        // Counted once more the other way round: a process that grows or shrinks between two readings is not
        // taken for one that was moved.
        let resident = Resident::of(pid)?;
        let elsewhere_bytes = resident.elsewhere_bytes(&group.stats().ok()?);
        let told = tell(
            elsewhere_bytes.min(resident.elsewhere_bytes(&charged)),
            pid,
            &group.name(),
        )?;
        self.is_told = true;
        Some(told)
    }
}

fn tell(elsewhere_bytes: u64, pid: i32, group: &str) -> Option<String> {
    (elsewhere_bytes > TOLERANCE_BYTES).then(|| {
        format!(
            "at least {} of the memory of process {pid} are charged to another cgroup, the one the process \
             was in when it first used them: the budget does not count them, and neither the limit of {group} nor the \
             kernel's reclaim there reaches them; what is used for the first time from now on is governed. To \
             govern all of it, start the program in its cgroup (`strata run -- COMMAND`), or have resident memory \
             counted instead (`--pid {pid} --no-cgroup`)",
            Bytes(elsewhere_bytes)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn charged(anon_mib: u64, shmem_mib: u64) -> GroupStats {
        GroupStats {
            anon_bytes: Some(anon_mib * MIB),
            shmem_bytes: Some(shmem_mib * MIB),
            ..GroupStats::default()
        }
    }

    #[test]
    fn what_a_process_has_beyond_the_charge_of_its_group_lies_elsewhere() {
        let status = "Name:\ta\nVmRSS:\t 99 kB\nRssAnon:\t   81920 kB\nRssFile:\t  10 kB\nRssShmem:\t 20480 kB\n";
        let resident = Resident::parse(status).expect("a status");
        assert_eq!(resident.elsewhere_bytes(&charged(0, 0)), 100 * MIB);
        assert_eq!(resident.elsewhere_bytes(&charged(80, 20)), 0);
        // Other processes' anon pages don't stand in for its shared memory.
        assert_eq!(resident.elsewhere_bytes(&charged(500, 5)), 15 * MIB);
        // What the kernel does not tell is not held against anybody.
        assert_eq!(resident.elsewhere_bytes(&GroupStats::default()), 0);
        assert_eq!(Resident::parse("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn little_is_not_told_and_much_with_what_is_governed() {
        assert_eq!(tell(TOLERANCE_BYTES, 7, "/g"), None);
        let told = tell(80 * MIB, 7, "/g").expect("much");
        assert!(told.contains("80 MiB") && told.contains("process 7") && told.contains("/g"));
    }
}
