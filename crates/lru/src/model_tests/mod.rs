//! Random operations on a policy, each checked against a dumb model of it, and recounted.
//!
//! **Owns** what can happen, and the order in which the policy and its model hear of it. **Does not own** any model: each
//! policy has its own, which says what is predicted and what is adopted.

/// Fails the operation with a message when a condition does not hold.
macro_rules! check {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}

pub(crate) use check;

mod ops;

use std::{cell::Cell, fmt::Debug};

use proptest::{
    prelude::*,
    test_runner::{Config as ProptestConfig, TestError, TestRunner},
};

use crate::{
    ids::{FolioId, GroupId, NodeId, Order, TimeMs},
    lru_gen::{Plan, commands},
    policy::Policy,
    seam::{
        AccessVia, Arrival, EvictBatch, GoneCause, Isolated, ReclaimRequest, Shadow, Verdict,
        WriteState,
    },
    swappiness::Swappiness,
};

pub(crate) use ops::{NR_GROUPS, NR_NODES, Op, op};

/// Longest sequence; failures shrink towards one operation.
const SEQUENCE_LEN_MAX: usize = 1000;

/// Folios a run may hold at once: small, so that recounting after each operation is cheap.
pub(crate) const NR_FOLIOS_MAX: usize = 96;

/// Batches isolated and not completed yet.
const NR_BATCHES_MAX: usize = 3;

/// Lruvecs of every run: groups times nodes.
pub(crate) const NR_LRUVECS: usize = (NR_GROUPS * NR_NODES) as usize;

/// What may become of a folio that is tried; those that are rejected stand where they are counted.
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

/// Where a folio that stayed is counted.
pub(crate) fn rejected_at(verdict: Verdict) -> usize {
    let place = VERDICTS.iter().position(|of| *of == verdict);
    place.expect("a verdict")
}

/// What has been taken, and for what.
pub(crate) struct Taken<'a> {
    pub(crate) group: usize,
    pub(crate) swappiness: Swappiness,
    pub(crate) batch: &'a EvictBatch,
    /// Nothing for a command.
    pub(crate) asked: Option<(ReclaimRequest, Isolated)>,
}

/// What a policy is held against. Each method hears of what the policy has done already.
pub(crate) trait Model {
    type Engine: Policy + Debug;

    /// Folios that something can happen to.
    fn live(&self) -> Vec<FolioId>;

    /// Folios in all, with those that are gone and still in a batch.
    fn nr_folios(&self) -> usize;

    /// A folio has come to an lruvec; `shadow` is the number of what is remembered of it.
    fn appear(
        &mut self,
        id: FolioId,
        lruvec: usize,
        arrival: &Arrival,
        shadow: Option<usize>,
    ) -> Result<(), String>;

    fn access(&mut self, id: FolioId, via: AccessVia);

    fn hint(&mut self, id: FolioId);

    fn write(&mut self, engine: &Self::Engine, id: FolioId, state: WriteState);

    /// A folio went unasked; what was reclaimed is remembered.
    fn gone(&mut self, id: FolioId, cause: GoneCause);

    /// Those nodes of a group that have an lruvec have been walked, which changes nothing where no walk is ever due.
    fn walk(&mut self, _group: usize, _nodes: &[NodeId], _swappiness: Swappiness) {}

    fn set_min_ttl(&mut self, _engine: &mut Self::Engine, _ms: u64) {}

