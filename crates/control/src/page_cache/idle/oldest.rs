//! The oldest page cache of a group, whichever of its files has it: what goes within a promise, or where memory is short.
//!
//! ```text
//!   ages          how much was not read for how long
//!   choose_older  which pages go, read longest ago first, of all files together
//!   is_as_seen    a look at each just before: nobody has read it since the census
//! ```
//!
//! **Owns** the order across files, and ages as sums. **Does not own** how much goes (`promise`), nor what one file gives
//! while its group has a budget (`idle`).
//!
//! **Invariants**
//! - I1: a page is chosen only if the last census saw it clean, and read less often than can be counted: of others nobody
//!   knows when they were read last.
//! - I2: a file of which much came back that was dropped gives nothing, until that is forgotten.

use std::collections::BTreeMap;
use std::ops::Range;

use super::file::{File, IS_BUSY, IS_DROPPED, IS_JOINED, Page, age_ms, told};
use super::{IdleTable, add_page};
use crate::page_cache::{
    CacheAge, CacheAges, CacheClass, FILE_BYTES_MIN, FileKey, Idle, PageFound,
};
use crate::sample::{FileNo, PAGE_BYTES, Reads};
use crate::strategy::drop_cache;
use std::cmp::Reverse;

impl IdleTable {
    /// How old everything is, as of the last census.
    pub fn ages(&self) -> CacheAges {
        let mut ages = CacheAges::default();
        let mut nr_pages_of: BTreeMap<(Reverse<u64>, CacheClass, bool), u64> = BTreeMap::new();
        let mut nr_unreachable_of = nr_pages_of.clone();
        for file in self.files.values() {
            let (may_give, class) = (self.may_give(file), self.class_of(file));
            ages.kept_bytes += file.kept_bytes();
            for (_, page) in file.pages() {
                let is_there = page.seen == self.census && self.census != 0;
                ages.nr_cached_pages[class as usize] += u64::from(is_there);
                ages.nr_away_pages[class as usize] +=
                    u64::from(!is_there && page.left & IS_DROPPED != 0);
                let known_ms = (self.is_known_clean(page)).then(|| told(age_ms(self.now, page)));
                let key = |age_ms: u64| (Reverse(age_ms), class, self.is_once(file, page));
                if is_there && file.is_unreachable && self.is_left(file) {
                    let key = key(known_ms.unwrap_or(0));
                    *nr_unreachable_of.entry(key).or_default() += 1;
                }
                if let Some(age_ms) = known_ms.filter(|_| may_give) {
                    *nr_pages_of.entry(key(age_ms)).or_default() += 1;
                }
            }
        }
        let of = |((Reverse(age_ms), class, is_once), nr_pages)| CacheAge {
            class,
            age_ms,
            is_once,
            nr_pages,
        };
        ages.ages = nr_pages_of.into_iter().map(of).collect();
        ages.unreachable = nr_unreachable_of.into_iter().map(of).collect();
        ages.read_again.clone_from(&self.read_again);
        ages
    }

    /// What a file's page cache counts as.
    fn class_of(&self, file: &File) -> CacheClass {
        let is_kept = |page: &Page| page.seen == self.census || page.left & IS_DROPPED != 0;
        let nr_small = (FILE_BYTES_MIN / PAGE_BYTES) as usize;
        let kept = || file.pages().filter(|(_, page)| is_kept(page));
        match file.id.is_in_memory_only {
            true => CacheClass::MemoryOnly,
            false if kept().nth(nr_small - 1).is_none() => CacheClass::SmallFile,
            false => CacheClass::File,
        }
    }

    /// As [`CacheAges`] tells it.
    pub fn class(&self, number: FileNo) -> CacheClass {
        let file = self.files.get(&number);
        file.map_or(CacheClass::File, |file| self.class_of(file))
    }

