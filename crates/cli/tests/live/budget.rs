//! A budget costs nothing while nothing happens. That it is held is told by `held`.
//!
//! The limits here hold on a loaded machine too; the strict figures are the benchmarks' (`make bench`).

use crate::support::prelude::*;

/// The number behind `NAME:` in a status file.
fn status_field(text: &str, name: &str) -> u64 {
    let mut lines = text.lines();
    let field = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = field.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

/// The sum of something of all threads.
fn of_threads(pid: i32, file: &str, what: impl Fn(&str) -> u64) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs");
    let texts = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join(file)).ok());
    texts.map(|text| what(&text)).sum()
}

/// Voluntary context switches of all threads: each is one wakeup.
fn nr_wakeups(pid: i32) -> u64 {
    let nr_switches = |text: &str| status_field(text, "voluntary_ctxt_switches");
    of_threads(pid, "status", nr_switches)
}

/// System calls that read or wrote so far.
fn nr_reads_and_writes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).expect("runs");
    status_field(&text, "syscr") + status_field(&text, "syscw")
}

#[test]
fn an_idle_program_within_its_budget_costs_next_to_nothing() {
    live!("cap_bpf", "memory_cgroup");
    let run = Strata::new(["run", "--memory", "400M", "--"]).arg(program("idle"));
    let mut run = Live::start(&run.args(["--size", "300M", "--seconds", "600"]));
    let idle = run.json()["pid"].as_i64().expect("a pid") as i32;
    wait_until("its memory to be filled", || rss_bytes(idle) >= 300 * MIB);
    // Looking less and less often takes a few looks.
    sleep(Duration::from_secs(5));
    let keepers = children(run.pid()).into_iter().filter(|pid| *pid != idle);
    let ours: Vec<i32> = keepers.chain([run.pid()]).collect();
    let nr_calls = || ours.iter().copied().map(nr_reads_and_writes).sum::<u64>();
    let (start, wakeups, calls) = (Instant::now(), nr_wakeups(run.pid()), nr_calls());
    sleep(Duration::from_secs(5));
    let seconds = start.elapsed().as_secs_f64();
    let wakeups_per_s = (nr_wakeups(run.pid()) - wakeups) as f64 / seconds;
    let calls_per_s = (nr_calls() - calls) as f64 / seconds;
    let own_bytes: u64 = ours.iter().copied().map(rss_bytes).sum();
    run.signal(Signal::TERM);
    run.end();
    // The CPU time is a benchmark's (`make bench NAME=idle`): it differs by machine. What is read does not.
    assert!(wakeups_per_s <= 3.0, "{wakeups_per_s} wakeups a second");
    assert!(
        calls_per_s <= 60.0,
        "{calls_per_s} reads and writes a second"
    );
    // Both processes together; 22 MiB of it are pages of the program file, which they share.
    assert!(own_bytes <= 26 * MIB, "{own_bytes} bytes of its own");
}
