//! A dumb model of the generations: a map of folios, the rules written out plainly, nothing shared.
//!
//! It predicts everything except the order in which eviction picks: what eviction did is checked
//! against what it may do, and then adopted.

mod kernels;
mod taken;

use std::collections::BTreeMap;

use super::*;
use crate::{
    folio::MAX_ORDER,
    model::KernelModel,
    model_tests::{
        Model, NR_FOLIOS_MAX, NR_LRUVECS, NR_NODES, Pair, Taken, check, op, rejected_at, run,
    },
};

/// Operations of the default kernel's properties, at least; the two together come to more than 10^6.
const NR_OPS_MIN: u64 = 550_000;

/// Operations of every other kernel's property, at least.
const NR_OPS_OTHERS_MIN: u64 = 150_000;

#[derive(Clone, Debug)]
struct Folio {
    lruvec: usize,
    kind: Kind,
    nr_pages: u64,
    /// `None` while isolated.
    seq: Option<u64>,
    is_referenced: bool,
    refs: u64,
    is_workingset: bool,
    is_gone: bool,
    is_exec: bool,
    is_waiting: bool,
    /// Tells if the page goes to the old end when it is clean again; `None` when it was spared while
    /// waiting, for the one reason or the other.
    is_to_rotate: Option<bool>,
    /// Where a walk merges it to, if it is in the oldest list: where windows have overlapped it may be in another list, whose
    /// generation its flags do not tell, and then it keeps what was counted.
    merged_to: Option<u64>,
    /// Whether `refs` is certain: a folio spared and then taken by the same call has lost its
    /// count, one that was only taken has not.
    is_count_known: bool,
}

#[derive(Clone, Debug)]
struct Remembered {
    lruvec: usize,
    kind: Kind,
    min_seq: u64,
    refs: u64,
    is_workingset: bool,
}

#[derive(Clone, Debug)]
struct Window {
    max: u64,
    min: [u64; 2],
    /// From then on the kind's folios may be anywhere: adopted, not predicted.
    has_overlapped: [bool; 2],
    stats: ReclaimStats,
}

/// What is predicted of generations.
struct Generations {
    kernel: KernelModel,
    groups: Vec<GroupId>,
    windows: Vec<Window>,
    nr_walks: Vec<u64>,
    folios: BTreeMap<FolioId, Folio>,
    remembered: Vec<Remembered>,
    has_min_ttl: bool,
}

impl Generations {
    fn new(kernel: KernelModel, groups: &[GroupId]) -> Generations {
        let window = Window {
            max: 3,
            min: [0; 2],
            has_overlapped: [false; 2],
            stats: ReclaimStats::default(),
        };
        Generations {
            kernel,
            groups: groups.to_vec(),
            windows: vec![window; NR_LRUVECS],
            nr_walks: vec![0; groups.len()],
            folios: BTreeMap::new(),
            remembered: Vec::new(),
            has_min_ttl: false,
        }
    }

    fn remember(&mut self, folio: &Folio) {
        self.remembered.push(Remembered {
            lruvec: folio.lruvec,
            kind: folio.kind,
            min_seq: self.windows[folio.lruvec].min[folio.kind.index()],
            refs: folio.refs_in_shadow(self.kernel),
            is_workingset: folio.is_workingset,
        });
    }

    fn age(&mut self, at: usize, swappiness: Swappiness) {
        for kind in Kind::ALL {
            let window = &mut self.windows[at];
            let oldest = window.min[kind.index()];
            if window.max - oldest + 1 < 4 {
                continue;
            }
            window.min[kind.index()] += 1;
            if !swappiness.allows(kind) {
                window.has_overlapped[kind.index()] = true;
            }
            for folio in self.folios.values_mut() {
                if folio.lruvec == at && folio.kind == kind && folio.seq == Some(oldest) {
                    folio.seq = Some(oldest + if swappiness.allows(kind) { 1 } else { 4 });
                    folio.merged_to = folio.seq.filter(|_| swappiness.allows(kind));
                }
            }
        }
        self.windows[at].max += 1;
    }

