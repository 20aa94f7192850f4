//! Refault distance on trial: what the kernel's window misses is missed by it with at most a fiftieth
//! more, on sequences and traces of which most had cells that distance alone made worse, and hardly more where
//! there is little to miss. On the two lists a cycling set keeps a part by it, and nothing by the window, and it
//! does no harm when the pattern turns.

use rayon::prelude::*;
use strata_sim::{MemorySize, NoProgress, Outcome, PolicySpec, Setup, Simulate, Workload};
use strata_trace::{Generator, OpenOptions};

use crate::support;

/// Shares of the footprint, and the most that may be missed there, in percent of the window's misses.
const MUCH_STRESS: (&[&str], u64) = (&["1%", "5%", "20%"], 102);
/// Two kinds in turn, partly written: the two lists are at 103.1 in 20 %.
const MUCH_STRESS_WRITTEN: (&[&str], u64) = (MUCH_STRESS.0, 104);
const LITTLE_STRESS: (&[&str], u64) = (&["50%", "80%", "95%"], 101);

fn run(policy: &str, workload: &Workload, memory_pages: u32) -> Outcome {
    let policy: PolicySpec = policy.parse().expect("a policy");
    let setup = Setup::with_memory(memory_pages);
    policy.run(workload, &setup, &NoProgress).expect("runs")
}

fn misses(policy: &str, workload: &Workload, memory_pages: u32) -> u64 {
    run(policy, workload, memory_pages).nr_misses
}

fn generated(trace: &str) -> Workload {
    let accesses: Generator = trace.parse().expect("a generator");
    Workload::from_accesses(trace, accesses).expect("fits")
}

/// Cells where trying distance in small missed too much more than the window.
fn worse(workload: &Workload, name: &str, (shares, limit): (&[&str], u64)) -> Vec<String> {
    let cells = shares.iter().flat_map(|share| {
        let memory: MemorySize = share.parse().expect("a share");
        let memory_pages = memory.pages(workload.footprint_pages());
        ["mglru", "mglru:v6.1", "two-list"].map(|policy| (policy, memory_pages))
    });
    let cells: Vec<(&str, u32)> = cells.collect();
    let judged = cells.into_par_iter().filter_map(|(policy, memory_pages)| {
        let window = misses(policy, workload, memory_pages);
        let distance = misses(&format!("{policy}+distance"), workload, memory_pages);
        let is_worse = distance * 100 > window * limit;
        is_worse.then(|| format!("{name}, {policy} in {memory_pages}: {distance}, {window}"))
    });
    judged.collect()
}

#[test]
fn no_generated_sequence_is_a_fiftieth_the_worse_for_a_trial_of_distance_unless_it_is_written() {
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
        let stress = match trace.contains("writes") {
            true => MUCH_STRESS_WRITTEN,
            false => MUCH_STRESS,
        };
        all.extend(worse(&generated(trace), trace, stress));
    }
    assert_eq!(all, [""; 0]);
}

#[test]
fn no_real_trace_is_a_fiftieth_the_worse_for_a_trial_of_distance() {
    // The first is kept here and always there.
    let traces = [
        "sqlite.tlb.xz",
        "cache2k-orm-night.trace.xz",
        "lirs-2_pools.trace.gz",
        "lirs-cpp.trace.gz",
    ];
    let mut all = Vec::new();
    let mut nr_traces = 0;
    for trace in traces {
        let Some(path) = support::real_trace(trace) else {
            continue;
        };
        nr_traces += 1;
        let mut opened = strata_trace::open(path, &OpenOptions::default()).expect("opens");
        let workload = Workload::read(trace, opened.reader.as_mut()).expect("is read");
        all.extend(worse(&workload, trace, MUCH_STRESS));
    }
    assert_eq!(all, [""; 0]);
    assert!(nr_traces > 0, "no trace at all");
}

