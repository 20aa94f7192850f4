//! What comes in, in which order it goes, and what is remembered of it, by example and against a dumb model.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;
use crate::page_cache::FileKey;

const CONFIG: admit_cache::Config = admit_cache::Config::DEFAULT;

fn none_admitted() -> Newcomers {
    let mut newcomers = Newcomers::new(admit_cache::Config {
        admitted_percent: 0,
        ..CONFIG
    });
    newcomers.remember(1 << 30);
    newcomers
}

fn folio(file: u64, index: u64, nr_pages: u64) -> Arrival {
    Arrival {
        file: FileId {
            device: 1,
            inode: file,
            generation: 1,
            key: FileKey(0),
            is_in_memory_only: false,
        },
        index,
        nr_pages,
    }
}

impl Newcomers {
    fn validate(&self) {
        let waiting = self.waiting.iter().map(|of| of.arrival.nr_pages);
        assert_eq!(waiting.sum::<u64>(), self.waiting_pages);
        let dues: Vec<TimeMs> = self.waiting.iter().map(|of| of.due).collect();
        assert!(dues.is_sorted(), "what may go first comes first");
        let ordered: HashSet<Chunk> = self.order.iter().map(|(chunk, _)| *chunk).collect();
        assert!(
            self.history.keys().all(|chunk| ordered.contains(chunk)),
            "what is remembered is forgotten one day"
        );
    }
}

fn chosen(newcomers: &mut Newcomers, ms: u64, nr_pages: u64) -> Vec<(u64, Vec<u64>)> {
    let by_file = newcomers.choose(TimeMs(ms), nr_pages * PAGE_BYTES);
    newcomers.validate();
    let by_file = by_file.into_iter().map(|(file, chosen)| {
        let indices = chosen.iter().map(|of| of.arrival.index).collect();
        (file.inode, indices)
    });
    by_file.collect()
}

#[test]
fn a_distance_is_how_much_else_came_in_between() {
    let mut newcomers = none_admitted();
    for _ in 0..2 {
        for file in 0..64 {
            // A large file comes in one folio after the other.
            newcomers.arrive(TimeMs(0), folio(file, 0, 60));
            newcomers.arrive(TimeMs(0), folio(file, 60, 4));
        }
    }
    let distances = newcomers.look(TimeMs(0)).distances;
    // 63 other files of 256 KiB.
    let nr_pages = 64 * 64;
    let expected = Distances {
        nr_pages,
        sum_mib: nr_pages * 15,
        sum_mib2: nr_pages * 225,
    };
    assert_eq!(distances, expected);
    assert_eq!(newcomers.look(TimeMs(0)).distances, Distances::default());
}

#[test]
fn a_file_that_has_the_number_of_another_one_had_not_been_in_memory() {
    let mut newcomers = none_admitted();
    let first = folio(1, 0, 8);
    let mut second = first;
    second.file.generation += 1;
    newcomers.arrive(TimeMs(0), first);
    newcomers.arrive(TimeMs(0), second);
    assert_eq!(newcomers.look(TimeMs(0)).returned_bytes, 0);
}

#[test]
fn what_came_in_is_forgotten_once_so_much_came_in_after_it() {
    let mut newcomers = none_admitted();
    newcomers.remember(1000 * PAGE_BYTES);
    for file in 0..200 {
        newcomers.arrive(TimeMs(0), folio(file, 0, 10));
        newcomers.validate();
    }
    assert!(newcomers.history.len() <= 101);
    newcomers.look(TimeMs(0));
    newcomers.arrive(TimeMs(0), folio(0, 0, 10));
    assert_eq!(newcomers.look(TimeMs(0)).returned_bytes, 0);
    newcomers.arrive(TimeMs(0), folio(150, 0, 10));
    assert_eq!(newcomers.look(TimeMs(0)).returned_bytes, 10 * PAGE_BYTES);
}

