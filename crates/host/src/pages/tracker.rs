//! The pages of all managed spaces and the engine that orders them.
//!
//! **Owns** the spaces, the places of folios, and the one batch that is on its way to the actuator.
//! **Does not own** who is watched and how a walk is made (`observe`, which tells what walks find), nor when to walk or evict
//! (`strata_control`).
//!
//! **Invariants**
//! - I1: at most one batch is out; its folios are in flight until [`Tracker::settle`] has heard of
//!   every request made for it.
//! - I2: [`Tracker::validate`] finds every tracked page's folio at that page, and the engine adds up.

use crate::observe::{Piece, Visitor};
use crate::pages::WalkFindings;
use crate::pages::places::{NR_SPACES_MAX, Places, SpaceSlot};
use crate::pages::space::{Engine, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use strata_control::split_huge::{Facts, SplitHuge};
use strata_linux::actuator::{PageoutReport, PageoutRequest, Unit};
use strata_linux::addr::{AddrRange, PAGE_BYTES, TABLE_BYTES, TableNo};
use strata_linux::process::{Mapping, Process};
use strata_lru::lru_gen::{CommandError, LruGen, format_full};
use strata_lru::{
    AccessVia, Ageing, EvictBatch, EvictPlan, FolioId, GroupId, GroupView, Isolated, Order, Policy,
    PolicyError, ReclaimRequest, ReclaimStats, SpaceNo, Swappiness, TimeMs, Verdict,
};

/// A huge page, or what was one.
pub(crate) type HugePage = (SpaceSlot, TableNo);

/// A batch that the actuator works on.
#[derive(Debug, Default)]
struct Outstanding {
    batch: EvictBatch,
    /// Where in the batch the folio at an address is.
    positions: BTreeMap<(SpaceSlot, u64), usize>,
    verdicts: Vec<Verdict>,
    nr_requests_left: usize,
}

/// All that is known of one managed group.
#[derive(Debug)]
pub(crate) struct Tracker {
    policy: Box<dyn Policy>,
    group: GroupId,
    places: Places,
    spaces: BTreeMap<SpaceSlot, Space>,
    next_space: u32,
    /// The spaces by the numbers that walks give them.
    numbers: BTreeMap<SpaceNo, SpaceSlot>,
    /// Spaces there have been.
    pub(crate) nr_seen_spaces: u64,
    /// The table that the walk under way told of last.
    told_last: Option<TableNo>,
    /// Who is not managed, and why.
    refused: Vec<String>,
    out: Outstanding,
    /// Huge pages to be split as soon as no batch is out.
    splits: BTreeMap<SpaceSlot, BTreeSet<TableNo>>,
    /// Base pages in the huge pages that were sent to be split.
    pub(crate) nr_split_pages: u64,
}

impl Tracker {
    /// An empty group called `path`.
    pub(crate) fn new(
        mut policy: Box<dyn Policy>,
        path: &str,
        now: TimeMs,
    ) -> Result<Tracker, PolicyError> {
        let group = policy.add_group(path, now)?;
        Ok(Tracker {
            policy,
            group,
            places: Places::default(),
            spaces: BTreeMap::new(),
            next_space: 0,
            numbers: BTreeMap::new(),
            nr_seen_spaces: 0,
            told_last: None,
            refused: Vec::new(),
            out: Outstanding::default(),
            splits: BTreeMap::new(),
            nr_split_pages: 0,
        })
    }

    /// Who is not managed and why, since the last call.
    pub(crate) fn take_refused(&mut self) -> Vec<String> {
        std::mem::take(&mut self.refused)
    }

    /// The spaces by number.
    pub(crate) fn spaces(&self) -> &BTreeMap<SpaceSlot, Space> {
        &self.spaces
    }

    /// The engine's side of a walk, and the space that is walked, where it is managed.
    fn engine(&mut self, space: SpaceNo) -> (Engine<'_>, Option<(SpaceSlot, &mut Space)>) {
        let engine = Engine {
            policy: self.policy.as_mut(),
            group: self.group,
            places: &mut self.places,
        };
        let number = self.numbers.get(&space).copied();
        let space = number.and_then(|number| Some((number, self.spaces.get_mut(&number)?)));
        (engine, space)
    }

    /// Ends a walk of the group: a generation is born.
    pub(crate) fn finish_walk(
        &mut self,
        swappiness: Swappiness,
        now: TimeMs,
    ) -> Result<(), PolicyError> {
        self.policy.finish_walk(self.group, swappiness, now)
    }

    /// What carries the kernel's commands out; a policy without generations knows no group.
    pub(crate) fn generations(&mut self) -> Result<&mut dyn LruGen, CommandError> {
        let no_group = CommandError::NoGroup(self.group.0.into());
        self.policy.lru_gen().ok_or(no_group)
    }

    /// Takes the next folios of a command that evicts, which has freed `nr_freed_pages` so far; `None`
    /// when it is done.
    pub(crate) fn isolate_planned(
        &mut self,
        plan: &EvictPlan,
        nr_freed_pages: u64,
    ) -> Option<Vec<PageoutRequest>> {
        debug_assert!(!self.is_batch_out());
        let batch = &mut self.out.batch;
        let has_batch = self
            .policy
            .lru_gen()?
            .isolate_planned(plan, nr_freed_pages, batch);
        has_batch.then(|| self.send_out())
    }

    /// The generations and their figures in the kernel's full text.
    pub(crate) fn full_text(&mut self, now: TimeMs) -> Result<String, PolicyError> {
        let group = self.group;
        let generations = self.policy.lru_gen();
        let views = generations.map_or(Ok(Vec::new()), |of| of.full_view(group, now))?;
        Ok(format_full(&views))
    }

    /// Finds the huge pages that hide cold ones, for [`Tracker::send_splits`].
    pub(crate) fn choose_splits(
        &mut self,
        splitter: &mut SplitHuge<HugePage>,
        are_pages_going: bool,
        now: TimeMs,
    ) {
        let spaces = &self.spaces;
        let huge = spaces
            .iter()
            .flat_map(|(number, space)| space.huge().map(|table| (*number, table)));
        let huge: Vec<HugePage> = huge.collect();
        let facts = Facts {
            are_pages_going,
            nr_resident_pages: self.findings().nr_resident_pages.iter().sum(),
            huge: &huge,
        };
        let chosen = splitter.after_walk(now, facts, |(number, table)| {
            spaces.get(&number)?.nr_used_pages(table)
        });
        let Some(chosen) = chosen else { return };
        self.spaces.values_mut().for_each(Space::forget_uses);
        for (number, table) in chosen {
            self.splits.entry(number).or_default().insert(table);
        }
    }

    /// The huge pages to be split: a batch of nothing.
    pub(crate) fn send_splits(&mut self) -> Vec<PageoutRequest> {
        if self.splits.is_empty() || self.is_batch_out() {
            return Vec::new();
        }
        let splits = std::mem::take(&mut self.splits).into_iter();
        let requests: Vec<PageoutRequest> = splits
            .filter_map(|(number, of)| self.request(number, Vec::new(), of.into_iter().collect()))
            .collect();
        let nr_splits: usize = requests.iter().map(|request| request.splits.len()).sum();
        self.nr_split_pages += nr_splits as u64 * Order::PMD.nr_pages();
        self.out.nr_requests_left = requests.len();
        requests
    }

    /// What was chosen to be split and not sent is not wanted any more.
    pub(crate) fn forget_splits(&mut self) {
        self.splits.clear();
    }

    /// Whether a walk is due before more can go.
    pub(crate) fn ageing(&self, swappiness: Swappiness) -> Result<Ageing, PolicyError> {
        self.policy.ageing(self.group, swappiness)
    }

    /// Whether the policy keeps generations, and says by them when a walk is due.
    pub(crate) fn has_generations(&mut self) -> bool {
        self.policy.lru_gen().is_some()
    }

    /// Whether a batch is on its way.
    pub(crate) fn is_batch_out(&self) -> bool {
        self.out.nr_requests_left > 0
    }

    /// Takes folios to evict: one request a space, each folio a run of its own, and how the engine answered.
    pub(crate) fn isolate(
        &mut self,
        nr_pages: u64,
        swappiness: Swappiness,
        priority: u8,
        now: TimeMs,
    ) -> Result<(Isolated, Vec<PageoutRequest>), PolicyError> {
        debug_assert!(!self.is_batch_out());
        let request = ReclaimRequest {
            swappiness,
            priority,
            ..ReclaimRequest::new(self.group, nr_pages)
        };
        let answer = self.policy.isolate(request, now, &mut self.out.batch)?;
        Ok((answer, self.send_out()))
    }

    /// The space and address of a folio.
    fn place(&self, folio: FolioId) -> (SpaceSlot, u64) {
        (self.places.space(folio), self.places.addr(folio))
    }

    fn send_out(&mut self) -> Vec<PageoutRequest> {
        for (position, &folio) in self.out.batch.folios.iter().enumerate() {
            let place = self.place(folio);
            self.places.set_in_flight(folio, true);
            self.out.positions.insert(place, position);
        }
        let mut of_space: BTreeMap<SpaceSlot, Vec<AddrRange>> = BTreeMap::new();
        for (&(number, addr), &position) in &self.out.positions {
            let folio = self.out.batch.folios[position];
            let nr_pages = self.policy.order(folio).nr_pages();
            let run = AddrRange::new(addr, addr + nr_pages * PAGE_BYTES);
            of_space.entry(number).or_default().push(run);
        }
        self.out.verdicts = vec![Verdict::NotTried; self.out.batch.folios.len()];
        let requests: Vec<PageoutRequest> = of_space
            .into_iter()
            .filter_map(|(number, runs)| self.request(number, runs, Vec::new()))
            .collect();
        self.out.nr_requests_left = requests.len();
        // Folios that are only to be checked have no bits beside those that walks have told already.
        if requests.is_empty() && !self.out.batch.is_empty() {
            self.complete();
        }
        requests
    }

    /// What the actuator is asked of a space; `None` where that has ended.
    fn request(
        &self,
        number: SpaceSlot,
        runs: Vec<AddrRange>,
        splits: Vec<TableNo>,
    ) -> Option<PageoutRequest> {
        Some(PageoutRequest {
            space: number.0,
            process: Arc::clone(&self.spaces.get(&number)?.process),
            runs,
            unit: Unit::Run,
            splits,
        })
    }

    /// Hears of one request; when all of a batch have answered, the engine learns the verdicts.
    pub(crate) fn settle(&mut self, report: &PageoutReport) {
        let number = SpaceSlot(report.space);
        for (run, verdict) in &report.runs {
            let within = (number, run.start)..(number, run.end);
            for (_, position) in self.out.positions.range(within) {
                self.out.verdicts[*position] = *verdict;
            }
        }
        if let Some(space) = self.spaces.get_mut(&number) {
            for &addr in &report.young_neighbours {
                let folio = space.table_mut(addr).and_then(|table| table.folio_at(addr));
                if let Some(folio) = folio {
                    self.policy.accessed(folio, AccessVia::PageTable);
                }
            }
            for &(no, accessed) in &report.accessed {
                if let Some(table) = space.table_mut(no.start()) {
                    table.see(accessed);
                }
            }
        }
        self.request_done();
    }

    /// A request that never reached the actuator; its folios go back untried.
    pub(crate) fn request_done(&mut self) {
        self.out.nr_requests_left = self.out.nr_requests_left.saturating_sub(1);
        if self.out.nr_requests_left == 0 {
            self.complete();
        }
    }

    fn complete(&mut self) {
        let Outstanding {
            batch,
            positions,
            verdicts,
            ..
        } = &mut self.out;
        let numbers = batch.folios.iter().map(|folio| self.places.space(*folio));
        let numbers: Vec<SpaceSlot> = numbers.collect();
        for (number, verdict) in numbers.iter().zip(verdicts.iter_mut()) {
            if !self.spaces.contains_key(number) {
                *verdict = Verdict::Gone;
            }
        }
        self.policy.complete(batch, verdicts);
        for (position, (&folio, number)) in batch.folios.iter().zip(numbers).enumerate() {
            let addr = self.places.addr(folio);
            self.places.set_in_flight(folio, false);
            let table = self.spaces.get_mut(&number).and_then(|s| s.table_mut(addr));
            let Some(table) = table else { continue };
            match verdicts[position] {
                Verdict::Evicted | Verdict::Gone => {
                    let shadow = batch.shadows.get(position).copied().flatten();
                    table.untrack((addr % TABLE_BYTES / PAGE_BYTES) as usize, shadow);
                }
                Verdict::Shared | Verdict::Dirty | Verdict::Unevictable | Verdict::Referenced => {}
                Verdict::Busy | Verdict::NotTried => {}
            }
        }
        batch.clear();
        positions.clear();
        verdicts.clear();
    }

    /// The generations, oldest first.
    pub(crate) fn view(&self, now: TimeMs) -> Result<Vec<GroupView>, PolicyError> {
        self.policy.view(self.group, now)
    }

    /// The engine's counters.
    pub(crate) fn stats(&self) -> Result<ReclaimStats, PolicyError> {
        self.policy.stats(self.group)
    }

    /// The findings of the last walk of every space, added up.
    pub(crate) fn findings(&self) -> WalkFindings {
        self.spaces.values().map(|space| space.findings).sum()
    }

    /// Pages that were evicted and are not back.
    pub(crate) fn nr_shadow_pages(&self) -> u64 {
        self.spaces.values().map(Space::nr_shadow_pages).sum()
    }

    /// Bytes that keeping track costs, the engine included.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.policy.memory_bytes()
            + self.places.memory_bytes()
            + self.spaces.values().map(Space::memory_bytes).sum::<u64>()
    }

    /// Recounts: every tracked page's folio lies there, and the engine adds up.
    #[cfg(test)]
    pub(crate) fn validate(&self) -> Result<(), String> {
        for (&number, space) in &self.spaces {
            space.validate()?;
            for (addr, folio) in space.tracked() {
                if self.place(folio) != (number, addr) {
                    return Err(format!(
                        "folio {folio:?} is tracked at {addr:x} but lies elsewhere"
                    ));
                }
            }
        }
        self.policy.validate()
    }
}