    fn put_back(&mut self, mut folio: Folio, verdict: Verdict) -> Folio {
        let window = &mut self.windows[folio.lruvec];
        let is_young = verdict == Verdict::Referenced;
        let is_waiting = verdict == Verdict::Dirty || folio.is_waiting;
        if is_young {
            window.stats.nr_young_pages += folio.nr_pages;
        }
        folio.is_to_rotate = Some(verdict == Verdict::Dirty);
        let is_busy = is_waiting || folio.kind == Kind::Anon;
        let is_promoted = if !kernels::is_v1(self.kernel) {
            is_young && folio.is_young_at_last(self.kernel)
        } else if is_waiting {
            // Up to 6.13 only what waits to be written does not become the youngest.
            folio.seq = Some(window.entry(self.kernel, &folio, false, true));
            return folio;
        } else {
            folio.forget(self.kernel);
            is_young
        };
        if is_promoted {
            window.stats.nr_activated_pages += folio.nr_pages;
        }
        let is_active = is_promoted || kernels::is_v1(self.kernel);
        let seq = window.entry(self.kernel, &folio, is_active, is_busy);
        let is_oldest = seq == window.min[folio.kind.index()];
        if is_oldest && !kernels::is_v1(self.kernel) {
            folio.forget(self.kernel);
            folio.seq = Some(window.entry(self.kernel, &folio, true, is_busy));
        } else {
            folio.seq = Some(seq);
        }
        folio
    }
}

impl Model for Generations {
    type Engine = MultiGen;

    fn live(&self) -> Vec<FolioId> {
        let live = self.folios.iter().filter(|of| !of.1.is_gone);
        live.map(|of| *of.0).collect()
    }

    fn nr_folios(&self) -> usize {
        self.folios.len()
    }

    fn appear(
        &mut self,
        id: FolioId,
        at: usize,
        arrival: &Arrival,
        shadow: Option<usize>,
    ) -> Result<(), String> {
        let (kind, cause) = (arrival.kind, arrival.cause);
        let mut folio = Folio {
            lruvec: at,
            kind,
            nr_pages: arrival.order.nr_pages(),
            seq: None,
            is_referenced: false,
            refs: 0,
            is_workingset: false,
            is_gone: false,
            is_exec: arrival.is_exec,
            is_waiting: false,
            is_to_rotate: Some(false),
            merged_to: None,
            is_count_known: true,
        };
        let window = &mut self.windows[at];
        if let Some(old) = shadow.map(|n| &self.remembered[n])
            && old.lruvec == at
            && old.kind == kind
        {
            window.stats.nr_refaulted_pages[kind.index()][0] += folio.nr_pages;
            if window.is_recent(self.kernel, kind, old.min_seq) {
                window.stats.nr_refaulted_recent_pages[kind.index()][0] += folio.nr_pages;
                folio.restore(self.kernel, old, cause);
            }
        }
        let is_swapped = cause == Cause::Prefetch || cause == Cause::Fault && shadow.is_some();
        let is_busy = kind == Kind::Anon && !is_swapped;
        let is_active = folio.is_awaited(self.kernel, cause);
        folio.seq = Some(window.entry(self.kernel, &folio, is_active, is_busy));
        check!(
            self.folios.insert(id, folio).is_none(),
            "{id:?} was handed out twice"
        );
        Ok(())
    }

    fn access(&mut self, id: FolioId, via: AccessVia) {
        let folio = self.folios.get_mut(&id).expect("picked from the map");
        let window = &mut self.windows[folio.lruvec];
        match via {
            AccessVia::FileDescriptor => folio.count(self.kernel),
            AccessVia::PageTable => {
                window.stats.nr_young_pages += folio.nr_pages;
                if folio.found_young(self.kernel)
                    && let Some(seq) = &mut folio.seq
                    && *seq != window.max
                {
                    *seq = window.max;
                    window.stats.nr_promoted_pages += folio.nr_pages;
                }
            }
        }
    }

    fn hint(&mut self, id: FolioId) {
        let folio = self.folios.get_mut(&id).expect("picked from the map");
        let window = &self.windows[folio.lruvec];
        if kernels::is_v1(self.kernel) {
            folio.is_referenced = false;
        } else {
            folio.forget(self.kernel);
            folio.is_workingset = false;
        }
        let oldest = window.min[folio.kind.index()];
        if folio.seq.is_some_and(|seq| seq != oldest) {
            let is_busy = folio.kind == Kind::Anon;
            folio.seq = Some(window.entry(self.kernel, folio, false, is_busy));
        }
    }

