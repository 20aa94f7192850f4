//! How fast is a replay? Loads a trace, replays it by each policy on one thread, and prints CPU seconds.
//!
//! `cargo run --release -p strata-sim --example sim_speed -- TRACE PAGES POLICY...` prints a line of
//! tab-separated values for the loading (policy `load`) and for each policy: name, seconds of CPU, misses,
//! bytes of the policy, requests, distinct pages, bytes of the workload.

use std::fs;

use strata_sim::{NoProgress, PolicySpec, Setup, Simulate, Workload};
use strata_trace::OpenOptions;

#[expect(clippy::print_stdout, reason = "its output is its purpose")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: sim_speed TRACE PAGES POLICY...";
    let (trace, pages) = args.next().zip(args.next()).ok_or(usage)?;
    let start = cpu_ns()?;
    let mut opened = strata_trace::open(&trace, &OpenOptions::default())?;
    let workload = Workload::read(&trace, opened.reader.as_mut())?;
    let print = |name: &str, ns: u64, misses: u64, policy_bytes: u64| {
        println!(
            "{name}\t{:.4}\t{misses}\t{policy_bytes}\t{}\t{}\t{}",
            ns as f64 / 1e9,
            workload.nr_requests(),
            workload.nr_pages(),
            workload.memory_bytes(),
        );
    };
    print("load", cpu_ns()? - start, 0, 0);
    for name in args {
        let start = cpu_ns()?;
        let setup = Setup::with_memory(pages.parse()?);
        let outcome = name
            .parse::<PolicySpec>()?
            .run(&workload, &setup, &NoProgress)?;
        print(
            &name,
            cpu_ns()? - start,
            outcome.nr_misses,
            outcome.policy_bytes,
        );
    }
    Ok(())
}

/// Time this thread has had a CPU, in nanoseconds: others use the machine too.
fn cpu_ns() -> Result<u64, Box<dyn std::error::Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text
        .split_whitespace()
        .next()
        .ok_or("no times in schedstat")?;
    Ok(first.parse()?)
}
