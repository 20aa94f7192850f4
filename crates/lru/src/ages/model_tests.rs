//! The ledger against a map that remembers each page by itself.

use super::found_tests::{Found, pages, places, tell};
use super::steps_tests::{NR_GROUPS, NR_SPACES, Step, step};
use super::tests::{older_than, set};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A page as the model remembers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// It is not in memory, and went by our hand.
    is_taken: bool,
    is_anon: bool,
    is_several: bool,
    is_unseen: bool,
    /// The walk before and the walk that last saw it accessed or, failing that, first saw it, or was the last before it
    /// was taken.
    since_s: u64,
    pub(super) at_s: u64,
    was_accessed: bool,
}

#[derive(Clone, Debug)]
struct ModelSpace {
    group: u16,
    family: u8,
    places: Vec<Place>,
    pages: BTreeMap<u64, Page>,
    is_asked: bool,
}

/// What makes two mapped pages one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Identity {
    Own(u8, u64),
    Family(u8, u64),
    Object(u64, u64),
}

/// A page that is in memory, with all who map it.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    pub(super) mappers: Vec<(u8, u64)>,
    pub(super) groups: BTreeSet<u16>,
    is_anon: bool,
    pub(super) is_several: bool,
    pub(super) is_unseen: bool,
    pub(super) youngest: Page,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    spaces: BTreeMap<u8, ModelSpace>,
    times_s: Vec<u64>,
    /// Group, whether anonymous, seconds away.
    returned: BTreeMap<(u16, bool, u64), u64>,
    /// Group, whether anonymous, seconds not accessed at the walk before.
    went: BTreeMap<(u16, bool, u64), u64>,
    used: BTreeMap<(u16, bool, u64), u64>,
}

impl Model {
    pub(super) fn now_s(&self) -> u64 {
        self.times_s.last().copied().unwrap_or_default()
    }

    fn start_walk(&mut self, at_s: u64) {
        self.times_s.push(at_s);
        self.returned.clear();
        self.went.clear();
        self.used.clear();
    }

    fn tell(&mut self, space: u8, places: Vec<Place>, found: &[Found], nr_tables: usize) {
        let now_s = self.now_s();
        let since_s = self.times_s.iter().rev().nth(1).copied().unwrap_or(now_s);
        let is_first = self.times_s.len() == 1;
        let Some(space) = self.spaces.get_mut(&space) else {
            return;
        };
        let is_whole = nr_tables * NR_ENTRIES >= found.len();
        for (number, page) in found.iter().enumerate().take(nr_tables * NR_ENTRIES) {
            let number = number as u64;
            let of = |place: &&Place| (place.first_page..place.end_page).contains(&number);
            let place = places.iter().find(of);
            let Some(place) = place else { continue };
            let of_table = found
                .chunks(NR_ENTRIES)
                .nth(number as usize / NR_ENTRIES)
                .unwrap();
            let is_told = of_table.iter().any(|page| page.is_present);
            if !page.is_present {
                let Some(known) = space.pages.get_mut(&number) else {
                    continue;
                };
                let is_freed = is_told && page.is_empty && place.home == Home::Private;
                let may_have_gone = (is_told && !is_freed) || (is_whole && !known.is_anon);
                if !known.is_taken && may_have_gone && space.is_asked {
                    // The walk before that one, as time is told here.
                    let key = (
                        space.group,
                        known.is_anon,
                        since_s.saturating_sub(known.at_s),
                    );
                    *self.went.entry(key).or_default() += 1;
                    *known = Page {
                        is_taken: true,
                        is_several: false,
                        is_unseen: false,
                        at_s: now_s,
                        ..*known
                    };
                }
                let stays = known.is_taken && !is_freed || !(is_told || is_whole);
                if !stays {
                    space.pages.remove(&number);
                }
                continue;
            }
            let is_anon = place.home == Home::Private || page.is_anon;
            if let Some(away) = space.pages.get(&number).filter(|page| page.is_taken) {
                let key = (space.group, is_anon, now_s - away.at_s);
                *self.returned.entry(key).or_default() += 1;
                space.pages.remove(&number);
            }
            let new = Page {
                is_taken: false,
                is_anon,
                is_several: false,
                is_unseen: page.is_unseen,
                since_s,
                at_s: now_s,
                was_accessed: page.is_accessed && !is_first && !page.is_unseen,
            };
            let known = space.pages.entry(number).or_insert(new);
            known.is_anon = is_anon;
            let is_regained = known.is_unseen && !page.is_unseen;
            known.is_unseen = page.is_unseen;
            if new.was_accessed && !is_regained && known.at_s < since_s {
                // Of what could not be seen before nothing is known.
                let key = (space.group, known.is_anon, since_s - known.at_s);
                *self.used.entry(key).or_default() += 1;
            }
            if new.was_accessed || is_regained {
                let is_several = known.is_several;
                *known = Page { is_several, ..new };
            }
        }
        if is_whole {
            let is_mapped = |number: &u64| {
                let covers = |place: &Place| (place.first_page..place.end_page).contains(number);
                places.iter().any(covers)
            };
            space.pages.retain(|number, _| is_mapped(number));
            space.is_asked = false;
        }
        space.places = places;
    }

