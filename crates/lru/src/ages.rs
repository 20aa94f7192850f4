//! The ledger of ages: for each page of every watched space, which walk last found it accessed.
//!
//! ```text
//!   start_walk                              a walk is an ageing: it begins a generation
//!     begin, told.., end                    per space that has run: what the page tables hold
//!   count                     -> [`Ages`]         bytes by age and kind, each page once
//!   mapped, used_again        -> [`Ages`], [`Aged`]  how much lies idle, and what of it was used after all, by mapping
//!   picker, then candidates   -> [`Candidates`]   the oldest pages of groups, as runs of addresses
//!   taken, asked                            what of them went; or who reclaims by amount, so that what went is told by the next walk
//!   next walk, refaults       -> [`Refault`]      what of that came back, and how long it was away
//!   brought_back                            but for what nobody asked for: swap was taken down
//! ```
//!
//! Generations are walks, and walks have times, so ages compare across programs and groups. What is shown as idle is
//! what is taken, and what comes back is counted by the same hand. One who only looks calls neither `candidates` nor
//! `taken`.
//!
//! A page's stamp is the number of the walk that last found it accessed. The first walk stamps what is there as merely
//! seen, since its accessed bits may be of any age, and so does a later walk that finds a page without an access (read
//! ahead, copied by fork). A page whose accessed bit nobody can clear has no age: it is unseen until a walk finds the
//! bit clear, and then it is merely seen.
//!
//! **Memory**: 344 bytes for each page table (2 MiB of address space) that has a page in memory or one that was taken,
//! and 2 for each such page: 2.7 bytes a page where tables are full.
//!
//! **Limit**: a page that was taken and freed, and an address that was unmapped and mapped again between two walks,
//! look like a refault when the address is used again.
//!
//! **Owns** stamps, what was taken, and ages. **Does not own** the clock, when walks happen, addresses' meaning beyond
//! what a [`Place`] says, or how pages are taken.
//!
//! **Invariants**
//! - I1: a page has a stamp as long as walks find it in memory or it is away by our hand, and no longer.
//! - I2: what a walk that broke off did not tell of stays as it was.
//! - I3: a page is in memory or taken, never both; it is given as a candidate only while it is in memory.
//! - I4: ages come out exact to a 64th, and never too long.

mod candidates;
mod classes;
mod commons;
mod count;
#[cfg(test)]
mod found_tests;
mod held;
mod huge;
#[cfg(test)]
mod model_tests;
mod nodes;
#[cfg(test)]
mod nodes_tests;
mod on_nodes;
mod places;
#[cfg(test)]
mod shared_tests;
#[cfg(test)]
mod steps_tests;
mod table;
#[cfg(test)]
mod tests;
mod walks;

pub use crate::bits::{Bits, NR_ENTRIES};
pub use candidates::{Candidates, Picker, Query, Run};
pub use classes::{ByClass, PageClass};
pub use count::{Ages, Counted};
pub use held::Generation;
pub use huge::HugePage;
pub use nodes::MovedPages;
pub use on_nodes::{Moved, NODE_BITS, On, STREAK_MAX};
pub use places::{FamilyNo, Home, ObjectNo, Place, Standing};
pub use table::{NrPages, Told};

use crate::bits;
use crate::ids::{GroupId, Kind, SpaceNo};
use std::collections::BTreeMap;
use std::time::Duration;
use table::{Change, Table};
use walks::Walks;

/// Pages to which something happened, by how long they had not been accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aged {
    /// The group of the space that has or had them.
    pub group: GroupId,
    /// What they were.
    pub kind: Kind,
    /// How long they had not been accessed at the last walk.
    pub idle: Duration,
    /// How many.
    pub nr_pages: u64,
}

/// Pages that were taken and that a walk found in memory again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refault {
    /// The group of the space that has them.
    pub group: GroupId,
    /// What they are now.
    pub kind: Kind,
    /// From the walk before they were taken to the walk that found them again.
    pub away: Duration,
    /// How many.
    pub nr_pages: u64,
}

#[derive(Debug, Default)]
struct Space {
    group: GroupId,
    family: FamilyNo,
    /// By address.
    places: Vec<Place>,
    tables: BTreeMap<u64, Box<Table>>,
    nr_walks: u64,
    /// What of [`Space::tables`] is taken.
    nr_taken: NrPages,
    /// Its group was reclaimed from by amount since its last whole walk.
    is_asked: bool,
}

/// Every page of every watched space by the walk that last found it accessed.
#[derive(Debug, Default)]
pub struct Ledger {
    walks: Walks,
    nr_walks: u64,
    spaces: BTreeMap<SpaceNo, Space>,
    found: Found,
}

