//! What the kernel was built with and how it was booted.

use super::{Check, Machine};
use strata_linux::access::{BpfSource, parse_release};
use strata_linux::addr::PAGE_BYTES;
use strata_linux::hold_up;

/// Oldest kernel (major, minor) whose page tables the BPF walk reads.
const WALK_KERNEL_MIN: (u32, u32) = (6, 1);
/// Oldest kernel with `process_madvise`, without which no page of another process can be taken.
const KERNEL_MIN: (u32, u32) = (5, 10);
const WITHOUT_WALK: &str = "until then --access smaps sees mappings instead of pages";

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    vec![
        architecture(),
        version(machine),
        bpf(machine),
        btf(machine),
        lockdown(machine),
    ]
}

/// The walk itself, loaded and proven on a page of our own.
pub(super) fn page_walk() -> Check {
    let check = Check::named("page_walk", "seeing which pages are accessed, one by one");
    match BpfSource::open() {
        Ok(source) => check.ok(source.describe()),
        Err(error) => check.limited(
            error.to_string(),
            format!("mend what is missing above; {WITHOUT_WALK}"),
        ),
    }
}

/// How large a program may be to have its accessed bits cleared at once.
pub(super) fn clearing() -> Check {
    let check = Check::named(
        "clearing",
        "clearing accessed bits without holding programs up",
    );
    let at_once_mib = (hold_up::pages_at_once() * PAGE_BYTES) >> 20;
    check.ok(format!(
        "at once up to {at_once_mib} MiB in memory, piece by piece beyond; calls sized to end within {} ms, about {} % of \
         the time",
        hold_up::CALL_MAX.as_millis(),
        100.0 / f64::from(hold_up::CLEARING_SHARE),
    ))
}

fn architecture() -> Check {
    let check = Check::named("architecture", "the walk of the page tables");
    match std::env::consts::ARCH {
        "x86_64" => check.ok("x86-64"),
        other => check.limited(
            other,
            "use --access smaps: only x86-64 tables are known so far",
        ),
    }
}

fn version(machine: &Machine) -> Check {
    let check = Check::named(
        "kernel",
        "the walk of the page tables, taking pages of other processes",
    );
    let release = machine
        .text("/proc/sys/kernel/osrelease")
        .unwrap_or_default();
    match parse_release(&release) {
        Some(version) if version >= WALK_KERNEL_MIN => check.ok(release),
        Some(version) if version >= KERNEL_MIN => {
            check.limited(release, format!("boot Linux 6.1 or later; {WITHOUT_WALK}"))
        }
        _ => check.missing(
            if release.is_empty() {
                "unknown".to_owned()
            } else {
                release
            },
            "boot Linux 6.1 or later",
        ),
    }
}

fn bpf(machine: &Machine) -> Check {
    let check = Check::named("bpf", "the walk of the page tables");
    // The switch exists wherever the system call does.
    if machine.has("/proc/sys/kernel/unprivileged_bpf_disabled") {
        check.ok("the bpf system call is there")
    } else {
        let remedy = format!("boot a kernel with CONFIG_BPF_SYSCALL=y; {WITHOUT_WALK}");
        check.limited("no bpf system call", remedy)
    }
}

fn btf(machine: &Machine) -> Check {
    let check = Check::named("btf", "finding the kernel's fields from the BPF walk");
    let path = "/sys/kernel/btf/vmlinux";
    if machine.has(path) {
        check.ok(path)
    } else {
        let remedy = format!("boot a kernel with CONFIG_DEBUG_INFO_BTF=y; {WITHOUT_WALK}");
        check.limited("no BTF", remedy)
    }
}

fn lockdown(machine: &Machine) -> Check {
    let check = Check::named("lockdown", "reading kernel memory from BPF");
    let modes = machine
        .text("/sys/kernel/security/lockdown")
        .unwrap_or_default();
    if modes.contains("[confidentiality]") {
        let remedy = format!("boot with lockdown=integrity or none; {WITHOUT_WALK}");
        check.limited("confidentiality: BPF may not read kernel memory", remedy)
    } else if modes.is_empty() {
        check.ok("not in this kernel, or securityfs is not mounted")
    } else {
        check.ok(modes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;
    use crate::doctor::tests::made_of;

    #[test]
    fn kernels_are_told_apart_by_what_they_can_do() {
        let status_of = |release: &str| {
            let (_directory, machine) = made_of(&[("/proc/sys/kernel/osrelease", release)]);
            version(&machine).status
        };
        assert_eq!(status_of("6.18.44-cloud\n"), Status::Ok);
        assert_eq!(status_of("6.1.0-56-cloud-amd64"), Status::Ok);
        assert_eq!(status_of("5.15.0"), Status::Limited);
        assert_eq!(status_of("5.9.16"), Status::Missing);
        assert_eq!(status_of("garbage"), Status::Missing);
    }

    #[test]
    fn only_confidentiality_lockdown_stands_in_the_way() {
        let status_of = |modes: &str| {
            let (_directory, machine) = made_of(&[("/sys/kernel/security/lockdown", modes)]);
            lockdown(&machine).status
        };
        assert_eq!(status_of("none [integrity] confidentiality"), Status::Ok);
        assert_eq!(
            status_of("none integrity [confidentiality]"),
            Status::Limited
        );
    }
}
