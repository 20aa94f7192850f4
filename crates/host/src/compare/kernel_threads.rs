//! CPU time of the kernel's own threads: background reclaim, compression and writeback of swap, and the rest.
//!
//! Who reclaims beside a program leaves part of the work to them, so it belongs to the bill. They serve the whole machine,
//! so the bill is too high where other programs keep them busy.
//!
//! **Owns** reading and subtracting. **Does not own** what is made of it.

use std::collections::HashMap;
use std::fs;

use strata_linux::process::read_stat;

/// `kthreadd`, the parent of all of them.
const KTHREADD_PID: i32 = 2;
/// A clock tick of `/proc`, milliseconds.
const TICK_MS: u64 = 10;
/// Threads that watch accesses all the time (DAMON), whoever runs.
const WATCHER: &str = "kdamond";

/// CPU time of each thread so far, by pid and start.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KernelThreads(HashMap<(i32, u64), u64>);

impl KernelThreads {
    /// Reads it; `None` where `/proc` hides them (a container).
    pub(super) fn read() -> Option<KernelThreads> {
        let entries = fs::read_dir("/proc").ok()?.flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let stats = pids.filter_map(|pid| Some((pid, read_stat(pid).ok()?)));
        let threads = stats
            .filter(|(_, stat)| stat.ppid == KTHREADD_PID && !stat.comm.starts_with(WATCHER))
            .map(|(pid, stat)| ((pid, stat.start_ticks), stat.cpu_ticks))
            .collect::<HashMap<_, _>>();
        (!threads.is_empty()).then_some(KernelThreads(threads))
    }

    /// What they took since `before`, milliseconds. A thread that is new had nothing before; one that has ended takes
    /// its time with it.
    pub(super) fn since_ms(&self, before: &KernelThreads) -> u64 {
        let since = |(thread, ticks): (&(i32, u64), &u64)| {
            ticks.saturating_sub(before.0.get(thread).copied().unwrap_or(0))
        };
        self.0.iter().map(since).sum::<u64>() * TICK_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_come_and_go_between_two_readings() {
        let read = |list: &[(i32, u64, u64)]| {
            KernelThreads(
                list.iter()
                    .map(|(pid, start, cpu)| ((*pid, *start), *cpu))
                    .collect(),
            )
        };
        let before = read(&[(3, 1, 100), (4, 1, 50)]);
        // 3 went on; 4 has ended, and its pid is another's now; 5 is new.
        let after = read(&[(3, 1, 107), (4, 9, 2), (5, 9, 1)]);
        assert_eq!(after.since_ms(&before), 10 * TICK_MS);
        assert_eq!(after.since_ms(&after), 0);
    }
}