    fn take(&mut self, engine: &Self::Engine, taken: &Taken<'_>) -> Result<(), String>;

    /// A folio of the active list was looked at.
    fn checked(&mut self, _id: FolioId, _is_young: bool) {}

    /// A folio was tried; whether it left a shadow, by which it is remembered.
    fn tried(&mut self, id: FolioId, verdict: Verdict) -> Result<bool, String>;

    /// Compares all that can be seen.
    fn compare(&mut self, engine: &Self::Engine) -> Result<(), String>;
}

/// A policy and its model, side by side.
pub(crate) struct Pair<M: Model> {
    pub(crate) engine: M::Engine,
    pub(crate) model: M,
    groups: Vec<GroupId>,
    shadows: Vec<Shadow>,
    batches: Vec<EvictBatch>,
    now: TimeMs,
}

fn lruvec(group: u8, node: u8) -> usize {
    usize::from(group * NR_NODES + node)
}

fn level(swappiness: u8) -> Swappiness {
    Swappiness::try_new(swappiness).expect("0 to 201")
}

impl<M: Model> Pair<M> {
    pub(crate) fn new(mut engine: M::Engine, model: impl FnOnce(&[GroupId]) -> M) -> Pair<M> {
        let groups =
            (0..NR_GROUPS).map(|number| engine.add_group(&format!("/{number}"), TimeMs(0)));
        let groups: Vec<GroupId> = groups.collect::<Result<_, _>>().expect("two groups fit");
        Pair {
            engine,
            model: model(&groups),
            groups,
            shadows: Vec::new(),
            batches: Vec::new(),
            now: TimeMs(0),
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
                let arrival = Arrival {
                    group: self.groups[usize::from(group)],
                    node: NodeId(node),
                    kind,
                    order: Order(order),
                    cause,
                    shadow: shadow.map(|n| self.shadows[n]),
                    is_exec,
                };
                let is_full = self.model.nr_folios() == NR_FOLIOS_MAX;
                match self.engine.appeared(arrival) {
                    Ok(_) if is_full => return Err("a full table took a folio".to_owned()),
                    Ok(id) => self
                        .model
                        .appear(id, lruvec(group, node), &arrival, shadow)?,
                    Err(error) => check!(is_full, "{error}"),
                }
            }
            Op::Access { folio, via, times } => {
                if let Some(folio) = self.pick(folio) {
                    for _ in 0..times {
                        self.engine.accessed(folio, via);
                        self.model.access(folio, via);
                    }
                }
            }
            Op::Hint { folio } => {
                if let Some(folio) = self.pick(folio) {
                    self.engine.deactivate(folio);
                    self.model.hint(folio);
                }
            }
            Op::Write { folio, state } => {
                if let Some(folio) = self.pick(folio) {
                    self.engine.set_write_state(folio, state);
                    self.model.write(&self.engine, folio, state);
                }
            }
            Op::Gone { folio, cause } => {
                if let Some(folio) = self.pick(folio) {
                    let shadow = self.engine.gone(folio, cause);
                    check!(
                        shadow.is_some() == (cause == GoneCause::Reclaimed),
                        "{cause:?} left {shadow:?}"
                    );
                    self.shadows.extend(shadow);
                    self.model.gone(folio, cause);
                }
            }
            Op::Walk { group, swappiness } => {
                self.now.0 += 100;
                let (number, group) = (usize::from(group), self.groups[usize::from(group)]);
                let walked = self.engine.finish_walk(group, level(swappiness), self.now);
                walked.map_err(|error| error.to_string())?;
                // A node appears with its first folio, which then starts in the first window.
                let views = self.engine.view(group, self.now);
                let views = views.map_err(|error| error.to_string())?;
                let nodes: Vec<NodeId> = views.iter().map(|view| view.node).collect();
                self.model.walk(number, &nodes, level(swappiness));
            }
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
                self.isolate(usize::from(group), request)?;
            }
            Op::EvictCommand {
                group,
                node,
                nr_older,
                swappiness,
                nr_pages,
            } => {
                self.evict_by_command(group, node, nr_older, swappiness, nr_pages)?;
            }
            Op::Complete { batch, verdicts } => {
                if !self.batches.is_empty() {
                    let position = usize::from(batch) % self.batches.len();
                    self.complete(position, verdicts)?;
                }
            }
            Op::MinTtl { is_on } => {
                let ms = if is_on { 2000 } else { 0 };
                self.model.set_min_ttl(&mut self.engine, ms);
            }
            Op::Sleep { ms } => self.now.0 += u64::from(ms),
        }
        self.engine.validate()?;
        self.model.compare(&self.engine)
    }

    fn pick(&self, number: u16) -> Option<FolioId> {
        let live = self.model.live();
        (!live.is_empty()).then(|| live[usize::from(number) % live.len()])
    }

    fn isolate(&mut self, group: usize, request: ReclaimRequest) -> Result<(), String> {
        if self.batches.len() == NR_BATCHES_MAX {
            return Ok(());
        }
        let mut batch = EvictBatch::default();
        let end = self.engine.isolate(request, self.now, &mut batch);
        let end = end.map_err(|error| error.to_string())?;
        let taken = Taken {
            group,
            swappiness: request.swappiness,
            batch: &batch,
            asked: Some((request, end)),
        };
        let nr_pages = self.nr_pages_of(&batch);
        check!(
            (nr_pages > 0) == (end == Isolated::Pages(nr_pages)),
            "{end:?} with {nr_pages}"
        );
        self.model.take(&self.engine, &taken)?;
        self.keep(batch);
        Ok(())
    }

    fn evict_by_command(
        &mut self,
        group: u8,
        node: u8,
        nr_older: u8,
        swappiness: u8,
        nr_pages_max: u8,
    ) -> Result<(), String> {
        if self.batches.len() == NR_BATCHES_MAX {
            return Ok(());
        }
        let number = usize::from(group);
        let id = self.groups[number];
        let views = self.engine.view(id, self.now);
        let views = views.map_err(|error| error.to_string())?;
        let Some(view) = views.iter().find(|view| view.node.0 == node) else {
            return Ok(());
        };
        let seq = view.generations.first().map_or(0, |of| of.seq.0) + u64::from(nr_older);
        let Some(lru_gen) = self.engine.lru_gen() else {
            return Ok(());
        };
        let text = format!("- {} {node} {seq} {swappiness} {nr_pages_max}", id.0);
        let command: Result<Vec<_>, _> = commands(&text).collect();
        let command = command.map_err(|error| error.to_string())?[0];
        // Refused while the generation is too young.
        let Ok(Plan::Evict(plan)) = lru_gen.plan(command, Swappiness::DEFAULT) else {
            return Ok(());
        };
        let mut batch = EvictBatch::default();
        let has_batch = lru_gen.isolate_planned(&plan, 0, &mut batch);
        check!(
            !has_batch || nr_pages_max > 0,
            "a batch although nothing was asked for"
        );
        check!(has_batch != batch.folios.is_empty(), "said {has_batch}");
        let taken = Taken {
            group: number,
            swappiness: level(swappiness),
            batch: &batch,
            asked: None,
        };
        self.model.take(&self.engine, &taken)?;
        self.keep(batch);
        Ok(())
    }

    fn nr_pages_of(&self, batch: &EvictBatch) -> u64 {
        let orders = batch.folios.iter().map(|id| self.engine.order(*id));
        orders.map(Order::nr_pages).sum()
    }

    fn keep(&mut self, batch: EvictBatch) {
        if !batch.is_empty() {
            self.batches.push(batch);
        }
    }

    fn complete(&mut self, position: usize, choice: u64) -> Result<(), String> {
        let mut batch = self.batches.remove(position);
        // Half of them leave, the others get any verdict.
        let bits = |n: usize| choice.rotate_left(5 * n as u32) as usize;
        let verdict = |n| VERDICTS[if bits(n) & 8 == 0 { 7 } else { bits(n) % 8 }];
        let verdicts: Vec<Verdict> = (0..batch.folios.len()).map(verdict).collect();
        let young = (0..batch.to_check.len()).map(|n| bits(n) & 1 == 1);
        batch.young = young.collect();
        let young = batch.young.clone();
        self.engine.complete(&mut batch, &verdicts);
        check!(
            batch.shadows.len() == batch.folios.len(),
            "a shadow, or none, for each folio"
        );
        for (id, is_young) in batch.to_check.iter().zip(young) {
            self.model.checked(*id, is_young);
        }
        for ((id, verdict), shadow) in batch.folios.iter().zip(verdicts).zip(batch.shadows) {
            let has_left = self.model.tried(*id, verdict)?;
            check!(
                shadow.is_some() == has_left,
                "{id:?}, {verdict:?} left {shadow:?}"
            );
            self.shadows.extend(shadow);
        }
        Ok(())
    }
}

/// Draws so many operations at least; `pair` is told how many come.
pub(crate) fn run<M: Model>(
    nr_ops_min: u64,
    op: impl Strategy<Value = Op>,
    pair: impl Fn(usize) -> Pair<M>,
) {
    let nr_ops = Cell::new(0u64);
    let strategy = proptest::collection::vec(op, 1..=SEQUENCE_LEN_MAX);
    while nr_ops.get() < nr_ops_min {
        let config = ProptestConfig {
            cases: 40,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let outcome = TestRunner::new(config).run(&strategy, |ops: Vec<Op>| {
            let mut pair = pair(ops.len());
            for (position, op) in ops.iter().enumerate() {
                pair.apply(op).map_err(|error| {
                    TestCaseError::fail(format!("operation {position}, {op:?}: {error}"))
                })?;
                nr_ops.set(nr_ops.get() + 1);
            }
            Ok(())
        });
        if let Err(TestError::Fail(reason, ops)) = outcome {
            panic!("{reason}\nafter {ops:#?}");
        }
    }
}
