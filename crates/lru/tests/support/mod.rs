//! A dumb model of the engine: a map of folios, the rules written out plainly, nothing shared.
//!
//! It predicts everything except the order in which eviction picks: what eviction did is checked
//! against what it may do, and then adopted.

use std::collections::BTreeMap;

use proptest::prelude::*;
use strata_lru::{
    AccessVia, Arrival, Cause, Config, EvictBatch, FolioId, GoneCause, GroupId, Isolated, Kind,
    MultiGen, NodeId, Order, Plan, Policy, ReclaimRequest, ReclaimStats, Shadow, Swappiness,
    TimeMs, Verdict,
};

/// Groups times nodes of every run.
const NR_GROUPS: u8 = 2;
const NR_NODES: u8 = 2;

/// Folios a run may hold at once: small, so that recounting after each operation is cheap.
const NR_FOLIOS_MAX: usize = 96;

/// Batches isolated and not completed yet.
const NR_BATCHES_MAX: usize = 3;

/// One thing that happens to the engine. Numbers pick among what exists, modulo.
#[derive(Clone, Debug)]
pub enum Op {
    Appear {
        group: u8,
        node: u8,
        kind: Kind,
        cause: Cause,
        order: u8,
        shadow: Option<u8>,
    },
    Access {
        folio: u16,
        via: AccessVia,
        times: u8,
    },
    Gone {
        folio: u16,
        cause: GoneCause,
    },
    Walk {
        group: u8,
        swappiness: u8,
    },
    Isolate {
        group: u8,
        nr_pages: u8,
        swappiness: u8,
        priority: u8,
    },
    EvictCommand {
        group: u8,
        node: u8,
        seq: u8,
        swappiness: u8,
        nr_pages: u8,
    },
    Complete {
        batch: u8,
        verdicts: u64,
    },
    MinTtl {
        is_on: bool,
    },
    Sleep {
        ms: u16,
    },
}

/// Operations with swappiness drawn from `swappiness`.
pub fn op(swappiness: impl Strategy<Value = u8> + Clone + 'static) -> impl Strategy<Value = Op> {
    let kind = prop_oneof![Just(Kind::Anon), Just(Kind::File)];
    let cause = prop_oneof![Just(Cause::Fault), Just(Cause::Read), Just(Cause::Prefetch)];
    let via = prop_oneof![Just(AccessVia::PageTable), Just(AccessVia::FileDescriptor)];
    let gone = prop_oneof![Just(GoneCause::Reclaimed), Just(GoneCause::Freed)];
    let order = prop_oneof![8 => Just(0u8), 1 => Just(9u8), 1 => 0..=15u8];
    let shadow = proptest::option::of(any::<u8>());
    prop_oneof![
        24 => (0..NR_GROUPS, 0..NR_NODES, kind, cause, order, shadow).prop_map(
            |(group, node, kind, cause, order, shadow)| Op::Appear {
                group, node, kind, cause, order, shadow
            }),
        30 => (any::<u16>(), via, 1..=5u8)
            .prop_map(|(folio, via, times)| Op::Access { folio, via, times }),
        6 => (any::<u16>(), gone).prop_map(|(folio, cause)| Op::Gone { folio, cause }),
        7 => (0..NR_GROUPS, swappiness.clone())
            .prop_map(|(group, swappiness)| Op::Walk { group, swappiness }),
        10 => (0..NR_GROUPS, 0..80u8, swappiness.clone(), 0..=12u8).prop_map(
            |(group, nr_pages, swappiness, priority)| Op::Isolate {
                group, nr_pages, swappiness, priority
            }),
        2 => (0..NR_GROUPS, 0..NR_NODES, 0..4u8, swappiness, 0..80u8).prop_map(
            |(group, node, seq, swappiness, nr_pages)| Op::EvictCommand {
                group, node, seq, swappiness, nr_pages
            }),
        12 => (any::<u8>(), any::<u64>())
            .prop_map(|(batch, verdicts)| Op::Complete { batch, verdicts }),
        1 => any::<bool>().prop_map(|is_on| Op::MinTtl { is_on }),
        4 => (0..3000u16).prop_map(|ms| Op::Sleep { ms }),
    ]
}

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
    /// Whether `refs` is certain: a folio spared and then taken by the same call has lost its
    /// count, one that was only taken has not.
    is_count_known: bool,
}

