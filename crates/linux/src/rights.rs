//! Which rights Strata has, and what to do where one is missing: the advice at the end of an error.
//!
//! **Owns** reading the capabilities, and the advice: a user is told to be root, and root is told what root lacks.
//! **Does not own** the errors.

use std::fs;

/// Capabilities, as bits of `CapEff` in `/proc/self/status`.
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
/// What a user types.
const SUDO: &str = "run as root: sudo strata ...";

/// Whether Strata runs as root. Root may still lack rights: in a container, or below a security module.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What to do, where root usually has the right called `what`.
pub fn advice(what: &str) -> String {
    advice_to(is_root(), "run as root", what)
}

/// What to do, where root usually has the right called `what`, with the command to type.
pub fn command_advice(what: &str) -> String {
    advice_to(is_root(), SUDO, what)
}

/// What to do where a process can't be read. Who holds `CAP_SYS_PTRACE` holds it in one user namespace, and those below.
pub(crate) fn ptrace_advice() -> String {
    ptrace_advice_to(is_root(), effective_capabilities())
}

/// Whether the process may load BPF programs that read kernel memory.
pub(crate) fn has_bpf_capabilities() -> bool {
    let held = effective_capabilities();
    let has = |bit: u32| held & (1 << bit) != 0;
    has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))
}

/// The capabilities in force, as bits.
pub(crate) fn effective_capabilities() -> u64 {
    parse_capabilities(&fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// The capabilities in force by `/proc/PID/status`, as bits.
pub fn parse_capabilities(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0)
}

fn advice_to(is_root: bool, be_root: &str, what: &str) -> String {
    match is_root {
        false => be_root.to_owned(),
        true => format!(
            "root lacks {what} here: allow it where a container or a security module withholds it"
        ),
    }
}

fn ptrace_advice_to(is_root: bool, held: u64) -> String {
    if held & (1 << CAP_SYS_PTRACE) == 0 {
        return advice_to(is_root, "run as root", "CAP_SYS_PTRACE");
    }
    "CAP_SYS_PTRACE is held, so a security module protects the process, or it belongs to a user namespace above \
     this one: run Strata on the host itself"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_told_to_lack_a_capability_that_is_held() {
        let held = ptrace_advice_to(true, 1 << CAP_SYS_PTRACE);
        assert!(
            held.contains("on the host itself") && !held.contains("lacks"),
            "{held}"
        );
        assert!(ptrace_advice_to(true, 0).contains("lacks CAP_SYS_PTRACE"));
        assert_eq!(ptrace_advice_to(false, 0), "run as root");
    }

    #[test]
    fn root_is_never_told_to_be_root() {
        let advice = advice_to(true, SUDO, "CAP_BPF");
        assert!(!advice.contains("run as root"), "{advice}");
        assert!(advice.contains("CAP_BPF"), "{advice}");
        assert_eq!(advice_to(false, SUDO, "CAP_BPF"), SUDO);
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let status = "CapPrm:\tffffffffffffffff\nCapEff:\t000000c000000000\n";
        assert_eq!(parse_capabilities(status), 3 << CAP_PERFMON);
        assert_eq!(parse_capabilities(""), 0);
    }
}
