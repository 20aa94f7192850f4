//! What may be taken: the pages of a group that have not been accessed for long, oldest first.
//!
//! What several spaces map is looked up once for all groups that are asked of ([`Picker`]): with many groups that is most of
//! the work.
//!
//! **Owns** the choice. **Does not own** ages (`count`), nor what becomes of the pages ([`Ledger::taken`]).
//!
//! **Invariants**
//! - I1: none of the pages that are left out is older than one that is given, while there is room.
//! - I2: what several spaces map, what is locked and what can't be seen is never given.

use super::commons::{Commons, Mapper};
use super::places::Standing;
use super::table::{self, Bits};
use super::{Ledger, Space};
use crate::ids::{GroupId, Kind, SpaceNo};
use std::collections::BTreeMap;
use std::time::Duration;

/// Which pages are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Of this group.
    pub group: GroupId,
    /// Of this kind; `None` for both.
    pub kind: Option<Kind>,
    /// Not accessed for at least so long, in the sense of [`super::Ages::idle_for`].
    pub older_than: Duration,
    /// The most of them.
    pub nr_pages_max: u64,
}

/// Neighbouring pages of one age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whose they are.
    pub space: SpaceNo,
    /// Number of the first: its address in pages.
    pub first_page: u64,
    /// How many.
    pub nr_pages: u64,
    /// How long they have certainly not been accessed.
    pub idle: Duration,
}

/// What [`Picker::candidates`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidates {
    /// Oldest first; of one age by space and address.
    pub runs: Vec<Run>,
    /// Pages in these.
    pub nr_pages: u64,
    /// Pages that fit the query, whether there was room for them or not.
    pub nr_fitting_pages: u64,
}

/// Finds pages of any group, in the ledger as it is.
#[derive(Debug)]
pub struct Picker<'a> {
    ledger: &'a Ledger,
    commons: Commons,
    spaces: BTreeMap<GroupId, Vec<(SpaceNo, &'a Space)>>,
}

impl Ledger {
    /// To be asked for the oldest pages of groups.
    pub fn picker(&self) -> Picker<'_> {
        let mut spaces: BTreeMap<GroupId, Vec<(SpaceNo, &Space)>> = BTreeMap::new();
        for (no, space) in &self.spaces {
            spaces.entry(space.group).or_default().push((*no, space));
        }
        Picker {
            ledger: self,
            commons: Commons::of(self),
            spaces,
        }
    }
}

impl Picker<'_> {
    /// The oldest pages of a group that are older than an age.
    pub fn candidates(&self, query: &Query) -> Candidates {
        let walks = &self.ledger.walks;
        let is_old: Vec<bool> = (0..walks.len())
            .map(|number| walks.age(number as u16) >= query.older_than)
            .collect();
        let mut nr_of_walk = vec![0u64; is_old.len()];
        self.visit_fitting(query, &mut |_, _, number| {
            if is_old.get(number).copied().unwrap_or_default() {
                nr_of_walk[number] += 1;
            }
        });
        // How many of each walk's pages there is room for.
        let mut room = query.nr_pages_max;
        let mut wanted = nr_of_walk.clone();
        for nr_pages in &mut wanted {
            *nr_pages = room.min(*nr_pages);
            room -= *nr_pages;
        }
        let mut runs: BTreeMap<usize, Vec<Run>> = BTreeMap::new();
        self.visit_fitting(query, &mut |space, page, number| {
            let Some(left) = wanted.get_mut(number).filter(|left| **left > 0) else {
                return;
            };
            *left -= 1;
            let of_walk = runs.entry(number).or_default();
            match of_walk.last_mut() {
                Some(run) if run.space == space && run.first_page + run.nr_pages == page => {
                    run.nr_pages += 1;
                }
                _ => of_walk.push(Run {
                    space,
                    first_page: page,
                    nr_pages: 1,
                    idle: walks.age(number as u16),
                }),
            }
        });
        Candidates {
            runs: runs.into_values().flatten().collect(),
            nr_pages: query.nr_pages_max - room,
            nr_fitting_pages: nr_of_walk.iter().sum(),
        }
    }

    /// Calls `each` with the space, page and walk of every page that a query's group and kind allow.
    fn visit_fitting(&self, query: &Query, each: &mut dyn FnMut(SpaceNo, u64, usize)) {
        for (no, space) in self.spaces.get(&query.group).into_iter().flatten() {
            let places = space.places.iter();
            for place in places.filter(|place| place.standing == Standing::Ordinary) {
                let mapper = Mapper {
                    family: space.family,
                    place,
                    part: None,
                };
                space.visit(place, &mut |table_no, table, mask| {
                    let (own, common) = space.split(place, table, mask);
                    let alone = self.commons.alone(mapper, table_no, table, &common);
                    let pages: Bits = std::array::from_fn(|word| {
                        let pages = (own[word] | alone[word]) & !table.unseen[word];
                        match query.kind {
                            None => pages,
                            Some(Kind::Anon) => pages & table.anon[word],
                            Some(Kind::File) => pages & !table.anon[word],
                        }
                    });
                    let stamps = table.stamps();
                    table::ones(&pages, |index| {
                        let page = table_no * table::NR_ENTRIES as u64 + index as u64;
                        each(*no, page, usize::from(stamps[index].number()));
                    });
                });
            }
        }
    }
}
