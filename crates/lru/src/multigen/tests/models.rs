//! What kernels do differently, a story a rule.

use super::*;
use crate::model::KernelModel;

fn bench(kernel: KernelModel) -> Bench {
    Bench::with(Config::of(kernel))
}

fn bench_by(rules: &str) -> Bench {
    Bench::with(Config {
        rules: rules.parse().unwrap(),
        ..Config::default()
    })
}

#[test]
fn each_kernel_has_its_own_place_for_what_is_faulted_fresh_and_read() {
    // Anon faulted, file faulted, shmem read, file read, anon read ahead; workingset of file read and faulted; window 0..=3.
    for (kernel, expected) in [
        (KernelModel::V2021, [3, 3, 0, 0, 0, 0, 3]),
        (KernelModel::V2022, [3, 3, 1, 0, 0, 0, 3]),
        (KernelModel::V6_1, [3, 3, 2, 1, 1, 1, 3]),
        (KernelModel::V6_14, [2, 2, 2, 0, 0, 1, 3]),
        (KernelModel::V7_2, [2, 0, 2, 0, 0, 1, 3]),
    ] {
        let mut bench = bench(kernel);
        let known = bench.appear(Kind::File, Cause::Read);
        bench.read(known, 5);
        let shadow = bench.engine.gone(known, GoneCause::Reclaimed).unwrap();
        let folios = [
            bench.appear(Kind::Anon, Cause::Fault),
            bench.appear(Kind::File, Cause::Fault),
            bench.appear(Kind::Anon, Cause::Read),
            bench.appear(Kind::File, Cause::Read),
            bench.appear(Kind::Anon, Cause::Prefetch),
            bench.refault(Kind::File, Cause::Read, shadow),
            bench.refault(Kind::File, Cause::Fault, shadow),
        ];
        assert_eq!(folios.map(|folio| bench.seq(folio)), expected, "{kernel}");
    }
}

/// A window 3..=5 (only anon may be evicted) holding so many folios from old to young.
fn sized(kernel: KernelModel, sizes: [usize; 3]) -> Bench {
    let mut bench = bench_by(&format!("{kernel},placement=v6.1"));
    bench.swappiness = Swappiness::ANON_ONLY;
    for (round, size) in sizes.into_iter().enumerate() {
        bench.appear_many(size, Kind::Anon, Cause::Fault);
        if round < 2 {
            bench.walk();
        }
    }
    bench.engine.try_to_inc_min_seq(0, bench.swappiness);
    assert_eq!((bench.window().0, bench.window().1[0]), (5, 3));
    bench
}

#[test]
fn up_to_613_a_walk_is_due_by_the_sizes_of_generations() {
    for (sizes, expected) in [
        // Youngest a third, oldest a third: as it should be.
        ([40, 40, 40], Ageing::NotDue),
        ([30, 30, 60], Ageing::NotDue),
        ([30, 29, 60], Ageing::Preferred),
        ([30, 60, 30], Ageing::NotDue),
        ([29, 61, 30], Ageing::Preferred),
    ] {
        for kernel in [KernelModel::V2022, KernelModel::V6_1] {
            let bench = sized(kernel, sizes);
            let due = bench.engine.ageing(bench.group, bench.swappiness);
            assert_eq!(due, Ok(expected), "{kernel} {sizes:?}");
        }
        let newer = sized(KernelModel::V6_14, sizes);
        let due = newer.engine.ageing(newer.group, newer.swappiness);
        assert_eq!(due, Ok(Ageing::Preferred));
    }
}

#[test]
fn by_2021_a_walk_is_due_only_when_both_kinds_have_two_generations_left() {
    let mut bench = sized(KernelModel::V2021, [1, 1, 60]);
    let due = |bench: &Bench| bench.engine.ageing(bench.group, bench.swappiness);
    assert_eq!(due(&bench), Ok(Ageing::NotDue));
    assert_eq!(bench.isolate(9), Isolated::Pages(1));
    assert_eq!(due(&bench), Ok(Ageing::Due));
    // File is still two generations behind.
    bench.swappiness = Swappiness::DEFAULT;
    assert_eq!(due(&bench), Ok(Ageing::NotDue));
}