impl Folio {
    fn forget_accesses(&mut self) {
        self.is_referenced = false;
        self.refs = 0;
        self.is_count_known = true;
    }
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
pub struct Pair {
    pub engine: MultiGen,
    groups: Vec<GroupId>,
    windows: Vec<Window>,
    nr_walks: Vec<u64>,
    folios: BTreeMap<u32, Folio>,
    shadows: Vec<Remembered>,
    batches: Vec<EvictBatch>,
    now: TimeMs,
    has_min_ttl: bool,
}

/// Fails the operation with a message when a condition does not hold.
macro_rules! check {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}

impl Pair {
    pub fn new() -> Pair {
        let config = Config {
            nr_folios_max: NR_FOLIOS_MAX as u32,
            ..Config::default()
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
    pub fn apply(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::Appear {
                group,
                node,
                kind,
                cause,
                order,
                shadow,
            } => {
                let shadow = shadow.filter(|_| !self.shadows.is_empty());
                let shadow = shadow.map(|n| usize::from(n) % self.shadows.len());
                self.appear(group, node, kind, cause, order, shadow)?;
            }
            Op::Access { folio, via, times } => {
                if let Some(folio) = self.pick(folio) {
                    for _ in 0..times {
                        self.access(folio, via);
                    }
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
                    group: self.groups[usize::from(group)],
                    nr_pages: nr_pages.into(),
                    swappiness: level(swappiness),
                    priority,
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

    fn appear(
        &mut self,
        group: u8,
        node: u8,
        kind: Kind,
        cause: Cause,
        order: u8,
        shadow: Option<usize>,
    ) -> Result<(), String> {
        let at = lruvec(group, node);
        let arrival = Arrival {
            group: self.groups[usize::from(group)],
            node: NodeId(node),
            kind,
            order: Order(order),
            cause,
            shadow: shadow.map(|n| self.shadows[n].shadow),
            is_exec: false,
        };
        let answer = self.engine.appeared(arrival);
        if self.folios.len() == NR_FOLIOS_MAX {
            check!(answer.is_err(), "a full table took a folio");
            return Ok(());
        }
        let id = answer.map_err(|error| error.to_string())?;
        let mut folio = Folio {
            lruvec: at,
            kind,
            nr_pages: 1 << order,
            seq: None,
            is_referenced: false,
            refs: 0,
            is_workingset: false,
            is_gone: false,
            is_count_known: true,
        };
        let window = &mut self.windows[at];
        if let Some(old) = shadow.map(|n| &self.shadows[n])
            && old.lruvec == at
            && old.kind == kind
        {
            window.stats.nr_refaulted_pages[kind.index()] += folio.nr_pages;
            if window.max - old.min_seq < 4 {
                window.stats.nr_refaulted_recent_pages[kind.index()] += folio.nr_pages;
                folio.is_workingset = old.is_workingset;
                folio.refs = if old.is_workingset { 0 } else { old.refs };
            }
        }
        let below = match (cause, kind, folio.is_workingset) {
            (Cause::Fault, _, true) => 0,
            (Cause::Fault, _, false) | (Cause::Read, Kind::Anon, _) => 1,
            (_, _, true) => 2,
            (_, _, false) => 3,
        };
        folio.seq = Some((window.max - below).max(window.min[kind.index()]));
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
            AccessVia::PageTable => {
                window.stats.nr_young_pages += folio.nr_pages;
                if !folio.is_referenced && !folio.is_workingset {
                    folio.is_referenced = true;
                    return;
                }
                folio.is_workingset = true;
                folio.forget_accesses();
                if let Some(seq) = &mut folio.seq
                    && *seq != window.max
                {
                    *seq = window.max;
                    window.stats.nr_promoted_pages += folio.nr_pages;
                }
            }
            AccessVia::FileDescriptor => {
                if !folio.is_referenced {
                    folio.is_referenced = true;
                    folio.refs = 0;
                } else if folio.refs < 3 {
                    folio.refs += 1;
                } else {
                    folio.is_workingset = true;
                }
            }
        }
    }

    fn remember(&mut self, folio: &Folio, shadow: Shadow) {
        self.shadows.push(Remembered {
            shadow,
            lruvec: folio.lruvec,
            kind: folio.kind,
            min_seq: self.windows[folio.lruvec].min[folio.kind.index()],
            refs: if folio.is_referenced { folio.refs } else { 0 },
            is_workingset: folio.is_workingset,
        });
    }

    fn gone(&mut self, id: u32, cause: GoneCause) -> Result<(), String> {
        let shadow = self.engine.gone(FolioId(id), cause);
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
                        folio.forget_accesses();
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
        // With min_ttl one node may be too young while the other needs a walk.
        if end == Isolated::NeedsAgeing && !self.has_min_ttl {
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

    /// Checks a batch against what eviction may do, and adopts what it did; base pages taken.
    fn take(
        &mut self,
        group: usize,
        batch: EvictBatch,
        swappiness: Swappiness,
    ) -> Result<u64, String> {
        let mut nr_taken_pages = 0;
        for id in &batch.folios {
            let folio = self
                .folios
                .get_mut(&id.0)
                .ok_or(format!("{id:?} does not exist"))?;
            let window = &mut self.windows[folio.lruvec];
            let of_group = folio.lruvec / usize::from(NR_NODES);
            check!(of_group == group, "{id:?} is of group {of_group}");
            check!(swappiness.allows(folio.kind), "{id:?} is {}", folio.kind);
            let seq = folio
                .seq
                .take()
                .ok_or(format!("{id:?} was isolated already"))?;
            check!(
                seq + 2 <= window.max,
                "{id:?} of {seq} is young: {window:?}"
            );
            let is_warm = folio.is_workingset || folio.refs > 0;
            let may_be_spared = seq + 3 <= window.max && folio.is_referenced && is_warm;
            let is_saturated = folio.is_referenced && folio.refs == 3 && folio.is_workingset;
            let is_certain = folio.is_count_known && !may_be_spared;
            check!(
                !is_saturated || !is_certain,
                "{id:?} is saturated: {folio:?}"
            );
            if may_be_spared && folio.is_workingset {
                folio.is_count_known = false;
            } else if !folio.is_referenced || may_be_spared && self.engine.tier(*id) == 0 {
                folio.forget_accesses();
            }
            window.stats.nr_isolated_pages += folio.nr_pages;
            nr_taken_pages += folio.nr_pages;
        }
        for (id, folio) in self.folios.iter_mut().filter(|of| of.1.seq.is_some()) {
            let seq = self.engine.generation(FolioId(*id)).map(|seq| seq.0);
            if folio.seq == seq {
                continue;
            }
            let window = &self.windows[folio.lruvec];
            let is_known = !window.has_overlapped[folio.kind.index()];
            let is_warm = folio.is_workingset || folio.is_referenced && folio.refs > 0;
            let steps = seq.unwrap_or(0) - folio.seq.unwrap_or(0);
            check!(
                is_warm || !is_known,
                "{folio:?} was spared to {seq:?} for nothing"
            );
            check!(
                (1..=2).contains(&steps) || !is_known,
                "{folio:?} went up to {seq:?}"
            );
            check!(
                steps == 1 || folio.is_workingset || !is_known,
                "{folio:?} spared twice"
            );
            folio.seq = seq;
            folio.forget_accesses();
        }
        for (group, id) in self.groups.iter().enumerate() {
            let views = self
                .engine
                .view(*id, self.now)
                .map_err(|error| error.to_string())?;
            for view in views {
                let window = &mut self.windows[lruvec(group as u8, view.node.0)];
                for kind in Kind::ALL {
                    let mut seqs = view.generations.iter();
                    let oldest = seqs.find(|of| of.nr_pages[kind.index()].is_some());
                    let oldest = oldest.map_or(0, |of| of.seq.0);
                    check!(
                        oldest >= window.min[kind.index()],
                        "{kind} went back to {oldest}"
                    );
                    check!(
                        (1..=3).contains(&(window.max - oldest)),
                        "{kind}: {oldest}.."
                    );
                    window.min[kind.index()] = oldest;
                }
            }
        }
        if !batch.folios.is_empty() {
            self.batches.push(batch);
        }
        Ok(nr_taken_pages)
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
                .ok_or(format!("{id:?} does not exist"))?;
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
        let min = window.min[folio.kind.index()];
        let mut is_active = false;
        if verdict == Verdict::Referenced {
            window.stats.nr_young_pages += folio.nr_pages;
            if folio.is_referenced || folio.is_workingset {
                window.stats.nr_promoted_pages += folio.nr_pages;
                folio.is_workingset = true;
                folio.forget_accesses();
                is_active = true;
            } else {
                folio.is_referenced = true;
            }
        }
        let is_busy = verdict == Verdict::Dirty || folio.kind == Kind::Anon;
        let place = |is_active: bool| {
            let below = match (is_active, is_busy, folio.is_workingset) {
                (true, _, true) => 0,
                (true, _, false) | (false, true, _) => 1,
                (false, false, true) => 2,
                (false, false, false) => 3,
            };
            (window.max - below).max(min)
        };
        let seq = place(is_active);
        folio.seq = Some(if seq == min { place(true) } else { seq });
        if seq == min {
            folio.forget_accesses();
        }
        folio
    }

    /// Compares what can be seen of the engine with the model.
    fn compare(&mut self) -> Result<(), String> {
        check!(
            self.engine.nr_folios() as usize == self.folios.len(),
            "number of folios"
        );
        for (id, folio) in &mut self.folios {
            let id = FolioId(*id);
            let seq = self.engine.generation(id).map(|seq| seq.0);
            let has_overlapped = self.windows[folio.lruvec].has_overlapped[folio.kind.index()];
            if has_overlapped && seq.is_some() == folio.seq.is_some() {
                folio.seq = seq;
            }
            check!(seq == folio.seq, "{id:?} is in {seq:?}, expected {folio:?}");
            let is_same = self.engine.kind(id) == folio.kind
                && self.engine.order(id).nr_pages() == folio.nr_pages;
            check!(is_same, "{id:?} is not {folio:?}");
        }
        for (group, id) in self.groups.iter().enumerate() {
            let views = self
                .engine
                .view(*id, self.now)
                .map_err(|error| error.to_string())?;
            let mut expected = ReclaimStats::default();
            for view in views {
                let at = lruvec(group as u8, view.node.0);
                let window = &self.windows[at];
                expected += window.stats;
                let (first, last) = (view.generations.first(), view.generations.last());
                let ends = (first.map(|of| of.seq.0), last.map(|of| of.seq.0));
                let oldest = window.min[0].min(window.min[1]);
                check!(
                    ends == (Some(oldest), Some(window.max)),
                    "{ends:?} is not {window:?}"
                );
                for of in &view.generations {
                    for kind in Kind::ALL {
                        let is_in_window = of.seq.0 >= window.min[kind.index()];
                        let here = |folio: &&Folio| {
                            folio.lruvec == at && folio.kind == kind && folio.seq == Some(of.seq.0)
                        };
                        let sum: u64 = self.folios.values().filter(here).map(|f| f.nr_pages).sum();
                        let expected = is_in_window.then_some(sum);
                        let shown = of.nr_pages[kind.index()];
                        check!(
                            shown == expected,
                            "{:?} {kind}: {shown:?}, {expected:?}",
                            of.seq
                        );
                    }
                }
            }
            let stats = self.engine.stats(*id).map_err(|error| error.to_string())?;
            // How much was looked at and spared is eviction's own affair.
            expected.nr_scanned_pages = stats.nr_scanned_pages;
            expected.nr_protected_pages = stats.nr_protected_pages;
            expected.nr_ageing_runs = self.nr_walks[group];
            check!(stats == expected, "{stats:?}, expected {expected:?}");
        }
        Ok(())
    }
}

fn lruvec(group: u8, node: u8) -> usize {
    usize::from(group * NR_NODES + node)
}

fn level(swappiness: u8) -> Swappiness {
    Swappiness::try_new(swappiness).expect("0 to 201")
}