/// What the last walk found to have become of pages.
#[derive(Debug, Default)]
struct Found {
    /// In memory again: pages by group, kind and the number of the walk before they were taken.
    returned: BTreeMap<(GroupId, Kind, u16), u64>,
    /// Part of that which it did not find accessed.
    returned_unused: BTreeMap<(GroupId, Kind, u16), u64>,
    /// Gone of groups that were reclaimed from by amount: pages by group, kind and the number of the walk that last found
    /// them accessed.
    went: BTreeMap<(GroupId, Kind, u16), u64>,
    /// Accessed of what was in memory and unused: pages likewise.
    used: BTreeMap<(GroupId, Kind, u16), u64>,
}

impl Ledger {
    /// Knows nothing yet.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// A walk begins. `at` is a time on any clock that does not go back; the first is when the watch begins. What the
    /// walk before found again is forgotten.
    pub fn start_walk(&mut self, at: Duration) {
        self.found = Found::default();
        self.nr_walks += 1;
        let Some(new_numbers) = self.walks.start(at) else {
            return;
        };
        for space in self.spaces.values_mut() {
            for table in space.tables.values_mut() {
                table.renumber(&new_numbers);
            }
        }
    }

    /// A space is there that was not. Spaces that came of one another by fork, without an exec, are a family.
    pub fn appeared(&mut self, space: SpaceNo, group: GroupId, family: FamilyNo) {
        let new = Space {
            group,
            family,
            ..Space::default()
        };
        self.spaces.insert(space, new);
    }

    /// A space is in another group from now on, with what was taken of it.
    pub fn moved(&mut self, space: SpaceNo, group: GroupId) {
        if let Some(space) = self.spaces.get_mut(&space) {
            space.group = group;
        }
    }

    /// A space is gone, with its pages and what was taken of it.
    pub fn ended(&mut self, space: SpaceNo) {
        self.spaces.remove(&space);
    }

    /// A walk of a space begins. `places` are its mappings by address; what lies in none is not counted.
    pub fn begin(&mut self, space: SpaceNo, places: impl IntoIterator<Item = Place>) {
        let Some(space) = self.spaces.get_mut(&space) else {
            return;
        };
        space.nr_walks += 1;
        space.places.clear();
        space.places.extend(places);
    }

    /// What the walk found in one page table, numbered by its address. A table may be told of in several parts.
    pub fn told(&mut self, space: SpaceNo, table_no: u64, told: &Told) {
        let walk = table::Now {
            number: self.walks.current(),
            is_first: self.walks.is_first(),
        };
        let Some(space) = self.spaces.get_mut(&space) else {
            return;
        };
        let is_empty = bits::is_empty(told.resident);
        if is_empty && !space.tables.contains_key(&table_no) {
            return;
        }
        let table = space.tables.entry(table_no).or_default();
        table.begin(space.nr_walks);
        let goes_by_amount = space.is_asked;
        let mut books = Books {
            group: space.group,
            nr_taken: &mut space.nr_taken,
            found: &mut self.found,
        };
        table.tell(told, walk, goes_by_amount, &mut |change| books.note(change));
    }

    /// The kernel was asked to reclaim from a group by amount: what the next whole walk of each of its spaces finds gone was
    /// taken. A page of a file that its program gave up counts, too, until its address is used again.
    pub fn asked(&mut self, group: GroupId) {
        let of_group = self.spaces.values_mut();
        let of_group = of_group.filter(|space| space.group == group);
        of_group.for_each(|space| space.is_asked = true);
    }

    /// What the last walk found gone by amount.
    pub fn went(&self) -> Vec<Aged> {
        self.aged(&self.found.went)
    }

    /// What the last walk found accessed again of what was in memory, and had not been accessed for a walk at least. What
    /// several spaces map is told of each that accessed it.
    pub fn used_again(&self) -> Vec<Aged> {
        self.aged(&self.found.used)
    }

    /// Pages by how long they had not been accessed at the walk before the last.
    fn aged(&self, pages: &BTreeMap<(GroupId, Kind, u16), u64>) -> Vec<Aged> {
        let interval = self.walks.last_interval();
        let aged = |(&(group, kind, number), &nr_pages): (&(GroupId, Kind, u16), &u64)| Aged {
            group,
            kind,
            idle: self.walks.age(number).saturating_sub(interval),
            nr_pages,
        };
        pages.iter().map(aged).collect()
    }

    /// Which entries of a table are mapped by several processes, as far as `known`. It holds for a page until it goes or
    /// this says otherwise; a page that came since is taken for its space's own.
    pub fn mapped_by_several(
        &mut self,
        space: SpaceNo,
        table_no: u64,
        known: &Bits,
        several: &Bits,
    ) {
        let space = self.spaces.get_mut(&space);
        if let Some(table) = space.and_then(|space| space.tables.get_mut(&table_no)) {
            table.set_several(known, several);
        }
    }

