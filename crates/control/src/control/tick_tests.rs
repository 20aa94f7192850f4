//! What is read for a tick, and the plan that comes of it.

use super::tests::{MIB, with};
use super::*;
use crate::plan::Action;
use crate::sample::Sample;

#[test]
fn a_plan_says_what_is_to_be_done_in_order_and_asks_one_to_reclaim() {
    let mut control = with(320 * MIB, Actuator::Auto);
    let sample = |ms, usage_mib: u64| Sample {
        now: TimeMs(ms),
        usage_bytes: usage_mib * MIB,
        ..Sample::default()
    };
    assert_eq!(control.tick(sample(0, 100)).actions, []);
    let plan = control.tick(sample(10, 319));
    let take = Action::PageOut {
        nr_pages: Config::default().control.pageout_batch_pages,
    };
    assert_eq!(plan.actions, [take]);
    assert_eq!(plan.wait_ms, plan.decision.asked.wait_ms);
    let plan = control.tick(sample(60, 319));
    assert!(
        matches!(plan.actions[..], [Action::Reclaim { .. }]),
        "{plan:?}"
    );
}

#[test]
fn the_processors_are_read_only_where_it_matters() {
    let control = with(320 * MIB, Actuator::Auto);
    let low_bytes = control.marks().low_bytes;
    assert!(!control.due(TimeMs(0), low_bytes).is_sharing);
    assert_eq!(control.due(TimeMs(0), low_bytes).cpu, Default::default());
    let due = control.due(TimeMs(0), low_bytes + 1);
    assert!(due.is_sharing && due.cpu.threads && due.cpu.runnable && due.cpu.clocks);
    for actuator in [Actuator::Pageout, Actuator::Reclaim] {
        let control = with(320 * MIB, actuator);
        assert!(!control.due(TimeMs(0), 400 * MIB).is_sharing);
    }
}

#[test]
fn a_new_budget_is_looked_at_soon_although_nothing_has_changed_for_long() {
    let mut control = with(320 * MIB, Actuator::Pageout);
    let sample = |ms| Sample {
        now: TimeMs(ms),
        usage_bytes: 100 * MIB,
        ..Sample::default()
    };
    for nr in 0..20 {
        control.tick(sample(nr * 1000));
    }
    assert_eq!(control.tick(sample(20_000)).wait_ms, 1000);
    control.set_budget(300 * MIB);
    assert_eq!(control.tick(sample(20_001)).wait_ms, 10);
}

#[test]
fn the_kernel_helps_out_only_under_auto_and_once_pageout_does_not_keep_up() {
    let is_turn = |actuator| {
        let mut control = with(320 * MIB, actuator);
        let mut turns = [0, 60].map(|ms| {
            control.tick(Sample {
                now: TimeMs(ms),
                usage_bytes: 319 * MIB,
                ..Sample::default()
            });
            control.reclaimer() == Reclaimer::Kernel
        });
        turns.sort_unstable();
        turns
    };
    assert_eq!(is_turn(Actuator::Auto), [false, true]);
    assert_eq!(is_turn(Actuator::Pageout), [false, false]);
}

#[test]
fn where_only_the_kernel_reclaims_walks_come_seldom() {
    let pause_ms = |actuator| {
        let look = WalkLook {
            usage_bytes: 319 * MIB,
            is_splitting: false,
            is_pageout_wanted: actuator == Actuator::Pageout,
            is_ageing_due: true,
        };
        with(320 * MIB, actuator).walk_pause_ms(&look)
    };
    let walks = Config::default().walks;
    assert_eq!(pause_ms(Actuator::Reclaim), Some(walks.pause_watch_ms));
    assert_eq!(pause_ms(Actuator::Pageout), Some(walks.pause_ms_min));
}
