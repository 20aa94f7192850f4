//! Any operations in any order against a dumb model: it visits every page at every walk, present or not.

use proptest::prelude::*;

use std::collections::BTreeMap;

use super::{by_heat::OfGroup, *};
use crate::{
    MultiGen,
    config::Config,
    ids::{GroupId, NodeId, Order, SpaceNo, TimeMs},
    policy::Policy,
    seam::{
        AccessVia, Arrival, Cause, EvictBatch, GoneCause, Isolated, ReclaimRequest, Shadow, Verdict,
    },
};

const NR_GROUPS: usize = 2;
const NR_PAGES: usize = 60;
const NR_OPERATIONS: usize = 300;

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Comes in if it is out.
    Arrive(usize),
    Touch(usize, AccessVia),
    /// Found accessed beside one that was to go.
    Notice(usize),
    Leave(usize, GoneCause),
    Walk(usize),
    Isolate {
        group: usize,
        nr_pages: u64,
    },
    Complete(u64),
    Sleep(u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    // Half of what happens happens to a few pages.
    let page = || prop_oneof![0..NR_PAGES / 6, 0..NR_PAGES];
    let via = prop_oneof![3 => Just(AccessVia::PageTable), 1 => Just(AccessVia::FileDescriptor)];
    let cause = prop_oneof![2 => Just(GoneCause::Reclaimed), 1 => Just(GoneCause::Freed)];
    prop_oneof![
        8 => page().prop_map(Operation::Arrive),
        8 => (page(), via).prop_map(|(page, via)| Operation::Touch(page, via)),
        1 => page().prop_map(Operation::Notice),
        2 => (page(), cause).prop_map(|(page, cause)| Operation::Leave(page, cause)),
        3 => (0..NR_GROUPS).prop_map(Operation::Walk),
        3 => (0..NR_GROUPS, 1..6u64)
            .prop_map(|(group, nr_pages)| Operation::Isolate { group, nr_pages }),
        4 => any::<u64>().prop_map(Operation::Complete),
        2 => (0..100u64).prop_map(Operation::Sleep),
    ]
}

/// What the model knows of a page.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    folio: Option<FolioId>,
    shadow: Option<Shadow>,
    past: PastHeat,
    heat: Heat,
    is_seen: bool,
    arrival: u64,
    is_isolated: bool,
}

#[derive(Debug)]
struct World {
    policy: ByHeat<MultiGen>,
    groups: Vec<GroupId>,
    pages: Vec<Page>,
    /// By group: who was ranked and not tried, coldest first, and when there was a walk.
    ranked: Vec<Vec<usize>>,
    walked_at: Vec<Option<TimeMs>>,
    batches: Vec<EvictBatch>,
    nr_arrivals: u64,
    now: TimeMs,
    nr_ranked_taken: usize,
}

fn group_of(page: usize) -> usize {
    page % NR_GROUPS
}

fn space_of(page: usize) -> SpaceNo {
    SpaceNo((page / 2 % 3) as u32)
}

fn kind_of(page: usize) -> Kind {
    Kind::ALL[page / 20 % 2]
}

/// A third is huge, so that not all are ranked.
fn order_of(page: usize) -> Order {
    Order(if page.is_multiple_of(3) { 9 } else { 0 })
}

/// What makes the heat of each space comparable: the heat that 80 percent of what it uses exceeds.
pub(super) fn scales(
    pages: impl Iterator<Item = (SpaceNo, Heat, u64)> + Clone,
) -> BTreeMap<SpaceNo, HeatScale> {
    let level = |is_counted: &dyn Fn(SpaceNo) -> bool| {
        let mut spread = HeatSpread::new();
        let used = pages.clone().filter(|(_, heat, _)| *heat > Heat::NONE);
        used.filter(|(space, ..)| is_counted(*space))
            .for_each(|(_, heat, nr_pages)| spread.count(heat, nr_pages));
        spread.exceeded_by(80)
    };
    let all = level(&|_| true);
    let spaces = pages.clone().map(|(space, ..)| space);
    spaces
        .map(|space| (space, HeatScale::of(level(&|of| of == space), all)))
        .collect()
}