    fn write(&mut self, engine: &MultiGen, id: FolioId, state: WriteState) {
        let seq = engine.generation(id).map(|seq| seq.0);
        let folio = self.folios.get_mut(&id).expect("picked from the map");
        folio.is_waiting = state == WriteState::Waiting;
        if folio.is_waiting {
            return;
        }
        let window = &self.windows[folio.lruvec];
        let rotated = Some(window.rotated(self.kernel, folio.kind));
        match folio.is_to_rotate.replace(false) {
            Some(true) if folio.seq.is_some() => folio.seq = rotated,
            None if seq == rotated => folio.seq = rotated,
            _ => {}
        }
    }

    fn gone(&mut self, id: FolioId, cause: GoneCause) {
        let mut folio = self.folios[&id].clone();
        if cause == GoneCause::Reclaimed {
            self.remember(&folio);
            let stats = &mut self.windows[folio.lruvec].stats;
            stats.nr_kernel_evicted_pages[folio.kind.index()] += folio.nr_pages;
        }
        if folio.seq.is_none() {
            folio.is_gone = true;
            self.folios.insert(id, folio);
        } else {
            self.folios.remove(&id);
        }
    }

    fn walk(&mut self, group: usize, nodes: &[NodeId], swappiness: Swappiness) {
        self.nr_walks[group] += 1;
        for node in nodes {
            self.age(
                group * usize::from(NR_NODES) + usize::from(node.0),
                swappiness,
            );
        }
    }

    fn set_min_ttl(&mut self, engine: &mut MultiGen, ms: u64) {
        self.has_min_ttl = ms > 0;
        engine.min_ttl_ms = ms;
    }

    fn take(&mut self, engine: &MultiGen, taken: &Taken<'_>) -> Result<(), String> {
        self.taken(engine, taken)?;
        self.check_end(taken)
    }

    fn tried(&mut self, id: FolioId, verdict: Verdict) -> Result<bool, String> {
        let folio = self.folios.remove(&id);
        let folio = folio.ok_or_else(|| format!("{id:?} does not exist"))?;
        let verdict = if folio.is_gone {
            Verdict::Gone
        } else {
            verdict
        };
        let stats = &mut self.windows[folio.lruvec].stats;
        if verdict == Verdict::Evicted {
            stats.nr_evicted_pages[folio.kind.index()] += folio.nr_pages;
            self.remember(&folio);
            return Ok(true);
        }
        stats.nr_rejected_pages[rejected_at(verdict)] += folio.nr_pages;
        if verdict != Verdict::Gone {
            let folio = self.put_back(folio, verdict);
            self.folios.insert(id, folio);
        }
        Ok(false)
    }

    fn compare(&mut self, engine: &MultiGen) -> Result<(), String> {
        let nr_folios = engine.nr_folios() as usize;
        check!(nr_folios == self.folios.len(), "{nr_folios} folios");
        self.compare_all(engine)
    }
}

fn pair(kernel: KernelModel) -> Pair<Generations> {
    let config = Config {
        nr_folios_max: NR_FOLIOS_MAX as u32,
        ..Config::of(kernel)
    };
    let engine = MultiGen::new(config).expect("the configuration is valid");
    Pair::new(engine, |groups| Generations::new(kernel, groups))
}

#[test]
fn the_engine_does_what_the_model_says_at_one_swappiness() {
    run(NR_OPS_MIN, op(false, 1, MAX_ORDER), |_| {
        pair(KernelModel::V6_14)
    });
}

#[test]
fn the_engine_does_what_the_model_says_at_every_swappiness() {
    run(NR_OPS_MIN, op(true, 1, MAX_ORDER), |_| {
        pair(KernelModel::V6_14)
    });
}

#[test]
fn every_kernel_does_what_its_own_model_says() {
    for kernel in KernelModel::ALL {
        run(NR_OPS_OTHERS_MIN, op(true, 1, MAX_ORDER), |_| pair(*kernel));
    }
}

/// A thousand operations of one draw, and the state they end in.
#[test]
fn the_same_operations_give_the_same_state_twice() {
    use proptest::prelude::*;
    let ops = proptest::collection::vec(op(true, 1, MAX_ORDER), 1..=1000);
    let config = ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(ops in ops)| {
        let state = || {
            let mut pair = pair(KernelModel::V6_14);
            for op in &ops {
                pair.apply(op).map_err(TestCaseError::fail)?;
            }
            Ok::<_, TestCaseError>(format!("{:?}", pair.engine))
        };
        prop_assert_eq!(state()?, state()?);
    });
}