#[test]
fn where_there_is_little_to_miss_a_trial_of_distance_misses_hardly_more() {
    let mut all = Vec::new();
    for trace in [
        "gen:zipf",
        "gen:phases",
        "gen:hotscan,via=mmap",
        "gen:mixed",
    ] {
        all.extend(worse(&generated(trace), trace, LITTLE_STRESS));
    }
    assert_eq!(all, [""; 0]);
}

/// Of what the sequences below are made for.
const MEMORY_PAGES: u32 = 4096;

/// Misses by a rule of refaults in percent of `of`.
fn percent(policy: &str, rule: &str, workload: &Workload, of: u64) -> u64 {
    misses(&format!("{policy}{rule}"), workload, MEMORY_PAGES) * 100 / of
}

/// Forty times through a set of so many tenths of memory.
fn round_and_round(pattern: &str, tenths: u32, options: &str) -> Workload {
    let nr_pages = MEMORY_PAGES * tenths / 10;
    let accesses = 40 * nr_pages;
    generated(&format!(
        "gen:{pattern},pages={nr_pages},accesses={accesses},{options}"
    ))
}

#[test]
fn a_file_read_round_and_round_keeps_a_part_by_distance_and_nothing_by_window() {
    // What would be missed at best: 17, 33, 50 and 67 percent.
    for (tenths, of_generations, of_lists) in
        [(12, 50, 60), (15, 70, 75), (20, 80, 90), (30, 90, 95)]
    {
        let workload = round_and_round("loop", tenths, "via=fd");
        let nr_accesses = workload.requests().len() as u64;
        let policies = [
            ("mglru", of_generations),
            ("mglru:v6.1", of_generations),
            ("two-list", of_lists),
        ];
        for (policy, limit) in policies {
            for swap in ["", "+no-swap"] {
                let share = |rule: &str| {
                    let rule = format!("{rule}{swap}");
                    percent(policy, &rule, &workload, nr_accesses)
                };
                let case = format!("{policy}{swap}, {tenths} tenths of memory");
                assert!(share("") >= 99, "{case}");
                for rule in ["+distance=always", "+distance"] {
                    let share = share(rule);
                    assert!(share <= limit, "{case}, {rule}: {share} % miss");
                }
            }
        }
    }
}

#[test]
fn a_mapping_used_round_and_round_keeps_a_part_where_walks_do_not_promote_at_once() {
    // The pages of the first have no neighbours that are seen beside them.
    for (pattern, tenths, limit) in [
        ("sparse,", 12, 92),
        ("sparse,", 15, 96),
        ("loop,via=mmap,", 15, 89),
        ("loop,via=mmap,", 20, 96),
    ] {
        for backing in ["file", "anon"] {
            let (pattern, options) = pattern.split_once(',').expect("a pattern");
            let options = format!("{options}backing={backing}");
            let workload = round_and_round(pattern, tenths, &options);
            let window = misses("mglru", &workload, MEMORY_PAGES);
            let share = percent("mglru", "+distance=always", &workload, window);
            assert!(
                share <= limit,
                "{pattern}, {backing}, {tenths} tenths: {share} %"
            );
        }
    }
}

#[test]
fn four_other_sequences_are_no_more_than_two_percent_the_worse_for_distance() {
    let modes = ["fdread", "mmapread", "anon"];
    let patterns = ["uniform", "zipf", "hotscan", "phase"];
    let names = modes
        .into_iter()
        .flat_map(|mode| patterns.map(|of| format!("{mode}/{of}")));
    names
        .collect::<Vec<String>>()
        .into_par_iter()
        .for_each(|name| {
            let trace = format!("oracle:{name},memory={MEMORY_PAGES},accesses=163840");
            let workload = generated(&trace);
            // Untried, the two lists may be seven the worse.
            for (policy, limit) in [("mglru", 102), ("mglru:v6.1", 102), ("two-list", 107)] {
                let window = misses(policy, &workload, MEMORY_PAGES);
                for (rule, limit) in [("+distance=always", limit), ("+distance", 102)] {
                    let share = percent(policy, rule, &workload, window);
                    assert!(share <= limit, "{trace}, {policy}{rule}: {share} %");
                }
            }
        });
}