    /// A table that was just told of stands for a huge page, or not.
    pub fn is_huge(&mut self, space: SpaceNo, table_no: u64, is_huge: bool) {
        let space = self.spaces.get_mut(&space);
        if let Some(table) = space.and_then(|space| space.tables.get_mut(&table_no)) {
            table.is_huge = is_huge;
        }
    }

    /// The walk of a space has ended. `is_whole` is false when it broke off; else tables that it did not tell of are not
    /// in memory, nor is what lies in no place.
    pub fn end(&mut self, space: SpaceNo, is_whole: bool) {
        let Some(space) = self.spaces.get_mut(&space).filter(|_| is_whole) else {
            return;
        };
        let by_amount = std::mem::take(&mut space.is_asked);
        let (places, nr_walks) = (&space.places, space.nr_walks);
        let mut books = Books {
            group: space.group,
            nr_taken: &mut space.nr_taken,
            found: &mut self.found,
        };
        let number = self.walks.current();
        space.tables.retain(|table_no, table| {
            let covered = places::covered(places, *table_no);
            if !table.is_told_in(nr_walks) {
                if by_amount {
                    table.lose_files(&covered, number, &mut |change| books.note(change));
                }
                table.forget_present();
            }
            let dropped = table.forget_outside(&covered);
            books.nr_taken.anon -= dropped.anon;
            books.nr_taken.file -= dropped.file;
            !table.is_empty()
        });
    }

    /// Pages of these runs left memory by our hand. Returns how many were known to be in memory: the others are not
    /// noted.
    pub fn taken(&mut self, runs: &[Run]) -> NrPages {
        let number = self.walks.current();
        let mut sum = NrPages::default();
        for run in runs {
            let Some(space) = self.spaces.get_mut(&run.space) else {
                continue;
            };
            let mut noted = NrPages::default();
            for (table_no, mask) in places::masks(run.first_page, run.first_page + run.nr_pages) {
                if let Some(table) = space.tables.get_mut(&table_no) {
                    noted += table.take(&mask, number);
                }
            }
            space.nr_taken += noted;
            sum += noted;
        }
        sum
    }

    /// Pages of these runs can't be taken: they count as mapped by several until they go.
    pub fn stayed(&mut self, runs: &[Run]) {
        for run in runs {
            let Some(space) = self.spaces.get_mut(&run.space) else {
                continue;
            };
            for (table_no, mask) in places::masks(run.first_page, run.first_page + run.nr_pages) {
                if let Some(table) = space.tables.get_mut(&table_no) {
                    table.stay(&mask);
                }
            }
        }
    }

    /// What stayed of a space's files may be tried again: who held it may be gone, and what was dirty is written.
    pub fn may_go_again(&mut self, space: SpaceNo) {
        let space = self.spaces.get_mut(&space);
        for table in space
            .into_iter()
            .flat_map(|space| space.tables.values_mut())
        {
            table.may_go_again();
        }
    }

    /// Swap was taken down before the last walk or during it, and what was there was brought back: what is in memory again and
    /// was not accessed came back by nobody's use, and is no refault.
    pub fn brought_back(&mut self) {
        for (key, nr_pages) in std::mem::take(&mut self.found.returned_unused) {
            if let Some(returned) = self.found.returned.get_mut(&key) {
                *returned -= nr_pages;
            }
        }
        self.found.returned.retain(|_, nr_pages| *nr_pages > 0);
    }

    /// What the last walk found in memory again that was taken.
    pub fn refaults(&self) -> Vec<Refault> {
        let refault =
            |(&(group, kind, number), &nr_pages): (&(GroupId, Kind, u16), &u64)| Refault {
                group,
                kind,
                away: self.walks.age(number),
                nr_pages,
            };
        self.found.returned.iter().map(refault).collect()
    }

