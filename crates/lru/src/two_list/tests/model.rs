//! A dumb model of the two lists: each list is a queue.
//!
//! It predicts everything except which list is looked at and how far: that a batch is the old end of one list, in
//! order, is checked, and then adopted.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::{
    distance::Returns,
    model_tests::{
        Model, NR_FOLIOS_MAX, NR_LRUVECS, NR_NODES, Pair, Taken, check, op, rejected_at, run,
    },
};

/// Operations of one property, at least; the three together come to more than 10^5.
const NR_OPS_MIN: u64 = 60_000;

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
    lruvec: usize,
    kind: Kind,
    age: u64,
    is_workingset: bool,
}

/// The lists of one lruvec, youngest in front, by half and kind.
type Queues = [[VecDeque<FolioId>; 2]; 2];

/// What is predicted of the two lists.
struct Lists {
    refault: Refault,
    has_swap: bool,
    groups: Vec<GroupId>,
    folios: BTreeMap<FolioId, Folio>,
    queues: Vec<Queues>,
    ages: Vec<u64>,
    returns: Vec<Returns>,
    stats: Vec<ReclaimStats>,
    remembered: Vec<Remembered>,
}

impl Lists {
    fn new(refault: Refault, has_swap: bool, groups: &[GroupId]) -> Lists {
        Lists {
            refault,
            has_swap,
            groups: groups.to_vec(),
            folios: BTreeMap::new(),
            queues: vec![Queues::default(); NR_LRUVECS],
            ages: vec![0; NR_LRUVECS],
            returns: vec![Returns::default(); NR_LRUVECS],
            stats: vec![ReclaimStats::default(); NR_LRUVECS],
            remembered: Vec::new(),
        }
    }

    /// Where the model keeps one of the engine's lruvecs; the root's are empty.
    fn place_of(&self, engine: &TwoList, number: usize) -> Option<usize> {
        let lruvec = &engine.books.lruvecs[number];
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
        let other = kind.other();
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
        self.stats[lruvec].nr_activated_pages += nr_pages;
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

    fn bury(&mut self, id: FolioId) {
        let folio = self.folios[&id].clone();
        self.remembered.push(Remembered {
            lruvec: folio.lruvec,
            kind: folio.kind,
            age: self.ages[folio.lruvec],
            is_workingset: folio.is_workingset,
        });
        self.ages[folio.lruvec] += folio.nr_pages;
        self.stats[folio.lruvec].nr_left_pages[folio.kind.index()][0] += folio.nr_pages;
    }

    /// Folios that a walk had found young may have been met and put back, before any was taken.
    fn adopt_second_chances(&mut self, engine: &TwoList) -> Result<(), String> {
        let met = self
            .folios
            .iter()
            .filter(|(id, folio)| folio.is_young && !engine.flags(**id).is_young());
        let met: Vec<FolioId> = met.map(|of| *of.0).collect();
        for id in met {
            let folio = self.folios.get_mut(&id).unwrap();
            folio.is_young = false;
            let is_wanted = folio.is_referenced || folio.is_exec && folio.kind == Kind::File;
            folio.is_referenced = true;
            let (lruvec, nr_pages, half) = (folio.lruvec, folio.nr_pages, folio.half);
            self.stats[lruvec].nr_young_pages += nr_pages;
            check!(half == Some(Half::Inactive), "{id:?} was met elsewhere");
            self.detach(id);
            match is_wanted {
                true => self.activate(id),
                false => self.enter(id, Half::Inactive),
            }
        }
        Ok(())
    }

    /// In which order folios with a second chance were put back is the run's own affair.
    fn adopt_order(&mut self, engine: &TwoList) -> Result<(), String> {
        for number in 0..engine.books.lruvecs.len() {
            let Some(at) = self.place_of(engine, number) else {
                continue;
            };
            let queues = &mut self.queues[at];
            for (half, kind) in halves_by_kind() {
                let queue = &mut queues[half.index()][kind.index()];
                let kept = listed(engine, number, half, kind)?;
                let (mut a, mut b) = (queue.clone(), kept.clone());
                a.make_contiguous().sort();
                b.make_contiguous().sort();
                check!(
                    a == b,
                    "{half:?} {kind} of {number}: {kept:?}, expected {queue:?}"
                );
                *queue = kept;
            }
        }
        Ok(())
    }
}

impl Model for Lists {
    type Engine = TwoList;

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
        let shadow = shadow.map(|n| self.remembered[n].clone());
        if let Some(old) = shadow.filter(|old| old.lruvec == at && old.kind == kind) {
            self.stats[at].nr_refaulted_pages[kind.index()][0] += nr_pages;
            if self.is_wanted(at, kind, arrival.cause, self.ages[at] - old.age) {
                half = Half::Active;
                self.age(at, nr_pages);
                self.stats[at].nr_refaulted_recent_pages[kind.index()][0] += nr_pages;
                folio.is_workingset = old.is_workingset;
            }
        }
        check!(
            self.folios.insert(id, folio).is_none(),
            "{id:?} was handed out twice"
        );
        self.enter(id, half);
        Ok(())
    }