#[test]
fn what_came_last_goes_first_once_there_was_time_to_read_it() {
    let mut newcomers = none_admitted();
    for (at, file, index) in [(0, 7, 0), (10, 8, 3), (20, 7, 1), (30, 9, 0)] {
        newcomers.arrive(TimeMs(at), folio(file, index, 1));
    }
    let ripe_at = NEWCOMER_MS + 20;
    assert_eq!(newcomers.look(TimeMs(ripe_at)).ripe_bytes, 3 * PAGE_BYTES);
    let gone = chosen(&mut newcomers, ripe_at, 2);
    assert_eq!(gone, [(7, vec![1]), (8, vec![3])]);
    assert_eq!(chosen(&mut newcomers, ripe_at, 9), [(7, vec![0])]);
    assert_eq!(chosen(&mut newcomers, ripe_at, 9), []);
    assert_eq!(newcomers.look(TimeMs(ripe_at)).ripe_bytes, 0);
    assert_eq!(chosen(&mut newcomers, ripe_at + 10, 9), [(9, vec![0])]);
}

#[test]
fn of_newcomers_go_those_that_were_read_once_and_are_not_mapped() {
    let mut newcomers = none_admitted();
    for index in [514, 510, 511, 512, 513, 516, 600] {
        newcomers.arrive(TimeMs(0), folio(1, index, 1));
    }
    let now = TimeMs(NEWCOMER_MS);
    let (_, chosen) = newcomers.choose(now, 7 * PAGE_BYTES).remove(0);
    let going = newcomers.judge(now, chosen, |ranges| {
        assert_eq!((ranges.len(), &ranges[0]), (7, &(510..511)));
        // 600 is gone. The one beside them is no newcomer.
        let found = (510..=516).map(|index| PageFound {
            file: FileKey(0),
            index,
            nr_pages: 1,
            nr_reads: 1,
            is_busy: false,
            is_referenced: index != 516,
            is_mapped: index == 513,
        });
        found.collect()
    });
    assert_eq!(going, [510..512, 512..513, 514..515]);
    newcomers.validate();
    let waits = newcomers.waiting.iter().map(|of| of.arrival.index);
    assert_eq!(waits.collect::<Vec<_>>(), [516], "nobody has read it yet");
}

#[test]
fn what_nobody_has_read_yet_waits_again_until_it_is_no_newcomer_any_more() {
    let mut newcomers = none_admitted();
    newcomers.arrive(TimeMs(0), folio(1, 0, 1));
    let mut now = TimeMs(NEWCOMER_MS);
    let mut nr_times = 0;
    loop {
        let found = newcomers.choose(now, PAGE_BYTES);
        let Some(newcomer) = found.first().and_then(|(_, of)| of.first().copied()) else {
            break;
        };
        nr_times += 1;
        newcomers.put_back(now, newcomer);
        newcomers.validate();
        now.0 += NEWCOMER_MS;
    }
    assert_eq!(nr_times, SETTLED_MS / NEWCOMER_MS);
}

#[test]
fn what_has_been_there_for_long_is_no_newcomer() {
    let mut newcomers = none_admitted();
    newcomers.arrive(TimeMs(0), folio(1, 0, 1));
    newcomers.arrive(TimeMs(1), folio(2, 0, 1));
    let came_in = newcomers.look(TimeMs(SETTLED_MS));
    assert_eq!(came_in.ripe_bytes, PAGE_BYTES);
}

#[test]
fn a_share_of_what_comes_in_stays_and_it_is_not_always_the_same() {
    let mut newcomers = Newcomers::new(CONFIG);
    newcomers.remember(1 << 30);
    let mut ever = HashSet::new();
    let mut nr_stayed = Vec::new();
    for pass in 0..20 {
        let now = TimeMs(pass * 1000);
        for file in 0..2000 {
            newcomers.arrive(now, folio(file, 0, 10));
        }
        let later = TimeMs(now.0 + NEWCOMER_MS);
        let gone = newcomers.choose(later, u64::MAX);
        let gone: BTreeSet<u64> = gone.iter().map(|(file, _)| file.inode).collect();
        ever.extend((0..2000).filter(|file| !gone.contains(file)));
        nr_stayed.push(2000 - gone.len());
    }
    assert!(
        nr_stayed.iter().all(|nr| (160..=320).contains(nr)),
        "{nr_stayed:?}"
    );
    assert!(ever.len() > 1600, "{}", ever.len());
}