    /// So many pages at most that are idle, and what else the last folio has: the kernel drops none of which a part
    /// is asked for. By file as ranges in order; of all files together those read longest ago. `is_in_memory_only`: of such files, or
    /// of the others.
    pub fn choose_older(
        &self,
        idle: Idle,
        nr_pages: u64,
        is_in_memory_only: bool,
    ) -> Vec<(FileNo, Vec<Range<u64>>)> {
        let is_idle = |file: &File, page: Page| {
            let age_ms = told(age_ms(self.now, page));
            self.is_known_clean(page) && idle.has(age_ms, self.is_once(file, page))
        };
        let is_meant =
            |file: &File| file.id.is_in_memory_only == is_in_memory_only && self.may_give(file);
        let giving = || self.files.iter().filter(|(_, file)| is_meant(file));
        let mut times: Vec<u32> = Vec::new();
        for (_, file) in giving() {
            let older = file.pages().filter(|(_, page)| is_idle(file, *page));
            times.extend(older.map(|(_, page)| page.at));
        }
        let nr_wanted = usize::try_from(nr_pages).unwrap_or(usize::MAX);
        if nr_wanted == 0 || times.is_empty() {
            return Vec::new();
        }
        // All that was read before this moment goes, and of what was read at this moment as much as is wanted.
        let (last, nr_before) = match nr_wanted < times.len() {
            false => (u32::MAX, times.len()),
            true => {
                let (before, last, _) = times.select_nth_unstable(nr_wanted - 1);
                let last = *last;
                (last, before.iter().filter(|at| **at < last).count())
            }
        };
        let mut nr_left_of_last = nr_wanted.saturating_sub(nr_before);
        let mut chosen = Vec::new();
        for (number, file) in giving() {
            let mut ranges: Vec<Range<u64>> = Vec::new();
            let mut tier_before = None;
            for (index, page) in file.pages().filter(|(_, page)| is_idle(file, *page)) {
                let goes_on = || ranges.last().is_some_and(|range| range.end == index);
                let goes = match page.at.cmp(&last) {
                    std::cmp::Ordering::Less => true,
                    std::cmp::Ordering::Equal => {
                        nr_left_of_last > 0 || page.is(IS_JOINED) && goes_on()
                    }
                    std::cmp::Ordering::Greater => false,
                };
                if goes {
                    nr_left_of_last = nr_left_of_last.saturating_sub(usize::from(page.at == last));
                    add_page(&mut ranges, index, page.tier(), &mut tier_before);
                }
            }
            if !ranges.is_empty() {
                chosen.push((*number, ranges));
            }
        }
        chosen
    }

    /// Whether pages stand as the last census saw them: nobody has read, written or mapped them since.
    pub fn is_as_seen(&self, number: FileNo, found: &PageFound) -> bool {
        let Some(file) = self.files.get(&number) else {
            return false;
        };
        let page = file.page(found.index);
        !found.is_busy && !found.is_mapped && u32::from(page.reads()) == found.nr_reads
    }

    /// Files of which pages were dropped that may come back.
    pub fn files_left(&self) -> impl Iterator<Item = FileKey> {
        let left = self.files.values().filter(|file| !file.dropped.is_empty());
        left.map(|file| file.id.key)
    }

    /// The census tells of pages that are charged to another group. Those that were dropped of this one have come back all the same.
    pub fn see_elsewhere(&mut self, found: PageFound) {
        let number = self.numbers.get(&found.file);
        let Some(file) = number.and_then(|number| self.files.get_mut(number)) else {
            return;
        };
        let mut nr_returned = 0;
        for page in file.pages_within(found.index..found.index.saturating_add(found.nr_pages)) {
            if page.left & IS_DROPPED != 0 && (found.nr_reads > 0 || found.is_mapped) {
                nr_returned += 1;
                *page = Page::default();
            }
        }
        if nr_returned > 0 {
            self.nr_returned_pages += nr_returned;
            file.returned.push_back((self.now, nr_returned));
        }
    }

    fn is_left(&self, file: &File) -> bool {
        file.left_until.is_some_and(|until| self.now < until)
    }

    fn may_give(&self, file: &File) -> bool {
        let sum = |list: &std::collections::VecDeque<(_, u64)>| -> u64 {
            list.iter().map(|(_, nr_pages)| nr_pages).sum()
        };
        let comes_back =
            drop_cache::comes_back(sum(&file.dropped), sum(&file.returned), &self.config);
        file.seen == self.census && !self.is_left(file) && !comes_back
    }

    /// Whether a page of a file on a disk was read once, or brought by readahead and not read, and not read since the census before.
    fn is_once(&self, file: &File, page: Page) -> bool {
        !file.id.is_in_memory_only && self.rule().reads_of_idle(page) == Some(Reads::Once)
    }

    /// Whether the last census saw it in memory, and it is known when it was read last.
    fn is_known_clean(&self, page: Page) -> bool {
        let is_there = page.seen == self.census && !page.is_played();
        is_there && !page.is(IS_BUSY) && page.reads() < self.nr_reads_max
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Census, page};
    use super::*;
    use crate::page_cache::Tried;
    use std::time::Duration;
    use strata_lru::TimeMs;

