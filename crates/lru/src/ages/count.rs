//! What is in memory by age: the answer to how much is needed and how much lies idle.
//!
//! ```text
//!        walk          walk          walk = now
//!   ......|.............|.............|
//!         | a page found accessed here: used somewhere in between
//!         |<- idle at least this long ->   (idle_for goes by the near end)
//!      |<- used this long ago, about ->    (accessed_within goes by the middle)
//! ```
//!
//! A page counts once, however many spaces map it, and is as young as its youngest mapper says. One that several parts
//! map counts in each of them, and once in the total.
//!
//! **Owns** the arithmetic of windows and bounds, and the counting. **Does not own** the stamps it is counted from.
//!
//! **Invariants**
//! - I1: what is accessed within a window is never more than what is resident, and grows with the window; what is idle
//!   for a time shrinks with the time.
//! - I2: what can't be seen is neither accessed nor idle.

use super::classes::{ByClass, PageClass};
use super::commons::{Common, Commons, Mapper, Owner};
use super::on_nodes::On;
use super::places::{Home, Place, Standing};
use super::table::{self, Stamp, Stamps, Table};
use super::{Ledger, NrPages, Space};
use crate::bits::{self, Bits, NONE, NR_ENTRIES};
use crate::ids::{GroupId, SpaceNo};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pages last used at about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cohort {
    /// Time since the walk that found them.
    idle: Duration,
    /// Time since the middle of the interval that walk looked back on.
    middle: Duration,
    /// False if they were only ever seen to be there, since that walk.
    was_accessed: bool,
    nr_pages: ByClass,
}

/// Pages in memory by the time of their last access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ages {
    cohorts: Vec<Cohort>,
    unseen: ByClass,
    shared: NrPages,
    taken: ByClass,
}

impl Ages {
    /// All that is in memory.
    pub fn resident(&self) -> NrPages {
        self.by_class().into()
    }

    /// What is in memory and may be accessed without a trace: its age is unknown.
    pub fn unseen(&self) -> NrPages {
        self.unseen.into()
    }

    /// What is in memory and is known to be mapped by others, too: by spaces of no part or of another part.
    pub fn shared(&self) -> NrPages {
        self.shared
    }

    /// What is not in memory because it was taken.
    pub fn taken(&self) -> NrPages {
        self.taken.into()
    }

    /// What is not in memory because it was taken: private memory ([`PageClass::Anon`]), shared memory and tmpfs
    /// ([`PageClass::Shmem`]), pages of files.
    pub fn taken_by_class(&self) -> ByClass {
        self.taken
    }

    /// All that is in memory, by class.
    pub fn by_class(&self) -> ByClass {
        let mut sum = self.unseen;
        sum += self.sum_by_class(|_| true);
        sum
    }

    /// As [`Ages::accessed_within`], by class.
    pub fn accessed_by_class(&self, window: Duration) -> ByClass {
        self.sum_by_class(accessed_within(window))
    }

    /// As [`Ages::idle_for`], by class.
    pub fn idle_by_class(&self, at_least: Duration) -> ByClass {
        self.sum_by_class(|cohort| cohort.idle >= at_least)
    }

    /// What was accessed within the last `window` before the last walk: the working set of the window. A walk counts if
    /// the middle of the interval it looks back on lies within; for a window of whole intervals that is exactly those
    /// intervals. The last walk always counts, however long its interval. A window longer than the watch gives what was
    /// accessed since it began.
    pub fn accessed_within(&self, window: Duration) -> NrPages {
        self.sum(accessed_within(window))
    }

    /// What has certainly not been accessed for `at_least` before the last walk. Of pages that were there when the watch
    /// began and were never accessed since, that is known only as far back as the watch; of pages that came later, as
    /// far as they have been there.
    pub fn idle_for(&self, at_least: Duration) -> NrPages {
        self.sum(|cohort| cohort.idle >= at_least)
    }

    /// What was last used longer ago than `age`, by the middle as in [`Ages::accessed_within`]: a walk that is a little
    /// early or late moves nothing from one whole age to the next. Pages that were never found accessed go by how long
    /// they have been seen.
    pub fn last_used_before(&self, age: Duration) -> NrPages {
        self.sum(|cohort| cohort.middle > age && !cohort.idle.is_zero())
    }

    fn sum(&self, wanted: impl Fn(&Cohort) -> bool) -> NrPages {
        self.sum_by_class(wanted).into()
    }

    fn sum_by_class(&self, wanted: impl Fn(&Cohort) -> bool) -> ByClass {
        let cohorts = self.cohorts.iter().filter(|cohort| wanted(cohort));
        cohorts.map(|cohort| cohort.nr_pages).sum()
    }
}

