//! A policy with one group, and short words for what happens to it: what the stories of rules are told with.
//!
//! **Owns** the group, the clock and the batch. **Does not own** what is asserted of them.

use crate::{
    ids::{FolioId, GroupId, Kind, NodeId, Order, TimeMs},
    policy::Policy,
    seam::{
        AccessVia, Arrival, Cause, EvictBatch, Isolated, ReclaimRequest, ReclaimStats, Shadow,
        Verdict,
    },
    swappiness::Swappiness,
};

/// A base page that comes for the first time.
pub(crate) fn arrival(group: GroupId, node: NodeId, kind: Kind, cause: Cause) -> Arrival {
    Arrival {
        group,
        node,
        kind,
        order: Order::BASE,
        cause,
        shadow: None,
        is_exec: false,
    }
}

pub(crate) struct Bench<P> {
    pub(crate) engine: P,
    pub(crate) group: GroupId,
    pub(crate) now: TimeMs,
    pub(crate) swappiness: Swappiness,
    pub(crate) batch: EvictBatch,
}

impl<P: Policy> Bench<P> {
    pub(crate) fn of(mut engine: P) -> Bench<P> {
        let group = engine.add_group("/bench", TimeMs(0)).unwrap();
        Bench {
            engine,
            group,
            now: TimeMs(0),
            swappiness: Swappiness::DEFAULT,
            batch: EvictBatch::default(),
        }
    }

    pub(crate) fn arrival(&self, kind: Kind, cause: Cause) -> Arrival {
        arrival(self.group, NodeId(0), kind, cause)
    }

    pub(crate) fn appear(&mut self, kind: Kind, cause: Cause) -> FolioId {
        self.engine.appeared(self.arrival(kind, cause)).unwrap()
    }

    pub(crate) fn appear_many(&mut self, count: usize, kind: Kind, cause: Cause) -> Vec<FolioId> {
        (0..count).map(|_| self.appear(kind, cause)).collect()
    }

    pub(crate) fn refault(&mut self, kind: Kind, cause: Cause, shadow: Shadow) -> FolioId {
        let arrival = Arrival {
            shadow: Some(shadow),
            ..self.arrival(kind, cause)
        };
        self.engine.appeared(arrival).unwrap()
    }

    pub(crate) fn young(&mut self, folio: FolioId) {
        self.engine.accessed(folio, AccessVia::PageTable);
    }

    pub(crate) fn read(&mut self, folio: FolioId, times: usize) {
        for _ in 0..times {
            self.engine.accessed(folio, AccessVia::FileDescriptor);
        }
    }

    pub(crate) fn isolate_at(&mut self, nr_pages: u64, priority: u8) -> Isolated {
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

    /// Desperate, so that lists of any size are looked at whole.
    pub(crate) fn isolate(&mut self, nr_pages: u64) -> Isolated {
        self.isolate_at(nr_pages, 0)
    }

    pub(crate) fn complete(&mut self, verdict: Verdict) -> Vec<Option<Shadow>> {
        let verdicts = vec![verdict; self.batch.folios.len()];
        self.engine.complete(&mut self.batch, &verdicts);
        self.engine.validate().unwrap();
        self.batch.shadows.clone()
    }

    pub(crate) fn stats(&self) -> ReclaimStats {
        self.engine.stats(self.group).unwrap()
    }
}
