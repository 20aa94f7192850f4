//! More than a million random operations, each checked against a dumb model, and recounted.

use std::cell::Cell;

use proptest::{
    prelude::*,
    test_runner::{Config, TestError, TestRunner},
};

use strata_lru::KernelModel;

use crate::support;
use support::{Op, Pair, op};

/// Operations of the default model's properties, at least; the two together come to more than 10^6.
const NR_OPS_MIN: u64 = 550_000;

/// Operations of every other model's property, at least.
const NR_OPS_OTHERS_MIN: u64 = 150_000;

/// Longest sequence; failures shrink towards one operation.
const SEQUENCE_LEN_MAX: usize = 1000;

fn run(
    kernel: KernelModel,
    nr_ops_min: u64,
    swappiness: impl Strategy<Value = u8> + Clone + 'static,
) {
    let nr_ops = Cell::new(0u64);
    let strategy = proptest::collection::vec(op(swappiness), 1..=SEQUENCE_LEN_MAX);
    while nr_ops.get() < nr_ops_min {
        let config = Config {
            cases: 100,
            failure_persistence: None,
            ..Config::default()
        };
        let outcome = TestRunner::new(config).run(&strategy, |ops: Vec<Op>| {
            let mut pair = Pair::new(kernel);
            for (position, op) in ops.iter().enumerate() {
                pair.apply(op).map_err(|error| {
                    TestCaseError::fail(format!("operation {position}, {op:?}: {error}"))
                })?;
                nr_ops.set(nr_ops.get() + 1);
            }
            Ok(())
        });
        if let Err(TestError::Fail(reason, ops)) = outcome {
            panic!("{kernel}: {reason}\nafter {ops:#?}");
        }
    }
}

#[test]
fn the_engine_does_what_the_model_says_at_one_swappiness() {
    run(KernelModel::V6_14, NR_OPS_MIN, Just(60));
}

#[test]
fn the_engine_does_what_the_model_says_at_every_swappiness() {
    run(KernelModel::V6_14, NR_OPS_MIN, any_swappiness());
}

#[test]
fn every_kernel_does_what_its_own_model_says() {
    for kernel in KernelModel::ALL {
        run(*kernel, NR_OPS_OTHERS_MIN, any_swappiness());
    }
}

fn any_swappiness() -> impl Strategy<Value = u8> + Clone + 'static {
    prop_oneof![3 => 0..=201u8, 1 => Just(0), 1 => Just(1), 1 => Just(200), 1 => Just(201)]
}

proptest! {
    #![proptest_config(Config { cases: 64, failure_persistence: None, ..Config::default() })]

    #[test]
    fn the_same_operations_give_the_same_state_twice(
        ops in proptest::collection::vec(op(0..=201u8), 1..=SEQUENCE_LEN_MAX),
    ) {
        let state = || {
            let mut pair = Pair::new(KernelModel::V6_14);
            for op in &ops {
                pair.apply(op).map_err(TestCaseError::fail)?;
            }
            Ok::<_, TestCaseError>(format!("{:?}", pair.engine))
        };
        prop_assert_eq!(state()?, state()?);
    }
}