    fn access(&mut self, id: FolioId, via: AccessVia) {
        let folio = self.folios.get_mut(&id).unwrap();
        match via {
            AccessVia::PageTable => folio.is_young = true,
            AccessVia::FileDescriptor
                if folio.is_referenced && folio.half == Some(Half::Inactive) =>
            {
                folio.is_referenced = false;
                self.stats[folio.lruvec].nr_activated_by_access_pages += folio.nr_pages;
                self.detach(id);
                self.activate(id);
            }
            AccessVia::FileDescriptor => folio.is_referenced = true,
        }
    }

    fn hint(&mut self, id: FolioId) {
        let folio = self.folios.get_mut(&id).unwrap();
        (folio.is_referenced, folio.is_young) = (false, false);
        if folio.half == Some(Half::Active) {
            self.detach(id);
            self.enter(id, Half::Inactive);
        }
    }

    fn write(&mut self, _: &TwoList, id: FolioId, state: WriteState) {
        let folio = self.folios.get_mut(&id).unwrap();
        let is_due = std::mem::take(&mut folio.is_to_rotate) && state == WriteState::Clean;
        if is_due && folio.half.is_some() {
            let (at, kind) = (folio.lruvec, folio.kind.index());
            self.detach(id);
            self.enter(id, Half::Inactive);
            let queue = &mut self.queues[at][Half::Inactive.index()][kind];
            queue.rotate_left(1);
        }
    }

    fn gone(&mut self, id: FolioId, cause: GoneCause) {
        if cause == GoneCause::Reclaimed {
            let folio = &self.folios[&id];
            let stats = &mut self.stats[folio.lruvec];
            stats.nr_kernel_evicted_pages[folio.kind.index()] += folio.nr_pages;
            self.bury(id);
        }
        if self.folios[&id].half.is_some() {
            self.detach(id);
            self.folios.remove(&id);
        } else if let Some(folio) = self.folios.get_mut(&id) {
            folio.is_gone = true;
        }
    }

    fn take(&mut self, engine: &TwoList, taken: &Taken<'_>) -> Result<(), String> {
        let batch = taken.batch;
        let Some((request, end)) = taken.asked else {
            return Err("the two lists have no commands".to_owned());
        };
        let halves = [
            (Half::Inactive, &batch.folios),
            (Half::Active, &batch.to_check),
        ];
        let first = batch.folios.iter().chain(&batch.to_check).next();
        let first = first.map(|id| self.folios[id].clone());
        let has_young = self.folios.values().any(|folio| folio.is_young);
        self.adopt_second_chances(engine)?;
        for (half, ids) in halves {
            for id in ids {
                let folio = self.folios[id].clone();
                check!(Some(half) == folio.half, "{id:?} of {folio:?} as {half:?}");
                check!(
                    folio.lruvec / usize::from(NR_NODES) == taken.group,
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
                if half == Half::Inactive {
                    self.stats[folio.lruvec].nr_isolated_pages += folio.nr_pages;
                }
            }
        }
        check!(
            batch.folios.is_empty() || batch.to_check.is_empty(),
            "two lists: {batch:?}"
        );
        let is_told = match end {
            Isolated::Pages(_) => true,
            Isolated::Again => batch.folios.is_empty(),
            Isolated::Empty => batch.is_empty(),
            Isolated::NeedsAgeing | Isolated::Thrashing => false,
        };
        check!(is_told, "{end:?} with {batch:?}");
        self.adopt_order(engine)?;
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
            self.enter(id, Half::Inactive);
        }
    }

