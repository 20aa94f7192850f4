//! Censuses that are made up, against a model that predicts what lies idle.

mod left;

use super::*;
use proptest::prelude::*;

pub(super) struct Census {
    pub(super) table: IdleTable,
    pub(super) files: BTreeMap<FileKey, FileId>,
    pub(super) ms: u64,
}

impl Census {
    pub(super) fn new() -> Census {
        Census {
            table: IdleTable::new(drop_cache::Config::DEFAULT),
            files: BTreeMap::new(),
            ms: 1000,
        }
    }

    pub(super) fn file(&mut self, key: u64, inode: u64) {
        let key = FileKey(key);
        let id = FileId {
            device: 1,
            inode,
            generation: 1,
            key,
            is_in_memory_only: false,
        };
        self.files.insert(key, id);
    }

    /// Pages by file, index and reads.
    pub(super) fn take(&mut self, pages: &[(u64, u64, u32)]) -> CacheSample {
        let pages = pages.iter();
        let pages: Vec<_> = pages.map(|of| page(of.0, of.1, of.2)).collect();
        self.take_folios(&pages)
    }

    pub(super) fn take_folios(&mut self, folios: &[PageFound]) -> CacheSample {
        self.begin();
        folios.iter().for_each(|folio| self.table.see(*folio));
        self.table.end(5)
    }

    /// A census begins, 100 ms after the last.
    pub(super) fn begin(&mut self) {
        self.ms += 100;
        let files = self.files.values().copied();
        self.table.begin(TimeMs(self.ms), files);
    }

    /// What may go of a file, all of it.
    pub(super) fn choose(&self, number: u32, reads: Reads) -> Vec<Range<u64>> {
        self.table.choose(FileNo(number), reads, u64::MAX)
    }

    pub(super) fn drop(&mut self, number: u32, range: &Range<u64>) {
        let nr_pages = range.end - range.start;
        self.try_to_drop(number, range, nr_pages, nr_pages);
    }

    fn try_to_drop(
        &mut self,
        number: u32,
        range: &Range<u64>,
        nr_tried_pages: u64,
        nr_gone_pages: u64,
    ) {
        let tried = Tried {
            nr_tried_pages,
            nr_gone_pages,
        };
        let now = TimeMs(self.ms + 1);
        self.table.note_dropped(now, FileNo(number), range, tried);
    }
}

pub(super) fn page(key: u64, index: u64, nr_reads: u32) -> PageFound {
    PageFound {
        is_referenced: true,
        file: FileKey(key),
        index,
        nr_pages: 1,
        nr_reads,
        is_busy: false,
        is_mapped: false,
    }
}

fn once_idle(sample: &CacheSample) -> Vec<(u32, u64)> {
    let files = sample.files.iter();
    files
        .map(|of| (of.file.0, of.once_idle_bytes / PAGE_BYTES))
        .collect()
}

#[test]
fn pages_read_again_wait_longer_and_those_read_as_often_as_can_be_counted_stay() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..700 {
        let sample = census.take(&[(1, 0, 3), (1, 1, 5)]);
        let again = sample.files[0].again_idle_bytes;
        assert_eq!(sample.files[0].once_idle_bytes, 0);
        let is_over = census.ms - 1100 >= drop_cache::Config::DEFAULT.again_idle_ms;
        assert_eq!(again, if is_over { PAGE_BYTES } else { 0 });
    }
    assert_eq!(census.choose(0, Reads::Again), vec![0..1]);
}

#[test]
fn what_readahead_brings_is_left_to_a_slow_reader_for_a_while() {
    let mut census = Census::new();
    census.file(1, 11);
    let unread_ms = drop_cache::Config::DEFAULT.unread_idle_ms;
    for turn in 0..=unread_ms / 100 {
        let sample = census.take(&[(1, 0, 0)]);
        let is_over = turn * 100 >= unread_ms;
        assert_eq!(once_idle(&sample), [(0, u64::from(is_over))], "{turn}");
    }
}

#[test]
fn those_read_longest_ago_go_first() {
    let mut census = Census::new();
    census.file(1, 11);
    census.take(&[(1, 9, 1)]);
    census.take(&[(1, 9, 1), (1, 2, 1), (1, 3, 1)]);
    census.take(&[(1, 9, 1), (1, 2, 1), (1, 3, 1)]);
    let choose = |nr_pages: u64| {
        census
            .table
            .choose(FileNo(0), Reads::Once, nr_pages * PAGE_BYTES)
    };
    assert_eq!(choose(1), vec![9..10]);
    assert_eq!(choose(2), [2..3, 9..10]);
    assert_eq!(choose(3), [2..4, 9..10]);
}

#[test]
fn a_page_that_is_dropped_and_read_again_has_come_back_once() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..2 {
        census.take(&[(1, 0, 1), (1, 1, 1), (1, 2, 1)]);
    }
    census.drop(0, &(0..3));
    assert!(census.choose(0, Reads::Once).is_empty());
    let sample = census.take(&[(1, 1, 0)]);
    let of = sample.files[0];
    assert_eq!((of.dropped_bytes, of.returned_bytes), (3 * PAGE_BYTES, 0));
    for _ in 0..2 {
        let of = census.take(&[(1, 1, 1)]).files[0];
        assert_eq!(of.returned_bytes, PAGE_BYTES, "read ahead, and then read");
    }
    assert_eq!(census.table.nr_returned_pages(), 1);
}

