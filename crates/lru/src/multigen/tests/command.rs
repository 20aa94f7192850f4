//! The `lru_gen` commands, carried out.

use super::*;
use crate::lru_gen::Plan;
use crate::{
    lru_gen::{CommandError, Walked, commands, format_full},
    model::KernelModel,
    walk::TableId,
};

fn plan(bench: &Bench, text: &str) -> Result<Plan, CommandError> {
    let command = commands(text).next().unwrap()?;
    bench.engine.plan(command, bench.swappiness)
}

/// Carries a `-` command out; base pages freed.
fn evict(bench: &mut Bench, text: &str) -> Result<u64, CommandError> {
    let Plan::Evict(eviction) = plan(bench, text)? else {
        panic!("{text} is no eviction")
    };
    let mut nr_freed_pages = 0;
    while bench
        .engine
        .isolate_planned(&eviction, nr_freed_pages, &mut bench.batch)
    {
        nr_freed_pages += bench.batch.folios.len() as u64;
        bench.complete(Verdict::Evicted);
    }
    Ok(nr_freed_pages)
}

fn age(bench: &mut Bench, text: &str) -> Result<(), CommandError> {
    let Plan::Walk(walk) = plan(bench, text)? else {
        panic!("{text} is no walk")
    };
    bench.engine.finish_planned_walk(&walk, bench.now)
}

#[test]
fn plus_ages_once_for_any_generation_that_exists() {
    let mut bench = Bench::new();
    assert_eq!(age(&mut bench, "+ 1 0 3"), Ok(()));
    assert_eq!(age(&mut bench, "+ 1 0 0"), Ok(()));
    assert_eq!(bench.window().0, 5);
    assert_eq!(bench.stats().nr_ageing_runs, 2);
    let error = age(&mut bench, "+ 1 0 6").unwrap_err();
    assert_eq!(
        error,
        CommandError::Generation {
            seq: GenSeq(6),
            max_seq: GenSeq(5)
        }
    );
    assert_eq!(error.errno(), ("EINVAL", 22));
}

#[test]
fn plus_loses_to_a_walk_that_ended_first() {
    let mut bench = Bench::new();
    let Plan::Walk(walk) = plan(&bench, "+ 1 0 3").unwrap() else {
        panic!()
    };
    assert!(walk.is_scan_forced);
    bench.walk();
    let error = bench
        .engine
        .finish_planned_walk(&walk, bench.now)
        .unwrap_err();
    assert_eq!(error.errno(), ("EEXIST", 17));
    assert_eq!(bench.window().0, 4);
}

#[test]
fn minus_evicts_up_to_a_generation_and_no_further() {
    let mut bench = Bench::new();
    bench.appear_many(100, Kind::File, Cause::Read);
    bench.walk();
    bench.appear_many(10, Kind::File, Cause::Read);
    bench.walk();
    let kept = bench.appear_many(7, Kind::File, Cause::Fault);
    bench.walk();
    bench.walk();
    // Generation 4 holds the faulted, all the older ones are merged into 3.
    assert_eq!((bench.window(), bench.seq(kept[0])), ((7, [4, 4]), 4));
    assert_eq!(evict(&mut bench, "- 1 0 3"), Ok(0));
    assert_eq!(evict(&mut bench, "- 1 0 4 60 20"), Ok(20));
    assert_eq!(evict(&mut bench, "- 1 0 5"), Ok(97));
    assert_eq!(evict(&mut bench, "- 1 0 5"), Ok(0));
}

#[test]
fn minus_refuses_the_two_youngest_generations() {
    let mut bench = Bench::new();
    let error = evict(&mut bench, "- 1 0 2").unwrap_err();
    assert_eq!(
        error,
        CommandError::Generation {
            seq: GenSeq(2),
            max_seq: GenSeq(3)
        }
    );
    assert!(evict(&mut bench, "- 1 0 18446744073709551615").is_err());
    assert_eq!(evict(&mut bench, "- 1 0 1"), Ok(0));
}