fn accessed_within(window: Duration) -> impl Fn(&Cohort) -> bool {
    move |cohort| cohort.was_accessed && (cohort.middle <= window || cohort.idle.is_zero())
}

/// What [`Ledger::count`] counted.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Ages of each part, by its number.
    pub parts: Vec<Ages>,
    /// Of all parts together, each page once.
    pub total: Ages,
}

impl Ledger {
    /// Counts pages by age, by parts: `part_of` says to which of `nr_parts` parts a place of a space belongs, by its
    /// index among those the last walk began with.
    pub fn count(
        &self,
        nr_parts: usize,
        part_of: impl FnMut(SpaceNo, usize) -> Option<usize>,
    ) -> Counted {
        self.count_where(nr_parts, part_of, None)
    }

    /// [`Ledger::count`] of pages that fit a wish alone; `None`: of all.
    pub(super) fn count_where(
        &self,
        nr_parts: usize,
        mut part_of: impl FnMut(SpaceNo, usize) -> Option<usize>,
        on: Option<&On>,
    ) -> Counted {
        let mut tally = Tally::new(self.walks.len());
        let mut parts: Vec<Sums> = Vec::new();
        parts.resize_with(nr_parts, Sums::default);
        let mut total = Sums::default();
        let mut commons = Commons::default();
        for (no, space) in &self.spaces {
            for (index, place) in space.places.iter().enumerate() {
                let part = part_of(*no, index).filter(|part| *part < nr_parts);
                space.visit(place, &mut |table_no, table, mask| {
                    let fitting = on.map(|on| bits::and(*mask, table.fitting(on)));
                    let (own, common) = space.split(place, table, fitting.as_ref().unwrap_or(mask));
                    let mapper = Mapper {
                        family: space.family,
                        place,
                        part,
                    };
                    commons.add(mapper, table_no, table, &common);
                    let Some(part) = part else { return };
                    if on.is_none() {
                        let taken = table.nr_taken_in(mask);
                        let class = match place.home {
                            Home::Shared(..) => PageClass::Shmem,
                            Home::Private | Home::Copied(..) => PageClass::Anon,
                        };
                        for sums in [&mut parts[part], &mut total] {
                            sums.taken.add(class, taken.anon);
                            sums.taken.add(PageClass::File, taken.file);
                        }
                    }
                    let unseen = match place.standing {
                        Standing::Unseen => own,
                        Standing::Ordinary | Standing::Code | Standing::Bound | Standing::Kept => {
                            bits::and(own, table.unseen)
                        }
                    };
                    let class = match place.standing {
                        Standing::Kept => PageClass::Locked,
                        _ if table.is_huge => PageClass::Huge,
                        _ => PageClass::Anon,
                    };
                    tally.add_unseen(&unseen, &table.anon, class);
                    let seen = bits::without(own, unseen);
                    tally.add(&seen, &table.anon, class, &table.stamps());
                });
                if let Some(part) = part {
                    tally.flush([&mut parts[part], &mut total]);
                }
            }
        }
        for ((owner, _), common) in &commons.tables {
            common.count(*owner, &mut tally, &mut parts, &mut total);
        }
        let ages = |sums: Sums| self.ages(sums);
        Counted {
            parts: parts.into_iter().map(ages).collect(),
            total: self.ages(total),
        }
    }

    /// Counts the pages that spaces of each group map by age: one that several map counts for each, and is as old as each
    /// says. What lies in a place that can't be seen is left out.
    pub fn mapped(&self) -> BTreeMap<GroupId, Ages> {
        let mut tally = Tally::new(self.walks.len());
        let mut groups: BTreeMap<GroupId, Sums> = BTreeMap::new();
        for space in self.spaces.values() {
            let places = space.places.iter();
            for place in places.filter(|place| place.standing != Standing::Unseen) {
                space.visit(place, &mut |_, table, mask| {
                    let seen = bits::without(bits::and(table.present, *mask), table.unseen);
                    tally.add(&seen, &table.anon, PageClass::Anon, &table.stamps());
                });
            }
            tally.flush([groups.entry(space.group).or_default()]);
        }
        let ages = |(group, sums)| (group, self.ages(sums));
        groups.into_iter().map(ages).collect()
    }

    fn ages(&self, sums: Sums) -> Ages {
        let now = self.walks.now();
        let cohort = |(stamp, nr_pages): (Stamp, ByClass)| {
            let epoch = self.walks.get(stamp.number())?;
            let half_span = epoch.at.saturating_sub(epoch.since) / 2;
            let idle = now.saturating_sub(epoch.at);
            Some(Cohort {
                idle,
                middle: idle + half_span,
                was_accessed: stamp.was_accessed(),
                nr_pages,
            })
        };
        Ages {
            cohorts: sums.by_stamp.into_iter().filter_map(cohort).collect(),
            unseen: sums.unseen,
            shared: sums.shared,
            taken: sums.taken,
        }
    }
}