#[test]
fn what_was_dropped_is_forgotten_after_a_while() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..2 {
        census.take(&[(1, 0, 1), (1, 1, 1)]);
    }
    census.drop(0, &(0..1));
    census.ms += REMEMBERED_MS;
    let of = census.take(&[(1, 0, 1), (1, 1, 1)]).files[0];
    assert_eq!((of.dropped_bytes, of.returned_bytes), (0, 0));
}

#[test]
fn a_struct_that_the_kernel_gives_to_another_file_has_another_number() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..2 {
        census.take(&[(1, 0, 1)]);
    }
    census.file(1, 12);
    let changed = census.take(&[(1, 0, 1)]);
    assert_eq!(once_idle(&changed), [(1, 0)]);
    assert_eq!(census.table.file(FileNo(0)), None);
    let new = census.table.file(FileNo(1)).expect("known");
    assert_eq!(new.inode, 12);
    assert!(census.choose(1, Reads::Once).is_empty());
}

#[test]
fn busy_pages_and_those_that_nobody_drops_are_not_chosen() {
    let mut census = Census::new();
    census.file(1, 11);
    let busy = PageFound {
        is_busy: true,
        ..page(1, 0, 1)
    };
    for _ in 0..3 {
        let sample = census.take_folios(&[busy, page(1, u64::MAX - 2, 1)]);
        assert_eq!(once_idle(&sample), [(0, 0)]);
    }
}

#[test]
fn files_that_are_not_looked_at_any_more_are_forgotten_and_those_dropped_of_after_a_while() {
    let mut census = Census::new();
    census.file(1, 11);
    census.file(2, 12);
    for _ in 0..2 {
        census.take(&[(1, 0, 1), (2, 0, 1)]);
    }
    census.drop(1, &(0..1));
    census.files.clear();
    assert_eq!(once_idle(&census.take(&[])), []);
    assert_eq!(census.table.file(FileNo(0)), None);
    assert!(census.table.file(FileNo(1)).is_some());
    assert!(census.choose(1, Reads::Once).is_empty());
    census.ms += REMEMBERED_MS;
    for _ in 0..2 {
        census.take(&[]);
    }
    assert_eq!(census.table.file(FileNo(1)), None);
}

#[test]
fn a_file_that_can_not_be_dropped_is_not_offered_for_a_while() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..2 {
        census.take(&[(1, 0, 1)]);
    }
    let unreachable = |census: &Census| {
        let ages = census.table.ages();
        [0, 200, u64::MAX].map(|idle_ms| {
            ages.nr_unreachable_of(crate::page_cache::CacheClass::SmallFile, idle_ms)
        })
    };
    census.table.leave(TimeMs(census.ms), FileNo(0), true);
    assert_eq!(once_idle(&census.take(&[(1, 0, 1)])), [(0, 0)]);
    assert_eq!(unreachable(&census), [1, 1, 0], "read two censuses ago");
    census.ms += REMEMBERED_MS;
    assert_eq!(once_idle(&census.take(&[(1, 0, 1)])), [(0, 1)]);
    assert_eq!(unreachable(&census), [0; 3]);
    census.table.leave(TimeMs(census.ms), FileNo(0), false);
    census.take(&[(1, 0, 1)]);
    assert_eq!(unreachable(&census), [0; 3]);
}

#[test]
fn where_one_read_is_all_that_the_kernel_counts_nothing_is_known_to_be_read_once() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..3 {
        census.begin();
        census.table.see(page(1, 0, 1));
        assert_eq!(once_idle(&census.table.end(1)), [(0, 0)]);
    }
}

#[test]
fn where_nothing_goes_nothing_counts_as_dropped() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..2 {
        census.take(&[(1, 0, 1)]);
    }
    census.try_to_drop(0, &(0..1), 1, 0);
    let of = census.take(&[(1, 0, 1)]).files[0];
    assert_eq!(
        (of.dropped_bytes, of.returned_bytes, of.once_idle_bytes),
        (0, 0, 0)
    );
}

proptest! {
    /// The model keeps, of each page, its reads at the last census and since when they have not changed.
    #[test]
    fn what_lies_idle_is_what_a_dumb_model_says(
        censuses in prop::collection::vec(prop::collection::btree_map(0u64..1100, 0u32..6, 0..60), 1..12)
    ) {
        let mut census = Census::new();
        census.file(1, 11);
        let mut model: BTreeMap<u64, (u32, usize)> = BTreeMap::new();
        for (turn, pages) in censuses.iter().enumerate() {
            let told: Vec<_> = pages.iter().map(|(index, reads)| (1, *index, *reads)).collect();
            let sample = census.take(&told);
            let mut next = BTreeMap::new();
            for (index, reads) in pages {
                let since = match model.get(index) {
                    Some((before, since)) if before == reads => *since,
                    _ => turn,
                };
                next.insert(*index, (*reads, since));
            }
            model = next;
            let idle = model.iter().filter(|(_, (reads, since))| *reads == 1 && *since < turn);
            let idle: Vec<u64> = idle.map(|(index, _)| *index).collect();
            let number = sample.files.first().map_or(FileNo(0), |of| of.file);
            let chosen = census.choose(number.0, Reads::Once);
            prop_assert_eq!(chosen.into_iter().flatten().collect::<Vec<_>>(), idle.clone());
            let sum = sample.files.iter().map(|of| of.once_idle_bytes).sum::<u64>();
            prop_assert_eq!(sum, idle.len() as u64 * PAGE_BYTES);
        }
    }
}