#[test]
fn a_large_folio_stays_as_often_as_a_small_one() {
    let mut newcomers = Newcomers::new(CONFIG);
    newcomers.remember(1 << 40);
    for file in 0..2000 {
        newcomers.arrive(TimeMs(0), folio(file, 0, 512));
    }
    let gone = newcomers.choose(TimeMs(NEWCOMER_MS), u64::MAX);
    assert!((1680..=1840).contains(&gone.len()), "{}", gone.len());
}

#[test]
fn the_kernels_marks_tell_what_is_to_become_of_a_newcomer() {
    let verdict = |is_returned, nr_reads, is_referenced, is_busy| {
        let newcomer = Newcomer {
            arrival: folio(1, 0, 1),
            at: TimeMs(0),
            due: TimeMs(0),
            is_returned,
        };
        newcomer.verdict(&PageFound {
            file: FileKey(1),
            index: 0,
            nr_pages: 1,
            nr_reads,
            is_busy,
            is_referenced,
            is_mapped: false,
        })
    };
    assert_eq!(verdict(false, 0, false, false), Verdict::Unread);
    assert_eq!(verdict(false, 1, true, false), Verdict::Goes);
    assert_eq!(verdict(false, 1, true, true), Verdict::Stays);
    assert_eq!(verdict(false, 3, true, false), Verdict::Stays);
    // The second read makes a page active, and takes the first mark away.
    assert_eq!(verdict(false, 2, false, false), Verdict::Stays);
    // The kernel evicted it, and made it active when it came back: that is no read.
    assert_eq!(verdict(true, 2, false, false), Verdict::Unread);
    assert_eq!(verdict(true, 3, true, false), Verdict::Goes);
}

#[test]
fn what_can_not_be_is_left_out() {
    let mut newcomers = none_admitted();
    newcomers.arrive(TimeMs(0), folio(1, u64::MAX, 2));
    newcomers.arrive(TimeMs(0), folio(1, 0, 0));
    assert_eq!(newcomers.look(TimeMs(0)), CameIn::default());
}

proptest! {
    #[test]
    fn what_came_in_before_is_what_a_dumb_model_says(
        steps in prop::collection::vec((0u64..6, 0u64..200, 1u64..90, 0u64..30), 1..300)
    ) {
        let mut newcomers = none_admitted();
        let (mut seen, mut now) = (HashSet::new(), 0);
        let (mut nr_in, mut nr_again, mut waiting) = (0, 0, Vec::new());
        for (file, index, nr_pages, ms) in steps {
            now += ms;
            newcomers.arrive(TimeMs(now), folio(file, index, nr_pages));
            newcomers.validate();
            nr_in += nr_pages;
            let again = (index..index + nr_pages).filter(|page| !seen.insert((file, *page)));
            let nr_returned = again.count() as u64;
            nr_again += nr_returned;
            waiting.push((now, nr_pages));
            let ripe = waiting.iter().filter(|(at, _)| at + NEWCOMER_MS <= now);
            let nr_ripe: u64 = ripe.map(|(_, nr_pages)| nr_pages).sum();
            let found = newcomers.look(TimeMs(now));
            let found = [found.in_bytes, found.returned_bytes, found.ripe_bytes];
            prop_assert_eq!(found, [nr_pages, nr_returned, nr_ripe].map(|of| of * PAGE_BYTES));
        }
        prop_assert_eq!(newcomers.totals_bytes(), (nr_in * PAGE_BYTES, nr_again * PAGE_BYTES));
    }
}