#[test]
fn minus_does_not_mind_min_ttl() {
    let mut bench = Bench::with(Config {
        min_ttl_ms: 60_000,
        ..Config::default()
    });
    bench.appear_many(5, Kind::File, Cause::Read);
    assert_eq!(bench.isolate(5), Isolated::Thrashing);
    assert_eq!(evict(&mut bench, "- 1 0 0"), Ok(5));
}

#[test]
fn minus_ends_when_nothing_it_tries_leaves() {
    let mut bench = Bench::new();
    bench.appear_many(5, Kind::File, Cause::Read);
    let Plan::Evict(eviction) = plan(&bench, "- 1 0 1").unwrap() else {
        panic!()
    };
    let mut nr_batches = 0;
    while bench.engine.isolate_planned(&eviction, 0, &mut bench.batch) {
        bench.complete(Verdict::Busy);
        nr_batches += 1;
    }
    assert_eq!(nr_batches, 1);
}

#[test]
fn minus_sorts_its_way_through_more_than_one_budget_of_promoted_folios() {
    let mut bench = Bench::new();
    for folio in bench.appear_many(10_000, Kind::File, Cause::Read) {
        bench.young(folio);
        bench.young(folio);
    }
    bench.appear(Kind::File, Cause::Read);
    assert_eq!(evict(&mut bench, "- 1 0 0"), Ok(1));
}

#[test]
fn a_group_or_node_that_is_not_there_is_named() {
    let mut bench = Bench::new();
    assert_eq!(age(&mut bench, "+ 7 0 3"), Err(CommandError::NoGroup(7)));
    assert_eq!(age(&mut bench, "+ 0 0 3"), Err(CommandError::NoGroup(0)));
    assert_eq!(evict(&mut bench, "- 1 4 1"), Err(CommandError::NoNode(4)));
}

#[test]
fn up_to_613_plus_of_an_older_generation_does_nothing() {
    let mut bench = Bench::with(Config::of(KernelModel::V6_1));
    assert_eq!(plan(&bench, "+ 1 0 2"), Ok(Plan::Done));
    assert_eq!(age(&mut bench, "+ 1 0 3"), Ok(()));
    assert_eq!(plan(&bench, "+ 1 0 3"), Ok(Plan::Done));
    assert!(plan(&bench, "+ 1 0 5").is_err());
}

#[test]
fn up_to_613_plus_without_force_refuses_to_merge_a_generation() {
    let mut bench = Bench::with(Config::of(KernelModel::V6_1));
    let error = plan(&bench, "+ 1 0 3 60 0").unwrap_err();
    assert_eq!(
        (error, error.errno()),
        (CommandError::WindowFull, ("ERANGE", 34))
    );
    bench.appear(Kind::Anon, Cause::Fault);
    bench.isolate(1);
    assert_eq!(bench.window(), (3, [2, 2]));
    assert!(matches!(plan(&bench, "+ 1 0 3 60 0"), Ok(Plan::Walk(_))));
    let newer = Bench::new();
    assert!(matches!(plan(&newer, "+ 1 0 3 60 0"), Ok(Plan::Walk(_))));
}

#[test]
fn up_to_613_swappiness_ends_at_200() {
    let older = Bench::with(Config::of(KernelModel::V2022));
    for text in ["+ 1 0 3 201", "+ 1 0 3 max", "- 1 0 1 201"] {
        let error = plan(&older, text).unwrap_err();
        assert_eq!(
            (error, error.errno()),
            (CommandError::SwappinessTooNew, ("EINVAL", 22))
        );
        assert!(plan(&Bench::new(), text).is_ok(), "{text}");
    }
    assert!(plan(&older, "- 1 0 1 200").is_ok());
}

