//! How much of which list is looked at.

use super::{
    lruvec::{Control, Demand, NodePages},
    *,
};
use crate::{
    books::{Account, Booked},
    group::Protection,
    list::ListId,
    seam::OnePass,
};

fn swappiness(value: u8) -> Swappiness {
    Swappiness::try_new(value).unwrap()
}

/// Lists of these sizes, by half and kind.
fn lists(nr_pages: lruvec::Counts) -> Lruvec {
    let account = Account::new(GroupId(1), NodeId(0), ListId(0));
    let mut lruvec = Lruvec::new(account, (), TimeMs(0));
    lruvec.nr_pages = nr_pages;
    lruvec
}

fn demand(swappiness: Swappiness, priority: u8) -> Demand {
    Demand {
        swappiness,
        priority,
        one_pass: None,
        is_offline: false,
    }
}

const NO_TRIM: Control = Control {
    may_deactivate: [true; 2],
    is_cache_enough: false,
    is_cache_tiny: false,
};

#[test]
fn the_inactive_list_is_low_by_the_root_of_ten_times_the_gibibytes() {
    // Below a GiB as many, at 1 GiB sqrt(10) = 3 times, at 10 GiB 10 times, at 100 GiB 31 times.
    for (nr_gib_tenths, ratio) in [(1, 1), (9, 1), (10, 3), (100, 10), (1000, 31)] {
        let nr_pages = (1u64 << 18) * nr_gib_tenths / 10;
        let inactive = nr_pages / (ratio + 1) + 1;
        let mut lruvec = lists([[inactive, 0], [nr_pages - inactive, 0]]);
        assert!(!lruvec.is_inactive_low(Kind::Anon), "{nr_gib_tenths}");
        lruvec.nr_pages = [[inactive - 2, 0], [nr_pages - inactive + 2, 0]];
        assert!(lruvec.is_inactive_low(Kind::Anon), "{nr_gib_tenths}");
    }
}

#[test]
fn nothing_is_deactivated_while_the_inactive_list_is_long_and_nothing_comes_back() {
    let lruvec = lists([[100, 100], [100, 100]]);
    assert_eq!(lruvec.control(0, false, None).may_deactivate, [false; 2]);
    assert_eq!(lruvec.control(0, true, None).may_deactivate, [true; 2]);
    let lruvec = lists([[100, 100], [101, 100]]);
    assert_eq!(lruvec.control(0, false, None).may_deactivate, [true, false]);
}

#[test]
fn a_refault_that_was_activated_questions_the_active_list_until_the_run_ends() {
    let mut lruvec = lists([[100, 100], [100, 100]]);
    lruvec.nr_activated_refault_pages[Kind::File.index()] += 1;
    assert_eq!(lruvec.control(0, false, None).may_deactivate, [false, true]);
    lruvec.see_refaults();
    assert_eq!(lruvec.control(0, false, None).may_deactivate, [false; 2]);
}

#[test]
fn with_cold_cache_enough_anon_is_left_alone() {
    let lruvec = lists([[5000, 4096], [5000, 4000]]);
    let control = lruvec.control(12, false, None);
    assert!(control.is_cache_enough);
    let counts = lruvec.scan_counts(control, demand(Swappiness::DEFAULT, 12));
    assert_eq!(counts, [[0, 1], [0, 0]]);
    // One page less and there is none to be found at this priority, or its own list is questioned.
    assert!(
        !lists([[5000, 4095], [5000, 4000]])
            .control(12, false, None)
            .is_cache_enough
    );
    assert!(
        !lists([[5000, 4096], [5000, 4097]])
            .control(12, false, None)
            .is_cache_enough
    );
}