    /// Two files; of the first four pages were read at the first census, of the second four at the second.
    fn census() -> Census {
        let mut census = Census::new();
        census.file(7, 70);
        census.file(8, 80);
        let first: Vec<_> = (0..4).map(|index| (7, index, 1)).collect();
        census.take(&first);
        let both: Vec<_> = first
            .into_iter()
            .chain((0..4).map(|index| (8, index, 1)))
            .collect();
        census.take(&both);
        census.take(&both);
        census
    }

    fn older(ms: u64) -> Idle {
        Idle {
            older_than: Duration::from_millis(ms),
            with_once: false,
        }
    }

    fn one(range: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(range).collect()
    }

    #[test]
    fn of_all_files_those_pages_go_that_were_read_longest_ago() {
        let census = census();
        let ages = census.table.ages();
        assert_eq!(ages.nr_cached_pages, [0, 8, 0]);
        assert_eq!((ages.nr_older_pages(100), ages.nr_older_pages(150)), (8, 4));
        let chosen = census.table.choose_older(older(100), 6, false);
        assert_eq!(chosen, [(FileNo(0), one(0..4)), (FileNo(1), one(0..2))]);
        assert_eq!(census.table.choose_older(older(150), 6, false).len(), 1);
        assert_eq!(census.table.choose_older(older(100), 0, false), []);
        let all = census.table.choose_older(older(0), 100, false);
        assert_eq!(all, [(FileNo(0), one(0..4)), (FileNo(1), one(0..4))]);
    }

    #[test]
    fn what_is_read_again_is_told_once_by_the_time_for_which_it_was_not() {
        let mut census = census();
        let pages = |nr_reads| [(7, 0, nr_reads), (7, 1, 1), (8, 0, nr_reads)];
        census.take(&pages(2));
        let read_again = census.table.ages().read_again;
        // Exact to a 64th.
        assert_eq!(read_again, BTreeMap::from([(200, 1), (296, 1)]));
        census.take(&pages(2));
        assert_eq!(census.table.ages().read_again, BTreeMap::new());
        census.take(&pages(0));
        assert_eq!(
            census.table.ages().read_again,
            BTreeMap::new(),
            "counts fall"
        );
    }

    #[test]
    fn what_was_read_once_goes_whatever_its_age_where_that_is_asked_for_and_what_was_read_again_stays()
     {
        let mut census = Census::new();
        census.file(7, 70);
        census.file(8, 80);
        let memory_only = census.files.get_mut(&FileKey(8)).expect("it is there");
        memory_only.is_in_memory_only = true;
        census.take(&[(7, 0, 1), (7, 1, 2), (8, 0, 1)]);
        census.take(&[(7, 0, 1), (7, 1, 2), (8, 0, 1), (7, 9, 1)]);
        let idle = Idle {
            with_once: true,
            ..older(3_600_000)
        };
        let once = |census: &Census| census.table.choose_older(idle, 9, false);
        assert_eq!(once(&census), [(FileNo(0), one(0..1))], "9 was read now");
        census.take(&[(7, 0, 1), (7, 1, 2), (8, 0, 1), (7, 9, 1)]);
        assert_eq!(once(&census), [(FileNo(0), vec![0..1, 9..10])]);
        assert_eq!(census.table.choose_older(idle, 9, true), []);
        let ages = census.table.ages().ages;
        let nr_once = ages.iter().filter(|of| of.is_once).map(|of| of.nr_pages);
        assert_eq!(nr_once.sum::<u64>(), 2);
    }

    #[test]
    fn files_in_memory_only_go_by_themselves_and_small_files_are_told_apart() {
        let mut census = Census::new();
        for key in [7, 8, 9] {
            census.file(key, key * 10);
        }
        let memory_only = census.files.get_mut(&FileKey(9)).expect("it is there");
        memory_only.is_in_memory_only = true;
        let pages = |key, nr_pages| (0..nr_pages).map(move |index| (key, index, 1));
        let all: Vec<_> = pages(7, 64)
            .chain(pages(8, 63))
            .chain(pages(9, 2))
            .collect();
        census.take(&all);
        census.take(&all);
        let table = &census.table;
        assert_eq!(table.ages().nr_cached_pages, [64, 63, 2]);
        assert_eq!(table.ages().nr_older_of(CacheClass::SmallFile, 100), 63);
        assert_eq!(table.ages().nr_older_pages(100), 129);
        assert_eq!(
            table.choose_older(older(100), 9, true),
            [(FileNo(2), one(0..2))]
        );
        assert_eq!(
            table.choose_older(older(100), 9, false),
            [(FileNo(0), one(0..9))]
        );
        census.drop(0, &(0..64));
        census.take(&all[64..]);
        assert_eq!(census.table.ages().nr_away_pages, [64, 0, 0], "as it was");
    }