#[test]
fn the_full_text_tells_of_a_walk_that_leaves_nothing_out() {
    let mut bench = Bench::new();
    let (group, node) = (bench.group, NodeId(0));
    let line = |bench: &Bench| {
        let text = format_full(&bench.engine.full_view(group, bench.now).unwrap());
        text.lines().last().unwrap().trim_start().to_owned()
    };
    let walk = |bench: &mut Bench, young_of: [u32; 3]| {
        for (number, nr_young) in young_of.into_iter().enumerate() {
            let table = TableId(number as u64);
            let walked = Walked::Table {
                table,
                nr_entries: 512,
                nr_young,
            };
            bench.engine.walked(group, node, walked);
        }
        let huge = Walked::HugePage { is_young: true };
        bench.engine.walked(group, node, huge);
        bench.walk();
        line(bench)
    };
    // Two tables are dense, from one young entry in eight on; before them none was.
    let first = walk(&mut bench, [64, 63, 512]);
    assert_eq!(first, "1537T        640Y          0F          2A");
    // Those two are found again.
    let second = walk(&mut bench, [0, 0, 64]);
    assert_eq!(second, "1537T         65Y          2F          1A");
    let third = walk(&mut bench, [0, 0, 0]);
    assert_eq!(third, "1537T          1Y          1F          0A");
    // Nothing was read of it.
    bench.walk();
    assert_eq!(line(&bench), "0T          0Y          0F          0A");
    bench
        .engine
        .walked(GroupId(99), node, Walked::HugePage { is_young: true });
}

#[test]
fn the_full_text_shows_averages_with_the_youngest_and_the_period_with_the_oldest() {
    let mut bench = Bench::new();
    // Eight go and four of them, read twice before, come back; then a generation ends.
    for times in [1, 2] {
        let folios = bench.appear_many(4, Kind::File, Cause::Read);
        for folio in folios {
            bench.read(folio, times);
            let shadow = bench.engine.gone(folio, GoneCause::Reclaimed);
            if times == 2 {
                let back = bench.refault(Kind::File, Cause::Read, shadow.unwrap());
                bench.engine.gone(back, GoneCause::Freed);
            }
        }
    }
    bench.walk();
    let folio = bench.appear(Kind::File, Cause::Read);
    bench.engine.gone(folio, GoneCause::Reclaimed);
    bench.appear_many(5, Kind::Anon, Cause::Fault);
    bench.now = TimeMs(1234);
    let views = bench.engine.full_view(bench.group, bench.now).unwrap();
    let nothing = "          0x          0x          0x";
    let tier = |tier: u64, anon: &str, file: &str| format!("            {tier:10}{anon}{file}\n");
    let no_walk = format!("                      {nothing}          0x\n");
    let period = "          0r          0e          0p";
    let no_averages = "          0R          0T          0x";
    let mut expected = "memcg     1 /bench\n node     0\n".to_owned();
    expected += "          1       1234          0           0 \n";
    expected += &tier(0, period, "          0r          1e          0p");
    for n in 1..4 {
        expected += &tier(n, period, period);
    }
    expected += &no_walk;
    for (seq, nr_anon) in [(2, 0), (3, 5)] {
        expected += &format!("          {seq}       1234 {nr_anon:10}           0 \n");
        for n in 0..4 {
            expected += &tier(n, nothing, nothing);
        }
        expected += &no_walk;
    }
    expected += "          4        234          0           0 \n";
    expected += &tier(0, no_averages, "          0R          2T          0x");
    expected += &tier(1, no_averages, "          2R          2T          0x");
    for n in 2..4 {
        expected += &tier(n, no_averages, no_averages);
    }
    expected += "                                0T          0Y          0F          0A\n";
    assert_eq!(format_full(&views), expected);
}

#[test]
fn the_full_text_marks_what_a_window_has_moved_past() {
    let mut bench = Bench::new();
    bench.appear(Kind::File, Cause::Read);
    bench.appear(Kind::Anon, Cause::Fault);
    bench.swappiness = Swappiness::ANON_ONLY;
    bench.isolate(1);
    assert_eq!(bench.window(), (3, [2, 0]));
    let text = format_full(&bench.engine.full_view(bench.group, bench.now).unwrap());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2], "          0          0          0x          1 ");
    assert_eq!(lines[14], "          2          0          1           0 ");
}
