//! What the simulator reads back is what real kernels read back.
//!
//! Needs the recorded figures beside the project; skipped where they are not.

#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/skip.rs"]
mod skip;

use std::fmt::Write;

use oracle::{Case, Pair};

/// How far from kernel 6.1 a figure may be, as a part of the kernel's.
const TOLERANCE: f64 = 0.05;

/// All cases replayed, or `None`, recorded, where there are no figures.
fn cases(test: &str) -> Option<Vec<Case>> {
    let path = oracle::results();
    if !path.exists() {
        let reason = format!("no recorded figures of kernels at {}", path.display());
        skip::record(test, &reason);
        return None;
    }
    Some(oracle::replay().expect("the figures are readable"))
}

fn is_off(pair: Pair) -> bool {
    (pair.ratio() - 1.0).abs() > TOLERANCE
}

#[test]
fn what_kernel_6_1_reads_back_is_read_back_within_5_percent() {
    let Some(cases) = cases("what_kernel_6_1_reads_back_is_read_back_within_5_percent") else {
        return;
    };
    let of_6_1 = cases
        .iter()
        .filter(|case| case.kernel == "6.1" && case.is_graded());
    let mut complaints = String::new();
    let mut nr_cases = 0;
    for case in of_6_1 {
        nr_cases += 1;
        for (what, pair) in [("two-list", case.classic), ("mglru", case.mglru)] {
            if is_off(pair) {
                writeln!(complaints, "{} {what}: {pair:?}", case.name).unwrap();
            }
        }
    }
    assert!(nr_cases >= 8, "only {nr_cases} cases");
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn generations_win_and_lose_against_the_classic_lists_where_they_do_in_kernel_6_1() {
    let test = "generations_win_and_lose_against_the_classic_lists_where_they_do_in_kernel_6_1";
    let Some(cases) = cases(test) else {
        return;
    };
    for case in cases
        .iter()
        .filter(|case| case.kernel == "6.1" && case.is_graded())
    {
        let (kernel, ours) = case.generations_over_classic();
        if (kernel - 1.0).abs() > TOLERANCE {
            assert_eq!(kernel > 1.0, ours > 1.0, "{case:?}");
        }
    }
}

#[test]
fn the_policy_of_our_own_reads_back_as_little_as_the_better_of_a_kernels_two() {
    let test = "the_policy_of_our_own_reads_back_as_little_as_the_better_of_a_kernels_two";
    let Some(cases) = cases(test) else {
        return;
    };
    let worse = cases
        .iter()
        .filter(|case| case.strata_over_better() > 1.0 + TOLERANCE);
    let worse: Vec<&Case> = worse.collect();
    assert!(worse.is_empty(), "{worse:#?}");
}

#[test]
fn the_tables_in_the_documentation_are_up_to_date() {
    let Some(cases) = cases("the_tables_in_the_documentation_are_up_to_date") else {
        return;
    };
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    for (page, table) in [
        ("fidelity.md", oracle::table(&cases)),
        ("evaluation.md", oracle::policy_table(&cases)),
    ] {
        let text = std::fs::read_to_string(format!("{docs}/{page}")).expect(page);
        assert!(
            text.contains(&table),
            "docs/{page} is out of date: make evaluate\n{table}"
        );
    }
}