    #[test]
    fn a_folio_goes_whole_or_not_at_all() {
        let mut census = Census::new();
        census.file(7, 70);
        let folios = [0, 4, 8].map(|index| PageFound {
            nr_pages: 4,
            ..page(7, index, 1)
        });
        for _ in 0..2 {
            census.take_folios(&folios);
        }
        let chosen = |nr_pages| census.table.choose_older(older(100), nr_pages, false);
        assert_eq!(chosen(1), [(FileNo(0), one(0..4))]);
        assert_eq!(chosen(6), [(FileNo(0), one(0..8))]);
        let of_file = |nr_pages| {
            census
                .table
                .choose(FileNo(0), Reads::Once, nr_pages * PAGE_BYTES)
        };
        assert_eq!(
            (of_file(0), of_file(1), of_file(6)),
            (vec![], one(0..4), one(0..8))
        );
    }

    #[test]
    fn what_is_written_or_read_as_often_as_can_be_counted_stays() {
        let mut census = Census::new();
        census.file(7, 70);
        for _ in 0..3 {
            census.take(&[(7, 0, 5), (7, 1, 4)]);
        }
        assert_eq!(census.table.ages().nr_older_pages(100), 1);
        assert_eq!(
            census.table.choose_older(older(100), 9, false),
            [(FileNo(0), one(1..2))]
        );
    }

    #[test]
    fn a_page_that_was_read_after_the_census_is_not_as_it_was_seen() {
        let census = census();
        let is_as_seen = |found: &PageFound| census.table.is_as_seen(FileNo(0), found);
        assert!(is_as_seen(&page(7, 0, 1)));
        assert!(!is_as_seen(&page(7, 0, 2)));
        let mapped = PageFound {
            is_mapped: true,
            ..page(7, 0, 1)
        };
        assert!(!is_as_seen(&mapped));
    }

    #[test]
    fn a_dropped_page_that_another_group_reads_has_come_back_once() {
        let mut census = census();
        census.drop(0, &(0..4));
        assert_eq!(census.table.files_left().collect::<Vec<_>>(), [FileKey(7)]);
        census.take(&[]);
        assert_eq!(census.table.ages().nr_away_pages, [0, 4, 0]);
        census.table.see_elsewhere(page(7, 1, 0));
        assert_eq!(census.table.nr_returned_pages(), 0, "readahead is no use");
        for _ in 0..2 {
            census.table.see_elsewhere(page(7, 1, 1));
            assert_eq!(census.table.nr_returned_pages(), 1);
        }
        assert_eq!(census.table.ages().nr_away_pages, [0, 3, 0]);
    }

    #[test]
    fn what_was_dropped_is_remembered_for_as_long_as_is_asked_for() {
        for (remembered_ms, nr_returned) in [(1_000_000, 1), (100_000, 0)] {
            let mut census = Census::new();
            census.table = IdleTable::new(drop_cache::Config::DEFAULT).remembering(remembered_ms);
            census.file(7, 70);
            census.take(&[(7, 0, 1)]);
            census.take(&[(7, 0, 1)]);
            census.drop(0, &(0..1));
            census.take(&[]);
            census.ms += 500_000;
            census.take(&[(7, 0, 1)]);
            assert_eq!(census.table.nr_returned_pages(), nr_returned);
        }
    }

    #[test]
    fn a_file_of_which_much_comes_back_gives_no_more() {
        let mut census = Census::new();
        census.file(7, 70);
        let all: Vec<_> = (0..1024).map(|index| (7, index, 1)).collect();
        census.take(&all);
        census.take(&all);
        for range in [0..256, 256..512] {
            let tried = Tried {
                nr_tried_pages: 256,
                nr_gone_pages: 256,
            };
            let now = TimeMs(census.ms + 1);
            census.table.note_dropped(now, FileNo(0), &range, tried);
        }
        census.take(&all[512..]);
        assert_eq!(census.table.ages().nr_older_pages(100), 512);
        census.take(&all[256..]);
        census.take(&all[256..]);
        assert_eq!(census.table.ages().nr_older_pages(100), 0);
    }

    #[test]
    fn ages_are_told_to_a_64th_and_never_more_than_they_are() {
        for age_ms in [0, 1, 63, 64, 10_000, 123_456, u64::MAX] {
            let told = told(age_ms);
            assert!(
                told <= age_ms && age_ms - told <= age_ms / 32,
                "{age_ms}: {told}"
            );
        }
    }
}
