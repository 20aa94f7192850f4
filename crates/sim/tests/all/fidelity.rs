//! What the simulator reads back is what real kernels read back.
//!
//! Some of the figures were recorded first (`tests/oracle/results.json`). The others were measured by `make bench NAME=kernels`.

use crate::support::oracle;

use std::sync::LazyLock;

use oracle::Case;

/// How far from kernel 6.1 a figure may be, as a part of the kernel's.
const TOLERANCE: f64 = 0.05;

/// How far apart the same kernel may be on two machines.
const REPEAT_TOLERANCE: f64 = 0.03;

/// All recorded cases replayed, once for all tests.
static RECORDED: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let figures = oracle::recorded().expect("the figures are readable");
    oracle::replay(figures).expect("a replay")
});

/// All cases measured by ourselves, replayed.
static MEASURED: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let figures = oracle::measured().expect("the figures are readable");
    oracle::replay(figures).expect("a replay")
});

fn is_off(ratio: f64) -> bool {
    (ratio - 1.0).abs() > TOLERANCE
}

#[track_caller]
fn assert_as_kernel_6_1(cases: &[Case]) {
    let of_6_1 = cases
        .iter()
        .filter(|case| case.setting.kernel == "6.1" && case.is_graded());
    let mut complaints = Vec::new();
    let mut nr_cases = 0;
    for case in of_6_1 {
        nr_cases += 1;
        for (what, pair) in [("two-list", case.classic), ("mglru", case.mglru)] {
            if is_off(pair.ratio()) {
                complaints.push(format!("{:?} {what}: {pair:?}", case.setting));
            }
        }
        let (kernel, ours) = case.generations_over_classic();
        if is_off(kernel) && (kernel > 1.0) != (ours > 1.0) {
            complaints.push(format!("{case:?}: on the other side"));
        }
    }
    assert!(nr_cases >= 8, "only {nr_cases} cases");
    assert!(complaints.is_empty(), "{complaints:#?}");
}

#[track_caller]
fn assert_in_documentation(page: &str, table: &str) {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/validation");
    let text = std::fs::read_to_string(format!("{docs}/{page}")).expect(page);
    assert!(
        text.contains(table),
        "docs/validation/{page} is out of date: make evaluate\n{table}"
    );
}

#[test]
fn what_kernel_6_1_was_recorded_to_read_back_is_read_back_within_5_percent() {
    assert_as_kernel_6_1(&RECORDED);
}

#[test]
fn what_we_saw_kernel_6_1_read_back_is_read_back_within_5_percent() {
    assert_as_kernel_6_1(&MEASURED);
}

/// What our measurements are worth: where others measured the same, they found the same.
#[test]
fn a_kernel_measured_again_reads_back_what_it_was_recorded_to() {
    let mut nr_compared = 0;
    for ours in MEASURED.iter() {
        let theirs = RECORDED.iter().find(|case| case.setting == ours.setting);
        let Some(theirs) = theirs else {
            continue;
        };
        for (ours, theirs) in [(ours.classic, theirs.classic), (ours.mglru, theirs.mglru)] {
            let ratio = ours.kernel.read_backs as f64 / theirs.kernel.read_backs as f64;
            assert!(
                (ratio - 1.0).abs() <= REPEAT_TOLERANCE,
                "{ours:?} {theirs:?}"
            );
            nr_compared += 1;
        }
    }
    assert!(nr_compared >= 6, "only {nr_compared} figures");
}

#[test]
fn the_tables_in_the_documentation_are_up_to_date() {
    assert_in_documentation("fidelity.md", &oracle::measured_table(&MEASURED));
    assert_in_documentation("fidelity.md", &oracle::table(&RECORDED));
}
