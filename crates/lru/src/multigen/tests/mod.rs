//! Stories of single rules, a file a stage of a page's life.

mod ageing;
mod command;
mod eviction;
mod groups;
mod look_around;
mod models;
mod placement;
mod promotion;
mod refault;
mod walk;
mod walkers;

use super::*;
use crate::seam::{Cause, by_kind};

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
            swappiness: self.swappiness,
            priority,
            ..ReclaimRequest::new(self.group, nr_pages)
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

    fn refs(&self, folio: FolioId) -> u32 {
        self.engine.counting.refs(self.engine.flags(folio))
    }

    fn window(&self) -> (u64, [u64; 2]) {
        let lruvec = &self.engine.books.lruvecs[0];
        (lruvec.max_seq, lruvec.min_seq)
    }

    fn stats(&self) -> ReclaimStats {
        self.engine.stats(self.group).unwrap()
    }
}