    pub(super) fn place_of(&self, space: u8, number: u64) -> Option<Place> {
        let covers = |place: &&Place| (place.first_page..place.end_page).contains(&number);
        self.spaces[&space].places.iter().find(covers).copied()
    }

    /// Every page that is in memory and in a place, once.
    pub(super) fn wholes(&self) -> BTreeMap<Identity, Whole> {
        let mut wholes: BTreeMap<Identity, Whole> = BTreeMap::new();
        for (no, space) in &self.spaces {
            for (number, page) in space.pages.iter().filter(|(_, page)| !page.is_taken) {
                let Some(place) = self.place_of(*no, *number) else {
                    continue;
                };
                let own = match page.is_several {
                    true => Identity::Family(space.family, *number),
                    false => Identity::Own(*no, *number),
                };
                let identity = match place.home {
                    Home::Private => own,
                    Home::Copied(..) if page.is_anon => own,
                    Home::Copied(object, at) | Home::Shared(object, at) => {
                        Identity::Object(object.0, at + number - place.first_page)
                    }
                };
                let whole = wholes.entry(identity).or_insert(Whole {
                    mappers: Vec::new(),
                    groups: BTreeSet::new(),
                    is_anon: false,
                    is_several: false,
                    is_unseen: false,
                    youngest: *page,
                });
                whole.mappers.push((*no, *number));
                whole.groups.insert(space.group);
                whole.is_anon |= page.is_anon;
                whole.is_several |= page.is_several;
                whole.is_unseen |= place.standing == Standing::Unseen || page.is_unseen;
                let age = |page: &Page| (page.at_s, page.was_accessed);
                if age(page) > age(&whole.youngest) {
                    whole.youngest = *page;
                }
            }
        }
        wholes
    }

