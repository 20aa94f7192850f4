//! The loop on made-up samples.

use super::*;
use crate::cpu::CpuSample;
use crate::plan::{Action, Decision, Reclaim};
use crate::sample::{FreeSwap, PAGE_BYTES, Sample};

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) const fn setup(budget_bytes: u64, actuator: Actuator) -> Setup {
    Setup {
        budget_bytes,
        actuator,
        swappiness: Swappiness::DEFAULT,
        min_ttl_ms: 0,
        is_dry_run: false,
        is_exact: true,
        has_pageout: true,
        has_kernel: true,
        cpu_percent_max: None,
        nr_processors: 2,
    }
}

pub(crate) fn with(budget_bytes: u64, actuator: Actuator) -> Control {
    Control::new(setup(budget_bytes, actuator), &Config::default())
}

/// Takes in so much usage, and says what has to go, of which so much goes already.
fn ask(control: &mut Control, now: TimeMs, usage_bytes: u64, going_bytes: u64) -> Reclaim {
    control.take_usage(now, usage_bytes);
    control.reclaim(going_bytes)
}

/// What a tick decides that reads nothing but usage.
fn decide(
    control: &mut Control,
    now: TimeMs,
    usage_bytes: u64,
    nr_attempts: u64,
    freed_bytes: u64,
) -> Decision {
    let sample = Sample {
        now,
        usage_bytes,
        nr_attempts,
        freed_bytes,
        is_line_held: control.is_line_held,
        ..Sample::default()
    };
    control.tick(sample).decision
}

/// The programs fill both processors, and the line is held.
pub(super) fn saturate(control: &mut Control) {
    control.is_line_held = true;
    want_processors(control, 2);
}

/// So many threads of the program, and one of a neighbour beside a single one, want the two processors.
fn want_processors(control: &mut Control, nr_threads: i32) -> CpuState {
    for ms in (0..2000).step_by(50) {
        let threads = crate::cpu::Threads {
            wanted_ns: (1..=nr_threads).map(|id| (id, ms * 1_000_000)).collect(),
            processors: (0..2).collect(),
        };
        let sample = CpuSample {
            threads: Some([(crate::ProgramNo(0), threads)].into()),
            runnable: Some(crate::cpu::Runnable {
                nr_threads: 3,
                nr_own_threads: 1,
            }),
            clocks: None,
        };
        control.take_cpu(TimeMs(ms), sample);
    }
    control.cpu_state
}

#[test]
fn what_has_to_go_is_asked_of_one_in_steps_that_take_no_long() {
    let of = |actuator| {
        let mut control = with(320 * MIB, actuator);
        let reclaim = ask(&mut control, TimeMs(0), 400 * MIB, 0);
        (reclaim.pageout_pages, reclaim.kernel_bytes)
    };
    assert_eq!(
        of(Actuator::Auto),
        (Config::default().control.pageout_batch_pages, 0)
    );
    assert_eq!(
        of(Actuator::Pageout),
        (Config::default().control.pageout_batch_pages, 0)
    );
    assert_eq!(
        of(Actuator::Reclaim),
        (0, Config::default().control.reclaim_bytes_max)
    );
}

#[test]
fn programs_that_fill_all_processors_reclaim_for_themselves_within_the_budget() {
    let mut control = with(320 * MIB, Actuator::Auto);
    saturate(&mut control);
    let reclaim = ask(&mut control, TimeMs(2000), 317 * MIB, 0);
    assert_eq!((reclaim.pageout_pages, reclaim.kernel_bytes), (0, 0));
    let reclaim = ask(&mut control, TimeMs(2020), 322 * MIB, 0);
    assert!(
        reclaim.pageout_pages == 0 && reclaim.kernel_bytes > 0,
        "over the budget"
    );
}

#[test]
fn who_asked_for_one_gets_it_whoever_has_the_processors() {
    for (actuator, is_pageout) in [(Actuator::Pageout, true), (Actuator::Reclaim, false)] {
        let mut control = with(320 * MIB, actuator);
        saturate(&mut control);
        let reclaim = ask(&mut control, TimeMs(0), 319 * MIB, 0);
        assert_eq!(reclaim.pageout_pages > 0, is_pageout);
        assert_eq!(reclaim.kernel_bytes > 0, !is_pageout);
        assert!(!control.is_left_to_programs());
    }
}