#[test]
fn when_all_of_the_page_cache_would_not_do_anon_is_taken_instead() {
    let lruvec = lists([[8192, 40], [4000, 20]]);
    let node = NodePages {
        nr_file: 60,
        nr_inactive_anon: 8192,
        nr_short: 60,
    };
    let control = |node| lruvec.control(12, false, Some(node));
    let counts = |node| lruvec.scan_counts(control(node), demand(Swappiness::DEFAULT, 12));
    assert_eq!(counts(node), [[2, 0], [0, 0]]);
    // One page more would do; no anon to be found at this priority.
    for (nr_file, nr_inactive_anon) in [(61, 8192), (60, 4095)] {
        let other = NodePages {
            nr_file,
            nr_inactive_anon,
            ..node
        };
        assert!(!control(other).is_cache_tiny, "{other:?}");
    }
    assert!(
        !lruvec.control(12, false, None).is_cache_tiny,
        "a group alone"
    );
    // Where anon is questioned itself, and at the last priority, it is not spared for.
    let short = lists([[8192, 40], [8193, 20]]);
    assert!(!short.control(12, false, Some(node)).is_cache_tiny);
    let all = lruvec.scan_counts(control(node), demand(Swappiness::DEFAULT, 0));
    assert_eq!(all, [[8192, 40], [4000, 20]]);
}

#[test]
fn what_is_protected_is_looked_at_less() {
    let lruvec = lists([[4096, 4096], [0, 0]]);
    let counts = |low_pages, is_low_ignored| {
        let one_pass = OnePass {
            anon_nodes: None,
            protection: Protection {
                usage_pages: 8191,
                low_pages,
                ..Protection::default()
            },
            is_low_ignored,
            nr_short_pages: None,
        };
        let demand = Demand {
            one_pass: Some(one_pass),
            ..demand(Swappiness::DEFAULT, 0)
        };
        lruvec.scan_counts(NO_TRIM, demand)
    };
    assert_eq!(counts(0, false), [[4096, 4096], [0, 0]]);
    assert_eq!(counts(6144, false), [[1024, 1024], [32, 32]]);
    assert_eq!(counts(6144, true), [[4096, 4096], [0, 0]]);
}

#[test]
fn a_removed_group_is_looked_at_to_its_last_page() {
    let lruvec = lists([[20, 5], [0, 40]]);
    let counts = |is_offline| {
        let demand = Demand {
            is_offline,
            ..demand(Swappiness::DEFAULT, 12)
        };
        lruvec.scan_counts(NO_TRIM, demand)
    };
    assert_eq!(counts(false), [[0, 0], [0, 0]]);
    // Shares of 60 and 140 of 200, rounded up.
    assert_eq!(counts(true), [[6, 4], [0, 23]]);
}

#[test]
fn the_ends_of_swappiness_leave_one_kind_alone() {
    let lruvec = lists([[100, 200], [300, 400]]);
    let counts = |value, priority| lruvec.scan_counts(NO_TRIM, demand(swappiness(value), priority));
    assert_eq!(counts(0, 0), [[0, 200], [0, 400]]);
    assert_eq!(counts(0, 1), [[0, 100], [0, 200]]);
    assert_eq!(counts(201, 1), [[50, 0], [150, 0]]);
    assert_eq!(counts(200, 1), [[50, 0], [150, 0]]);
}

#[test]
fn the_last_priority_looks_at_all_of_both_kinds() {
    let lruvec = lists([[100, 200], [300, 400]]);
    let counts = lruvec.scan_counts(NO_TRIM, demand(swappiness(60), 0));
    assert_eq!(counts, lruvec.nr_pages);
}

#[test]
fn without_costs_the_kinds_share_by_swappiness() {
    let lruvec = lists([[2000, 2000], [2000, 2000]]);
    let counts = lruvec.scan_counts(NO_TRIM, demand(swappiness(60), 1));
    // 60 to 140 of 200.
    assert_eq!(counts, [[300, 700], [300, 700]]);
}

#[test]
fn the_kind_that_costs_more_is_looked_at_less() {
    let mut lruvec = lists([[20_000, 20_000], [20_000, 20_000]]);
    lruvec.cost = [1000, 0];
    // a' = 2000, f' = 1000: 100 * 3001 / 2001 = 149, 100 * 3001 / 1001 = 299.
    let counts = lruvec.scan_counts(NO_TRIM, demand(swappiness(100), 1));
    assert_eq!(counts[0], [10_000 * 149 / 448, 10_000 * 299 / 448]);
}

