//! Before anything has come back the least recently used goes, and nothing else.

use proptest::prelude::*;

use super::*;

/// What an LRU of so many pages holds, the least recently used first.
fn read(lru: &mut Vec<usize>, nr_pages_max: usize, page: usize) {
    match lru.iter().position(|of| *of == page) {
        Some(position) => {
            lru.remove(position);
        }
        None if lru.len() == nr_pages_max => {
            lru.remove(0);
        }
        None => {}
    }
    lru.push(page);
}

proptest! {
    #[test]
    fn until_something_comes_back_memory_holds_what_was_used_last(
        // How far back the next access goes; beyond what is held it is to a new page.
        distances in proptest::collection::vec(0..20_usize, 1..400),
        nr_pages_max in 5..40_usize,
    ) {
        let mut memory = Memory::new(nr_pages_max, distances.len());
        let mut lru = Vec::new();
        let mut nr_new = 0;
        for distance in distances {
            let held = lru.len().checked_sub(1 + distance).map(|position| lru[position]);
            let page = held.unwrap_or(nr_new);
            nr_new += usize::from(held.is_none());
            memory.read(page);
            read(&mut lru, nr_pages_max, page);
            memory.policy.validate().unwrap();
            let mut held = lru.clone();
            held.sort_unstable();
            let resident = (0..nr_new).filter(|page| memory.resident[*page].is_some());
            prop_assert_eq!(resident.collect::<Vec<_>>(), held);
        }
    }
}

#[test]
fn phases_that_just_fit_are_changed_for_nothing() {
    let nr_misses = |nr_pages_max| misses_of_phases(Memory::new(nr_pages_max, 6000), 6);
    assert_eq!(nr_misses(1000), nr_misses(6000));
    assert!(misses_of_phases(with_returns(1000, 6), 6) > nr_misses(6000));
}

#[test]
fn what_comes_back_ends_it_and_the_oldest_are_taken_for_proven_again() {
    let mut memory = Memory::new(100, 1000);
    // One is accessed again and again, so this is no scan, and room is made by those that were there first.
    memory.read_all((1..160).flat_map(|page| [page, 1]));
    let nr_proven = |memory: &Memory| {
        let resident = memory.resident.iter().flatten();
        let is_proven = |folio: &&FolioId| memory.policy.is_proven(**folio) == Some(true);
        resident.filter(is_proven).count()
    };
    assert_eq!(nr_proven(&memory), 75 - 59);
    memory.read_all([2]);
    assert_eq!(nr_proven(&memory), 75);
    assert!(!memory.policy.books.lruvecs[0].is_filling());
}

#[test]
fn a_kind_that_may_not_go_is_passed_over() {
    let mut memory = Memory::new(100, 300);
    for page in 0..100 {
        memory.kind = Kind::ALL[page % 2];
        memory.read(page);
    }
    for (value, left) in [(0, Kind::File), (201, Kind::Anon), (0, Kind::File)] {
        let mut batch = EvictBatch::default();
        let request = ReclaimRequest {
            swappiness: Swappiness::try_new(value).unwrap(),
            ..ReclaimRequest::new(memory.group, 10)
        };
        let end = memory.policy.isolate(request, TimeMs(0), &mut batch);
        assert_eq!(end.unwrap(), Isolated::Pages(10));
        let kinds = batch.folios.iter().map(|folio| memory.policy.kind(*folio));
        assert!(kinds.into_iter().all(|kind| kind == left));
        memory.policy.complete(&mut batch, &[Verdict::NotTried; 10]);
        memory.policy.validate().unwrap();
    }
}
