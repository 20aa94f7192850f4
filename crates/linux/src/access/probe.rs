//! What the page-table walk needs, each thing checked by itself.
//!
//! **Owns** the list of requirements and what mends each. **Does not own** how it is shown.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use super::BpfSource;
use crate::rights;

/// Oldest kernel (major, minor) the walk is made for.
const KERNEL_MIN: (u32, u32) = (6, 1);

/// One thing the walk needs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Requirement {
    /// What the requirement is.
    pub name: &'static str,
    /// What the requirement is for.
    pub purpose: &'static str,
    /// Whether the requirement is met on this machine.
    pub is_met: bool,
    /// What was found, or what went wrong.
    pub found: String,
    /// What to do if the requirement is missing.
    pub remedy: Cow<'static, str>,
}

/// Checks everything the BPF source needs, in the order in which it should be mended; the last
/// requirement is the source itself, loaded and proven.
pub fn probe() -> Vec<Requirement> {
    vec![
        architecture(),
        version_for_iterators(),
        type_information(),
        capabilities(),
        lockdown(),
        source(),
    ]
}

fn architecture() -> Requirement {
    Requirement {
        name: "x86-64",
        purpose: "the layout of page-table entries",
        is_met: cfg!(target_arch = "x86_64"),
        found: std::env::consts::ARCH.to_owned(),
        remedy: "use --access smaps on other machines".into(),
    }
}

/// The running kernel's version, as far as its name tells.
pub(crate) fn kernel_version() -> Option<(u32, u32)> {
    parse_release(&fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
}

fn version_for_iterators() -> Requirement {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Requirement {
        name: "kernel 6.1",
        purpose: "BPF iterators over one task",
        is_met: parse_release(&release).is_some_and(|version| version >= KERNEL_MIN),
        found: release.trim().to_owned(),
        remedy: "boot Linux 6.1 or newer, or use --access smaps".into(),
    }
}

/// Major and minor number of a kernel's release.
pub fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next()?.parse().ok();
    Some((next()?, next()?))
}

fn type_information() -> Requirement {
    let path = "/sys/kernel/btf/vmlinux";
    let is_met = Path::new(path).exists();
    Requirement {
        name: "BTF",
        purpose: "where this kernel keeps what the walk reads",
        is_met,
        found: if is_met { path } else { "no BTF" }.to_owned(),
        remedy: "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y (every Debian and Ubuntu kernel \
                 is)"
        .into(),
    }
}

fn capabilities() -> Requirement {
    Requirement {
        name: "CAP_BPF and CAP_PERFMON",
        purpose: "loading BPF programs and reading kernel memory with them",
        is_met: rights::has_bpf_capabilities(),
        found: format!(
            "effective capabilities {:#x}",
            rights::effective_capabilities()
        ),
        remedy: rights::command_advice("CAP_BPF or CAP_PERFMON").into(),
    }
}

fn lockdown() -> Requirement {
    // Without the security module there is no file, and nothing is locked.
    let state = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    Requirement {
        name: "no confidentiality lockdown",
        purpose: "BPF programs may read kernel memory",
        is_met: !state.contains("[confidentiality]"),
        found: match state.trim() {
            "" => "not locked down".to_owned(),
            state => state.to_owned(),
        },
        remedy: "boot without lockdown=confidentiality (lockdown=integrity is fine)".into(),
    }
}

fn source() -> Requirement {
    let opened = BpfSource::open();
    Requirement {
        name: "page-table walk",
        purpose: "which pages are accessed, page by page; proven on a page of our own",
        is_met: opened.is_ok(),
        found: match opened {
            Ok(source) => source.describe(),
            Err(error) => error.to_string(),
        },
        remedy: "mend what is missing above, or use --access smaps".into(),
    }
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
}
