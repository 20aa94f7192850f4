//! How fast is a replay? Loads a trace, replays it by each policy on one thread, and prints seconds.
//!
//! `cargo run --release -p strata-sim --example sim_speed -- TRACE PAGES POLICY...` prints a line of
//! tab-separated values for the loading (policy `load`) and for each policy: name, seconds, misses,
//! bytes of the policy, requests, distinct pages, bytes of the workload.

use std::time::Instant;

use strata_sim::{NoProgress, PolicySpec, Setup, Simulate, Workload};
use strata_trace::OpenOptions;

#[expect(clippy::print_stdout, reason = "its output is its purpose")]
#[expect(
    clippy::disallowed_methods,
    reason = "it times what a simulation takes, outside of it"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let usage = "usage: sim_speed TRACE PAGES POLICY...";
    let (trace, pages) = args.next().zip(args.next()).ok_or(usage)?;
    let start = Instant::now();
    let mut opened = strata_trace::open(&trace, &OpenOptions::default())?;
    let workload = Workload::read(&trace, opened.reader.as_mut())?;
    let print = |name: &str, start: Instant, misses: u64, policy_bytes: u64| {
        println!(
            "{name}\t{:.4}\t{misses}\t{policy_bytes}\t{}\t{}\t{}",
            start.elapsed().as_secs_f64(),
            workload.nr_requests(),
            workload.nr_pages(),
            workload.memory_bytes(),
        );
    };
    print("load", start, 0, 0);
    for name in args {
        let start = Instant::now();
        let setup = Setup::with_memory(pages.parse()?);
        let outcome = name
            .parse::<PolicySpec>()?
            .run(&workload, &setup, &NoProgress)?;
        print(&name, start, outcome.nr_misses, outcome.policy_bytes);
    }
    Ok(())
}
