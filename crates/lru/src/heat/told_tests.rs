//! Any walks and choices in any order against a dumb model: it visits every page at every walk, present or not.

mod hints;
mod operation;

use std::collections::BTreeMap;

use proptest::prelude::*;

use self::{
    hints::{Hints, is_exec},
    operation::{Operation, operation},
};
use super::{folios::Marks, model_tests::scales, *};
use crate::{
    MultiGen,
    config::Config,
    ids::{GroupId, NodeId, Order, SpaceNo, TimeMs},
    policy::Policy,
    seam::{AccessVia, Arrival, Cause, EvictBatch, GoneCause, Shadow, Verdict},
};

const NR_SPACES: usize = 3;
/// Of each space.
const NR_PAGES: usize = 24;
const SWAPPINESS: Swappiness = Swappiness::DEFAULT;
const GROUP: GroupId = GroupId(1);

#[derive(Clone, Copy, Debug, Default)]
struct Page {
    folio: Option<FolioId>,
    shadow: Option<Shadow>,
    heat: Heat,
    is_seen: bool,
    is_new: bool,
    is_aside: bool,
    is_warm: bool,
    is_isolated: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Space {
    number: SpaceNo,
    nr_idle_walks: u32,
    is_next_short: bool,
    foretold: Foretold,
    last_foretold: Option<Foretold>,
}

#[derive(Debug)]
struct World {
    policy: ByHeat<MultiGen>,
    spaces: [Space; NR_SPACES],
    pages: Vec<Page>,
    /// What the mechanism keeps of pages that are away.
    kept: Vec<Heat>,
    ranked: Vec<usize>,
    batch: EvictBatch,
    nr_looks: u32,
    /// Whether spaces were walked since the last look ended.
    is_looking: bool,
    next_space: u32,
    now: TimeMs,
    hints: [Hints; 2],
    nr_hints: u64,
}

fn space_of(page: usize) -> usize {
    page / NR_PAGES
}

fn kind_of(page: usize) -> Kind {
    Kind::ALL[page / 5 % 2]
}

fn order_of(page: usize) -> Order {
    Order(if page % 7 == 3 { 9 } else { 0 })
}

/// What the model says to the engine of the pages it keeps.
struct Pages<'a> {
    spaces: &'a [Space],
    pages: &'a [Page],
    kept: &'a [Heat],
}

impl Outside for Pages<'_> {
    fn for_each_away(&self, space: SpaceNo, visit: &mut dyn FnMut(Heat, u64)) {
        for (number, page) in self.pages.iter().enumerate() {
            let is_of_space = self.spaces[space_of(number)].number == space;
            if is_of_space && page.folio.is_none() && page.shadow.is_some() {
                visit(self.kept[number], order_of(number).nr_pages());
            }
        }
    }

    fn for_each_folio(&self, visit: &mut dyn FnMut(&[FolioId])) {
        for page in self.pages {
            visit(page.folio.as_slice());
        }
    }
}

impl World {
    fn new() -> World {
        let mut policy = ByHeat::when_told(MultiGen::new(Config::default()).unwrap());
        assert_eq!(policy.add_group("/", TimeMs(0)).unwrap(), GROUP);
        let space = |number| Space {
            number: SpaceNo(number),
            ..Space::default()
        };
        World {
            policy,
            spaces: [0, 1, 2].map(space),
            pages: vec![Page::default(); NR_SPACES * NR_PAGES],
            kept: vec![Heat::NONE; NR_SPACES * NR_PAGES],
            ranked: Vec::new(),
            batch: EvictBatch::default(),
            nr_looks: 0,
            is_looking: false,
            next_space: NR_SPACES as u32,
            now: TimeMs(0),
            hints: Default::default(),
            nr_hints: 0,
        }
    }

