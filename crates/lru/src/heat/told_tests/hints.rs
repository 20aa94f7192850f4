//! What is offered and what came of it, by a model that writes the whole order down, a line a base page.

use super::*;

/// Of both kinds: only code of files counts as such.
pub(super) fn is_exec(page: usize) -> bool {
    page % 4 == 1
}

/// The hints of one kind.
#[derive(Debug, Default)]
pub(super) struct Hints {
    pub(super) is_decided: bool,
    is_given: bool,
    /// Once for each base page.
    order: Option<Vec<FolioId>>,
    nr_pages: u64,
    gone: Vec<(FolioId, u64)>,
    counts: HintCounts,
}

impl Hints {
    fn end(&mut self) {
        (self.is_decided, self.is_given) = (false, false);
        let gone = std::mem::take(&mut self.gone);
        let order = self.order.take().unwrap_or_default();
        let nr_gone: u64 = gone.iter().map(|of| of.1).sum();
        if nr_gone == 0 || (order.len() as u64) < nr_gone {
            return;
        }
        let first = &order[..nr_gone as usize];
        // A folio of another size under the same number is another.
        let size = |folio: FolioId| order.iter().filter(|of| **of == folio).count() as u64;
        let has_gone = |folio: &&FolioId| gone.contains(&(**folio, size(**folio)));
        self.counts.nr_compared_pages += nr_gone;
        self.counts.nr_agreed_pages += first.iter().filter(has_gone).count() as u64;
        self.counts.nr_agreed_by_chance_pages +=
            nr_gone as f64 * (nr_gone as f64 / self.nr_pages.max(nr_gone) as f64);
    }
}

impl World {
    pub(super) fn end_hints(&mut self) {
        self.hints.iter_mut().for_each(Hints::end);
    }

    pub(super) fn check_hints(&self) -> Result<(), TestCaseError> {
        for kind in Kind::ALL {
            let counts = self.policy.hint_counts(GROUP, kind);
            prop_assert_eq!(counts, self.hints[kind.index()].counts);
            prop_assert!(counts.nr_gone_offered_pages <= counts.nr_gone_pages);
            prop_assert!(counts.nr_agreed_pages <= counts.nr_compared_pages);
        }
        Ok(())
    }

    /// All of a kind in the order in which they are to go.
    fn order(&self, kind: Kind) -> Vec<usize> {
        let scales = self.scales();
        let may_go = |number: &usize| {
            let page = &self.pages[*number];
            page.folio.is_some() && !page.is_isolated && kind_of(*number) == kind
        };
        let mut order: Vec<usize> = (0..self.pages.len()).filter(may_go).collect();
        order.sort_by_key(|number| {
            let space = self.spaces[space_of(*number)].number;
            let heat = self.heat(*number).scaled(scales[&space]);
            let is_code = is_exec(*number) && kind == Kind::File && heat > Heat::NONE;
            (is_code, heat)
        });
        order
    }

    /// The folios of the first so many base pages, each as often as it has pages.
    fn first(&self, kind: Kind, nr_pages: u64) -> Vec<FolioId> {
        let mut first = Vec::new();
        for number in self.order(kind) {
            if first.len() as u64 >= nr_pages {
                break;
            }
            let folio = self.pages[number].folio.expect("it is in memory");
            first.extend((0..order_of(number).nr_pages()).map(|_| folio));
        }
        first
    }

    fn nr_pages(&self, kind: Kind) -> u64 {
        let there = (0..self.pages.len()).filter(|of| self.pages[*of].folio.is_some());
        let of_kind = there.filter(|of| kind_of(*of) == kind);
        of_kind.map(|of| order_of(of).nr_pages()).sum()
    }

