//! What Strata itself uses, to be counted against what it gains.
//!
//! **Owns** reading our own CPU time and memory, and the keeper's. **Does not own** the sums.

use rustix::time::{ClockId, clock_gettime};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::process::Process;

/// CPU time of all our threads so far, nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// CPU time of another process of ours so far, nanoseconds; 0 once it has ended.
pub(super) fn cpu_ns_of(pid: i32) -> u64 {
    Process::open(pid)
        .ok()
        .and_then(|process| process.cpu_ns().ok())
        .unwrap_or(0)
}

/// Our resident memory, bytes.
pub(super) fn rss_bytes() -> u64 {
    statm_rss_bytes("/proc/self/statm")
}

/// Resident memory of another process of ours, bytes; 0 once it has ended.
pub(super) fn rss_bytes_of(pid: i32) -> u64 {
    statm_rss_bytes(&format!("/proc/{pid}/statm"))
}

fn statm_rss_bytes(path: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|field| field.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_use_some_memory_and_some_time() {
        assert!(rss_bytes() > 100 * PAGE_BYTES);
        let before = cpu_ns();
        let spent = (0..3_000_000u64).fold(1u64, |a, b| std::hint::black_box(a ^ b));
        assert!(cpu_ns() > before, "{spent}");
    }
}