impl World {
    fn new() -> World {
        let mut policy = ByHeat::new(MultiGen::new(Config::default()).unwrap());
        let groups = ["/0", "/1"].map(|path| policy.add_group(path, TimeMs(0)).unwrap());
        World {
            policy,
            groups: groups.to_vec(),
            pages: vec![Page::default(); NR_PAGES],
            ranked: vec![Vec::new(); NR_GROUPS],
            walked_at: vec![None; NR_GROUPS],
            batches: Vec::new(),
            nr_arrivals: 0,
            now: TimeMs(0),
            nr_ranked_taken: 0,
        }
    }

    fn apply(&mut self, operation: Operation) -> Result<(), TestCaseError> {
        match operation {
            Operation::Arrive(number) if self.pages[number].folio.is_none() => self.arrive(number),
            Operation::Touch(number, via) => {
                if let Some(folio) = self.in_reach(number) {
                    self.policy.accessed(folio, via);
                    self.pages[number].is_seen |= via == AccessVia::PageTable;
                }
            }
            Operation::Notice(number) => {
                if let Some(folio) = self.in_reach(number) {
                    self.policy.note_young(&[folio]);
                    self.pages[number].is_seen = true;
                }
            }
            Operation::Leave(number, cause) => {
                if let Some(folio) = self.in_reach(number) {
                    let left = self.policy.gone(folio, cause);
                    self.out(number, left);
                }
            }
            Operation::Walk(group) => self.walk(group)?,
            Operation::Isolate { group, nr_pages } => self.isolate(group, nr_pages)?,
            Operation::Complete(bits) => self.complete(bits),
            Operation::Sleep(ms) => self.now.0 += ms,
            Operation::Arrive(_) => {}
        }
        self.policy.validate().map_err(TestCaseError::fail)?;
        for page in &self.pages {
            if let Some(folio) = page.folio {
                prop_assert_eq!(self.policy.heat(folio), page.heat);
            }
        }
        Ok(())
    }

    /// The folio of a page that is in memory and in no batch.
    fn in_reach(&self, number: usize) -> Option<FolioId> {
        let page = &self.pages[number];
        page.folio.filter(|_| !page.is_isolated)
    }

    fn arrive(&mut self, number: usize) {
        let page = self.pages[number];
        let arrival = Arrival {
            group: self.groups[group_of(number)],
            node: NodeId(0),
            kind: kind_of(number),
            order: order_of(number),
            cause: Cause::Fault,
            shadow: page.shadow,
            is_exec: false,
            space: space_of(number),
            heat: page.past,
        };
        let folio = self.policy.appeared(arrival).unwrap();
        self.nr_arrivals += 1;
        self.pages[number] = Page {
            folio: Some(folio),
            arrival: self.nr_arrivals,
            ..page
        };
    }

    /// A page left, with what was kept of it.
    fn out(&mut self, number: usize, left: Option<(Shadow, PastHeat)>) {
        let page = self.pages[number];
        self.ranked[group_of(number)].retain(|of| *of != number);
        self.pages[number] = match left {
            Some((shadow, past)) => Page {
                folio: None,
                shadow: Some(shadow),
                past,
                is_isolated: false,
                ..page
            },
            None => Page::default(),
        };
    }

    fn walk(&mut self, group: usize) -> Result<(), TestCaseError> {
        let of_group = |number: &usize| group_of(*number) == group;
        for number in (0..NR_PAGES).filter(of_group) {
            let page = &mut self.pages[number];
            page.heat = page.heat.after_walk(page.is_seen);
            page.is_seen = false;
        }
        let swappiness = Swappiness::DEFAULT;
        self.policy
            .finish_walk(self.groups[group], swappiness, self.now)
            .unwrap();
        self.walked_at[group] = Some(self.now);
        let used = (0..NR_PAGES).filter(of_group).map(|number| {
            let nr_pages = order_of(number).nr_pages();
            (space_of(number), self.pages[number].heat, nr_pages)
        });
        let scales = scales(used);
        let cost = |number: usize| {
            let heat = self.pages[number].heat.scaled(scales[&space_of(number)]);
            heat.cost(kind_of(number), swappiness)
        };
        let mut present: Vec<usize> = (0..NR_PAGES)
            .filter(|number| of_group(number) && self.pages[*number].folio.is_some())
            .collect();
        present.sort_by_key(|number| (cost(*number), self.pages[*number].arrival));
        let OfGroup { ranked, .. } = &self.policy.groups[usize::from(self.groups[group].0)];
        let folio = |number: &usize| self.pages[*number].folio;
        let expected: Vec<_> = present
            .iter()
            .filter_map(folio)
            .take(ranked.len())
            .collect();
        let ranked: Vec<FolioId> = ranked.iter().map(|(folio, _)| *folio).collect();
        prop_assert_eq!(&ranked, &expected);
        present.truncate(ranked.len());
        let nr_pages = |number: &usize| order_of(*number).nr_pages();
        let (nr_ranked, nr_all) = (
            present.iter().map(nr_pages).sum::<u64>(),
            self.policy
                .groups()
                .usage_pages(self.groups[group])
                .unwrap(),
        );
        prop_assert!(nr_ranked >= NR_RANKED_PAGES_MIN.min(nr_all));
        self.ranked[group] = present;
        Ok(())
    }

