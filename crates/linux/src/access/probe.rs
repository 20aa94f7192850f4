//! Which kernel runs, and whether this process may load BPF programs.

use std::fs;

/// Capabilities, as bits of `CapEff` in `/proc/self/status`.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// The running kernel's version, as far as its name tells.
pub(crate) fn kernel_version() -> Option<(u32, u32)> {
    parse_release(&fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
}

/// Major and minor number of a kernel's release.
pub fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

/// Whether the process may load BPF programs that read kernel memory.
pub(super) fn has_bpf_capabilities() -> bool {
    let held = effective_capabilities();
    let has = |bit: u32| held & (1 << bit) != 0;
    has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))
}

fn effective_capabilities() -> u64 {
    parse_capabilities(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

fn parse_capabilities(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_all_kinds_are_understood() {
        assert_eq!(parse_release("6.1.0-35-cloud-amd64\n"), Some((6, 1)));
        assert_eq!(parse_release("6.18.44-fc-v445"), Some((6, 18)));
        assert_eq!(parse_release("5.10"), Some((5, 10)));
        assert_eq!(parse_release(""), None);
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let status = "CapPrm:\tffffffffffffffff\nCapEff:\t000000c000000000\n";
        assert_eq!(parse_capabilities(status), 3 << CAP_PERFMON);
        assert_eq!(parse_capabilities(""), 0);
    }
}
