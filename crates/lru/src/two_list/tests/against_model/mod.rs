//! More than a hundred thousand random operations, each checked against a dumb model, and recounted.
//!
//! The model keeps each list as a queue. It predicts everything except which list is looked at and
//! how far: that a batch is the old end of one list, in order, is checked, and then adopted.

/// Fails the operation with a message when a condition does not hold.
macro_rules! check {
    ($holds:expr, $($message:tt)+) => {
        if !$holds {
            return Err(format!($($message)+));
        }
    };
}

mod checks;
mod events;
mod ops;

use std::{
    cell::Cell,
    collections::{BTreeMap, VecDeque},
};

use proptest::{prelude::*, test_runner::TestRunner};

use super::*;
use crate::distance::Returns;
use ops::{NR_GROUPS, NR_NODES, Op, op};

/// Operations of one property, at least; the two together come to more than 10^5.
const NR_OPS_MIN: u64 = 60_000;

/// Longest sequence; failures shrink towards one operation.
const SEQUENCE_LEN_MAX: usize = 800;

/// Folios a run may hold at once.
const NR_FOLIOS_MAX: usize = 96;

/// Batches isolated and not completed yet.
const NR_BATCHES_MAX: usize = 3;

#[derive(Clone, Debug)]
struct Folio {
    lruvec: usize,
    kind: Kind,
    nr_pages: u64,
    /// `None` while isolated.
    half: Option<Half>,
    is_exec: bool,
    is_referenced: bool,
    is_workingset: bool,
    is_young: bool,
    is_to_rotate: bool,
    is_gone: bool,
}

#[derive(Clone, Debug)]
struct Remembered {
    shadow: Shadow,
    lruvec: usize,
    kind: Kind,
    age: u64,
    is_workingset: bool,
}

/// The lists of one lruvec, youngest in front, by half and kind.
type Queues = [[VecDeque<FolioId>; 2]; 2];

/// The engine and its model, side by side.
#[derive(Debug)]
struct Pair {
    engine: TwoList,
    refault: Refault,
    has_swap: bool,
    groups: Vec<GroupId>,
    folios: BTreeMap<FolioId, Folio>,
    queues: Vec<Queues>,
    ages: Vec<u64>,
    returns: Vec<Returns>,
    stats: Vec<ReclaimStats>,
    own_stats: Vec<TwoListStats>,
    shadows: Vec<Remembered>,
    batches: Vec<EvictBatch>,
}

impl Pair {
    fn new(refault: Refault, has_swap: bool) -> Pair {
        let config = Config {
            nr_folios_max: NR_FOLIOS_MAX as u32,
            refault,
            has_swap,
            ..Config::default()
        };
        let mut engine = TwoList::new(config).unwrap();
        let groups =
            (0..NR_GROUPS).map(|number| engine.add_group(&format!("/{number}"), TimeMs(0)));
        let groups: Vec<GroupId> = groups.collect::<Result<_, _>>().unwrap();
        let nr_lruvecs = usize::from(NR_GROUPS * NR_NODES);
        Pair {
            engine,
            refault,
            has_swap,
            groups,
            folios: BTreeMap::new(),
            queues: vec![Queues::default(); nr_lruvecs],
            ages: vec![0; nr_lruvecs],
            returns: vec![Returns::default(); nr_lruvecs],
            stats: vec![ReclaimStats::default(); nr_lruvecs],
            own_stats: vec![TwoListStats::default(); nr_lruvecs],
            shadows: Vec::new(),
            batches: Vec::new(),
        }
    }