impl Visitor for Tracker {
    fn appeared(&mut self, space: SpaceNo, process: &Arc<Process>) {
        self.nr_seen_spaces += 1;
        let number = (0..NR_SPACES_MAX)
            .map(|offset| SpaceSlot((self.next_space + offset) % NR_SPACES_MAX))
            .find(|number| !self.spaces.contains_key(number));
        let Some(number) = number else {
            self.refused.push(format!(
                "process {} is not managed: there are more than {NR_SPACES_MAX} already",
                process.pid()
            ));
            return;
        };
        self.next_space = (number.0 + 1) % NR_SPACES_MAX;
        self.spaces.insert(number, Space::new(Arc::clone(process)));
        self.numbers.insert(space, number);
    }

    fn ended(&mut self, space: SpaceNo) {
        let number = self.numbers.remove(&space);
        if let Some(mut ended) = number.and_then(|number| self.spaces.remove(&number)) {
            ended.forget(&mut self.engine(space).0);
        }
    }

    fn idle(&mut self, space: SpaceNo) {
        if let (_, Some((_, space))) = self.engine(space) {
            space.skip_walk();
        }
    }

    fn begin(&mut self, space: SpaceNo, _: &Process, mappings: &Arc<Vec<Mapping>>) {
        self.told_last = None;
        if let (_, Some((_, space))) = self.engine(space) {
            space.begin_walk(Arc::clone(mappings));
        }
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        // A table that several mappings share is told as often.
        if self.told_last.replace(piece.record.table) != Some(piece.record.table)
            && let (engine, Some((number, space))) = self.engine(piece.space)
        {
            space.record(number, piece.record, engine);
        }
    }

    fn end(&mut self, space: SpaceNo, is_whole: bool) {
        if let (engine, Some((number, space))) = self.engine(space)
            && is_whole
        {
            space.end_walk(number, engine);
        }
    }
}