#[test]
fn a_smaller_budget_is_reclaimed_to_at_once() {
    let mut control = with(320 * MIB, Actuator::Pageout);
    assert_eq!(ask(&mut control, TimeMs(0), 200 * MIB, 0).pageout_pages, 0);
    control.set_budget(160 * MIB);
    assert!(ask(&mut control, TimeMs(1000), 200 * MIB, 0).pageout_pages > 0);
}

#[test]
fn reclaim_begins_and_ends_within_what_is_said_to_be_held() {
    let budget = 320 * MIB;
    let held = crate::Held::of(budget, &crate::watermarks::Config::DEFAULT);
    // Growth as fast as can be: reclaim gets as far ahead as it may.
    let mut control = with(budget, Actuator::Pageout);
    ask(&mut control, TimeMs(0), 100 * MIB, 0);
    assert!(ask(&mut control, TimeMs(5), 316 * MIB, 0).pageout_pages > 0);
    let reclaim = ask(&mut control, TimeMs(6), held.least_bytes + MIB, 0);
    assert_eq!(
        reclaim.pageout_pages,
        MIB / PAGE_BYTES,
        "down to the least, no further"
    );
    assert_eq!(
        ask(&mut control, TimeMs(7), held.least_bytes, 0).pageout_pages,
        0
    );
    // No growth: between the marks, which lie between least and most.
    let marks = control.marks();
    assert!(held.least_bytes < marks.low_bytes && marks.high_bytes < held.most_bytes);
}

#[test]
fn it_is_left_to_the_programs_only_where_something_holds_usage() {
    for (is_line_held, min_ttl_ms, is_dry_run, is_left) in [
        (true, 0, false, true),
        (false, 0, false, false),
        (true, 1000, false, false),
        (true, 0, true, false),
    ] {
        let mut control = with(320 * MIB, Actuator::Auto);
        control.setup.min_ttl_ms = min_ttl_ms;
        control.set_dry_run(is_dry_run);
        saturate(&mut control);
        control.is_line_held = is_line_held;
        control.take_cpu(TimeMs(2000), CpuSample::default());
        assert_eq!(control.is_left_to_programs(), is_left);
    }
}

#[test]
fn the_time_left_to_programs_is_counted_while_somebody_looks() {
    let mut control = with(320 * MIB, Actuator::Auto);
    saturate(&mut control);
    control.take_cpu(TimeMs(1990), CpuSample::default());
    let before = control.left_to_programs_ms();
    assert!(before > 1000);
    control.rest(TimeMs(2000));
    control.take_cpu(TimeMs(9000), CpuSample::default());
    assert_eq!(control.left_to_programs_ms(), before, "nobody looked");
}

#[test]
fn a_kernel_that_finds_nothing_is_asked_ever_less_often_until_it_frees_something() {
    let mut control = with(320 * MIB, Actuator::Reclaim);
    assert!(control.may_ask_kernel(TimeMs(0)));
    control.hear(TimeMs(0), ActuatorReport::KernelFoundNothing);
    assert!(!control.may_ask_kernel(TimeMs(9)) && control.may_ask_kernel(TimeMs(10)));
    control.hear(TimeMs(10), ActuatorReport::KernelFoundNothing);
    assert!(!control.may_ask_kernel(TimeMs(29)));
    control.hear(TimeMs(29), ActuatorReport::KernelOutpaced);
    assert!(!control.may_ask_kernel(TimeMs(29)), "that proves nothing");
    control.hear(TimeMs(29), ActuatorReport::KernelFreed);
    assert!(control.may_ask_kernel(TimeMs(29)));
    control.set_dry_run(true);
    assert!(!control.may_ask_kernel(TimeMs(1000)));
}

#[test]
fn without_free_swap_only_file_pages_go_and_not_known_is_not_none() {
    let mut control = with(320 * MIB, Actuator::Auto);
    assert!(control.due(TimeMs(0), 0).free_swap);
    control.take_free_swap(TimeMs(0), FreeSwap::Bytes(63 * 4096));
    assert_eq!(control.swappiness().get(), 0);
    assert!(!control.due(TimeMs(49), 0).free_swap && control.due(TimeMs(50), 0).free_swap);
    control.take_free_swap(TimeMs(100), FreeSwap::NotKnown);
    assert_eq!(control.swappiness(), Swappiness::DEFAULT);
    // The kernel draws the line at 64 pages.
    control.take_free_swap(TimeMs(200), FreeSwap::Bytes(64 * 4096));
    assert_eq!(control.swappiness(), Swappiness::DEFAULT);
}