    fn check(&self, ledger: &Ledger, window_s: u64) -> Result<(), TestCaseError> {
        let wholes = self.wholes();
        let now_s = self.now_s();
        let window = Duration::from_secs(window_s);
        let group_of = |no: u32| self.spaces[&(no as u8)].group;
        let counted = ledger.count(usize::from(NR_GROUPS), |space, _| {
            Some(usize::from(group_of(space.0)))
        });
        // What one group does not count is no less shared for it.
        let alone = ledger.count(1, |space, _| (group_of(space.0) == 0).then_some(0));
        prop_assert_eq!(&alone.parts[0], &counted.parts[0]);
        prop_assert_eq!(&alone.total, &counted.parts[0]);
        let everybody =
            (0..NR_GROUPS).map(|group| (Some(group), &counted.parts[usize::from(group)]));
        for (group, ages) in everybody.chain([(None, &counted.total)]) {
            let sum = |wanted: &dyn Fn(&Whole) -> bool| {
                let mut sum = NrPages::default();
                let is_in =
                    |whole: &&Whole| group.is_none_or(|group| whole.groups.contains(&group));
                for whole in wholes.values().filter(is_in).filter(|whole| wanted(whole)) {
                    *if whole.is_anon {
                        &mut sum.anon
                    } else {
                        &mut sum.file
                    } += 1;
                }
                sum
            };
            prop_assert_eq!(ages.resident(), sum(&|_| true));
            prop_assert_eq!(ages.unseen(), sum(&|whole| whole.is_unseen));
            prop_assert_eq!(
                ages.accessed_within(window),
                // The middle of the interval, doubled; or the last walk.
                sum(&|w| {
                    let p = w.youngest;
                    let is_within =
                        2 * now_s - p.since_s - p.at_s <= 2 * window_s || p.at_s == now_s;
                    !w.is_unseen && p.was_accessed && is_within
                })
            );
            prop_assert_eq!(
                ages.idle_for(window),
                sum(&|w| !w.is_unseen && now_s - w.youngest.at_s >= window_s)
            );
            prop_assert_eq!(
                ages.last_used_before(window),
                sum(&|w| {
                    let p = w.youngest;
                    let is_before = 2 * now_s - p.since_s - p.at_s > 2 * window_s;
                    !w.is_unseen && is_before && p.at_s != now_s
                })
            );
            let by_strangers = |w: &Whole| w.is_several && w.mappers.len() == 1;
            prop_assert_eq!(
                ages.shared(),
                sum(&|w| by_strangers(w) || group.is_some() && w.groups.len() > 1)
            );
            let (mut taken, mut mapped) = (NrPages::default(), NrPages::default());
            let is_in =
                |(_, space): &(&u8, &ModelSpace)| group.is_none_or(|group| space.group == group);
            for (no, space) in self.spaces.iter().filter(is_in) {
                for (number, page) in space.pages.iter().filter(|(_, page)| page.is_taken) {
                    *if page.is_anon {
                        &mut taken.anon
                    } else {
                        &mut taken.file
                    } += 1;
                    if self.place_of(*no, *number).is_some() {
                        *if page.is_anon {
                            &mut mapped.anon
                        } else {
                            &mut mapped.file
                        } += 1;
                    }
                }
            }
            prop_assert_eq!(ages.taken(), mapped);
            if let Some(group) = group {
                prop_assert_eq!(ledger.nr_taken(GroupId(group)), taken);
            }
        }
        for (no, space) in &self.spaces {
            let within = |run: &Run| run.space.0 == u32::from(*no) && run.idle <= window;
            let runs = ledger.taken_within(GroupId(space.group), window);
            let given = runs
                .iter()
                .filter(|run| within(run))
                .map(|run| run.nr_pages);
            let taken = space.pages.values().filter(|page| page.is_taken);
            let nr_taken = taken.filter(|page| now_s - page.at_s <= window_s).count();
            prop_assert_eq!(given.sum::<u64>(), nr_taken as u64);
        }
        let mut returned = BTreeMap::new();
        for refault in ledger.refaults() {
            let is_anon = refault.kind == Kind::Anon;
            let key = (refault.group.0, is_anon, refault.away.as_secs());
            *returned.entry(key).or_default() += refault.nr_pages;
        }
        prop_assert_eq!(&returned, &self.returned);
        let mut went = BTreeMap::new();
        for one in ledger.went() {
            let key = (one.group.0, one.kind == Kind::Anon, one.idle.as_secs());
            *went.entry(key).or_default() += one.nr_pages;
        }
        prop_assert_eq!(&went, &self.went);
        let mut used = BTreeMap::new();
        for one in ledger.used_again() {
            let key = (one.group.0, one.kind == Kind::Anon, one.idle.as_secs());
            *used.entry(key).or_default() += one.nr_pages;
        }
        prop_assert_eq!(&used, &self.used);
        let mapped = ledger.mapped();
        for group in 0..NR_GROUPS {
            let of_group = self.spaces.iter().filter(|(_, space)| space.group == group);
            let is_in_sight = |no: &u8, number: &u64| {
                let place = self.place_of(*no, *number);
                place.is_some_and(|place| place.standing != Standing::Unseen)
            };
            let pages = of_group.flat_map(|(no, space)| {
                let pages = space.pages.iter();
                let seen = pages.filter(|(number, _)| is_in_sight(no, number));
                seen.map(|(_, page)| page)
            });
            let idle = pages
                .filter(|page| !page.is_taken && !page.is_unseen && now_s - page.at_s >= window_s);
            let told = mapped
                .get(&GroupId(group))
                .map(|ages| ages.idle_for(window));
            let told = told.unwrap_or_default();
            let (anon, file): (Vec<&Page>, Vec<&Page>) = idle.partition(|page| page.is_anon);
            prop_assert_eq!(
                (told.anon, told.file),
                (anon.len() as u64, file.len() as u64)
            );
        }
        Ok(())
    }