    fn tried(&mut self, id: FolioId, verdict: Verdict) -> Result<bool, String> {
        let folio = self.folios.get_mut(&id);
        let folio = folio.ok_or_else(|| format!("{id:?} does not exist"))?;
        let verdict = match verdict {
            _ if folio.is_gone => Verdict::Gone,
            Verdict::Evicted | Verdict::Gone => verdict,
            _ if folio.is_young => Verdict::Referenced,
            _ => verdict,
        };
        let stats = &mut self.stats[folio.lruvec];
        if verdict != Verdict::Evicted {
            stats.nr_rejected_pages[rejected_at(verdict)] += folio.nr_pages;
        }
        let was_referenced = folio.is_referenced;
        let is_exec_file = folio.is_exec && folio.kind == Kind::File;
        let is_activated = match verdict {
            Verdict::Evicted => {
                stats.nr_evicted_pages[folio.kind.index()] += folio.nr_pages;
                self.bury(id);
                self.folios.remove(&id);
                return Ok(true);
            }
            Verdict::Gone => {
                self.folios.remove(&id);
                return Ok(false);
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
        Ok(false)
    }

    fn compare(&mut self, engine: &TwoList) -> Result<(), String> {
        let nr_folios = engine.nr_folios() as usize;
        check!(nr_folios == self.folios.len(), "{nr_folios} folios");
        for (id, folio) in &self.folios {
            let flags = engine.flags(*id);
            let seen = (
                flags.half(),
                flags.is_referenced(),
                flags.is_workingset(),
                flags.is_young(),
            );
            let expected = (
                folio.half,
                folio.is_referenced,
                folio.is_workingset,
                folio.is_young,
            );
            check!(seen == expected, "{id:?} is {seen:?}, expected {folio:?}");
            let same = (engine.kind(*id), engine.order(*id).nr_pages());
            check!(
                same == (folio.kind, folio.nr_pages),
                "{id:?} is not {folio:?}"
            );
        }
        for number in 0..engine.books.lruvecs.len() {
            let Some(at) = self.place_of(engine, number) else {
                continue;
            };
            for (half, kind) in halves_by_kind() {
                let kept = listed(engine, number, half, kind)?;
                let queue = &self.queues[at][half.index()][kind.index()];
                check!(
                    kept == *queue,
                    "{half:?} {kind}: {kept:?}, expected {queue:?}"
                );
            }
        }
        for (group, id) in self.groups.iter().enumerate() {
            let nodes = (group * usize::from(NR_NODES))..((group + 1) * usize::from(NR_NODES));
            let mut stats = ReclaimStats::default();
            nodes.for_each(|at| stats += self.stats[at]);
            let seen = engine.stats(*id).map_err(|error| error.to_string())?;
            // How much was looked at is the run's own affair.
            stats.nr_scanned_pages = seen.nr_scanned_pages;
            check!(seen == stats, "{seen:?}, expected {stats:?}");
            check!(
                seen.nr_scanned_pages >= seen.nr_isolated_pages,
                "taken without a look: {seen:?}"
            );
        }
        Ok(())
    }
}

fn halves_by_kind() -> impl Iterator<Item = (Half, Kind)> {
    let halves = Half::ALL.into_iter();
    halves.flat_map(|half| Kind::ALL.map(|kind| (half, kind)))
}

/// A list of the engine, youngest in front.
fn listed(
    engine: &TwoList,
    number: usize,
    half: Half,
    kind: Kind,
) -> Result<VecDeque<FolioId>, String> {
    let mut queue = VecDeque::new();
    let list = engine.books.lruvecs[number].list(half, kind);
    engine
        .books
        .lists
        .visit(&engine.books.folios, list, |folio| {
            queue.push_front(folio);
            Ok(())
        })?;
    Ok(queue)
}

fn check_all(refault: Refault, nr_walked: u32) {
    run(NR_OPS_MIN, op(true, nr_walked, 3), |nr_ops| {
        let has_swap = nr_ops % 3 > 0;
        let config = Config {
            nr_folios_max: NR_FOLIOS_MAX as u32,
            refault,
            has_swap,
            ..Config::default()
        };
        let engine = TwoList::new(config).unwrap();
        Pair::new(engine, |groups| Lists::new(refault, has_swap, groups))
    });
}

#[test]
fn the_two_lists_do_what_the_model_says() {
    check_all(Refault::Window, 0);
}

#[test]
fn the_two_lists_do_what_the_model_says_when_walks_see_accesses_and_distance_judges_returns() {
    check_all(Refault::Distance, 1);
}

#[test]
fn the_two_lists_do_what_the_model_says_when_the_series_judges_returns() {
    check_all(Refault::Series, 0);
}