    pub(super) fn offer(&mut self, kind: Kind, nr_pages: u64) -> Result<(), TestCaseError> {
        self.end_look();
        let outside = Pages {
            spaces: &self.spaces,
            pages: &self.pages,
            kept: &self.kept,
        };
        let nr_offered = self
            .policy
            .offer(GROUP, kind, nr_pages, self.now, &outside)
            .unwrap();
        for space in &mut self.spaces {
            if space.foretold.has_uses() {
                space.last_foretold = Some(space.foretold);
            }
        }
        let first = self.first(kind, nr_pages);
        prop_assert_eq!(nr_offered, first.len() as u64);
        for number in 0..self.pages.len() {
            let Some(folio) = self.pages[number].folio else {
                continue;
            };
            if kind_of(number) == kind {
                let is_base = order_of(number) == Order::BASE;
                let is_left = !self.pages[number].is_isolated && !first.contains(&folio);
                self.pages[number].is_warm = is_base && is_left;
            }
            prop_assert_eq!(self.policy.is_warm(folio), self.pages[number].is_warm);
        }
        let nr_pages = self.nr_pages(kind);
        let of = &mut self.hints[kind.index()];
        of.end();
        (of.is_decided, of.order, of.nr_pages) = (true, Some(first), nr_pages);
        Ok(())
    }

    pub(super) fn hinted(&mut self) {
        self.end_look();
        let outside = Pages {
            spaces: &self.spaces,
            pages: &self.pages,
            kept: &self.kept,
        };
        self.policy.hinted(GROUP, self.now, &outside);
        let is_compared = self.nr_hints.is_multiple_of(8);
        self.nr_hints += 1;
        for kind in Kind::ALL {
            let (first, nr_pages) = (self.first(kind, 4096), self.nr_pages(kind));
            let of = &mut self.hints[kind.index()];
            if !std::mem::take(&mut of.is_decided) {
                continue;
            }
            of.is_given = true;
            if of.order.is_none() && is_compared {
                (of.order, of.nr_pages) = (Some(first), nr_pages);
            }
        }
    }

    /// The kernel has taken a page that is not isolated.
    pub(super) fn note_gone(&mut self, number: usize) {
        let page = self.pages[number];
        let is_told = self.spaces[space_of(number)].last_foretold;
        let of = &mut self.hints[kind_of(number).index()];
        if !of.is_given || page.is_new || !is_told.is_some_and(|of| of.holds()) {
            return;
        }
        let nr_pages = order_of(number).nr_pages();
        of.counts.nr_gone_pages += nr_pages;
        of.counts.nr_gone_offered_pages += nr_pages * u64::from(!page.is_warm);
        of.gone.extend(page.folio.map(|folio| (folio, nr_pages)));
    }
}

/// Pages 0 to 2 and 11 are anon base pages of the first space.
#[test]
fn what_was_offered_and_went_is_told_from_what_was_protected_and_went() {
    let mut world = World::new();
    let hot = 1 | 1 << 11;
    let all = hot | 0b110;
    world.walk(0, all, all, GoneCause::Reclaimed, false);
    for _ in 0..4 {
        world.walk(0, 0, hot, GoneCause::Reclaimed, false);
        world.finish(false);
        world.take_warm(60).unwrap();
    }
    world.check_hints().unwrap();
    // 1 and 2 are cold; 0 and 11 are hot.
    world.offer(Kind::Anon, 1).unwrap();
    world.hinted();
    world.walk(0, 0b11, 0, GoneCause::Reclaimed, false);
    world.finish(false);
    world.check_hints().unwrap();
    let counts = world.policy.hint_counts(GROUP, Kind::Anon);
    let pages = (counts.nr_gone_pages, counts.nr_gone_offered_pages);
    assert_eq!(pages, (2, 1), "0 was protected, 1 was offered");
    assert_eq!(counts.nr_compared_pages, 0, "the order was kept of one");
    world.offer(Kind::Anon, 2).unwrap();
    world.hinted();
    world.walk(0, 1 << 2, 0, GoneCause::Reclaimed, false);
    world.finish(false);
    let counts = world.policy.hint_counts(GROUP, Kind::Anon);
    let agreed = (counts.nr_compared_pages, counts.nr_agreed_pages);
    assert_eq!(agreed, (1, 1), "2 was the coldest");
    assert_eq!(
        counts.nr_agreed_by_chance_pages, 0.5,
        "of two that were there"
    );
}
