//! What does a census of all physical memory cost?
//!
//! - `ns a page`: CPU time of a whole census over pages looked at, the sums brought to user space included; best and median
//!   of the rounds.
//! - `longest call`: CPU time of the longest call into the kernel. No other program gets the processor meanwhile.
//! - `watched`: also compared with the census before, to tell what was read.
//! - `of a processor`: CPU time over wall time of a sample under the default budget.
//!
//! Goals: at most 25 ns a page, 2 ms a call, 1 % of a processor by default. BENCH_ROUNDS censuses of each kind (10).

#![allow(clippy::print_stdout, reason = "a table is what it is for")]

use std::env;
use std::error::Error;
use std::time::Duration;

use strata_linux::access::census::{
    Budget, CacheWatch, Census, CensusCost, Question, Taken, WHOLE_WATCH, Wanted, WatchQuestion,
};

fn ns_a_page(taken: &Taken) -> f64 {
    taken.cost.cpu_ns as f64 / taken.nr_looked_pages as f64
}

fn line(name: &str, rounds: &[Taken]) {
    let mut speeds: Vec<f64> = rounds.iter().map(ns_a_page).collect();
    speeds.sort_unstable_by(f64::total_cmp);
    let costs = || rounds.iter().map(|taken| &taken.cost);
    let sum = |figure: fn(&CensusCost) -> u64| costs().map(figure).sum::<u64>() as f64;
    println!(
        "| {name} | {:.0} | {:.1} | {:.1} | {:.2} | {:.1} % | {} |",
        rounds
            .iter()
            .map(|taken| taken.nr_looked_pages as f64)
            .sum::<f64>()
            / rounds.len() as f64,
        speeds[0],
        speeds[speeds.len() / 2],
        costs().map(|cost| cost.longest_call_ns).max().unwrap_or(0) as f64 / 1e6,
        sum(|cost| cost.cpu_ns) / sum(|cost| cost.wall_ns) * 100.0,
        rounds[0].files.len(),
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let nr_rounds: usize = env::var("BENCH_ROUNDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10);
    let mut census = Census::open()?;
    println!(
        "| census | pages looked at | ns a page, best | median | longest call, ms | of a processor | files |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for (name, wants_files, budget) in [
        ("whole, by group", false, None),
        ("whole, by group and file", true, None),
        (
            "default budget, by group and file",
            true,
            Some(Budget::default()),
        ),
    ] {
        let question = Question {
            wants_files,
            budget,
        };
        let rounds: Result<Vec<Taken>, _> = (0..nr_rounds.max(1))
            .map(|_| census.take(&question))
            .collect();
        line(name, &rounds?);
    }
    let mut watch = CacheWatch::open(WatchQuestion {
        budget: None,
        is_whole: true,
        ages: [Duration::from_secs(1); WHOLE_WATCH],
        reset_share: 0.0,
    })?;
    // The first one has nothing to compare with.
    watch.take(Wanted::default(), &|| false)?;
    let rounds: Result<Vec<Taken>, _> = (0..nr_rounds.max(1))
        .map(|_| watch.take(Wanted::default(), &|| false))
        .collect();
    line("whole, by group, watched", &rounds?);
    Ok(())
}
