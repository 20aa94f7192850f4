//! Miss ratios on real traces, to six digits as libCacheSim 0.3.5 has them.

use std::path::Path;

use rayon::prelude::*;
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

/// Traces kept here, and always there: the file, the memory in pages, and the ratio of each policy.
const KEPT: &str = "
cache2k-web07.trace.xz 1000 0.523109 0.495941 0.490121 0.458840 0.364171
cache2k-web07.trace.xz 5000 0.394585 0.373315 0.368139 0.362556 0.270935
cache2k-web07.trace.xz 15000 0.290996 0.279999 0.278686 0.280748 0.269108
sqlite.tlb.xz 128 0.001138 0.000866 0.000882 0.000845 0.000621
sqlite.tlb.xz 512 0.000461 0.000442 0.000441 0.000490 0.000439
";

/// Traces that may not be kept here: those of them that are there.
const SHARED: &str = "
cloudphysics-io.oracleGeneral.zst 490 0.847574 0.837915 0.837159 0.830441 0.792600
cloudphysics-io.oracleGeneral.zst 4897 0.805431 0.804913 0.804403 0.755287 0.628952
cloudphysics-io.oracleGeneral.zst 14692 0.640017 0.660803 0.670437 0.583348 0.501888
arc-oltp.lis.zst 1000 0.714701 0.671691 0.667261 0.591448 0.463878
arc-oltp.lis.zst 5000 0.503164 0.463495 0.461707 0.442513 0.317312
arc-oltp.lis.zst 15000 0.385767 0.353657 0.352323 0.340183 0.248620
memsim-gcc.trace.gz 256 0.031698 0.025308 0.024805 0.021117 0.012667
arc-p6.lis.zst 131072 0.328017 0.238230 0.216937 0.194291 0.119978
";

/// Plays every policy in this memory.
fn check(line: &str, path: &Path) {
    let (memory_pages, ratios) = line.split_once(' ').expect("ratios");
    let memory_pages = memory_pages.parse().expect("pages");
    let mut opened = strata_trace::open(path, &OpenOptions::default()).expect("opens");
    let workload = Workload::read("trace", opened.reader.as_mut()).expect("is read");
    let ratio = |policy: Baseline| {
        let setup = Setup::with_memory(memory_pages);
        let outcome = policy.run(&workload, &setup, &NoProgress).expect("runs");
        Ratio::of(outcome.nr_misses, outcome.nr_accesses).to_string()
    };
    assert_eq!(
        POLICIES.map(ratio).join(" "),
        ratios,
        "{path:?} @ {memory_pages}"
    );
}

#[test]
fn real_traces_miss_as_in_libcachesim() {
    let lines = [(KEPT, true), (SHARED, false)].into_iter();
    let lines = lines.flat_map(|(table, is_kept)| {
        let lines = table.lines().filter_map(|line| line.split_once(' '));
        lines.map(move |(trace, line)| (trace, line, is_kept))
    });
    lines
        .par_bridge()
        .for_each(|(trace, line, is_kept)| match support::real_trace(trace) {
            Some(path) => check(line, &path),
            None => assert!(!is_kept, "{trace} is kept in tests/traces"),
        });
}
