//! The rest of the system: places to keep state, system calls, init.

use rustix::fs::Access;
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::{Check, Machine};

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    vec![pidfd(), run_directory(machine), systemd(machine)]
}

fn pidfd() -> Check {
    let check = Check::named(
        "pidfd",
        "never mistaking a reused pid for the process it was",
    );
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => check.ok("pidfd_open works"),
        Err(error) => check.missing(
            format!("pidfd_open: {error}"),
            "boot Linux 5.3 or later, or allow the call where a container forbids it",
        ),
    }
}

fn run_directory(machine: &Machine) -> Check {
    let check = Check::named("run_dir", "/run/strata: undoing everything after a crash");
    match rustix::fs::access(machine.path("/run"), Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => check.ok("/run is writable"),
        Err(error) => check.missing(
            format!("/run is not writable ({error})"),
            "run as root: sudo strata ...; in a container: mount -t tmpfs tmpfs /run",
        ),
    }
}

fn systemd(machine: &Machine) -> Check {
    let check = Check::named("systemd", "told only: who makes the cgroup");
    check.ok(if machine.has("/run/systemd/system") {
        "running: groups are transient scopes"
    } else {
        "not running: groups are made by hand"
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;
    use crate::doctor::tests::made_of;

    #[test]
    fn a_machine_without_a_place_for_state_can_not_run() {
        let (_directory, machine) = made_of(&[]);
        assert_eq!(run_directory(&machine).status, Status::Missing);
    }
}