    /// Pages of a group that were taken within `age` and are away still, by space and address.
    pub fn taken_within(&self, group: GroupId, age: Duration) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (no, space) in self.spaces.iter().filter(|(_, one)| one.group == group) {
            for (table_no, table) in &space.tables {
                table.taken(|index, number| {
                    let page = table_no * NR_ENTRIES as u64 + index as u64;
                    if self.walks.age(number) > age {
                        return;
                    }
                    match runs.last_mut() {
                        Some(run) if run.space == *no && run.first_page + run.nr_pages == page => {
                            run.nr_pages += 1;
                        }
                        _ => runs.push(Run {
                            space: *no,
                            first_page: page,
                            nr_pages: 1,
                            idle: self.walks.age(number),
                        }),
                    }
                });
            }
        }
        runs
    }

    /// Pages of a group that are away by our hand.
    pub fn nr_taken(&self, group: GroupId) -> NrPages {
        let of_group = self.spaces.values().filter(|space| space.group == group);
        of_group.map(|space| space.nr_taken).sum()
    }

    /// The spaces and their groups.
    pub fn spaces(&self) -> impl Iterator<Item = (SpaceNo, GroupId)> {
        self.spaces.iter().map(|(no, space)| (*no, space.group))
    }

    /// Numbers of the tables of a space that have a page in memory.
    pub fn tables(&self, space: SpaceNo) -> impl Iterator<Item = u64> {
        let tables = self.spaces.get(&space).map(|space| &space.tables);
        let tables = tables.into_iter().flatten();
        tables.filter_map(|(no, table)| (!bits::is_empty(table.present)).then_some(*no))
    }

    /// Places with a page in memory: their space, and their index among those its last walk began with.
    pub fn held_places(&self) -> impl Iterator<Item = (SpaceNo, usize)> {
        let of_space = |(no, space): (&SpaceNo, &Space)| {
            let (no, held) = (*no, space.held_places());
            held.into_iter().map(move |index| (no, index))
        };
        self.spaces.iter().flat_map(of_space)
    }

    /// What the last walk of a space began with.
    pub fn places(&self, space: SpaceNo) -> &[Place] {
        let space = self.spaces.get(&space);
        space.map_or(&[], |space| &space.places)
    }

    /// Time between the first walk and the last: nothing is known of accesses before.
    pub fn watched(&self) -> Duration {
        self.walks.watched()
    }

    /// Time between the last walk and the one before.
    pub fn last_interval(&self) -> Duration {
        self.walks.last_interval()
    }

    /// Memory that tables take, bytes.
    pub fn footprint_bytes(&self) -> u64 {
        let tables = self.spaces.values().flat_map(|space| space.tables.values());
        tables.map(|table| table.footprint_bytes() as u64).sum()
    }

    /// Recounts everything.
    ///
    /// # Errors
    /// What does not agree.
    pub fn validate(&self) -> Result<(), String> {
        for (no, space) in &self.spaces {
            let mut nr_taken = NrPages::default();
            for (table_no, table) in &space.tables {
                let at = |error| format!("space {} table {table_no}: {error}", no.0);
                table
                    .validate(self.walks.len(), space.nr_walks)
                    .and_then(|()| table.validate_nodes())
                    .map_err(at)?;
                nr_taken += table.nr_taken();
            }
            if nr_taken != space.nr_taken {
                let (counted, kept) = (nr_taken, space.nr_taken);
                return Err(format!("space {}: taken {counted:?}, kept {kept:?}", no.0));
            }
        }
        let by_space = self.count(self.spaces.len(), |space, _| {
            self.spaces.keys().position(|no| *no == space)
        });
        let in_parts: u64 = by_space
            .parts
            .iter()
            .map(|ages| ages.resident().total())
            .sum();
        let once = by_space.total.resident().total();
        if once > in_parts {
            return Err(format!("{once} pages in all, {in_parts} in all spaces"));
        }
        Ok(())
    }
}

/// Where what becomes of pages is entered.
struct Books<'a> {
    group: GroupId,
    nr_taken: &'a mut NrPages,
    found: &'a mut Found,
}

impl Books<'_> {
    fn note(&mut self, change: Change) {
        let (group, found) = (self.group, &mut *self.found);
        match change {
            Change::Back(taken_as, back_as, number, is_used) => {
                let key = (group, back_as, number);
                *found.returned.entry(key).or_default() += 1;
                if !is_used {
                    *found.returned_unused.entry(key).or_default() += 1;
                }
                *self.nr_taken.of_mut(taken_as) -= 1;
            }
            Change::Freed(kind) => *self.nr_taken.of_mut(kind) -= 1,
            Change::Went(kind, number) => {
                *found.went.entry((group, kind, number)).or_default() += 1;
                *self.nr_taken.of_mut(kind) += 1;
            }
            Change::Used(kind, number) => {
                *found.used.entry((group, kind, number)).or_default() += 1;
            }
        }
    }
}

impl Space {
    fn held_places(&self) -> Vec<usize> {
        let is_held = |place: &Place| {
            let mut is_held = false;
            self.visit(place, &mut |_, table, mask| {
                is_held |= !bits::is_empty(bits::and(table.present, *mask));
            });
            is_held
        };
        let places = self.places.iter().enumerate();
        let held = places.filter(|(_, place)| is_held(place));
        held.map(|(index, _)| index).collect()
    }
}