#[test]
fn up_to_613_no_kind_drops_a_generation_before_the_other_can() {
    for (kernel, nr_dropped) in [
        (KernelModel::V2021, 2),
        (KernelModel::V2022, 0),
        (KernelModel::V6_1, 0),
        (KernelModel::V6_14, 1),
    ] {
        for (held, cause) in [(Kind::File, Cause::Read), (Kind::Anon, Cause::Prefetch)] {
            let mut bench = bench_by(&format!("{kernel},placement=v6.14"));
            bench.appear_many(2, held, cause);
            assert_eq!(bench.isolate(1), Isolated::Pages(1));
            let mut oldest = [0; 2];
            oldest[held.other().index()] = nr_dropped;
            assert_eq!(bench.window(), (3, oldest), "{kernel} {held}");
        }
    }
}

#[test]
fn up_to_61_a_full_count_spares_nothing_and_since_it_spares_and_is_counted() {
    // Total of tier 3 in the averages once the generation has gone: counted as protected or not.
    for (kernel, nr_taken, nr_counted) in [
        (KernelModel::V2022, 2, 0),
        (KernelModel::V6_1, 1, 1),
        (KernelModel::V6_14, 1, 0),
    ] {
        let mut bench = bench_by(&format!("{kernel},placement=v6.14"));
        let folios = bench.appear_many(4, Kind::File, Cause::Read);
        bench.read(folios[0], 5);
        bench.read(folios[1], 4);
        assert_eq!(bench.isolate(2), Isolated::Pages(2));
        let is_spared = !bench.batch.folios.contains(&folios[0]);
        assert_eq!(2 - u64::from(is_spared), nr_taken, "{kernel}");
        let protected = bench.engine.books.lruvecs[0]
            .controller
            .protected_of(Kind::File);
        assert_eq!(protected, [0, 0, 0, nr_counted, 0], "{kernel}");
    }
}

#[test]
fn up_to_613_what_is_spared_goes_to_the_old_end_and_a_merge_counts_nothing() {
    for (kernel, is_old_end) in [(KernelModel::V6_1, true), (KernelModel::V6_14, false)] {
        let mut bench = bench_by(&format!("{kernel},placement=v6.14"));
        let spared = bench.appear(Kind::File, Cause::Read);
        let others = bench.appear_many(2, Kind::File, Cause::Read);
        bench.walk();
        // By 6.14 the three were counted by the merge, and half of that is kept.
        let merged = bench.engine.books.lruvecs[0]
            .controller
            .average_total(Kind::File);
        assert_eq!(merged[0], u64::from(!is_old_end), "{kernel}");
        for other in others {
            bench.engine.gone(other, GoneCause::Freed);
        }
        let next = bench.appear(Kind::File, Cause::Read);
        assert_eq!((bench.seq(spared), bench.seq(next)), (1, 1));
        bench.read(spared, 5);
        bench.read(next, 5);
        // Both are spared, the older first, and then due again in the order of their list.
        bench.isolate(1);
        let first = if is_old_end { next } else { spared };
        assert_eq!(bench.batch.folios, [first], "{kernel}");
    }
}

#[test]
fn up_to_71_a_folio_that_waits_to_be_written_is_stepped_over_and_leaves_first_once_written() {
    for kernel in [KernelModel::V2022, KernelModel::V6_1, KernelModel::V6_14] {
        let mut bench = bench_by(&format!("{kernel},placement=v6.14"));
        let folios = bench.appear_many(3, Kind::File, Cause::Read);
        bench.engine.set_write_state(folios[0], WriteState::Waiting);
        assert_eq!(bench.isolate(1), Isolated::Pages(1));
        assert_eq!(bench.batch.folios, [folios[1]]);
        bench.complete(Verdict::Evicted);
        assert_eq!(bench.seq(folios[0]), 1, "{kernel}");
        assert_eq!(by_kind(bench.stats().nr_protected_pages), [0, 0]);
        bench.engine.set_write_state(folios[0], WriteState::Clean);
        assert_eq!(bench.seq(folios[0]), 0, "{kernel}");
        assert_eq!(bench.isolate(2), Isolated::Pages(2));
        assert_eq!(bench.batch.folios, [folios[0], folios[2]]);
    }
}

