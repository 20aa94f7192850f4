//! What a trace is like: how long, how wide, of what kind.
//!
//! **Owns** the counters. **Does not own** how they are shown.
//!
//! Distinct pages are counted exactly, so a summary takes up to 40 bytes a distinct page, and 60 while its
//! table grows.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

use crate::access::{Access, Backing, Op, PageKey, Via};

/// Counts over all accesses of a trace.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Accesses.
    pub nr_accesses: u64,
    /// Accesses that write.
    pub nr_writes: u64,
    /// Accesses through a mapping.
    pub nr_page_table: u64,
    /// Distinct pages that are anon; a page is what its first access says.
    pub nr_anon_pages: u64,
    /// Distinct pages of files.
    pub nr_file_pages: u64,
    /// Smallest and largest page number; `None` for an empty trace.
    pub pages: Option<(u64, u64)>,
    /// Earliest and latest time in microseconds; `None` for an empty trace.
    pub times_us: Option<(u64, u64)>,
    groups: BTreeSet<u16>,
    spaces: HashSet<u32, BuildHasherDefault<KeyHasher>>,
    distinct: HashSet<PageKey, BuildHasherDefault<KeyHasher>>,
}

impl Summary {
    /// Counts these accesses too.
    pub fn add(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.add_one(access);
        }
    }

    fn add_one(&mut self, access: &Access) {
        self.nr_accesses += 1;
        self.nr_writes += u64::from(access.op == Op::Write);
        self.nr_page_table += u64::from(access.via == Via::PageTable);
        widen(&mut self.pages, access.key.page);
        widen(&mut self.times_us, access.time_us);
        if self.distinct.insert(access.key) {
            match access.backing {
                Backing::Anon => self.nr_anon_pages += 1,
                Backing::File | Backing::Code => self.nr_file_pages += 1,
            }
            // A page is of one space, so that new spaces come with new pages only.
            self.spaces.insert(access.key.space);
        }
        self.groups.insert(access.group);
    }

    /// Distinct pages.
    pub fn nr_distinct_pages(&self) -> u64 {
        self.distinct.len() as u64
    }

    /// Bytes it takes at most while so many more accesses are counted, a table that grows being there
    /// twice meanwhile.
    pub fn bytes_with(&self, nr_more: usize) -> u64 {
        let table = |capacity: usize, len: usize, key_bytes: usize| {
            // A byte of the table beside each key, and room that is kept free.
            let bytes = |nr_keys: usize| nr_keys as u64 * (key_bytes as u64 + 1) * 8 / 7;
            let grown = match len + nr_more > capacity {
                true => bytes((2 * capacity).max(len + nr_more)),
                false => 0,
            };
            bytes(capacity) + grown
        };
        let distinct = &self.distinct;
        let spaces = &self.spaces;
        table(distinct.capacity(), distinct.len(), size_of::<PageKey>())
            + table(spaces.capacity(), spaces.len(), size_of::<u32>())
    }

    /// Distinct groups.
    pub fn nr_groups(&self) -> u64 {
        self.groups.len() as u64
    }

    /// Distinct address spaces and files.
    pub fn nr_spaces(&self) -> u64 {
        self.spaces.len() as u64
    }

    /// Microseconds from the earliest access to the latest; 0 where the format has no time.
    pub fn duration_us(&self) -> u64 {
        self.times_us.map_or(0, |(first, last)| last - first)
    }
}

fn widen(range: &mut Option<(u64, u64)>, value: u64) {
    let (low, high) = range.unwrap_or((value, value));
    *range = Some((low.min(value), high.max(value)));
}

/// Multiplies and folds: quick, and the same on every run. Page numbers that somebody chose to
/// collide would slow it down and nothing else.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // 2^64 divided by the golden ratio, as in Knuth's multiplicative hashing.
        let wide = u128::from(self.0 ^ value ^ 0x5bd1_e995) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_summary_counts_what_there_is(
            accesses in prop::collection::vec((0..3_u32, 0..20_u64, 0..4_u16, 0..8_u8, 0..9_u64), 0..200),
        ) {
            let accesses: Vec<Access> = accesses
                .into_iter()
                .map(|(space, page, group, bits, time_us)| Access {
                    key: PageKey { space, page },
                    group,
                    time_us,
                    size_bytes: 0,
                    // A page stays what it was, as in any real trace.
                    backing: [Backing::Anon, Backing::File, Backing::Code][page as usize % 3],
                    op: if bits & 2 == 0 { Op::Read } else { Op::Write },
                    via: if bits & 4 == 0 { Via::PageTable } else { Via::FileDescriptor },
                })
                .collect();
            let mut summary = Summary::default();
            accesses.chunks(7).for_each(|part| summary.add(part));
            let count = |is: &dyn Fn(&Access) -> bool| accesses.iter().filter(|a| is(a)).count() as u64;
            let distinct = |of: &dyn Fn(&Access) -> Option<u64>| {
                accesses.iter().filter_map(of).collect::<BTreeSet<u64>>().len() as u64
            };
            let key = |a: &Access| a.key.page * 3 + u64::from(a.key.space);
            prop_assert_eq!(summary.nr_accesses, count(&|_| true));
            prop_assert_eq!(summary.nr_writes, count(&|a| a.op == Op::Write));
            prop_assert_eq!(summary.nr_page_table, count(&|a| a.via == Via::PageTable));
            prop_assert_eq!(summary.nr_distinct_pages(), distinct(&|a| Some(key(a))));
            prop_assert_eq!(summary.nr_anon_pages, distinct(&|a| (a.backing == Backing::Anon).then(|| key(a))));
            prop_assert_eq!(summary.nr_file_pages, distinct(&|a| a.backing.is_file().then(|| key(a))));
            prop_assert_eq!(summary.nr_groups(), distinct(&|a| Some(u64::from(a.group))));
            prop_assert_eq!(summary.nr_spaces(), distinct(&|a| Some(u64::from(a.key.space))));
            let times = accesses.iter().map(|a| a.time_us);
            let duration = times.clone().max().unwrap_or(0) - times.min().unwrap_or(0);
            prop_assert_eq!(summary.duration_us(), duration);
            prop_assert_eq!(summary.pages.map(|(low, _)| low), accesses.iter().map(|a| a.key.page).min());
        }
    }
}
