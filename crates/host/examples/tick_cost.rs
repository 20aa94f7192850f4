//! What a whole look at a process costs: reading its tables, bringing the engine up to date, clearing
//! the accessed bits. Medians of the CPU time of the calling thread over rounds; `first` is the look
//! that meets every page for the first time, `asleep` one at a process that has not run since.
//!
//! ```text
//! cargo run --release -p strata-host --example tick_cost
//! ```
//!
//! Needs root and gcc. Holds 1 GiB of memory in a child for the time it runs.

#[path = "../../cli/tests/support/programs.rs"]
#[expect(dead_code, reason = "shared with the tests, of which this uses a part")]
mod programs;

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use programs::{Touch, program};
use rustix::time::{ClockId, clock_gettime};
use strata_host::run::Watcher;
use strata_linux::access::AccessChoice;

type Outcome<T> = Result<T, Box<dyn Error>>;

const ROUNDS: usize = 9;

/// CPU nanoseconds of one look.
fn timed_walk(watcher: &mut Watcher) -> Outcome<u64> {
    let cpu_ns = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
    };
    let started_ns = cpu_ns();
    watcher.walk()?;
    Ok(cpu_ns() - started_ns)
}

/// Prints a line: the median, and what it is for each page.
fn print(case: &str, mut rounds_ns: Vec<u64>, nr_pages: u64) -> Outcome<()> {
    rounds_ns.sort_unstable();
    let median_ns = rounds_ns[rounds_ns.len() / 2];
    writeln!(
        std::io::stdout(),
        "{case:<40} {nr_pages:>8} {:>10.3} {:>10.3} {:>10.3} {:>8.1}",
        rounds_ns[0] as f64 / 1e6,
        median_ns as f64 / 1e6,
        rounds_ns[rounds_ns.len() - 1] as f64 / 1e6,
        median_ns as f64 / nr_pages.max(1) as f64,
    )?;
    Ok(())
}

fn hot_shares(grain: &str, options: &[&str]) -> Outcome<()> {
    let mut touch = Touch::start(options);
    let pages = touch.nr_pages;
    touch.ask(&format!("writerange 0 {pages}"));
    let mut watcher = Watcher::open(touch.pid, AccessChoice::Bpf)?;
    let first_ns = timed_walk(&mut watcher)?;
    print(&format!("1 GiB, {grain}, first"), vec![first_ns], pages)?;
    for percent in [1, 10, 50, 100] {
        for (pattern, heat) in [
            (
                "scattered",
                format!("read {percent} {}", pages * percent / 100),
            ),
            ("in a row", format!("readrange 0 {}", pages * percent / 100)),
        ] {
            let mut rounds_ns = Vec::new();
            for _ in 0..ROUNDS {
                touch.ask(&heat);
                rounds_ns.push(timed_walk(&mut watcher)?);
            }
            print(
                &format!("1 GiB, {grain}, {percent} % hot, {pattern}"),
                rounds_ns,
                pages,
            )?;
        }
    }
    let mut rounds_ns = Vec::new();
    timed_walk(&mut watcher)?;
    for _ in 0..ROUNDS {
        rounds_ns.push(timed_walk(&mut watcher)?);
    }
    print(&format!("1 GiB, {grain}, asleep"), rounds_ns, pages)
}

/// A workload as it is after it has started: each round is the look of a new watcher.
fn first_looks(case: &str, name: &str, options: &[&str], nr_pages: u64) -> Outcome<()> {
    let mut child = Command::new(program(name))
        .args(options)
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().ok_or("piped")?;
    BufReader::new(stdout).read_line(&mut String::new())?;
    let mut rounds_ns = Vec::new();
    for _ in 0..3 {
        let mut watcher = Watcher::open(child.id() as i32, AccessChoice::Bpf)?;
        rounds_ns.push(timed_walk(&mut watcher)?);
    }
    child.kill()?;
    child.wait()?;
    print(&format!("{case}, first"), rounds_ns, nr_pages)
}

fn main() -> Outcome<()> {
    writeln!(
        std::io::stdout(),
        "{:<40} {:>8} {:>10} {:>10} {:>10} {:>8}",
        "case",
        "pages",
        "least_ms",
        "median_ms",
        "most_ms",
        "ns/page"
    )?;
    hot_shares("4 KiB", &["--size", "1G"])?;
    hot_shares("huge", &["--size", "1G", "--thp"])?;
    let sparse = ["--size", "40000M", "--touch", "20000", "--seconds", "0"];
    first_looks("20,000 tables with one page", "sparse", &sparse, 20_000)?;
    let sparse = ["--size", "1T", "--touch", "64", "--seconds", "0"];
    first_looks("1 TiB with 64 pages", "sparse", &sparse, 64)?;
    let storm = ["--mappings", "10000", "--seconds", "0"];
    first_looks("10,000 one-page mappings", "mapstorm", &storm, 10_000)
}
