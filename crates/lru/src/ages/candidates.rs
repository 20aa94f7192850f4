//! What may be taken: the pages of a group that have not been accessed for long, oldest first.
//!
//! What several spaces map is looked up once for all groups that are asked of ([`Picker`]): with many groups that is most of
//! the work.
//!
//! **Owns** the choice. **Does not own** ages (`count`), nor what becomes of the pages ([`Ledger::taken`]).
//!
//! **Invariants**
//! - I1: none of the pages that are left out is older than one that is given, while there is room; but code may be spared.
//! - I2: what is locked and what can't be seen is never given; what several spaces map only where it is to go to another
//!   memory node, and all that are known to map it are of the group.

use super::commons::{Commons, Mapper};
use super::on_nodes::On;
use super::places::{Home, ObjectNo, Place, Standing};
use super::table::{self, Stamp};
use super::{Ledger, Space};
use crate::bits::{self, NR_ENTRIES};
use crate::ids::{GroupId, Kind, SpaceNo};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Which pages are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    /// Of this group.
    pub group: GroupId,
    /// Of this kind; `None` for both.
    pub kind: Option<Kind>,
    /// Not accessed for at least so long, in the sense of [`super::Ages::idle_for`].
    pub older_than: Duration,
    /// The age of code: pages of files in places that stand as [`Standing::Code`].
    pub code_older_than: Duration,
    /// Only where one of these is mapped; `None`: anywhere.
    pub objects: Option<&'a BTreeSet<ObjectNo>>,
    /// Only on some memory nodes; `None`: wherever they are.
    pub on: Option<On>,
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
    /// As `runs`: what is mapped more than once, as one space maps it, and how often spaces of the group map it. More than
    /// 255 times is told as 255.
    pub shared: Vec<(Run, u8)>,
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

impl Query<'_> {
    fn allows(&self, place: &Place) -> bool {
        let can_go = match place.standing {
            Standing::Ordinary | Standing::Code => true,
            Standing::Bound => !self.on.is_some_and(|on| on.is_move),
            Standing::Kept | Standing::Unseen => false,
        };
        let is_asked = self.objects.is_none_or(|objects| match place.home {
            Home::Private => false,
            Home::Copied(object, _) | Home::Shared(object, _) => objects.contains(&object),
        });
        can_go && is_asked
    }
}

impl Picker<'_> {
    /// The oldest pages of a group that are older than an age.
    pub fn candidates(&self, query: &Query<'_>) -> Candidates {
        let walks = &self.ledger.walks;
        let mut nr_of_walk = vec![0u64; walks.len()];
        self.visit_fitting(query, &mut |_, _, number, _| nr_of_walk[number] += 1);
        // How many of each walk's pages there is room for.
        let mut room = query.nr_pages_max;
        let mut wanted = nr_of_walk.clone();
        for nr_pages in &mut wanted {
            *nr_pages = room.min(*nr_pages);
            room -= *nr_pages;
        }
        let mut runs = BTreeMap::<usize, Vec<(Run, u8)>>::new();
        self.visit_fitting(query, &mut |space, page, number, nr_mappings| {
            let left = &mut wanted[number];
            if *left == 0 {
                return;
            }
            *left -= 1;
            let of_walk = runs.entry(number).or_default();
            match of_walk.last_mut() {
                Some((run, of_run))
                    if run.space == space
                        && run.first_page + run.nr_pages == page
                        && *of_run == nr_mappings =>
                {
                    run.nr_pages += 1;
                }
                _ => of_walk.push((
                    Run {
                        space,
                        first_page: page,
                        nr_pages: 1,
                        idle: walks.age(number as u16),
                    },
                    nr_mappings,
                )),
            }
        });
        let (alone, shared): (Vec<_>, Vec<_>) = runs
            .into_values()
            .flatten()
            .partition(|(_, nr_mappings)| *nr_mappings == 1);
        Candidates {
            runs: alone.into_iter().map(|(run, _)| run).collect(),
            shared,
            nr_pages: query.nr_pages_max - room,
            nr_fitting_pages: nr_of_walk.iter().sum(),
        }
    }

    /// Calls `each` with the space, page and walk of every page that fits, and how often it is mapped.
    fn visit_fitting(&self, query: &Query<'_>, each: &mut dyn FnMut(SpaceNo, u64, usize, u8)) {
        let walks = &self.ledger.walks;
        let are_older = |than| -> Vec<bool> {
            let numbers = 0..walks.len();
            numbers.map(|no| walks.age(no as u16) >= than).collect()
        };
        let (is_old, is_old_code) = (
            are_older(query.older_than),
            are_older(query.code_older_than),
        );
        let is_move = query.on.is_some_and(|on| on.is_move);
        let mut given = BTreeMap::new();
        for (no, space) in self.spaces.get(&query.group).into_iter().flatten() {
            for place in space.places.iter().filter(|place| query.allows(place)) {
                let of_file = match place.standing {
                    Standing::Code => &is_old_code,
                    Standing::Ordinary | Standing::Bound | Standing::Kept | Standing::Unseen => {
                        &is_old
                    }
                };
                let mapper = Mapper {
                    family: space.family,
                    place,
                    part: Some(usize::from(space.group.0)),
                };
                space.visit(place, &mut |table_no, table, mask| {
                    let (own, common) = space.split(place, table, mask);
                    let alone = self.commons.alone(mapper, table_no, table, &common);
                    let fitting = query.on.map_or([u64::MAX; 8], |on| table.fitting(&on));
                    let asked = bits::without(fitting, table.unseen);
                    let asked = match query.kind {
                        None => asked,
                        Some(Kind::Anon) => bits::and(asked, table.anon),
                        Some(Kind::File) => bits::without(asked, table.anon),
                    };
                    let mut tell = |index: usize, stamp: Stamp, nr_mappings| {
                        let page = table_no * NR_ENTRIES as u64 + index as u64;
                        let number = usize::from(stamp.number());
                        let is_old = match table::kind_at(&table.anon, index) {
                            Kind::Anon => &is_old,
                            Kind::File => of_file,
                        };
                        if is_old.get(number).copied().unwrap_or_default() {
                            each(*no, page, number, nr_mappings);
                        }
                    };
                    let stamps = table.stamps();
                    let pages = bits::and(bits::or(own, alone), asked);
                    bits::ones(pages).for_each(|index| tell(index, stamps[index], 1));
                    if is_move {
                        let pages = bits::and(common, asked);
                        let commons = &self.commons;
                        let found =
                            commons.within_part(mapper, table_no, table, &pages, &mut given);
                        for page in found {
                            tell(page.index, page.stamp, page.nr_mappings);
                        }
                    }
                });
            }
        }
    }
}
