//! `strata guard` within the sandbox that `packaging/systemd/strata-guard.service` gives it.

use crate::support::prelude::*;

use crate::guard::{ACTING, Idler, bytes, end, guard, of, wait_for};

/// Runs a command with the capabilities and system calls of a unit.
const IN_UNIT: &str = include_str!("in_unit.py");

#[test]
fn in_the_sandbox_of_its_service_a_guard_takes_a_heap_a_file_on_disk_and_one_on_tmpfs() {
    live!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    needs_census!();
    let needed = "import ctypes; ctypes.CDLL('libseccomp.so.2'); ctypes.CDLL('libcap.so.2')";
    let python = Command::new("python3").args(["-c", needed]).output();
    let analyze = Command::new("systemd-analyze").arg("--version").output();
    if analyze.is_err() || !python.is_ok_and(|said| said.status.success()) {
        skip!("there is no python3, libseccomp, libcap or systemd-analyze");
    }
    let directory = open_disk!();
    let idler = Idler::start("sandbox");
    // The file belongs to somebody else, as those of most programs do.
    let (on_disk, nobody) = (directory.path().join("idle"), Some(65534));
    write_file(&idler.group, &on_disk, 16);
    std::os::unix::fs::chown(&on_disk, nobody, nobody).expect("given away");
    fs::set_permissions(&on_disk, fs::Permissions::from_mode(0o600)).expect("its own");
    let file = File::open(&on_disk).expect("there");
    file.sync_all().expect("written");
    let on_tmpfs = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let on_tmpfs = on_tmpfs.path().join("idle");
    write_file(&idler.group, &on_tmpfs, 16);
    let mut command = Command::new("python3");
    let unit = checkout().join("packaging/systemd/strata-guard.service");
    let of_guard = guard(&ACTING).command();
    command.args(["-c", IN_UNIT]).arg(unit);
    command
        .arg(of_guard.get_program())
        .args(of_guard.get_args());
    let envs = of_guard.get_envs();
    command.envs(envs.filter_map(|(name, value)| Some((name, value?))));
    let live = Live::start_command(command);
    let name = idler.name();
    wait_for(&live, "nine tenths of each to go", |status| {
        bytes(of(status, &name), "away_bytes") > 40 * MIB
            && resident_bytes(&on_disk) < 2 * MIB
            && resident_bytes(&on_tmpfs) < 2 * MIB
    });
    end(live);
    idler.end();
}