    fn isolate(&mut self, group: usize, nr_pages: u64) -> Result<(), TestCaseError> {
        let request = ReclaimRequest::new(self.groups[group], nr_pages);
        let nr_evictable = self
            .policy
            .nr_evictable_pages(self.groups[group], None, request.swappiness)
            .unwrap();
        let pause_ms = match self.policy.groups[usize::from(self.groups[group].0)]
            .ranked
            .len()
        {
            0 => HEAT_WALK_MS_MIN,
            _ => HEAT_WALK_MS,
        };
        let is_due = self.walked_at[group].is_none_or(|then| self.now.since(then) >= pause_ms);
        let mut batch = EvictBatch::default();
        let answer = self.policy.isolate(request, self.now, &mut batch).unwrap();
        if is_due {
            let expected = match nr_evictable {
                0 => Isolated::Empty,
                _ => Isolated::NeedsAgeing,
            };
            prop_assert_eq!(answer, expected);
            prop_assert!(batch.is_empty());
            return Ok(());
        }
        let (mut nr_taken, mut expected) = (0, Vec::new());
        while nr_taken < nr_pages && !self.ranked[group].is_empty() {
            let number = self.ranked[group].remove(0);
            let page = &self.pages[number];
            if !page.is_seen && !page.is_isolated {
                nr_taken += order_of(number).nr_pages();
                expected.extend(page.folio);
            }
        }
        if !expected.is_empty() {
            prop_assert_eq!(&batch.folios, &expected);
            self.nr_ranked_taken += expected.len();
        }
        for folio in &batch.folios {
            let number = self.number_of(*folio);
            self.pages[number].is_isolated = true;
        }
        self.batches.push(batch);
        Ok(())
    }

    fn number_of(&self, folio: FolioId) -> usize {
        let of = self.pages.iter().position(|of| of.folio == Some(folio));
        of.expect("it is in memory")
    }

    fn complete(&mut self, bits: u64) {
        const VERDICTS: [Verdict; 4] = [
            Verdict::Evicted,
            Verdict::Evicted,
            Verdict::Referenced,
            Verdict::NotTried,
        ];
        let Some(mut batch) = self.batches.pop() else {
            return;
        };
        let verdict = |n: usize| VERDICTS[bits.rotate_left(7 * n as u32) as usize % 4];
        let verdicts: Vec<Verdict> = (0..batch.folios.len()).map(verdict).collect();
        self.policy.complete(&mut batch, &verdicts);
        for (n, folio) in batch.folios.iter().enumerate() {
            let number = self.number_of(*folio);
            self.pages[number].is_isolated = false;
            self.pages[number].is_seen |= verdicts[n] == Verdict::Referenced;
            if verdicts[n] == Verdict::Evicted {
                let shadow = batch.shadows[n].expect("it was evicted");
                self.out(number, Some((shadow, batch.heats[n])));
            }
        }
    }
}

proptest! {
    #[test]
    fn heat_ranks_what_a_model_ranks_that_visits_every_page_at_every_walk(
        operations in proptest::collection::vec(operation(), NR_OPERATIONS),
    ) {
        let mut world = World::new();
        for operation in operations {
            world.apply(operation)?;
        }
    }
}
