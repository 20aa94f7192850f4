//! A dumb model of the engine: a map of folios, the rules written out plainly, nothing shared.
//!
//! It predicts everything except the order in which eviction picks: what eviction did is checked
//! against what it may do, and then adopted.

/// Fails the operation with a message when a condition does not hold.
macro_rules! check {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}

mod checks;
mod kernels;
mod ops;

use std::collections::BTreeMap;

use strata_lru::{
    AccessVia, Arrival, Cause, Config, EvictBatch, FolioId, GoneCause, GroupId, Isolated,
    KernelModel, Kind, MultiGen, NodeId, Order, Plan, Policy, ReclaimRequest, ReclaimStats, Shadow,
    Swappiness, TimeMs, Verdict, WriteState,
};

use ops::{NR_GROUPS, NR_NODES};
pub(crate) use ops::{Op, op};
use ops::{level, lruvec};

/// Folios a run may hold at once: small, so that recounting after each operation is cheap.
const NR_FOLIOS_MAX: usize = 96;

/// Batches isolated and not completed yet.
const NR_BATCHES_MAX: usize = 3;

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
    /// Whether `refs` is certain: a folio spared and then taken by the same call has lost its
    /// count, one that was only taken has not.
    is_count_known: bool,
}

#[derive(Clone, Debug)]
struct Remembered {
    shadow: Shadow,
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

/// The engine and its model, side by side.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) engine: MultiGen,
    kernel: KernelModel,
    groups: Vec<GroupId>,
    windows: Vec<Window>,
    nr_walks: Vec<u64>,
    folios: BTreeMap<u32, Folio>,
    shadows: Vec<Remembered>,
    batches: Vec<EvictBatch>,
    now: TimeMs,
    has_min_ttl: bool,
}

impl Pair {
    pub(crate) fn new(kernel: KernelModel) -> Pair {
        let config = Config {
            nr_folios_max: NR_FOLIOS_MAX as u32,
            ..Config::of(kernel)
        };
        let mut engine = MultiGen::new(config).expect("the configuration is valid");
        let mut pair_groups = Vec::new();
        for number in 0..NR_GROUPS {
            let group = engine.add_group(&format!("/{number}"), TimeMs(0));
            pair_groups.push(group.expect("two groups fit"));
        }
        let window = Window {
            max: 3,
            min: [0; 2],
            has_overlapped: [false; 2],
            stats: ReclaimStats::default(),
        };
        Pair {
            engine,
            kernel,
            groups: pair_groups,
            windows: vec![window; usize::from(NR_GROUPS * NR_NODES)],
            nr_walks: vec![0; usize::from(NR_GROUPS)],
            folios: BTreeMap::new(),
            shadows: Vec::new(),
            batches: Vec::new(),
            now: TimeMs(0),
            has_min_ttl: false,
        }
    }

