//! The `lru_gen` commands, carried out.

use super::*;
use crate::lru_gen::{CommandError, commands, format_plain};

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
fn a_view_prints_as_the_kernel_prints_it() {
    let mut bench = Bench::new();
    bench.appear_many(3, Kind::Anon, Cause::Fault);
    bench.appear_many(2, Kind::File, Cause::Read);
    bench.now = TimeMs(1234);
    let text = format_plain(&bench.engine.view(bench.group, bench.now).unwrap());
    assert_eq!(
        text,
        concat!(
            "memcg     1 /bench\n",
            " node     0\n",
            "          0       1234          0           2 \n",
            "          1       1234          0           0 \n",
            "          2       1234          3           0 \n",
            "          3       1234          0           0 \n",
        )
    );
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
fn minus_takes_only_the_kinds_its_swappiness_allows() {
    let mut bench = Bench::new();
    bench.appear_many(5, Kind::File, Cause::Read);
    bench.appear_many(3, Kind::Anon, Cause::Prefetch);
    assert_eq!(evict(&mut bench, "- 1 0 0 max"), Ok(3));
    assert_eq!(evict(&mut bench, "- 1 0 0 0"), Ok(5));
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