#[test]
fn the_two_lists_are_never_a_fiftieth_the_worse_for_distance_on_a_trace_that_turns() {
    const NR_STRETCHES: u64 = 4;
    const STRETCH_ACCESSES: u64 = 500_000;
    let workload = generated("gen:loop-zipf-loop-scan,pages=4096,accesses=2000000");
    // Misses of each stretch after its first tenth.
    let of = |policy| -> Vec<u64> {
        let outcome = run(policy, &workload, 3413);
        let samples = outcome.reclaim.expect("a kernel's policy").samples;
        let until = |at| {
            let sample = samples.iter().find(|sample| sample.at_access == at);
            sample.expect("a moment that is looked at").nr_misses
        };
        let ends = (1..=NR_STRETCHES).map(|n| n * STRETCH_ACCESSES);
        ends.map(|end| until(end) - until(end - STRETCH_ACCESSES * 9 / 10))
            .collect()
    };
    let window = of("two-list");
    for policy in ["two-list+distance", "two-list+distance=always"] {
        let distance = of(policy);
        let mut both = window.iter().zip(&distance);
        let is_worse = both.any(|(window, distance)| distance * 100 > window * 102);
        assert!(!is_worse, "{policy}: {distance:?}, {window:?}");
        // Both loops keep a part.
        for stretch in [0, 2] {
            let is_part = distance[stretch] * 10 <= window[stretch] * 7;
            assert!(is_part, "{policy}: {distance:?}, {window:?}");
        }
    }
}

/// Misses after the first tenth in 15,000 pages that so many groups share.
fn misses_among(nr_groups: usize, policy: &str, workload: &Workload) -> u64 {
    let policy: PolicySpec = policy.parse().expect("a policy");
    let group = |group| format!("replica{group}").parse().expect("a group");
    let setup = Setup {
        groups: (0..nr_groups).map(group).collect(),
        ..Setup::with_memory(15_000)
    };
    let outcome = policy.run(workload, &setup, &NoProgress).expect("runs");
    let samples = outcome.reclaim.expect("a kernel's policy").samples;
    let tenth = workload.requests().len() as u64 / 10;
    let at_tenth = samples.iter().find(|sample| sample.at_access >= tenth);
    outcome.nr_misses - at_tenth.expect("a moment that is looked at").nr_misses
}

/// Found in a review of the letters: two small memories that never shrank missed nothing by either rule where
/// groups share memory, and distance was never chosen. The two learn in their own room, so the trial saves less
/// than the better rule where that takes memory from groups that are idle.
#[test]
fn a_trial_beside_idle_groups_saves_half_of_what_the_better_rule_saves_or_more() {
    let cases = (1..=5).map(|nr_groups| {
        // One alone has a file that does not fit.
        let pages = if nr_groups == 1 { 18_000 } else { 12_000 };
        (nr_groups, pages, 1, vec!["mglru:v6.1", "mglru"])
    });
    // The first has read its file twice when the other comes.
    let kernels = vec!["mglru:v2022", "mglru:v6.1", "mglru", "mglru:v7.2"];
    let cases = cases.chain([(2, 12_000, 2, kernels)]);
    for (nr_groups, pages, ahead, policies) in cases {
        let trace =
            format!("gen:replicas,groups={nr_groups},pages={pages},ahead={ahead},accesses=1500000");
        let workload = generated(&trace);
        policies.into_par_iter().for_each(|policy| {
            let of = |rule| misses_among(nr_groups, &format!("{policy}{rule}"), &workload);
            let (window, trial, always) = (of(""), of("+distance"), of("+distance=always"));
            let saved = |misses: u64| window.saturating_sub(misses);
            assert!(
                trial <= window && saved(trial) * 2 >= saved(always),
                "{trace}, {policy}: {window}, {trial}, {always}"
            );
        });
    }
}