    /// Applies an operation to both and compares all that can be seen.
    pub(crate) fn apply(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::Appear {
                group,
                node,
                kind,
                cause,
                order,
                shadow,
                is_exec,
            } => {
                let shadow = shadow.filter(|_| !self.shadows.is_empty());
                let shadow = shadow.map(|n| usize::from(n) % self.shadows.len());
                let number = shadow;
                let arrival = Arrival {
                    group: self.groups[usize::from(group)],
                    node: NodeId(node),
                    kind,
                    order: Order(order),
                    cause,
                    shadow: number.map(|n| self.shadows[n].shadow),
                    is_exec,
                };
                self.appear(lruvec(group, node), arrival, number)?;
            }
            Op::Access { folio, via, times } => {
                if let Some(folio) = self.pick(folio) {
                    for _ in 0..times {
                        self.access(folio, via);
                    }
                }
            }
            Op::Write { folio, state } => {
                if let Some(folio) = self.pick(folio) {
                    self.write(folio, state);
                }
            }
            Op::Gone { folio, cause } => {
                if let Some(folio) = self.pick(folio) {
                    self.gone(folio, cause)?;
                }
            }
            Op::Walk { group, swappiness } => self.walk(group, swappiness),
            Op::Isolate {
                group,
                nr_pages,
                swappiness,
                priority,
            } => {
                let request = ReclaimRequest {
                    swappiness: level(swappiness),
                    priority,
                    ..ReclaimRequest::new(self.groups[usize::from(group)], nr_pages.into())
                };
                self.isolate(group, request)?;
            }
            Op::EvictCommand {
                group,
                node,
                seq,
                swappiness,
                nr_pages,
            } => {
                let (group, node) = (usize::from(group), node);
                let text = format!(
                    "- {} {node} {} {swappiness} {nr_pages}",
                    self.groups[group].0,
                    self.windows[lruvec(group as u8, node)].min[0] + u64::from(seq)
                );
                self.evict_command(group, &text, nr_pages.into(), level(swappiness))?;
            }
            Op::Complete { batch, verdicts } => {
                if !self.batches.is_empty() {
                    let position = usize::from(batch) % self.batches.len();
                    self.complete(position, verdicts)?;
                }
            }
            Op::MinTtl { is_on } => {
                self.has_min_ttl = is_on;
                self.engine.set_min_ttl_ms(if is_on { 2000 } else { 0 });
            }
            Op::Sleep { ms } => self.now.0 += u64::from(ms),
        }
        self.engine.validate()?;
        self.compare()
    }

    fn pick(&self, number: u16) -> Option<u32> {
        let live: Vec<u32> = self
            .folios
            .iter()
            .filter(|of| !of.1.is_gone)
            .map(|of| *of.0)
            .collect();
        (!live.is_empty()).then(|| live[usize::from(number) % live.len()])
    }

    fn appear(&mut self, at: usize, arrival: Arrival, shadow: Option<usize>) -> Result<(), String> {
        let answer = self.engine.appeared(arrival);
        if self.folios.len() == NR_FOLIOS_MAX {
            check!(answer.is_err(), "a full table took a folio");
            return Ok(());
        }
        let id = answer.map_err(|error| error.to_string())?;
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
            is_count_known: true,
        };
        let window = &mut self.windows[at];
        if let Some(old) = shadow.map(|n| &self.shadows[n])
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
            self.folios.insert(id.0, folio).is_none(),
            "{id:?} was handed out twice"
        );
        Ok(())
    }

    fn access(&mut self, id: u32, via: AccessVia) {
        self.engine.accessed(FolioId(id), via);
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

    fn write(&mut self, id: u32, state: WriteState) {
        self.engine.set_write_state(FolioId(id), state);
        let seq = self.engine.generation(FolioId(id)).map(|seq| seq.0);
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

    fn remember(&mut self, folio: &Folio, shadow: Shadow) {
        self.shadows.push(Remembered {
            shadow,
            lruvec: folio.lruvec,
            kind: folio.kind,
            min_seq: self.windows[folio.lruvec].min[folio.kind.index()],
            refs: folio.refs_in_shadow(self.kernel),
            is_workingset: folio.is_workingset,
        });
    }

    fn gone(&mut self, id: u32, cause: GoneCause) -> Result<(), String> {
        let left = self.engine.gone(FolioId(id), cause);
        let shadow = left;
        check!(
            shadow.is_some() == (cause == GoneCause::Reclaimed),
            "{cause:?} left {shadow:?}"
        );
        let mut folio = self.folios[&id].clone();
        if let Some(shadow) = shadow {
            self.remember(&folio, shadow);
            let stats = &mut self.windows[folio.lruvec].stats;
            stats.nr_kernel_evicted_pages[folio.kind.index()] += folio.nr_pages;
        }
        if folio.seq.is_none() {
            folio.is_gone = true;
            self.folios.insert(id, folio);
        } else {
            self.folios.remove(&id);
        }
        Ok(())
    }

    fn walk(&mut self, group: u8, swappiness: u8) {
        let id = self.groups[usize::from(group)];
        self.now.0 += 100;
        let answer = self.engine.finish_walk(id, level(swappiness), self.now);
        answer.expect("the group exists");
        self.nr_walks[usize::from(group)] += 1;
        for node in 0..NR_NODES {
            let at = lruvec(group, node);
            // A node appears with its first folio, which then starts in the first window.
            if self
                .engine
                .view(id, self.now)
                .is_ok_and(|of| of.iter().all(|v| v.node.0 != node))
            {
                continue;
            }
            self.age(at, level(swappiness));
        }
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
                    if swappiness.allows(kind) {
                        folio.forget(self.kernel);
                    }
                }
            }
        }
        self.windows[at].max += 1;
    }

    fn isolate(&mut self, group: u8, request: ReclaimRequest) -> Result<(), String> {
        if self.batches.len() == NR_BATCHES_MAX {
            return Ok(());
        }
        let mut batch = EvictBatch::default();
        let end = self.engine.isolate(request, self.now, &mut batch);
        let end = end.map_err(|error| error.to_string())?;
        let group = usize::from(group);
        let nr_pages = self.take(group, batch, request.swappiness)?;
        check!(
            (nr_pages > 0) == (end == Isolated::Pages(nr_pages)),
            "{end:?} with {nr_pages}"
        );
        check!(
            nr_pages < request.nr_pages + (1 << 15),
            "{nr_pages} for {request:?}"
        );
        if request.nr_pages == 0 || nr_pages > 0 {
            return Ok(());
        }
        let evictable = |folio: &&Folio| {
            folio.lruvec / usize::from(NR_NODES) == group
                && folio.seq.is_some()
                && request.swappiness.allows(folio.kind)
        };
        let has_evictable = self.folios.values().any(|folio| evictable(&folio));
        check!(
            (end == Isolated::Empty) != has_evictable,
            "{end:?}, evictable: {has_evictable}"
        );
        check!(
            end != Isolated::Thrashing || self.has_min_ttl,
            "thrashing without min_ttl"
        );
        // With min_ttl one node may be too young while the other needs a walk; a kernel that keeps to
        // one kind leaves the other as it is.
        let keeps_to_one_kind = self.kernel == KernelModel::V7_2 && request.priority > 0;
        if end == Isolated::NeedsAgeing && !self.has_min_ttl && !keeps_to_one_kind {
            for folio in self.folios.values().filter(evictable) {
                let window = &self.windows[folio.lruvec];
                let is_young = folio.seq >= Some(window.max - 1);
                let is_known = !window.has_overlapped[folio.kind.index()];
                check!(
                    is_young || !is_known,
                    "{folio:?} of {window:?} was left: {end:?}"
                );
            }
        }
        Ok(())
    }

    fn evict_command(
        &mut self,
        group: usize,
        text: &str,
        nr_pages_max: u64,
        swappiness: Swappiness,
    ) -> Result<(), String> {
        let commands: Result<Vec<_>, _> = strata_lru::lru_gen::commands(text).collect();
        let command = commands.map_err(|error| error.to_string())?[0];
        // Refused while the generation is too young, or the node has never been used.
        let Ok(Plan::Evict(plan)) = self.engine.plan(command, Swappiness::DEFAULT) else {
            return Ok(());
        };
        if self.batches.len() == NR_BATCHES_MAX {
            return Ok(());
        }
        let mut batch = EvictBatch::default();
        let has_batch = self.engine.isolate_planned(&plan, 0, &mut batch);
        check!(
            !has_batch || nr_pages_max > 0,
            "a batch although nothing was asked for"
        );
        let nr_pages = self.take(group, batch, swappiness)?;
        check!(
            has_batch == (nr_pages > 0),
            "{nr_pages} pages, said {has_batch}"
        );
        Ok(())
    }

    fn complete(&mut self, position: usize, choice: u64) -> Result<(), String> {
        const VERDICTS: [Verdict; 8] = [
            Verdict::Referenced,
            Verdict::Busy,
            Verdict::Shared,
            Verdict::Dirty,
            Verdict::Unevictable,
            Verdict::Gone,
            Verdict::NotTried,
            Verdict::Evicted,
        ];
        let mut batch = self.batches.remove(position);
        // Half of them leave, the others get any verdict.
        let verdict = |n: usize| {
            let bits = choice.rotate_left(5 * n as u32);
            VERDICTS[if bits & 8 == 0 { 7 } else { bits as usize % 8 }]
        };
        let verdicts: Vec<Verdict> = (0..batch.folios.len()).map(verdict).collect();
        self.engine.complete(&mut batch, &verdicts);
        check!(
            batch.shadows.len() == batch.folios.len(),
            "a shadow or none for each folio"
        );
        for ((id, verdict), shadow) in batch.folios.iter().zip(verdicts).zip(batch.shadows) {
            let folio = self
                .folios
                .remove(&id.0)
                .ok_or_else(|| format!("{id:?} does not exist"))?;
            let verdict = if folio.is_gone {
                Verdict::Gone
            } else {
                verdict
            };
            let is_evicted = verdict == Verdict::Evicted;
            check!(
                shadow.is_some() == is_evicted,
                "{verdict:?} left {shadow:?}"
            );
            let stats = &mut self.windows[folio.lruvec].stats;
            if let Some(shadow) = shadow {
                stats.nr_evicted_pages[folio.kind.index()] += folio.nr_pages;
                self.remember(&folio, shadow);
                continue;
            }
            let place = VERDICTS.iter().position(|of| *of == verdict);
            stats.nr_rejected_pages[place.unwrap_or(7)] += folio.nr_pages;
            if verdict != Verdict::Gone {
                let folio = self.put_back(folio, verdict);
                self.folios.insert(id.0, folio);
            }
        }
        Ok(())
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
            window.stats.nr_promoted_pages += folio.nr_pages;
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
