//! Stories of single rules, in the order of a page's life.

use super::*;
use crate::seam::Cause;

/// An engine with one group, and short words for what happens to it.
struct Bench {
    engine: MultiGen,
    group: GroupId,
    now: TimeMs,
    swappiness: Swappiness,
    batch: EvictBatch,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Config::default())
    }

    fn with(config: Config) -> Bench {
        let mut engine = MultiGen::new(config).unwrap();
        let group = engine.add_group("/bench", TimeMs(0)).unwrap();
        let batch = EvictBatch::default();
        let swappiness = Swappiness::DEFAULT;
        Bench {
            engine,
            group,
            now: TimeMs(0),
            swappiness,
            batch,
        }
    }

    fn arrival(&self, kind: Kind, cause: Cause) -> Arrival {
        Arrival {
            group: self.group,
            node: NodeId(0),
            kind,
            order: Order::BASE,
            cause,
            shadow: None,
            is_exec: false,
        }
    }

    fn appear(&mut self, kind: Kind, cause: Cause) -> FolioId {
        self.engine.appeared(self.arrival(kind, cause)).unwrap()
    }

    fn appear_many(&mut self, count: usize, kind: Kind, cause: Cause) -> Vec<FolioId> {
        (0..count).map(|_| self.appear(kind, cause)).collect()
    }

    fn refault(&mut self, kind: Kind, cause: Cause, shadow: Shadow) -> FolioId {
        let arrival = Arrival {
            shadow: Some(shadow),
            ..self.arrival(kind, cause)
        };
        self.engine.appeared(arrival).unwrap()
    }

    fn young(&mut self, folio: FolioId) {
        self.engine.accessed(folio, AccessVia::PageTable);
    }

    fn read(&mut self, folio: FolioId, times: usize) {
        for _ in 0..times {
            self.engine.accessed(folio, AccessVia::FileDescriptor);
        }
    }

    fn walk(&mut self) {
        self.now.0 += 1000;
        self.engine
            .finish_walk(self.group, self.swappiness, self.now)
            .unwrap();
        self.engine.validate().unwrap();
    }

    fn isolate(&mut self, nr_pages: u64) -> Isolated {
        self.isolate_at(nr_pages, 0)
    }

    fn isolate_at(&mut self, nr_pages: u64, priority: u8) -> Isolated {
        let request = ReclaimRequest {
            group: self.group,
            nr_pages,
            swappiness: self.swappiness,
            priority,
        };
        let end = self
            .engine
            .isolate(request, self.now, &mut self.batch)
            .unwrap();
        self.engine.validate().unwrap();
        end
    }

    fn complete(&mut self, verdict: Verdict) -> Vec<Option<Shadow>> {
        let verdicts = vec![verdict; self.batch.folios.len()];
        self.engine.complete(&mut self.batch, &verdicts);
        self.engine.validate().unwrap();
        self.batch.shadows.clone()
    }

    fn seq(&self, folio: FolioId) -> u64 {
        self.engine.generation(folio).unwrap().0
    }

    fn window(&self) -> (u64, [u64; 2]) {
        let lruvec = &self.engine.lruvecs[0];
        (lruvec.max_seq, lruvec.min_seq)
    }

    fn stats(&self) -> ReclaimStats {
        self.engine.stats(self.group).unwrap()
    }
}

#[test]
fn a_new_group_starts_with_four_empty_generations() {
    let bench = Bench::new();
    assert_eq!(bench.window(), (3, [0, 0]));
    let view = bench.engine.view(bench.group, TimeMs(5)).unwrap();
    let sizes = view[0]
        .generations
        .iter()
        .map(|of| (of.seq.0, of.age_ms, of.nr_pages));
    let empty = [Some(0), Some(0)];
    assert!(sizes.eq([(0, 5, empty), (1, 5, empty), (2, 5, empty), (3, 5, empty)]));
}

#[test]
fn a_faulted_folio_starts_in_the_second_youngest_generation() {
    let mut bench = Bench::new();
    for kind in Kind::ALL {
        let folio = bench.appear(kind, Cause::Fault);
        assert_eq!(bench.seq(folio), 2);
    }
}

#[test]
fn a_folio_seen_young_twice_is_promoted_and_once_is_not() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::Anon, Cause::Fault);
    bench.young(folio);
    assert_eq!(bench.seq(folio), 2);
    bench.young(folio);
    assert_eq!(bench.seq(folio), 3);
    assert_eq!(
        (
            bench.stats().nr_young_pages,
            bench.stats().nr_promoted_pages
        ),
        (2, 1)
    );
    bench.engine.validate().unwrap();
}

#[test]
fn a_cold_folio_leaves_and_its_shadow_tells_of_it() {
    let mut bench = Bench::new();
    let folio = bench.appear(Kind::File, Cause::Read);
    assert_eq!(bench.isolate(1), Isolated::Pages(1));
    assert_eq!(bench.batch.folios, [folio]);
    let shadow = bench.complete(Verdict::Evicted)[0].unwrap();
    assert_eq!(bench.engine.nr_folios(), 0);
    bench.refault(Kind::File, Cause::Read, shadow);
    assert_eq!(bench.stats().nr_evicted_pages, [0, 1]);
    assert_eq!(bench.stats().nr_refaulted_recent_pages, [0, 1]);
}
