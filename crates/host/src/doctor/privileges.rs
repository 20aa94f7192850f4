//! What this process may do.

use super::{Check, Machine};
use strata_linux::rights;

/// A capability, by its number in `linux/capability.h`.
struct Capability {
    name: &'static str,
    bit: u32,
    needed_for: &'static str,
    /// `None`: `run` can't work without it. Else what is done instead.
    instead: Option<&'static str>,
}

const SYS_ADMIN_BIT: u32 = 21;
const WALK_INSTEAD: &str = "--access smaps sees mappings instead of pages";

const CAPABILITIES: [Capability; 5] = [
    Capability {
        name: "cap_sys_nice",
        bit: 23,
        needed_for: "taking pages of another process, its own children included",
        instead: None,
    },
    Capability {
        name: "cap_sys_admin",
        bit: SYS_ADMIN_BIT,
        needed_for: "making cgroups and swap",
        instead: Some("--no-cgroup holds a budget by page-out alone"),
    },
    Capability {
        name: "cap_bpf",
        bit: 39,
        needed_for: "loading the walk of the page tables",
        instead: Some(WALK_INSTEAD),
    },
    Capability {
        name: "cap_perfmon",
        bit: 38,
        needed_for: "reading kernel memory from the walk",
        instead: Some(WALK_INSTEAD),
    },
    Capability {
        name: "cap_sys_ptrace",
        bit: 19,
        needed_for: "processes of other users",
        instead: Some("processes of the same user can still be managed"),
    },
];

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    let status = machine.text("/proc/self/status").unwrap_or_default();
    let held = rights::parse_capabilities(&status);
    CAPABILITIES
        .iter()
        .map(|capability| examine(capability, held))
        .collect()
}

fn examine(capability: &Capability, held: u64) -> Check {
    let check = Check::named(capability.name, capability.needed_for);
    let has = |bit: u32| held & (1 << bit) != 0;
    // CAP_SYS_ADMIN still implies what was split off from it.
    let is_split_off = matches!(capability.name, "cap_bpf" | "cap_perfmon");
    if has(capability.bit) {
        check.ok("held")
    } else if is_split_off && has(SYS_ADMIN_BIT) {
        check.ok("held through cap_sys_admin")
    } else {
        let advice = rights::command_advice(capability.name);
        match capability.instead {
            Some(instead) => check.limited("not held", format!("{advice}; without, {instead}")),
            None => check.missing("not held", advice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;
    use crate::doctor::tests::made_of;

    fn statuses(effective: &str) -> Vec<(&'static str, Status)> {
        let text = format!("Name:\tx\nCapPrm:\tffffffffffffffff\nCapEff:\t{effective}\n");
        let (_directory, machine) = made_of(&[("/proc/self/status", &text)]);
        checks(&machine)
            .iter()
            .map(|check| (check.name, check.status))
            .collect()
    }

    #[test]
    fn root_may_do_everything() {
        assert!(
            statuses("000001ffffffffff")
                .iter()
                .all(|(_, status)| *status == Status::Ok)
        );
    }

    #[test]
    fn somebody_without_privileges_can_take_no_pages() {
        let found = statuses("0000000000000000");
        assert!(found.contains(&("cap_sys_nice", Status::Missing)));
        assert!(found.contains(&("cap_bpf", Status::Limited)));
    }

    #[test]
    fn the_old_catch_all_covers_what_was_split_off_from_it() {
        let found = statuses(&format!("{:016x}", 1u64 << SYS_ADMIN_BIT));
        assert!(found.contains(&("cap_bpf", Status::Ok)));
        assert!(found.contains(&("cap_perfmon", Status::Ok)));
        assert!(found.contains(&("cap_sys_nice", Status::Missing)));
    }
}
