//! The memory that a played guard walks: of each page whether it is in memory, and its accessed bit.
//!
//! Pages are numbered within their group in the order of their first access, and the numbers are their addresses: each
//! group is one space of the ledger.
//!
//! **Owns** the bits. **Does not own** ages and what was taken (`strata_lru::ages`).
//!
//! **Invariants**
//! - I1: what is in memory is there at all, and only that is accessed.

use crate::mechanism::kind_of;
use crate::workload::{PageId, Workload};
use std::time::Duration;
use strata_lru::ages::{Bits, FamilyNo, Home, Ledger, NR_ENTRIES, Place, Run, Standing, Told};
use strata_lru::{GroupId, Kind, SpaceNo};
use strata_trace::Backing;

/// Where a page is.
#[derive(Clone, Copy, Debug)]
struct Spot {
    group: u16,
    number: u32,
    backing: Backing,
}

/// 512 pages of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Table {
    /// Touched, and not freed.
    there: Bits,
    resident: Bits,
    accessed: Bits,
    anon: Bits,
    code: Bits,
    /// Away, but read back ahead of its next access.
    near: Bits,
}

/// An access that found its page away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) group: usize,
    pub(super) kind: Kind,
    /// It had been read back by then.
    pub(super) is_near: bool,
}

/// All pages of a workload.
#[derive(Debug)]
pub(super) struct Memory {
    spots: Vec<Spot>,
    /// By group.
    tables: Vec<Vec<Table>>,
}

fn is_set(bits: &Bits, index: usize) -> bool {
    bits[index / 64] >> (index % 64) & 1 != 0
}

fn set(bits: &mut Bits, index: usize, is_set: bool) {
    let bit = 1 << (index % 64);
    match is_set {
        true => bits[index / 64] |= bit,
        false => bits[index / 64] &= !bit,
    }
}

impl Memory {
    /// Nothing is in memory; the ledger learns of the groups.
    pub(super) fn of(workload: &Workload, ledger: &mut Ledger) -> Memory {
        let mut nr_pages = vec![0_u32; usize::from(workload.nr_groups())];
        let spots = workload.pages().iter().map(|page| {
            let number = &mut nr_pages[usize::from(page.group)];
            *number += 1;
            Spot {
                group: page.group,
                number: *number - 1,
                backing: page.backing,
            }
        });
        let spots = spots.collect();
        for group in 0..workload.nr_groups() {
            let number = u32::from(group);
            ledger.appeared(SpaceNo(number), GroupId(group), FamilyNo(number));
        }
        let tables = nr_pages.iter().map(|nr_pages| {
            let nr_tables = (*nr_pages as usize).div_ceil(NR_ENTRIES);
            vec![Table::default(); nr_tables]
        });
        Memory {
            spots,
            tables: tables.collect(),
        }
    }

    /// An access through a mapping; tells of a page that was away.
    pub(super) fn access(&mut self, page: PageId) -> Option<Fault> {
        let Spot { backing, .. } = self.spots[page.index()];
        let (group, table, index) = self.at(page);
        let was_away = is_set(&table.there, index) && !is_set(&table.resident, index);
        for bits in [&mut table.there, &mut table.resident, &mut table.accessed] {
            set(bits, index, true);
        }
        set(&mut table.anon, index, backing == Backing::Anon);
        set(&mut table.code, index, backing == Backing::Code);
        let is_near = is_set(&table.near, index);
        set(&mut table.near, index, false);
        was_away.then_some(Fault {
            group,
            kind: kind_of(backing),
            is_near,
        })
    }

    /// Nobody needs the page any more.
    pub(super) fn free(&mut self, page: PageId) {
        let (_, table, index) = self.at(page);
        for bits in [
            &mut table.there,
            &mut table.resident,
            &mut table.accessed,
            &mut table.near,
        ] {
            set(bits, index, false);
        }
    }

    fn at(&mut self, page: PageId) -> (usize, &mut Table, usize) {
        let spot = self.spots[page.index()];
        let (group, number) = (usize::from(spot.group), spot.number as usize);
        let table = &mut self.tables[group][number / NR_ENTRIES];
        (group, table, number % NR_ENTRIES)
    }

    /// A walk: tells the ledger of all bits, and clears those of accesses.
    pub(super) fn tell(&mut self, ledger: &mut Ledger, at: Duration) {
        ledger.start_walk(at);
        for (space, tables) in (0..).map(SpaceNo).zip(&mut self.tables) {
            ledger.begin(space, places(tables));
            for (table_no, table) in (0..).zip(tables) {
                let told = Told {
                    mask: [u64::MAX; NR_ENTRIES / 64],
                    resident: table.resident,
                    accessed: table.accessed,
                    anon: table.anon,
                    empty: Bits::default(),
                    unseen: Bits::default(),
                };
                ledger.told(space, table_no, &told);
                table.accessed = Bits::default();
            }
            ledger.end(space, true);
        }
    }

    /// These pages of a group leave memory.
    pub(super) fn take(&mut self, group: usize, runs: &[Run]) {
        self.each(group, runs, |table, index| {
            set(&mut table.resident, index, false);
        });
    }

    /// These pages of a group, which are away, are read back.
    pub(super) fn read_back(&mut self, group: usize, runs: &[Run]) {
        self.each(group, runs, |table, index| {
            // What came back since the walk, or was freed, is not away.
            let is_away = is_set(&table.there, index) && !is_set(&table.resident, index);
            set(&mut table.near, index, is_away);
        });
    }

    fn each(&mut self, group: usize, runs: &[Run], mut each: impl FnMut(&mut Table, usize)) {
        let pages = runs
            .iter()
            .flat_map(|run| run.first_page..run.first_page + run.nr_pages);
        for page in pages {
            let (table_no, index) = (page as usize / NR_ENTRIES, page as usize % NR_ENTRIES);
            each(&mut self.tables[group][table_no], index);
        }
    }

    /// Pages of a group that are in memory.
    pub(super) fn nr_resident(&self, group: usize) -> u64 {
        let words = self.tables[group].iter().flat_map(|table| table.resident);
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    #[cfg(test)]
    pub(super) fn is_resident(&self, page: PageId) -> bool {
        let Spot { group, number, .. } = self.spots[page.index()];
        let table = &self.tables[usize::from(group)][number as usize / NR_ENTRIES];
        is_set(&table.resident, number as usize % NR_ENTRIES)
    }
}

/// What is there, as mappings, code apart from the rest: what is freed is mapped by nobody, and the ledger forgets that it was taken.
fn places(tables: &[Table]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let words = |table: &Table| {
        let there = table.there.into_iter();
        there.zip(table.code).collect::<Vec<_>>()
    };
    for (first, (there, code)) in (0..).step_by(64).zip(tables.iter().flat_map(words)) {
        let mut left = there;
        while left != 0 {
            let begin = left.trailing_zeros();
            let (standing, alike) = match code >> begin & 1 {
                0 => (Standing::Ordinary, !code),
                _ => (Standing::Code, code),
            };
            let length = ((left & alike) >> begin).trailing_ones();
            left &= !(u64::MAX >> (64 - length) << begin);
            let first_page = first + u64::from(begin);
            let end_page = first_page + u64::from(length);
            match places.last_mut() {
                Some(last) if (last.end_page, last.standing) == (first_page, standing) => {
                    last.end_page = end_page;
                }
                _ => places.push(Place {
                    first_page,
                    end_page,
                    home: Home::Private,
                    standing,
                }),
            }
        }
    }
    places
}