#[test]
fn the_kernel_does_the_work_while_a_program_is_out_of_pageouts_reach() {
    let mut control = with(320 * MIB, Actuator::Auto);
    assert!(control.set_out_of_reach(true));
    assert!(ask(&mut control, TimeMs(0), 316 * MIB, 0).kernel_bytes > 0);
    assert!(!control.set_out_of_reach(false));
    assert!(ask(&mut control, TimeMs(5), 316 * MIB, 0).pageout_pages > 0);
    let mut control = with(320 * MIB, Actuator::Pageout);
    assert!(!control.set_out_of_reach(true), "that was asked for");
    control.setup.has_kernel = false;
    assert!(!control.set_out_of_reach(true), "nobody can be asked");
}

/// Attempts that the kernel makes for Strata count as pageout's do.
#[test]
fn attempts_in_vain_become_rare_whoever_makes_them_and_a_dry_run_has_none() {
    for actuator in [Actuator::Pageout, Actuator::Reclaim] {
        for is_dry_run in [false, true] {
            let mut control = with(320 * MIB, actuator);
            control.set_dry_run(is_dry_run);
            for nr_attempts in 0..200 {
                decide(
                    &mut control,
                    TimeMs(nr_attempts * 10),
                    330 * MIB,
                    nr_attempts,
                    0,
                );
            }
            decide(&mut control, TimeMs(2300), 330 * MIB, 200, 0);
            let decision = decide(&mut control, TimeMs(2301), 330 * MIB, 200, 0);
            let is_more = |of: &Reclaim| of.pageout_pages > 0 || of.kernel_bytes > 0;
            assert!(is_more(&decision.asked));
            assert_eq!(is_more(&decision.reclaim()), is_dry_run);
            assert_eq!(decision.is_stalled, !is_dry_run);
            assert_eq!(decision.stall_pause_ms.is_some(), !is_dry_run);
            // Nothing has to go: nothing is in vain.
            let decision = decide(&mut control, TimeMs(2302), 300 * MIB, 200, 0);
            assert!(!decision.is_stalled && decision.stall_pause_ms.is_none());
        }
    }
}

#[test]
fn beside_a_busy_neighbour_programs_reclaim_for_themselves_if_a_line_holds_them() {
    let mut control = with(320 * MIB, Actuator::Auto);
    assert_eq!(want_processors(&mut control, 1), CpuState::Free, "no line");
    assert!(!control.is_left_to_programs());
    control.is_line_held = true;
    assert_eq!(want_processors(&mut control, 1), CpuState::Taken);
    assert!(control.is_left_to_programs());
}

/// Where nobody asked for exact choice.
fn by_amount(has_kernel: bool) -> Control {
    let setup = Setup {
        is_exact: false,
        has_kernel,
        ..with(320 * MIB, Actuator::Auto).setup
    };
    Control::new(setup, &Config::default())
}

#[test]
fn the_kernel_chooses_what_goes_ahead_of_the_limit_where_nobody_asked_for_exact_choice() {
    let mut control = by_amount(true);
    let reclaim = ask(&mut control, TimeMs(0), 316 * MIB, 0);
    assert!(reclaim.kernel_bytes > 0 && reclaim.pageout_pages == 0);
    assert!(control.is_by_amount() && !control.is_clearing_for_pageout());
    control.hear(TimeMs(1), ActuatorReport::KernelFoundNothing);
    assert_eq!(
        control.reclaimer(),
        Reclaimer::Kernel,
        "pageout would find no more"
    );
    saturate(&mut control);
    assert_eq!(control.reclaimer(), Reclaimer::Programs);
    assert!(control.is_by_amount());
    assert!(!with(320 * MIB, Actuator::Auto).is_by_amount());
}

