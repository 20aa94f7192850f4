//! Refault distance on trial: what the kernel's window misses is missed by it with at most a fiftieth
//! more, on sequences and traces of which most had cells that distance alone made worse.

use rayon::prelude::*;
use strata_sim::{MemorySize, NoProgress, PolicySpec, Setup, Simulate, Workload};
use strata_trace::{Generator, OpenOptions};

mod support;

/// Shares of the footprint.
const MEMORY: [&str; 3] = ["1%", "5%", "20%"];

fn misses(policy: &str, workload: &Workload, memory_pages: u32) -> u64 {
    let policy: PolicySpec = policy.parse().expect("a policy");
    let setup = Setup::with_memory(memory_pages);
    let outcome = policy.run(workload, &setup, &NoProgress).expect("runs");
    outcome.nr_misses
}

/// Cells where trying distance in small missed more than a fiftieth above the window.
fn worse(workload: &Workload, name: &str) -> Vec<String> {
    let cells = MEMORY.iter().flat_map(|share| {
        let memory: MemorySize = share.parse().expect("a share");
        let memory_pages = memory.pages(workload.footprint_pages());
        ["mglru", "mglru:v6.1", "two-list"].map(|policy| (policy, memory_pages))
    });
    let cells: Vec<(&str, u32)> = cells.collect();
    let judged = cells.into_par_iter().filter_map(|(policy, memory_pages)| {
        let window = misses(policy, workload, memory_pages);
        let distance = misses(&format!("{policy}+distance"), workload, memory_pages);
        let is_worse = distance * 100 > window * 102;
        is_worse.then(|| format!("{name}, {policy} in {memory_pages}: {distance}, {window}"))
    });
    judged.collect()
}

#[test]
fn no_generated_sequence_is_a_fiftieth_the_worse_for_a_trial_of_distance() {
    let traces = [
        "gen:hotscan,via=mmap",
        "gen:phases",
        "gen:phases,via=mmap",
        "gen:mixed",
        "gen:mixed,writes=30",
        "gen:zipf",
        "gen:uniform",
    ];
    let mut all = Vec::new();
    for trace in traces {
        let accesses: Generator = trace.parse().expect("a generator");
        let workload = Workload::from_accesses(trace, accesses).expect("fits");
        all.extend(worse(&workload, trace));
    }
    assert_eq!(all, [""; 0]);
}

#[test]
fn no_real_trace_is_a_fiftieth_the_worse_for_a_trial_of_distance() {
    let test = "no_real_trace_is_a_fiftieth_the_worse_for_a_trial_of_distance";
    let traces = [
        "cache2k-orm-night.trace.xz",
        "lirs-2_pools.trace.gz",
        "lirs-cpp.trace.gz",
        "sqlite.tlb.xz",
    ];
    let mut all = Vec::new();
    for trace in traces {
        let Some(path) = support::shared_trace(test, trace) else {
            return;
        };
        let mut opened = strata_trace::open(path, &OpenOptions::default()).expect("opens");
        let workload = Workload::read(trace, opened.reader.as_mut()).expect("is read");
        all.extend(worse(&workload, trace));
    }
    assert_eq!(all, [""; 0]);
}
