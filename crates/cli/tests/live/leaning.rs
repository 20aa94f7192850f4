//! How the kernel's reclaim is asked to weigh anonymous pages against file pages while a program runs.

use crate::support;

use std::fs;
use std::io::Write;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;
use support::leaks::Guard;
use support::live::{
    Live, children, disk_directory, has_generations, memory_group_of, memory_mount, wait_until,
};
use support::programs::program;
use support::strata::Strata;

/// The balance of the group that the program was put in.
fn swappiness(live: &Live) -> Option<u32> {
    let own = memory_group_of(i32::try_from(std::process::id()).expect("a pid"));
    let mut groups = children(live.pid()).into_iter().map(memory_group_of);
    let group = groups.find(|group| *group != own)?;
    let text = fs::read_to_string(group.join("memory.swappiness"));
    text.ok()?.trim().parse().ok()
}

/// Why the balance can't be seen here.
fn no_balance() -> Option<&'static str> {
    match memory_mount() {
        Some((_, true)) if has_generations() => {
            Some("the kernel keeps generations (lru_gen/enabled), not two lists")
        }
        Some((_, true)) => None,
        _ => Some("cgroup v2 has no memory.swappiness"),
    }
}

/// The build that went on leaning let pages that were read once take a tenth of memory from a program: 68 faults a
/// thousand operations instead of 63.
#[test]
fn the_kernel_leans_towards_anon_pages_until_file_pages_become_many() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    if let Some(why) = no_balance() {
        skip!("{why}");
    }
    let directory = match disk_directory() {
        Ok(directory) => directory,
        Err(why) => skip!("{why}"),
    };
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        skip!("one thread fills the only processor, and is left to reclaim for itself");
    }
    let _guard = Guard::new();
    let reader = "read word; \"$0\" --file \"$1\" --size 24M --populate --theta 0 --work-percent 10 --seconds 120";
    let strata = Strata::new(["run", "--quiet", "--memory", "72M", "--swap", "zram:256M"])
        .args(["--", "sh", "-c"])
        .arg(format!(
            "\"$0\" --size 120M --work-percent 50 --seconds 120 & {reader}"
        ))
        .arg(program("zipf"))
        .arg(directory.path().join("read"));
    let mut live = Live::start(&strata);
    live.line();
    wait_until("reclaim that leans", || swappiness(&live) == Some(180));
    live.stdin().write_all(b"\n").expect("it waits for a word");
    // Two seconds of it: for a moment it is back whenever a processor is short.
    let mut nr_in_turn = 0;
    wait_until("the balance of before, for good", || {
        sleep(Duration::from_millis(100));
        nr_in_turn = match swappiness(&live) {
            Some(60) => nr_in_turn + 1,
            _ => 0,
        };
        nr_in_turn >= 20
    });
    live.signal_group(Signal::TERM);
    live.end();
}

#[test]
fn what_the_user_says_of_anon_and_file_pages_holds() {
    needs!("cap_bpf", "memory_cgroup", "zram", "process_madvise");
    let _guard = Guard::new();
    let leaned_ms = |said: &[&str]| {
        let (run, report) = Strata::new(["run", "--memory", "72M", "--swap", "zram:256M"])
            .args(said)
            .arg("--")
            .arg(program("zipf"))
            .args(["--size", "120M", "--work-percent", "50", "--seconds", "3"])
            .finish_with_report();
        assert_eq!(run.code(), Some(0), "{}", run.stderr);
        let number = |name: &str| report["eviction"][name].as_u64().expect("a number");
        let nr_pages = number("nr_kernel_chosen_pages") + number("nr_applied_pages");
        assert!(nr_pages > 0, "{report:#}");
        report["limit"]["leaning_ms"].as_u64().expect("a number")
    };
    for said in ["60", "180", "max"] {
        assert_eq!(leaned_ms(&["--swappiness", said]), 0, "{said}");
    }
    let by_itself_ms = leaned_ms(&["--swappiness", "auto"]);
    match (memory_mount(), has_generations()) {
        (_, true) => assert_eq!(by_itself_ms, 0),
        (Some((_, true)), false) => assert!(by_itself_ms > 0),
        // `memory.reclaim` takes it from 6.8 on.
        _ => eprintln!("{by_itself_ms} ms"),
    }
}
