//! Pages that leave memory and come back: what counts in which tier, and what a dry run plays.

use super::*;

/// By tier: pages that were dropped, reclaimed, refaulted, protected.
fn counts(census: &Census) -> [[u64; 4]; NR_TIERS] {
    census.table.tiers().map(|of| {
        [
            of.nr_dropped_pages,
            of.nr_reclaimed_pages,
            of.nr_refaulted_pages,
            of.nr_protected_pages,
        ]
    })
}

#[test]
fn what_is_reclaimed_of_a_file_that_no_search_tells_any_more_is_remembered_for_a_while() {
    let mut census = Census::new();
    census.file(1, 11);
    census.take(&[(1, 0, 1), (1, 1, 1)]);
    census.take(&[(1, 1, 1)]);
    let id = census.files.remove(&FileKey(1)).unwrap();
    census.take(&[]);
    census.files.insert(FileKey(1), id);
    census.take(&[(1, 0, 1), (1, 1, 1)]);
    assert_eq!(counts(&census)[0], [0, 1, 1, 0]);
    census.files.clear();
    census.ms += REMEMBERED_MS;
    census.take(&[]);
    assert_eq!(census.table.file(FileNo(0)), None);
}

#[test]
fn what_is_mapped_or_truncated_has_not_left_memory() {
    let mut census = Census::new();
    census.file(1, 11);
    let all: Vec<_> = (0..4).map(|index| (1, index, 2)).collect();
    for _ in 0..2 {
        census.take(&all);
    }
    let mapped = PageFound {
        is_mapped: true,
        ..page(1, 1, 0)
    };
    census.begin();
    census.table.see(page(1, 0, 2));
    census.table.see(mapped);
    census.table.forget(FileKey(1), 3..FILE_PAGES_MAX);
    let sample = census.table.end(5);
    assert_eq!(sample.files[0].cached_bytes, PAGE_BYTES);
    assert_eq!(counts(&census)[1], [0, 1, 0, 0], "page 2 has");
    // Whoever maps a page that was gone has it read in.
    census.take_folios(&[PageFound { index: 2, ..mapped }]);
    assert_eq!(counts(&census)[1], [0, 2, 1, 0], "and page 0 has, too");
}

#[test]
fn pages_read_longer_ago_than_what_was_dropped_are_protected_by_their_tier() {
    let mut census = Census::new();
    census.file(1, 11);
    census.file(2, 12);
    // Read before the stream: two of another file in higher tiers, one as often as is counted, one that is dirty.
    let older = [(2, 0, 2), (2, 1, 4), (2, 2, 5)];
    let dirty = PageFound {
        is_busy: true,
        ..page(2, 3, 2)
    };
    let take = |census: &mut Census, pages: &[(u64, u64, u32)]| {
        let pages = pages.iter().map(|of| page(of.0, of.1, of.2));
        census.take_folios(&pages.chain([dirty]).collect::<Vec<_>>());
    };
    take(&mut census, &older);
    let streamed = [older[0], older[1], older[2], (1, 0, 1)];
    take(&mut census, &streamed);
    // Read after what goes.
    let later = [older[0], older[1], older[2], (1, 0, 1), (2, 4, 2)];
    take(&mut census, &later);
    let protected = |census: &Census| counts(census).map(|of| of[3]);
    assert_eq!(protected(&census), [0; 4], "nothing was dropped");
    census.drop(0, &(0..1));
    let left = [older[0], older[1], older[2], (2, 4, 2), (1, 1, 1)];
    for _ in 0..2 {
        take(&mut census, &left);
        assert_eq!(protected(&census), [0, 1, 1, 0], "each counts once");
    }
    // Page 1 is read again, and more is dropped.
    let read = [older[0], (2, 1, 3), older[2], (2, 4, 2), (1, 1, 1)];
    take(&mut census, &read);
    let after = [
        older[0],
        (2, 1, 3),
        older[2],
        (2, 4, 2),
        (1, 1, 1),
        (1, 2, 1),
    ];
    for _ in 0..2 {
        take(&mut census, &after);
    }
    census.drop(0, &(2..3));
    take(&mut census, &after[..5]);
    assert_eq!(protected(&census), [0, 2, 2, 0], "page 4 and page 1 again");
}