    fn apply(&mut self, operation: Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Walk {
                space,
                moves,
                accessed,
                cause,
                fails,
            } => self.walk(space, moves, accessed, cause, fails),
            Operation::LeaveOut(space, nr_walks) => {
                self.is_looking = true;
                let number = self.spaces[space].number;
                (0..nr_walks).for_each(|_| self.policy.leave_out(GROUP, number));
                self.spaces[space].nr_idle_walks += nr_walks;
                self.spaces[space].foretold = Foretold::default();
                let own = self.pages.chunks_mut(NR_PAGES).nth(space).unwrap();
                own.iter_mut().for_each(|page| page.is_seen = false);
            }
            Operation::Note(number) => {
                self.end_look();
                if let Some(folio) = self.pages[number].folio {
                    self.policy.note_young(&[folio]);
                    self.pages[number].is_seen = true;
                }
            }
            Operation::FinishLook => self.finish(false),
            Operation::FinishWalk => self.finish(true),
            Operation::Rank(nr_pages) => self.rank(nr_pages)?,
            Operation::Isolate(nr_pages) => self.isolate(nr_pages)?,
            Operation::Complete(bits) => self.complete(bits),
            Operation::TakeWarm(percent) => self.take_warm(percent)?,
            Operation::ForgetWarm => {
                self.policy.forget_warm(GROUP);
                self.pages.iter_mut().for_each(|page| page.is_warm = false);
                let spaces = self.spaces.iter_mut();
                spaces.for_each(|space| space.last_foretold = None);
                self.end_hints();
            }
            Operation::Offer(kind, nr_pages) => self.offer(kind, nr_pages)?,
            Operation::Hinted => self.hinted(),
            Operation::Coldest(nr_pages, active) => self.coldest(nr_pages, active)?,
            Operation::End(space) if self.batch.is_empty() => self.end(space),
            Operation::End(_) => {}
        }
        self.policy.validate().map_err(TestCaseError::fail)?;
        self.check_hints()?;
        for (page, kept) in self.pages.iter().zip(&self.kept) {
            let told = page
                .folio
                .map_or(*kept, |of| HeatPolicy::heat(&self.policy, of));
            prop_assert_eq!(told, page.heat);
        }
        Ok(())
    }

    fn outside(&self) -> Pages<'_> {
        Pages {
            spaces: &self.spaces,
            pages: &self.pages,
            kept: &self.kept,
        }
    }

    fn walk(&mut self, space: usize, moves: u32, accessed: u32, cause: GoneCause, fails: bool) {
        self.is_looking = true;
        let of = self.spaces[space];
        let step = self.policy.begin_space_walk(GROUP, of.number);
        self.spaces[space].foretold = Foretold::default();
        let own = space * NR_PAGES..(space + 1) * NR_PAGES;
        let (mut nr_new_pages, mut nr_resident_pages) = (0, 0);
        for number in own.clone() {
            let bit = 1 << (number % NR_PAGES);
            match self.pages[number].folio {
                Some(folio) if moves & bit != 0 && !self.pages[number].is_isolated => {
                    self.kept[number] = HeatPolicy::heat(&self.policy, folio);
                    if cause == GoneCause::Reclaimed {
                        self.note_gone(number);
                    }
                    let left = self.policy.gone(folio, cause);
                    self.out(number, left.map(|(shadow, _)| shadow));
                }
                None if moves & bit != 0 => {
                    self.arrive(number);
                    nr_new_pages += order_of(number).nr_pages();
                }
                _ => {}
            }
            if let Some(folio) = self.pages[number].folio {
                nr_resident_pages += order_of(number).nr_pages();
                if accessed & bit != 0 {
                    self.policy.accessed(folio, AccessVia::PageTable);
                    self.pages[number].is_seen = true;
                }
            }
        }
        if fails {
            return;
        }
        step.cool(&mut self.kept[own.clone()]);
        self.policy
            .end_space_walk(GROUP, of.number, nr_new_pages, nr_resident_pages);
        let mut foretold = Foretold::default();
        for number in own {
            let page = &mut self.pages[number];
            let heat = page.heat.after_idle_walks(of.nr_idle_walks);
            let is_used = page.is_seen && page.folio.is_some();
            page.heat = match of.is_next_short {
                true => heat.after_short_walk(is_used),
                false => heat.after_walk(is_used),
            };
            if page.folio.is_some() && !page.is_new && order_of(number) == Order::BASE {
                foretold += Foretold {
                    nr_warm_pages: u64::from(page.is_warm),
                    nr_warm_used_pages: u64::from(page.is_warm && is_used),
                    nr_other_pages: u64::from(!page.is_warm),
                    nr_other_used_pages: u64::from(!page.is_warm && is_used),
                };
            }
            (page.is_seen, page.is_new) = (false, false);
        }
        self.spaces[space] = Space {
            foretold,
            nr_idle_walks: 0,
            is_next_short: nr_new_pages * 4 < nr_resident_pages,
            ..self.spaces[space]
        };
    }

    fn arrive(&mut self, number: usize) {
        let page = self.pages[number];
        let arrival = Arrival {
            group: GROUP,
            node: NodeId(0),
            kind: kind_of(number),
            order: order_of(number),
            cause: Cause::Fault,
            shadow: page.shadow,
            is_exec: is_exec(number),
            space: self.spaces[space_of(number)].number,
            heat: PastHeat::kept(self.kept[number]),
        };
        let folio = self.policy.appeared(arrival).unwrap();
        // Nobody keeps it any more.
        self.kept[number] = Heat::NONE;
        self.pages[number] = Page {
            folio: Some(folio),
            heat: page.heat,
            is_new: true,
            ..Page::default()
        };
    }

    fn out(&mut self, number: usize, shadow: Option<Shadow>) {
        self.ranked.retain(|of| *of != number);
        self.pages[number] = Page {
            shadow,
            heat: self.pages[number].heat,
            ..Page::default()
        };
    }

    /// What walks found is taken in before anything else happens but walks.
    fn end_look(&mut self) {
        if self.is_looking {
            self.finish(false);
        }
    }

    fn finish(&mut self, is_walk: bool) {
        self.is_looking = false;
        self.end_hints();
        match is_walk {
            true => self
                .policy
                .finish_walk(GROUP, SWAPPINESS, self.now)
                .unwrap(),
            false => self.policy.finish_look(GROUP),
        }
        self.ranked.clear();
        self.nr_looks += 1;
        if self.nr_looks.is_multiple_of(WALKS_REMEMBERED) {
            self.pages.iter_mut().for_each(|page| page.is_aside = false);
        }
    }

    /// A heat as it is now.
    fn heat(&self, number: usize) -> Heat {
        let of = self.spaces[space_of(number)];
        self.pages[number].heat.after_idle_walks(of.nr_idle_walks)
    }

    fn scales(&self) -> BTreeMap<SpaceNo, HeatScale> {
        let numbers = 0..self.pages.len();
        scales(numbers.map(|number| {
            let page = &self.pages[number];
            let is_used = page.folio.is_some() || page.shadow.is_some();
            let heat = if is_used {
                self.heat(number)
            } else {
                Heat::NONE
            };
            let space = self.spaces[space_of(number)].number;
            (space, heat, order_of(number).nr_pages())
        }))
    }

    fn cost(&self, number: usize, scales: &BTreeMap<SpaceNo, HeatScale>) -> Cost {
        let space = self.spaces[space_of(number)].number;
        let heat = self.heat(number).scaled(scales[&space]);
        heat.cost(kind_of(number), SWAPPINESS)
    }

    fn rank(&mut self, nr_pages: u64) -> Result<(), TestCaseError> {
        let pages = Pages {
            spaces: &self.spaces,
            pages: &self.pages,
            kept: &self.kept,
        };
        self.policy.rank(GROUP, nr_pages, SWAPPINESS, &pages);
        self.end_hints();
        let scales = self.scales();
        let is_candidate = |number: &usize| {
            let page = &self.pages[*number];
            page.folio.is_some() && !page.is_aside
        };
        let mut coldest: Vec<usize> = (0..self.pages.len()).filter(is_candidate).collect();
        coldest.sort_by_key(|number| self.cost(*number, &scales));
        let nr_all: u64 = coldest.iter().map(|of| order_of(*of).nr_pages()).sum();
        let nr_ranked = self.policy.nr_ranked(GROUP);
        coldest.truncate(nr_ranked);
        let nr: u64 = coldest.iter().map(|of| order_of(*of).nr_pages()).sum();
        prop_assert!(
            nr >= nr_pages.min(nr_all),
            "{} of {} were ranked",
            nr,
            nr_all
        );
        let ranked = self.policy.groups[usize::from(GROUP.0)].ranked.iter();
        let ranked: Vec<FolioId> = ranked.map(|(folio, _)| *folio).collect();
        let expected = coldest
            .iter()
            .filter_map(|number| self.pages[*number].folio);
        prop_assert_eq!(ranked, expected.collect::<Vec<_>>());
        self.ranked = coldest;
        Ok(())
    }

    fn isolate(&mut self, nr_pages: u64) -> Result<(), TestCaseError> {
        if !self.batch.is_empty() {
            return Ok(());
        }
        self.end_look();
        self.policy
            .isolate_ranked(GROUP, nr_pages, SWAPPINESS, self.now, &mut self.batch);
        let (mut nr_taken, mut expected) = (0, Vec::new());
        while nr_taken < nr_pages && !self.ranked.is_empty() {
            let number = self.ranked.remove(0);
            let page = &mut self.pages[number];
            if !page.is_seen {
                page.is_isolated = true;
                nr_taken += order_of(number).nr_pages();
                expected.extend(page.folio);
            }
        }
        prop_assert_eq!(&self.batch.folios, &expected);
        prop_assert!(self.policy.nr_ranked(GROUP) >= self.ranked.len());
        Ok(())
    }

    fn complete(&mut self, bits: u64) {
        const VERDICTS: [Verdict; 5] = [
            Verdict::Evicted,
            Verdict::Evicted,
            Verdict::Referenced,
            Verdict::Shared,
            Verdict::Gone,
        ];
        self.end_look();
        let mut batch = std::mem::take(&mut self.batch);
        let verdict = |n: usize| VERDICTS[(bits.rotate_left(7 * n as u32) % 5) as usize];
        let verdicts: Vec<Verdict> = (0..batch.folios.len()).map(verdict).collect();
        self.policy.complete(&mut batch, &verdicts);
        for (n, folio) in batch.folios.iter().enumerate() {
            let number = self.pages.iter().position(|of| of.folio == Some(*folio));
            let number = number.expect("it is in memory");
            self.pages[number].is_isolated = false;
            self.pages[number].is_aside |= verdicts[n] == Verdict::Shared;
            if matches!(verdicts[n], Verdict::Evicted | Verdict::Gone) {
                self.kept[number] = batch.heats[n].heat();
                self.out(number, batch.shadows[n]);
            }
        }
    }

    fn take_warm(&mut self, percent: u32) -> Result<(), TestCaseError> {
        let pages = Pages {
            spaces: &self.spaces,
            pages: &self.pages,
            kept: &self.kept,
        };
        self.policy.take_warm(GROUP, percent, self.now, &pages);
        let mut sum = Foretold::default();
        for space in &mut self.spaces {
            if space.foretold.has_uses() {
                space.last_foretold = Some(space.foretold);
            }
            sum += space.foretold;
            let holds = space.last_foretold.is_some_and(|of| of.holds());
            prop_assert_eq!(self.policy.is_foretold(GROUP, space.number), holds);
        }
        prop_assert_eq!(self.policy.foretold(GROUP), sum);
        let scales = self.scales();
        let heat = |world: &World, number: usize| {
            let space = world.spaces[space_of(number)].number;
            world.heat(number).scaled(scales[&space])
        };
        let is_base = |number: &usize| {
            self.pages[*number].folio.is_some() && order_of(*number) == Order::BASE
        };
        let base: Vec<usize> = (0..self.pages.len()).filter(is_base).collect();
        let mut spread = HeatSpread::new();
        base.iter().for_each(|of| spread.count(heat(self, *of), 1));
        let lukewarm = spread.exceeded_by(percent);
        for number in base {
            let is_code = is_exec(number) && self.pages[number].heat > Heat::NONE;
            let is_warm = heat(self, number) > lukewarm || is_code && kind_of(number) == Kind::File;
            self.pages[number].is_warm = is_warm;
            let told = self.pages[number].folio.map(|of| self.policy.is_warm(of));
            prop_assert_eq!(told, Some(is_warm));
        }
        self.end_hints();
        self.hints.iter_mut().for_each(|of| of.is_decided = true);
        Ok(())
    }

    fn coldest(&mut self, nr_pages: u64, active: u64) -> Result<(), TestCaseError> {
        self.policy.forget_ranked(GROUP);
        self.end_hints();
        self.ranked.clear();
        let is_active = |number: &usize| {
            let is_base = order_of(*number) == Order::BASE;
            self.pages[*number].folio.is_some() && is_base && active >> (number % 64) & 1 == 1
        };
        let active: Vec<usize> = (0..self.pages.len()).filter(is_active).collect();
        let folios = |pages: &[usize]| {
            let folios = pages.iter().filter_map(|of| self.pages[*of].folio);
            folios.collect::<Vec<FolioId>>()
        };
        let named = self.policy.coldest_of(
            GROUP,
            &folios(&active),
            nr_pages,
            SWAPPINESS,
            &self.outside(),
        );
        let is_told = |number: &usize| {
            let space = self.spaces[space_of(*number)];
            let last = space.last_foretold;
            !space.foretold.has_uses() || last.is_some_and(|of| of.tells_apart())
        };
        let may_go = active.into_iter().filter(|of| !self.pages[*of].is_aside);
        let may_go: Vec<usize> = may_go.collect();
        let nr_may_go = may_go.len();
        let mut told: Vec<usize> = may_go.into_iter().filter(is_told).collect();
        if told.len() * 10 < nr_may_go * 9 {
            told.clear();
        }
        let scales = self.scales();
        told.sort_by_key(|number| self.cost(*number, &scales));
        told.truncate(nr_pages as usize);
        prop_assert_eq!(named, folios(&told));
        Ok(())
    }

    fn end(&mut self, space: usize) {
        let old = self.spaces[space];
        for number in space * NR_PAGES..(space + 1) * NR_PAGES {
            if let Some(folio) = self.pages[number].folio {
                self.policy.gone(folio, GoneCause::Freed);
            }
            self.ranked.retain(|of| *of != number);
            self.pages[number] = Page::default();
            self.kept[number] = Heat::NONE;
        }
        self.policy.space_ended(GROUP, old.number);
        self.spaces[space] = Space {
            number: SpaceNo(self.next_space),
            ..Space::default()
        };
        self.next_space += 1;
    }
}

proptest! {
    #[test]
    fn what_is_cold_and_what_is_warm_is_what_a_model_says_that_visits_every_page(
        operations in prop::collection::vec(operation(), 120),
    ) {
        let mut world = World::new();
        for operation in operations {
            world.now.0 += 10;
            world.apply(operation)?;
        }
    }
}

#[test]
fn the_number_of_a_space_that_has_ended_is_given_anew() {
    let mut world = World::new();
    for _ in 0..50_000 {
        world.walk(0, 0b11, 0b11, GoneCause::Freed, false);
        world.end(0);
    }
    assert!(world.policy.owners.all().len() <= 3);
    let marks = world.policy.folios.iter();
    assert_eq!(marks.filter(|(.., of)| of.has(Marks::NEW)).count(), 0);
    world.policy.validate().unwrap();
}