    /// Age, space and page of what may be taken, in the order in which it is given.
    fn candidates(&self, group: u16, kind: Option<Kind>, older_s: u64) -> Vec<(u64, u8, u64)> {
        let mut fitting = Vec::new();
        for whole in self.wholes().values() {
            let [(space, number)] = whole.mappers.as_slice() else {
                continue;
            };
            let place = self.place_of(*space, *number).unwrap();
            let kind_of = if whole.is_anon {
                Kind::Anon
            } else {
                Kind::File
            };
            let is_code = place.standing == Standing::Code && !whole.is_anon;
            let older_s = if is_code { 2 * older_s } else { older_s };
            let is_fitting = matches!(place.standing, Standing::Ordinary | Standing::Code)
                && !whole.is_several
                && !whole.is_unseen
                && whole.groups.contains(&group)
                && kind.is_none_or(|kind| kind == kind_of)
                && self.now_s() - whole.youngest.at_s >= older_s;
            if is_fitting {
                fitting.push((whole.youngest.at_s, *space, *number));
            }
        }
        fitting.sort_unstable();
        fitting
    }
}

fn appear(ledger: &mut Ledger, model: &mut Model, space: u8, group: u16, family: u8) {
    ledger.appeared(
        SpaceNo(space.into()),
        GroupId(group),
        FamilyNo(family.into()),
    );
    let new = ModelSpace {
        group,
        family,
        places: Vec::new(),
        pages: BTreeMap::new(),
        is_asked: false,
    };
    model.spaces.insert(space, new);
}

