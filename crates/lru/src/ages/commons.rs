//! Pages that several spaces can map, found again as one page: by object and place in it, or by address within a family.
//!
//! It is put together when it is asked for, from what each space was told.
//!
//! **Owns** which pages are one. **Does not own** ages and sums (`count`), nor who may be taken (`candidates`).
//!
//! **Limit**: a family's pages at one address that several map are taken for one page. After a fork of a fork, of which
//! one half wrote to the page before it forked again, they can be two.

use super::places::{FamilyNo, Home, ObjectNo, Place, Standing};
use super::table::{self, Stamp, Stamps, Table};
use super::{Ledger, NrPages};
use crate::bits::{self, Bits, NONE, NR_ENTRIES};
use std::collections::BTreeMap;

/// Bits of a count of mappings.
const MAPPING_BITS: usize = 8;

/// Whose the pages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Family(FamilyNo),
    Object(ObjectNo),
}

/// Who maps pages.
#[derive(Clone, Copy)]
pub(super) struct Mapper<'a> {
    pub(super) family: FamilyNo,
    pub(super) place: &'a Place,
    /// The part it is counted in; `None` if it is not counted.
    pub(super) part: Option<usize>,
}

/// Pages that several spaces can map, each once.
#[derive(Debug, Default)]
pub(super) struct Commons {
    pub(super) tables: BTreeMap<(Owner, u64), Box<Common>>,
}

/// 512 pages of an object, or at one address in a family.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) anon: Bits,
    pub(super) unseen: Bits,
    /// Somebody maps it where it has to stay on its memory node.
    fixed: Bits,
    /// How often those who are watched map it, bit by bit.
    nr_mappings: [Bits; MAPPING_BITS],
    /// Mapped by several, as the kernel says, whoever they are.
    several: Bits,
    /// The youngest of what mappers say.
    stamps: Stamps,
    /// Parts that map pages of it, and which.
    pub(super) parts: Vec<(Option<usize>, Bits)>,
}

impl Commons {
    /// Of a whole ledger; each group is a part.
    pub(super) fn of(ledger: &Ledger) -> Commons {
        let mut commons = Commons::default();
        for space in ledger.spaces.values() {
            for place in &space.places {
                let mapper = Mapper {
                    family: space.family,
                    place,
                    part: Some(usize::from(space.group.0)),
                };
                space.visit(place, &mut |table_no, table, mask| {
                    let (_, common) = space.split(place, table, mask);
                    commons.add(mapper, table_no, table, &common);
                });
            }
        }
        commons
    }

    /// Adds pages of a table that others may map.
    pub(super) fn add(&mut self, mapper: Mapper<'_>, table_no: u64, table: &Table, pages: &Bits) {
        for (owner, number, shift, pages) in homes(mapper, table_no, table, pages) {
            let common = self.tables.entry((owner, number));
            let common = common.or_insert_with(Common::new);
            common.add(mapper, table, shift, &pages);
        }
    }

    /// Of pages of a table that others may map, those that only this one is known to map.
    pub(super) fn alone(
        &self,
        mapper: Mapper<'_>,
        table_no: u64,
        table: &Table,
        pages: &Bits,
    ) -> Bits {
        let mut alone = NONE;
        for (owner, number, shift, pages) in homes(mapper, table_no, table, pages) {
            let Some(common) = self.tables.get(&(owner, number)) else {
                continue;
            };
            let by_several = common.by_several();
            bits::ones(pages).for_each(|index| {
                if !bits::has(&by_several, shifted(index, shift)) {
                    bits::insert(&mut alone, index);
                }
            });
        }
        alone
    }

    /// Of pages of a table, those that are mapped more than once, and by spaces of the mapper's part alone, as far as is known.
    /// What is in `given` is left out, and what is found is in it from then on.
    pub(super) fn within_part(
        &self,
        mapper: Mapper<'_>,
        table_no: u64,
        table: &Table,
        pages: &Bits,
        given: &mut BTreeMap<(Owner, u64), Bits>,
    ) -> Vec<Shared> {
        let mut found = Vec::new();
        for (owner, number, shift, pages) in homes(mapper, table_no, table, pages) {
            let Some(common) = self.tables.get(&(owner, number)) else {
                continue;
            };
            let mut by_others = common.mapped_beside(mapper.part);
            if matches!(owner, Owner::Object(_)) {
                // Of these it is said only where a stranger was found to map them.
                by_others = bits::or(by_others, common.several);
            }
            let theirs = [by_others, common.unseen, common.fixed]
                .iter()
                .fold(common.twice(), |theirs, out| bits::without(theirs, *out));
            let given = given.entry((owner, number)).or_default();
            bits::ones(pages).for_each(|index| {
                let there = shifted(index, shift);
                if bits::has(&theirs, there) && !bits::has(given, there) {
                    bits::insert(given, there);
                    found.push(Shared {
                        index,
                        stamp: common.stamps[there],
                        nr_mappings: common.nr_mappings(there),
                    });
                }
            });
        }
        found
    }
}

/// A page that several map.
pub(super) struct Shared {
    /// Its entry in the table that was asked of.
    pub(super) index: usize,
    /// When it was last accessed by anybody.
    pub(super) stamp: Stamp,
    /// How often those who are watched map it.
    pub(super) nr_mappings: u8,
}

