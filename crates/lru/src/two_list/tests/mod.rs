//! Stories of single rules of the classic LRU, a file a stage.

mod balance;
mod model;

use super::*;
use crate::{
    bench_tests,
    config::Refault,
    folio::MAX_ORDER,
    ids::GenSeq,
    seam::{Cause, GenerationView},
};

/// An engine with one group.
type Bench = bench_tests::Bench<TwoList>;

impl Bench {
    fn new() -> Bench {
        Bench::with(Config::default())
    }

    fn with(config: Config) -> Bench {
        Bench::of(TwoList::new(config).unwrap())
    }

    /// Folios that were used and made active.
    fn active_many(&mut self, count: usize, kind: Kind) -> Vec<FolioId> {
        let folios = self.appear_many(count, kind, Cause::Fault);
        for folio in &folios {
            self.read(*folio, 2);
        }
        folios
    }

    /// Leaves without being asked to; what is remembered of it.
    fn reclaimed(&mut self, folio: FolioId) -> Shadow {
        self.engine.gone(folio, GoneCause::Reclaimed).unwrap()
    }

    fn sizes(&self) -> lruvec::Counts {
        self.engine.books.lruvecs[0].nr_pages
    }
}

#[test]
fn the_two_lists_are_shown_as_two_generations() {
    let mut bench = Bench::new();
    bench.appear_many(3, Kind::Anon, Cause::Fault);
    bench.active_many(2, Kind::File);
    let views = bench.engine.view(bench.group, TimeMs(5)).unwrap();
    let shown = |seq, nr_pages| GenerationView {
        seq: GenSeq(seq),
        age_ms: 5,
        nr_pages,
    };
    let inactive = shown(0, [Some(3), Some(0)]);
    assert_eq!(
        views[0].generations,
        [inactive, shown(1, [Some(0), Some(2)])]
    );
}

#[test]
fn a_folio_of_the_two_lists_costs_at_most_sixteen_bytes() {
    let mut bench = Bench::new();
    let empty = bench.engine.memory_bytes();
    bench.appear_many(100_000, Kind::File, Cause::Fault);
    let spent = bench.engine.memory_bytes() - empty;
    assert!(spent <= 16 * 100_000, "{spent} bytes");
}

#[test]
fn a_group_a_node_an_order_that_is_not_there_is_refused() {
    let mut bench = Bench::new();
    let nobody = GroupId(7);
    let arrival = Arrival {
        group: nobody,
        ..bench.arrival(Kind::Anon, Cause::Fault)
    };
    assert_eq!(
        bench.engine.appeared(arrival),
        Err(PolicyError::NoGroup(nobody))
    );
    assert!(bench.engine.view(GroupId(0), TimeMs(0)).is_err());
    let arrival = Arrival {
        order: Order(MAX_ORDER + 1),
        ..bench.arrival(Kind::Anon, Cause::Fault)
    };
    assert!(matches!(
        bench.engine.appeared(arrival),
        Err(PolicyError::OrderTooLarge { .. })
    ));
    bench.appear(Kind::Anon, Cause::Fault);
    let elsewhere = ReclaimRequest {
        node: Some(NodeId(3)),
        ..ReclaimRequest::new(bench.group, 1)
    };
    let end = bench.engine.isolate(elsewhere, TimeMs(0), &mut bench.batch);
    assert_eq!(end, Ok(Isolated::Empty));
}

#[test]
fn a_mechanism_that_can_not_look_deactivates_all() {
    let mut bench = Bench::new();
    let arrival = Arrival {
        is_exec: true,
        ..bench.arrival(Kind::File, Cause::Fault)
    };
    let folio = bench.engine.appeared(arrival).unwrap();
    bench.read(folio, 2);
    bench.isolate(1);
    bench.complete(Verdict::Evicted);
    assert_eq!(bench.engine.is_active(folio), Some(false));
}

#[test]
fn when_nothing_can_be_had_the_answer_is_empty_and_not_for_ever_again() {
    let mut bench = Bench::new();
    assert_eq!(bench.isolate(1), Isolated::Empty);
    bench.active_many(100, Kind::Anon);
    bench.appear_many(100, Kind::File, Cause::Fault);
    for nr_calls in 0.. {
        assert!(nr_calls < 1000, "no end");
        if bench.isolate_at(32, 12) == Isolated::Empty {
            break;
        }
        bench.complete(Verdict::Unevictable);
    }
}

fn with(refault: Refault) -> Bench {
    Bench::with(Config {
        refault,
        ..Config::default()
    })
}

#[test]
fn what_was_active_before_is_restored_and_charged_as_io() {
    let mut bench = with(Refault::Window);
    bench.active_many(200, Kind::File);
    let known = bench.appear(Kind::File, Cause::Fault);
    let flags = bench.engine.flags(known).with_workingset(true);
    bench.engine.books.folios.flags[known.index()] = flags;
    let shadow = bench.reclaimed(known);
    bench.refault(Kind::File, Cause::Fault, shadow);
    assert_eq!(bench.engine.books.lruvecs[0].cost, [0, 32]);
}

#[test]
fn by_distance_a_return_made_active_does_not_question_the_active_list() {
    for (refault, is_questioned) in [(Refault::Window, true), (Refault::Distance, false)] {
        let mut bench = with(refault);
        bench.active_many(20, Kind::File);
        bench.appear_many(40, Kind::File, Cause::Fault);
        let mut read_again = || {
            let folio = bench.appear(Kind::File, Cause::Fault);
            let shadow = bench.reclaimed(folio);
            let again = bench.refault(Kind::File, Cause::Read, shadow);
            bench.engine.is_active(again) == Some(true)
        };
        assert!((0..4).filter(|_| read_again()).count() > 0);
        let control = bench.engine.books.lruvecs[0].control(0, false, None);
        assert_eq!(control.may_deactivate[Kind::File.index()], is_questioned);
    }
}