#[test]
fn what_went_before_it_could_be_dropped_was_reclaimed() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..2 {
        census.take(&[(1, 0, 1), (1, 1, 1), (1, 2, 1), (1, 3, 1)]);
    }
    // One went before, one is in use.
    census.try_to_drop(0, &(0..4), 3, 2);
    assert_eq!(counts(&census)[0], [2, 1, 0, 0]);
    let of = census.take(&[(1, 3, 1)]).files[0];
    assert_eq!(of.dropped_bytes, 2 * PAGE_BYTES);
    assert_eq!(counts(&census)[0], [2, 1, 0, 0], "each counts once");
}

#[test]
fn what_is_counted_elsewhere_when_it_goes_is_no_eviction_of_a_tier() {
    let mut census = Census::new();
    census.file(1, 11);
    census.take(&[(1, 0, 1), (1, 1, 1)]);
    census.table.note_counted(FileKey(1), 0..1);
    let sample = census.take(&[]);
    assert_eq!(counts(&census)[0], [0, 1, 0, 0], "page 1");
    assert_eq!(sample.new_bytes, 0);
    assert_eq!(census.take(&[(1, 0, 1)]).new_bytes, PAGE_BYTES);
    assert_eq!(counts(&census)[0], [0, 1, 0, 0]);
}

#[test]
fn a_range_has_pages_of_one_tier() {
    let mut census = Census::new();
    census.file(1, 11);
    let pages = [(1, 0, 2), (1, 1, 2), (1, 2, 4), (1, 3, 3), (1, 4, 2)];
    census.take(&pages);
    census.ms += drop_cache::Config::DEFAULT.again_idle_ms;
    census.take(&pages);
    let chosen = census.choose(0, Reads::Again);
    assert_eq!(chosen, [0..2, 2..4, 4..5]);
    census.try_to_drop(0, &chosen[1], 2, 1);
    let dropped = counts(&census).map(|of| of[0]);
    assert_eq!(dropped, [0, 0, 1, 0]);
}

#[test]
fn pages_of_a_tier_that_comes_back_stay_until_that_is_forgotten() {
    const NR_PAGES: u64 = 200;
    let mut census = Census::new();
    census.file(1, 11);
    let read_twice: Vec<_> = (0..NR_PAGES).map(|index| (1, index, 2)).collect();
    let others = [(1, 1000, 2), (1, 1001, 4)];
    let all: Vec<_> = read_twice.iter().copied().chain(others).collect();
    census.take(&all);
    // The kernel takes pages of one tier, and they come back at once.
    census.take(&others);
    census.take(&all);
    assert_eq!(counts(&census)[1], [0, NR_PAGES, NR_PAGES, 0]);
    let again_idle_ms = drop_cache::Config::DEFAULT.again_idle_ms;
    let mut may_go = Vec::new();
    for _ in 0..3 {
        census.ms += again_idle_ms;
        let idle_bytes = census.take(&others).files[0].again_idle_bytes;
        let chosen = census.choose(0, Reads::Again);
        let nr_chosen = chosen.into_iter().flatten().count() as u64;
        assert_eq!(nr_chosen * PAGE_BYTES, idle_bytes);
        may_go.push(nr_chosen);
    }
    // What came back counts half after each minute, and fewer than 64 pages are no proof.
    assert_eq!(may_go, [0, 2, 2]);
}

