//! Stories of single rules of the classic LRU, a file a stage.

mod access;
mod against_model;
mod balance;
mod reclaim;
mod workingset;

use super::*;
use crate::{
    folio::MAX_ORDER,
    ids::GenSeq,
    seam::{Ageing, Cause, GenerationView, by_kind},
};

/// An engine with one group, and short words for what happens to it.
struct Bench {
    engine: TwoList,
    group: GroupId,
    swappiness: Swappiness,
    batch: EvictBatch,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Config::default())
    }

    fn with(config: Config) -> Bench {
        let mut engine = TwoList::new(config).unwrap();
        let group = engine.add_group("/bench", TimeMs(0)).unwrap();
        Bench {
            engine,
            group,
            swappiness: Swappiness::DEFAULT,
            batch: EvictBatch::default(),
        }
    }

    fn arrival(&self, kind: Kind) -> Arrival {
        Arrival {
            group: self.group,
            node: NodeId(0),
            kind,
            order: Order::BASE,
            cause: Cause::Fault,
            shadow: None,
            is_exec: false,
        }
    }

    fn appear(&mut self, kind: Kind) -> FolioId {
        self.engine.appeared(self.arrival(kind)).unwrap()
    }

    fn appear_many(&mut self, count: usize, kind: Kind) -> Vec<FolioId> {
        (0..count).map(|_| self.appear(kind)).collect()
    }

    /// Folios that were used and made active.
    fn active_many(&mut self, count: usize, kind: Kind) -> Vec<FolioId> {
        let folios = self.appear_many(count, kind);
        for folio in &folios {
            self.read(*folio, 2);
        }
        folios
    }

    fn exec(&mut self) -> FolioId {
        let arrival = Arrival {
            is_exec: true,
            ..self.arrival(Kind::File)
        };
        self.engine.appeared(arrival).unwrap()
    }

    fn refault(&mut self, kind: Kind, shadow: Shadow) -> FolioId {
        let arrival = Arrival {
            shadow: Some(shadow),
            ..self.arrival(kind)
        };
        let folio = self.engine.appeared(arrival).unwrap();
        self.engine.validate().unwrap();
        folio
    }

    fn young(&mut self, folio: FolioId) {
        self.engine.accessed(folio, AccessVia::PageTable);
    }

    fn read(&mut self, folio: FolioId, times: usize) {
        for _ in 0..times {
            self.engine.accessed(folio, AccessVia::FileDescriptor);
        }
    }

    /// Leaves without being asked to; what is remembered of it.
    fn reclaimed(&mut self, folio: FolioId) -> Shadow {
        self.engine.gone(folio, GoneCause::Reclaimed).unwrap()
    }

    fn isolate_at(&mut self, nr_pages: u64, priority: u8) -> Isolated {
        let request = ReclaimRequest {
            swappiness: self.swappiness,
            priority,
            ..ReclaimRequest::new(self.group, nr_pages)
        };
        let end = self
            .engine
            .isolate(request, TimeMs(0), &mut self.batch)
            .unwrap();
        self.engine.validate().unwrap();
        end
    }

    /// Desperate, so that lists of any size are looked at whole.
    fn isolate(&mut self, nr_pages: u64) -> Isolated {
        self.isolate_at(nr_pages, 0)
    }

    fn complete(&mut self, verdict: Verdict) -> Vec<Option<Shadow>> {
        let verdicts = vec![verdict; self.batch.folios.len()];
        self.engine.complete(&mut self.batch, &verdicts);
        self.engine.validate().unwrap();
        self.batch.shadows.clone()
    }

    /// Answers batches until folios of the inactive lists are handed out.
    fn isolate_some(&mut self, nr_pages: u64) -> Isolated {
        loop {
            let end = self.isolate(nr_pages);
            if end != Isolated::Again || self.batch.is_empty() {
                return end;
            }
            self.complete(Verdict::Evicted);
        }
    }

    /// Takes one step on a folio of an inactive list: tried, with this outcome.
    fn tried(&mut self, folio: FolioId, verdict: Verdict) {
        assert!(matches!(self.isolate_some(1), Isolated::Pages(_)));
        assert_eq!(self.batch.folios, [folio]);
        self.complete(verdict);
    }

    fn sizes(&self) -> lruvec::Counts {
        self.engine.books.lruvecs[0].nr_pages
    }

    fn stats(&self) -> ReclaimStats {
        self.engine.stats(self.group).unwrap()
    }

    fn own_stats(&self) -> TwoListStats {
        self.engine.own_stats(self.group).unwrap()
    }
}

#[test]
fn the_two_lists_are_shown_as_two_generations() {
    let mut bench = Bench::new();
    bench.appear_many(3, Kind::Anon);
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
fn no_walk_is_ever_due_and_none_changes_anything() {
    let mut bench = Bench::new();
    bench.appear_many(10, Kind::Anon);
    let (group, swappiness) = (bench.group, bench.swappiness);
    assert_eq!(bench.engine.ageing(group, swappiness), Ok(Ageing::NotDue));
    let before = bench.sizes();
    bench
        .engine
        .finish_walk(group, swappiness, TimeMs(1))
        .unwrap();
    assert_eq!(
        (bench.sizes(), bench.stats()),
        (before, ReclaimStats::default())
    );
}

#[test]
fn a_folio_of_the_two_lists_costs_at_most_sixteen_bytes() {
    let mut bench = Bench::new();
    let empty = bench.engine.memory_bytes();
    bench.appear_many(100_000, Kind::File);
    let spent = bench.engine.memory_bytes() - empty;
    assert!(spent <= 16 * 100_000, "{spent} bytes");
}

#[test]
fn a_group_a_node_an_order_that_is_not_there_is_refused() {
    let mut bench = Bench::new();
    let nobody = GroupId(7);
    let arrival = Arrival {
        group: nobody,
        ..bench.arrival(Kind::Anon)
    };
    assert_eq!(
        bench.engine.appeared(arrival),
        Err(PolicyError::NoGroup(nobody))
    );
    assert!(bench.engine.view(GroupId(0), TimeMs(0)).is_err());
    let arrival = Arrival {
        order: Order(MAX_ORDER + 1),
        ..bench.arrival(Kind::Anon)
    };
    assert!(matches!(
        bench.engine.appeared(arrival),
        Err(PolicyError::OrderTooLarge { .. })
    ));
    bench.appear(Kind::Anon);
    let elsewhere = ReclaimRequest {
        node: Some(NodeId(3)),
        ..ReclaimRequest::new(bench.group, 1)
    };
    let end = bench.engine.isolate(elsewhere, TimeMs(0), &mut bench.batch);
    assert_eq!(end, Ok(Isolated::Empty));
}
