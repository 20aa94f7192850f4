//! Miss ratios on real traces, to six digits as libCacheSim 0.3.5 has them.

use strata_sim::{Baseline, NoProgress, Ratio, Setup, Simulate, Workload};
use strata_trace::OpenOptions;

use crate::support;

/// Policies in the order of the ratios below.
const POLICIES: [Baseline; 5] = [
    Baseline::Fifo,
    Baseline::Lru,
    Baseline::Clock,
    Baseline::S3Fifo,
    Baseline::Opt,
];

fn check(test: &str, trace: &str, expected: &[(u32, [&str; 5])]) {
    let Some(path) = support::shared_trace(test, trace) else {
        return;
    };
    let mut opened = strata_trace::open(path, &OpenOptions::default()).expect("opens");
    let workload = Workload::read(trace, opened.reader.as_mut()).expect("is read");
    for (memory_pages, ratios) in expected {
        let ratio = |policy: Baseline| {
            let setup = Setup::with_memory(*memory_pages);
            let outcome = policy.run(&workload, &setup, &NoProgress).expect("runs");
            Ratio::of(outcome.nr_misses, outcome.nr_accesses).to_string()
        };
        let ours = POLICIES.map(ratio);
        assert_eq!(
            &ours.each_ref().map(String::as_str),
            ratios,
            "{trace} @ {memory_pages}"
        );
    }
}

#[test]
fn a_virtual_machines_block_trace_misses_as_in_libcachesim() {
    check(
        "a_virtual_machines_block_trace_misses_as_in_libcachesim",
        "cloudphysics-io.oracleGeneral.zst",
        &[
            (
                490,
                ["0.847574", "0.837915", "0.837159", "0.830441", "0.792600"],
            ),
            (
                4897,
                ["0.805431", "0.804913", "0.804403", "0.755287", "0.628952"],
            ),
            (
                14692,
                ["0.640017", "0.660803", "0.670437", "0.583348", "0.501888"],
            ),
        ],
    );
}

#[test]
fn a_databases_block_trace_misses_as_in_libcachesim() {
    check(
        "a_databases_block_trace_misses_as_in_libcachesim",
        "arc-oltp.lis.zst",
        &[
            (
                1000,
                ["0.714701", "0.671691", "0.667261", "0.591448", "0.463878"],
            ),
            (
                5000,
                ["0.503164", "0.463495", "0.461707", "0.442513", "0.317312"],
            ),
            (
                15000,
                ["0.385767", "0.353657", "0.352323", "0.340183", "0.248620"],
            ),
        ],
    );
}

#[test]
fn memory_references_miss_as_in_libcachesim() {
    check(
        "memory_references_miss_as_in_libcachesim",
        "memsim-gcc.trace.gz",
        &[(
            256,
            ["0.031698", "0.025308", "0.024805", "0.021117", "0.012667"],
        )],
    );
}

#[test]
fn a_large_block_trace_misses_as_in_libcachesim() {
    check(
        "a_large_block_trace_misses_as_in_libcachesim",
        "arc-p6.lis.zst",
        &[(
            131_072,
            ["0.328017", "0.238230", "0.216937", "0.194291", "0.119978"],
        )],
    );
}