#[test]
fn by_72_one_kind_is_kept_to_except_in_despair() {
    for (priority, end) in [(12, Isolated::NeedsAgeing), (0, Isolated::Pages(1))] {
        let mut bench = bench(KernelModel::V7_2);
        bench.appear(Kind::File, Cause::Read);
        // Of anon there is something, but nothing old.
        bench.appear(Kind::Anon, Cause::Fault);
        bench.swappiness = Swappiness::try_new(200).unwrap();
        assert_eq!(bench.isolate_at(1, priority), end, "priority {priority}");
    }
    let mut no_anon = bench(KernelModel::V7_2);
    no_anon.appear(Kind::File, Cause::Read);
    no_anon.swappiness = Swappiness::try_new(200).unwrap();
    assert_eq!(no_anon.isolate_at(1, 12), Isolated::Pages(1));
}

#[test]
fn the_window_holds_as_many_generations_as_it_is_given_room_for() {
    for nr_gens in [4, 5, 9, 16] {
        let mut bench = bench_by(&format!("v6.14,nr_gens={nr_gens}"));
        assert_eq!(bench.window(), (nr_gens - 1, [0, 0]));
        let oldest = bench.appear(Kind::File, Cause::Read);
        let faulted = bench.appear(Kind::File, Cause::Fault);
        assert_eq!((bench.seq(oldest), bench.seq(faulted)), (0, nr_gens - 2));
        for walks in 1..3 * nr_gens {
            bench.walk();
            assert_eq!(bench.window(), (nr_gens - 1 + walks, [walks, walks]));
        }
        let shadow = bench.engine.gone(oldest, GoneCause::Reclaimed).unwrap();
        bench.refault(Kind::File, Cause::Read, shadow);
        assert_eq!(by_kind(bench.stats().nr_refaulted_recent_pages), [0, 1]);
    }
}

#[test]
fn with_one_tier_nothing_is_spared_and_with_five_nine_reads_are_told_from_five() {
    let mut one = bench_by("v6.14,nr_tiers=1");
    let folio = one.appear(Kind::File, Cause::Read);
    one.appear(Kind::File, Cause::Read);
    one.read(folio, 20);
    assert_eq!(one.engine.tier(folio), 0);
    one.isolate(1);
    assert_eq!(one.batch.folios, [folio]);

    for rules in ["v6.14,nr_tiers=5", "v6.1,nr_tiers=5"] {
        let mut five = bench_by(rules);
        let folio = five.appear(Kind::File, Cause::Read);
        five.read(folio, 5);
        assert_eq!(five.engine.tier(folio), 3);
        five.read(folio, 4);
        assert_eq!(five.engine.tier(folio), 4);
        five.engine.validate().unwrap();
    }
}

#[test]
fn up_to_613_min_ttl_looks_at_the_oldest_file_generation_and_only_under_pressure() {
    let config = Config {
        min_ttl_ms: 1000,
        ..Config::of(KernelModel::V6_1)
    };
    let mut bench = Bench::with(config);
    bench.appear(Kind::File, Cause::Read);
    bench.now = TimeMs(500);
    assert_eq!(bench.isolate_at(1, 11), Isolated::Thrashing);
    assert_eq!(bench.isolate_at(1, 12), Isolated::Pages(1));
}

#[test]
fn up_to_613_min_ttl_does_not_look_at_anon_however_old() {
    let mut bench = Bench::with(Config {
        min_ttl_ms: 1000,
        ..Config::of(KernelModel::V6_1)
    });
    bench.appear(Kind::Anon, Cause::Fault);
    // Generations 4 and 5 are born at 1000 and 2000 ms.
    bench.walk();
    bench.walk();
    bench.appear(Kind::File, Cause::Fault);
    // Anon is forbidden, so its window stays behind that of the file.
    bench.swappiness = Swappiness::FILE_ONLY;
    bench.isolate_at(1, 12);
    assert_eq!(bench.window(), (5, [2, 4]));
    bench.swappiness = Swappiness::DEFAULT;
    assert_eq!(bench.isolate_at(1, 11), Isolated::Thrashing);
    bench.now = TimeMs(2001);
    assert_ne!(bench.isolate_at(1, 11), Isolated::Thrashing);
}
