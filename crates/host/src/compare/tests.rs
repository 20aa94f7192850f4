//! Which arms there are, in which order, what is held against what, which limit a run has, and which runs count.

use super::arms::base_of;
use super::*;

fn arm(kind: ArmKind, mib: u64) -> Arm {
    Arm {
        kind,
        budget_bytes: (mib > 0).then_some(mib << 20),
    }
}

fn names(arms: &[Arm]) -> Vec<String> {
    arms.iter().map(Arm::to_string).collect()
}

const ALL: [ArmKind; 3] = [ArmKind::None, ArmKind::Kernel, ArmKind::Strata];

#[test]
fn each_budget_has_its_arms_and_no_limit_has_one() {
    let all = arms(&ALL, &[100 << 20, 200 << 20]);
    let expected = [
        "none",
        "kernel 100 MiB",
        "strata 100 MiB",
        "kernel 200 MiB",
        "strata 200 MiB",
    ];
    assert_eq!(names(&all), expected);
}

#[test]
fn the_order_turns_from_round_to_round() {
    let all = arms(&ALL, &[100 << 20]);
    let in_round = |round| order(&all, round, KernelLimit::Budget);
    let (there, back) = (in_round(0), in_round(1));
    assert_eq!(there, all);
    assert_eq!(back.iter().rev().copied().collect::<Vec<_>>(), all);
    assert_eq!(in_round(2), there);
}

#[test]
fn strata_runs_just_before_the_kernel_where_its_memory_is_the_measure() {
    for kinds in [&ALL[..], &[ArmKind::Strata, ArmKind::Kernel]] {
        let all = arms(kinds, &[100 << 20, 200 << 20]);
        for round in 0..2 {
            let order = order(&all, round, KernelLimit::MeanOfStrata);
            assert_eq!(order.len(), all.len());
            for (at, of) in order.iter().enumerate() {
                if of.kind == ArmKind::Kernel {
                    let before = order[at - 1];
                    assert_eq!(before.kind, ArmKind::Strata, "{:?}", names(&order));
                    assert_eq!(before.budget_bytes, of.budget_bytes);
                }
            }
        }
        let last = |round| order(&all, round, KernelLimit::MeanOfStrata).pop();
        assert_ne!(last(0), last(1), "budgets and no limit still take turns");
    }
}

#[test]
fn the_kernels_limit_is_what_strata_used_at_the_same_budget() {
    let (small, large) = (arm(ArmKind::Strata, 100), arm(ArmKind::Strata, 200));
    let used_bytes = [(small, 97 << 20), (large, 198 << 20)];
    let limit = |of, how| limit_of(of, how, &used_bytes).map(|bytes| bytes >> 20);
    let kernel = |mib| arm(ArmKind::Kernel, mib);
    assert_eq!(limit(kernel(100), KernelLimit::MeanOfStrata), Some(97));
    assert_eq!(limit(kernel(200), KernelLimit::MeanOfStrata), Some(198));
    // Strata failed at this one: what it used says nothing.
    assert_eq!(limit(kernel(300), KernelLimit::MeanOfStrata), Some(300));
    assert_eq!(limit(kernel(100), KernelLimit::Budget), Some(100));
    assert_eq!(limit(small, KernelLimit::MeanOfStrata), Some(100));
    let none = arm(ArmKind::None, 0);
    assert_eq!(limit(none, KernelLimit::MeanOfStrata), None);
}

#[test]
fn strata_is_held_against_the_kernel_at_the_same_budget() {
    let all = arms(&ALL, &[100 << 20, 200 << 20]);
    let base = |of| base_of(&all, of).map(|arm| arm.to_string());
    assert_eq!(
        base(arm(ArmKind::Strata, 200)).as_deref(),
        Some("kernel 200 MiB")
    );
    assert_eq!(base(arm(ArmKind::Kernel, 100)).as_deref(), Some("none"));
    assert_eq!(base(arm(ArmKind::None, 0)), None);
}

