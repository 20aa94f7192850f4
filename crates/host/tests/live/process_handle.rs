//! Opening processes: identity, liveness, and everything that can be wrong with a pid.

use crate::process_support;

use std::process::Command;

use process_support::{Guest, wait_until};
use strata_linux::addr::AddrRange;
use strata_linux::process::{
    MappingClass, MemoryDevices, Process, ProcessError, VmFlags, classify,
};

#[test]
fn a_process_is_known_by_pid_name_and_start() {
    let guest = Guest::start();
    let process = Process::open(guest.pid()).unwrap();
    assert_eq!(process.pid(), guest.pid());
    assert_eq!(process.comm(), "process_guest");
    assert_eq!(process.stat().unwrap().start_ticks, process.start_ticks());
    assert!(process.is_alive() && process.is_space_current());
}

#[test]
fn pids_that_name_no_process_are_told_apart() {
    assert!(matches!(
        Process::open(0),
        Err(ProcessError::NotAPid { .. })
    ));
    assert!(matches!(
        Process::open(-7),
        Err(ProcessError::NotAPid { .. })
    ));
    let mut gone = Command::new("true").spawn().unwrap();
    let pid = gone.id() as i32;
    wait_until("it ends", || Process::open(pid).is_err());
    assert!(
        matches!(Process::open(pid), Err(ProcessError::NotFound { .. })),
        "a zombie"
    );
    gone.wait().unwrap();
    let error = Process::open(pid).unwrap_err();
    assert!(error.is_gone());
    assert!(error.to_string().contains(&pid.to_string()), "{error}");
}

#[test]
fn a_thread_is_refused_with_the_pid_to_use_instead() {
    let mut guest = Guest::start();
    guest.ask("threads 1");
    let tid = std::fs::read_dir(format!("/proc/{}/task", guest.pid()))
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .parse::<i32>()
                .unwrap()
        })
        .find(|tid| *tid != guest.pid())
        .unwrap();
    match Process::open(tid) {
        Err(ProcessError::IsThread { leader, .. }) => assert_eq!(leader, guest.pid()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_dead_leader_with_a_living_thread_still_shows_its_memory() {
    let mut guest = Guest::start();
    let addr = guest.ask_addr("anon 16");
    let early = Process::open(guest.pid()).unwrap();
    guest.ask("leave");
    wait_until("the leader has exited", || {
        early.stat().unwrap().state == 'Z'
    });
    let late = Process::open(guest.pid()).unwrap();
    for process in [&early, &late] {
        assert!(process.is_alive() && process.is_space_current());
        let maps = process.read_maps().unwrap();
        assert!(maps.iter().any(|mapping| mapping.range.contains(addr)));
        assert!(process.memory_use().unwrap().rss_bytes > 16 * 4096);
        let mut entries = Vec::new();
        let range = AddrRange::new(addr, addr + 16 * 4096);
        process.read_pagemap(range, &mut entries).unwrap();
        assert!(entries.len() == 16 && entries.iter().all(|entry| entry.is_present()));
    }
    let devices = MemoryDevices::of_process(guest.pid());
    assert!(devices.is_ok(), "the mounts of its threads: {devices:?}");
}

#[test]
fn a_reused_pid_is_not_the_old_process() {
    const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
    let mut first = Guest::start();
    let mut second = Guest::start();
    let pid = first.pid();
    let old = Process::open(pid).unwrap();
    first.kill();
    // The start time counts in hundredths of a second.
    std::thread::sleep(std::time::Duration::from_millis(20));
    // Somebody else may start a process at the same moment and take the pid.
    let is_taken = (0..50).any(|_| {
        std::fs::write(LAST_PID, (pid - 1).to_string()).is_ok()
            && second.ask_number(&format!("takepid {pid} 1")) == i64::from(pid)
    });
    if !is_taken {
        skip!("the kernel does not let us choose the next pid, or it was taken");
    }
    assert!(!old.is_alive() && !old.is_space_current());
    assert!(old.read_maps().is_err() && old.stat().is_err() && old.cpu_ns().is_err());
    assert!(old.signal(rustix::process::Signal::KILL).is_err());
    let new = Process::open(pid).unwrap();
    assert!(new.start_ticks() > old.start_ticks());
}

#[test]
fn cpu_time_stands_still_while_a_process_sleeps() {
    let mut guest = Guest::start();
    let process = Process::open(guest.pid()).unwrap();
    // It answers before it goes to sleep.
    let mut last = process.cpu_ns().unwrap();
    wait_until("it sleeps", || {
        let now = process.cpu_ns().unwrap();
        std::mem::replace(&mut last, now) == now
    });
    guest.ask("anon 2000");
    assert!(process.cpu_ns().unwrap() > last);
}

#[test]
fn mappings_of_a_live_process_are_classified() {
    let mut guest = Guest::start();
    let file = tempfile::Builder::new()
        .prefix("line\nbreak")
        .tempfile()
        .unwrap();
    file.as_file().set_len(16 * 4096).unwrap();
    // The name can't be told to the guest with its newline: a link can.
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(file.path(), &link).unwrap();
    let anon = guest.ask_addr("anon 16");
    let shmem = guest.ask_addr("shmem 16");
    let shared = guest.ask_addr(&format!("file 16 {}", link.display()));
    let private = guest.ask_addr(&format!("private 16 {}", link.display()));
    file.close().unwrap();

    let process = Process::open(guest.pid()).unwrap();
    let raw = process.read_maps().unwrap();
    let devices = MemoryDevices::of_process(guest.pid()).unwrap();
    let flags = [(AddrRange::new(anon, anon + 4096), VmFlags::RAND_READ)];
    let mappings = classify(&raw, &flags, &devices);
    let at = |addr: u64| mappings.iter().find(|m| m.range.contains(addr)).unwrap();
    assert_eq!(at(anon).class, MappingClass::Anon);
    assert_eq!(at(shmem).class, MappingClass::Shmem);
    assert_eq!(at(shared).class, MappingClass::FileShared);
    assert_eq!(at(private).class, MappingClass::FilePrivate);
    assert!(at(shared).name.contains("line\\012break") && at(shared).name.ends_with(" (deleted)"));
    let of_class = |class| mappings.iter().filter(|m| m.class == class).count();
    assert_eq!(of_class(MappingClass::Stack), 1);
    assert!(of_class(MappingClass::Heap) <= 1);
    assert!(
        mappings
            .iter()
            .any(|m| m.is_exec_file && m.name.ends_with("process_guest"))
    );
    assert!(
        mappings
            .iter()
            .any(|m| &*m.name == "[vdso]" && m.unreclaimable.is_some())
    );
}
