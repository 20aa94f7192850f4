//! The bytes of the JSON stay what they are, for everything whose trace is generated.
//!
//! A change of a policy or of a field changes the files under `tests/golden`; then
//! `STRATA_BLESS=1 cargo test -p strata-sim --test all golden` writes them anew, and their diff is part of
//! the change.

use std::fs;
use std::path::Path;

use strata_lru::Swappiness;
use strata_lru::machine::CgroupVersion;
use strata_sim::report::Report;
use strata_sim::{CostModel, Jobs, NoProgress, PolicySpec, Setup, SteeredSetup, Workload};
use strata_trace::Generator;

/// The sample of the generations that is kept, near the end of a run.
const SAMPLE_KEPT: usize = 199;

/// Replays and compares with `tests/golden/NAME.json`, or writes it.
fn check(name: &str, traces: &[&str], policies: &[&str], setups: &[Setup]) {
    let policies: Vec<PolicySpec> = policies
        .iter()
        .map(|one| one.parse().expect("a policy"))
        .collect();
    let jobs = Jobs::try_new(2).expect("threads");
    let mut report = Report::default();
    for trace in traces {
        let accesses: Generator = trace.parse().expect("a generator");
        let workload = Workload::from_accesses(*trace, accesses).expect("fits");
        let runs = jobs
            .replay(&workload, &policies, setups, &NoProgress)
            .expect("runs");
        report.add(&workload, &runs, &CostModel::default());
    }
    for record in &mut report.runs {
        if let Some(reclaim) = &mut record.reclaim {
            // It stands at the end of all that came before, and `time_in_generations` sums up every sample.
            let samples = &mut reclaim.counts.samples;
            *samples = vec![samples.swap_remove(SAMPLE_KEPT)];
        }
    }
    let json = report.json().expect("JSON");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"));
    if std::env::var_os("STRATA_BLESS").is_some() {
        fs::write(&path, &json).expect("written");
    }
    let golden = fs::read_to_string(&path).expect("a golden file");
    let differs = json
        .lines()
        .zip(golden.lines())
        .zip(1..)
        .find(|((a, b), _)| a != b);
    assert!(
        json == golden,
        "{}: the first difference (ours, golden), line: {differs:?}",
        path.display()
    );
}

#[test]
fn baselines_give_the_bytes_they_always_gave() {
    check(
        "baselines",
        &[
            "gen:zipf,pages=3000,accesses=60000",
            "gen:hotscan,hot=600,scan=2000,period=5000,accesses=60000",
            "gen:loop,pages=700,accesses=20000",
        ],
        &["lru", "fifo", "clock", "opt", "sieve", "s3-fifo"],
        &[100, 600].map(Setup::with_memory),
    );
}

#[test]
fn the_policies_of_kernels_give_the_bytes_they_always_gave() {
    check(
        "kernels",
        &[
            "gen:mixed,anon=1500,file=3000,accesses=60000",
            "gen:phases,pages=2000,accesses=60000",
            "gen:hotscan,hot=1200,scan=4000,period=9000,accesses=60000,via=mmap",
        ],
        &["mglru", "mglru:v6.1", "mglru+distance", "two-list"],
        &[Setup::with_memory(1500)],
    );
}

#[test]
fn steered_runs_give_the_bytes_they_always_gave() {
    let steered = |hierarchy| Setup {
        steered: Some(SteeredSetup {
            hierarchy,
            ..SteeredSetup::default()
        }),
        ..Setup::with_memory(2400)
    };
    check(
        "steered",
        &[
            "gen:zipf,pages=4000,accesses=200000,backing=anon,via=mmap,writes=10",
            "gen:hotscan,hot=1800,scan=4000,period=20000,accesses=200000,via=mmap",
        ],
        &["mglru:v6.1", "two-list"],
        &[CgroupVersion::V1, CgroupVersion::V2].map(steered),
    );
}

#[test]
fn page_cache_under_the_loop_gives_the_bytes_it_always_gave() {
    let steered = |drops_cache| Setup {
        steered: Some(SteeredSetup {
            drops_cache,
            ..SteeredSetup::default()
        }),
        ..Setup::with_memory(4000)
    };
    check(
        "page_cache",
        &[
            "gen:loop,pages=4800,accesses=60000",
            "gen:hotscan,hot=2600,scan=9000,period=12000,accesses=120000,writes=5",
            "gen:mixed,anon=2000,file=4000,accesses=120000",
        ],
        &["mglru", "two-list"],
        &[true, false].map(steered),
    );
}

#[test]
fn groups_give_the_bytes_they_always_gave() {
    let groups = [
        "site:max=70%",
        "site/web:low=30%",
        "site/db:min=20%,high=40%",
        "batch:swap.max=200",
    ];
    let setup = Setup {
        swappiness: Swappiness::try_new(150).expect("at most 201"),
        groups: groups.map(|group| group.parse().expect("a group")).to_vec(),
        background: Some("2%".parse().expect("a share")),
        ..Setup::with_memory(3000)
    };
    check(
        "groups",
        &["gen:mixed,anon=1600,file=800,accesses=60000,groups=3,turn=40"],
        &[
            "mglru",
            "mglru:v7.2",
            "mglru:v2022",
            "mglru:v2022+group_order=rounds",
            "mglru:v2022+group_order=rounds-sparing",
            "mglru:v2022+group_order=rounds-sparing-both",
            "two-list",
        ],
        &[setup],
    );
}

#[test]
fn tiers_give_the_bytes_they_always_gave() {
    let tiers = |text: &str| Some(text.parse().expect("tiers"));
    let groups = ["web:low=30%", "batch:max=40%,swap.max=1100"];
    let setups = [
        Setup {
            tiers: tiers("25:75+page-cache=refs+scan=10"),
            ..Setup::with_memory(1500)
        },
        Setup {
            tiers: tiers("20:30:50+page-cache=five-conditions"),
            groups: groups.map(|group| group.parse().expect("a group")).to_vec(),
            ..Setup::with_memory(1500)
        },
    ];
    check(
        "tiers",
        &["gen:mixed,anon=1600,file=800,accesses=60000,groups=2,turn=40,writes=10"],
        &["mglru", "mglru:v6.1", "two-list"],
        &setups,
    );
}