fn take(
    ledger: &mut Ledger,
    model: &mut Model,
    query: &Query<'_>,
    spared_nth: usize,
) -> Result<(), TestCaseError> {
    let given = ledger.picker().candidates(query);
    let wanted = model.candidates(query.group.0, query.kind, query.older_than.as_secs());
    prop_assert_eq!(given.nr_fitting_pages, wanted.len() as u64);
    let wanted = &wanted[..wanted.len().min(query.nr_pages_max as usize)];
    let now_s = model.now_s();
    let page_of = |run: &Run| {
        let (at_s, space) = (now_s - run.idle.as_secs(), run.space.0 as u8);
        let pages = run.first_page..run.first_page + run.nr_pages;
        pages.map(move |page| (at_s, space, page))
    };
    let pages: Vec<(u64, u8, u64)> = given.runs.iter().flat_map(page_of).collect();
    prop_assert_eq!(&pages, wanted);
    prop_assert_eq!(given.nr_pages, wanted.len() as u64);
    let went: Vec<Run> = given
        .runs
        .iter()
        .enumerate()
        .filter(|(index, _)| index % 5 != spared_nth)
        .map(|(_, run)| *run)
        .collect();
    let noted = ledger.taken(&went);
    prop_assert_eq!(
        noted.total(),
        went.iter().map(|run| run.nr_pages).sum::<u64>()
    );
    for (_, space, number) in went.iter().flat_map(page_of) {
        let pages = &mut model.spaces.get_mut(&space).unwrap().pages;
        let page = pages.get_mut(&number).unwrap();
        *page = Page {
            is_taken: true,
            is_several: false,
            is_unseen: false,
            at_s: now_s,
            ..*page
        };
    }
    // What is away already can't be taken.
    prop_assert_eq!(ledger.taken(&went), NrPages::default());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_answer_agrees_with_a_map_of_pages(
        steps in prop::collection::vec(step(), 1..40),
        window_s in 0u64..200,
    ) {
        let mut ledger = Ledger::new();
        let mut model = Model::default();
        let mut now_s = 0;
        ledger.start_walk(Duration::ZERO);
        model.start_walk(0);
        for space in 0..NR_SPACES {
            appear(&mut ledger, &mut model, space, u16::from(space) % NR_GROUPS, space / 2);
        }
        for step in steps {
            match step {
                Step::Appear(space, group, family) => {
                    appear(&mut ledger, &mut model, space, group, family);
                }
                Step::Move(space, group) => {
                    ledger.moved(SpaceNo(space.into()), GroupId(group));
                    if let Some(space) = model.spaces.get_mut(&space) {
                        space.group = group;
                    }
                }
                Step::End(space) => {
                    ledger.ended(SpaceNo(space.into()));
                    model.spaces.remove(&space);
                }
                Step::Several(space, seed) => {
                    let found = pages(seed);
                    for table_no in 0..3u64 {
                        let (mut known, mut several) = ([0; 8], [0; 8]);
                        let of_table = found.iter().enumerate().skip(table_no as usize * NR_ENTRIES);
                        for (number, page) in of_table.take(NR_ENTRIES) {
                            let index = number % NR_ENTRIES;
                            if page.is_present {
                                set(&mut known, index);
                            }
                            if page.is_accessed {
                                set(&mut several, index);
                            }
                            let space = model.spaces.get_mut(&space);
                            let of_model = space.and_then(|s| s.pages.get_mut(&(number as u64)));
                            if let Some(of_model) = of_model.filter(|p| page.is_present && !p.is_taken) {
                                of_model.is_several = page.is_accessed;
                            }
                        }
                        ledger.mapped_by_several(SpaceNo(space.into()), table_no, &known, &several);
                    }
                }
                Step::Walk(seconds, looks, asked) => {
                    now_s += seconds;
                    ledger.start_walk(Duration::from_secs(now_s));
                    model.start_walk(now_s);
                    let mut told = BTreeSet::new();
                    for group in asked {
                        ledger.asked(GroupId(group));
                        let of_group = model.spaces.values_mut().filter(|space| space.group == group);
                        of_group.for_each(|space| space.is_asked = true);
                    }
                    for (space, seed, without, nr_tables) in looks {
                        if told.insert(space) {
                            let (places, found) = (places(space, without), pages(seed));
                            tell(&mut ledger, SpaceNo(space.into()), &places, &found, nr_tables);
                            model.tell(space, places, &found, nr_tables);
                            for table_no in 0..3 {
                                let here = [[0; 8]; NODE_BITS];
                                ledger.placed(SpaceNo(space.into()), table_no, &[u64::MAX; 8], &here);
                            }
                        }
                    }
                }
                Step::Take(group, kind, older_s, nr_pages_max, spared_nth) => {
                    let query = Query {
                        kind,
                        code_older_than: Duration::from_secs(2 * older_s),
                        nr_pages_max,
                        ..older_than(group, older_s)
                    };
                    take(&mut ledger, &mut model, &query, spared_nth)?;
                }
            }
            prop_assert_eq!(ledger.validate(), Ok(()));
            model.check(&ledger, window_s)?;
            model.check_shared(&ledger, window_s / 2)?;
        }
    }
}
