//! The rest of the system: places to keep state, system calls, init.

use std::io;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use rustix::fs::Access;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::{Check, Machine};
use strata_linux::rights;
use strata_linux::sys::madvise::{Advice, advise};

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    vec![
        pidfd(),
        process_madvise(),
        run_directory(machine),
        systemd(machine),
    ]
}

fn process_madvise() -> Check {
    let check = Check::named("process_madvise", "taking chosen pages of another process");
    match pageout_nothing_of_a_child() {
        Ok(()) => check.ok("works on a child"),
        Err(error) => check.missing(
            format!("refused on a child: {error}"),
            rights::command_advice("CAP_SYS_NICE, or the call process_madvise,"),
        ),
    }
}

/// Asks for no page at all: the kernel checks the rights to a process before it looks at the list.
fn pageout_nothing_of_a_child() -> io::Result<()> {
    let mut child = Command::new("sleep")
        .arg("60")
        .stdin(Stdio::null())
        .spawn()?;
    let asked = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
        .map_err(io::Error::from)
        .and_then(|pidfd| advise(pidfd.as_fd(), &[], Advice::Pageout));
    child.kill()?;
    child.wait()?;
    asked.map(|_| ())
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
            format!(
                "{}; in a container: mount -t tmpfs tmpfs /run",
                rights::command_advice("the right to write there")
            ),
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