#[test]
fn a_page_that_is_played_to_be_dropped_counts_as_gone_until_it_is_read_again() {
    let mut census = Census::new();
    census.file(1, 11);
    let all: Vec<_> = (0..4).map(|index| (1, index, 1)).collect();
    for _ in 0..2 {
        census.take(&all);
    }
    let play = |census: &mut Census, range: Range<u64>| {
        let now = TimeMs(census.ms + 1);
        census.table.play_dropped(now, FileNo(0), &range);
    };
    for _ in 0..2 {
        play(&mut census, 0..3);
        assert_eq!(census.table.nr_played_pages(), 3, "each counts once");
    }
    for _ in 0..3 {
        let chosen = census.choose(0, Reads::Once);
        assert_eq!(chosen, vec![3..4], "what is gone does not go again");
        let sample = census.take(&all);
        let of = sample.files[0];
        assert_eq!(of.cached_bytes, PAGE_BYTES, "as if they were gone");
        assert_eq!((of.dropped_bytes, of.returned_bytes), (3 * PAGE_BYTES, 0));
        assert_eq!(sample.new_bytes, 0);
        assert_eq!(census.table.nr_played_pages(), 3);
    }
    // Page 0 is read again. The kernel takes page 1, or it is freed.
    let sample = census.take(&[(1, 0, 2), (1, 2, 1), (1, 3, 1)]);
    assert_eq!(census.table.nr_played_pages(), 1);
    assert_eq!(sample.files[0].returned_bytes, PAGE_BYTES);
    assert_eq!(sample.files[0].cached_bytes, 2 * PAGE_BYTES);
    assert_eq!(
        sample.new_bytes, PAGE_BYTES,
        "in a run it would have come in"
    );
    assert_eq!(census.table.nr_returned_pages(), 1);
    // Page 1 comes in again, and page 2 is mapped.
    let mapped = PageFound {
        is_mapped: true,
        ..page(1, 2, 0)
    };
    let [zero, one, three] = [0, 1, 3].map(|index| page(1, index, 2));
    census.take_folios(&[zero, one, three, mapped]);
    assert_eq!(census.table.nr_played_pages(), 0);
    assert_eq!(counts(&census)[0], [0, 0, 3, 0], "nothing was dropped");
}

#[test]
fn pages_that_are_played_to_be_dropped_are_not_taken_off_usage_once_nobody_looks_at_their_file() {
    let mut census = Census::new();
    census.file(1, 11);
    for _ in 0..2 {
        census.take(&[(1, 0, 1), (1, 1, 1)]);
    }
    let now = TimeMs(census.ms);
    census.table.play_dropped(now, FileNo(0), &(0..1));
    let id = census.files.remove(&FileKey(1)).unwrap();
    census.take(&[]);
    assert_eq!(census.table.nr_played_pages(), 0);
    // It is read again, which the next census that looks finds.
    census.files.insert(FileKey(1), id);
    census.take(&[(1, 0, 2), (1, 1, 1)]);
    assert_eq!(counts(&census)[0], [0, 0, 1, 0]);
}

proptest! {
    /// The model keeps the reads of each page in memory, and of each that left: its tier, how and when.
    #[test]
    fn what_becomes_of_pages_by_tier_is_what_a_dumb_model_says(
        turns in prop::collection::vec(
            (prop::collection::btree_map(0u64..1100, 0u32..7, 0..40), 0u64..1100, 0u64..30_000),
            1..16,
        )
    ) {
        let mut census = Census::new();
        census.file(1, 11);
        let tier = |nr_reads: u32| [0, 0, 1, 2, 2, 3, 3][nr_reads as usize];
        let mut expected = [[0; 3]; NR_TIERS];
        let mut there: BTreeMap<u64, u32> = BTreeMap::new();
        // Its tier, when it went, and whether it was dropped.
        let mut gone: BTreeMap<u64, (usize, u64, bool)> = BTreeMap::new();
        let mut nr_returned = 0;
        for (pages, dropped, pause_ms) in turns {
            census.ms += pause_ms / 10 * 10;
            let told: Vec<_> = pages.iter().map(|(index, reads)| (1, *index, *reads)).collect();
            census.take(&told);
            let now = census.ms;
            for (index, nr_reads) in &pages {
                if *nr_reads == 0 {
                    // Only read ahead: from now on it is remembered for as long again.
                    gone.entry(*index).and_modify(|(_, at, _)| *at = now);
                } else if let Some((tier, at, was_dropped)) = gone.remove(index)
                    && now - at <= REMEMBERED_MS
                {
                    expected[tier][2] += 1;
                    nr_returned += u64::from(was_dropped);
                }
            }
            gone.retain(|index, (_, at, _)| pages.contains_key(index) || now - *at <= REMEMBERED_MS);
            for (index, nr_reads) in &there {
                if !pages.contains_key(index) {
                    expected[tier(*nr_reads)][1] += 1;
                    gone.entry(*index)
                        .or_insert_with(|| (tier(*nr_reads), now, false));
                }
            }
            there = pages;
            let chosen = census.choose(0, Reads::Once);
            if let Some(range) = chosen.iter().find(|range| range.end > dropped) {
                census.drop(0, range);
                for index in range.clone() {
                    let nr_reads = there.remove(&index).unwrap();
                    expected[tier(nr_reads)][0] += 1;
                    gone.insert(index, (tier(nr_reads), now, true));
                }
            }
            let found = counts(&census).map(|[dropped, reclaimed, refaulted, _]| {
                [dropped, reclaimed, refaulted]
            });
            prop_assert_eq!(found, expected);
            prop_assert_eq!(census.table.nr_returned_pages(), nr_returned);
        }
    }
}