#[test]
fn budgets_are_held_against_the_first_where_there_is_only_one_kind() {
    for kind in [ArmKind::Strata, ArmKind::Kernel] {
        let all = arms(&[kind], &[100 << 20, 200 << 20]);
        assert_eq!(base_of(&all, arm(kind, 100)), None);
        assert_eq!(base_of(&all, arm(kind, 200)), Some(arm(kind, 100)));
    }
    let two = arms(&ALL[1..], &[100 << 20, 200 << 20]);
    assert_eq!(base_of(&two, arm(ArmKind::Kernel, 200)), None);
}

fn run(round: u32, of: Arm, wall_ms: f64, is_counted: bool) -> Run {
    let mut figures = Figures::default();
    figures.set(Metric::Wall, Some(wall_ms));
    Run {
        round,
        position: 1,
        arm: of,
        limit_bytes: of.budget_bytes,
        is_counted,
        outcome: Outcome {
            exit_status: 0,
            is_oom_kill: !is_counted,
            failure: (!is_counted).then(|| "killed".to_owned()),
            nr_memory_samples: 0,
            figures,
            warnings: Vec::new(),
            unmatched: Vec::new(),
        },
    }
}

#[test]
fn a_run_that_failed_takes_its_round_out_of_the_ratio_and_only_that() {
    let all = arms(&ALL[1..], &[100 << 20]);
    let (kernel, strata) = (all[0], all[1]);
    let mut comparison = Comparison {
        version: COMPARISON_VERSION,
        command: "true".to_owned(),
        nr_rounds: 3,
        nr_warmup_rounds: 0,
        nr_neighbours: 0,
        kernel_limit: KernelLimit::MeanOfStrata,
        is_interrupted: false,
        troubles: Vec::new(),
        summaries: Vec::new(),
        ratios: Vec::new(),
        runs: vec![
            run(1, kernel, 100.0, true),
            run(1, strata, 50.0, true),
            run(2, strata, 70.0, true),
            run(2, kernel, 1.0, false),
            run(3, kernel, 300.0, true),
            run(3, strata, 90.0, true),
        ],
    };
    comparison.sum_up(&all);
    let nr_runs: Vec<usize> = comparison.summaries.iter().map(|of| of.nr_runs).collect();
    assert_eq!(nr_runs, [2, 3]);
    let killed: Vec<(usize, usize)> = comparison
        .summaries
        .iter()
        .map(|of| (of.nr_failed_runs, of.nr_oom_kills))
        .collect();
    assert_eq!(killed, [(1, 1), (0, 0)]);
    let [ratios] = &comparison.ratios[..] else {
        panic!("{:?}", comparison.ratios);
    };
    assert_eq!((ratios.arm, ratios.over), (strata, kernel));
    let Some((Metric::Wall, wall)) = ratios.ratios.first_key_value() else {
        panic!("{ratios:?}");
    };
    assert_eq!((wall.nr_rounds, wall.worst, wall.worst_round), (2, 0.5, 1));
    assert_eq!(wall.median, 0.4);
    let json = serde_json::to_value(&comparison).expect("plain data");
    assert_eq!(json["summaries"][1]["arm"], "strata");
    assert_eq!(json["summaries"][1]["budget_bytes"], 100 << 20);
    assert_eq!(json["summaries"][1]["figures"]["wall_ms"]["median"], 70);
    assert_eq!(json["ratios"][0]["over"]["arm"], "kernel");
    assert_eq!(json["runs"][3]["is_counted"], false);
    assert_eq!(json["runs"][3]["figures"]["wall_ms"], 1);
    assert_eq!(json["kernel_limit"], "mean_of_strata");
    assert_eq!(json["runs"][3]["limit_bytes"], 100 << 20);

    let read_back: Comparison = serde_json::from_value(json).expect("what was written");
    assert_eq!(read_back, comparison);
}