impl Space {
    /// Calls `each` for every table that a place touches with the entries that lie in it.
    pub(super) fn visit(&self, place: &Place, each: &mut dyn FnMut(u64, &Table, &Bits)) {
        if place.first_page >= place.end_page {
            return;
        }
        let nr_entries = NR_ENTRIES as u64;
        let tables = place.first_page / nr_entries..=(place.end_page - 1) / nr_entries;
        for (table_no, table) in self.tables.range(tables) {
            let mask = bits::entries(place.first_page, place.end_page, *table_no);
            each(*table_no, table, &mask);
        }
    }

    /// Present pages of a table within a place: those that are the space's own, and those that others may map.
    pub(super) fn split(&self, place: &Place, table: &Table, mask: &Bits) -> (Bits, Bits) {
        let present = bits::and(table.present, *mask);
        let common = match place.home {
            Home::Private => bits::and(present, table.several),
            Home::Copied(..) => {
                let of_file = bits::without(present, table.anon);
                bits::or(of_file, bits::and(present, table.several))
            }
            Home::Shared(..) => present,
        };
        (bits::without(present, common), common)
    }
}

/// Pages by stamp, and what has none.
#[derive(Debug, Default)]
struct Sums {
    by_stamp: BTreeMap<Stamp, ByClass>,
    unseen: ByClass,
    shared: NrPages,
    taken: ByClass,
}

/// Pages by stamp, dense, so that a page costs an addition.
struct Tally {
    by_stamp: Vec<ByClass>,
    touched: Vec<Stamp>,
    unseen: ByClass,
}

impl Tally {
    fn new(nr_walks: usize) -> Tally {
        Tally {
            by_stamp: vec![ByClass::default(); 2 * nr_walks],
            touched: Vec::new(),
            unseen: ByClass::default(),
        }
    }

    fn add_unseen(&mut self, pages: &Bits, anon: &Bits, class: PageClass) {
        let nr_pages = table::by_kind(*pages, *anon);
        self.unseen.add(class, nr_pages.anon);
        self.unseen.add(PageClass::File, nr_pages.file);
    }

    /// Adds pages, of which the anonymous ones are of this class.
    fn add(&mut self, pages: &Bits, anon: &Bits, class: PageClass, stamps: &Stamps) {
        bits::ones(*pages).for_each(|index| {
            let class = match bits::has(anon, index) {
                true => class,
                false => PageClass::File,
            };
            let stamp = stamps[index];
            let Some(counts) = self.by_stamp.get_mut(stamp.index()) else {
                return;
            };
            if counts.is_empty() {
                self.touched.push(stamp);
            }
            counts.add(class, 1);
        });
    }

    /// Adds what was tallied to these and begins anew.
    fn flush<const N: usize>(&mut self, mut to: [&mut Sums; N]) {
        let unseen = std::mem::take(&mut self.unseen);
        for sums in &mut to {
            sums.unseen += unseen;
        }
        for stamp in self.touched.drain(..) {
            let counts = std::mem::take(&mut self.by_stamp[stamp.index()]);
            for sums in &mut to {
                *sums.by_stamp.entry(stamp).or_default() += counts;
            }
        }
    }
}

impl Common {
    fn count(&self, owner: Owner, tally: &mut Tally, parts: &mut [Sums], total: &mut Sums) {
        let (mut all, mut elsewhere) = (NONE, NONE);
        for (part, pages) in &self.parts {
            let Some(sums) = part.and_then(|part| parts.get_mut(part)) else {
                elsewhere = bits::or(elsewhere, *pages);
                continue;
            };
            all = bits::or(all, *pages);
            sums.shared += self.nr_pages(&bits::and(*pages, self.mapped_beside(*part)));
            self.tally(owner, tally, pages);
            tally.flush([sums]);
        }
        let outside = bits::or(elsewhere, self.by_strangers());
        total.shared += self.nr_pages(&bits::and(all, outside));
        self.tally(owner, tally, &all);
        tally.flush([total]);
    }

    fn tally(&self, owner: Owner, tally: &mut Tally, pages: &Bits) {
        let several = self.by_several();
        let (alone, common) = match owner {
            Owner::Family(_) => (PageClass::Anon, PageClass::Common),
            Owner::Object(_) => (PageClass::Shmem, PageClass::CommonShmem),
        };
        let of_one = bits::without(*pages, several);
        for (pages, class) in [(of_one, alone), (bits::and(*pages, several), common)] {
            let unseen = bits::and(pages, self.unseen);
            tally.add_unseen(&unseen, &self.anon, class);
            let seen = bits::without(pages, self.unseen);
            tally.add(&seen, &self.anon, class, self.stamps());
        }
    }
}