#[test]
fn pages_of_a_deleted_file_that_is_open_lie_idle_as_those_of_any_file() {
    let mut census = Census::new();
    census.file(1, 11);
    for nr_before in 0..3 {
        census.begin();
        for index in 0..4 {
            census.table.see(page(1, index, 1));
        }
        // Its length is told to be 0.
        census.table.forget(FileKey(1), 0..u64::MAX);
        let sample = census.table.end(5);
        assert_eq!(sample.new_bytes, 0, "census {nr_before}");
        let idle = if nr_before > 0 { 4 } else { 0 };
        assert_eq!(once_idle(&sample), [(0, idle)]);
        assert_eq!(sample.files[0].cached_bytes, 4 * PAGE_BYTES);
    }
    assert_eq!(census.choose(0, Reads::Once), vec![0..4]);
}

#[test]
fn what_is_gone_when_it_is_tried_counts_at_the_next_census_and_what_was_truncated_does_not() {
    for is_truncated in [false, true] {
        let mut census = Census::new();
        census.file(1, 11);
        let pages = [(1, 0, 1), (1, 1, 1), (1, 9, 1)];
        census.take(&pages);
        census.take(&pages);
        census.try_to_drop(0, &(0..2), 0, 0);
        assert_eq!(census.table.tiers()[0].nr_reclaimed_pages, 0);
        census.begin();
        census.table.see(page(1, 9, 1));
        if is_truncated {
            census.table.forget(FileKey(1), 0..9);
        }
        census.table.end(5);
        let nr_reclaimed = census.table.tiers()[0].nr_reclaimed_pages;
        assert_eq!(nr_reclaimed, if is_truncated { 0 } else { 2 });
    }
}

#[test]
fn what_was_freed_between_two_censuses_was_not_reclaimed_and_may_not_be_dropped() {
    let mut census = Census::new();
    census.file(1, 11);
    let pages = [(1, 0, 1), (1, 1, 1), (1, 2, 1)];
    census.take(&pages);
    census.take(&pages);
    census.table.freed(FileKey(1), 0..2);
    let chosen = census.choose(0, Reads::Once);
    let left = 2..3;
    assert_eq!(chosen, std::slice::from_ref(&left));
    census.take(&pages[2..]);
    assert_eq!(census.table.tiers(), [TierCounts::default(); NR_TIERS]);
}

#[test]
fn a_played_page_whose_count_the_kernel_lets_fall_was_not_read() {
    let mut census = Census::new();
    census.file(1, 11);
    census.take(&[(1, 0, 1), (1, 1, 1)]);
    census.take(&[(1, 0, 1), (1, 1, 1)]);
    let now = TimeMs(census.ms + 1);
    census.table.play_dropped(now, FileNo(0), &(0..2));
    census.take(&[(1, 0, 0), (1, 1, 1)]);
    assert_eq!(census.table.nr_played_pages(), 2);
    let sample = census.take(&[(1, 0, 1), (1, 1, 1)]);
    assert_eq!(census.table.nr_played_pages(), 1, "the next read tells");
    assert_eq!(sample.files[0].returned_bytes, PAGE_BYTES);
}