    /// Applies an operation to both and compares all that can be seen.
    fn apply(&mut self, op: &Op) -> Result<(), String> {
        match *op {
            Op::Appear {
                group,
                node,
                kind,
                order,
                is_exec,
                shadow,
            } => {
                let shadow = shadow.filter(|_| !self.shadows.is_empty());
                let shadow = shadow.map(|n| usize::from(n) % self.shadows.len());
                let arrival = Arrival {
                    group: self.groups[usize::from(group)],
                    node: NodeId(node),
                    kind,
                    order: Order(order),
                    cause: match kind {
                        Kind::File if !is_exec => Cause::Read,
                        _ => Cause::Fault,
                    },
                    shadow: shadow.map(|n| self.shadows[n].shadow),
                    is_exec,
                };
                self.appear(usize::from(group * NR_NODES + node), arrival, shadow)?;
            }
            Op::Access { folio, via } => {
                if let Some(folio) = self.pick(folio) {
                    self.access(folio, via);
                }
            }
            Op::Hint { folio } => {
                if let Some(folio) = self.pick(folio) {
                    self.hint(folio);
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
            Op::Isolate {
                group,
                nr_pages,
                swappiness,
                priority,
            } => {
                let request = ReclaimRequest {
                    swappiness: Swappiness::try_new(swappiness).unwrap(),
                    priority,
                    ..ReclaimRequest::new(self.groups[usize::from(group)], nr_pages.into())
                };
                self.isolate(usize::from(group), request)?;
            }
            Op::Complete { batch, verdicts } => {
                if !self.batches.is_empty() {
                    let position = usize::from(batch) % self.batches.len();
                    let batch = self.batches.remove(position);
                    self.complete(batch, verdicts)?;
                }
            }
        }
        self.engine.validate()?;
        self.compare()
    }

    fn pick(&self, number: u16) -> Option<FolioId> {
        let live = self.folios.iter().filter(|of| !of.1.is_gone);
        let live: Vec<FolioId> = live.map(|of| *of.0).collect();
        (!live.is_empty()).then(|| live[usize::from(number) % live.len()])
    }

    /// Where the model keeps one of the engine's lruvecs; the root's are empty.
    fn place_of(&self, number: usize) -> Option<usize> {
        let lruvec = &self.engine.books.lruvecs[number];
        let group = self
            .groups
            .iter()
            .position(|of| *of == lruvec.account.group)?;
        Some(group * usize::from(NR_NODES) + usize::from(lruvec.account.node.0))
    }

    fn size(&self, lruvec: usize, half: Half, kind: Kind) -> u64 {
        let queue = &self.queues[lruvec][half.index()][kind.index()];
        queue.iter().map(|folio| self.folios[folio].nr_pages).sum()
    }

    /// Whether a folio that left `distance` pages ago is made active.
    fn is_wanted(&mut self, lruvec: usize, kind: Kind, cause: Cause, distance: u64) -> bool {
        let other = if kind == Kind::Anon {
            Kind::File
        } else {
            Kind::Anon
        };
        // Anon that can't be swapped takes nobody's place.
        let size = |half, kind| match kind {
            Kind::Anon if !self.has_swap => 0,
            _ => self.size(lruvec, half, kind),
        };
        let [active, inactive] = [Half::Active, Half::Inactive]
            .map(|half| size(half, Kind::Anon) + size(half, Kind::File));
        let others = size(Half::Inactive, other);
        match self.refault {
            Refault::Window => distance <= active + others,
            Refault::Series => {
                let reach = if active >= inactive {
                    inactive
                } else {
                    active + others
                };
                distance < reach
            }
            _ => {
                let memory = active + inactive;
                self.returns[lruvec].gives_chance(cause, distance, memory)
            }
        }
    }

    /// Something besides an eviction makes what is gone older.
    fn age(&mut self, lruvec: usize, nr_pages: u64) {
        if self.refault == Refault::Window {
            self.ages[lruvec] += nr_pages;
        }
    }

    fn enter(&mut self, id: FolioId, half: Half) {
        let folio = self.folios.get_mut(&id).unwrap();
        folio.half = Some(half);
        self.queues[folio.lruvec][half.index()][folio.kind.index()].push_front(id);
    }

    fn activate(&mut self, id: FolioId) {
        let (lruvec, nr_pages) = (self.folios[&id].lruvec, self.folios[&id].nr_pages);
        self.stats[lruvec].nr_promoted_pages += nr_pages;
        self.own_stats[lruvec].nr_activated_pages += nr_pages;
        self.age(lruvec, nr_pages);
        self.enter(id, Half::Active);
    }

    fn detach(&mut self, id: FolioId) {
        let folio = self.folios.get_mut(&id).unwrap();
        if let Some(half) = folio.half.take() {
            let queue = &mut self.queues[folio.lruvec][half.index()][folio.kind.index()];
            queue.retain(|other| *other != id);
        }
    }

    fn bury(&mut self, id: FolioId, shadow: Option<Shadow>) -> Result<(), String> {
        let folio = self.folios[&id].clone();
        let shadow = shadow.ok_or_else(|| format!("{id:?} left no shadow"))?;
        self.shadows.push(Remembered {
            shadow,
            lruvec: folio.lruvec,
            kind: folio.kind,
            age: self.ages[folio.lruvec],
            is_workingset: folio.is_workingset,
        });
        self.ages[folio.lruvec] += folio.nr_pages;
        self.stats[folio.lruvec].nr_left_pages[folio.kind.index()][0] += folio.nr_pages;
        Ok(())
    }

    fn appear(&mut self, at: usize, arrival: Arrival, shadow: Option<usize>) -> Result<(), String> {
        let answer = self.engine.appeared(arrival);
        if self.folios.len() == NR_FOLIOS_MAX {
            check!(answer.is_err(), "a full table took a folio");
            return Ok(());
        }
        let id = answer.map_err(|error| error.to_string())?;
        let (kind, nr_pages) = (arrival.kind, arrival.order.nr_pages());
        let mut folio = Folio {
            lruvec: at,
            kind,
            nr_pages,
            half: None,
            is_exec: arrival.is_exec,
            is_referenced: false,
            is_workingset: false,
            is_young: false,
            is_to_rotate: false,
            is_gone: false,
        };
        let mut half = Half::Inactive;
        let shadow = shadow.map(|n| self.shadows[n].clone());
        if let Some(old) = shadow.filter(|old| old.lruvec == at && old.kind == kind) {
            self.stats[at].nr_refaulted_pages[kind.index()][0] += nr_pages;
            if self.is_wanted(at, kind, arrival.cause, self.ages[at] - old.age) {
                half = Half::Active;
                self.age(at, nr_pages);
                self.stats[at].nr_refaulted_recent_pages[kind.index()][0] += nr_pages;
                self.own_stats[at].nr_activated_refault_pages[kind.index()] += nr_pages;
                folio.is_workingset = old.is_workingset;
                let nr_restored_pages = nr_pages * u64::from(old.is_workingset);
                self.own_stats[at].nr_restored_pages[kind.index()] += nr_restored_pages;
            }
        }
        check!(
            self.folios.insert(id, folio).is_none(),
            "{id:?} was handed out twice"
        );
        self.enter(id, half);
        Ok(())
    }

    fn isolate(&mut self, group: usize, request: ReclaimRequest) -> Result<(), String> {
        if self.batches.len() == NR_BATCHES_MAX {
            return Ok(());
        }
        let mut batch = EvictBatch::default();
        let end = self.engine.isolate(request, TimeMs(0), &mut batch);
        let end = end.map_err(|error| error.to_string())?;
        let mut nr_pages = 0;
        let taken = [
            (Half::Inactive, &batch.folios),
            (Half::Active, &batch.to_check),
        ];
        let first = batch.folios.iter().chain(&batch.to_check).next();
        let first = first.map(|id| self.folios[id].clone());
        let has_young = self.folios.values().any(|folio| folio.is_young);
        self.adopt_second_chances()?;
        for (half, ids) in taken {
            for id in ids {
                let folio = self.folios[id].clone();
                check!(Some(half) == folio.half, "{id:?} of {folio:?} as {half:?}");
                check!(
                    folio.lruvec / usize::from(NR_NODES) == group,
                    "{id:?} is a stranger"
                );
                check!(
                    request.swappiness.allows(folio.kind),
                    "{id:?} is {}",
                    folio.kind
                );
                let same = first.as_ref().map(|of| (of.lruvec, of.kind));
                check!(
                    same == Some((folio.lruvec, folio.kind)),
                    "{id:?} is of another list"
                );
                if !has_young {
                    let queue = &self.queues[folio.lruvec][half.index()][folio.kind.index()];
                    check!(queue.back() == Some(id), "{id:?} is not the oldest");
                }
                self.detach(*id);
                match half {
                    Half::Inactive => nr_pages += folio.nr_pages,
                    Half::Active => {
                        self.own_stats[folio.lruvec].nr_refill_pages += folio.nr_pages;
                    }
                }
                self.stats[folio.lruvec].nr_isolated_pages +=
                    folio.nr_pages * u64::from(half == Half::Inactive);
            }
        }
        check!(
            batch.folios.is_empty() || batch.to_check.is_empty(),
            "two lists: {batch:?}"
        );
        let is_told = match end {
            Isolated::Pages(told) => told == nr_pages && told > 0,
            Isolated::Again => batch.folios.is_empty(),
            Isolated::Empty => batch.is_empty(),
            Isolated::NeedsAgeing | Isolated::Thrashing => false,
        };
        check!(is_told, "{end:?} with {batch:?}");
        self.adopt_order()?;
        if !batch.is_empty() {
            self.batches.push(batch);
        }
        Ok(())
    }

    fn complete(&mut self, mut batch: EvictBatch, verdicts: u64) -> Result<(), String> {
        const VERDICTS: [Verdict; 8] = [
            Verdict::Evicted,
            Verdict::Evicted,
            Verdict::Evicted,
            Verdict::Referenced,
            Verdict::Busy,
            Verdict::Dirty,
            Verdict::Gone,
            Verdict::NotTried,
        ];
        let pick = |n: usize| verdicts.rotate_right(3 * n as u32) as usize % VERDICTS.len();
        let given: Vec<Verdict> = (0..batch.folios.len()).map(|n| VERDICTS[pick(n)]).collect();
        batch.young = (0..batch.to_check.len())
            .map(|n| pick(n) % 2 == 1)
            .collect();
        let young = batch.young.clone();
        self.engine.complete(&mut batch, &given);
        check!(
            batch.shadows.len() == given.len(),
            "a shadow, or none, for each folio"
        );
        for (id, is_young) in batch.to_check.iter().zip(young) {
            self.checked(*id, is_young);
        }
        for ((id, verdict), shadow) in batch.folios.iter().zip(given).zip(&batch.shadows) {
            self.tried(*id, verdict, *shadow)?;
        }
        Ok(())
    }

    fn checked(&mut self, id: FolioId, is_young: bool) {
        let folio = self.folios.get_mut(&id).unwrap();
        if folio.is_gone {
            self.folios.remove(&id);
            return;
        }
        let is_young = std::mem::take(&mut folio.is_young) || is_young;
        let (lruvec, nr_pages) = (folio.lruvec, folio.nr_pages);
        self.stats[lruvec].nr_young_pages += nr_pages * u64::from(is_young);
        let is_used = is_young || folio.is_referenced;
        let is_known = self.refault == Refault::Distance && folio.is_workingset && is_used;
        if is_known || is_young && folio.is_exec && folio.kind == Kind::File {
            folio.is_referenced &= !is_known;
            self.stats[lruvec].nr_protected_pages[folio.kind.index()][0] += nr_pages;
            self.age(lruvec, nr_pages);
            self.enter(id, Half::Active);
        } else {
            folio.is_workingset = true;
            self.own_stats[lruvec].nr_deactivated_pages += nr_pages;
            self.enter(id, Half::Inactive);
        }
    }

    fn tried(
        &mut self,
        id: FolioId,
        verdict: Verdict,
        shadow: Option<Shadow>,
    ) -> Result<(), String> {
        let folio = self.folios.get_mut(&id).unwrap();
        let verdict = match verdict {
            _ if folio.is_gone => Verdict::Gone,
            Verdict::Evicted | Verdict::Gone => verdict,
            _ if folio.is_young => Verdict::Referenced,
            _ => verdict,
        };
        let stats = &mut self.stats[folio.lruvec];
        let rejected = [
            Verdict::Referenced,
            Verdict::Busy,
            Verdict::Shared,
            Verdict::Dirty,
            Verdict::Unevictable,
            Verdict::Gone,
            Verdict::NotTried,
        ];
        if let Some(position) = rejected.iter().position(|other| *other == verdict) {
            stats.nr_rejected_pages[position] += folio.nr_pages;
        }
        let was_referenced = folio.is_referenced;
        let is_exec_file = folio.is_exec && folio.kind == Kind::File;
        let is_activated = match verdict {
            Verdict::Evicted => {
                stats.nr_evicted_pages[folio.kind.index()] += folio.nr_pages;
                self.bury(id, shadow)?;
                self.folios.remove(&id);
                return Ok(());
            }
            Verdict::Gone => {
                check!(shadow.is_none(), "{id:?} is gone and left a shadow");
                self.folios.remove(&id);
                return Ok(());
            }
            Verdict::NotTried => false,
            Verdict::Referenced => {
                stats.nr_young_pages += folio.nr_pages;
                (folio.is_young, folio.is_referenced) = (false, true);
                was_referenced || is_exec_file
            }
            Verdict::Dirty | Verdict::Busy | Verdict::Shared | Verdict::Unevictable => {
                folio.is_referenced = false;
                let is_kept = was_referenced && verdict == Verdict::Dirty;
                folio.is_to_rotate |= verdict == Verdict::Dirty && !is_kept;
                !is_kept
            }
        };
        match is_activated {
            true => self.activate(id),
            false => self.enter(id, Half::Inactive),
        }
        Ok(())
    }
}

fn run(refault: Refault, nr_walked: u32) {
    let nr_ops = Cell::new(0u64);
    let strategy = proptest::collection::vec(op(nr_walked), 1..=SEQUENCE_LEN_MAX);
    while nr_ops.get() < NR_OPS_MIN {
        let config = ProptestConfig {
            cases: 40,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let outcome = TestRunner::new(config).run(&strategy, |ops: Vec<Op>| {
            let has_swap = ops.len() % 3 > 0;
            let mut pair = Pair::new(refault, has_swap);
            for (position, op) in ops.iter().enumerate() {
                pair.apply(op).map_err(|error| {
                    TestCaseError::fail(format!("operation {position}, {op:?}: {error}"))
                })?;
                nr_ops.set(nr_ops.get() + 1);
            }
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
    }
}

#[test]
fn the_two_lists_do_what_the_model_says() {
    run(Refault::Window, 0);
}

#[test]
fn the_two_lists_do_what_the_model_says_when_walks_see_accesses_and_distance_judges_returns() {
    run(Refault::Distance, 25);
}

#[test]
fn the_two_lists_do_what_the_model_says_when_the_series_judges_returns() {
    run(Refault::Series, 0);
}