#[test]
fn io_costs_as_much_as_thirty_two_pages_in_vain_and_the_past_is_halved() {
    let mut lruvec = lists([[20_000, 20_000], [0, 0]]);
    lruvec.note_cost(Kind::Anon, 10, 5);
    assert_eq!(lruvec.cost, [325, 0]);
    lruvec.note_cost(Kind::File, 0, 9675);
    assert_eq!(lruvec.cost, [325, 9675]);
    // One more is over a quarter of 40,000.
    lruvec.note_cost(Kind::Anon, 0, 1);
    assert_eq!(lruvec.cost, [163, 4837]);
}

#[test]
fn a_batch_takes_from_one_list_at_most_thirty_two_pages() {
    let mut bench = Bench::new();
    bench.swappiness = swappiness(100);
    bench.appear_many(1000, Kind::Anon, Cause::Fault);
    bench.appear_many(1000, Kind::File, Cause::Fault);
    assert_eq!(bench.isolate_at(1000, 1), Isolated::Pages(32));
    assert_eq!(bench.engine.kind(bench.batch.folios[0]), Kind::File);
    bench.complete(Verdict::Evicted);
}

#[test]
fn more_desperate_means_more_pages_until_the_goal_is_met() {
    let mut bench = Bench::new();
    bench.appear_many(8192, Kind::File, Cause::Fault);
    // At 12 two pages, at 11 four, at 10 eight, at 9 sixteen: thirty in all, then 32 of 32 at 8.
    let mut sizes = Vec::new();
    while bench.stats().nr_evicted_pages[1] < 32 {
        match bench.isolate_at(32, 12) {
            Isolated::Pages(nr_pages) => sizes.push(nr_pages),
            end => panic!("{end:?}"),
        }
        bench.complete(Verdict::Evicted);
    }
    assert_eq!(sizes[..4], [2, 3, 7, 15]);
    // The goal is met: the next request starts relaxed.
    assert_eq!(bench.isolate_at(32, 12), Isolated::Pages(1));
    bench.complete(Verdict::Evicted);
}

#[test]
fn when_the_goal_is_met_the_kind_left_is_taken_in_the_same_proportion() {
    let mut bench = Bench::new();
    bench.swappiness = swappiness(100);
    bench.appear_many(2000, Kind::Anon, Cause::Fault);
    bench.active_many(402, Kind::File);
    bench.appear_many(400, Kind::File, Cause::Fault);
    // Half of a half: 500 anon, 100 and 100 file. After one round the goal of 40 is met, 32 percent
    // of file is done; so of anon 33 percent in all, 133 pages more, are taken, and file rests.
    let mut taken = Vec::new();
    for _ in 0..8 {
        if let Isolated::Pages(nr_pages) = bench.isolate_at(40, 1) {
            taken.push((bench.engine.kind(bench.batch.folios[0]), nr_pages));
        }
        bench.complete(Verdict::Evicted);
    }
    let round = [(Kind::Anon, 32), (Kind::File, 32)];
    let rest = [32, 32, 32, 32, 5].map(|nr_pages| (Kind::Anon, nr_pages));
    assert_eq!(taken, [&round[..], &rest[..]].concat());
}

#[test]
fn anon_is_deactivated_ahead_of_need_when_its_inactive_list_is_short() {
    let mut bench = Bench::new();
    bench.active_many(100, Kind::Anon);
    bench.appear_many(5000, Kind::File, Cause::Fault);
    // There is cold cache enough, so anon is not looked at; its lists are put in order all the same.
    assert_eq!(bench.isolate_at(1, 12), Isolated::Pages(1));
    bench.complete(Verdict::NotTried);
    assert_eq!(bench.isolate_at(1, 12), Isolated::Again);
    assert_eq!(bench.batch.to_check.len(), 32);
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.sizes()[0], [32, 5000]);
}