fn shifted(index: usize, shift: usize) -> usize {
    (index + shift) % NR_ENTRIES
}

/// Where pages of a table belong: owner, number of its table, by how much entries are shifted there, and which pages.
fn homes(
    mapper: Mapper<'_>,
    table_no: u64,
    table: &Table,
    pages: &Bits,
) -> Vec<(Owner, u64, usize, Bits)> {
    let mut homes = Vec::with_capacity(3);
    let (object, at_page, of_object) = match mapper.place.home {
        Home::Private => (None, 0, NONE),
        Home::Copied(object, at_page) => (Some(object), at_page, bits::without(*pages, table.anon)),
        Home::Shared(object, at_page) => (Some(object), at_page, *pages),
    };
    let of_family = bits::without(*pages, of_object);
    if !bits::is_empty(of_family) {
        homes.push((Owner::Family(mapper.family), table_no, 0, of_family));
    }
    let Some(object) = object.filter(|_| !bits::is_empty(of_object)) else {
        return homes;
    };
    let nr_entries = NR_ENTRIES as u64;
    // The object's page that the table's first entry would show.
    let base = (table_no * nr_entries)
        .wrapping_sub(mapper.place.first_page)
        .wrapping_add(at_page);
    let shift = (base % nr_entries) as usize;
    // Of a table that is shifted, the upper part lies in the next one of the object.
    let border = nr_entries - shift as u64;
    for (first, end) in [(0, border), (border, nr_entries)] {
        let part = bits::and(of_object, bits::entries(first, end, 0));
        if !bits::is_empty(part) {
            let number = base.wrapping_add(first) / nr_entries;
            homes.push((Owner::Object(object), number, shift, part));
        }
    }
    homes
}

impl Common {
    fn new() -> Box<Common> {
        Box::new(Common {
            anon: NONE,
            unseen: NONE,
            fixed: NONE,
            nr_mappings: [NONE; MAPPING_BITS],
            several: NONE,
            stamps: [Stamp::default(); NR_ENTRIES],
            parts: Vec::new(),
        })
    }

    fn add(&mut self, mapper: Mapper<'_>, table: &Table, shift: usize, pages: &Bits) {
        let mut mapped = NONE;
        let stamps = table.stamps();
        let is_fixed = matches!(mapper.place.standing, Standing::Bound | Standing::Kept);
        let is_all_unseen = mapper.place.standing == Standing::Unseen;
        bits::ones(*pages).for_each(|index| {
            let there = shifted(index, shift);
            bits::insert(&mut mapped, there);
            self.stamps[there] = self.stamps[there].max(stamps[index]);
            if bits::has(&table.anon, index) {
                bits::insert(&mut self.anon, there);
            }
            if bits::has(&table.several, index) {
                bits::insert(&mut self.several, there);
            }
            if is_all_unseen || bits::has(&table.unseen, index) {
                bits::insert(&mut self.unseen, there);
            }
        });
        if is_fixed {
            self.fixed = bits::or(self.fixed, mapped);
        }
        self.map_once_more(&mapped);
        let known = self
            .parts
            .iter_mut()
            .rev()
            .find(|(part, _)| *part == mapper.part);
        match known {
            Some((_, pages)) => *pages = bits::or(*pages, mapped),
            None => self.parts.push((mapper.part, mapped)),
        }
    }

    /// One mapping more of these, unless there are as many as can be told.
    fn map_once_more(&mut self, mapped: &Bits) {
        for (word, mapped) in mapped.iter().enumerate() {
            let most = self.nr_mappings.iter();
            let mut carry = mapped & !most.fold(u64::MAX, |most, plane| most & plane[word]);
            for plane in &mut self.nr_mappings {
                let was = plane[word];
                plane[word] = was ^ carry;
                carry &= was;
            }
        }
    }

    fn nr_mappings(&self, index: usize) -> u8 {
        let planes = self.nr_mappings.iter().enumerate();
        planes.fold(0, |number, (at, plane)| {
            number | u8::from(bits::has(plane, index)) << at
        })
    }

    /// Mapped more than once by those who are watched.
    fn twice(&self) -> Bits {
        let planes = self.nr_mappings[1..].iter();
        planes.fold(NONE, |twice, plane| bits::or(twice, *plane))
    }

    pub(super) fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    pub(super) fn nr_pages(&self, pages: &Bits) -> NrPages {
        table::by_kind(*pages, self.anon)
    }

    /// What is mapped more than once, by whomever.
    pub(super) fn by_several(&self) -> Bits {
        bits::or(self.twice(), self.several)
    }

    /// What is known to be mapped by somebody who is not watched.
    pub(super) fn by_strangers(&self) -> Bits {
        bits::without(self.several, self.twice())
    }

    /// What is mapped by others than a part.
    pub(super) fn mapped_beside(&self, part: Option<usize>) -> Bits {
        let others = self.parts.iter().filter(|(other, _)| *other != part);
        others.fold(self.by_strangers(), |beside, (_, pages)| {
            bits::or(beside, *pages)
        })
    }
}