#[test]
fn where_the_kernel_can_not_be_asked_pages_go_one_by_one() {
    let mut control = by_amount(false);
    assert!(ask(&mut control, TimeMs(0), 316 * MIB, 0).pageout_pages > 0);
    assert!(!control.is_by_amount() && control.is_clearing_for_pageout());
}

#[test]
fn pageout_may_take_a_whole_processor_where_nobody_else_is_to_reclaim() {
    let mut control = with(320 * MIB, Actuator::Auto);
    assert_eq!(control.pageout_percent_max(), 25);
    control.setup.has_kernel = false;
    assert_eq!(control.pageout_percent_max(), 100);
}

/// What is asked of page cache at the second of two ticks above the budget, once a census has found a file that lies idle and
/// a look has found files that are read in a loop.
fn asked_of_cache(control: &mut Control) -> Vec<Action> {
    let file = crate::sample::FileCache {
        file: crate::FileNo(7),
        cached_bytes: 90 * MIB,
        once_idle_bytes: 80 * MIB,
        again_idle_bytes: 0,
        reused_bytes: 0,
        dropped_bytes: 0,
        returned_bytes: 0,
    };
    let sample = |ms, found| Sample {
        now: TimeMs(ms),
        usage_bytes: 340 * MIB,
        cache: Some(crate::CacheLook {
            found,
            ..Default::default()
        }),
        ..Sample::default()
    };
    control.tick(sample(0, None));
    let found = crate::CacheSample {
        cpu_ns: 0,
        new_bytes: 0,
        files: vec![file],
    };
    let actions = control.tick(sample(100, Some(found))).actions.into_iter();
    let of_cache =
        actions.filter(|of| !matches!(of, Action::Reclaim { .. } | Action::PageOut { .. }));
    of_cache.collect()
}

#[test]
fn page_cache_is_dropped_in_a_run_that_began_dry_as_that_only_plays_it_and_in_no_other_dry_one() {
    let began_dry = |is_dry_run| {
        let setup = Setup {
            is_dry_run,
            ..with(320 * MIB, Actuator::Auto).setup
        };
        Control::new(setup, &Config::default())
    };
    let is_drop = |of: &Action| matches!(of, Action::DropReadOnce { file: 7, .. });
    let is_of_newcomers = |of: &Action| {
        matches!(
            of,
            Action::LookAtNewcomers { .. } | Action::DropNewcomers { .. }
        )
    };
    let asked = asked_of_cache(&mut began_dry(false));
    assert!(
        asked.iter().any(is_drop) && asked.iter().any(is_of_newcomers),
        "{asked:?}"
    );
    let asked = asked_of_cache(&mut began_dry(true));
    assert!(asked.iter().any(is_drop), "{asked:?}");
    assert!(!asked.iter().any(is_of_newcomers), "{asked:?}");
    let mut told_to = began_dry(false);
    told_to.set_dry_run(true);
    assert_eq!(asked_of_cache(&mut told_to), []);
}

#[test]
fn a_run_that_begins_dry_acts_once_it_is_told_to() {
    let setup = Setup {
        is_dry_run: true,
        ..with(320 * MIB, Actuator::Reclaim).setup
    };
    let mut control = Control::new(setup, &Config::default());
    assert!(control.is_dry_run() && !control.may_ask_kernel(TimeMs(0)));
    control.set_dry_run(false);
    assert!(!control.is_dry_run() && control.may_ask_kernel(TimeMs(0)));
}

#[test]
fn a_kernel_that_found_nothing_gives_the_turn_back_to_pageout() {
    let mut control = with(320 * MIB, Actuator::Auto);
    ask(&mut control, TimeMs(0), 319 * MIB, 0);
    ask(&mut control, TimeMs(50), 319 * MIB, 0);
    assert_eq!(control.reclaimer(), Reclaimer::Kernel);
    control.hear(TimeMs(51), ActuatorReport::KernelFoundNothing);
    assert_eq!(control.reclaimer(), Reclaimer::Pageout);
}

#[test]
fn bits_are_cleared_as_is_cheapest_only_where_pageout_chooses() {
    let is_for_pageout = |actuator| with(320 * MIB, actuator).is_clearing_for_pageout();
    assert!(is_for_pageout(Actuator::Pageout) && is_for_pageout(Actuator::Auto));
    assert!(!is_for_pageout(Actuator::Reclaim));
}
